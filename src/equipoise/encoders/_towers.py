"""What an adapter gives: two towers of one model.

``Encoder`` does the rest, for all adapters alike.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from equipoise.encoders._preprocess import Preprocess
from equipoise.errors import InputError

Modality = Literal["text", "image"]
VOLATILE = (
    "transformers_version",
    "dtype",
    "torch_dtype",
    "architectures",
    "name_or_path",
    "use_cache",
    "auto_map",
    "processor_class",
)


class TextTower(Protocol):
    """A text tower in torch that gradients flow through, with room for learned tokens before a
    text: what ``prompt-array`` trains.

    ``encoder.text_tower()`` gives it. Tensors lie on ``device``; parameters are frozen, and nothing
    here turns gradients off.
    """

    device: str

    def tokenize(self, texts: Sequence[str], room: int) -> dict[str, Any]:
        """Return tokens as ``features`` takes them, cut so that ``room`` more fit the model."""
        ...

    def embed(self, ids: Any) -> Any:
        """Embeddings (..., width) of token ids (...), without positions."""
        ...

    def features(self, tokens: dict[str, Any], prefix: Any) -> Any:
        """Features (n, dim), before normalisation.

        prefix (room, width) stands before each text, without positions; the text keeps its own
        positions, and is pooled where it would be. With an empty prefix: what the encoder itself
        computes.
        """
        ...


class Towers(ABC):
    """One model: features of texts and of prepared pictures, (n, dim), of any length and any float
    dtype.
    """

    id: str
    revision: str = ""
    dim: int
    modalities: tuple[Modality, ...] = ("text", "image")
    preprocess: Preprocess | None = None  # None: ``image_features`` takes RGB arrays of any size
    max_tokens: int = 0  # of a text, special tokens included; 0 where there is no limit
    precision: str = "float32"
    device: str = "cpu"
    runtime: str = ""  # the library that computes, with its version
    repeatable: bool = False  # whether a row depends on its item alone, and on no neighbour

    @abstractmethod
    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text before any is cut off."""

    @abstractmethod
    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        """Features of texts, cut to ``max_tokens`` by the model's own tokenizer."""

    @abstractmethod
    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        """Features of prepared pictures: bytes (n, height, width, 3), or a list of arrays where
        ``preprocess`` is None.
        """

    def text_tower(self) -> TextTower:
        """For methods that learn through the text encoder."""
        raise InputError(
            f"{self.id} has no text tower that gradients flow through; CLIP models of hf: and mini"
            " have one"
        )

    @abstractmethod
    def digest(self) -> str:
        """A hash of all that the embeddings depend on: weights, architecture, tokenizer,
        preprocessing.
        """

    def cache_digest(self) -> str:
        """The same, for what is cached; never taken on trust."""
        return self.digest()


def digest_of(arrays: Iterable[tuple[str, np.ndarray]], settings: Any) -> str:
    """Hash of named weights, in whatever order, and of settings that JSON can hold."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as threads:  # hashlib lets go of the interpreter
        parts = sorted(threads.map(_digest, arrays))
    document = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256("\n".join([*parts, document]).encode()).hexdigest()


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """A configuration without what says who wrote it, where, and in which version or precision."""
    return {
        key: plain_settings(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if not str(key).startswith("_") and key not in VOLATILE
    }


def digest_of_vocabulary(vocabulary: dict[str, int]) -> str:
    """Hash of token -> id, in the order of ids."""
    return hashlib.sha256(
        "\n".join(
            f"{i} {token}" for token, i in sorted(vocabulary.items(), key=lambda kv: kv[1])
        ).encode()
    ).hexdigest()


def _digest(named: tuple[str, np.ndarray]) -> str:
    name, array = named
    return f"{name} {array.shape} {hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()}"
