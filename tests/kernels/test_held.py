"""What many calls read on a GPU stays until the last of them has read it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.common import component

torch = component("torch")
from equipoise.kernels import _held as held  # noqa: E402 - it needs torch
from equipoise.kernels._recipe import LowRank  # noqa: E402


class Factor:
    """A copy of axes on a GPU, which notes the streams that torch is told of."""

    def __init__(self):
        self.streams = []

    def record_stream(self, stream):
        self.streams.append(stream.cuda_stream)


@pytest.fixture
def read_on(monkeypatch):
    """Return what reads a map's copies on a stream; the copies; and what is kept."""
    factors: Any = (Factor(), Factor())
    kept = set()
    monkeypatch.setattr(held, "KEPT", kept)
    tensors = held.HeldTensors(factors)

    def read(stream, stream_id=3, captures=False):
        current = SimpleNamespace(cuda_stream=stream, stream_id=stream_id)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captures)
        tensors.before(stream)

    return read, factors, kept


def test_torch_waits_for_every_stream_that_reads(read_on):
    """A space may be dropped while its kernel waits on another stream than it was made on."""
    read, factors, kept = read_on
    for stream in (0, 64, 0, 64, 128):
        read(stream, stream_id=stream and stream + 1)
    assert [factor.streams for factor in factors] == [[0, 64, 128]] * 2 and not kept


def test_what_a_graph_reads_is_kept(read_on):
    read, factors, kept = read_on
    read(64)
    assert not kept
    read(64, captures=True)
    assert len(kept) == 1 and factors[0].streams == [64]


def test_what_another_librarys_stream_reads_is_kept(read_on):
    """That stream may be gone when torch would wait for it."""
    read, factors, kept = read_on
    read(1 << 40, stream_id=1 << 40)
    assert len(kept) == 1 and not factors[0].streams


def test_threads_share_what_is_made_for_all(rng):
    """Else the last one to make it would drop what the first one's kernel still reads."""
    low_rank, given = LowRank.projection(rng.standard_normal((4, 1))), []

    def make():
        if not given:
            given.append(None)
            given[0] = low_rank.cached("key", lambda: "of another thread")
        return "of this thread"

    assert low_rank.cached("key", make) == given[0] == low_rank.made("key")
