"""Write the tables of docs/benchmarks.md and docs/how-fast.md from the JSON that ``equipoise bench
... --json`` printed, so that no figure is copied by hand.

Run from the repository root: ``python scripts/benchmark_tables.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path("docs")


def table(name: str) -> str:
    """The table that fits what was measured, and the machine."""
    data = json.loads((DOCS / "measurements" / name).read_text())
    kinds = {
        "over_faiss": retrieval,
        "over_closed_form": methods,
        "over_copy": kernel,
        "balanced_seconds": balance,
        "both_p95": explore,
        "floor": everything,
    }
    lines = next(write for key, write in kinds.items() if key in data["rows"][0])(data["rows"])
    return "\n".join(
        [*lines, "\n" + " · ".join(f"{key} {value}" for key, value in data["machine"].items())]
    )


def everything(rows: list[dict]) -> list[str]:
    """Write one line per speed that was measured here; GPUs have tables of their own."""
    lines = ["| what | measured | aim | rival | floor |", "|---|---|---|---|---|"]
    for row in rows:
        if "GPU" not in row["measured"]:
            cells = (row[key] for key in ("what", "measured", "aim", "rival", "floor"))
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def retrieval(rows: list[dict]) -> list[str]:
    """One depth a line."""
    lines = [
        (
            "| k | equipoise | product alone | faiss | time / faiss | time / product | agreement |"
            " MiB |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        seconds = (f"{row[key]:.1f} s" for key in ("seconds", "product_seconds", "faiss_seconds"))
        ratios = (
            f"{row['over_faiss']:.2f}",
            f"{row['over_product']:.2f}",
            f"{row['agreement']:.3%}",
            f"{row['mebibytes']:.0f}",
        )
        lines.append(f"| {row['k']} | " + " | ".join((*seconds, *ratios)) + " |")
    return lines


def methods(rows: list[dict]) -> list[str]:
    """One method a line."""
    lines = [
        "| method | what it is | rank | fit | apply | time / closed-form |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = (
            f"{row['fit_seconds']:.3f} s",
            f"{row['seconds'] * 1e3:.0f} ms",
            f"{row['over_closed_form']:.2f}",
        )
        lines.append(
            f"| {row['method']} | {row['form']} | {row['rank'] or ''} | " + " | ".join(times) + " |"
        )
    return lines


def balance(rows: list[dict]) -> list[str]:
    """Write one line per number of groups and length of the page."""
    lines = [
        "| images | groups | k | search, per query | added, ms per query | added / search |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        added = [f"{1e3 * row[key]:.1f}" for key in ("added_seconds", "added_low", "added_high")]
        times = f"{row['search_seconds'] * 1e3:.0f} ms | {added[0]} [{added[1]}, {added[2]}]"
        lines.append(
            f"| {row['images']:,} | {row['groups']} | {row['k']} | {times} | {row['share']:.0%} |"
        )
    return lines


def explore(rows: list[dict]) -> list[str]:
    """Write one line per collection, in milliseconds."""
    lines = [
        "| images | d | first row, p50 / p95 | both rows, p50 / p95 | until the page opens |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        times = (
            f"{row['first']:.0f} / {row['first_p95']:.0f} ms",
            f"{row['both']:.0f} / {row['both_p95']:.0f} ms",
            f"{row['seconds_to_start']:.0f} s",
        )
        lines.append(f"| {row['images']:,} | {row['dim']} | " + " | ".join(times) + " |")
    return lines


def kernel(rows: list[dict]) -> list[str]:
    """One dtype a block: ratio to the copy and, behind a slash, how many times faster than the
    transcription.
    """
    dims, ranks = (sorted({row[key] for row in rows}) for key in ("dim", "rank"))
    lines = [
        "| dtype | d | " + " | ".join(f"r = {r}" for r in ranks) + " |",
        "|---|---|" + "---|" * len(ranks),
    ]
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for dim in dims:
            cells = {
                row["rank"]: row for row in rows if row["dtype"] == dtype and row["dim"] == dim
            }
            shown = (
                f"{cells[r]['over_copy']:.2f} / {cells[r]['over_transcription']:.0f}" for r in ranks
            )
            lines.append(f"| {dtype} | {dim} | " + " | ".join(shown) + " |")
    return lines


def main() -> None:
    for page in (DOCS / "benchmarks.md", DOCS / "how-fast.md"):
        text = page.read_text()
        for name in re.findall(r"<!-- table (\S+) -->", text):
            block = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.S)
            text = block.sub(lambda m, name=name: f"{m[1]}{table(name)}\n{m[2]}", text)
        page.write_text(text)


main()
