"""Which share of the pictures of a prompt each group is to have.

Shares are equal, given (``male=0.3,female=0.7``), or those of a table by occupation: a named one of
the package, or a JSON file of one's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise._documents import Document, read_document
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

EQUAL = "equal"
GroupShares = dict[str, float]
"""Group -> share; a table of shares sums to one."""


class ShareTable(Document):
    """Shares of groups by occupation: what a file of shares holds."""

    kind: Literal["equipoise shares"]
    format: Literal[1] = 1
    name: str
    attribute: str = Field(description="The attribute's name.")
    source: str = Field(description="Where the numbers are from.")
    licence: str = ""
    shares: dict[str, dict[str, float]] = Field(
        description="Occupation -> group -> share. An empty name stands for every other occupation."
    )

    def of(self, prompt: str, attribute: Attribute) -> GroupShares:
        """Return the shares for the longest occupation that the prompt names."""
        named = [name for name in self.shares if name and _says(prompt, name)]
        found = max(named, key=len, default="")
        if found not in self.shares:
            raise InputError(
                f"the shares {self.name!r} have no occupation that {prompt!r} names; they have"
                f" {', '.join(filter(None, self.shares))}; leave the prompt out, or pass a file of"
                " shares that has it"
            )
        return checked(self.shares[found], attribute, f"{self.name}, {found or 'others'}")


def table_names() -> list[str]:
    """Return the names of the tables that come with the package."""
    folder = resources.files("equipoise.generation").joinpath("shares")
    return sorted(Path(place.name).stem for place in folder.iterdir())


def read_table(name: str | os.PathLike[str]) -> ShareTable:
    """Return a table of the package by its name, or one of a file."""
    remedy = "pass a file that docs/generation.md describes"
    if str(name) in table_names():
        place = resources.files("equipoise.generation").joinpath("shares", f"{name}.json")
        return read_document(ShareTable, place.read_bytes(), str(name), "shares", remedy)
    try:
        data = Path(name).expanduser().read_bytes()
    except OSError as error:
        raise InputError(f"{name} cannot be read ({error.strerror}); {remedy}") from None
    return read_document(ShareTable, data, name, "a file of shares", remedy)


def shares_of(target: str, prompt: str, attribute: Attribute) -> GroupShares:
    """Return group -> share for a prompt.

    target: "equal", shares such as "male=0.3,female=0.7", the name of a table, or its file.
    """
    target = target.strip()
    if target == EQUAL:
        return dict.fromkeys(attribute.groups, 1 / len(attribute.groups))
    if "=" in target and not target.endswith(".json"):
        return checked(_typed(target), attribute, target)
    if target not in table_names() and not target.endswith(".json"):
        raise InputError(
            f"target={target!r} is not legal; pass {EQUAL}, shares such as"
            f" {_example(attribute)}, a table ({', '.join(table_names())}), or a .json file"
        )
    table = read_table(target)
    if table.attribute != attribute.name:
        raise InputError(
            f"the shares {table.name!r} are of {table.attribute}, and the attribute is"
            f" {attribute.name}; pass shares of its groups, such as {_example(attribute)}"
        )
    return table.of(prompt, attribute)


def checked(given: Mapping[str, float], attribute: Attribute, where: str) -> GroupShares:
    """Return shares in the order of the groups; raise unless they are shares of all of them."""
    if set(given) != set(attribute.groups):
        raise InputError(
            f"the shares {where!r} are of {', '.join(given)}, and the groups of {attribute.name}"
            f" are {', '.join(attribute.groups)}; give a share for each"
        )
    exact = {group: Fraction(repr(float(given[group]))) for group in attribute.groups}
    total = sum(exact.values())
    if min(exact.values()) < 0 or total not in (1, 100):
        raise InputError(
            f"the shares {where!r} are not shares: they sum to {float(total):g}; give numbers from"
            " 0 that sum to 1, or to 100"
        )
    return {group: float(share / total) for group, share in exact.items()}


def exact_shares(shares: Mapping[str, float]) -> tuple[Fraction, ...]:
    """Return shares as fractions that sum to one, as they would be typed.

    What rounding left (a third has no last digit) goes to them all in proportion.
    """
    typed = [Fraction(repr(share)) for share in shares.values()]
    total = sum(typed, Fraction(0))
    return tuple(share / total for share in typed)


def _typed(target: str) -> dict[str, float]:
    found = {}
    for part in target.split(","):
        group, _, share = part.rpartition("=")
        try:
            number = Decimal(share.strip())
        except InvalidOperation:
            number = Decimal("nan")
        if not number.is_finite() or not group.strip():
            raise InputError(
                f"target={target!r}: {part.strip()!r} is not GROUP=SHARE; write for example"
                " male=0.3,female=0.7"
            )
        found[group.strip()] = float(number)
    return found


def _example(attribute: Attribute) -> str:
    share = round(1 / len(attribute.groups), 4)
    return ",".join(f"{group}={share:g}" for group in attribute.groups)


def _says(prompt: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}s?\b", prompt, re.IGNORECASE) is not None
