"""``apply_files``: debias a source of files into a destination of files, piece by piece."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from equipoise._applying.documents import ApplyManifest, Run
from equipoise._applying.journal import Journal, journal_at, require_same
from equipoise._applying.report import ApplyReport, certificate, merged
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
class ApplyPlan:
    """What a run will do, all of it checked.

    destination: as it was given. where: the folder that the destination is, or lies in.
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
        for modality in self.layout.modalities:
            if self.job.transform.for_modality(modality).operator is not None:
                return False
        return True


def plan(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    transform: Transform,
    options: Options,
) -> ApplyPlan:
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
            f"{found} holds an unfinished run, and not all of its files; finish that run first,"
            " with equipoise apply and `resume`"
        )
    first = layout.first
    transform = replace(transform, encoder=layout.encoder)
    width = first.dim or transform.in_dim  # a source without rows has no width
    transform.require(layout.encoder, width, first.dtype, layout.modalities)
    where, prefix, targets = _targets(destination, layout)
    _require_apart(found, layout, where, targets)
    job = Job(
        source=found.address(),
        destination=where.address(),
        files=layout.files,
        transform=transform,
        keep_invalid=options.keep_invalid,
        targets=targets,
    )
    run = Run(
        source=without_secrets(source),
        transform=transform.identity(first.dtype),
        encoder=layout.encoder,
        files=layout.files,
    )
    return ApplyPlan(
        destination=without_secrets(destination),
        layout=layout,
        job=job,
        where=where,
        journal=journal_at(where, prefix),
        lock=f".{prefix}{LOCK}" if prefix else LOCK,
        run=run,
    )


def apply_files(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
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


def _apply(todo: ApplyPlan, engine: Engine, resume: bool) -> ApplyReport:
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
    size = sum(_bytes_of(todo.layout.files[piece.file], piece) for piece in left)
    _require_space(todo, size)
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
    todo.journal.finish(
        ApplyManifest(**dict(todo.run), shards=parts, certificate=merged_certificate)
    )
    seconds = time.monotonic() - started
    return ApplyReport(todo.destination, rows, written, len(left), seconds, merged_certificate)


def _started(todo: ApplyPlan, finished: ApplyManifest | None, resume: bool) -> list[Done]:
    """Return the pieces that need not be done again."""
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


def _still_there(todo: ApplyPlan, done: list[Done]) -> list[Done]:
    """Return the pieces whose bytes are where the journal says.

    A file gets its name as soon as all of its pieces are on the disk.
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
        size = _size_of(todo, file, here.values())
        gathered = file.kind == "npy" and isinstance(todo.where, LocalPlace)
        if whole and _size(todo.where, target) == size:
            kept += here.values()
        elif gathered and _size(todo.where, part_name(target)) == size:
            kept += here.values()
            if whole:
                _publish(todo, i)
    return kept


def _size_of(todo: ApplyPlan, file: SourceFile, done: Iterable[Done]) -> int:
    """Return how many bytes the destination of a file has with these pieces."""
    if file.kind == "npy":
        return _target_size(todo.job, file)  # all of it from the first piece on
    return sum(part.bytes for part in done)


def _size(where: Place, name: str) -> int:
    if not where.is_file(name):
        return -1
    size, _ = where.stamp(name)
    return size


def _target_size(job: Job, file: SourceFile) -> int:
    header = target_header(job, file)
    return len(header.raw) + header.rows * header.row_bytes


def _publish(todo: ApplyPlan, index: int) -> None:
    """Give a .npy file its name: all of its pieces are on the disk."""
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


def _certificate(todo: ApplyPlan, parts: list[Done]) -> dict[str, Any]:
    found = []
    for part in parts:
        if part.totals is not None:
            file = todo.layout.files[part.file]
            found.append((file.modality, part.totals))
    theory = todo.certify_theory
    return certificate(merged(found), theory, todo.job.transform.certifies or theory)


def _finish_store(todo: ApplyPlan) -> None:
    """Write the manifest of a store that ``equipoise embed`` wrote, if all of it was debiased."""
    if todo.layout.store is None or not isinstance(todo.where, LocalPlace):
        return
    store = todo.layout.store
    names = {file.name for file in todo.layout.files}
    for i in range(len(store.shards)):
        for path in (shard_path(Path(), store.modality, i), metadata_path(Path(), i)):
            if path.as_posix() not in names:
                return
    shards = []
    for i, shard in enumerate(store.shards):
        found = sha256(shard_path(todo.where.folder, store.modality, i))
        shards.append(shard.model_copy(update={"sha256": found}))
    transform = str(todo.run.transform.model_dump())
    changed = {
        "dim": todo.job.transform.out_dim,
        "debiased": " then ".join(filter(None, (store.debiased, transform))),
        "shards": shards,
    }
    with unwritable(str(todo.where)), todo.where.writing(STORE_MANIFEST) as file:
        file.write(store.model_copy(update=changed).model_dump_json(indent=1).encode())


def _targets(
    destination: str | os.PathLike[str], layout: Layout
) -> tuple[Place, str, dict[str, str]]:
    """Return the folder to write to, and the new name of a single file that becomes one file.

    A source folder that Spark wrote may be called x.parquet.
    """
    name, given = layout.first.name, os.fspath(destination)
    if layout.single and given.endswith((".npy", ".parquet")):
        suffix = Path(name).suffix
        if not given.endswith(suffix):
            raise InputError(
                f"{name} stays a {suffix} file, and {without_secrets(given)} has another suffix;"
                f" pass a name that ends in {suffix}, or a folder"
            )
        where, target = split(destination)
        return where, target, {name: target}
    return place(destination), "", {}


def _require_apart(
    source: Place, layout: Layout, destination: Place, targets: dict[str, str]
) -> None:
    """Raise for a destination that would change the source, or become a part of it.

    Where the source is a single file, only that file counts.
    """
    one, other, name = source.absolute(), destination.absolute(), layout.first.name
    if layout.single:
        inside = f"{one}/{name}" == f"{other}/{targets.get(name, name)}"
    else:
        inside = f"{other}/".startswith(f"{one}/")
    if inside:
        raise InputError(
            f"{destination} lies in the source, which is never changed; pass a destination outside"
            " of it"
        )


def _holds_something(todo: ApplyPlan) -> bool:
    if todo.job.targets:
        return any(_is_taken(todo.where, name) for name in todo.job.targets.values())
    if isinstance(todo.where, LocalPlace):
        return any(not entry.name.endswith(OURS) for entry in todo.where.folder.iterdir())
    return bool(todo.where.glob("**/*"))


def _is_taken(where: Place, name: str) -> bool:
    """Return whether anything has this name: a file, or what a file must not replace."""
    if isinstance(where, LocalPlace):
        return os.path.lexists(where.path(name))
    return where.is_file(name)


def _remove_left_overs(todo: ApplyPlan, *, gathering: bool = True) -> None:
    """Remove the temporary files of a killed run or of a lost node.

    gathering: keep those in which pieces are still gathered.
    """
    if not isinstance(todo.where, LocalPlace):
        return
    gathered = set()
    folders = set()
    for file in todo.layout.files:
        target = todo.job.target(file)
        folders.add(todo.where.path(target).parent)
        if gathering and file.kind == "npy":
            gathered.add(part_name(target))
    for folder in folders:
        for path in list(folder.glob(f".*{PART}")):  # a list: the folder changes below
            name = path.relative_to(todo.where.folder).as_posix()
            if name not in gathered and _is_ours(todo, path):
                path.unlink()


def _is_ours(todo: ApplyPlan, path: Path) -> bool:
    """Return whether a temporary file is this run's, where a folder may hold several runs."""
    targets = todo.job.targets.values()
    return not targets or any(path.name.startswith(f".{name}.") for name in targets)


def _bytes_of(file: SourceFile, piece: Piece) -> int:
    if not file.rows:
        return file.size
    return file.size * (piece.stop - piece.start) // file.rows


def _require_space(todo: ApplyPlan, size: int) -> None:
    if not isinstance(todo.where, LocalPlace):
        return
    free = shutil.disk_usage(todo.where.folder).free
    if size > free:
        raise ArtefactError(
            f"{todo.where} has room for {free / 1e9:,.1f} GB, and {size / 1e9:,.1f} GB are left to"
            " write; free some space"
        )
