"""The paper's protocol (appendices C and D), as it can be run again.

34 neutral and 34 explicit prompts, each of which names the gender that the original model leans to;
100 pictures of each by five methods, all through the method (no gate); SP of all neutral prompts by
BLIP-2; of the five with the largest SP under the original model by people; CLIP score of the
explicit prompts; accuracy of the five with the lowest CLIP score under the original model by
people, unanimously.
"""

from __future__ import annotations

from equipoise.prompts._prompt_book import PromptBook

NAME = "paper"
IMAGES, SUBSET, ANNOTATORS = 100, 5, 3
METHODS = ("none", "orth-proj", "orth-cali", "sfid:on=unet", "closed-form")
# The embedded generator has no UNet, and no text of which the forest is less sure than 0.7.
MINI_METHODS = ("none", "orth-proj", "orth-cali", "sfid:tau=0.9", "closed-form")
NEUTRAL, EXPLICIT = "occupations-gender", "occupations-explicit-gender"


def prompts() -> list[str]:
    """Return the neutral prompts, then the explicit ones in the same order of occupations."""
    return [*PromptBook.curated(NEUTRAL).prompts, *PromptBook.curated(EXPLICIT).prompts]
