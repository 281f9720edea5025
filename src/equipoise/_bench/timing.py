"""Interleaved timing: each round runs every contender once.

A slow moment of the machine then falls on all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Sync = Callable[[], object]
Clock = Callable[[], float]


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    sync: Sync = lambda: None,
    calls: int = 1,
    clock: Clock = time.perf_counter,
    before: Sync = lambda: None,
) -> dict[str, float]:
    """Return the median seconds of one call of each contender over ``rounds`` rounds.

    One more round comes first and is not counted. calls: how many calls a round times together.
    Several, on an accelerator, so that launching one overlaps with running the last. clock:
    time.process_time counts the processor's seconds of all threads, which neighbours on the machine
    disturb less. before: what each call needs first, and is not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            before()
            sync()
            start = clock()
            for _ in range(calls):
                run()
            sync()
            if round_:
                seconds[name].append((clock() - start) / calls)
    return {name: statistics.median(values) for name, values in seconds.items()}


class Median(NamedTuple):
    """A median, and the interval that holds the true one in 95 of 100 such measurements."""

    value: float
    low: float
    high: float


def median(values: Sequence[float]) -> Median:
    """Return the median with the order statistics on both sides of it as its interval.

    Fewer than six values have no such interval; it is then from the least to the largest.
    """
    from scipy.stats import quantile_test

    interval = quantile_test(values, p=0.5).confidence_interval(0.95)
    low = interval.low if interval.low == interval.low else min(values)
    high = interval.high if interval.high == interval.high else max(values)
    return Median(statistics.median(values), float(low), float(high))


def by_round(
    contenders: Mapping[str, Callable[[int], object]], rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of every round of each contender, which is called with its number.

    Round 0 comes first and is not counted. Differences within a round are those of the contenders,
    whatever the machine did in other rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run(round_)
            if round_:
                seconds[name].append(time.perf_counter() - start)
    return seconds
