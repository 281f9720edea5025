"""Numbers as they are printed.

Each is named by its place in results.json, so that a page can be checked against that file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

_STEP = re.compile(r"(?:[^\\.]|\\.)+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
PLACE = re.compile(r"\{([^{}|]+)\|(\+?\w*%?)\}")


class NumberPlace:
    """The place of a number in a document, written as Python reads the number itself.

    With ``at = NumberPlace()``, ``at.verdict.methods[0].leaning`` is the place of a list; in a
    sentence, ``f"{that:c}"`` is ``{verdict.methods.0.leaning|c}``, which ``fill`` fills. ``str``
    gives the path alone, for a page.
    """

    def __init__(self, path: str = ""):
        self._path = path

    def __getattr__(self, name: str) -> NumberPlace:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: object) -> NumberPlace:
        written = step(str(key))
        return NumberPlace(f"{self._path}.{written}" if self._path else written)

    def __str__(self) -> str:
        return self._path

    def __format__(self, form: str) -> str:
        return f"{{{self._path}|{form}}}"


def at(document: Any, path: str) -> Any:
    """Return what is at a dotted path.

    A step is a field of a model, a key of a mapping, as ``step`` writes it, or a place in a list.
    """
    found = document
    for written in _STEP.findall(path):
        key = _ESCAPED.sub(r"\1", written)
        if isinstance(found, list):
            found = found[int(key)]
        elif isinstance(found, Mapping):
            found = found[key]
        else:
            found = getattr(found, key)
    return found


def step(key: str) -> str:
    """Return a key as a step of a path, whatever it holds: a group may be called "Ph.D."."""
    return re.sub(r"([\\.])", r"\\\1", key)


_SPECIAL: dict[str, Callable[[float], str]] = {
    "n": lambda x: f"{round(x):,}",
    "k": lambda x: f"{x:g}",
    "e%": lambda x: f"{100 * math.expm1(x):.0f} %",
}


def text(value: Any, form: str) -> str:
    """Return a value as a string.

    form: the digits after the point ("3", "+3" with a sign), percent ("%", "1%"), "n" for whole
    numbers, "k" for kappa, "s" for words, "c" for the number of items of a list, "e%" for the
    logarithm of a ratio as percent above one. "u3" rounds up, for a limit that nothing exceeds.
    """
    if value is None:
        return "not known"
    if form == "s":
        return str(value)
    if form == "c":
        return f"{len(value):,}"
    number = float(value)
    if math.isinf(number):
        return "infinity"
    if form in _SPECIAL:
        return _SPECIAL[form](number)
    return _decimals(number, form)


def _decimals(number: float, form: str) -> str:
    """Return a number with the digits after the point that its form names."""
    if form.startswith("u"):
        unit = Decimal(1).scaleb(-int(form[1:]))
        return str(Decimal(str(number)).quantize(unit, ROUND_CEILING))
    sign = "+" if form.startswith("+") else ""
    digits = int(form.removeprefix("+").removesuffix("%") or 0)
    if form.endswith("%"):
        return f"{_fixed(100 * number, sign, digits)} %"
    return _fixed(number, sign, digits)


def _fixed(number: float, sign: str, digits: int) -> str:
    """Return a number with so many digits; what rounds to zero has no sign."""
    written = f"{number:{sign}.{digits}f}"
    return written if float(written) else written.lstrip("+-")


def fill(sentence: str, document: Any, render: Callable[[str, str], str] | None = None) -> str:
    """Return a sentence with each {path|form} in it filled.

    render(path, form) gives what is filled in; plain text by default.
    """
    write = render or (lambda path, form: text(at(document, path), form))
    return PLACE.sub(lambda found: write(found[1], found[2]), sentence)
