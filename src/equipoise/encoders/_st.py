"""``st:`` a sentence-transformers model, for texts alone or for texts and images."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.encoders._not_loaded import cannot_load
from equipoise.encoders._towers import Modality, Towers, digest_of, plain_settings
from equipoise.errors import InputError, MissingExtraError

try:
    import sentence_transformers
    import torch

    from equipoise.encoders._torch_towers import (
        RUNTIME,
        float_arrays,
        in_torch_one_by_one,
        pick_device,
        pick_precision,
        structure,
        tokenizer_settings,
    )
except ImportError as error:
    raise MissingExtraError(
        "an st: encoder", "sentence-transformers", "sentence-transformers"
    ) from error

SAFE = 6  # older ones import Python files of a model folder, whatever trust_remote_code says
KNOWN = (
    "sentence-transformers/clip-ViT-B-32",
    "sentence-transformers/clip-ViT-L-14",
    "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2",
)


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> SentenceTowers:
    """Load a model by its hub id or from a folder."""
    _require_safe()
    place = pick_device(device)
    try:
        model = sentence_transformers.SentenceTransformer(
            name,
            device=place,
            revision=revision,
            local_files_only=offline or Path(name).is_dir(),
            trust_remote_code=False,
        )
    except Exception as error:  # loaders of damaged files raise whatever they like
        raise cannot_load("st", name, KNOWN, error) from error
    precision = pick_precision(dtype, place)
    return SentenceTowers(name, revision or "", model.float().eval(), place, precision)


def _require_safe() -> None:
    major = int(sentence_transformers.__version__.split(".")[0])
    if major < SAFE:
        raise MissingExtraError(
            "an st: encoder", f"sentence-transformers {SAFE}.0 or newer", "sentence-transformers"
        )


class SentenceTowers(Towers):
    """A sentence-transformers model; it prepares texts and images by itself."""

    def __init__(self, name: str, revision: str, model: Any, device: str, precision: str):
        self.id, self.revision, self.model = f"st:{name}", revision, model
        self.device, self.precision = device, precision
        self.runtime, self.repeatable = RUNTIME, device == "cpu"
        self.model.preprocess = _one_at_a_time(self.model.preprocess)
        self.modalities: tuple[Modality, ...] = ("text",)
        if "image" in model.modalities:
            self.modalities = ("text", "image")
        if "text" not in model.modalities:
            raise InputError(
                f"st:{name} has no text tower; equipoise needs one to know what an attribute is"
            )
        self.dim = int(model.get_embedding_dimension() or self._encode(["a"]).shape[1])
        self.max_tokens = model.max_seq_length or 0
        tokenizer = getattr(model, "tokenizer", None)
        self.tokenizer: Any = getattr(tokenizer, "tokenizer", tokenizer)  # a processor holds one

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        if hasattr(self.tokenizer, "encode_batch"):  # a bare one of the tokenizers library
            return [len(encoding) for encoding in self.tokenizer.encode_batch(list(texts))]
        tokens = self.tokenizer(list(texts), truncation=False, verbose=False)
        return [len(ids) for ids in tokens["input_ids"]]

    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(list(texts))

    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        return self._encode([Image.fromarray(picture) for picture in pixels])

    def _encode(self, items: list[Any]) -> np.ndarray:
        if not self.repeatable:
            return self._encode_batch(items)
        return in_torch_one_by_one(lambda item: self._encode_batch([item]), items)

    def _encode_batch(self, items: list[Any]) -> np.ndarray:
        half = self.precision == "bfloat16"
        with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=half):
            return self.model.encode(
                items, batch_size=len(items), show_progress_bar=False, convert_to_numpy=True
            )

    def digest(self) -> str:
        modules = []
        processors = []
        for module in self.model:
            modules.append([*structure(module), _config(module)])
            processor: Any = getattr(module, "processor", None)
            if hasattr(processor, "to_dict"):
                processors.append(plain_settings(processor.to_dict()))
        settings = {
            "modules": modules,
            "processors": processors,
            "prompts": [self.model.prompts, self.model.default_prompt_name],
            "tokenizer": tokenizer_settings(self.tokenizer),
            "max_tokens": self.max_tokens,
        }
        return digest_of(float_arrays(self.model), settings)


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind a lock: a tokenizer serves one thread at a time."""
    lock = threading.Lock()

    def locked(*args: Any, **options: Any) -> Any:
        with lock:
            return function(*args, **options)

    return locked


def _config(module: Any) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if hasattr(module, "get_config_dict"):
        own = module.get_config_dict()
    model: dict[str, Any] = {}
    config = getattr(getattr(module, "model", None), "config", None)
    if config is not None:  # that of the transformers model inside
        model = config.to_dict()
    return plain_settings({"own": own, "model": model})
