"""Where the paper's text and its released code differ, under two names."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.errors import InputError


@dataclass(frozen=True)
class Protocol:
    """equal_opportunity: the form of ``metrics.EQUAL_OPPORTUNITY``. scope: of the attribute space. template: of class prompts.

    one_class: whether a dataset's class of interest alone is measured (CelebA's blond hair), or all classes.
    """

    name: str
    equal_opportunity: str
    scope: str
    template: str
    one_class: bool

    @staticmethod
    def named(name: str) -> Protocol:
        """ "paper" or "released"."""
        if name not in PROTOCOLS:
            raise InputError(f"protocol={name!r} is not legal; pass one of {', '.join(PROTOCOLS)}")
        return PROTOCOLS[name]


PROTOCOLS = {
    "paper": Protocol("paper", "printed", "per prompt", "a photo of a/an {}", one_class=False),
    "released": Protocol("released", "released", "shared", "a photo of a person who is a {}", one_class=True),
}
