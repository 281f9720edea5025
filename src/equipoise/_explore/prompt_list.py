"""The file of prompts that "add to audit" collects, as ``equipoise audit --prompts`` reads it."""

from __future__ import annotations

from pathlib import Path

from equipoise._artefact import require_writable, write_atomically
from equipoise.errors import InputError
from equipoise.prompts._book_writers import read_prompts

MOST = 10_000


class PromptFile:
    """A text file with one prompt per line. Only the user names it, when the page is started."""

    def __init__(self, path: Path):
        if path.suffix == ".json":
            raise InputError(f"{path} looks like a prompt book; pass the name of a text file")
        self.path = path
        if not path.exists():
            require_writable(path)

    @property
    def name(self) -> str:
        return self.path.name

    def add(self, prompt: str) -> int:
        """Add a prompt unless it is there; return how many there are.

        What else the file holds stays as it is, and a kill leaves it as it was.
        """
        if prompt.startswith("#"):
            raise InputError(f"{prompt!r} would be a comment in {self.path}; leave the # out")
        prompts = read_prompts(self.path) if self._begun() else []
        if prompt in prompts:
            return len(prompts)
        if len(prompts) >= MOST:
            raise InputError(f"{self.path} holds {MOST:,} prompts already; name another file")
        before = self.path.read_bytes() if self._begun() else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        write_atomically(self.path, before + prompt.encode() + b"\n")
        return len(prompts) + 1

    def _begun(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size > 0
