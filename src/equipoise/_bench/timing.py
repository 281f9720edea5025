"""Interleaved timing: each round runs every contender once.

A slow moment of the machine then falls on all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

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
