"""``FitContext``: all that a method may be fitted on.

Each method takes what it needs, and says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise._display import cut
from equipoise._rows import blocks_of, parts
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook

if TYPE_CHECKING:
    from equipoise.encoders import TextEncoder

BLOCK = 8192  # images at a time


@dataclass(frozen=True, eq=False)
class FitContext:
    """What is known at fitting time; everything but the attribute is optional.

    prototypes: group -> vector (d,) or embeddings (m, d). text_table: prompt -> vector, so that
    text methods fit without an encoder. images: an array (n, d), a store, or an iterable of blocks.
    sensitive_features, labels: the group and the class of each image. class_prompts: class ->
    prompt.
    """

    attribute: Attribute
    encoder: TextEncoder | None = None
    book: PromptBook | None = None
    text_table: Mapping[str, Any] | None = None
    prototypes: Mapping[str, Any] | None = None
    images: Any = None
    sensitive_features: Any = None
    labels: Any = None
    class_prompts: Mapping[Any, str] | Sequence[str] | None = None
    captions: Sequence[str] | None = None
    seed: int = 0
    device: str | None = None
    workdir: Path | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, Attribute):
            raise InputError(
                f"the attribute is {type(self.attribute).__name__}; pass an eq.Attribute, or"
                " Attribute.load('gender')"
            )
        if not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"seed={self.seed!r} is not legal; pass a whole number from 0 on")
        if self.prototypes is not None and set(self.prototypes) != set(self.attribute.groups):
            groups = ", ".join(self.attribute.groups)
            given = ", ".join(map(str, self.prototypes))
            raise InputError(
                f"prototypes are of {given}, and {self.attribute.name} has {groups}; give one for"
                " each group"
            )

    def __repr__(self) -> str:
        facts = [repr(self.attribute)]
        for part in fields(self)[1:]:
            value = getattr(self, part.name)
            if value is not None:
                facts.append(f"{part.name}={_described(value)}")
        return f"FitContext({', '.join(facts)})"

    @property
    def text_encoder(self) -> Any:
        """Return what encodes texts: the encoder, or the text table; None without both."""
        if self.encoder is not None:
            return self.encoder
        if self.text_table is not None:
            return _Table(self.text_table)
        return None

    def require(self, method: str, *names: str) -> None:
        """Raise unless the context has all of these."""
        missing = [name for name in names if getattr(self, name) is None]
        if missing:
            raise InputError(
                f"{method} needs {' and '.join(missing)}, which the context lacks; pass"
                f" FitContext(..., {missing[0]}=...)"
            )

    def image_blocks(self) -> Iterator[np.ndarray]:
        """Yield the images, a few thousand rows (n, d) at a time.

        So a memory map or a store may be larger than memory.
        """
        for part in parts(self.images):
            rows = part.detach().cpu().numpy() if hasattr(part, "detach") else np.asanyarray(part)
            if rows.ndim != 2:
                raise InputError(
                    f"images have shape {rows.shape}; pass embeddings (n, d), a store, or an"
                    " iterable of such arrays"
                )
            yield from blocks_of(rows, BLOCK)


def _described(value: Any) -> str:
    """Return a word or two for a value of any kind: never what it holds."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {tuple(value.shape)}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str | Path):
        return repr(cut(value))
    if isinstance(value, Sized):
        return f"{type(value).__name__} of {len(value):,}"
    return type(value).__name__


class _Table:
    """A text table with an encoder's interface."""

    def __init__(self, table: Mapping[str, Any]):
        self.table = table

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        missing = [text for text in texts if text not in self.table]
        if missing:
            raise InputError(
                f"the text table lacks {len(missing)} texts, first {missing[0]!r}; add them, or"
                " pass an encoder"
            )
        return np.stack([np.asarray(self.table[text], np.float64) for text in texts])
