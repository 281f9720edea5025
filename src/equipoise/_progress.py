"""A progress bar for everything that takes over two seconds; silent when nobody watches.

It shows items per second and the time left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY = 2.0


@contextmanager
def progress(
    label: str, total: int | None = None, show: bool | None = None, size: float = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of items just done.

    show: None shows the bar on a terminal only. size: bytes per item.
    """
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    with reporting(label, show, size) as report:
        yield advance


@contextmanager
def reporting(
    label: str, show: bool | None = None, size: float = 0
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with (items done, items in all)."""
    shows = _watched() if show is None else show
    if not shows:
        yield lambda done, total: None
        return
    started, bar = time.monotonic(), None

    def report(done: int, total: int | None) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - started >= DELAY:
            bar = _bar(label, show)
            bar.start()
        if bar is not None:
            rate = done / (time.monotonic() - started)
            shown = f"{rate:,.0f}/s"
            if size:
                shown += f", {rate * size / 1e6:,.0f} MB/s"
            bar.update(bar.task_ids[0], completed=done, total=total, rate=shown)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def quiet_off_terminals(*libraries: Any) -> Iterator[None]:
    """Hide the bars of Hugging Face libraries where nobody watches.

    libraries: the ``utils.logging`` of each.
    """
    shown = []
    if not _watched():
        shown = [library for library in libraries if library.is_progress_bar_enabled()]
    for library in shown:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in shown:
            library.enable_progress_bar()


def _watched() -> bool:
    """Return whether standard error is a terminal; a service may have closed it."""
    return sys.stderr is not None and sys.stderr.isatty()


def _bar(label: str, show: bool | None):
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True, force_terminal=show), transient=True)
    bar.add_task(label, total=None, rate="")
    return bar


def tell(done: int, total: int, what: str) -> None:
    """Print a line for each finished part of work whose parts have bars; on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        console.print(f"{done}/{total} {what}", style="dim", markup=False, highlight=False)
