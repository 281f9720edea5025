"""A progress bar for anything that reports (done, all): on a terminal only, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """``with bar("encoding") as progress: work(progress=progress)``."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def tell(done: int, total: int, what: str) -> None:
    """A line for each finished part of work whose parts have bars of their own; on a terminal only."""
    console = Console(stderr=True)
    if console.is_terminal:
        console.print(f"{done}/{total} {what}", style="dim", markup=False, highlight=False)
