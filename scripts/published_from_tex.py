"""Write the published results from the paper's LaTeX source, and the list of flagged cells in
docs/published.md, so that no figure is copied by hand.

Run from the repository root: ``python scripts/published_from_tex.py PAPER.TEX``.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from equipoise._artefact import write_atomically
from equipoise.published import _rules as rules
from equipoise.published._cell import COLUMNS, FILE, Cell

MODELS = {
    "CLIP (ViT-L/14)": "CLIP ViT-L/14",
    "CLIP (ResNet50)": "CLIP RN50",
    "BLIP": "BLIP",
    "SD v2.1": "SD v2.1",
}
METHODS = {
    "SFID": "sfid",
    "FairerCLIP": "fairer-clip",
    "PRISM": "prism",
    "PRISM-mini": "prism-mini",
    "RoboShot": "roboshot",
    "PromptArray": "prompt-array",
    "CLIP-clip": "clip-clip",
    "Orth-Proj": "orth-proj",
    "Orth-Cali": "orth-cali",
    "Ours": "closed-form",
}
VARIANTS = {  # of closed-form, in Table 5
    r"debias with only $\vec p_a$": "prototype=anchor",
    r"debias with only $\vec p_m$": "prototype=variants",
    "debias with DeepSeek v3.2": "book=DeepSeek v3.2",
    "debias with Gemini2.5 Pro": "book=Gemini 2.5 Pro",
    r"debias with only $\vec{u}_I$": "modality=image",
    r"debias with only $\vec{u}_T$": "modality=text",
}
METRICS = {
    "F1": "F1",
    "Macro F1": "macro F1",
    r"$\Delta_{\text{EO}}^{\text{Avg}}$": "EO_avg",
    r"$\Delta_{\text{EO}}^{\text{Max}}$": "EO_max",
    "R@5": "R@5",
    "R@10": "R@10",
    "MS@1000": "MS@1000",
    r"$\overline{\mathrm{SP}}_{\mathcal{T}_o}$": "SP_all",
    r"$\overline{\mathrm{SP}}_{5}$": "SP_5",
    r"$\text{CLIP}_\text{score}$": "CLIP score",
    r"$\text{Acc}^\text{G}$": "Acc^G",
}
ATTRIBUTES = {"G": "gender", r"G$\times$A": "gender & age", r"G$\times$ST": "gender & skin tone"}
TASKS = {
    "CelebA": "classification",
    "FACET": "classification",
    "COCO2017": "retrieval",
    "Flickr30K": "retrieval",
    "occupations": "generation",
}
CELL = re.compile(
    r"(?P<bold>\\textbf\{)?(?P<bracket>\[)?(?P<value>\d+(\.\d+)?)\]?\}?\s*(\$\\pm\$\s*(?P<spread>\d+(\.\d+)?))?"
)
HEADER = re.compile(
    r"(?P<metric>.+?)\s*(\((?P<attribute>G.*?)\))?\s*(\(\\%\))?\s*\$\\(?P<arrow>up|down)arrow\$"
)


def plain(cell: str) -> str:
    """A name without citation, colour, weight and the symbols in front of a method."""
    cell = re.sub(r"\\(cite|rowcolor)\{.*?\}|\\hline|\\fa\w+|\$\\,\$", "", cell)
    cell = re.sub(r"\\textcolor\{\w+\}\{([^{}]*)\}", r"\1", cell)
    cell = re.sub(r"\\textbf\{(.*)\}", r"\1", cell.strip(), flags=re.S)
    return re.sub(r"^(I\\&)?T\s+", "", cell.strip()).strip()


def spread_out(row: list[str]) -> list[str]:
    """A cell that spans several columns, once for each."""
    spans = [
        re.fullmatch(r"\\multicolumn\{(\d+)\}\{[^}]*\}\{(.*)\}", cell.strip(), re.S) for cell in row
    ]
    return [
        text
        for cell, span in zip(row, spans, strict=True)
        for text in ([span[2]] * int(span[1]) if span else [cell])
    ]


def tables(tex: str) -> Iterator[list[list[str]]]:
    """Every table as rows of raw cells, in the order in which LaTeX numbers them."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    for table in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.S):
        body = re.split(r"\\end\{tabular\}", re.split(r"\\begin\{tabular\}", table)[1])[0]
        yield [spread_out(re.split(r"(?<!\\)&", row)) for row in body.split(r"\\") if "&" in row]


def parsed(pattern: re.Pattern, cell: str) -> re.Match:
    match = pattern.fullmatch(cell.strip())
    if not match:
        raise SystemExit(f"cannot read the cell {cell.strip()!r}")
    return match


def columns_of(rows: list[list[str]]) -> tuple[list[dict[str, str]], list[list[str]]]:
    """What each column of a table holds, and the rows below its header."""
    named = plain(rows[0][0]).endswith("Datasets")
    datasets, header, body = (
        (rows[0][1:], rows[1][1:], rows[2:])
        if named
        else (["occupations"] * 4, rows[0][1:], rows[1:])
    )
    columns = []
    for dataset, cell in zip(datasets, header, strict=True):
        match = parsed(HEADER, plain(cell))
        better = {"up": "higher", "down": "lower"}[match["arrow"]]
        columns.append(
            {
                "dataset": dataset.strip(),
                "attribute": match["attribute"],
                "metric": METRICS[match["metric"]],
                "better": better,
            }
        )
    attributes = {
        c["dataset"]: c["attribute"] for c in columns if c["attribute"]
    }  # printed at the fairness columns alone
    return [
        {
            **c,
            "task": TASKS[c["dataset"]],
            "attribute": ATTRIBUTES[attributes.get(c["dataset"], "G")],
        }
        for c in columns
    ], body


def cells_of(tex: str) -> Iterator[Cell]:
    for number, rows in enumerate(tables(tex), start=1):
        if number == 1:
            continue  # properties of the methods, no results
        columns, body = columns_of(rows)
        model = MODELS[plain(body[0][0]).removeprefix("Baseline ")]
        for name, *printed in body:
            label = plain(name)
            method = (
                "none"
                if label.startswith("Baseline ")
                else "closed-form"
                if label in VARIANTS
                else METHODS[label]
            )
            for column, text in zip(columns, printed, strict=True):
                match = parsed(CELL, text)
                yield Cell(
                    table=str(number) if number <= 5 else "F",
                    model=model,
                    method=method,
                    variant=VARIANTS.get(label, ""),
                    value=match["value"],
                    spread=match["spread"] or "",
                    marker="best" if match["bold"] else "second" if match["bracket"] else "",
                    **column,
                )


def as_csv(cells: Iterable[Cell]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(cell) for cell in cells)
    return text.getvalue()


def with_flagged(page: str, cells: list[Cell]) -> str:
    """The page with its list of flagged cells written anew."""
    lines = [
        "| table | model | dataset | method | metric | printed | rule | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell, rule, why in rules.broken(cells):
        shown = (
            cell.table,
            cell.model,
            cell.dataset,
            cell.method,
            cell.metric,
            cell.value,
            rule,
            why,
        )
        lines.append(f"| {' | '.join(shown)} |")
    table = "\n".join(lines)
    return re.sub(
        r"(<!-- flagged -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}{table}\n{m[2]}",
        page,
        flags=re.S,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", type=Path)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--page", type=Path, default=Path("docs/published.md"))
    given = parser.parse_args()
    cells = list(cells_of(given.paper.read_text(encoding="utf-8")))
    page = with_flagged(given.page.read_text(encoding="utf-8"), cells)
    write_atomically(given.results, as_csv(cells).encode())
    write_atomically(given.page, page.encode())


if __name__ == "__main__":
    main()
