"""``ReleasedHalfOperator``: the closed form as the released code computes it on a GPU.

There the encoder gives float16 rows, which are brought to unit length in float16, so that a row's
length is off by up to 6e-4. The code takes 1 - o of such rows in float32, where o is the length of
the neutral part: for a row that is nearly neutral that difference is mostly rounding, and the
factor on the attribute component is anything. This operator is for looking at that, not for use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._documents import validated
from equipoise._space import AttributeSpace, EncoderRef
from equipoise.geometry import unit
from equipoise.methods._arrays import like, to_numpy
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._operator_document import SpaceSettings
from equipoise.prompts._attribute import Attribute

NONE_LEFT = np.float32(1e-12)  # the code's own epsilon
ARITHMETIC = "fp16"


class ReleasedHalfOperator(Operator):
    """``closed-form`` in the released code's float16 and float32 arithmetic."""

    method = "closed-form"

    def __init__(
        self,
        attribute: Attribute,
        space: AttributeSpace,
        changes: tuple[Modality, ...],
        **options: Any,
    ):
        super().__init__(attribute, changes, space.dim, **options)
        self.space: AttributeSpace = space

    def shrink(self, rows: Any, lengths: Any = 1.0) -> np.ndarray:
        """Return the factor (n,) on the attribute component of each row; 0.382 and up in theory.

        lengths: what an encoder gave, before the rows were brought to unit length.
        """
        e = half_unit(rows, lengths)
        inside, outside = self._lengths(*self._parts(e))
        return _alpha(inside, outside) / np.maximum(inside, NONE_LEFT)

    def _image(self, rows: Any) -> Any:
        return self._debias(rows)

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._debias(rows)

    def _debias(self, rows: Any) -> Any:
        e = half_unit(to_numpy(rows))
        parallel, neutral = self._parts(e)
        inside, outside = self._lengths(parallel, neutral)
        alpha = _alpha(inside, outside)[..., None]
        rest = np.sqrt(np.maximum(1 - alpha * alpha, 0))
        u = rest * neutral / np.maximum(outside, NONE_LEFT)[..., None]
        u = u + alpha * parallel / np.maximum(inside, NONE_LEFT)[..., None]
        kept = (inside <= NONE_LEFT) | (outside <= NONE_LEFT)
        out = unit(np.where(kept[..., None], e, u).astype(np.float64))
        return like(out, rows)

    def _parts(self, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        basis = self.space.basis.astype(np.float32)
        parallel = (e @ basis) @ basis.T
        return parallel, e - parallel

    @staticmethod
    def _lengths(parallel: np.ndarray, neutral: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.norm(parallel, axis=-1), np.linalg.norm(neutral, axis=-1)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.space.arrays()

    def settings(self) -> dict[str, Any]:
        settings = SpaceSettings(
            changes=self.changes, space=self.space.metadata(), as_released=ARITHMETIC
        )
        return settings.to_plain()

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> ReleasedHalfOperator:
        found = validated(SpaceSettings, settings)
        space = AttributeSpace.from_arrays(arrays, found.space)
        return cls(attribute, space, found.changes, encoder=made_by)


def half_unit(rows: Any, lengths: Any = 1.0) -> np.ndarray:
    """Return rows (..., d) of these lengths brought to unit length in float16, as float32.

    torch sums squares in float32, rounds the length to float16, and rounds each quotient again.
    """
    given = unit(np.asarray(rows, np.float64)) * lengths
    half = given.astype(np.float16).astype(np.float32)
    found = np.sqrt((half * half).sum(-1, keepdims=True, dtype=np.float32)).astype(np.float16)
    quotients = half / found.astype(np.float32)
    return quotients.astype(np.float16).astype(np.float32)


def _alpha(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return what the printed formula leaves of the attribute component, with its cancellation."""
    p = np.maximum(inside, NONE_LEFT)
    e = p + (1 - outside) / p
    root = np.sqrt(np.maximum(e * e - inside * inside, 0))
    return np.clip((e - outside * root) / (e * e + outside * outside + NONE_LEFT), -1, 1)
