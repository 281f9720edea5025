"""Fair Diffusion: semantic guidance towards a drawn group, and away from the others.

Friedrich, Brack, Struppek and others, 2023, by the guidance of Brack and others (SEGA, 2023). With
the network's answers u without a text, c with the prompt and e_g with a group's text, a step adds

    gamma = sum_g sign_g * scale * mask(e_g - u) * (e_g - u)

to u + guidance (c - u). The sign is + for the drawn group and - for the others. The mask keeps the
largest entries of each picture, a share of 1 - threshold. A momentum carries gamma over the steps;
guidance begins after a share of them. It needs one more pass of the network for each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.generation._group_draws import GroupDraws
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._mini import MiniPipeline
from equipoise.generation._treatments.balanced import DrawnGroups
from equipoise.generation._treatments.treatment import DrawingRun, Treatment

PERSON = "a photo of a person"


@dataclass(frozen=True)
class FairDiffusion:
    """``fair-diffusion`` as it is typed.

    scale: of the guidance by a group's text. threshold: the share of entries that are left alone.
    warmup: the share of the steps before it begins. momentum, beta: how much of the gamma of
    earlier steps is added, and how slowly it is forgotten.
    """

    scale: float = 4.0
    threshold: float = 0.9
    warmup: float = 0.2
    momentum: float = 0.3
    beta: float = 0.6

    def __post_init__(self) -> None:
        for name in ("threshold", "warmup", "beta"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)} is not legal; it is a share from 0, below 1"
                )

    @property
    def needs_pipe(self) -> bool:
        return True

    def open(self, run: DrawingRun) -> Treatment:
        """Return it at work on a run."""
        return GuidedGroups(run, self)


class SemanticGuidance:
    """The guidance of one denoising; arrays of numpy or of torch, pictures first."""

    def __init__(self, options: FairDiffusion, signs: Sequence[int]):
        self.options, self.signs = options, signs
        self._carried: Any = 0.0

    def gamma(self, unsaid: Any, said_of_groups: Sequence[Any], progress: float) -> Any:
        """Return what is added to the answer, at a share of the steps."""
        total: Any = 0.0
        for sign, said in zip(self.signs, said_of_groups, strict=True):
            difference = said - unsaid
            kept = self._largest(difference)
            total = total + sign * self.options.scale * difference * kept
        carried = self.options.momentum * self._carried
        self._carried = self.options.beta * self._carried + (1 - self.options.beta) * total
        if progress < self.options.warmup:
            return 0.0 * total
        return total + carried

    def _largest(self, difference: Any) -> Any:
        """Return 1 for each entry of a picture that is above the threshold's quantile, else 0."""
        if hasattr(difference, "detach"):
            sizes = difference.abs().flatten(1).float()
            least = sizes.quantile(self.options.threshold, dim=1)
            shape = (-1, *[1] * (difference.ndim - 1))
            return (difference.abs() >= least.view(shape)).to(difference.dtype)
        sizes = np.abs(difference)
        places = tuple(range(1, difference.ndim))
        least = np.quantile(sizes, self.options.threshold, axis=places, keepdims=True)
        return (sizes >= least).astype(difference.dtype)


class GuidedGroups(DrawnGroups):
    """A group is drawn for each picture, and guidance goes to it."""

    def __init__(self, run: DrawingRun, options: FairDiffusion):
        super().__init__(run)
        self.options: FairDiffusion = options
        pipe = run.painter.require_pipe("fair-diffusion")
        texts = _group_texts(self.draws)
        if isinstance(pipe, MiniPipeline):
            self.guide: MiniGuide | UnetGuide = MiniGuide(pipe, texts)
        else:
            self.guide = UnetGuide(pipe, texts)

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        places: dict[tuple[int, ...], list[int]] = {}
        for place, picture in enumerate(pictures):
            places.setdefault(self._signs(picture), []).append(place)
        painted: dict[int, np.ndarray] = {}
        for signs, some in places.items():
            step = len(some) if self.guide.takes_batches else 1
            for start in range(0, len(some), step):
                here = some[start : start + step]
                drawn = self._paint([pictures[place] for place in here], signs)
                painted |= dict(zip(here, drawn, strict=True))
        return np.stack([painted[place] for place in range(len(pictures))])

    def _signs(self, picture: DrawnPicture) -> tuple[int, ...]:
        """Return 1 for the group that was drawn and -1 for others; nothing where none was."""
        drawn = self.drawn(picture)
        if drawn.left_alone:
            return ()
        return tuple(1 if group == drawn.group else -1 for group in self.run.attribute.groups)

    def _paint(self, pictures: Sequence[DrawnPicture], signs: tuple[int, ...]) -> np.ndarray:
        prompts = [picture.prompt for picture in pictures]
        seeds = [picture.seed for picture in pictures]
        if not signs:
            return self.run.painter.paint(prompts, seeds)
        with self.guide.applied(SemanticGuidance(self.options, signs)):
            return self.run.painter.paint(prompts, seeds)


class MiniGuide:
    """The embedded generator, whose network is asked once more for each group at every step."""

    takes_batches = True

    def __init__(self, pipe: MiniPipeline, texts: Sequence[str]):
        self.pipe: MiniPipeline = pipe
        self.rows: np.ndarray = pipe.encode_prompt(texts)

    @contextmanager
    def applied(self, guidance: SemanticGuidance) -> Iterator[None]:
        """Guide what is drawn; afterwards the generator is what it was."""
        generator = self.pipe.generator
        original = generator.velocity
        scale: list[float] = []

        def velocity(pictures: Any, times: Any, texts: Any) -> Any:
            """Answer for two halves, said and unsaid, with gamma in the first."""
            half = len(texts) // 2
            answers = original(pictures, times, texts)
            said, unsaid = answers[:half], answers[half:]
            of_groups = []
            for row in self.rows:
                told = full_like(texts[:half], row)
                of_groups.append(original(pictures[:half], times[:half], told))
            gamma = guidance.gamma(unsaid, of_groups, float(times[0]))
            answers[:half] = said + gamma / scale[0]
            return answers

        draw = generator.draw

        def noted(rows: np.ndarray, seeds: Any, strength: float, steps: int) -> np.ndarray:
            scale[:] = [strength]
            return draw(rows, seeds, strength, steps)

        generator.velocity, generator.draw = velocity, noted
        try:
            yield
        finally:
            del generator.velocity, generator.draw


def full_like(rows: Any, row: np.ndarray) -> Any:
    """Return as many rows as there are, all this one; of their framework, dtype and device."""
    if hasattr(rows, "detach"):
        return rows.new_tensor(row).expand_as(rows)
    return np.broadcast_to(row.astype(rows.dtype), rows.shape)


class UnetGuide:
    """A pipeline with a UNet and classifier-free guidance, unsaid half first."""

    takes_batches = False  # on a CPU a painter draws one picture after the other

    def __init__(self, pipe: Any, texts: Sequence[str]):
        second = getattr(pipe, "text_encoder_2", None)
        if getattr(pipe, "unet", None) is None or second is not None:
            raise InputError(
                f"fair-diffusion guides the UNet of Stable Diffusion 1.x and 2.x, and"
                f" {type(pipe).__name__} is another kind of pipeline; pass balanced"
            )
        import torch

        self.pipe = pipe
        with torch.no_grad():
            encoded = pipe.encode_prompt(list(texts), pipe._execution_device, 1, False)
        self.states = encoded[0]

    @contextmanager
    def applied(self, guidance: SemanticGuidance) -> Iterator[None]:
        """Guide what is drawn; afterwards the UNet is what it was."""
        import torch

        unet, pipe = self.pipe.unet, self.pipe
        original = unet.forward
        step = 0

        def forward(sample: Any, timestep: Any, encoder_hidden_states: Any, **options: Any) -> Any:
            nonlocal step
            output = original(sample, timestep, encoder_hidden_states, **options)
            answers = output[0]
            if not pipe.do_classifier_free_guidance:
                raise InputError(
                    "fair-diffusion adds to classifier-free guidance, and the guidance is off; pass"
                    " `guidance` above 1"
                )
            latents = sample.chunk(2)[1]
            unsaid, said = answers.chunk(2)
            of_groups = []
            for row in self.states:
                states = row.expand(len(latents), -1, -1)
                of_groups.append(original(latents, timestep, states, **options)[0])
            progress = step / max(pipe.num_timesteps, 1)
            step += 1
            gamma = guidance.gamma(unsaid, of_groups, progress)
            return (torch.cat([unsaid, said + gamma / pipe.guidance_scale]), *output[1:])

        unet.forward = forward
        try:
            yield
        finally:
            del unet.forward


def _group_texts(draws: GroupDraws) -> list[str]:
    """Return a text of a person for each group, in their order."""
    anchors = draws.anchors(PERSON)
    if not anchors:
        raise InputError(
            f"no rule words {PERSON!r} for the groups of {draws.attribute.name}; pass a book that"
            " has it"
        )
    return [anchors[group] for group in draws.attribute.groups]
