"""``equipoise report``: the page of a saved audit, or a comparison of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import TemplateError

from equipoise import _audit
from equipoise._artefact import NOT_WHOLE, write_atomically
from equipoise._verbs.destinations import require_free_file
from equipoise.errors import ArtefactError
from equipoise.report import comparison, page


def write_report(results: Sequence[Path], out: Path, force: bool = False) -> None:
    """Write the page of one audit, or compare several under the names of their folders."""
    require_free_file(out, force)
    read = [_audit.read(path) for path in results]
    try:
        if len(read) == 1:
            made = page(*read[0])
        else:
            documents = [document for document, _ in read]
            made = comparison(list(zip(_names(results), documents, strict=True)))
    except (*NOT_WHOLE, TemplateError) as error:
        raise ArtefactError(
            f"the results are not complete ({error!r}); they were changed, so run the audit again"
        ) from None
    write_atomically(out, made.encode())


def _names(results: Sequence[Path]) -> list[str]:
    """Return the folders' names, or whole paths where two are alike."""
    folders = [(path if path.is_dir() else path.parent).resolve() for path in results]
    short = [folder.name for folder in folders]
    if len(set(short)) == len(short):
        return short
    return [str(path) for path in results]
