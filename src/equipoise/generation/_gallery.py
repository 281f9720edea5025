"""The pictures that Figure 4 shows: ten at random per prompt, the same numbers for every method.

Those that look of the minority are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.generation._measures import PictureGrid
from equipoise.generation._plan import DrawingPlan
from equipoise.generation._results_document import Figure, FigureRow, ShownPicture

SHOWN = 10


def gallery(
    plan: DrawingPlan,
    cells: PictureGrid,
    codes: np.ndarray,
    groups: Sequence[str],
    prompts: Sequence[str],
) -> list[Figure]:
    """Return a figure per neutral prompt.

    Its rows are methods, each with pictures of the prompt and of the explicit prompt that belongs
    to it.
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
        rows = []
        for i, method in enumerate(cells.methods):
            left = _marked(cells, codes, groups, (i, places[prompt]), numbers, [minority])
            right: list[ShownPicture] = []
            if explicit is not None:
                at = i, places[explicit.prompt]
                wrong = [group for group in groups if group != explicit.explicit_group]
                right = _marked(cells, codes, groups, at, numbers, wrong)
            rows.append(FigureRow(method=method, neutral=left, explicit=right))
        other = explicit.prompt if explicit else ""
        found.append(Figure(neutral=prompt, explicit=other, minority=minority, rows=rows))
    return found


def _marked(
    cells: PictureGrid,
    codes: np.ndarray,
    groups: Sequence[str],
    at: tuple[int, int],
    numbers: np.ndarray,
    marked: Sequence[str],
) -> list[ShownPicture]:
    """Return pictures with what they look like; those of the marked groups are counted 1, 2, ..."""
    shown, count = [], 0
    for number in numbers.tolist():
        image, code = cells.images[(*at, number)], codes[(*at, number)]
        if image is None:
            continue
        group = str(groups[code]) if code >= 0 else ""
        count += group in marked
        mark = count if group in marked else None
        shown.append(ShownPicture(image=image, group=group, mark=mark))
    return shown
