"""Write docs/benchmarks.md's tables from the JSON that ``equipoise bench kernel --json`` printed, so that no figure is copied by hand.

Run from the repository root: ``python scripts/benchmark_tables.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path("docs")


def table(name: str) -> str:
    """One dtype a block: ratio to the copy and, behind a slash, how many times faster than the transcription."""
    data = json.loads((DOCS / "measurements" / name).read_text())
    rows = data["rows"]
    dims, ranks = (sorted({row[key] for row in rows}) for key in ("dim", "rank"))
    lines = ["| dtype | d | " + " | ".join(f"r = {r}" for r in ranks) + " |", "|---|---|" + "---|" * len(ranks)]
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for dim in dims:
            cells = {row["rank"]: row for row in rows if row["dtype"] == dtype and row["dim"] == dim}
            shown = (f"{cells[r]['over_copy']:.2f} / {cells[r]['over_transcription']:.0f}" for r in ranks)
            lines.append(f"| {dtype} | {dim} | " + " | ".join(shown) + " |")
    lines.append("\n" + " · ".join(f"{key} {value}" for key, value in data["machine"].items()))
    return "\n".join(lines)


def main() -> None:
    page = DOCS / "benchmarks.md"
    text = page.read_text()
    for name in re.findall(r"<!-- table (\S+) -->", text):
        block = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.S)
        text = block.sub(lambda m, name=name: f"{m[1]}{table(name)}\n{m[2]}", text)
    page.write_text(text)


main()
