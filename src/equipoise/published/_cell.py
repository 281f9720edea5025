"""Define a printed cell, and read the file that holds all of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

FILE = Path(__file__).with_name("results.csv")


@dataclass(frozen=True)
class Cell:
    """One cell as printed: texts, so that no digit is lost."""

    table: str  # "2" to "5", or "F", the appendix
    task: str
    model: str
    dataset: str
    attribute: str
    method: str
    variant: str  # a row of Table 5 that is not the paper's own configuration
    metric: str
    better: str  # "higher" or "lower"
    value: str  # percent
    spread: str  # percent; the paper's plus-minus
    marker: str  # "best", "second" or ""

    @property
    def number(self) -> float:
        """Return the value as a number."""
        return float(self.value)

    @property
    def rounding(self) -> float:
        """Return half a unit of the last digit printed."""
        _, _, decimals = self.value.partition(".")
        return 0.5 / 10 ** len(decimals)


COLUMNS = [field.name for field in fields(Cell)]


def read(path: Path = FILE) -> list[Cell]:
    """Return all cells, in the paper's order."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Cell(**row) for row in csv.DictReader(file)]
