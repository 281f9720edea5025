"""Methods against each other: how long each takes to fit and to apply, on the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise import methods
from equipoise._bench.timing import interleaved
from equipoise.errors import InputError
from equipoise.methods import FitContext, Operator
from equipoise.prompts._attribute import Attribute

METHODS = (
    "closed-form",
    "adapted",
    "orth-proj",
    "orth-cali",
    "prism-mini",
    "roboshot",
    "leace",
    "clip-clip",
    "sfid",
    "fairer-clip",
)
# Methods that are not listed are maps of low rank.
FORMS = {"clip-clip": "coordinates", "sfid": "coordinates", "fairer-clip": "random features"}
SMALL = {"sfid": {"modality": "image"}}  # there are no texts to grow a forest on
FITTED_ON = 4000
YARDSTICK = "closed-form"


@dataclass(frozen=True)
class MethodTiming:
    """One method: what it does to a row, and its seconds to fit and to apply to (rows, dim).

    The closed form's seconds in the same rounds stand beside them.
    """

    method: str
    form: str
    rank: int | None
    fit_seconds: float
    seconds: float
    closed_form_seconds: float

    @property
    def over_closed_form(self) -> float:
        return self.seconds / self.closed_form_seconds


def run(
    names: Sequence[str] = METHODS,
    rows: int = 200_000,
    dim: int = 512,
    groups: int = 2,
    rounds: int = 5,
    seed: int = 0,
) -> Iterator[MethodTiming]:
    """Measure each method on float32 rows of the modality that it changes.

    Methods are fitted on 4,000 labelled rows and two prompts per group.
    """
    if min(rows, rounds) < 1 or dim < 8 or not 2 <= groups <= dim // 4:
        raise InputError(
            f"rows={rows}, dim={dim}, groups={groups} or rounds={rounds} is not legal: dim from 8,"
            " 2 to dim / 4 groups"
        )
    rng = np.random.default_rng(seed)
    context = _context(rng, dim, groups)
    array = rng.standard_normal((rows, dim), dtype=np.float32)
    yardstick = methods.create(YARDSTICK).fit(context)
    for name in names:
        start = time.perf_counter()
        operator = methods.create(name, **SMALL.get(name, {})).fit(context)
        fit_seconds = time.perf_counter() - start
        apply = operator.image if "image" in operator.changes else operator.text
        times = interleaved(
            {"ours": lambda apply=apply: apply(array), "yardstick": lambda: yardstick.image(array)},
            rounds,
        )
        yield MethodTiming(
            name,
            FORMS.get(name, "low rank"),
            _rank(operator),
            fit_seconds,
            times["ours"],
            times["yardstick"],
        )


def _rank(operator: Operator) -> int | None:
    found = getattr(operator, "rank", None) or getattr(
        getattr(operator, "space", None), "rank", None
    )
    return None if found is None else int(found)


def _context(rng: np.random.Generator, dim: int, groups: int) -> FitContext:
    """Return rows of groups and classes that can be told apart."""
    attribute = Attribute("attribute", tuple(f"group {i}" for i in range(groups)))
    centres, classes = rng.standard_normal((groups, dim)), rng.standard_normal((2, dim))
    s, y = rng.integers(0, groups, FITTED_ON), rng.integers(0, 2, FITTED_ON)
    images = classes[y] + centres[s] / 8 + rng.standard_normal((FITTED_ON, dim))
    prototypes = {
        group: centre + rng.standard_normal((2, dim)) / 4
        for group, centre in zip(attribute.groups, centres, strict=True)
    }
    labels = {
        "labels": y,
        "class_prompts": ("zero", "one"),
        "text_table": dict(zip(("zero", "one"), classes, strict=True)),
    }
    return FitContext(
        attribute,
        prototypes=prototypes,
        images=images,
        sensitive_features=np.array(attribute.groups)[s],
        **labels,
    )
