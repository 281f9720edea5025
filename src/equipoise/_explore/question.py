"""What a page asks: the text and the controls, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise._paths import is_utf8
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

LONGEST = 300  # letters of a text
MOST_PLACES = 100  # pictures of a row
MOST_TEXTS = 20  # texts or classes at a time
SEARCH_METHODS = ("balanced", "closed-form", "orth-proj")
CLASS_METHODS = ("closed-form", "orth-proj")
TARGETS = ("collection", "equal")

Target = str | tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Controls:
    """How to balance. strength: from 0, as it is, to 1. target: of the shares of the groups."""

    attribute: str
    method: str = "balanced"
    target: Target = "collection"
    strength: float = 1.0
    k: int = 20

    def target_shares(self) -> str | dict[str, float]:
        """Return the target as ``balanced`` takes it."""
        return self.target if isinstance(self.target, str) else dict(self.target)


@dataclass(frozen=True)
class SearchQuestion:
    """A search: one text, and the controls."""

    text: str
    controls: Controls


@dataclass(frozen=True)
class ListQuestion:
    """Several texts, or names of classes, and the controls."""

    texts: tuple[str, ...]
    controls: Controls


def read_question(
    fields: Mapping[str, Any], attributes: Mapping[str, Attribute], images: int
) -> SearchQuestion:
    """Return the search that a JSON object asks for."""
    controls = read_controls(fields, attributes, images, SEARCH_METHODS)
    return SearchQuestion(_text(fields.get("text")), controls)


def read_list(
    fields: Mapping[str, Any],
    attributes: Mapping[str, Attribute],
    images: int,
    methods: Sequence[str],
    least: int = 1,
) -> ListQuestion:
    """Return the texts that a JSON object asks for, each once."""
    given = fields.get("texts")
    if not isinstance(given, list) or not least <= len(given) <= MOST_TEXTS:
        raise InputError(f"texts must be a list of {least} to {MOST_TEXTS} texts")
    texts = tuple(dict.fromkeys(_text(text) for text in given))
    if len(texts) < least:
        raise InputError(f"pass {least} different texts or more")
    return ListQuestion(texts, read_controls(fields, attributes, images, methods))


def read_controls(
    fields: Mapping[str, Any],
    attributes: Mapping[str, Attribute],
    images: int,
    methods: Sequence[str],
) -> Controls:
    """Return the controls of a JSON object; what it leaves out is as usual."""
    name = _choice(fields, "attribute", tuple(attributes))
    method = _choice(fields, "method", methods)
    target = _target(fields.get("target", TARGETS[0]), attributes[name])
    strength = _strength(fields.get("strength", 1.0))
    most = min(MOST_PLACES, images)
    k = fields.get("k", min(20, images))
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= most:
        raise InputError(f"k={k!r} is not legal; pass a whole number from 1 to {most}")
    return Controls(name, method, target, strength, k)


def _choice(fields: Mapping[str, Any], name: str, legal: Sequence[str]) -> str:
    given = fields.get(name, legal[0])
    if not isinstance(given, str) or given not in legal:
        raise InputError(f"{name}={given!r} is not legal; pass one of {', '.join(legal)}")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str) or not is_utf8(given):
        raise InputError("a text must be a string of Unicode")
    text = " ".join(given.split())
    if not text or len(text) > LONGEST or not text.isprintable():
        raise InputError(f"a text must have 1 to {LONGEST} letters, and no control characters")
    return text


def _strength(given: Any) -> float:
    whole = isinstance(given, int | float) and not isinstance(given, bool)
    if not whole or not math.isfinite(given) or not 0 <= given <= 1:
        raise InputError(f"strength={given!r} is not legal; pass a number from 0 to 1")
    return round(float(given), 2)


def _target(given: Any, attribute: Attribute) -> Target:
    if isinstance(given, str) and given in TARGETS:
        return given
    if not isinstance(given, dict) or set(given) != set(attribute.groups):
        raise InputError(
            f"target={given!r} is not legal; pass {', '.join(TARGETS)}, or a share for each of"
            f" {', '.join(attribute.groups)}"
        )
    shares = []
    for group in attribute.groups:
        share = given[group]
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InputError(f"the share of {group} must be a number from 0 to 1")
        shares.append((group, float(share)))
    total = sum(share for _, share in shares)
    if not all(0 <= share <= 1 for _, share in shares) or abs(total - 1) > 0.005:
        raise InputError("the shares of a target must be from 0 to 1 and sum to 1")
    return tuple((group, share / total) for group, share in shares)
