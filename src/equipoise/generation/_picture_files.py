"""Draw pictures with a method into a folder: each carries its provenance, and then has its line."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin
from pydantic import Field

from equipoise._artefact import write_atomically
from equipoise._documents import Document, read_document
from equipoise._version import __version__
from equipoise.encoders._batching import ShrinkingBatches
from equipoise.encoders._images import identified
from equipoise.errors import ArtefactError, InputError, ServiceError
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._painters import PartlyPaintedError
from equipoise.generation._treatments import DrawingRun, Treatment, TreatmentFacts

CHUNK = "equipoise"  # the PNG text chunk that holds the provenance


class PictureProvenance(Document):
    """What a picture says of itself, in a text of its PNG."""

    prompt: str
    method: str
    seed: int
    explicit_group: str
    attempt: int
    number: int
    model: str
    revision: str
    precision: str
    steps: int | None
    guidance: float | None
    tokens: str
    spaces: dict[str, str] = Field(description="Part of the pipeline -> hash of its space.")
    gated: bool = Field(description="Whether the prompt was left as it is.")
    drawn: str = Field(default="", description="The group that was drawn for it, or an empty text.")
    shares: dict[str, float] = Field(default={}, description="The shares that it was drawn with.")
    wanted: dict[str, float] = Field(
        default={}, description="The shares that a closed loop aims at."
    )
    strength: float | None = Field(default=None, description="Of a closed loop, for this prompt.")
    round: int | None = Field(
        default=None, description="Of a closed loop's pilot; 0 for a picture of the run itself."
    )
    wording: str = Field(default="", description="What was asked for, where not the prompt.")
    left_alone: str = Field(default="", description="Why no group was drawn for it.")
    equipoise: str = Field(description="The version that drew it.")


def draw_pictures(
    treatment: Treatment,
    manifest: Manifest,
    pictures: list[DrawnPicture],
    batches: ShrinkingBatches,
    advance: Callable[[int], object],
) -> dict[str, int]:
    """Draw pictures in batches of one prompt; return why some were not drawn, and how many."""
    refusals: dict[str, int] = {}
    for batch in _batches(pictures, batches):
        for reason in _draw(treatment, manifest, batch, batches):
            refusals[reason] = refusals.get(reason, 0) + 1
        advance(len(batch))
    return refusals


def require_all(refusals: dict[str, int], wanted: int) -> None:
    """Raise where pictures were not drawn."""
    if refusals:
        raise ServiceError(
            f"{sum(refusals.values())} of {wanted} pictures were not drawn, and the others are"
            f" kept: {next(iter(refusals))}; the same command asks for them again"
        )


def _batches(
    pictures: list[DrawnPicture], batches: ShrinkingBatches
) -> Iterable[list[DrawnPicture]]:
    """Yield batches of pictures of one prompt each."""
    for _, group in groupby(pictures, key=lambda picture: picture.prompt):
        rest = list(group)
        while rest:
            batch = rest[: batches.size]
            yield batch
            rest = rest[len(batch) :]


def _draw(
    treatment: Treatment,
    manifest: Manifest,
    pictures: list[DrawnPicture],
    batches: ShrinkingBatches,
) -> list[str]:
    """Draw pictures of one prompt and add them to the manifest; return why some were not drawn."""
    failures: list[PartlyPaintedError] = []

    def paint(some: list[DrawnPicture]) -> np.ndarray:
        # A server may say that it is out of memory, which must not halve the batch and ask again.
        try:
            return treatment.paint(some)
        except PartlyPaintedError as error:
            failures.append(error)
            return np.empty(0)

    drawn = batches.run(paint, pictures)
    if not failures:
        _add(treatment, manifest, pictures, drawn)
        return []
    error = failures[0]
    places = sorted(error.painted)
    painted = [error.painted[place] for place in places]
    _add(treatment, manifest, [pictures[place] for place in places], painted)
    if not error.passing:
        raise ServiceError(str(error))
    return [str(error)] * (len(pictures) - len(places))


def _add(
    treatment: Treatment,
    manifest: Manifest,
    pictures: list[DrawnPicture],
    drawn: Iterable[np.ndarray],
) -> None:
    """Write pictures, each with its description inside, and then their lines of the manifest."""
    written = []
    for picture, pixels in zip(pictures, drawn, strict=True):
        facts = treatment.says(picture)
        about = _provenance(picture, treatment.run, facts)
        write_atomically(manifest.folder / picture.image, _png(pixels, about))
        written.append(_with_group(picture, facts.drawn))
    manifest.add(written)


def _with_group(picture: DrawnPicture, drawn: str) -> DrawnPicture:
    return picture.model_copy(update={"drawn": drawn}) if drawn else picture


def _provenance(picture: DrawnPicture, run: DrawingRun, facts: TreatmentFacts) -> PictureProvenance:
    """Return what a picture says of itself."""
    plan, painter = run.plan, run.painter
    about = PictureProvenance(
        prompt=picture.prompt,
        method=picture.method,
        seed=picture.seed,
        explicit_group=picture.explicit_group,
        attempt=picture.attempt,
        number=picture.number,
        model=painter.id,
        revision=plan.revision,
        precision=painter.precision,
        steps=plan.steps,
        guidance=plan.guidance,
        tokens=plan.tokens,
        spaces=dict(facts.spaces),
        gated=facts.gated,
        equipoise=__version__,
    )
    told: dict[str, Any] = {
        "drawn": facts.drawn,
        "wording": facts.wording,
        "left_alone": facts.left_alone,
        "shares": dict(facts.shares),
    }
    update = {name: value for name, value in told.items() if value}
    if facts.aim is not None:
        wanted = plan.shares_of(picture.prompt, run.attribute)
        update |= {"wanted": wanted, "strength": facts.aim.strength, "round": facts.aim.round}
    return about.model_copy(update=update)


def _png(pixels: np.ndarray, about: PictureProvenance) -> bytes:
    notes = PngImagePlugin.PngInfo()
    notes.add_itxt(CHUNK, json.dumps(about.to_plain(), ensure_ascii=False, sort_keys=True))
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", pnginfo=notes)
    return out.getvalue()


def read_provenance(path: str | os.PathLike[str]) -> PictureProvenance | None:
    """Return what ``generate`` wrote into a picture; None where it did not write it."""
    try:
        with identified(path) as image:
            text = getattr(image, "text", {}).get(CHUNK)
    except FileNotFoundError:
        raise InputError(f"there is no picture {path}; pass one that exists") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise ArtefactError(f"{path} is no whole picture ({error}); draw it again") from None
    if text is None:
        return None
    where = f"the text {CHUNK!r} of {path}"
    return read_document(PictureProvenance, text, where, "a picture's origin", "draw it again")
