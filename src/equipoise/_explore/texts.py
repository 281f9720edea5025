"""Where texts lie between the groups' wordings, before and after a method."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from equipoise._audit.association import leans, yardstick
from equipoise._explore.answers import Leanings, LeaningText
from equipoise._explore.operators import Operators
from equipoise._explore.question import Controls, ListQuestion
from equipoise.geometry import Float64
from equipoise.methods import matched_texts

KEPT = 8  # attributes


class TextView:
    """Leans of texts, in lengths of the audit's yardstick.

    1 is as far towards a group as its own wordings lie on average, 0 is the middle.
    """

    def __init__(self, operators: Operators):
        self.operators = operators
        self._wordings = lru_cache(KEPT)(self._read_wordings)

    def answer(self, question: ListQuestion) -> Leanings:
        """Return the lean of each text to each group, and those of the groups' own wordings."""
        controls = question.controls
        attribute = self.operators.attributes[controls.attribute]
        prototypes, length, own = self._wordings(controls.attribute)
        texts = list(question.texts)
        rows = self.operators.encoder.encode_text(texts)
        reasons = [self.operators.base(controls.attribute).left_alone(text) for text in texts]
        changed = self._changed(controls, rows, texts, reasons)
        before = leans(rows, prototypes) / length
        after = leans(changed, prototypes) / length
        found = []
        for i, text in enumerate(texts):
            lean = LeaningText(
                text=text,
                left_alone=reasons[i],
                before=_named(before[i], attribute.groups),
                after=_named(after[i], attribute.groups),
            )
            found.append(lean)
        wordings = {group: own[:, i].tolist() for i, group in enumerate(attribute.groups)}
        return Leanings(groups=list(attribute.groups), texts=found, wordings=wordings)

    def _changed(
        self, controls: Controls, rows: np.ndarray, texts: list[str], reasons: list[str]
    ) -> np.ndarray:
        if controls.method == "balanced":
            operator: Any = self.operators.balanced(controls, nearest=True)
        else:
            operator = self.operators.method(controls)
        kept = set()
        for text, reason in zip(texts, reasons, strict=True):
            if reason:
                kept.add(text)
        return operator.text(rows, texts, gate=kept.__contains__)

    def _read_wordings(self, attribute: str) -> tuple[Float64, float, Float64]:
        """Return prototypes, the yardstick's length, and the leans (m, groups) of each group's own
        wordings to it, in lengths.
        """
        context = self.operators.context(attribute)
        rows = matched_texts("explore", context, "anchor")
        measure = yardstick(rows, 1, 0)
        flat = rows.reshape(-1, rows.shape[2])
        towards = leans(flat, measure.prototypes).reshape(*rows.shape[:2], -1)
        own = np.einsum("kgg->kg", towards)
        return measure.prototypes, measure.explicit, own / measure.explicit


def _named(values: Float64, groups: tuple[str, ...]) -> dict[str, float]:
    return dict(zip(groups, values.tolist(), strict=True))
