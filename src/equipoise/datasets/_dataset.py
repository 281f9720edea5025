"""What every reader gives: one table, and how many rows were dropped on the way and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# a pandas table or column, whose types a checker cannot follow through indexing
Frame = Any
ON_MISSING = ("raise", "drop", "keep")


@dataclass(frozen=True)
class Dataset:
    """Images, with what is known of each.

    table: one row per image, crop or pair of an image and a caption, with the column ``path`` and a
    column for whatever else is known. groups: the columns that are sensitive features. dropped:
    reason -> rows, in the order in which they went.
    """

    name: str
    table: pd.DataFrame
    groups: tuple[str, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Return the number of rows."""
        return len(self.table)

    def __str__(self) -> str:
        gone = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items() if count)
        return f"{self.name}: {self.kept:,} rows kept; dropped: {gone or 'none'}"


class Sieve:
    """A table that rows are dropped from, with a count for each reason."""

    def __init__(self, table: Frame):
        self.table = table
        self.dropped: dict[str, int] = {}

    def drop(self, rows: Frame, reason: str) -> Sieve:
        """Drop the rows where ``rows`` is True, and count them."""
        self.dropped[reason] = self.dropped.get(reason, 0) + int(rows.sum())
        self.table = self.table[~rows]
        return self

    def without_missing_files(self, on_missing: str) -> Sieve:
        """Raise for rows whose ``path`` is no file, drop and count them, or keep them."""
        if on_missing not in ON_MISSING:
            raise InputError(
                f"on_missing={on_missing!r} is not legal; pass one of {', '.join(ON_MISSING)}"
            )
        if on_missing == "keep":
            return self
        missing = ~self.table["path"].isin(existing(self.table["path"]))
        if on_missing == "raise" and missing.any():
            first = self.table.loc[missing, "path"].iloc[0]
            raise InputError(
                f"{int(missing.sum()):,} of {len(missing):,} images are missing, first {first}."
                ' Check the folder, or pass on_missing="drop" (`on_missing` drop) to leave them'
                ' out and count them, "keep" if only the annotations are needed'
            )
        return self.drop(missing, "image file missing")

    def result(self, name: str, groups: tuple[str, ...]) -> Dataset:
        """Return the rows that are left; raise where none is."""
        if self.table.empty:
            gone = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
            raise InputError(f"{name}: no row is left; dropped: {gone}")
        return Dataset(name, self.table.reset_index(drop=True), groups, self.dropped)


def existing(paths: Frame) -> set[str]:
    """Return all files of the folders that the paths lie in.

    Listing a folder once is faster than asking for each of its files.
    """
    found: set[str] = set()
    for folder in {os.path.dirname(path) for path in paths}:
        listed = folder or "."
        if not os.path.isdir(listed):
            continue
        for entry in os.scandir(listed):
            if entry.is_file():
                found.add(str(Path(folder) / entry.name))
    return found
