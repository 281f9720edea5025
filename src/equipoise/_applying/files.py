"""``apply_files``: a source of files into a destination of files, piece by piece."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from equipoise._applying.journal import Journal, Manifest, Run, journal_at, require_same
from equipoise._applying.report import ApplyReport, certificate, merged, read_totals
from equipoise._artefact import sha256
from equipoise._engines import threads
from equipoise._engines.shard import Done, Job, Piece, part_name, target_header
from equipoise._engines.transform import Transform
from equipoise._paths import target_of, without_secrets
from equipoise._progress import progress
from equipoise._stores.folder import MANIFEST as STORE_MANIFEST
from equipoise._stores.folder import metadata_path, shard_path
from equipoise._stores.layout import Layout, SourceFile, look_at
from equipoise._stores.locations import PART, LocalPlace, Place, place, split, unwritable
from equipoise._stores.lock import LOCK, alone_in
from equipoise.errors import ArtefactError, InputError

Engine = Callable[[Job, list[Piece]], Iterator[Done]]
OURS = (LOCK, PART)


@dataclass(frozen=True)
class Options:
    """How files are found and what becomes of rows without a direction."""

    rows: str | None = None
    metadata: str | None = None
    column: str | None = None
    modality: Literal["image", "text"] | None = None
    keep_invalid: bool = False


DEFAULT = Options()


@dataclass(frozen=True)
class Plan:
    """What a run will do, all of it checked.

    destination: as it was given, and ``where`` the folder that it is, or lies in.
    """

    destination: str
    layout: Layout
    job: Job
    where: Place
    journal: Journal
    lock: str
    run: Run

    @property
    def certify_theory(self) -> bool:
        return all(
            self.job.transform.for_modality(file.modality).operator is None
            for file in self.layout.files
            if file.kind != "copy"
        )


def plan(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    transform: Transform,
    options: Options,
) -> Plan:
    """Look at every file of the source, and raise for whatever cannot be done."""
    if not os.fspath(destination):
        raise InputError("the destination is empty; pass the file or folder to write")
    found, layout = look_at(
        source,
        rows=options.rows,
        metadata=options.metadata,
        column=options.column,
        modality=options.modality,
    )
    if not layout.single and journal_at(found).unfinished():
        raise InputError(
            f"{found} holds an unfinished run, and not all of its files; go on with equipoise apply"
            " `resume` there first"
        )
    first = layout.first
    transform = replace(transform, encoder=layout.encoder)
    modalities = {file.modality for file in layout.files if file.kind != "copy"}
    transform.require(
        layout.encoder, first.dim or transform.in_dim, first.dtype, modalities
    )  # nothing has no width
    where, prefix, targets = _targets(destination, layout)
    _require_apart(found, layout, where, targets)
    job = Job(
        found.address(), where.address(), layout.files, transform, options.keep_invalid, targets
    )
    run = Run(
        source=without_secrets(source),
        transform=transform.identity(first.dtype),
        encoder=layout.encoder,
        files=layout.files,
    )
    return Plan(
        without_secrets(destination),
        layout,
        job,
        where,
        journal_at(where, prefix),
        f".{prefix}{LOCK}" if prefix else LOCK,
        run,
    )


def apply_files(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    transform: Transform,
    options: Options = DEFAULT,
    *,
    engine: Engine = threads.run,
    resume: bool = False,
) -> ApplyReport:
    """Debias every row of ``source`` into ``destination``, which gets the same files.

    The source is never changed.
    """
    if engine is threads.run:
        transform.require_device()
    todo = plan(source, destination, transform, options)
    with ExitStack() as stack:
        if isinstance(todo.where, LocalPlace):
            stack.enter_context(alone_in(todo.where.folder, todo.lock))
        return _apply(todo, engine, resume)


def _apply(todo: Plan, engine: Engine, resume: bool) -> ApplyReport:
    started = time.monotonic()
    finished = todo.journal.manifest()
    done = {part.piece: part for part in _started(todo, finished, resume)}
    wanted = todo.job.pieces()
    left = [piece for piece in wanted if piece not in done]
    if finished is not None and not left:
        if not todo.where.is_file(STORE_MANIFEST):
            _finish_store(todo)
        found = _certificate(todo, [done[piece] for piece in wanted])
        return ApplyReport(todo.destination, 0, 0, 0, time.monotonic() - started, found)
    missing: dict[int, set[Piece]] = {}
    for piece in left:
        missing.setdefault(piece.file, set()).add(piece)
    _require_space(todo, sum(_bytes_of(todo.layout.files[piece.file], piece) for piece in left))
    rows, written = sum(piece.stop - piece.start for piece in left), 0
    with progress("debiasing", rows, size=todo.layout.bytes / max(1, todo.layout.rows)) as advance:
        for part in engine(todo.job, left):
            todo.journal.add(part)
            done[part.piece] = part
            written += part.bytes
            missing[part.file].discard(part.piece)
            if not missing[part.file]:
                _publish(todo, part.file)
            if todo.layout.files[part.file].kind != "copy":
                advance(part.stop - part.start)
    _remove_left_overs(todo, gathering=False)
    parts = [done[piece] for piece in wanted]
    merged_certificate = _certificate(todo, parts)
    _finish_store(todo)
    todo.journal.finish(Manifest(**dict(todo.run), shards=parts, certificate=merged_certificate))
    return ApplyReport(
        todo.destination, rows, written, len(left), time.monotonic() - started, merged_certificate
    )


def _started(todo: Plan, finished: Manifest | None, resume: bool) -> list[Done]:
    """The pieces that need not be done again."""
    found = (finished, finished.shards) if finished else todo.journal.read()
    if found is None:
        if _holds_something(todo):
            raise InputError(
                f"{todo.destination} exists and holds something else; pass a new destination"
            )
        todo.journal.begin(todo.run)
        return []
    require_same(found[0], todo.run, todo.destination, finished is not None, resume)
    _remove_left_overs(todo)
    kept = _still_there(todo, found[1])
    if finished is None or len(kept) < len(finished.shards):
        todo.journal.resume(todo.run, kept)
    return kept


def _still_there(todo: Plan, done: list[Done]) -> list[Done]:
    """Those whose bytes are where the journal says; a file all of whose pieces are there gets its
    name.
    """
    pieces = set(todo.job.pieces())
    wanted = Counter(piece.file for piece in pieces)
    by_file: dict[int, dict[Piece, Done]] = {}
    for part in done:
        if part.piece in pieces:  # a damaged line may name another
            by_file.setdefault(part.file, {})[part.piece] = part
    kept = []
    for i, here in by_file.items():
        file = todo.layout.files[i]
        target = todo.job.target(file)
        whole = len(here) == wanted[i]
        size = (
            _target_size(todo.job, file)
            if file.kind == "npy"
            else sum(part.bytes for part in here.values())
        )
        if whole and todo.where.is_file(target) and todo.where.stamp(target)[0] == size:
            kept += here.values()
        elif (
            file.kind == "npy"
            and isinstance(todo.where, LocalPlace)
            and _size(todo.where, part_name(target)) == size
        ):
            kept += here.values()
            if whole:
                _publish(todo, i)
    return kept


def _size(where: LocalPlace, name: str) -> int:
    return where.stamp(name)[0] if where.is_file(name) else -1


def _target_size(job: Job, file: SourceFile) -> int:
    header = target_header(job, file)
    return len(header.raw) + header.rows * header.row_bytes


def _publish(todo: Plan, index: int) -> None:
    """All pieces of a .npy file are on the disk: it gets its name."""
    file = todo.layout.files[index]
    if file.kind != "npy" or not isinstance(todo.where, LocalPlace):
        return
    path = todo.where.path(todo.job.target(file))
    with unwritable(str(path)):
        os.replace(todo.where.path(part_name(todo.job.target(file))), target_of(path))
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _certificate(todo: Plan, parts: list[Done]) -> dict[str, Any]:
    rows = (part for part in parts if part.totals is not None)
    totals = merged(
        (todo.layout.files[part.file].modality, read_totals(part.totals)) for part in rows
    )
    return certificate(
        totals, todo.certify_theory, todo.job.transform.certifies or todo.certify_theory
    )


def _finish_store(todo: Plan) -> None:
    """A store that ``equipoise embed`` wrote stays one, where all of it was asked for."""
    if todo.layout.store is None or not isinstance(todo.where, LocalPlace):
        return
    store = todo.layout.store.model_copy(deep=True)
    paths = [
        path
        for i in range(len(store.shards))
        for path in (shard_path(Path(), store.modality, i), metadata_path(Path(), i))
    ]
    if not {path.as_posix() for path in paths} <= {file.name for file in todo.layout.files}:
        return
    for i, shard in enumerate(store.shards):
        shard.sha256 = sha256(shard_path(todo.where.folder, store.modality, i))
    store.dim = todo.job.transform.out_dim
    store.debiased = " then ".join(filter(None, (store.debiased, str(todo.run.transform))))
    with unwritable(str(todo.where)), todo.where.writing(STORE_MANIFEST) as file:
        file.write(store.model_dump_json(indent=1).encode())


def _targets(destination: str | os.PathLike, layout: Layout) -> tuple[Place, str, dict[str, str]]:
    """The folder to write to; for a single file to a single file, its new name too.

    A folder of Spark's may be called x.parquet.
    """
    name, given = layout.first.name, os.fspath(destination)
    if layout.single and given.endswith((".npy", ".parquet")):
        if not given.endswith(suffix := Path(name).suffix):
            raise InputError(
                f"{name} stays a {suffix} file, and {without_secrets(given)} is called another;"
                f" pass a name that ends in {suffix}, or a folder"
            )
        where, target = split(destination)
        return where, target, {name: target}
    return place(destination), "", {}


def _require_apart(
    source: Place, layout: Layout, destination: Place, targets: dict[str, str]
) -> None:
    """Raise for a destination that would change the source, or become a part of it; of a single
    file only that file.
    """
    one, other, name = source.absolute(), destination.absolute(), layout.first.name
    if (
        f"{one}/{name}" == f"{other}/{targets.get(name, name)}"
        if layout.single
        else f"{other}/".startswith(f"{one}/")
    ):
        raise InputError(
            f"{destination} lies in the source, which is never changed; pass a destination outside"
            " of it"
        )


def _holds_something(todo: Plan) -> bool:
    if todo.job.targets:
        return any(_is_taken(todo.where, name) for name in todo.job.targets.values())
    if isinstance(todo.where, LocalPlace):
        return any(not entry.name.endswith(OURS) for entry in todo.where.folder.iterdir())
    return bool(todo.where.glob("**/*"))


def _is_taken(where: Place, name: str) -> bool:
    """Whether there is anything of this name: a file, or what must not be replaced by one."""
    if isinstance(where, LocalPlace):
        return os.path.lexists(where.path(name))
    return where.is_file(name)


def _remove_left_overs(todo: Plan, *, gathering: bool = True) -> None:
    """Temporary files of a killed run or of a lost node; those that pieces are gathered in stay, as
    long as they are.
    """
    if not isinstance(todo.where, LocalPlace):
        return
    gathered = {
        part_name(todo.job.target(file))
        for file in todo.layout.files
        if gathering and file.kind == "npy"
    }
    for folder in {todo.where.path(todo.job.target(file)).parent for file in todo.layout.files}:
        for path in folder.glob(f".*{PART}") if folder.is_dir() else ():
            ours = not todo.job.targets or any(
                path.name.startswith(f".{name}.") for name in todo.job.targets.values()
            )
            if ours and path.relative_to(todo.where.folder).as_posix() not in gathered:
                path.unlink()


def _bytes_of(file: SourceFile, piece: Piece) -> int:
    return file.size * (piece.stop - piece.start) // file.rows if file.rows else file.size


def _require_space(todo: Plan, size: int) -> None:
    if not isinstance(todo.where, LocalPlace):
        return
    free = shutil.disk_usage(todo.where.folder).free
    if size > free:
        raise ArtefactError(
            f"{todo.where} has room for {free / 1e9:,.1f} GB, and {size / 1e9:,.1f} GB are left to"
            " write; free some"
        )
