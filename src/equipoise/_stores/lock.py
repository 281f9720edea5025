"""The lock that lets one run at a time write to a place; it ends with the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import InputError

LOCK = ".lock"


@contextmanager
def alone_in(folder: Path, lock: str = LOCK) -> Iterator[None]:
    """Hold a folder's lock while a run writes to it; refuse a second run."""
    from filelock import FileLock, Timeout

    held = FileLock(folder / lock, blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:  # before OSError, of which it is one
        raise InputError(
            f"another run is writing to {folder}; wait for it, or pass another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); pass another folder"
        ) from None
    try:
        yield
    finally:
        held.release()
