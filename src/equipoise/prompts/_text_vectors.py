"""Define ``TextVectors``: embeddings of texts from a file, in place of an encoder.

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

import numpy as np

from equipoise.errors import ArtefactError, InputError

_Table = tuple[list[str], np.ndarray, str]  # prompts, vectors, the encoder that made them


class TextVectors:
    """A table of texts and vectors that encodes by looking texts up.

    id: the encoder that made the vectors, where the file says so. source: the file, for messages.
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
                f" ({vectors.dtype}); one float row per prompt is needed"
            )
        self.rows = {str(prompt): i for i, prompt in enumerate(prompts)}
        self.vectors, self.id, self.source = vectors, id, source

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return self.vectors.shape[1]

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit float32 rows; raise for texts that the file does not have."""
        missing = [text for text in texts if text not in self.rows]
        if missing:
            raise InputError(
                f"{self.source} has no vector for {len(missing)} of {len(texts)} texts, first"
                f" {missing[0]!r}; encode the book's texts (equipoise prompts show --texts lists"
                " them), or pass an encoder"
            )
        rows = self.vectors[[self.rows[text] for text in texts]].astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (rows / lengths).astype(np.float32)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TextVectors:
        """Read a .parquet, .npz or .safetensors file."""
        path = Path(path)
        if path.suffix not in _READERS:
            raise InputError(f"{path} is no file of text vectors; they are {', '.join(_READERS)}")
        if not path.is_file():
            raise ArtefactError(f"there is no file {path}")
        try:
            read = _READERS[path.suffix]
            prompts, vectors, made_by = read(path)
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise ArtefactError(
                f"{path} does not hold prompts and vectors ({error}); docs/prompts.md shows the"
                " layouts"
            ) from None
        return cls(prompts, vectors, id=made_by, source=str(path))


def _read_parquet(path: Path) -> _Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["prompt", "vector"])
    column = table["vector"].combine_chunks()
    if column.null_count or table["prompt"].null_count:
        raise ValueError("a row is empty")
    if not pa.types.is_fixed_size_list(column.type):
        lengths = np.diff(column.offsets)
        if len(np.unique(lengths)) > 1:
            raise ValueError("the vectors are of different lengths")
    flat = np.asarray(column.flatten())
    made_by = (table.schema.metadata or {}).get(b"encoder", b"").decode()
    return table["prompt"].to_pylist(), flat.reshape(len(table), -1), made_by


def _read_npz(path: Path) -> _Table:
    with np.load(path, allow_pickle=False) as file:
        vectors = file["vector" if "vector" in file.files else "text"]
        prompts = [str(prompt) for prompt in file["prompt"]]
        made_by = str(file["encoder"]) if "encoder" in file.files else ""
    return prompts, vectors, made_by


def _read_safetensors(path: Path) -> _Table:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            prompts = json.loads(metadata["prompts"])
            return prompts, file.get_tensor("vector"), metadata.get("encoder", "")
    except SafetensorError as error:
        raise ValueError(str(error)) from None


_READERS = {
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}
