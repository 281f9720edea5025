"""The conditioning of a diffusers pipeline: what ``encode_prompt`` returns, part by part.

A part is what one text encoder gives: ``text_encoder`` and ``text_encoder_2`` are slices of
``prompt_embeds`` (n, tokens, width), and ``pooled`` is ``pooled_prompt_embeds`` (n, width), which
is the second encoder's projection and so a space of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from equipoise._progress import progress
from equipoise.errors import InputError

Tokens = Literal["after-sos", "unpadded"]
TOKENS = ("after-sos", "unpadded")
POOLED = "pooled"
FAMILY = "clip_text_model"
_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")
_BATCH = 64

Apply = Callable[[str, Any, str], Any]
"""(part, states (k, width), prompt) -> edited states, or None to leave them."""


class Call(NamedTuple):
    """A call of ``encode_prompt``.

    prompts: part -> the prompt of each row; None where embeddings were passed in their place.
    """

    prompts: Mapping[str, Sequence[str]] | None
    copies: int = 1
    options: Mapping[str, Any] = {}


class PipelineEncoder(NamedTuple):
    """A text encoder of the pipeline."""

    name: str
    tokenizer: Any
    width: int


class Conditioning:
    """The conditioning of a pipeline whose text encoders are all CLIP's.

    Such are Stable Diffusion 1.x, 2.x and XL, and what is built like them.
    """

    def __init__(self, pipe: Any):
        self.pipe = pipe
        self.encoders: tuple[PipelineEncoder, ...] = _encoders(pipe)
        self.encode: Callable[..., Any] = pipe.encode_prompt
        self._signature = inspect.signature(pipe.encode_prompt)
        self._has_pooled = "pooled_prompt_embeds" in self._signature.parameters

    @property
    def id(self) -> str:
        """Return the pipeline's name."""
        config = getattr(self.pipe, "config", {})
        return str(config.get("_name_or_path") or type(self.pipe).__name__)

    @property
    def parts(self) -> dict[str, int]:
        """Return part -> width."""
        widths = {encoder.name: encoder.width for encoder in self.encoders}
        if self._has_pooled:
            last = getattr(self.pipe, self.encoders[-1].name)
            widths[POOLED] = last.config.projection_dim
        return widths

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return what a call asks for."""
        given = self._signature.bind(*args, **kwargs).arguments
        options = {
            name: given[name] for name in ("clip_skip", "lora_scale") if given.get(name) is not None
        }
        copies = given.get("num_images_per_prompt", 1)
        if given.get("prompt_embeds") is not None or given.get("prompt") is None:
            return Call(None, copies, options)
        first = _listed(given["prompt"])
        second = _listed(given.get("prompt_2") or given["prompt"])
        prompts = {}
        for encoder in self.encoders:
            prompts[encoder.name] = second if encoder.name == "text_encoder_2" else first
            self._require_room(encoder, prompts[encoder.name])
        if self._has_pooled and given.get("pooled_prompt_embeds") is None:
            prompts[POOLED] = prompts[self.encoders[-1].name]
        return Call(prompts, copies, options)

    def require_room(self, texts: Sequence[str]) -> None:
        """Raise for a text that does not fit every encoder's window."""
        for encoder in self.encoders:
            self._require_room(encoder, texts)

    def states(self, texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return part -> the states (n, width) by which texts are fitted.

        They are the states of each text's end token, which has seen the whole text as the pipeline
        sees it.
        """
        import torch

        found: dict[str, list[Any]] = {name: [] for name in self.parts}
        with progress("texts", len(texts)) as advance:
            for start in range(0, len(texts), _BATCH):
                batch = list(texts[start : start + _BATCH])
                self.require_room(batch)
                with torch.no_grad():
                    embeds, pooled = self._encode(batch, options)
                at = 0
                for encoder in self.encoders:
                    each = torch.arange(len(batch), device=embeds.device)
                    ends = self._ends(encoder, batch).to(embeds.device)
                    found[encoder.name].append(embeds[each, ends, at : at + encoder.width])
                    at += encoder.width
                if pooled is not None:
                    found[POOLED].append(pooled)
                advance(len(batch))
        return {name: torch.cat(rows) for name, rows in found.items()}

    def edit(
        self, output: tuple[Any, ...], call: Call, tokens: str, apply: Apply
    ) -> tuple[Any, ...]:
        """Return the output of ``encode_prompt`` with the states of every prompt edited.

        The start token and the negative branch stay as they are.
        """
        if call.prompts is None:
            return output
        embeds = output[0].clone()
        at = 0
        for encoder in self.encoders:
            prompts = call.prompts[encoder.name]
            ends = self._ends(encoder, prompts) + 1
            for i, prompt in enumerate(prompts):
                stop = None if tokens == "after-sos" else int(ends[i])
                place = slice(1, stop), slice(at, at + encoder.width)
                _write(embeds, i, call.copies, place, apply, encoder.name, prompt)
            at += encoder.width
        if POOLED not in call.prompts:
            return (embeds, *output[1:])
        pooled = output[2].clone()[:, None]
        for i, prompt in enumerate(call.prompts[POOLED]):
            _write(pooled, i, call.copies, (slice(None), slice(None)), apply, POOLED, prompt)
        return (embeds, output[1], pooled[:, 0], *output[3:])

    def _encode(self, texts: list[str], options: Mapping[str, Any]) -> tuple[Any, Any]:
        fixed = {
            "device": self.pipe._execution_device,
            "num_images_per_prompt": 1,
            "do_classifier_free_guidance": False,
        }
        output = self.encode(prompt=texts, **fixed, **options)
        pooled = output[2] if self._has_pooled else None
        return output[0], pooled

    def _ids(self, encoder: PipelineEncoder, texts: Sequence[str], **options: Any) -> Any:
        texts = list(texts)
        # With textual inversion, one word may be several tokens.
        if hasattr(self.pipe, "maybe_convert_prompt"):
            texts = self.pipe.maybe_convert_prompt(texts, encoder.tokenizer)
        most = encoder.tokenizer.model_max_length
        return encoder.tokenizer(texts, max_length=most, **options).input_ids

    def _ends(self, encoder: PipelineEncoder, texts: Sequence[str]) -> Any:
        """Return the place of each text's end token."""
        ids = self._ids(encoder, texts, padding="max_length", truncation=True, return_tensors="pt")
        return (ids == encoder.tokenizer.eos_token_id).int().argmax(1)

    def _require_room(self, encoder: PipelineEncoder, texts: Sequence[str]) -> None:
        most = encoder.tokenizer.model_max_length
        each = self._ids(encoder, texts, truncation=False, verbose=False)
        for text, ids in zip(texts, each, strict=True):
            if len(ids) > most:
                raise InputError(
                    f"the prompt {text[:60]!r}... has {len(ids)} tokens and {encoder.name} of this"
                    f" pipeline reads {most}, start and end token included; shorten it: what is cut"
                    " off would be neither drawn nor gated"
                )


def _encoders(pipe: Any) -> tuple[PipelineEncoder, ...]:
    """Return the pipeline's text encoders; raise unless they are all CLIP's."""
    found, kinds = {}, {}
    for name in _ENCODERS:
        encoder = getattr(pipe, name, None)
        if encoder is not None:
            found[name] = encoder
            config = getattr(encoder, "config", None)
            kinds[name] = getattr(config, "model_type", type(encoder).__name__)
    _require_clip(pipe, kinds)
    encoders = []
    for name, encoder in found.items():
        tokenizer = getattr(pipe, name.replace("text_encoder", "tokenizer"), None)
        if tokenizer is None:
            raise InputError(
                f"{type(pipe).__name__} has no tokenizer for {name}; load the pipeline whole"
            )
        encoders.append(PipelineEncoder(name, tokenizer, encoder.config.hidden_size))
    return tuple(encoders)


def _require_clip(pipe: Any, kinds: Mapping[str, str]) -> None:
    """Raise unless every text encoder is CLIP's. kinds: text encoder -> type of model."""
    if not callable(getattr(pipe, "encode_prompt", None)) or FAMILY not in kinds.values():
        has = "it has no text encoder"
        if kinds:
            has = f"its text encoders are {', '.join(kinds.values())}"
        raise InputError(
            f"{type(pipe).__name__} has no CLIP text encoder to attach to ({has}); pass a loaded"
            " diffusers pipeline, such as Stable Diffusion 1.x, 2.x or XL"
        )
    others = [f"{name} ({kind})" for name, kind in kinds.items() if kind != FAMILY]
    if others:
        raise InputError(
            f"{type(pipe).__name__} is also conditioned by {', '.join(others)}, which is not"
            " CLIP's, and would keep the attribute; pass a pipeline whose text encoders are all"
            " CLIP's, such as Stable Diffusion 1.x, 2.x or XL"
        )


def _listed(prompt: Any) -> list[str]:
    return [prompt] if isinstance(prompt, str) else list(prompt)


def _write(
    states: Any,
    i: int,
    copies: int,
    place: tuple[slice, slice],
    apply: Apply,
    part: str,
    prompt: str,
) -> None:
    """Edit the states of prompt i once, and write them to all of its copies, which are the same."""
    edited = apply(part, states[i * copies][place].contiguous(), prompt)
    if edited is not None:
        states[(slice(i * copies, (i + 1) * copies), *place)] = edited
