"""Draw the pictures of a plan, method by method, from the same noise.

Each picture carries its provenance. A run that was killed goes on where it was, and single pictures
can be replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from equipoise._artefact import clear_torn
from equipoise._paths import inside
from equipoise._progress import progress
from equipoise._stores.lock import alone_in
from equipoise.encoders._batching import ShrinkingBatches
from equipoise.errors import ArtefactError, InputError
from equipoise.generation import _treatments as treatments
from equipoise.generation._annotators.annotator import Annotator
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._painters import Painter
from equipoise.generation._picture_files import draw_pictures, require_all
from equipoise.generation._pilot import steer_methods
from equipoise.generation._plan import PLAN, DrawingPlan
from equipoise.generation._results import RESULTS
from equipoise.generation._sheets import write_sheets
from equipoise.generation._treatments import DrawingRun
from equipoise.prompts._attribute import Attribute

BATCH = 8

Verdicts = Callable[[DrawnPicture], bool]
"""Whether a picture is to be replaced."""


def draw(
    plan: DrawingPlan,
    painter: Painter,
    attribute: Attribute,
    folder: Path,
    *,
    batch_size: int | None = None,
    replace: Verdicts | None = None,
    annotator: Annotator | None = None,
) -> Manifest:
    """Draw the pictures of a plan that the folder lacks, then a contact sheet per prompt.

    With ``replace``, new attempts at the pictures that it names are drawn too. A batch that the
    device has no room for is halved, and later ones are as small. annotator: who labels the pilot
    of a method that has a budget, before its pictures are drawn.
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
        aims = steer_methods(run, folder, annotator, batches)
        run = dataclasses.replace(run, aims=aims)
        refusals = _draw_all(wanted, run, manifest, batches)
        manifest.compact()
        write_sheets(plan, manifest, {picture.prompt for picture in wanted})
    require_all(refusals, len(wanted))
    return manifest


def _draw_all(
    wanted: list[DrawnPicture], run: DrawingRun, manifest: Manifest, batches: ShrinkingBatches
) -> dict[str, int]:
    """Draw pictures, method by method; return why some were not drawn, and how many."""
    refusals: dict[str, int] = {}
    with progress("pictures", len(wanted)) as advance:
        for method, pictures in groupby(wanted, key=lambda picture: picture.method):
            with treatments.open_treatment(run.plan.specs()[method], run) as treatment:
                some = draw_pictures(treatment, manifest, list(pictures), batches, advance)
            for reason, count in some.items():
                refusals[reason] = refusals.get(reason, 0) + count
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
