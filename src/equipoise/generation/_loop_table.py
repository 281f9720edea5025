"""Closed loops as tables: prompts down; shares wanted, seen at first and seen in the run across."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from equipoise.generation._results_document import (
    GenerationResults,
    LoopOfMethod,
    LoopOfPrompt,
    SeenGroupShare,
)

HEADER = ("Prompt", "Wanted", "Pilot, first round", "Strength", "Drawn", "Run", "Verdict")
CSV_HEADER = (
    *("method", "prompt", "group", "wanted", "first", "first_low", "first_high"),
    *("drawn", "strength", "spent", "seen", "seen_low", "seen_high"),
    *("n", "left_out", "verdict", "reason"),
)


def loop_lines(loop: LoopOfMethod) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a closed loop as strings."""
    return list(HEADER), [_line(one) for one in loop.prompts]


def _line(one: LoopOfPrompt) -> list[str]:
    return [
        one.prompt,
        _shares(one.wanted),
        _seen(one.first),
        f"{one.strength:.2f}",
        _shares(one.drawn),
        _seen(one.seen),
        verdict(one),
    ]


def verdict(one: LoopOfPrompt) -> str:
    """Return whether a prompt has its shares, and if not, why."""
    return one.verdict if one.verdict == "reached" else f"{one.verdict}: {one.reason}"


def _shares(shares: Mapping[str, float]) -> str:
    return "; ".join(f"{group} {100 * share:.1f}" for group, share in shares.items())


def _seen(shares: Mapping[str, SeenGroupShare]) -> str:
    if not shares:
        return "not known"
    found = []
    for group, share in shares.items():
        if share.value is not None and share.low is not None and share.high is not None:
            ends = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
            found.append(f"{group} {100 * share.value:.1f} {ends}")
    return "; ".join(found)


def loop_note(loop: LoopOfMethod) -> str:
    """Return what a reader of a closed loop's numbers must know."""
    prompts = len(loop.prompts)
    parts = [
        f"{loop.method}: shares in percent by {loop.by or 'nobody'}; up to {loop.budget} pictures"
        f" per prompt for a pilot, labelled by {loop.steered_by}, of which none is in the run.",
        f"Intervals ({loop.level:.0%}) are per prompt and hold all its groups at once: of prompts"
        f" that have exactly their shares, {1 - loop.level:.0%} miss by chance"
        f" ({prompts * (1 - loop.level):.1f} of {prompts}).",
        "Strength 0 draws the wanted shares; at 1 a group is drawn no more.",
    ]
    stuck = [one.prompt for one in loop.prompts if one.verdict == "could not be moved"]
    if stuck:
        parts.append(f"Could not be moved: {', '.join(stuck)}.")
    if loop.left_alone:
        parts.append(f"Left alone: {_alone(loop.left_alone)}.")
    return " ".join(parts)


def _alone(prompts: Mapping[str, str]) -> str:
    return ", ".join(f"{prompt} ({reason})" for prompt, reason in prompts.items())


def rich_loops(results: GenerationResults) -> Iterator[Any]:
    """Yield a table for a rich console per closed loop."""
    from rich.table import Table

    for loop in results.loops:
        header, rows = loop_lines(loop)
        table = Table(title=f"Closed loop: {loop.method}", caption=loop_note(loop))
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(cell.replace("; ", "\n") for cell in row))
        yield table


def loop_csv(loops: Iterable[LoopOfMethod]) -> str:
    """Return one line per method, prompt and group, every number by itself."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for loop in loops:
        for one in loop.prompts:
            for group in one.wanted:
                writer.writerow([loop.method, one.prompt, *_numbers(one, group)])
    return out.getvalue()


def _numbers(one: LoopOfPrompt, group: str) -> list[Any]:
    return [
        *(group, one.wanted[group], *_ends(one.first, group)),
        *(one.drawn[group], one.strength, one.spent, *_ends(one.seen, group)),
        *(one.n, one.left_out, one.verdict, one.reason),
    ]


def _ends(shares: Mapping[str, SeenGroupShare], group: str) -> tuple[Any, Any, Any]:
    if group not in shares:
        return None, None, None
    share = shares[group]
    return share.value, share.low, share.high
