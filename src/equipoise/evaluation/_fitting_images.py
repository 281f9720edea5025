"""The images that methods are fitted on: a set of its own, or those that are measured.

Only methods that look at no label are fitted on the images that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.datasets import Dataset
from equipoise.errors import InputError
from equipoise.evaluation._labelled_images import LabelledImages
from equipoise.evaluation._run_document import FittedOn
from equipoise.methods._specs import MethodSpec
from equipoise.prompts._attribute import Attribute

# the columns that may hold captions
CAPTIONS = ("caption", "query")


@dataclass(frozen=True)
class FitOn:
    """What to fit on: a share of the images, or another dataset.

    share: drawn by lot, and not measured. embeddings: those of the dataset, where they are stored.
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
        """Return the images to fit on, None where there is no such set, and those to measure."""
        if self.share is not None:
            return measured.split(self.share, seed, attribute)
        if self.dataset is None:
            return None, measured
        fitting = LabelledImages.of(
            self.dataset,
            attribute,
            measured.encoder,
            once=once,
            embeddings=self.embeddings,
            on_unreadable=measured.on_unreadable,
        )
        both = sorted(set(fitting.paths) & set(measured.paths))
        if both:
            raise InputError(
                f"{len(both)} images would be both fitted on and measured, first {both[0]}; leave"
                " them out of one of the two"
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
    """Return whether a method is fitted on images here.

    A method that learns from captions is, where the images to fit on have some.
    """
    captioned = fitting is not None and fitting.column(*CAPTIONS) is not None
    return spec.takes_images(captioned)


def fitting_images(fitting: LabelledImages | None, measured: LabelledImages) -> dict[str, Any]:
    """Return what a method may know of images: no label where they are those that are measured."""
    if fitting is None:
        return {"images": measured.images[0]}
    rows, there = fitting.images
    known = {"images": rows, "sensitive_features": fitting.groups[there]}
    labels = fitting.column("label")
    if labels is not None:
        known["labels"] = labels[there]
    captions = fitting.column(*CAPTIONS)
    if captions is not None:
        known["captions"] = captions[there]
    return known


def fitted_on(
    spec: MethodSpec, fitting: LabelledImages | None, measured: LabelledImages
) -> FittedOn | None:
    """Return what a run's file says of these images; None for a method that needs no image."""
    if not takes_images(spec, fitting):
        return None
    chosen = fitting or measured
    return FittedOn(
        name=chosen.name,
        images=int(chosen.images[1].sum()),
        measured=fitting is None,
        labels=fitting is not None,
    )
