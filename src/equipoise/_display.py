"""How objects show themselves: a few names, a few digits, a small table for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_NAMES = 6
LONGEST_NAME = 24

_LINE = "border-bottom: 1px solid rgba(128, 128, 128, 0.4)"
_TABLE = "border-collapse: collapse; color: inherit; background: none"
_CELL = f"padding: 0.2em 0.8em 0.2em 0; text-align: left; {_LINE}"


def cut(text: object, most: int = LONGEST_NAME) -> str:
    """Return the text, cut to ``most`` characters with dots at its end."""
    whole = str(text)
    if len(whole) <= most:
        return whole
    return whole[: most - 1] + "…"


def listed(names: Iterable[object]) -> str:
    """Return the first few names with commas between them, and how many more there are."""
    every = list(names)
    shown = [cut(name) for name in every[:MOST_NAMES]]
    if len(every) > MOST_NAMES:
        shown.append(f"{len(every) - MOST_NAMES} more")
    return ", ".join(shown)


def html_table(title: str, rows: Sequence[Sequence[object]], heads: Sequence[str] = ()) -> str:
    """Return an HTML table in the page's own colours; everything in it is escaped."""
    lines = []
    if heads:
        lines.append(_row(heads, "th"))
    for row in rows:
        lines.append(_row([_number(cell) for cell in row], "td"))
    caption = f'<caption style="text-align: left"><b>{escape(title)}</b></caption>'
    return f'<table style="{_TABLE}">{caption}{"".join(lines)}</table>'


def _row(cells: Sequence[str], tag: str) -> str:
    inner = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f'<tr style="background: none">{inner}</tr>'


def _number(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)
