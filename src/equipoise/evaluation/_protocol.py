"""``Protocol``: where the paper's text, its released code and sense differ; prompts of classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from equipoise.errors import InputError
from equipoise.prompts._english import article

TEMPLATE = "a photo of a/an {}"
# Images without a known group, where they are one; "unknown" itself means no group to metrics.
NO_GROUP = "no known group"
CELEBA = {
    "blond": "a photo of a person with blond hair",
    "non-blond": "a photo of a person with non-blond hair",
}


@dataclass(frozen=True)
class Protocol:
    """One way to measure: by the paper's text, by its released code, or by that code, mended.

    equal_opportunity: the form of ``metrics.EQUAL_OPPORTUNITY``. scope: of the attribute space.
    template: of FACET's class prompts. one_class: whether CelebA is measured by its class blond
    alone, or by both classes. to_the_letter: whether FACET's labels keep their underscores in
    prompts, images of an unknown group count as a group of their own in retrieval, and a class that
    is neither true nor predicted anywhere scores 0 in macro F1.
    """

    name: str
    equal_opportunity: str
    scope: str
    template: str
    one_class: bool
    to_the_letter: bool = False

    def form(self, one_class: bool) -> str:
        """Return the form of equal opportunity for one class, or for several.

        The released code has one for each.
        """
        if one_class and self.equal_opportunity == "released":
            return "pairs"
        return self.equal_opportunity

    @staticmethod
    def named(name: str) -> Protocol:
        """Return the protocol "paper", "released" or "mended"."""
        if name not in PROTOCOLS:
            raise InputError(f"protocol={name!r} is not legal; pass one of {', '.join(PROTOCOLS)}")
        return PROTOCOLS[name]


PROTOCOLS = {
    "paper": Protocol("paper", "printed", "per prompt", TEMPLATE, one_class=False),
    "released": Protocol(
        "released",
        "released",
        "shared",
        "a photo of a person who is a {}",
        one_class=True,
        to_the_letter=True,
    ),
    "mended": Protocol(
        "mended", "released", "shared", "a photo of a person who is a/an {}", one_class=True
    ),
}


def class_prompts(
    labels: Iterable[str], template: str = TEMPLATE, *, as_spelt: bool = False
) -> dict[str, str]:
    """Return the prompt of each label.

    {} is the label, its underscores made spaces unless it stays as_spelt; a/an before it becomes
    the article that fits.
    """
    if template.count("{}") != 1:
        raise InputError(
            f"template={template!r} is not legal; it needs one {{}}, the place of the class, as in"
            f" {TEMPLATE!r}"
        )
    prompts = {}
    for label in labels:
        name = str(label).strip()
        if not as_spelt:
            name = name.replace("_", " ").strip()
        worded = template.replace("a/an {}", f"{article(name)} {{}}")
        prompts[label] = worded.replace("{}", name)
    return prompts
