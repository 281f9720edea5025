"""``TextVectors``: embeddings of texts from a file, in an encoder's place.

Three layouts, none with pickle: parquet with columns ``prompt`` (string) and ``vector`` (list of
floats); npz with arrays ``prompt`` (n,) and ``vector`` or ``text`` (n, d); safetensors with a
tensor ``vector`` (n, d) and the prompts as a JSON list under ``prompts`` in its metadata. An
``encoder`` beside them (schema metadata, array, metadata) names the encoder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import ArtefactError, InputError

_SUFFIXES = (".parquet", ".npz", ".safetensors")


class TextVectors:
    """A table of texts and vectors that encodes by looking up; ``id`` names the encoder that made
    them, where the file says.
    """

    def __init__(
        self,
        prompts: Sequence[str],
        vectors: np.ndarray,
        *,
        id: str = "",
        source: str = "the table",
    ):
        vectors = np.asarray(vectors)
        if vectors.ndim != 2 or len(vectors) != len(prompts) or vectors.dtype.kind != "f":
            raise ArtefactError(
                f"{source} holds {len(prompts)} prompts and vectors of shape {vectors.shape}"
                f" ({vectors.dtype}); one float row a prompt"
            )
        self.rows = {str(prompt): i for i, prompt in enumerate(prompts)}
        self.vectors, self.id, self.source = vectors, id, source

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Unit float32 rows; an error that names texts the file does not have."""
        if missing := [text for text in texts if text not in self.rows]:
            raise InputError(
                f"{self.source} has no vector for {len(missing)} of {len(texts)} texts, first"
                f" {missing[0]!r}; encode the book's texts (equipoise prompts show --texts lists"
                " them), or pass an encoder"
            )
        rows = self.vectors[[self.rows[text] for text in texts]].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TextVectors:
        """Read a .parquet, .npz or .safetensors file."""
        path = Path(path)
        if path.suffix not in _SUFFIXES:
            raise InputError(f"{path} is no file of text vectors; they are {', '.join(_SUFFIXES)}")
        if not path.is_file():
            raise ArtefactError(f"there is no file {path}")
        try:
            prompts, vectors, made_by = {
                ".parquet": _parquet,
                ".npz": _npz,
                ".safetensors": _safetensors,
            }[path.suffix](path)
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise ArtefactError(
                f"{path} does not hold prompts and vectors ({error}); docs/prompts.md shows the"
                " layouts"
            ) from None
        return cls(prompts, vectors, id=made_by, source=str(path))


def _parquet(path: Path) -> tuple[list[str], np.ndarray, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["prompt", "vector"])
    column = table["vector"].combine_chunks()
    if column.null_count or table["prompt"].null_count:
        raise ValueError("a row is empty")
    flat = np.asarray(column.flatten())
    if (
        not pa.types.is_fixed_size_list(column.type)
        and len(set(np.diff(column.offsets).tolist())) > 1
    ):
        raise ValueError("the vectors are of different lengths")
    made_by = (table.schema.metadata or {}).get(b"encoder", b"").decode()
    return table["prompt"].to_pylist(), flat.reshape(len(table), -1), made_by


def _npz(path: Path) -> tuple[list[str], np.ndarray, str]:
    with np.load(path, allow_pickle=False) as file:
        arrays: dict[str, Any] = {
            name: file[name]
            for name in file.files
            if name in ("prompt", "vector", "text", "encoder")
        }
    vectors = arrays["vector"] if "vector" in arrays else arrays["text"]
    return [str(prompt) for prompt in arrays["prompt"]], vectors, str(arrays.get("encoder", ""))


def _safetensors(path: Path) -> tuple[list[str], np.ndarray, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            return (
                json.loads(metadata["prompts"]),
                file.get_tensor("vector"),
                metadata.get("encoder", ""),
            )
    except SafetensorError as error:
        raise ValueError(str(error)) from None
