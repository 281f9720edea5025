"""``hf:`` a transformers model with both towers, from the hub or a folder.

CLIP, SigLIP, BLIP's retrieval models, ALIGN, Chinese-CLIP and others. From transformers 5 on,
``get_text_features`` returns an object whose ``pooler_output`` is the projected feature.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise._progress import quiet_off_terminals
from equipoise.encoders._not_loaded import cannot_load
from equipoise.encoders._preprocess import Preprocess
from equipoise.encoders._towers import TextTower, plain_settings
from equipoise.errors import InputError, MissingExtraError

try:
    import torch
    import transformers

    from equipoise.encoders._torch_towers import FeatureModule, TorchTowers, tokenizer_settings
except ImportError as error:
    raise MissingExtraError("an hf: encoder", "transformers with torch", "transformers") from error

KNOWN = (
    "openai/clip-vit-base-patch32",
    "openai/clip-vit-base-patch16",
    "openai/clip-vit-large-patch14",
    "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
    "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
    "google/siglip-base-patch16-224",
    "google/siglip-so400m-patch14-384",
    "google/siglip2-base-patch16-224",
    "google/siglip2-base-patch16-naflex",
    "Salesforce/blip-itm-base-coco",
    "Salesforce/blip2-itm-vit-g",
    "kakaobrain/align-base",
    "OFA-Sys/chinese-clip-vit-base-patch16",
)
# Weights of scores and of other heads, which encoding does not need.
UNUSED = (
    "itm_head",
    "logit_scale",
    "logit_bias",
    "position_ids",
    "temperature",
)
PAD_TO_THE_END = ("siglip", "siglip2")  # trained without an attention mask


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> HFTowers:
    """Load a model by its hub id or from a folder."""
    where: dict[str, Any] = {}
    if not Path(name).is_dir():
        where = {"revision": revision, "local_files_only": offline}
    try:
        with quiet_off_terminals(transformers.utils.logging):
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False, **where)
            model, info = _model_class(config).from_pretrained(
                name,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                trust_remote_code=False,
                **where,
            )
            _check_whole(name, info)
            problem = _missing_tower(model)
            if problem is not None:
                raise InputError(
                    f"hf:{name} is {type(model).__name__}, which {problem}; for texts alone use"
                    f" st:{name}"
                )
            # The same pixels whether or not torchvision is installed.
            processor = transformers.AutoImageProcessor.from_pretrained(
                name, backend="pil", trust_remote_code=False, **where
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                name, trust_remote_code=False, **where
            )
    except InputError:
        raise
    except Exception as error:  # loaders of damaged files raise whatever they like
        raise cannot_load("hf", name, KNOWN, error) from error
    if tokenizer.pad_token is None:
        raise InputError(
            f"hf:{name} has a tokenizer without a padding token, so texts cannot be batched; set"
            " one and save it again"
        )
    commit = getattr(config, "_commit_hash", None) or ""
    return HFTowers(name, commit, model, processor, tokenizer, device, dtype)


class HFTowers(TorchTowers):
    """A transformers model, its image processor and its tokenizer."""

    def __init__(
        self,
        name: str,
        revision: str,
        model: Any,
        processor: Any,
        tokenizer: Any,
        device: str | None,
        dtype: str | None,
    ):
        preprocess = _preprocess(processor)
        super().__init__(_module(model, preprocess), device, dtype)
        self.id, self.revision = f"hf:{name}", revision
        self.processor, self.tokenizer, self.config = processor, tokenizer, model.config
        self.max_tokens = _max_tokens(model.config, tokenizer)
        self.padding = "max_length" if model.config.model_type in PAD_TO_THE_END else True
        with torch.inference_mode():
            inputs = {key: value.to(self.device) for key, value in self.tokenize(["a"]).items()}
            self.dim = self.module.encode_text(**inputs).shape[-1]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        # Texts longer than the model reads are what we count: the tokenizer need not warn of them.
        tokens = self.tokenizer(list(texts), truncation=False, verbose=False)
        return [len(ids) for ids in tokens["input_ids"]]

    def tokenize(self, texts: Sequence[str], room: int = 0) -> dict[str, torch.Tensor]:
        length = self.max_tokens - room
        tokens = self.tokenizer(
            list(texts),
            padding=self.padding,
            truncation=True,
            max_length=length,
            return_attention_mask=True,
            return_tensors="pt",
        )
        return {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}

    def text_tower(self) -> TextTower:
        if self.config.model_type != "clip":
            return super().text_tower()
        return CLIPTextTower(self)

    def image_inputs(self, pixels: Any) -> dict[str, torch.Tensor]:
        if self.preprocess is not None:
            return super().image_inputs(pixels)
        return dict(self.processor(images=list(pixels), return_tensors="pt"))

    def settings(self) -> dict[str, Any]:
        if self.preprocess:
            preprocess = self.preprocess.to_json()
        else:
            preprocess = plain_settings(self.processor.to_dict())
        return {
            "config": plain_settings(self.config.to_dict()),
            "preprocess": preprocess,
            "tokenizer": tokenizer_settings(self.tokenizer),
            "max_tokens": self.max_tokens,
            "padding": self.padding,
        }


class CLIPTextTower:
    """CLIP's text tower with a prefix.

    The model itself does all but the first layer: it pools at the end of the text, wherever that
    is.
    """

    def __init__(self, towers: HFTowers):
        self.towers, self.device = towers, towers.device
        self.model: Any = towers.module.model

    def tokenize(self, texts: Sequence[str], room: int) -> dict[str, torch.Tensor]:
        return {
            name: tensor.to(self.device)
            for name, tensor in self.towers.tokenize(texts, room).items()
        }

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model.text_model.embeddings.token_embedding(ids)

    def features(self, tokens: dict[str, torch.Tensor], prefix: torch.Tensor) -> torch.Tensor:
        ids, mask, room = tokens["input_ids"], tokens["attention_mask"], len(prefix)
        first = ids[:, :1].expand(-1, room)  # any token but the one that ends a text
        places = torch.arange(ids.shape[1], device=ids.device)
        inputs = {
            "input_ids": torch.cat([first, ids], 1),
            "attention_mask": torch.cat([torch.ones_like(first), mask], 1),
            "position_ids": torch.cat([places.new_zeros(room), places])[None],
        }
        caller = threading.get_ident()

        def put_before(module: Any, args: Any, embedded: torch.Tensor) -> torch.Tensor | None:
            if threading.get_ident() != caller:
                return None  # another thread encodes plain texts meanwhile
            return torch.cat([prefix.expand(len(embedded), -1, -1), embedded[:, room:]], 1)

        hook = self.model.text_model.embeddings.register_forward_hook(put_before)
        try:
            return _projected(self.model.get_text_features(**inputs))
        finally:
            hook.remove()


class _Features(FeatureModule):
    """Models with ``get_image_features`` and ``get_text_features``."""

    def __init__(self, model: Any, preprocess: Preprocess | None):
        super().__init__()
        self.model, self.preprocess = model, preprocess
        self.masked = model.config.model_type not in PAD_TO_THE_END

    def image_features(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        return _projected(self.model.get_image_features(pixel_values=pixel_values, **inputs))

    def text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        inputs = {"input_ids": input_ids}
        if self.masked:
            inputs["attention_mask"] = attention_mask
        return _projected(self.model.get_text_features(**inputs))


class _Blip(FeatureModule):
    """The contrastive (ITC) head of BLIP's retrieval model."""

    def __init__(self, model: Any, preprocess: Preprocess | None):
        super().__init__()
        self.model, self.preprocess = model, preprocess

    def image_features(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.model.vision_model(pixel_values=pixel_values).last_hidden_state
        return self.model.vision_proj(hidden[:, 0])

    def text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.model.text_encoder(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        return self.model.text_proj(hidden[:, 0])


class _Blip2(FeatureModule):
    """BLIP-2, which gives one vector per query token for each image; a row is their mean.

    The model's own score is the largest over the query tokens.
    """

    def __init__(self, model: Any, preprocess: Preprocess | None):
        super().__init__()
        self.model, self.preprocess = model, preprocess

    def image_features(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        return self.query_features(pixel_values).mean(1)

    def query_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return unit vectors (n, queries, dim), as the model compares them."""
        seen = self.model.vision_model(pixel_values=pixel_values).last_hidden_state
        queries = self.model.query_tokens.expand(seen.shape[0], -1, -1)
        hidden = self.model.qformer(
            query_embeds=queries, encoder_hidden_states=seen
        ).last_hidden_state
        return torch.nn.functional.normalize(self.model.vision_projection(hidden), dim=-1)

    def text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        words = self.model.embeddings(input_ids=input_ids)
        hidden = self.model.qformer(
            query_embeds=words, query_length=0, attention_mask=attention_mask
        ).last_hidden_state
        return self.model.text_projection(hidden[:, 0])


# For these, AutoModel would find other heads.
RETRIEVAL = {
    "blip": ("BlipForImageTextRetrieval", _Blip),
    "blip-2": ("Blip2ForImageTextRetrieval", _Blip2),
}


def _module(model: Any, preprocess: Preprocess | None) -> FeatureModule:
    _, module = RETRIEVAL.get(model.config.model_type, (None, _Features))
    return module(model, preprocess)


def _model_class(config: Any) -> Any:
    name, _ = RETRIEVAL.get(config.model_type, ("AutoModel", None))
    return getattr(transformers, name)


def _check_whole(name: str, info: dict[str, Any]) -> None:
    """Raise for a checkpoint that lacks weights: they would be random, and so would every row."""
    missing = sorted(key for key in info["missing_keys"] if not _is_unused(key))
    if missing:
        raise InputError(
            f"hf:{name} lacks {len(missing)} weights that encoding needs, such as {missing[0]};"
            " pass a checkpoint with both towers and their projections (for BLIP, one trained for"
            " image-text retrieval)"
        )


def _is_unused(key: str) -> bool:
    return any(part in key for part in UNUSED)


def _missing_tower(model: Any) -> str | None:
    if model.config.model_type in RETRIEVAL:
        return None
    for side in ("image", "text"):
        if not hasattr(model, f"get_{side}_features"):
            return f"has no {side} tower"
    return None


def _projected(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def _max_tokens(config: Any, tokenizer: Any) -> int:
    # BLIP-2 reads texts in its Q-Former.
    text = getattr(config, "qformer_config", None) or getattr(config, "text_config", None) or config
    positions = getattr(text, "max_position_embeddings", None) or tokenizer.model_max_length
    return min(positions, tokenizer.model_max_length)


def _preprocess(processor: Any) -> Preprocess | None:
    """Return the processor's steps as a ``Preprocess`` that gives the same pixels.

    None where no ``Preprocess`` does; the processor itself then runs, in this process.
    """
    try:
        preprocess = _guess(processor.to_dict())
    except (KeyError, TypeError, ValueError):
        return None
    rng = np.random.default_rng(0)
    for height, width in ((41, 67), (150, 101)):
        picture = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        expected = processor(images=picture, return_tensors="np").get("pixel_values")
        ours = preprocess.normalise(preprocess(Image.fromarray(picture))[None])
        if np.shape(expected) != ours.shape:
            return None
        # One step of a byte is 1e-2 or more.
        if not np.allclose(expected, ours, rtol=0, atol=1e-5):
            return None
    return preprocess


def _guess(settings: dict[str, Any]) -> Preprocess:
    size = settings["size"]
    target = size
    if settings.get("do_center_crop"):
        target = settings.get("crop_size") or size
    mean, std = np.full(3, 0), np.full(3, 1)
    if settings["do_normalize"]:
        mean, std = np.array(settings["image_mean"]), np.array(settings["image_std"])
    if settings.get("rescale_offset"):
        mean = mean + 1
    if settings.get("include_top"):  # EfficientNet's, which ALIGN has: divided twice
        std = std * std
    return Preprocess(
        size=(int(target["height"]), int(target["width"])),
        resize=int(size["shortest_edge"]) if size.get("shortest_edge") else None,
        resample=int(settings["resample"]),
        scale=float(settings["rescale_factor"]) if settings["do_rescale"] else 1.0,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
    )
