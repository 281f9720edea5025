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
    """A text tower in torch that gradients flow through, with room for tokens before a text.

    ``encoder.text_tower()`` returns it, and ``prompt-array`` trains the tokens. Tensors lie on
    ``device``; parameters are frozen, and nothing here turns gradients off.
    """

    device: str

    def tokenize(self, texts: Sequence[str], room: int) -> dict[str, Any]:
        """Return tokens as ``features`` takes them, cut so that ``room`` more fit the model."""
        ...

    def embed(self, ids: Any) -> Any:
        """Return embeddings (..., width) of token ids (...), without positions."""
        ...

    def features(self, tokens: dict[str, Any], prefix: Any) -> Any:
        """Return features (n, dim), before normalisation.

        prefix (room, width) stands before each text, without positions; the text keeps its own
        positions, and is pooled where it would be. An empty prefix gives what the encoder itself
        computes.
        """
        ...


class Towers(ABC):
    """One model: features (n, dim) of texts and of prepared images, of any length and dtype."""

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
        """Return how many tokens each text has before any is cut off."""

    @abstractmethod
    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        """Return features of texts, cut to ``max_tokens`` by the model's own tokenizer."""

    @abstractmethod
    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        """Return features of prepared images: bytes (n, height, width, 3).

        Where ``preprocess`` is None, they are a list of RGB arrays.
        """

    def text_tower(self) -> TextTower:
        """Return the text tower for methods that learn through it."""
        raise InputError(
            f"{self.id} has no text tower that gradients flow through; CLIP models of hf: and mini"
            " have one"
        )

    @abstractmethod
    def digest(self) -> str:
        """Return a hash of all that embeddings depend on.

        That is: weights, architecture, tokenizer and preprocessing.
        """

    def cache_digest(self) -> str:
        """Return the digest that keys the cache; it is always computed, never read from a file."""
        return self.digest()


def digest_of(arrays: Iterable[tuple[str, np.ndarray]], settings: Any) -> str:
    """Return a hash of named weights, in whatever order, and of settings that JSON can hold."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as threads:  # hashlib lets go of the interpreter
        parts = sorted(threads.map(_digest, arrays))
    document = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256("\n".join([*parts, document]).encode()).hexdigest()


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without who wrote it, where, and in which version or precision."""
    plain = {}
    for key, value in settings.items():
        if str(key).startswith("_") or key in VOLATILE:
            continue
        plain[key] = plain_settings(value) if isinstance(value, dict) else value
    return plain


def digest_of_vocabulary(vocabulary: dict[str, int]) -> str:
    """Return a hash of token -> id, in the order of ids."""
    by_id = sorted(vocabulary.items(), key=lambda item: item[1])
    lines = [f"{i} {token}" for token, i in by_id]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _digest(named: tuple[str, np.ndarray]) -> str:
    name, array = named
    checksum = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
    return f"{name} {array.shape} {checksum}"
