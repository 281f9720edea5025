"""The closed loop: pilots of a run, labelled, by which the shares that it draws are adjusted.

The pictures of a pilot lie in a folder of their own, and begin from noise that no picture of the
run has. The strength of a prompt is chosen by how its pilot turned out. On the same pictures the
shares would therefore look nearer to those wanted than they are, so only fresh ones are measured.
What a pilot found follows from its pictures and their labels, which are kept: a loop that was
killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from equipoise._artefact import clear_torn
from equipoise._paths import inside
from equipoise._progress import progress
from equipoise.encoders._batching import ShrinkingBatches
from equipoise.errors import ArtefactError, InputError
from equipoise.generation import _treatments as treatments
from equipoise.generation._annotators.annotator import Annotator
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._picture_files import draw_pictures, require_all
from equipoise.generation._plan import DrawingPlan
from equipoise.generation._share_controller import (
    LEVEL,
    ShareController,
    control,
)
from equipoise.generation._shares import GroupShares
from equipoise.generation._steering_document import (
    FOLDER,
    PilotRound,
    SteeredMethod,
    SteeredPrompt,
    Steering,
    read_steering,
)
from equipoise.generation._treatments import DrawingRun, DrawnGroups, LoopAim
from equipoise.methods._specs import MethodSpec


def steer_methods(
    run: DrawingRun, folder: Path, annotator: Annotator | None, batches: ShrinkingBatches
) -> dict[str, dict[str, LoopAim]]:
    """Return method -> prompt -> what the run aims at, once every closed loop is finished.

    Only loops that the folder does not hold are run.
    """
    specs = run.plan.specs()
    looping = [label for label, spec in specs.items() if treatments.pilot_rounds(spec)]
    if not looping:
        return {}
    steering = _begun(folder, looping, annotator)
    manifest = _pilot_manifest(folder)
    for label in looping:
        if steering.of(label) is None and annotator is not None:
            found = _steered(specs[label], run, _PilotTools(manifest, annotator, batches))
            methods = [*steering.methods, found]
            steering = steering.model_copy(update={"methods": methods})
            steering.save(folder)
    return {found.method: _aims(found) for found in steering.methods}


def _begun(folder: Path, labels: list[str], annotator: Annotator | None) -> Steering:
    """Return the folder's steering, or a new one; raise where its loops cannot be finished."""
    steering = read_steering(folder)
    left = [label for label in labels if steering is None or steering.of(label) is None]
    if steering is not None and not left:
        return steering
    if annotator is None:
        raise InputError(
            f"{left[0]} is adjusted by what an annotator sees, and none was given; pass"
            " `annotator`, or leave its budget out"
        )
    if steering is None:
        steering = Steering(annotator=annotator.name, level=LEVEL, methods=[])
        steering.save(folder)
    if annotator.name != steering.annotator:
        raise InputError(
            f"the pilot of {folder} is labelled by {steering.annotator}, and {annotator.name} was"
            " given; pass the first until the loop is finished, or another folder"
        )
    return steering


def _pilot_manifest(folder: Path) -> Manifest:
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    clear_torn(folder / FOLDER, "images/**/*.png")
    manifest = Manifest(folder / FOLDER)
    manifest.forget_missing()
    return manifest


@dataclass(frozen=True)
class _PilotTools:
    """Where a pilot's pictures go, who labels them, and how many are drawn at once."""

    manifest: Manifest
    annotator: Annotator
    batches: ShrinkingBatches


def _steered(spec: MethodSpec, run: DrawingRun, tools: _PilotTools) -> SteeredMethod:
    """Run the closed loop of a method, prompt by prompt."""
    sizes = treatments.pilot_rounds(spec)
    prompts, left_alone = [], {}
    with cast("DrawnGroups", treatments.open_treatment(spec, run)) as treatment:
        for asked in run.plan.prompts:
            if reason := treatment.draws.left_alone(asked.prompt):
                left_alone[asked.prompt] = reason
                continue
            pilot = _PromptPilot(asked.prompt, spec.label, treatment, tools)
            prompts.append(pilot.steered(sizes))
    return SteeredMethod(method=spec.label, prompts=prompts, left_alone=left_alone)


class _PromptPilot:
    """The pilot of one prompt: its rounds, one after the other."""

    def __init__(self, prompt: str, method: str, treatment: DrawnGroups, tools: _PilotTools):
        self.prompt, self.method = prompt, method
        self.treatment, self.tools = treatment, tools
        self.plan: DrawingPlan = treatment.run.plan
        wanted = self.plan.shares_of(prompt, treatment.run.attribute)
        self.controller = ShareController(wanted, enough=self.plan.images)
        self.rounds: list[PilotRound] = []

    def steered(self, sizes: list[int]) -> SteeredPrompt:
        """Draw and adjust until the prompt is settled or the budget is spent."""
        control(self.controller, sizes, self._observe)
        found = self.controller
        return SteeredPrompt(
            prompt=self.prompt,
            wanted=found.wanted,
            shares=found.shares,
            strength=found.strength,
            end=found.end(),
            rounds=self.rounds,
        )

    def _observe(self, shares: GroupShares, size: int) -> np.ndarray:
        """Draw a round and have it labelled; return how many of each drawn group show each."""
        strength, place = self.controller.strength, len(self.rounds) + 1
        self.treatment.aim({self.prompt: LoopAim(shares, strength, place)})
        first = sum(done.pictures for done in self.rounds)
        pictures = [self._picture(number) for number in range(first, first + size)]
        self._draw(pictures)
        answers = self.tools.annotator.annotate(self.tools.manifest)
        counts, unsure = self._counted(pictures, answers)
        groups = list(shares)
        seen = {}
        for group, row in zip(groups, counts.tolist(), strict=True):
            seen[group] = dict(zip(groups, row, strict=True))
        done = PilotRound(strength=strength, shares=shares, seen=seen, unsure=unsure)
        self.rounds.append(done)
        return counts

    def _picture(self, number: int) -> DrawnPicture:
        return DrawnPicture(
            image=self.plan.place_of(self.prompt, self.method, number, 0),
            prompt=self.prompt,
            method=self.method,
            seed=self.plan.pilot_seed_of(number),
            explicit_group="",
            attempt=0,
            number=number,
        )

    def _draw(self, pictures: list[DrawnPicture]) -> None:
        manifest = self.tools.manifest
        missing = []
        for picture in pictures:
            inside(manifest.folder, picture.image)
            there = manifest.pictures.get(picture.slot)
            if there is None:
                missing.append(picture)
            elif (there.seed, there.image) != (picture.seed, picture.image):
                raise ArtefactError(
                    f"{manifest.path} names {there.image!r}, which is no picture of this pilot; the"
                    " file is damaged: delete it to draw again"
                )
        with progress(f"pilot of {self.prompt!r}", len(missing)) as advance:
            refusals = draw_pictures(self.treatment, manifest, missing, self.tools.batches, advance)
        require_all(refusals, len(missing))

    def _counted(
        self, pictures: list[DrawnPicture], answers: Mapping[str, str]
    ) -> tuple[np.ndarray, int]:
        """Return pictures by drawn and by seen group, and how many nobody could name."""
        groups = list(self.controller.wanted)
        counts, unsure = np.zeros((len(groups), len(groups)), int), 0
        for picture in pictures:
            answer = answers[picture.image]
            if answer not in groups:
                unsure += 1
                continue
            drawn = self.treatment.drawn(picture).group
            counts[groups.index(drawn), groups.index(answer)] += 1
        return counts, unsure


def _aims(found: SteeredMethod) -> dict[str, LoopAim]:
    return {one.prompt: LoopAim(one.shares, one.strength, 0) for one in found.prompts}
