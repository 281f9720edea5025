"""What an audit hands over: an operator per method, and the lines that put one to use.

Every line runs as it stands from the folder in which the audit ran.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise import _artefact as artefact
from equipoise._audit.results import AuditDocument, Recommendation
from equipoise._audit.sources import MANIFEST
from equipoise.methods import Operator
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.methods._specs import BASELINE

OPERATORS, INDEX = "operators", "images.npy"
EXAMPLE = "a photo of a doctor"


@dataclass(frozen=True)
class AuditedIndex:
    """Where the audited images are, as the user would name it.

    model: as ``load_encoder`` takes it; None where texts came from a file of vectors. path: a store
    or a .npy file of their rows; None where there is none. rows: of pictures that the audit
    encoded itself, which it then writes beside its results.
    """

    model: str | None = None
    path: Path | None = None
    rows: np.ndarray | None = None


def hand_over(
    document: AuditDocument,
    operators: Mapping[str, Operator],
    index: AuditedIndex,
    folder: Path,
) -> AuditDocument:
    """Write the operators, and return the document with their files and the lines to type."""
    methods, files = [], {}
    for old in (folder / OPERATORS).glob("*.safetensors"):
        old.unlink()
    (folder / OPERATORS).mkdir(parents=True, exist_ok=True)
    for place, about in enumerate(document.methods):
        name = None
        if about.label != BASELINE:
            name = f"{OPERATORS}/{_slug(about.label)}.safetensors"
            files[place] = folder / name
            operators[about.label].save(files[place])
        methods.append(about.model_copy(update={"file": name}))
    found = document.recommendation
    if found.method is not None:
        path = _index_file(index, folder)
        operator = operators[document.methods[found.method].label]
        found = _with_lines(found, operator, files[found.method], index.model, path)
    return document.model_copy(update={"methods": methods, "recommendation": found})


def _index_file(index: AuditedIndex, folder: Path) -> Path | None:
    """Return the file or store of the audited rows; write those that are nowhere yet."""
    if index.path is not None or index.rows is None:
        return index.path
    path = folder / INDEX
    file = io.BytesIO()
    np.save(file, index.rows.astype(np.float32))
    artefact.write_atomically(path, file.getvalue())
    return path


def _with_lines(
    found: Recommendation, operator: Operator, file: Path, model: str | None, path: Path | None
) -> Recommendation:
    """Return the recommendation with what to type for this kind of operator."""
    python, shell = ["import equipoise as eq"], []
    load = f"eq.methods.load({str(file)!r})"
    if isinstance(operator, BalancedOperator):
        python += _search_lines(operator, load, model, path)
        back = (
            "The index stays as it is. Leave balance=operator out of the call, and the search is"
            " the one you had."
        )
    else:
        python += _encoder_lines(load, model)
        back = "The texts alone change: use the encoder without the operator."
        if "image" in operator.changes and path is not None:
            out = _beside(path)
            typed = ["equipoise", "apply", str(path), "--operator", str(file), "--out", str(out)]
            shell.append(shlex.join(typed))
            back = f"{path} is not changed: search it with the encoder as it was, and delete {out}."
    return found.model_copy(
        update={"file": str(file), "python": python, "shell": shell, "back": back}
    )


def _search_lines(
    operator: BalancedOperator, load: str, model: str | None, path: Path | None
) -> list[str]:
    lines = [f"operator = {load}"]
    if model is None or path is None:
        return lines
    index = f"eq.open_store({str(path)!r})"
    if path.suffix == ".npy":
        lines.insert(0, "import numpy as np")
        index = f'np.load({str(path)!r}, mmap_mode="r")'
    return [
        *lines,
        f"index, encoder = {index}, eq.load_encoder({model!r})",
        (
            f"found = eq.search(index, [{EXAMPLE!r}], {operator.options.k}, encoder=encoder,"
            " balance=operator)"
        ),
    ]


def _encoder_lines(load: str, model: str | None) -> list[str]:
    if model is None:
        return [f"operator = {load}"]
    return [
        f"encoder = eq.wrap(eq.load_encoder({model!r}), {load}, gate=True)",
        f"queries = encoder.encode_text([{EXAMPLE!r}])",
    ]


def _beside(path: Path) -> Path:
    """Return a name beside a store or a file, for what is made of it."""
    if (path / MANIFEST).is_file():
        return path.with_name(f"{path.name}-debiased")
    return path.with_name(f"{path.stem}-debiased{path.suffix}")


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9.=]+", "-", label.lower()).strip("-")
