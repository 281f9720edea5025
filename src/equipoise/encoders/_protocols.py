"""What an encoder must offer: objects of any package that have these work wherever one is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

OnUnreadable = Literal["nan", "raise"]


class TextEncoder(Protocol):
    """An object that turns texts into unit rows.

    Where it has ``revision`` and ``fingerprint`` too, what is fitted with it records them and
    refuses embeddings of another encoder.
    """

    @property
    def id(self) -> str:
        """Return the name of the encoder; "" where nobody said."""
        ...

    @property
    def dim(self) -> int:
        """Return the length of a row."""
        ...

    def encode_text(self, texts: Sequence[str], /) -> np.ndarray:
        """Return unit rows (n, dim), float32, in the order of the texts."""
        ...


class ImageEncoder(Protocol):
    """An object that turns images into unit rows."""

    @property
    def id(self) -> str:
        """Return the name of the encoder; "" where nobody said."""
        ...

    @property
    def dim(self) -> int:
        """Return the length of a row."""
        ...

    def encode_images(
        self, images: Iterable[Any], /, *, on_unreadable: OnUnreadable = "nan"
    ) -> np.ndarray:
        """Return unit rows (n, dim), float32, in the order of the images.

        images: paths, PIL images or arrays. on_unreadable: "nan" gives such an image a row of NaN,
        "raise" stops at the first.
        """
        ...
