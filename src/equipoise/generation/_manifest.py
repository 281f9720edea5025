"""The pictures of a run, one line of JSON per picture.

A line is added once its picture is on the disk, so that a run that is killed at any moment goes on
where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from equipoise._artefact import NOT_WHOLE, parse_json, write_atomically
from equipoise._paths import add_to, inside, target_of
from equipoise.encoders._images import UnreadableImageError, open_image
from equipoise.errors import ArtefactError, InputError

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class Picture:
    """A picture of a run.

    image: its path in the run's folder. explicit_group: the group that its prompt names, or "".
    number: its place among those of its prompt and method. attempt: how often it was replaced.
    """

    image: str
    prompt: str
    method: str
    seed: int
    explicit_group: str
    attempt: int
    number: int

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
        self.pictures: dict[tuple[str, str, int], Picture] = {}
        self.lost: dict[tuple[str, str, int], Picture] = {}
        for picture in self._read():
            before = self.pictures.get(picture.slot)
            if before is None or before.attempt <= picture.attempt:
                self.pictures[picture.slot] = picture

    def add(self, pictures: Iterable[Picture]) -> None:
        """Add pictures that are on the disk."""
        lines = []
        for picture in pictures:
            self.pictures[picture.slot] = picture
            lines.append(json.dumps(asdict(picture), ensure_ascii=False) + "\n")
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
        lines = [
            json.dumps(asdict(picture), ensure_ascii=False) + "\n"
            for picture in self.pictures.values()
        ]
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

    def _read(self) -> Iterable[Picture]:
        if not target_of(self.path).is_file():
            return
        data = self.path.read_bytes()
        if not data.endswith(b"\n"):  # the last line was torn by a kill
            os.truncate(self.path, data.rfind(b"\n") + 1)
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                yield self._picture(parse_json(line))
            except InputError:
                raise
            except NOT_WHOLE as error:
                raise ArtefactError(
                    f"line {number} of {self.path} is no picture ({error}); the file is damaged:"
                    " delete it to draw again"
                ) from None

    def _picture(self, line: Any) -> Picture:
        """Return the picture of a line.

        Raise unless every field is of its kind and the file that it names lies in the folder.
        """
        picture = Picture(**line)
        for field in fields(Picture):
            value = getattr(picture, field.name)
            if type(value).__name__ != field.type:
                raise TypeError(f"{field.name} is {value!r}")
        if picture.number < 0 or picture.attempt < 0:
            raise ValueError("its number or attempt is below 0")
        inside(self.folder, picture.image)
        return picture
