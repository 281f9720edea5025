"""What methods do to the pictures of a run, one file per method.

A method that is not named here edits the states of prompts, through ``attach``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol

from equipoise.errors import InputError
from equipoise.generation import _edits as edits
from equipoise.generation._painters import Painter
from equipoise.generation._share_controller import round_sizes
from equipoise.generation._treatments.attached import EditedStates
from equipoise.generation._treatments.balanced import BalancedDrawing, DrawnGroups
from equipoise.generation._treatments.fair_diffusion import FairDiffusion
from equipoise.generation._treatments.prompt_intervention import PromptIntervention
from equipoise.generation._treatments.treatment import (
    DrawingRun,
    LoopAim,
    Treatment,
    TreatmentFacts,
    Untouched,
)
from equipoise.generation._treatments.uce import Uce
from equipoise.methods._specs import MethodSpec, parse

__all__ = [
    "OWN",
    "DrawingRun",
    "DrawnGroups",
    "LoopAim",
    "Treatment",
    "TreatmentFacts",
    "check",
    "open_treatment",
    "pilot_rounds",
    "require",
    "specs_of",
]


class DrawingMethod(Protocol):
    """A method of generation alone, with its parameters."""

    @property
    def needs_pipe(self) -> bool:
        """Return whether it edits a pipeline on this machine."""
        ...

    def open(self, run: DrawingRun) -> Treatment:
        """Return it at work on a run."""
        ...


OWN: dict[str, Any] = {
    "balanced": BalancedDrawing,
    "fair-diffusion": FairDiffusion,
    "prompt-intervention": PromptIntervention,
    "uce": Uce,
}
"""Name -> the class of a method that draws by itself."""


def specs_of(texts: list[str]) -> list[MethodSpec]:
    """Return the methods that were typed; parameters that are the defaults anyway are left out."""
    found = map(_shortest, parse(texts, others=tuple(OWN)))
    return list({spec.label: spec for spec in found}.values())


def _shortest(spec: MethodSpec) -> MethodSpec:
    if spec.name not in OWN:
        return spec
    defaults = {param.name: param.default for param in fields(OWN[spec.name])}
    told = {}
    for name, value in spec.params.items():
        if name not in defaults or value != defaults[name]:
            told[name] = value
    return MethodSpec(spec.name, told)


def check(spec: MethodSpec) -> None:
    """Raise for a method or a parameter that does not exist."""
    if spec.name in OWN:
        _create(spec)
    else:
        edits.create(spec.name, None, spec.params)


def require(spec: MethodSpec, painter: Painter) -> None:
    """Raise for a method that edits a pipeline where there is none, before anything is drawn."""
    edits_states = spec.name != edits.NONE
    if spec.name in OWN:
        edits_states = _create(spec).needs_pipe
    if edits_states:
        painter.require_pipe(spec.label)


def open_treatment(spec: MethodSpec, run: DrawingRun) -> Treatment:
    """Return a method at work on a run; a context manager."""
    if spec.name == edits.NONE:
        return Untouched(run)
    if spec.name not in OWN:
        return EditedStates.of(run, spec)
    treatment = _create(spec).open(run)
    if isinstance(treatment, DrawnGroups):
        treatment.aim(run.aims.get(spec.label, {}))
    return treatment


def pilot_rounds(spec: MethodSpec) -> list[int]:
    """Return how many pictures per prompt each round of a method's pilot has; [] without one."""
    method = _create(spec) if spec.name in OWN else None
    if not isinstance(method, BalancedDrawing) or not method.budget:
        return []
    return round_sizes(method.budget, method.rounds)


def _create(spec: MethodSpec) -> DrawingMethod:
    method = OWN[spec.name]
    legal = [param.name for param in fields(method)]
    for param in spec.params:
        if param not in legal:
            raise InputError(
                f"{spec.name} has no parameter {param!r} in generation; it has {', '.join(legal)}"
            )
    return method(**spec.params)
