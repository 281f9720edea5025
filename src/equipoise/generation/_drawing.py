"""Draw the pictures of a plan, method by method, from the same noise.

Each picture carries its provenance. A run that was killed goes on where it was, and single pictures
can be replaced.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from equipoise._artefact import clear_torn, parse_json, write_atomically
from equipoise._paths import inside
from equipoise._progress import progress
from equipoise._stores.lock import alone_in
from equipoise._version import __version__
from equipoise.encoders._batching import Batches
from equipoise.encoders._images import identified
from equipoise.errors import ArtefactError, InputError
from equipoise.generation._attach import Attached, attach
from equipoise.generation._manifest import Manifest, Picture
from equipoise.generation._painters import Painter
from equipoise.generation._plan import PLAN, Plan
from equipoise.generation._results import RESULTS
from equipoise.generation._sheets import write_sheets
from equipoise.prompts._attribute import Attribute

BATCH = 8
CHUNK = "equipoise"  # the PNG text chunk that holds the provenance

Verdicts = Callable[[Picture], bool]
"""Whether a picture is to be replaced."""


def draw(
    plan: Plan,
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
    with alone_in(folder):
        manifest = Manifest(folder)
        if (folder / PLAN).is_file():
            plan.require_same(
                Plan.load(folder),
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
        batches = Batches(batch_size or BATCH)
        with progress("pictures", len(wanted)) as advance:
            for method, pictures in groupby(wanted, key=lambda picture: picture.method):
                with _attached(plan, painter, attribute, method) as hook:
                    about = _about(plan, painter, hook)
                    for batch in _batches(list(pictures), batches):
                        says = [_provenance(picture, hook, about) for picture in batch]
                        _draw(painter, folder, batch, batches, says)
                        manifest.add(batch)
                        advance(len(batch))
        manifest.compact()
        write_sheets(plan, manifest, {picture.prompt for picture in wanted})
    return manifest


def _require_of(plan: Plan, manifest: Manifest) -> None:
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


def _missing(plan: Plan, manifest: Manifest) -> Iterable[Picture]:
    """Yield the pictures that were never drawn, or whose file is gone."""
    for method in plan.specs():
        for asked in plan.prompts:
            for number in range(plan.images):
                slot = method, asked.prompt, number
                if slot in manifest.lost:
                    yield manifest.lost[slot]
                elif slot not in manifest.pictures:
                    yield _picture(plan, method, asked.prompt, asked.explicit_group, number, 0)


def _again(plan: Plan, manifest: Manifest, replace: Verdicts | None) -> list[Picture]:
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
    plan: Plan, method: str, prompt: str, group: str, number: int, attempt: int
) -> Picture:
    place, seed = plan.place_of(prompt, method, number, attempt), plan.seed_of(number, attempt)
    return Picture(place, prompt, method, seed, group, attempt, number)


def _batches(pictures: list[Picture], batches: Batches) -> Iterable[list[Picture]]:
    """Yield batches of pictures of one prompt each."""
    for _, group in groupby(pictures, key=lambda picture: picture.prompt):
        rest = list(group)
        while rest:
            batch = rest[: batches.size]
            yield batch
            rest = rest[len(batch) :]


def _attached(plan: Plan, painter: Painter, attribute: Attribute, method: str) -> Attached:
    spec = plan.specs()[method]
    options = {"gate": plan.gate, "tokens": plan.tokens, "seed": plan.seed}
    return attach(painter.pipe, attribute, plan.book or None, spec.name, **options, **spec.params)


def _draw(
    painter: Painter,
    folder: Path,
    pictures: list[Picture],
    batches: Batches,
    says: list[dict[str, Any]],
) -> None:
    """Draw pictures of one prompt, and write each with what it says of itself."""

    def paint(some: list[Picture]) -> np.ndarray:
        return painter.paint(
            [picture.prompt for picture in some], [picture.seed for picture in some]
        )

    drawn = batches.run(paint, pictures)
    for picture, pixels, about in zip(pictures, drawn, says, strict=True):
        write_atomically(folder / picture.image, _png(pixels, about))


def _about(plan: Plan, painter: Painter, hook: Attached) -> dict[str, Any]:
    """Return what all pictures of a method say."""
    spaces = {part: space.fingerprint for part, space in hook.spaces.items()}
    return {
        "model": painter.id,
        "revision": plan.revision,
        "precision": painter.precision,
        "steps": plan.steps,
        "guidance": plan.guidance,
        "tokens": plan.tokens,
        "spaces": spaces,
    }


def _provenance(picture: Picture, hook: Attached, about: dict[str, Any]) -> dict[str, Any]:
    """Return what a picture says of itself."""
    own = {name: value for name, value in asdict(picture).items() if name != "image"}
    return {**own, **about, "gated": hook.keeps(picture.prompt), "equipoise": __version__}


def _png(pixels: np.ndarray, about: dict[str, Any]) -> bytes:
    notes = PngImagePlugin.PngInfo()
    notes.add_itxt(CHUNK, json.dumps(about, ensure_ascii=False, sort_keys=True))
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", pnginfo=notes)
    return out.getvalue()


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what ``generate`` wrote into a picture; None where it did not write it."""
    try:
        with identified(path) as image:
            text = getattr(image, "text", {}).get(CHUNK)
        return None if text is None else parse_json(text)
    except FileNotFoundError:
        raise InputError(f"there is no picture {path}; pass one that exists") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise ArtefactError(f"{path} is no whole picture ({error}); draw it again") from None
