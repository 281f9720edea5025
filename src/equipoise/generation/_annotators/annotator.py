"""``Annotator``: how pictures are labelled, and how the labels are kept."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from equipoise._annotate.question import UNSURE
from equipoise._progress import progress
from equipoise.errors import ServiceError
from equipoise.generation._labels import LabelFile
from equipoise.generation._manifest import Manifest
from equipoise.generation._plan import slug
from equipoise.prompts._attribute import Attribute

# The paper's question, which asks about gender.
QUESTION = "What is the perceived {attribute} of the person in this image?"
FOLDER = "labels"


class Annotator(ABC):
    """A judge of which group the person in each picture seems to be of, or "unsure".

    ``name`` tells it from others.
    """

    name: str
    batch: int = 16

    def __init__(self, attribute: Attribute):
        self.attribute = attribute

    @property
    def question(self) -> str:
        """Return what is asked about a picture."""
        return QUESTION.format(attribute=self.attribute.name.replace(" & ", " and "))

    @abstractmethod
    def answers(self, images: Sequence[Path]) -> Sequence[str | ServiceError]:
        """Return one answer per picture: a group of the attribute, or "unsure".

        Where a server gave none and may give one if asked again, its error stands in the answer's
        place.
        """

    def annotate(self, manifest: Manifest) -> dict[str, str]:
        """Return image -> answer for every picture of a run.

        Answers are kept in labels/, so that no picture is asked about twice.
        """
        manifest.require_files()
        kept = manifest.folder / FOLDER / f"{slug(self.name)}-{crc32(self.name.encode()):08x}.csv"
        file = LabelFile(kept, self.name, self.attribute.groups)
        images = [picture.image for picture in manifest.pictures.values()]
        left = [image for image in images if image not in file.answers]
        with progress(f"labels by {self.name}", len(left)) as advance:
            for start in range(0, len(left), self.batch):
                some = left[start : start + self.batch]
                self._ask(manifest.folder, some, file)
                advance(len(some))
        return {image: file.answers[image] for image in images}

    def _ask(self, folder: Path, images: Sequence[str], file: LabelFile) -> None:
        """Keep the answers for some images in the file, then raise the first error, if any."""
        given = self.answers([folder / image for image in images])
        answers: dict[str, str] = {}
        failed: list[ServiceError] = []
        for image, answer in zip(images, given, strict=True):
            if isinstance(answer, ServiceError):
                failed.append(answer)
            else:
                answers[image] = answer
        file.add(answers)
        if failed:
            raise failed[0]


def group_in(answer: str, attribute: Attribute) -> str:
    """Return the one group that an answer names in words; "unsure" for none or several."""
    named = [group for group in attribute.groups if _names(answer, group, attribute)]
    return named[0] if len(named) == 1 else UNSURE


def _names(answer: str, group: str, attribute: Attribute) -> bool:
    return any(_says(word, answer) for word in _words(group, attribute))


def _words(group: str, attribute: Attribute) -> set[str]:
    wordings = attribute.wordings.get(group)
    if wordings is None:
        return {group}
    words = {group, *wordings.adjectives}
    for nouns in wordings.nouns.values():
        words.update(nouns)
    return words


def _says(word: str, answer: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word.lower())}(?![\w-])", answer.lower()) is not None
