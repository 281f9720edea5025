"""The nine gender words of the paper (appendix E): what they say in a caption, and captions without
them.

Whole words only: "woman" holds "man".
"""

from __future__ import annotations

import re

MALE = ("man", "boy", "gentleman", "guy", "male")
FEMALE = ("woman", "girl", "lady", "female")
NEUTRAL = "person"
BOTH, NONE = "both", "none"

_WORD = re.compile(rf"\b({'|'.join((*MALE, *FEMALE))})\b", re.IGNORECASE)


def gender_of(caption: str) -> str:
    """Return "male", "female", "both" or "none", by the words that the caption holds."""
    words = {word.lower() for word in _WORD.findall(caption)}
    male = not words.isdisjoint(MALE)
    female = not words.isdisjoint(FEMALE)
    if male and female:
        return BOTH
    if male:
        return "male"
    return "female" if female else NONE


def without_gender(caption: str) -> str:
    """Return the caption with "person" in place of each word, in capitals where the word was."""
    return _WORD.sub(_neutral, caption)


def _neutral(match: re.Match[str]) -> str:
    word = match[0]
    if word.isupper():
        return NEUTRAL.upper()
    return NEUTRAL.capitalize() if word[0].isupper() else NEUTRAL
