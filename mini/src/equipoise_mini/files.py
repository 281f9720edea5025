"""The files beside the encoder's, with their checksums: one that is absent or damaged is named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

CHECKSUMS = "checksums.json"


def require(folder: Path, *names: str) -> None:
    """Raise FileNotFoundError for a file that is not there, ValueError for one that is not as it
    was made.
    """
    for name in names:
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"the installed equipoise-mini has no {name}; type: pip install -U"
                " --force-reinstall equipoise-mini"
            )
    known = checksums(folder)
    for name in names:
        if known.get(name) != sha256(folder / name):
            raise ValueError(
                f"{folder / name} is damaged: its checksum is not the one in {CHECKSUMS}; install"
                " equipoise-mini again"
            )


def seal(folder: Path, *names: str) -> None:
    """Keep the checksums of files that were just made."""
    known = checksums(folder) if (folder / CHECKSUMS).is_file() else {}
    known |= {name: sha256(folder / name) for name in names}
    (folder / CHECKSUMS).write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def checksums(folder: Path) -> dict[str, str]:
    """File -> SHA-256, as it was when they were made."""
    try:
        return dict(json.loads((folder / CHECKSUMS).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"{folder / CHECKSUMS} cannot be read ({error}); install equipoise-mini again"
        ) from None


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
