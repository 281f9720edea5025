"""A method that edits the states of prompts, through ``attach``."""

from __future__ import annotations

from equipoise.generation._attach import Attached, attach
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._treatments.treatment import DrawingRun, TreatmentFacts, Untouched
from equipoise.methods._specs import MethodSpec


class EditedStates(Untouched):
    """Prompts as they are, on a pipeline with a hook."""

    def __init__(self, run: DrawingRun, hook: Attached):
        super().__init__(run)
        self.hook: Attached = hook

    @classmethod
    def of(cls, run: DrawingRun, spec: MethodSpec) -> EditedStates:
        """Return a method of ``attach`` at work on the run's pipeline."""
        plan = run.plan
        options = {"gate": plan.gate, "tokens": plan.tokens, "seed": plan.seed}
        pipe = run.painter.require_pipe(spec.label)
        hook = attach(pipe, run.attribute, plan.book or None, spec.name, **options, **spec.params)
        return cls(run, hook)

    def close(self) -> None:
        self.hook.remove()

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        spaces = {part: space.fingerprint for part, space in self.hook.spaces.items()}
        return TreatmentFacts(gated=self.hook.keeps(picture.prompt), spaces=spaces)
