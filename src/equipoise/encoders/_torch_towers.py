"""Towers that are a torch module: device, precision, pixels to tensors.

The adapters of transformers and open_clip build on it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from equipoise.encoders._passes import one_by_one
from equipoise.encoders._preprocess import Preprocess
from equipoise.encoders._towers import Towers, digest_of, digest_of_vocabulary
from equipoise.errors import InputError

RUNTIME = f"torch {torch.__version__}"
PRECISIONS = ("float32", "bfloat16")


class TorchModule(nn.Module, ABC):
    """A torch module that gives unit embeddings, gradients included."""

    preprocess: Preprocess | None = None

    @abstractmethod
    def encode_image(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """Return unit rows (n, dim) of normalised pixels (n, 3, height, width).

        Bytes (n, height, width, 3) are legal too.
        """

    @abstractmethod
    def encode_text(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return unit rows (n, dim) of tokens (n, length)."""

    def forward(
        self, pixel_values: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the rows of the images and the rows of the texts."""
        return self.encode_image(pixel_values), self.encode_text(input_ids, attention_mask)


class FeatureModule(TorchModule):
    """A module that makes unit rows of features; adapters say how their model gives features."""

    @abstractmethod
    def image_features(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """Return features (n, dim) of normalised pixels (n, 3, height, width)."""

    @abstractmethod
    def text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return features (n, dim) of tokens (n, length)."""

    def encode_image(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        if pixel_values.dtype == torch.uint8 and self.preprocess is not None:
            device = pixel_values.device
            factor, offset = self.preprocess.affine
            factor, offset = (
                torch.from_numpy(factor).to(device),
                torch.from_numpy(offset).to(device),
            )
            pixel_values = (pixel_values * factor + offset).permute(0, 3, 1, 2)
        return _unit(self.image_features(pixel_values, **inputs))

    def encode_text(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return _unit(self.text_features(input_ids, attention_mask))


class TorchTowers(Towers):
    """Towers that run a ``TorchModule`` on a device.

    Adapters give ``tokenize`` and the settings that belong in the fingerprint.
    """

    def __init__(self, module: TorchModule, device: str | None, dtype: str | None):
        self.device = pick_device(device)
        self.precision = pick_precision(dtype, self.device)
        self.runtime, self.repeatable = RUNTIME, self.device == "cpu"
        self.module = module.float().eval().requires_grad_(False).to(self.device)
        self.preprocess = module.preprocess

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask, cut and padded as the model wants them."""

    def image_inputs(self, pixels: Any) -> dict[str, torch.Tensor]:
        """Return what the module's ``encode_image`` takes."""
        return {"pixel_values": torch.from_numpy(pixels)}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what else the embeddings depend on, as JSON."""

    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        encode = self.module.encode_text
        if not self.repeatable:
            return self._run(encode, self.tokenize(texts))
        tokens = [self.tokenize([text]) for text in texts]  # tokenizers are not for many threads
        return in_torch_one_by_one(lambda inputs: self._run(encode, inputs), tokens)

    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        encode = self.module.encode_image
        if not self.repeatable:
            return self._run(encode, self.image_inputs(pixels))
        alone = [pixels[i : i + 1] for i in range(len(pixels))]
        return in_torch_one_by_one(lambda one: self._run(encode, self.image_inputs(one)), alone)

    def _run(self, function: Any, inputs: dict[str, torch.Tensor]) -> np.ndarray:
        half = self.precision == "bfloat16"
        with (
            torch.inference_mode(),
            torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=half),
        ):
            placed = {name: tensor.to(self.device) for name, tensor in inputs.items()}
            rows = function(**placed)
        return rows.float().cpu().numpy()

    def digest(self) -> str:
        return digest_of(float_arrays(self.module), self.settings())


def in_torch_one_by_one(function: Callable[[Any], np.ndarray], items: Sequence[Any]) -> np.ndarray:
    """Return the rows of items, each from a pass of its own on one of torch's threads."""
    before = torch.get_num_threads()
    try:
        return one_by_one(function, items, begin=lambda: torch.set_num_threads(1))
    finally:
        torch.set_num_threads(before)  # for new threads; running ones keep their own number


def devices() -> list[str]:
    """Return the kinds of device of this machine, the fastest first."""
    mps = getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available()
    return ["cuda"] * torch.cuda.is_available() + ["mps"] * mps + ["cpu"]


def pick_device(device: str | None) -> str:
    """Return the device asked for; if none was, the first of CUDA, MPS and CPU that exists here."""
    here = devices()
    if device is None:
        return here[0]
    if str(device).split(":")[0] not in here:
        raise InputError(f"device={device!r} is not on this machine; pass one of {', '.join(here)}")
    return str(device)


def pick_precision(dtype: str | None, device: str) -> str:
    """Return the legal name of ``dtype``; for None, bfloat16 where the device computes it natively.

    float32 otherwise: float16 overflows in too many models.
    """
    if dtype is None:
        if device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False):
            return "bfloat16"
        return "float32"
    name = str(dtype).removeprefix("torch.")
    if name not in PRECISIONS:
        raise InputError(f"dtype={dtype!r} is not legal; pass {' or '.join(PRECISIONS)}")
    return name


def _unit(rows: torch.Tensor) -> torch.Tensor:
    rows = rows.float()
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True)


def float_arrays(module: nn.Module) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights by name, as float32 arrays.

    Integers are positions, and come and go with versions.
    """
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            yield name, tensor.detach().float().cpu().numpy()


def structure(module: nn.Module) -> list[str]:
    """Return what a module is made of beyond its weights: layers, activations, attention heads."""
    parts = [repr(module)]
    for part in module.modules():
        heads = getattr(part, "num_heads", None)
        if isinstance(heads, int):
            parts.append(str(heads))
    return parts


def tokenizer_settings(tokenizer: Any) -> dict[str, Any]:
    """Return what decides how a text becomes tokens, but for the length and padding of a call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not backend and hasattr(tokenizer, "to_str"):
        backend = tokenizer
    settings = {}
    for name in ("padding_side", "truncation_side", "do_lower_case"):
        settings[name] = getattr(tokenizer, name, None)
    if backend is None:
        settings["vocabulary"] = digest_of_vocabulary(tokenizer.get_vocab())
        return settings
    for key, value in json.loads(backend.to_str()).items():
        if key not in ("truncation", "padding"):
            settings[key] = value
    return settings


class WrappedModule(TorchModule):
    """A module whose unit rows pass through an operator."""

    def __init__(self, module: TorchModule, operator: Any):
        super().__init__()
        self.inner, self.operator = module, operator
        self.preprocess = module.preprocess

    def encode_image(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        return self.operator.image(self.inner.encode_image(pixel_values, **inputs))

    def encode_text(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.operator.text(self.inner.encode_text(input_ids, attention_mask))
