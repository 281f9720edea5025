"""``verify``: read every file of a destination again, and compare it with the manifest."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from equipoise._applying.documents import ApplyManifest
from equipoise._applying.files import DEFAULT, ApplyPlan, Options, plan
from equipoise._engines.shard import Done, target_header
from equipoise._engines.transform import Transform
from equipoise._progress import progress
from equipoise._stores.checksum import crc32
from equipoise.errors import ArtefactError, InputError
from equipoise.kernels._host import threads

BLOCK = 1 << 20


def is_finished(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    transform: Transform,
    options: Options = DEFAULT,
) -> bool:
    """Return whether the destination holds a run that has come to its end."""
    return plan(source, destination, transform, options).journal.manifest() is not None


def verify(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    transform: Transform,
    options: Options = DEFAULT,
) -> ApplyManifest:
    """Return the manifest, if the destination holds this run, finished and undamaged."""
    todo = plan(source, destination, transform, options)
    manifest = todo.journal.manifest()
    if manifest is None:
        if todo.journal.read():
            raise InputError(f"{todo.destination} is unfinished; go on with `resume`")
        raise InputError(f"{todo.destination} holds no run; leave out `verify` to begin one")
    different = manifest.differs_from(todo.run)
    if different:
        raise InputError(
            f"{todo.destination} holds another run (what differs: {', '.join(different)})"
        )
    if not _covers(todo, manifest.shards):
        raise ArtefactError(
            f"the manifest of {todo.destination} does not name every row of the run once; it is"
            " damaged, so write to another place"
        )
    rows = sum(part.stop - part.start for part in manifest.shards)
    _check_sizes(todo, manifest.shards)
    with ThreadPoolExecutor(threads()) as pool, progress("verifying", rows) as advance:
        for part in pool.map(lambda part: _check(todo, part), manifest.shards):
            advance(part.stop - part.start)
    return manifest


def _covers(todo: ApplyPlan, parts: list[Done]) -> bool:
    """Return whether the pieces of each file follow each other from its first row to its last."""
    ends: dict[int, int] = {}
    for file, start, stop in sorted(part.piece for part in parts):
        if start != ends.get(file, 0) or stop < start:
            return False
        ends[file] = stop
    return ends == {i: file.rows for i, file in enumerate(todo.layout.files)}


def _check_sizes(todo: ApplyPlan, parts: list[Done]) -> None:
    """Raise unless every file exists and has exactly the bytes that were written."""
    written: Counter[int] = Counter()
    for part in parts:
        written[part.file] += part.bytes
    for i, size in written.items():
        target = todo.job.target(todo.layout.files[i])
        if not todo.where.is_file(target):
            raise ArtefactError(
                f"{target} is not in {todo.where} any more; write it again with `resume`"
            )
        found, _ = todo.where.stamp(target)
        if found != size:
            raise ArtefactError(
                f"{target} in {todo.where} has {found:,} bytes, and {size:,} were written; write it"
                " again with `resume`"
            )


def _check(todo: ApplyPlan, part: Done) -> Done:
    file = todo.layout.files[part.file]
    target = todo.job.target(file)
    rows = f" rows {part.start:,} to {part.stop:,}" if file.kind == "npy" else ""
    checksum, left = 0, part.bytes
    with todo.where.open(target) as data:
        if part.start:
            header = target_header(todo.job, file)
            data.seek(len(header.raw) + part.start * header.row_bytes)
        while left and (block := data.read(min(BLOCK, left))):
            checksum = crc32(block, checksum)
            left -= len(block)
    if left or f"{checksum:08x}" != part.crc32:
        raise ArtefactError(
            f"{target} in {todo.where} is not what was written:{rows} differ; delete it, then write"
            " it again with `resume`"
        )
    return part
