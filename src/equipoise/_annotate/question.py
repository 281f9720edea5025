"""What people are asked: a question, its answers, and the key of each.

Unsure is always one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

UNSURE = "unsure"
MOST = 9  # answers that have a digit each
_TAKEN = {"u", "z"}  # unsure, undo


@dataclass(frozen=True)
class Question:
    """A question and its answers, without ``unsure``."""

    text: str
    answers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InputError("the question is empty; pass a sentence")
        names = [answer.strip().lower() for answer in self.answers]
        if not all(names) or len(set(names)) < len(names) or UNSURE in names:
            raise InputError(
                f"the answers {list(self.answers)} are not legal; pass different words, and not"
                f" {UNSURE}, which is always there"
            )
        if not 2 <= len(names) <= MOST:
            raise InputError(
                f"{len(names)} answers were given, and 2 to {MOST} have a key each; ask about one"
                " attribute at a time"
            )

    @classmethod
    def about(cls, attribute: Attribute) -> Question:
        """Return the question that the paper asks of people and of BLIP-2 alike."""
        return cls(
            f"What is the perceived {attribute.name} of the person in this image?", attribute.groups
        )

    @property
    def legal(self) -> tuple[str, ...]:
        return (*self.answers, UNSURE)

    def require(self, answer: object) -> str:
        """Return the answer; raise where it is not a legal one."""
        if answer not in self.legal:
            raise InputError(
                f"{answer!r} is no answer to {self.text!r}; legal are {', '.join(self.legal)}"
            )
        return str(answer)

    def require_known(self, answer: object) -> str:
        """Return the answer; raise where it is not a legal one, or is "unsure"."""
        if answer not in self.answers:
            raise InputError(
                f"{answer!r} cannot be the known answer to {self.text!r}; legal are"
                f" {', '.join(self.answers)}"
            )
        return str(answer)

    def keys(self) -> dict[str, list[str]]:
        """Return the keys of each answer: a digit, and its first letter where that is its own."""
        first = {answer: answer.strip()[0].lower() for answer in self.answers}
        often = Counter(first.values())
        keys = {answer: [str(i)] for i, answer in enumerate(self.answers, 1)}
        for answer, letter in first.items():
            if letter.isalpha() and often[letter] == 1 and letter not in _TAKEN:
                keys[answer].append(letter)
        return keys | {UNSURE: ["0", "u"]}
