"""One run at a time at a place. The lock goes with the process, however that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import InputError

LOCK = ".lock"


@contextmanager
def alone_in(folder: Path, lock: str = LOCK) -> Iterator[None]:
    """Held while a run writes to a folder; a second run is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / lock).open("a")  # what somebody else wrote into a file of this name stays
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); pass another folder"
        ) from None
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no such locks on this system
            pass
        except OSError:
            raise InputError(
                f"another run is writing to {folder}; wait for it, or pass another folder"
            ) from None
        yield
