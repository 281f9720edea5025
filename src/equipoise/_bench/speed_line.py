"""One line of the table that ``equipoise bench`` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpeedLine:
    """One line of the table.

    measured: what was measured, in words with its unit; rival and floor likewise: who else does it,
    and what it cannot be faster than. aim: what we want to reach.
    """

    what: str
    measured: str
    rival: str
    floor: str
    aim: str
