"""``none``: the encoder as it is, the row that every other is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise._space import EncoderRef
from equipoise.methods._context import FitContext
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method
from equipoise.prompts._attribute import Attribute


class Identity(Operator):
    """The operator that changes nothing and takes rows of any width."""

    method = "none"

    def __init__(self, attribute: Attribute, encoder: Any = None):
        super().__init__(attribute, (), 0, encoder)

    def _check_width(self, rows: Any, what: str) -> None:
        pass

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return rows

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> Identity:
        return cls(attribute, made_by)


@dataclass(frozen=True)
class NoMethod(Method):
    """The method without parameters: nothing is fitted, nothing is changed."""

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "the encoder as it is"
    changes: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {}
    operator: ClassVar[type[Operator]] = Identity

    def fit(self, context: FitContext) -> Identity:
        return Identity(context.attribute, context.encoder)


METHOD = NoMethod
