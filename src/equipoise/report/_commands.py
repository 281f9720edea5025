"""Audits performed and written; pages from saved results; the files of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from equipoise import _artefact as artefact
from equipoise._audit import Plan, read, run
from equipoise._audit import write as write_results
from equipoise._audit.commands import folder_of
from equipoise.errors import ArtefactError, InputError
from equipoise.evaluation._document import write as write_document
from equipoise.report._card import model_card
from equipoise.report._page import comparison, page
from equipoise.report._sweep import sweep_page

REPORT, SPACE, CARD = "report.html", "space.safetensors", "model-card.md"
SWEEP = "sweep"


def perform(plans: Sequence[Plan], out: Path, pictures: bool) -> list[tuple[Path, dict[str, Any]]]:
    """Run each plan and write its files; several get a folder each and a comparison page."""
    found = []
    for plan in plans:
        folder = folder_of(out, plan, plans)
        audit = run(plan, pictures=pictures)
        write_results(folder, audit.results, audit.pictures)
        audit.space.save(folder / SPACE)
        artefact.write_atomically(folder / CARD, model_card(audit.results).encode())
        artefact.write_atomically(folder / REPORT, page(audit.results, audit.pictures).encode())
        found.append((folder, audit.results))
    if len(found) > 1:
        artefact.write_atomically(
            out / REPORT, comparison([(folder.name, results) for folder, results in found]).encode()
        )
    return found


def write(results: Sequence[Path], out: Path, force: bool) -> None:
    """The page of one audit, or the comparison of several, under the names of their folders."""
    if out.exists() and not force:
        raise InputError(f"{out} is there already; pass another --out, or --force to replace it")
    found = [read(path) for path in results]
    folders = [(path if path.is_dir() else path.parent).resolve() for path in results]
    short = [folder.name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(path) for path in results]
    try:
        made = (
            page(*found[0])
            if len(found) == 1
            else comparison([(name, run) for name, (run, _) in zip(names, found, strict=True)])
        )
    except (*artefact.NOT_WHOLE, TemplateError) as error:
        raise ArtefactError(
            f"the results are not whole ({error!r}); they were changed, so run the audit again"
        ) from None
    artefact.write_atomically(out, made.encode())


def write_sweep(results: dict[str, Any], folder: Path) -> Path:
    """sweep.json and sweep.html; gives the page's path."""
    write_document(folder / f"{SWEEP}.json", results)
    artefact.write_atomically(folder / f"{SWEEP}.html", sweep_page(results).encode())
    return folder / f"{SWEEP}.html"
