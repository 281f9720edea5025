"""The files of an audit, written and read; ``results.py`` says what is in the first.

results.json holds every number. data.safetensors holds what the page computes with, and small
pictures.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from equipoise import _artefact as artefact
from equipoise._audit.results import FORMAT, KIND, AuditDocument
from equipoise.errors import ArtefactError

DATA_KIND = "audit data"
RESULTS, DATA = "results.json", "data.safetensors"
# of small pictures: the longest side in pixels, and the quality of the JPEG
SIDE, QUALITY = 96, 80


@dataclass(frozen=True)
class Pictures:
    """What the page needs beside the results.

    arrays: what it computes with. small: image -> JPEG.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    small: dict[int, bytes] = field(default_factory=dict)


def write(folder: Path, document: AuditDocument, pictures: Pictures) -> None:
    """Write both files, each whole or not at all.

    Old data is removed first, so that a kill never leaves it beside these results.
    """
    (folder / DATA).unlink(missing_ok=True)
    text = document.model_dump_json(indent=1)
    artefact.write_atomically(folder / RESULTS, f"{text}\n".encode())
    if pictures.arrays or pictures.small:
        artefact.save(folder / DATA, DATA_KIND, pictures.arrays | _packed(pictures.small), {})


def read(path: Path) -> tuple[AuditDocument, Pictures]:
    """Return an audit's results and pictures. path: its folder or its results.json."""
    if path.is_dir():
        path = path / RESULTS
    try:
        results = artefact.parse_json(path.read_text(encoding="utf-8"))
        if results["kind"] != KIND:
            raise ValueError(f"its kind is {results['kind']!r}")
        form = int(results["format"])
    except FileNotFoundError:
        raise ArtefactError(f"there is no {path}; equipoise audit writes one") from None
    except (OSError, *artefact.NOT_WHOLE) as error:
        raise ArtefactError(
            f"{path} does not hold an audit's results ({error}); pass an audit's folder or"
            " results.json"
        ) from None
    _require_format(path, form)
    try:
        document = AuditDocument.model_validate(results)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ArtefactError(
            f"{path} does not hold an audit's results ({place}: {first['msg']}); run the audit"
            " again"
        ) from None
    beside = path.parent / DATA
    if not beside.is_file():
        return document, Pictures()
    arrays, _ = artefact.load(beside, DATA_KIND)
    with artefact.whole(beside, "an audit's data", "run the audit again"):
        return document, Pictures(arrays, _unpacked(arrays))


def _require_format(path: Path, form: int) -> None:
    """Raise unless the file is of the present format; an older one has another verdict."""
    artefact.require_format(path, form, FORMAT)
    if form < FORMAT:
        raise ArtefactError(
            f"{path} has format {form}, written by an older equipoise whose verdict followed"
            f" another rule; this version reads format {FORMAT}. Run the audit again"
        )


def small(source: Any) -> bytes | None:
    """Return a picture as a small JPEG; None where it can no longer be read."""
    from equipoise.encoders._images import UnreadableImageError, open_image

    try:
        image = open_image(source, longest=SIDE)
    except UnreadableImageError:
        return None
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY, optimize=True)
    return out.getvalue()


def _packed(files: dict[int, bytes]) -> dict[str, np.ndarray]:
    if not files:
        return {}
    ends = np.cumsum([len(data) for data in files.values()])
    joined = np.frombuffer(b"".join(files.values()), np.uint8)
    return {
        "small.images": np.array(list(files), np.int64),
        "small.ends": ends,
        "small.bytes": joined,
    }


def _unpacked(arrays: dict[str, np.ndarray]) -> dict[int, bytes]:
    """Return the small pictures, and take them out of the arrays."""
    if "small.images" not in arrays:
        return {}
    images, ends = arrays.pop("small.images"), arrays.pop("small.ends")
    joined = arrays.pop("small.bytes")
    starts = [0, *ends[:-1].tolist()]
    return {
        int(i): joined[start:end].tobytes()
        for i, start, end in zip(images, starts, ends.tolist(), strict=True)
    }
