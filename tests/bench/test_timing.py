"""What the benchmarks say of their seconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise._bench.timing import by_round, median


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_a_median_lies_inside_its_interval(values):
    found = median(values)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)
    assert found.value == np.median(values)


def test_the_interval_holds_the_true_median_as_often_as_it_says(rng):
    """Order statistics of 15 values hold it in at least 95 %; 2,000 samples err by 1 % (2 sd)."""
    samples = rng.exponential(size=(2000, 15))  # skewed, as seconds are
    found = [median(sample) for sample in samples]
    held = np.mean([one.low <= np.log(2) <= one.high for one in found])
    assert held > 0.94


def test_every_contender_sees_every_round_and_the_first_is_not_counted():
    seen = []
    contenders = {name: lambda i, name=name: seen.append((i, name)) for name in ("a", "b")}
    seconds = by_round(contenders, 3)
    assert seen == [(i, name) for i in range(4) for name in ("a", "b")]
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3}
