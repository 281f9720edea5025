"""Where tables are printed."""

from __future__ import annotations

import os

from rich.console import Console

WIDE = 160  # columns


def table_console() -> Console:
    """As wide as the terminal; wide enough for every table where the output is a file or a pipe."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=WIDE)
