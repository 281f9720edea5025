"""What the CPU's kernel computes does not depend on where its rows lie in memory."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from tests.helpers.common import component, make_space

component("numba")
from equipoise.kernels import _numba as numba  # noqa: E402

NARROW = (3, 16, 24, 63)  # rows of 64 numbers or more are apart by themselves


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_kernel_works_in_lies_apart_from_what_came_before(dtype):
    flat = made = numba._buffer.py_func(4, 16, np.zeros(1, dtype))
    while flat.base is not None:
        flat = flat.base
    assert made.ctypes.data - flat.ctypes.data >= numba.APART
    assert made.ctypes.data % 64 == 0 and made.shape == (4, 16) and made.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", NARROW)
def test_from_there_on_a_sum_is_the_same_at_any_distance(rng, d, dtype):
    """The squared length of a row whose copy is written that far behind it."""
    apart = numba.APART // np.dtype(dtype).itemsize
    for _ in range(50):
        row = rng.standard_normal(d).astype(dtype)
        found = set()
        for gap in (apart, apart + 1, 3 * apart):
            memory = np.zeros(5 * d + gap, dtype)
            given, copy = memory[:d].reshape(1, d), memory[d + gap :].reshape(4, d)
            given[:] = row
            found.add(float(numba._load(given, 0, copy, 0)))
        assert len(found) == 1


@pytest.mark.parametrize("d", NARROW)
def test_a_narrow_row_is_the_same_wherever_it_lies(rng, d):
    space = make_space(rng, d, groups=2)
    rows = rng.standard_normal((9, d)).astype(np.float32)
    found = eq.debias(rows, space)
    kept = []
    for i in range(200):  # another place in memory each time
        kept.append(np.empty(int(rng.integers(1, 600)), np.uint8))
        assert eq.debias(rows.copy(), space).tobytes() == found.tobytes(), i
