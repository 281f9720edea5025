"""Which pictures Figure 4 shows: ten at random of a prompt, the same numbers for every method,
those that look of the minority numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.generation._measures import Cells
from equipoise.generation._plan import Plan

SHOWN = 10


def gallery(
    plan: Plan, cells: Cells, codes: np.ndarray, groups: Sequence[str], prompts: Sequence[str]
) -> list[dict[str, Any]]:
    """A figure a neutral prompt: its rows are methods, each with pictures of the prompt and of the
    explicit prompt that belongs to it.
    """
    places = {prompt: i for i, prompt in enumerate(cells.prompts)}
    numbers = np.sort(np.random.default_rng(plan.seed).permutation(plan.images)[:SHOWN])
    found = []
    for prompt in prompts:
        explicit = next(
            (asked for asked in plan.prompts if asked.neutral == prompt and asked.explicit_group),
            None,
        )
        counts = np.bincount(codes[0, places[prompt]].clip(-1) + 1, minlength=len(groups) + 1)[1:]
        minority = groups[int(np.argmin(counts))]
        wrong = (
            None
            if explicit is None
            else [group for group in groups if group != explicit.explicit_group]
        )
        rows = []
        for i, method in enumerate(cells.methods):
            left = _marked(cells, codes, groups, (i, places[prompt]), numbers, [minority])
            right = (
                []
                if explicit is None
                else _marked(
                    cells, codes, groups, (i, places[explicit.prompt]), numbers, wrong or []
                )
            )
            rows.append({"method": method, "neutral": left, "explicit": right})
        found.append(
            {
                "neutral": prompt,
                "explicit": explicit.prompt if explicit else "",
                "minority": minority,
                "rows": rows,
            }
        )
    return found


def _marked(
    cells: Cells,
    codes: np.ndarray,
    groups: Sequence[str],
    at: tuple[int, int],
    numbers: np.ndarray,
    marked: Sequence[str],
) -> list:
    """Pictures with what they look like; those of the marked groups are counted 1, 2, ..."""
    shown, count = [], 0
    for number in numbers.tolist():
        image, code = cells.images[(*at, number)], codes[(*at, number)]
        if image is None:
            continue
        group = groups[code] if code >= 0 else ""
        count += group in marked
        shown.append({"image": image, "group": group, "mark": count if group in marked else None})
    return shown
