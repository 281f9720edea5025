"""``LowRankOperator``: an affine map of low rank on the unit rows of each modality.

The kernels run it; four methods come down to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise import kernels
from equipoise._space import EncoderRef
from equipoise.kernels._recipe import PROJECT, LowRank
from equipoise.methods._operator import Modality, Operator
from equipoise.prompts._attribute import Attribute


class LowRankOperator(Operator):
    """One map ``x -> x - left (right^T x) - bias`` of unit rows x per changed modality.

    What comes out is brought to unit length where ``renormalise``.
    """

    def __init__(
        self,
        attribute: Attribute,
        maps: Mapping[Modality, LowRank],
        renormalise: bool,
        **options: Any,
    ):
        super().__init__(attribute, tuple(maps), next(iter(maps.values())).dim, **options)
        self.maps: dict[Modality, LowRank] = dict(maps)
        self.renormalise: bool = renormalise

    @property
    def unit(self) -> bool:
        return self.renormalise

    @property
    def rank(self) -> int:
        """Return the rank of the map with the most directions."""
        return max(low_rank.rank for low_rank in self.maps.values())

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"rank": self.rank}

    def _image(self, rows: Any) -> Any:
        return self._map(rows, "image")

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._map(rows, "text")

    def _map(self, rows: Any, modality: Modality) -> Any:
        length = "unit" if self.renormalise else "raw"
        return kernels.debias(rows, self.maps[modality], PROJECT, length)

    def arrays(self) -> dict[str, np.ndarray]:
        found = {}
        for modality, low_rank in self.maps.items():
            found[f"{modality}.right"] = low_rank.right
            if low_rank.left is not low_rank.right:
                found[f"{modality}.left"] = low_rank.left
            if low_rank.bias is not None:
                found[f"{modality}.bias"] = low_rank.bias
        return found

    def settings(self) -> dict[str, Any]:
        return {"changes": list(self.changes), "renormalise": self.renormalise}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> LowRankOperator:
        maps: dict[Modality, LowRank] = {}
        for modality in settings["changes"]:
            right = arrays[f"{modality}.right"]
            left = arrays.get(f"{modality}.left", right)
            bias = arrays.get(f"{modality}.bias")
            bias_fits = bias is None or bias.shape == right.shape[:1]
            if right.ndim != 2 or right.shape != left.shape or not bias_fits:
                raise ValueError(f"the factors of {modality} do not match")
            maps[modality] = LowRank(right, left, bias)
        return cls(attribute, maps, bool(settings["renormalise"]), encoder=made_by)
