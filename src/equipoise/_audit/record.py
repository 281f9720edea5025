"""For the record: who measured what, for whom, and the hashes of all of it."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import _artefact as artefact
from equipoise._audit.fitted_methods import Index, Subject
from equipoise._audit.results import AuditRecord
from equipoise._space import EncoderRef


@dataclass(frozen=True)
class AuditOrder:
    """Who audits for whom and why, in their own words, and what was typed."""

    organisation: str | None = None
    auditor: str | None = None
    purpose: str | None = None
    command: str | None = None


def record(
    subject: Subject, model: EncoderRef, order: AuditOrder, images: str | None
) -> AuditRecord:
    """Return the record of an audit. images: the list of its images, as ``image_list`` gives it."""
    return AuditRecord(
        command=order.command,
        organisation=order.organisation,
        auditor=order.auditor,
        purpose=order.purpose,
        model=model.fingerprint,
        images=None if images is None else _sha256(images.encode()),
        images_file=None,
        prompts=_sha256("\n".join(subject.plan.prompts).encode()),
    )


def image_list(index: Index) -> str:
    """Return a csv of the measured images: their path, group and SHA-256.

    The hash is that of the picture, or of the embedding where there is no picture.
    """
    pictures, names = index.source.pictures, index.source.names
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", "group", "sha256", "of"])
    for row, line, group in zip(index.rows, index.lines.tolist(), index.names, strict=True):
        picture = None if pictures is None else pictures[line]
        if picture is None:
            hashed, of = _hash_row(row), "embedding"
        else:
            hashed, of = _hash_picture(picture), "picture"
        writer.writerow([names[line], group or "", hashed, of])
    return out.getvalue()


def _hash_row(row: np.ndarray) -> str:
    return _sha256(np.ascontiguousarray(row).tobytes())


def _hash_picture(picture: Any) -> str:
    if isinstance(picture, bytes):
        return _sha256(picture)
    try:
        return artefact.sha256(picture)
    except OSError:
        return ""


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
