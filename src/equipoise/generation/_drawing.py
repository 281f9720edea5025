"""Draw the pictures of a plan, method by method, from the same noise.

Each picture carries its provenance. A run that was killed goes on where it was, and single pictures
can be replaced.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin
from pydantic import Field

from equipoise._artefact import clear_torn, write_atomically
from equipoise._documents import Document, read_document
from equipoise._paths import inside
from equipoise._progress import progress
from equipoise._stores.lock import alone_in
from equipoise._version import __version__
from equipoise.encoders._batching import ShrinkingBatches
from equipoise.encoders._images import identified
from equipoise.errors import ArtefactError, InputError, ServiceError
from equipoise.generation import _treatments as treatments
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._painters import Painter, PartlyPaintedError
from equipoise.generation._plan import PLAN, DrawingPlan
from equipoise.generation._results import RESULTS
from equipoise.generation._sheets import write_sheets
from equipoise.generation._treatments import DrawingRun, Treatment, TreatmentFacts
from equipoise.prompts._attribute import Attribute

BATCH = 8
CHUNK = "equipoise"  # the PNG text chunk that holds the provenance

Verdicts = Callable[[DrawnPicture], bool]
"""Whether a picture is to be replaced."""


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
    wording: str = Field(default="", description="What was asked for, where not the prompt.")
    left_alone: str = Field(default="", description="Why no group was drawn for it.")
    equipoise: str = Field(description="The version that drew it.")


def draw(
    plan: DrawingPlan,
    painter: Painter,
    attribute: Attribute,
    folder: Path,
    *,
    batch_size: int | None = None,
    replace: Verdicts | None = None,
) -> Manifest:
    """Draw the pictures of a plan that the folder lacks, then a contact sheet per prompt.

    With ``replace``, new attempts at the pictures that it names are drawn too. A batch that the
    device has no room for is halved, and later ones are as small.
    """
    painter.require([asked.prompt for asked in plan.prompts])
    run = DrawingRun(plan, painter, attribute)
    for spec in plan.specs().values():
        treatments.require(spec, painter)
    with alone_in(folder):
        manifest = Manifest(folder)
        if (folder / PLAN).is_file():
            plan.require_same(
                DrawingPlan.load(folder),
                folder,
                {picture.method for picture in manifest.pictures.values()},
            )
        elif (folder / RESULTS).exists():
            raise InputError(
                f"{folder} holds results that are not of a run of equipoise generate; pass another"
                " folder"
            )
        _require_of(plan, manifest)
        plan.save(folder)
        clear_torn(folder, "images/**/*.png", "sheets/*.png")
        manifest.forget_missing()
        wanted = [*_missing(plan, manifest), *_again(plan, manifest, replace)]
        for picture in wanted:
            inside(folder, picture.image)
        batches = ShrinkingBatches(batch_size or BATCH)
        refusals = _draw_all(wanted, run, manifest, batches)
        manifest.compact()
        write_sheets(plan, manifest, {picture.prompt for picture in wanted})
    if refusals:
        raise ServiceError(
            f"{sum(refusals.values())} of {len(wanted)} pictures were not drawn, and the others are"
            f" kept: {next(iter(refusals))}; the same command asks for them again"
        )
    return manifest


def _draw_all(
    wanted: list[DrawnPicture], run: DrawingRun, manifest: Manifest, batches: ShrinkingBatches
) -> dict[str, int]:
    """Draw pictures, method by method; return why some were not drawn, and how many."""
    refusals: dict[str, int] = {}
    with progress("pictures", len(wanted)) as advance:
        for method, pictures in groupby(wanted, key=lambda picture: picture.method):
            with treatments.open_treatment(run.plan.specs()[method], run) as treatment:
                for batch in _batches(list(pictures), batches):
                    for reason in _draw(treatment, manifest, batch, batches):
                        refusals[reason] = refusals.get(reason, 0) + 1
                    advance(len(batch))
    return refusals


def _require_of(plan: DrawingPlan, manifest: Manifest) -> None:
    """Raise for a line of the manifest that this plan cannot have given."""
    methods, prompts = set(plan.specs()), {asked.prompt for asked in plan.prompts}
    for picture in manifest.pictures.values():
        planned = (
            picture.method in methods
            and picture.prompt in prompts
            and picture.number < plan.images
            and picture.seed == plan.seed_of(picture.number, picture.attempt)
        )
        if not planned:
            raise ArtefactError(
                f"{manifest.path} names {picture.image!r}, which is no picture of this run; the"
                " file is damaged: delete it to draw again"
            )


def _missing(plan: DrawingPlan, manifest: Manifest) -> Iterable[DrawnPicture]:
    """Yield the pictures that were never drawn, or whose file is gone."""
    for method in plan.specs():
        for asked in plan.prompts:
            for number in range(plan.images):
                slot = method, asked.prompt, number
                if slot in manifest.lost:
                    yield manifest.lost[slot]
                elif slot not in manifest.pictures:
                    yield _picture(plan, method, asked.prompt, asked.explicit_group, number, 0)


def _again(plan: DrawingPlan, manifest: Manifest, replace: Verdicts | None) -> list[DrawnPicture]:
    """Return the next attempt at each picture that is to be replaced, method by method."""
    if replace is None:
        return []
    order = list(plan.specs())
    named = [picture for picture in manifest.pictures.values() if replace(picture)]
    named.sort(key=lambda picture: order.index(picture.method))
    return [
        _picture(plan, p.method, p.prompt, p.explicit_group, p.number, p.attempt + 1) for p in named
    ]


def _picture(
    plan: DrawingPlan, method: str, prompt: str, group: str, number: int, attempt: int
) -> DrawnPicture:
    place, seed = plan.place_of(prompt, method, number, attempt), plan.seed_of(number, attempt)
    return DrawnPicture(
        image=place,
        prompt=prompt,
        method=method,
        seed=seed,
        explicit_group=group,
        attempt=attempt,
        number=number,
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
    """Write pictures, each with what it says of itself, and then their lines."""
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
    told = {"drawn": facts.drawn, "wording": facts.wording, "left_alone": facts.left_alone}
    update: dict[str, Any] = {name: value for name, value in told.items() if value}
    if facts.drawn:
        update["shares"] = plan.shares_of(picture.prompt, run.attribute)
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
