"""Numbers that kernels add to: nobody reads another call's rows, whatever happens to a call."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.helpers.common import component

torch = component("torch")
from equipoise.kernels import _counts as counts  # noqa: E402 - it needs torch


class Kernel:
    """What tells of a kernel that runs until somebody waits for it, or ``finish``."""

    def __init__(self):
        self.running = False

    def record(self):
        self.running = True

    def query(self):
        return not self.running

    def synchronize(self):
        self.running = False

    finish = synchronize


@pytest.fixture
def slots():
    return counts.CountSlots(Kernel, pinned=False)


def launch(slots, rows=0):
    count = counts.HostCount(slots)
    count.launched()
    count.number += rows  # the kernel adds while it runs
    return count


def in_the_host(slots):
    return counts.HostCount(slots)


def on_the_device(_):
    return counts.DeviceCount(torch.device("cpu"))


@pytest.mark.parametrize("make", [in_the_host, on_the_device])
def test_a_count_is_what_its_kernel_added(slots, make):
    count = make(slots)
    assert count.number.dtype == torch.int32 and count.number.data_ptr() % 16 == 0
    count.launched()
    count.number += 3
    count.number += 4
    assert int(count) == 7 == int(count)


def test_calls_at_the_same_time_share_no_number(slots):
    running = [launch(slots, rows) for rows in range(3 * counts.BLOCK)]
    assert [int(count) for count in running] == list(range(3 * counts.BLOCK))


def test_a_number_is_used_again_and_begins_at_zero(slots):
    seen = set()
    for rows in [2, 0, 5, 0] * counts.BLOCK:
        count = launch(slots, rows)
        seen.add(count.number.data_ptr())
        assert int(count) == rows
    assert len(seen) <= counts.BLOCK


def test_a_count_that_is_asked_twice_gives_its_number_back_once(slots):
    first = launch(slots, 2)
    assert int(first) == int(first) == 2
    second, third = launch(slots), launch(slots, 1)
    assert int(first) == 2
    assert (int(second), int(third)) == (0, 1)


def test_after_an_interrupted_launch_the_number_is_never_used_again(slots):
    """Its kernel may still come, or not: nobody knows."""
    interrupted = counts.HostCount(slots)
    number = interrupted.number
    del interrupted
    gc.collect()
    later = [launch(slots) for _ in range(3 * counts.BLOCK)]
    number += 1
    assert not any(int(count) for count in later)
    assert not any(int(launch(slots)) for _ in range(3 * counts.BLOCK))


def test_a_number_that_nobody_asked_for_comes_back_when_its_kernel_has_run(slots):
    dropped = launch(slots, 1)
    number, kernel = dropped.number, dropped._slot.event
    del dropped
    gc.collect()
    held = [launch(slots) for _ in range(counts.BLOCK)]
    assert number.data_ptr() not in {count.number.data_ptr() for count in held}
    number += 1
    kernel.finish()
    held += [launch(slots) for _ in range(counts.BLOCK)]
    assert number.data_ptr() in {count.number.data_ptr() for count in held}
    assert not any(int(count) for count in held)


def test_threads_do_not_read_each_others_rows(slots):
    def work(rows):
        return [int(launch(slots, rows)) for _ in range(300)] == [rows] * 300

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_one_count_read_by_many_threads(slots):
    for rows in range(50):
        count = launch(slots, rows)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(int, [count] * 4)) == [rows] * 4
    assert int(launch(slots)) == 0


def test_what_was_not_counted_is_no_number():
    counts.NO_COUNT.launched()
    with pytest.raises(TypeError, match="not counted"):
        int(counts.NO_COUNT)
