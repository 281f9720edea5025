"""``Annotator``: what every one of them can do, how its labels are kept, and how an answer in words
is read.
"""

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

QUESTION = (  # the paper's, of gender
    "What is the perceived {attribute} of the person in this image?"
)
FOLDER = "labels"


class Annotator(ABC):
    """Says of each picture which group its person seems to be of, or "unsure".

    ``name`` tells it from others.
    """

    name: str
    batch: int = 16

    def __init__(self, attribute: Attribute):
        self.attribute = attribute

    @property
    def question(self) -> str:
        """What is asked of a picture."""
        return QUESTION.format(attribute=self.attribute.name.replace(" & ", " and "))

    @abstractmethod
    def answers(self, images: Sequence[Path]) -> Sequence[str | ServiceError]:
        """One for each picture: a group of the attribute, or "unsure"; or why a server gave none,
        and may if asked again.
        """

    def annotate(self, manifest: Manifest) -> dict[str, str]:
        """Image -> answer for every picture of a run; kept in labels/, so that none is asked of
        twice.
        """
        manifest.require_files()
        kept = manifest.folder / FOLDER / f"{slug(self.name)}-{crc32(self.name.encode()):08x}.csv"
        file = LabelFile(kept, self.name, self.attribute.groups)
        images = [picture.image for picture in manifest.pictures.values()]
        left = [image for image in images if image not in file.answers]
        with progress(f"labels by {self.name}", len(left)) as advance:
            for start in range(0, len(left), self.batch):
                some = left[start : start + self.batch]
                given = dict(
                    zip(
                        some, self.answers([manifest.folder / image for image in some]), strict=True
                    )
                )
                file.add(
                    {image: answer for image, answer in given.items() if isinstance(answer, str)}
                )
                if failed := [
                    answer for answer in given.values() if isinstance(answer, ServiceError)
                ]:
                    raise failed[0]
                advance(len(some))
        return {image: file.answers[image] for image in images}


def group_in(answer: str, attribute: Attribute) -> str:
    """The one group that an answer in words names; "unsure" where it names none, or several."""
    named = {
        group
        for group in attribute.groups
        if any(_says(word, answer) for word in _words(group, attribute))
    }
    return named.pop() if len(named) == 1 else UNSURE


def _words(group: str, attribute: Attribute) -> set[str]:
    wordings = attribute.wordings.get(group)
    nouns = [] if wordings is None else [noun for some in wordings.nouns.values() for noun in some]
    return {group, *([] if wordings is None else wordings.adjectives), *nouns}


def _says(word: str, answer: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word.lower())}(?![\w-])", answer.lower()) is not None
