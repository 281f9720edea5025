"""Measure how hard Python code is to read, room by room: ``python scripts/reading.py src/equipoise``.

Prints one line per room (a folder of the package; "." holds the files beside them) and a total.
With several folders it prints one line per folder, so that two trees can be compared.
``--json`` prints the same figures for a program to read.

What each measure means:

modules         files that end in .py.
code lines      lines that are not blank, not a comment and not part of a docstring.
length          lines of a function, from ``def`` to its last line: the median and the 95th
                percentile.
nodes           syntax nodes (everything that ``ast.walk`` visits) per code line: how much a reader
                has to take in at once.
with docs       the same per line that is neither blank nor a comment, docstrings included.
conditionals    conditional expressions (``a if b else c``) per 1,000 code lines.
comprehensions  comprehensions and generator expressions per 1,000 code lines.
nested          conditional expressions inside another, and comprehensions inside another.
over 100        share of all lines that are longer than 100 columns, in percent.
mccabe          functions whose cyclomatic complexity is above 10, and above 15. It is counted as
                ruff's rule C901 counts it: 1, and 1 for each if, elif, loop, except and case.
                ``ruff check --select C901 --config 'lint.mccabe.max-complexity=10'`` lists them.
decisions       functions with more than 10, and more than 15, decisions. Beyond C901 this counts
                conditional expressions, comprehensions with their conditions, and every ``and`` and
                ``or``. The figures in OTHERS count complexity in this way.
dict Any        files that say ``dict[str, Any]``.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

OTHERS_DATE = "2026-11-16"
OTHERS = {
    # library: length median, 95th, nodes, conditionals, comprehensions, % over 100, % complex
    "concept-erasure": (7, 60, 8.9, 6, 3, 0.0, 2.6),
    "einops": (4, 53, 8.2, 5, 24, 2.6, 4.6),
    "equinox": (7, 60, 6.7, 7, 10, 0.1, 1.6),
    "fairlearn": (18, 105, 6.6, 5, 11, 0.2, 6.0),
    "peft": (15, 68, 7.1, 5, 9, 8.4, 7.4),
    "httpx": (9, 47, 6.2, 14, 10, 0.0, 1.8),
}
"""Other libraries on OTHERS_DATE, from the table in STYLE.md."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Loop = ast.For | ast.AsyncFor | ast.While
Branch = ast.If | ast.IfExp | Loop | ast.ExceptHandler | ast.match_case | ast.comprehension


@dataclass
class Counts:
    """What was counted in some files; ``+=`` adds the counts of others."""

    modules: int = 0
    lines: int = 0
    code_lines: int = 0
    doc_lines: int = 0
    nodes: int = 0
    conditionals: int = 0
    comprehensions: int = 0
    nested_conditionals: int = 0
    nested_comprehensions: int = 0
    long_lines: int = 0
    dict_any_files: int = 0
    lengths: list[int] = field(default_factory=list)
    complexities: list[int] = field(default_factory=list)
    decisions: list[int] = field(default_factory=list)

    def __iadd__(self, other: Counts) -> Counts:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass(frozen=True)
class Measures:
    """The measures of some files; the docstring of this script says what each means."""

    modules: int
    code_lines: int
    length_median: int
    length_95th: int
    nodes: float
    nodes_with_docs: float
    conditionals: float
    comprehensions: float
    nested_conditionals: int
    nested_comprehensions: int
    percent_over_100: float
    mccabe_over_10: int
    mccabe_over_15: int
    decisions_over_10: int
    decisions_over_15: int
    dict_any_files: int


def measure(counts: Counts) -> Measures:
    """Return the measures that follow from the counts."""
    code_lines = max(counts.code_lines, 1)
    lengths = sorted(counts.lengths)
    return Measures(
        modules=counts.modules,
        code_lines=counts.code_lines,
        length_median=percentile(lengths, 50),
        length_95th=percentile(lengths, 95),
        nodes=round(counts.nodes / code_lines, 2),
        nodes_with_docs=round(counts.nodes / (code_lines + counts.doc_lines), 2),
        conditionals=round(1000 * counts.conditionals / code_lines, 1),
        comprehensions=round(1000 * counts.comprehensions / code_lines, 1),
        nested_conditionals=counts.nested_conditionals,
        nested_comprehensions=counts.nested_comprehensions,
        percent_over_100=round(100 * counts.long_lines / max(counts.lines, 1), 1),
        mccabe_over_10=count_above(10, counts.complexities),
        mccabe_over_15=count_above(15, counts.complexities),
        decisions_over_10=count_above(10, counts.decisions),
        decisions_over_15=count_above(15, counts.decisions),
        dict_any_files=counts.dict_any_files,
    )


def percentile(ordered: list[int], percent: int) -> int:
    """Return the smallest value that at least ``percent`` of the values do not exceed."""
    if not ordered:
        return 0
    place = -(-len(ordered) * percent // 100) - 1
    return ordered[max(place, 0)]


def count_above(limit: int, values: Iterable[int]) -> int:
    """Return how many values are above the limit."""
    return sum(value > limit for value in values)


# --- One file ---------------------------------------------------------------------------


def count_file(path: Path) -> Counts:
    """Return the counts of one file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    lines = source.splitlines()
    in_docstrings = docstring_lines(tree)
    filled = lines_with_code(source)
    counts = Counts(
        modules=1,
        lines=len(lines),
        code_lines=len(filled - in_docstrings),
        doc_lines=len(filled & in_docstrings),
        long_lines=count_above(100, map(len, lines)),
        dict_any_files=int("dict[str, Any]" in source),
    )
    count_nodes(tree, counts)
    for function in functions(tree):
        last = function.end_lineno or function.lineno
        counts.lengths.append(last - function.lineno + 1)
        counts.complexities.append(1 + branches(function.body))
        counts.decisions.append(1 + decisions(function))
    return counts


def lines_with_code(source: str) -> set[int]:
    """Return the numbers of the lines that are neither blank nor a comment."""
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    numbers: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in empty and token.string:
            numbers.update(range(token.start[0], token.end[0] + 1))
    return numbers


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of every string that stands alone as a statement."""
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and is_text(node.value):
            numbers.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return numbers


def is_text(node: ast.expr) -> bool:
    """Return whether an expression is a plain string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def count_nodes(tree: ast.Module, counts: Counts) -> None:
    """Add the nodes of a tree, its conditional expressions and its comprehensions."""
    for node in ast.walk(tree):
        counts.nodes += 1
        if isinstance(node, ast.IfExp):
            counts.conditionals += 1
            counts.nested_conditionals += holds(node, ast.IfExp)
        elif isinstance(node, Comprehension):
            counts.comprehensions += 1
            counts.nested_comprehensions += holds(node, Comprehension)


def holds(node: ast.AST, kind: type | object) -> bool:
    """Return whether a node of this kind stands somewhere inside another node."""
    inside = (child for child in ast.walk(node) if child is not node)
    return any(isinstance(child, kind) for child in inside)  # pyright: ignore[reportArgumentType]


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function of a tree, methods and inner functions among them."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


# --- Complexity -------------------------------------------------------------------------


def branches(body: list[ast.stmt]) -> int:
    """Return the branches of some statements as ruff's C901 counts them."""
    return sum(branches_of(statement) for statement in body)


def branches_of(statement: ast.stmt) -> int:
    """Return the branches of one statement and of the statements inside it."""
    inside = sum(branches(block) for block in blocks(statement))
    if isinstance(statement, ast.If | Loop | Function):
        return 1 + inside
    if isinstance(statement, ast.Try | ast.TryStar):
        return len(statement.handlers) + bool(statement.orelse) + inside
    if isinstance(statement, ast.Match):
        return len(statement.cases) - ends_in_wildcard(statement) + inside
    if isinstance(statement, ast.ClassDef):
        methods = [child for child in statement.body if isinstance(child, Function)]
        return sum(branches_of(method) for method in methods)
    return inside


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def ends_in_wildcard(statement: ast.Match) -> bool:
    """Return whether the last case of a match takes everything, as an else does."""
    last = statement.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and not last.pattern.pattern


def decisions(function: Function) -> int:
    """Return every decision in a function: branches, conditions, ``and`` and ``or``."""
    count = 0
    for node in ast.walk(function):
        if isinstance(node, Branch):
            count += 1
        if isinstance(node, ast.comprehension):
            count += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


# --- Folders ----------------------------------------------------------------------------


def count_folder(folder: Path) -> Counts:
    """Return the counts of every Python file under a folder."""
    counts = Counts()
    for path in sorted(folder.rglob("*.py")):
        counts += count_file(path)
    return counts


def count_rooms(folder: Path) -> dict[str, Counts]:
    """Return the counts of each room of a package; "." holds the files beside the rooms."""
    rooms: dict[str, Counts] = {}
    for path in sorted(folder.rglob("*.py")):
        room, *rest = path.relative_to(folder).parts
        rooms.setdefault(room if rest else ".", Counts()).__iadd__(count_file(path))
    return rooms


def total(parts: Iterable[Counts]) -> Counts:
    """Return the sum of some counts."""
    counts = Counts()
    for part in parts:
        counts += part
    return counts


# --- Printing ---------------------------------------------------------------------------

HEADINGS = (
    "modules",
    "code lines",
    "length",
    "nodes",
    "with docs",
    "conditionals",
    "comprehensions",
    "nested",
    "over 100",
    "mccabe",
    "decisions",
    "dict Any",
)


def cells(one: Measures) -> list[str]:
    """Return the measures as they stand under HEADINGS."""
    return [
        f"{one.modules}",
        f"{one.code_lines}",
        f"{one.length_median} / {one.length_95th}",
        f"{one.nodes:.1f}",
        f"{one.nodes_with_docs:.1f}",
        f"{one.conditionals:.0f}",
        f"{one.comprehensions:.0f}",
        f"{one.nested_conditionals} / {one.nested_comprehensions}",
        f"{one.percent_over_100:.1f} %",
        f"{one.mccabe_over_10} / {one.mccabe_over_15}",
        f"{one.decisions_over_10} / {one.decisions_over_15}",
        f"{one.dict_any_files}",
    ]


def other_cells(figures: tuple[float, ...]) -> list[str]:
    """Return the figures of another library as they stand under HEADINGS, "-" where unknown."""
    median, longest, nodes, conditionals, comprehensions, over_100, complex_share = figures
    return [
        "-",
        "-",
        f"{median} / {longest}",
        f"{nodes:.1f}",
        "-",
        f"{conditionals}",
        f"{comprehensions}",
        "-",
        f"{over_100:.1f} %",
        "-",
        f"{complex_share:.1f} %",
        "-",
    ]


def print_table(rows: dict[str, list[str]]) -> None:
    """Print rows of cells under HEADINGS, in columns as wide as they need."""
    table = [["", *HEADINGS], *([name, *row] for name, row in rows.items())]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for name, *row in table:
        right = [cell.rjust(width) for cell, width in zip(row, widths[1:], strict=True)]
        print("  ".join([name.ljust(widths[0]), *right]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how hard Python code is to read.")
    parser.add_argument("folders", nargs="+", type=Path, help="packages; several are compared")
    parser.add_argument("--json", action="store_true", help="print the measures as JSON")
    parser.add_argument("--others", action="store_true", help="show other libraries too")
    given = parser.parse_args()
    for folder in given.folders:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder; pass the folder of a package")
    if len(given.folders) == 1:
        counts = count_rooms(given.folders[0])
        counts["total"] = total(counts.values())
    else:
        counts = {str(folder): count_folder(folder) for folder in given.folders}
    measures = {name: measure(one) for name, one in counts.items()}
    if given.json:
        print(json.dumps({name: asdict(one) for name, one in measures.items()}, indent=1))
        return
    rows = {name: cells(one) for name, one in measures.items()}
    if given.others:
        rows |= {name: other_cells(figures) for name, figures in OTHERS.items()}
    print_table(rows)
    if given.others:
        print(f"Other libraries as measured on {OTHERS_DATE}; decisions: share of functions.")


if __name__ == "__main__":
    main()
