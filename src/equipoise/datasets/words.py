"""The paper's gender words in captions: what they say, and captions without them.

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
    """ "male", "female", "both" or "none", by the words the caption holds."""
    words = {word.lower() for word in _WORD.findall(caption)}
    male, female = bool(words & set(MALE)), bool(words & set(FEMALE))
    return BOTH if male and female else "male" if male else "female" if female else NONE


def neutralised(caption: str) -> str:
    """The caption with each gender word replaced by "person", its capital kept."""
    return _WORD.sub(
        lambda match: NEUTRAL.capitalize() if match[0][0].isupper() else NEUTRAL, caption
    )
