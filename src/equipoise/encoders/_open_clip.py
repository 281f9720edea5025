"""``open_clip:NAME/WEIGHTS``, such as ``open_clip:RN50/openai``, or a folder that open_clip saved.

WEIGHTS is a tag or a checkpoint file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from equipoise.encoders._not_loaded import cannot_load
from equipoise.encoders._preprocess import Preprocess
from equipoise.encoders._towers import digest_of_vocabulary
from equipoise.errors import InputError, MissingExtraError

try:
    import open_clip
    import torch

    from equipoise.encoders._torch_towers import (
        FeatureModule,
        TorchTowers,
        structure,
        tokenizer_settings,
    )
except ImportError as error:
    raise MissingExtraError("an open_clip: encoder", "open_clip with torch", "open-clip") from error

RESAMPLE = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> OpenCLIPTowers:
    """Load a model by NAME/WEIGHTS, or from a folder."""
    if revision is not None:
        raise InputError(
            f"open_clip has no revisions, and revision={revision!r} was given; the WEIGHTS tag says"
            " which weights"
        )
    known = [f"{model}/{tag}" for model, tag in open_clip.list_pretrained()]
    if Path(name).is_dir():
        model_name, options = f"local-dir:{name}", {}
    else:
        model_name, _, weights = name.partition("/")
        if not weights:
            raise InputError(
                f"open_clip:{name} does not name weights; pass open_clip:NAME/WEIGHTS, such as"
                " open_clip:RN50/openai"
            )
        # The tag, not the model's name, tells the activation that the weights were trained with.
        tag = open_clip.get_pretrained_cfg(model_name, weights)
        if not tag and not Path(weights).is_file():
            raise cannot_load("open_clip", name, known, LookupError("no such model, tag or file"))
        options = {
            "pretrained": weights,
            "force_quick_gelu": bool(tag.get("quick_gelu")),
            "require_pretrained": True,
        }
    try:
        with _offline(offline), _unasked():
            model = open_clip.create_model(model_name, weights_only=True, **options)
            tokenizer = open_clip.get_tokenizer(model_name)
    except Exception as error:  # loaders of damaged files raise whatever they like
        raise cannot_load("open_clip", name, known, error) from error
    return OpenCLIPTowers(name, model, tokenizer, device, dtype)


class OpenCLIPTowers(TorchTowers):
    """An open_clip model and its tokenizer."""

    def __init__(
        self, name: str, model: Any, tokenizer: Any, device: str | None, dtype: str | None
    ):
        super().__init__(_Module(model), device, dtype)
        self.id, self.tokenizer = f"open_clip:{name}", tokenizer
        self.max_tokens = tokenizer.context_length
        inputs = {name: tensor.to(self.device) for name, tensor in self.tokenize(["a"]).items()}
        self.dim = self.module.encode_text(**inputs).shape[-1]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        if hasattr(self.tokenizer, "encode"):
            # Two more tokens mark the start and the end.
            return [len(self.tokenizer.encode(text)) + 2 for text in texts]
        tokens = self.tokenizer.tokenizer(list(texts), verbose=False)
        return [len(ids) for ids in tokens["input_ids"]]

    def tokenize(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        tokens = self.tokenizer(list(texts))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

    def settings(self) -> dict[str, Any]:
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            words = digest_of_vocabulary(self.tokenizer.encoder)
        else:
            words = tokenizer_settings(inner)
        preprocess = self.preprocess.to_json() if self.preprocess else None
        return {
            "structure": structure(self.module),
            "preprocess": preprocess,
            "tokenizer": words,
            "max_tokens": self.max_tokens,
        }


class _Module(FeatureModule):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.preprocess = _preprocess(open_clip.get_model_preprocess_cfg(model))

    def image_features(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        return self.model.encode_image(pixel_values)

    def text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model.encode_text(input_ids)  # it finds the end of a text by itself


def _preprocess(config: dict[str, Any]) -> Preprocess:
    size = config["size"]
    size = (size, size) if isinstance(size, int) else tuple(size)
    mode = config["resize_mode"]
    if mode == "longest" or (mode == "shortest" and size[0] != size[1]):
        raise InputError(
            f"this open_clip model resizes by its {mode} edge to {size}, which equipoise does not"
            " do; use it through hf: or onnx:"
        )
    return Preprocess(
        size=size,
        resize=size[0] if mode == "shortest" else None,
        resample=int(RESAMPLE[config["interpolation"]]),
        half_up=True,
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


@contextmanager
def _unasked() -> Iterator[None]:
    """Have transformers refuse the code of a folder, where it would ask at the terminal.

    open_clip loads some text towers through transformers, and passes no trust_remote_code.
    """
    try:
        from transformers import dynamic_module_utils as modules
    except ImportError:
        yield
        return
    before, modules.TIME_OUT_REMOTE_CODE = modules.TIME_OUT_REMOTE_CODE, 0
    try:
        yield
    finally:
        modules.TIME_OUT_REMOTE_CODE = before


class _offline:
    """A context in which huggingface_hub, through which open_clip downloads, stays offline."""

    def __init__(self, offline: bool):
        self.offline = offline

    def __enter__(self) -> None:
        from huggingface_hub import constants

        self.before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = self.before or self.offline

    def __exit__(self, *_: Any) -> None:
        from huggingface_hub import constants

        constants.HF_HUB_OFFLINE = self.before
