"""Where tables and messages are printed.

Names that hold control characters cannot act on the terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import rich.console
import typer
from rich.segment import Segment

WIDE = 160  # columns
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the new line


def visible(text: str) -> str:
    """Return a text with its control characters written out, as JSON may write them too."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str, *, err: bool = False, fg: str | None = None) -> None:
    """Print a text that may hold names from files."""
    typer.secho(visible(text), err=err, fg=fg)


class Console(rich.console.Console):
    """A console on which only its own styles give escape sequences."""

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        """Yield segments of visible text."""
        for segment in super().render(*args, **options):
            if segment.control or not _CONTROL.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def table_console() -> Console:
    """Return a console as wide as the terminal.

    It is wide enough for every table where the output is a file or a pipe.
    """
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=WIDE)
