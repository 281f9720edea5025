"""``clip-clip``: the dimensions that tell most about the group are cut (Wang et al. 2021).

Images and texts lose the same dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._arrays import normalised
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import dimensions, labelled_images
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method, Strength
from equipoise.prompts._attribute import Attribute

CUT = 112 / 512  # the code keeps 400 of 512
BINS = 64


class ClippedOperator(Operator):
    """The kept dimensions of unit rows: ``nrm(x)[keep]``."""

    method = "clip-clip"

    def __init__(
        self, attribute: Attribute, keep: np.ndarray, in_dim: int, renormalise: bool, **options: Any
    ):
        super().__init__(attribute, ("image", "text"), in_dim, **options)
        self.keep, self.renormalise, self.out_dim = keep, renormalise, len(keep)

    @property
    def unit(self) -> bool:
        return self.renormalise or self.out_dim == self.in_dim

    def _image(self, rows: Any) -> Any:
        rows = normalised(rows)
        cut = rows.take(self.keep, -1) if isinstance(rows, np.ndarray) else rows[..., self.keep]
        return normalised(cut) if self.renormalise else cut

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._image(rows)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"keep": self.keep}

    def settings(self) -> dict[str, Any]:
        return {"in_dim": self.in_dim, "renormalise": self.renormalise}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> ClippedOperator:
        keep, in_dim = arrays["keep"], int(settings["in_dim"])
        are_places = keep.ndim == 1 and keep.dtype.kind == "i" and keep.size > 0
        if not are_places or keep.min() < 0 or keep.max() >= in_dim:
            raise ValueError("the dimensions to keep are not within the rows")
        return cls(attribute, keep, in_dim, bool(settings["renormalise"]), encoder=made_by)


@dataclass(frozen=True)
class ClipClip(Method):
    """Parameters of ``clip-clip``.

    m: how many dimensions are cut, or, below 1, what share of them; the default is the code's 112
    of 512, and 0 is the identity. estimator: "histogram" is the code's, "knn" that of other
    re-runs. renormalise: False, as in the code, leaves the rows shorter than unit length.
    """

    m: float = CUT
    estimator: Literal["histogram", "knn"] = "histogram"
    renormalise: bool = False

    name: ClassVar[str] = "clip-clip"
    summary: ClassVar[str] = (
        "the dimensions with most mutual information about the group cut from both modalities"
    )
    source: ClassVar[str] = "Wang et al. 2021"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    sweep: ClassVar[Strength | None] = Strength(
        "m", 0, (1 / 64, 1 / 32, 1 / 16, 1 / 8, CUT, 3 / 8, 1 / 2)
    )
    code: ClassVar[str] = (
        "a smoothed histogram estimates the information, not the paper's nearest neighbours"
        " (estimator=knn)"
    )
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = ClippedOperator

    def fit(self, context: FitContext) -> ClippedOperator:
        if self.estimator not in ESTIMATORS:
            raise InputError(
                f"estimator={self.estimator!r} is not legal; pass one of {', '.join(ESTIMATORS)}"
            )
        rows, codes = labelled_images(self.name, context)
        dim = rows.shape[1]
        m = dimensions(self.m, dim)
        if m is None or m == dim:
            raise InputError(
                f"m={self.m!r} is not legal; it is how many of the {dim} dimensions are cut, 0 to"
                f" {dim - 1}, or a share below 1"
            )
        information = ESTIMATORS[self.estimator](rows, codes, context.seed)
        keep = np.sort(np.argsort(information, kind="stable")[: dim - m])
        params = {"m": m, "estimator": self.estimator, "renormalise": self.renormalise}
        return ClippedOperator(
            context.attribute, keep, dim, self.renormalise, encoder=context.encoder, params=params
        )


def histogram_information(rows: Float64, codes: np.ndarray, seed: int = 0) -> Float64:
    """Return the mutual information (d,) of each column and the group, in nats.

    It comes from a joint histogram, smoothed by a Gaussian of one bin. The smoothing spreads the
    few groups over bins beside theirs, so only the ranking means something.
    """
    from scipy.ndimage import gaussian_filter

    of_group = _bins(codes[:, None].astype(np.float64))[:, 0]
    found = np.empty(rows.shape[1])
    for j in range(rows.shape[1]):
        of_column = _bins(rows[:, j : j + 1])[:, 0]
        counts = np.bincount(of_column * BINS + of_group, minlength=BINS * BINS)
        counts = counts.reshape(BINS, BINS).astype(np.float64)
        p = gaussian_filter(counts, 1, mode="constant") + np.finfo(float).eps
        p /= p.sum()
        found[j] = _entropy(p.sum(0)) + _entropy(p.sum(1)) - _entropy(p)
    return found


def knn_information(rows: Float64, codes: np.ndarray, seed: int = 0) -> Float64:
    """Return scikit-learn's estimate (d,) of the mutual information.

    It comes from the distances to a column's nearest neighbours of the same group.
    """
    from sklearn.feature_selection import mutual_info_classif

    return mutual_info_classif(rows, codes, random_state=seed)


ESTIMATORS = {"histogram": histogram_information, "knn": knn_information}


def _bins(columns: Float64) -> np.ndarray:
    """Return which of the equal bins between a column's ends each entry falls into."""
    low, high = columns.min(0), columns.max(0)
    width = np.where(high > low, high - low, 1.0)
    return np.minimum((BINS * (columns - low) / width).astype(int), BINS - 1)


def _entropy(p: Float64) -> float:
    return -float((p * np.log(p)).sum())


METHOD = ClipClip
