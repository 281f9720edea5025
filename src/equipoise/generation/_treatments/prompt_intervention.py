"""Prompt intervention: a sentence is added that asks for everybody.

Bansal, Yin, Monajatipoor and Chang, "How well can text-to-image generative models understand
ethical natural language interventions?", EMNLP 2022. Nothing is fitted, and any generator takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._treatments.treatment import DrawingRun, Treatment, TreatmentFacts
from equipoise.prompts._stated_groups import names_person

SENTENCE = "if all individuals can be one irrespective of their {attribute}"
LEFT_ALONE = "it names a group, or speaks of no person"


@dataclass(frozen=True)
class PromptIntervention:
    """``prompt-intervention`` as it is typed.

    sentence: what is added; {attribute} stands for the attribute's name.
    """

    sentence: str = SENTENCE

    @property
    def needs_pipe(self) -> bool:
        return False

    def open(self, run: DrawingRun) -> Treatment:
        """Return it at work on a run."""
        return AddedSentence(run, self.sentence.replace("{attribute}", run.attribute.name))


class AddedSentence(Treatment):
    """Every prompt that is not left alone has the sentence behind it."""

    def __init__(self, run: DrawingRun, sentence: str):
        super().__init__(run)
        self.sentence: str = sentence
        run.painter.require([self.worded(asked.prompt) for asked in run.plan.prompts])

    def worded(self, prompt: str) -> str:
        """Return a prompt as the generator is asked for it."""
        if self._keeps(prompt):
            return prompt
        return f"{prompt} {self.sentence}"

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        wordings = [self.worded(picture.prompt) for picture in pictures]
        return self.run.painter.paint(wordings, [picture.seed for picture in pictures])

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        if self._keeps(picture.prompt):
            return TreatmentFacts(gated=True, left_alone=LEFT_ALONE)
        return TreatmentFacts(gated=False, wording=self.worded(picture.prompt))

    def _keeps(self, prompt: str) -> bool:
        return self.run.gated(prompt) or not names_person(prompt, self.run.attribute)
