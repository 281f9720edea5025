"""What draws: a diffusers pipeline or the embedded generator, behind one small interface.

A picture depends on its prompt and its seed alone.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._artefact import sha256
from equipoise._progress import quiet_off_terminals
from equipoise.errors import InputError, MissingExtraError, ServiceError
from equipoise.generation._conditioning import Conditioning
from equipoise.generation._mini import MiniPipeline, load_mini

MINI, HOSTED = "mini", "hosted:"


class Painter(ABC):
    """A pipeline with the settings of a run; ``pipe`` is what ``attach`` takes.

    ``id`` names it, ``revision`` its weights where it can; ``precision``: of its arithmetic, and
    where.
    """

    pipe: Any
    id: str
    revision: str = ""
    precision: str = ""

    def require_pipe(self, method: str) -> Any:
        """Return the pipeline; raise where there is none on this machine that can be edited."""
        return self.pipe

    @abstractmethod
    def paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        """Return pictures (n, height, width, 3) as bytes.

        Each is drawn from the noise of its own seed, whatever else is in the batch.
        """

    @abstractmethod
    def require(self, prompts: Sequence[str]) -> None:
        """Raise for a prompt that cannot be drawn, before long work."""

    @abstractmethod
    def conditioned_by(self, encoder: Any) -> bool:
        """Return whether this encoder's text tower is one of those that condition the pictures."""


class PartlyPaintedError(ServiceError):
    """Some pictures of a batch could not be drawn.

    painted: place in the batch -> picture. passing: whether other pictures may fare better.
    """

    def __init__(self, reason: str, painted: Mapping[int, np.ndarray], passing: bool):
        super().__init__(reason)
        self.painted: Mapping[int, np.ndarray] = painted
        self.passing: bool = passing


class DiffusersPainter(Painter):
    """Any text-to-image pipeline of diffusers. Settings that are None are the pipeline's own."""

    def __init__(
        self,
        pipe: Any,
        steps: int | None = None,
        guidance: float | None = None,
        size: int | None = None,
        name: str = "",
    ):
        self.pipe = pipe
        self.id: str = name or str(pipe.config.get("_name_or_path") or type(pipe).__name__)
        asked = {
            "num_inference_steps": steps,
            "guidance_scale": guidance,
            "height": size,
            "width": size,
        }
        self._options = {key: value for key, value in asked.items() if value is not None}
        self.revision: str = _revision(pipe)
        self.precision: str = f"{str(pipe.dtype).removeprefix('torch.')} on {pipe.device.type}"
        pipe.set_progress_bar_config(disable=True)

    def paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        if self.pipe.device.type != "cpu":
            return self._paint(prompts, seeds)
        # A batch is no quicker here, and its size would show in the pictures' last bits.
        drawn = [self._paint([prompt], [seed]) for prompt, seed in zip(prompts, seeds, strict=True)]
        return np.concatenate(drawn)

    def _paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        import torch

        # The CPU's noise is the same on every device.
        noise = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        output = self.pipe(prompt=list(prompts), generator=noise, output_type="np", **self._options)
        drawn = output[0]  # "images" of most pipelines, "image" of some
        return np.round(np.asarray(drawn) * 255).astype(np.uint8)

    def require(self, prompts: Sequence[str]) -> None:
        Conditioning(self.pipe).require_room(prompts)

    def conditioned_by(self, encoder: Any) -> bool:
        theirs = _token_embeddings(getattr(getattr(encoder, "towers", None), "module", None))
        if theirs is None:
            return False
        for name in ("text_encoder", "text_encoder_2"):
            ours = _token_embeddings(getattr(self.pipe, name, None))
            if ours is not None and _alike(ours, theirs):
                return True
        return False


class MiniPainter(Painter):
    """The embedded generator."""

    def __init__(self, pipe: MiniPipeline, steps: int | None = None, guidance: float | None = None):
        self.pipe, self.id = pipe, MINI
        parts = (getattr(part, "fingerprint", "") for part in (pipe.encoder, pipe.generator))
        self.revision: str = "-".join(part[:12] for part in parts if part)
        self.precision: str = getattr(pipe.generator, "precision", "")
        asked = {"steps": steps, "guidance": guidance}
        self._options = {key: value for key, value in asked.items() if value is not None}

    def paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        return self.pipe(list(prompts), seeds=seeds, **self._options)

    def require(self, prompts: Sequence[str]) -> None:
        towers = self.pipe.encoder.towers
        for prompt, count in zip(prompts, towers.token_counts(prompts), strict=True):
            if count > towers.max_tokens:
                raise InputError(
                    f"the prompt {prompt[:60]!r}... has {count} tokens and mini reads"
                    f" {towers.max_tokens}; shorten it"
                )

    def conditioned_by(self, encoder: Any) -> bool:
        return getattr(encoder, "fingerprint", None) == self.pipe.encoder.fingerprint


def load_painter(
    model: str,
    *,
    steps: int | None = None,
    guidance: float | None = None,
    size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    offline: bool | None = None,
    base_url: str | None = None,
) -> Painter:
    """Return a painter by name.

    model: "mini", a diffusers pipeline by its id on the hub or its folder, or "hosted:MODEL" behind
    an OpenAI-compatible server at base_url. Weights are read from safetensors files only.
    """
    if model.startswith(HOSTED):
        from equipoise.generation._hosted import hosted_painter

        unused = {"steps": steps, "guidance": guidance, "device": device, "dtype": dtype}
        return hosted_painter(model.removeprefix(HOSTED), base_url, size, unused, bool(offline))
    if model == MINI:
        for option, given in (("size", size), ("dtype", dtype)):
            if given is not None:
                raise InputError(f"the embedded generator has one {option}; leave `{option}` out")
        return MiniPainter(load_mini(device), steps, guidance)
    try:
        import torch
        import transformers
        from diffusers import DiffusionPipeline, utils  # pyright: ignore[reportPrivateImportUsage]
    except ImportError:
        raise MissingExtraError("a diffusers pipeline", "diffusers", "generation") from None
    from equipoise.encoders import _torch_towers as torch_towers

    name = os.path.expanduser(model.removeprefix("hf:"))
    device = torch_towers.pick_device(device)
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    wanted = dtype or ("float16" if device.startswith("cuda") else "float32")
    if wanted not in kinds:
        raise InputError(f"dtype={dtype!r} is not legal; pass one of {', '.join(kinds)}")
    try:
        with quiet_off_terminals(utils.logging, transformers.utils.logging):
            pipe = DiffusionPipeline.from_pretrained(
                name,
                dtype=kinds[wanted],
                local_files_only=bool(offline),
                use_safetensors=True,
                trust_remote_code=False,
            )
    except Exception as error:  # loaders of damaged folders raise whatever they like
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{name} cannot be loaded as a diffusers pipeline ({reason}); pass its id on the hub, a"
            " folder, or mini"
        ) from None
    return DiffusersPainter(pipe.to(device), steps, guidance, size, name)


def _revision(pipe: Any) -> str:
    """Return the commit of the hub that a pipeline was loaded from.

    Of another folder it is a digest of weights and settings; "" where the pipeline was not loaded.
    """
    config = getattr(getattr(pipe, "unet", None), "config", None)
    loaded = getattr(config, "_name_or_path", None) or ""
    folder = Path(loaded).parent
    if not loaded or not (folder / "model_index.json").is_file():
        return ""
    if folder.parent.name == "snapshots":  # as the hub's cache lies on the disk
        return folder.name[:12]
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".json", ".txt"):
            lines.append(f"{path.relative_to(folder)} {sha256(path)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _token_embeddings(module: Any) -> np.ndarray | None:
    """Return the table of a text encoder's token embeddings; None where there is none.

    The table tells one CLIP from another.
    """
    if not hasattr(module, "named_parameters"):
        return None
    for name, weights in module.named_parameters():
        if name.endswith("token_embedding.weight"):
            return weights.detach().cpu().float().numpy()
    return None


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two tables are the same, if not in the same precision."""
    return a.shape == b.shape and np.allclose(a, b, rtol=2.0**-7, atol=1e-3 * float(abs(b).max()))
