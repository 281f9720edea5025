"""People of three jobs and two genders, as rows, and evaluations of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

import equipoise as eq
from equipoise.evaluation import Evaluation, Settings
from tests.helpers.common import unit
from tests.helpers.words import Words

JOBS = ("doctor", "nurse", "artist")
QUICK = Settings(resamples=30, permutations=5, probe=0)


def people(n: int, folder: str = "here", seed: int = 0) -> tuple[eq.datasets.Dataset, np.ndarray]:
    """Images of three jobs and two genders, of which a direction of their own tells."""
    rng = np.random.default_rng(seed)
    gender, job = rng.integers(0, 2, n), rng.integers(0, 3, n)
    rows = Words().encode_text([f"a photo of a {JOBS[i]}" for i in job]) + 0.5 * unit(
        rng.standard_normal((n, 32))
    )
    rows[:, 5] += 0.2 * gender
    table = pd.DataFrame(
        {"path": [f"{folder}/{i}.jpg" for i in range(n)], "label": [JOBS[i] for i in job]}
    )
    table["gender"] = np.where(
        rng.random(n) < 0.05, "unknown", np.where(gender == 1, "male", "female")
    )
    table["caption"] = [f"a {JOBS[i]} at work" for i in job]
    return eq.datasets.Dataset(folder, table, ("gender",)), unit(rows).astype(np.float32)


def evaluation(task="classification", n=300, settings=QUICK, **options):
    dataset, rows = people(n)
    return Evaluation(
        task,
        dataset,
        Words(),
        embeddings=rows,
        book="occupations-gender",
        settings=settings,
        **options,
    )
