"""The pictures of a run, one line of JSON per picture.

A line is added once its picture is on the disk, so that a run that is killed at any moment goes on
where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from equipoise._artefact import write_atomically
from equipoise._documents import Document, read_document
from equipoise._paths import add_to, inside, target_of
from equipoise.encoders._images import UnreadableImageError, open_image
from equipoise.errors import ArtefactError, InputError

MANIFEST = "manifest.jsonl"


class DrawnPicture(Document):
    """A picture of a run: a line of manifest.jsonl."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True)

    image: str = Field(description="Its path in the run's folder.")
    prompt: str
    method: str
    seed: int
    explicit_group: str = Field(description="The group that its prompt names, or an empty text.")
    attempt: int = Field(ge=0, description="How often it was replaced.")
    number: int = Field(ge=0, description="Its place among those of its prompt and method.")
    drawn: str = Field(default="", description="The group that was drawn for it, or an empty text.")

    @property
    def slot(self) -> tuple[str, str, int]:
        """Return method, prompt and number; one picture counts per slot."""
        return self.method, self.prompt, self.number


class Manifest:
    """The manifest of a folder.

    The latest attempt of each slot counts; ``compact`` drops the lines of the others.
    """

    def __init__(self, folder: Path):
        self.folder: Path = folder
        self.path: Path = folder / MANIFEST
        self.pictures: dict[tuple[str, str, int], DrawnPicture] = {}
        self.lost: dict[tuple[str, str, int], DrawnPicture] = {}
        for picture in self._read():
            before = self.pictures.get(picture.slot)
            if before is None or before.attempt <= picture.attempt:
                self.pictures[picture.slot] = picture

    def add(self, pictures: Iterable[DrawnPicture]) -> None:
        """Add pictures that are on the disk."""
        lines = []
        for picture in pictures:
            self.pictures[picture.slot] = picture
            lines.append(_line(picture))
        add_to(self.path, "".join(lines).encode())

    def forget_missing(self) -> None:
        """Move pictures whose files are gone to ``lost``, to be drawn again in the same attempt."""
        self.lost = {
            slot: picture
            for slot, picture in self.pictures.items()
            if not (self.folder / picture.image).is_file()
        }
        self.pictures = {
            slot: picture for slot, picture in self.pictures.items() if slot not in self.lost
        }

    def compact(self) -> None:
        """Write one line per slot, in the order of the slots' first lines."""
        lines = [_line(picture) for picture in self.pictures.values()]
        write_atomically(self.path, "".join(lines).encode())

    def open(self, image: str) -> Any:
        """Return one of the pictures as an RGB image."""
        try:
            return open_image(inside(self.folder, image))
        except UnreadableImageError as error:
            raise ArtefactError(
                f"{self.folder / image} is no picture any more ({error}); delete it, and the same"
                " command draws it again"
            ) from None

    def require_files(self) -> None:
        """Raise where a picture vanished."""
        images = [picture.image for picture in self.pictures.values()]
        gone = [image for image in images if not (self.folder / image).is_file()]
        if gone:
            raise InputError(
                f"{len(gone)} pictures of {self.path} are no longer there, first {gone[0]}; the"
                " same command draws them again"
            )

    def _read(self) -> Iterable[DrawnPicture]:
        if not target_of(self.path).is_file():
            return
        data = self.path.read_bytes()
        if not data.endswith(b"\n"):  # the last line was torn by a kill
            os.truncate(self.path, data.rfind(b"\n") + 1)
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            where = f"line {number} of {self.path}"
            remedy = "the file is damaged: delete it to draw again"
            picture = read_document(DrawnPicture, line, where, "a picture", remedy)
            inside(self.folder, picture.image)
            yield picture


def _line(picture: DrawnPicture) -> str:
    return json.dumps(picture.to_plain(), ensure_ascii=False) + "\n"
