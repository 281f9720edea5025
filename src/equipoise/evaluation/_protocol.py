"""``Protocol``: where the paper's text and its released code differ; and the prompts of classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from equipoise.errors import InputError
from equipoise.prompts._english import article

TEMPLATE = "a photo of a/an {}"
CELEBA = {
    "blond": "a photo of a person with blond hair",
    "non-blond": "a photo of a person with non-blond hair",
}


@dataclass(frozen=True)
class Protocol:
    """One way to measure, of the paper's text or of its released code.

    equal_opportunity: the form of ``metrics.EQUAL_OPPORTUNITY``. scope: of the attribute space.
    template: of FACET's class prompts. one_class: whether CelebA is measured by its class blond
    alone, or by both classes.
    """

    name: str
    equal_opportunity: str
    scope: str
    template: str
    one_class: bool

    @staticmethod
    def named(name: str) -> Protocol:
        """Return the protocol "paper" or "released"."""
        if name not in PROTOCOLS:
            raise InputError(f"protocol={name!r} is not legal; pass one of {', '.join(PROTOCOLS)}")
        return PROTOCOLS[name]


PROTOCOLS = {
    "paper": Protocol("paper", "printed", "per prompt", TEMPLATE, one_class=False),
    "released": Protocol(
        "released", "released", "shared", "a photo of a person who is a/an {}", one_class=True
    ),
}


def class_prompts(labels: Iterable[str], template: str = TEMPLATE) -> dict[str, str]:
    """Return the prompt of each label.

    {} is the label, its underscores made spaces; a/an before it becomes the article that fits.
    """
    if template.count("{}") != 1:
        raise InputError(
            f"template={template!r} is not legal; it needs one {{}}, the place of the class, as in"
            f" {TEMPLATE!r}"
        )
    prompts = {}
    for label in labels:
        name = str(label).replace("_", " ").strip()
        worded = template.replace("a/an {}", f"{article(name)} {{}}")
        prompts[label] = worded.replace("{}", name)
    return prompts
