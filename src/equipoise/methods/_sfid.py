"""``sfid``: the coordinates by which a random forest tells the groups, overwritten.

They take their mean over the rows that the forest is unsure of (Jung et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from equipoise import kernels
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels import _host as host
from equipoise.methods._arrays import constant, namespace, normalised, unit_and_bad
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import dimensions, labelled_images, require_groups
from equipoise.methods._fitting_texts import labelled_texts
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method, Strength
from equipoise.prompts._attribute import Attribute

FEW = 20  # rows per group, below which a forest and its held-out rows mean little


class Imputation(NamedTuple):
    """Which coordinates are overwritten (k,), and with what (k,)."""

    places: np.ndarray
    values: Float64


class SfidOperator(Operator):
    """Unit rows with some coordinates overwritten by the same values in every row.

    What comes out is brought to unit length where ``renormalise``.
    """

    method = "sfid"

    def __init__(
        self,
        attribute: Attribute,
        fills: Mapping[Modality, Imputation],
        in_dim: int,
        renormalise: bool,
        **options: Any,
    ):
        super().__init__(attribute, tuple(fills), in_dim, **options)
        self.fills, self.renormalise = dict(fills), renormalise

    @property
    def unit(self) -> bool:
        return self.renormalise or not any(len(fill.places) for fill in self.fills.values())

    def _image(self, rows: Any) -> Any:
        return self._fill(rows, self.fills["image"])

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._fill(rows, self.fills["text"])

    def _fill(self, rows: Any, fill: Imputation) -> Any:
        keep, value = np.ones(self.in_dim), np.zeros(self.in_dim)
        keep[fill.places], value[fill.places] = 0, fill.values
        if isinstance(rows, np.ndarray) and kernels.which(rows) == "numba":
            filled = host.overwrite(host.rows_of(rows), keep, value, self.renormalise)
            return filled.reshape(rows.shape)
        out, bad = unit_and_bad(rows)
        where = namespace(out).where
        filled = where(constant(keep, out) > 0, out, constant(value, out))
        if self.renormalise:
            filled = normalised(filled)
        stays = bad | ((filled * filled).sum(-1) == 0)  # no direction; or nothing is left of it
        return where(stays[..., None], out, filled)

    def arrays(self) -> dict[str, np.ndarray]:
        found = {}
        for modality, fill in self.fills.items():
            found[f"{modality}.places"] = fill.places
            found[f"{modality}.values"] = fill.values
        return found

    def settings(self) -> dict[str, Any]:
        return {
            "changes": list(self.changes),
            "in_dim": self.in_dim,
            "renormalise": self.renormalise,
        }

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> SfidOperator:
        fills = {
            modality: Imputation(arrays[f"{modality}.places"], arrays[f"{modality}.values"])
            for modality in settings["changes"]
        }
        dim, renormalise = int(settings["in_dim"]), bool(settings["renormalise"])
        for places, values in fills.values():
            inside = not places.size or 0 <= places.min() <= places.max() < dim
            if places.shape != values.shape or places.ndim != 1 or not inside:
                raise ValueError("the coordinates and their values do not match")
        return cls(attribute, fills, dim, renormalise, encoder=made_by)


@dataclass(frozen=True)
class Sfid(Method):
    """Parameters of ``sfid``.

    k: how many coordinates are overwritten, or, below 1, what share of them; 0 is the identity.
    tau: rows that the forest is less sure of than this give the values. fill: "low-confidence" is
    the method, "zero" and "noise" (one Gaussian draw for all rows) are its ablations. held_out: the
    share of rows, never seen by the forest, that its confidence is measured on. renormalise: False
    is the code, which mixes lengths. The text forest needs a book with many texts;
    modality="image" does without, and is all that the code's own classification changes.
    """

    k: float = 50
    tau: float = 0.7
    fill: Literal["low-confidence", "zero", "noise"] = "low-confidence"
    trees: int = 100
    held_out: float = 0.25
    renormalise: bool = True
    modality: Literal["both", "image", "text"] = "both"

    name: ClassVar[str] = "sfid"
    summary: ClassVar[str] = (
        "coordinates that a random forest tells groups by, overwritten with neutral values"
    )
    source: ClassVar[str] = "Jung et al. 2024"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features", "prompts")
    training: ClassVar[str] = "one random forest per modality"
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {"modality": "text"}
    sweep: ClassVar[Strength | None] = Strength(
        "k", 0, (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
    )
    code: ClassVar[str] = (
        "in classification its text part does nothing (modality=image); text lengths are mixed,"
        " mended here (renormalise=False)"
    )
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = SfidOperator

    def fit(self, context: FitContext) -> SfidOperator:
        self._check()
        fills: dict[Modality, Imputation] = {}
        dim, k = 0, None
        for modality in changes_of(self.modality):
            if modality == "image":
                rows, codes = labelled_images(self.name, context, FEW)
            else:
                rows, codes = self._texts(context)
            dim = rows.shape[1]
            k = dimensions(self.k, dim)
            if k is None:
                raise InputError(
                    f"k={self.k} is not legal; it is how many of the {dim} coordinates are"
                    " overwritten, or a share below 1"
                )
            fills[modality] = self.imputation(rows, codes, k, context.seed)
        params = {
            "k": k,
            "tau": self.tau,
            "fill": self.fill,
            "trees": self.trees,
            "held_out": self.held_out,
            "renormalise": self.renormalise,
            "modality": self.modality,
        }
        return SfidOperator(
            context.attribute, fills, dim, self.renormalise, encoder=context.encoder, params=params
        )

    def _check(self) -> None:
        if self.fill not in ("low-confidence", "zero", "noise"):
            raise InputError(
                f'fill={self.fill!r} is not legal; pass "low-confidence", "zero" or "noise"'
            )
        if not 0 < self.tau <= 1 or not 0 < self.held_out < 1 or self.trees < 1:
            raise InputError(
                f"tau={self.tau} (0 to 1), held_out={self.held_out} (between 0 and 1) or"
                f" trees={self.trees} (from 1) is not legal"
            )

    def _texts(self, context: FitContext) -> tuple[Float64, np.ndarray]:
        rows, codes = labelled_texts(self.name, context)
        groups = context.attribute.groups
        counts = np.bincount(codes, minlength=len(groups))
        otherwise = "take a larger book, or pass modality=image"
        require_groups(self.name, counts, groups, FEW, "texts", otherwise)
        return rows, codes

    def imputation(self, rows: Float64, codes: np.ndarray, k: int, seed: int) -> Imputation:
        """Return which coordinates are overwritten, and with what."""
        places, rest, probabilities = self.forest(rows, codes, k, seed)
        if self.fill == "zero":
            return Imputation(places, np.zeros(k))
        if self.fill == "noise":
            drawn = np.random.default_rng(seed).standard_normal(k)
            return Imputation(places, rows[:, places].mean(0) + drawn * rows[:, places].std(0))
        unsure = rest[unsure_of(probabilities, self.tau)]
        return Imputation(places, rows[unsure][:, places].mean(0))

    def forest(
        self, rows: Float64, codes: np.ndarray, k: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray, Float64]:
        """Return the coordinates (k,) that a forest tells groups by, and its held-out rows.

        Beside the places of the rows it never saw, come its probabilities (rows, groups) for them.
        """
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import train_test_split

        train, rest = train_test_split(
            np.arange(len(rows)), test_size=self.held_out, random_state=seed, stratify=codes
        )
        forest = RandomForestClassifier(self.trees, random_state=seed, n_jobs=-1)
        forest.fit(rows[train], codes[train])
        places = np.sort(np.argsort(-forest.feature_importances_, kind="stable")[:k])
        return places, np.asarray(rest), np.asarray(forest.predict_proba(rows[rest]))


def unsure_of(probabilities: Float64, tau: float) -> np.ndarray:
    """Return the places of the rows (n, groups) that a forest is less sure of than ``tau``."""
    confidence = probabilities.max(1)
    unsure = np.flatnonzero(confidence < tau)
    if not len(unsure):
        raise InputError(
            f"the forest is sure of every held-out row (at least {confidence.min():.2f}), so"
            f" tau={tau} leaves none to average; {_otherwise(confidence)}"
        )
    return unsure


def _otherwise(confidence: Float64) -> str:
    """Return what to pass where a forest is sure of every row.

    That is a tau below which there are a few rows, if there is one.
    """
    ranked = np.sort(confidence)
    tau = np.floor(100 * ranked[min(FEW, len(ranked)) - 1] + 1) / 100
    if tau > 1:
        return "no tau leaves any, so pass fill=zero, or more images"
    return f"pass tau={tau:.2f}, which leaves {int((confidence < tau).sum())}"


METHOD = Sfid
