"""``TextRows``: debias rows that another library embedded, as lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.encoders._wrapping import Gate, as_operator

ListedRows = list[list[float]]


@dataclass(frozen=True)
class TextRows:
    """An operator on the rows of documents and of queries.

    ``balanced`` and the methods that rank again move queries, so they leave documents as they are;
    every other method changes both alike.
    """

    operator: Any
    gate: Gate = None

    @classmethod
    def of(cls, thing: Any, gate: Gate) -> TextRows:
        """Return the change of a space or an operator."""
        return cls(as_operator(thing), gate)

    def documents(self, rows: ListedRows, texts: Sequence[str]) -> ListedRows:
        """Return the rows of documents, debiased."""
        if getattr(self.operator, "gates_by_default", False):
            return rows
        return self.queries(rows, texts)

    def queries(self, rows: ListedRows, texts: Sequence[str]) -> ListedRows:
        """Return the rows of queries, debiased."""
        if not rows:
            return []
        given = np.asarray(rows, np.float64)
        changed = self.operator.text(given, prompts=list(texts), gate=self.gate)
        return np.asarray(changed).tolist()

    def query(self, row: list[float], text: str) -> list[float]:
        """Return the row of one query, debiased."""
        return self.queries([row], [text])[0]
