"""The embedded generator as a pipeline: prompts to embeddings, embeddings to small pictures.

``attach`` hooks its ``encode_prompt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.encoders import TextEncoder, load_encoder
from equipoise.errors import ArtefactError, InputError, MissingExtraError
from equipoise.generation._conditioning import Call

PART = "text"


class MiniPipeline:
    """equipoise-mini's generator and the encoder that conditions it.

    encoder: anything with ``encode_text``; generator: with ``sample``.
    """

    def __init__(self, encoder: TextEncoder, generator: Any):
        self.encoder: TextEncoder = encoder
        self.generator: Any = generator

    def encode_prompt(self, prompt: str | Sequence[str]) -> np.ndarray:
        """Return embeddings (n, d) of prompts.

        Each prompt is encoded by itself: what stands beside it in a batch would change its last
        bits.
        """
        texts = [prompt] if isinstance(prompt, str) else list(prompt)
        if not texts:
            return np.zeros((0, self.encoder.dim), np.float32)
        rows = {}
        for text in dict.fromkeys(texts):
            rows[text] = np.asarray(self.encoder.encode_text([text]))[0]
        return np.stack([rows[text] for text in texts])

    def __call__(
        self,
        prompt: str | Sequence[str] | None = None,
        *,
        seeds: Sequence[int] = (),
        prompt_embeds: np.ndarray | None = None,
        **options: Any,
    ) -> np.ndarray:
        """Return pictures (n, height, width, 3) as bytes, one per prompt (or embedding) and seed.

        options: guidance, steps.
        """
        if (prompt is None) == (prompt_embeds is None):
            raise InputError(
                "pass prompts, or embeddings in their place as prompt_embeds: one of the two"
            )
        rows = self.encode_prompt(prompt) if prompt is not None else np.asarray(prompt_embeds)
        if not isinstance(seeds, Iterable):
            raise InputError(
                f"seeds={seeds!r} is not a list; pass one seed per prompt: [{seeds!r}]"
            )
        seeds = list(seeds)
        if len(rows) != len(seeds):
            raise InputError(
                f"{len(seeds)} seeds were given for {len(rows)} prompts; pass one for each:"
                f" seeds=range({len(rows)})"
            )
        # Linear methods shorten rows, and the generator knows unit ones.
        unit = geometry.unit(np.asarray(rows, np.float64))
        return self.generator.sample(unit.astype(np.float32), list(seeds), **options)

    def conditioning(self) -> MiniConditioning:
        """Return what ``attach`` edits."""
        return MiniConditioning(self)


class MiniConditioning:
    """The embeddings of prompts as one part, without tokens.

    It is to the embedded generator what ``Conditioning`` is to diffusers.
    """

    def __init__(self, pipe: MiniPipeline):
        self.pipe: MiniPipeline = pipe
        self.original: Callable[[str | Sequence[str]], np.ndarray] = pipe.encode_prompt
        self.encode: Callable[[str | Sequence[str]], np.ndarray] = pipe.encode_prompt
        self.usual: dict[str, Any] = {}
        self.id: str = str(getattr(pipe.encoder, "id", "mini"))

    @property
    def parts(self) -> dict[str, int]:
        """Return part -> width."""
        return {PART: self.pipe.encoder.dim}

    def install(self) -> None:
        """Do nothing: no encoder needs a guard."""

    def remove(self) -> None:
        """Do nothing: nothing was put on."""

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return name -> value of a call's arguments."""
        return {"prompt": kwargs.get("prompt", args[0] if args else None)}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """Return the prompts of a call."""
        prompt = self.given(args, kwargs)["prompt"]
        return Call({PART: [prompt] if isinstance(prompt, str) else list(prompt or ())})

    def states(self, texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the embeddings of texts."""
        return {PART: self.encode(texts)}

    def edit(
        self, output: np.ndarray, call: Call, tokens: str, apply: Callable[[str, Any, str], Any]
    ) -> np.ndarray:
        """Return the embeddings, edited."""
        rows = output.copy()
        for i, prompt in enumerate((call.prompts or {})[PART]):
            if (edited := apply(PART, rows[i : i + 1], prompt)) is not None:
                rows[i : i + 1] = edited
        return rows


def load_mini(device: str | None = None) -> MiniPipeline:
    """Return the installed generator, on onnxruntime.

    With a device of torch, such as "cuda", it runs there and in half precision.
    """
    try:
        import equipoise_mini
    except ImportError:
        raise MissingExtraError("the embedded generator", "equipoise-mini", "mini") from None
    generator = getattr(equipoise_mini, "generator", None)
    if generator is None:
        raise InputError(
            "the installed equipoise-mini has no generator; type: pip install -U equipoise-mini, or"
            " name a diffusers pipeline with `pipeline`"
        )
    options = {} if device in (None, "cpu") else {"device": _present(device)}
    try:
        drawing = generator(**options)
    except FileNotFoundError as error:
        raise InputError(str(error)) from None
    except ValueError as error:
        raise ArtefactError(str(error)) from None
    return MiniPipeline(load_encoder("mini"), drawing)


def _present(device: str) -> str:
    try:
        from equipoise.encoders._torch_towers import pick_device
    except ImportError:
        raise MissingExtraError(f"the embedded generator on {device}", "torch", "torch") from None
    return pick_device(device)
