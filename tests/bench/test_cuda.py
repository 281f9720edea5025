"""The lines that need a GPU: the code that measures them runs here on the CPU, on few rows."""

from __future__ import annotations

import re

import pytest

from equipoise._bench import cuda
from tests.helpers.common import component

torch = component("torch")


def test_without_a_gpu_each_line_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert [line.measured for line in cuda.lines()] == [cuda.NOT_HERE] * 6


def test_debias_beside_a_copy(monkeypatch):
    monkeypatch.setattr(cuda, "DIMS", (64, 128))
    line = cuda.checked(cuda.CHECKED, "cpu", ["float32", "bfloat16"], 1 << 20)
    three = r"\d+\.\d\d, \d+\.\d\d, \d+\.\d\d"
    said = rf"at most {three} x a copy at rank 1, 3, 7; unchecked {three}; d 64 to 128"
    assert re.fullmatch(said, line.measured)
    assert line.floor == cuda.CHECKED.floor and line.aim == "1.05 x"


def test_arrays_of_every_dtype_are_of_one_size(monkeypatch):
    """Else the arrays of half-width numbers would be half as large, and might fit in a cache."""
    sizes = []

    def beside_copy(rows, space):
        sizes.append(rows.numel() * rows.element_size())
        return cuda._Ratios(1.0, 1.0, 1.0)

    monkeypatch.setattr(cuda, "_beside_copy", beside_copy)
    cuda.checked(cuda.IN_HALF, "cpu", ["float32", "float16", "bfloat16"], 3 << 20)
    assert sizes == [3 << 20] * 27


def test_one_call():
    line = cuda.one_call("cpu")
    assert re.fullmatch(r"\d+, \d+, \d+ us, unchecked \d+, \d+, \d+", line.measured)


def test_on_the_cpu_a_row_alone_is_the_row_among_others():
    assert cuda.alone("cpu").measured == "yes, 468 of 468 rows"


def test_search_beside_the_bare_product():
    line = cuda.search(cuda.SEARCH, "cpu", 3000, 4, 50)
    assert "4 queries x 3,000 x 512, k 50" in line.what
    # half-width scores have ties that exact scores do not
    agreement = float(re.search(r"([\d.]+)% agree", line.rival)[1])
    assert 95 < agreement <= 100
    line = cuda.search(cuda.ONE_SEARCH, "cpu", 3000, 1, 10)
    assert "one query x 3,000 x 512, k 10" in line.what
