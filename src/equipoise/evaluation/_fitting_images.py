"""On which images a method is fitted: a set of its own, or, for methods that look at no label,
those that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.datasets import Dataset
from equipoise.errors import InputError
from equipoise.evaluation._labelled import LabelledImages
from equipoise.methods._specs import MethodSpec
from equipoise.prompts._attribute import Attribute

CAPTIONS = ("caption", "query")  # the columns that may hold them


@dataclass(frozen=True)
class FitOn:
    """share: of the images, held out by lot and not measured; or another dataset, with its
    embeddings where they are stored.
    """

    share: float | None = None
    dataset: Dataset | None = None
    embeddings: Any = None

    def __post_init__(self) -> None:
        if self.share is not None and self.dataset is not None:
            raise InputError(
                "methods are fitted on a share of the images, or on another dataset; pass one of"
                " the two"
            )
        if self.embeddings is not None and self.dataset is None:
            raise InputError(
                "embeddings for fitting were given without their dataset; pass it too"
                " (`fit_dataset`)"
            )

    def part(
        self, measured: LabelledImages, attribute: Attribute, seed: int, once: bool
    ) -> tuple[LabelledImages | None, LabelledImages]:
        """The images to fit on, if there are any of their own, and those to measure."""
        if self.share is not None:
            return measured.split(self.share, seed, attribute)
        if self.dataset is None:
            return None, measured
        options = {"embeddings": self.embeddings, "on_unreadable": measured.on_unreadable}
        fitting = LabelledImages.of(self.dataset, attribute, measured.encoder, once=once, **options)
        if both := sorted(set(fitting.paths) & set(measured.paths)):
            raise InputError(
                f"{len(both)} images are to be fitted on and measured, first {both[0]}; leave them"
                " out of one of the two"
            )
        return fitting, measured


def check_fitting(spec: MethodSpec, fitting: LabelledImages | None) -> None:
    """Raise where a method would learn the labels of the very images that it is measured on."""
    if spec.needs_labels and fitting is None:
        raise InputError(
            f"{spec.label} is fitted on labelled images, and not on those that are measured; hold"
            " some out (`fit_share` 0.5), or pass others (`fit_dataset`)"
        )


def takes_images(spec: MethodSpec, fitting: LabelledImages | None) -> bool:
    """Whether a method is fitted on images here; on captioned ones where it learns from captions,
    and there are some.
    """
    return spec.takes_images(fitting is not None and fitting.column(*CAPTIONS) is not None)


def fitting_images(fitting: LabelledImages | None, measured: LabelledImages) -> dict[str, Any]:
    """What a context says of images; without any label where they are those that are measured."""
    if fitting is None:
        return {"images": measured.images[0]}
    rows, there = fitting.images
    known = {"images": rows, "sensitive_features": fitting.groups[there]}
    for name, columns in (("labels", ("label",)), ("captions", CAPTIONS)):
        values = fitting.column(*columns)
        known |= {} if values is None else {name: values[there]}
    return known


def fitted_on(
    spec: MethodSpec, fitting: LabelledImages | None, measured: LabelledImages
) -> dict[str, Any] | None:
    """For the file of a run; None for a method that needs no image."""
    if not takes_images(spec, fitting):
        return None
    chosen = fitting or measured
    return {
        "name": chosen.name,
        "images": int(chosen.images[1].sum()),
        "measured": fitting is None,
        "labels": fitting is not None,
    }
