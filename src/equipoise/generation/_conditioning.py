"""The conditioning of a diffusers pipeline: what ``encode_prompt`` returns, part by part.

A part is what one text encoder gives: the states of its tokens (its part has its name), a pooled
embedding (``pooled``), or one of several layers that are stacked. The parts are found by calling
``encode_prompt`` (``_layout``), and each is a space of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.generation._encode_calls import EncodeCalls
from equipoise.generation._layout import ConditioningLayout, ConditioningPart, Finder, kept_tokens
from equipoise.generation._outputs import at, replaced
from equipoise.generation._peculiar import peculiarity
from equipoise.generation._text_encoders import TextEncoders

Tokens = Literal["after-sos", "unpadded"]
TOKENS = ("after-sos", "unpadded")
_BATCH = 64
_BYTES = 2**28  # of the states of one batch
_SLACK = 2  # tokens that words may have more beside those of a template

Apply = Callable[[str, Any, str], Any]
"""(part, states (k, width), prompt) -> edited states, or None to leave them."""


class Call(NamedTuple):
    """A call of ``encode_prompt``.

    prompts: part -> the prompt of each row, as the user wrote it; None where embeddings were passed
    in their place. texts: argument -> the prompts as the encoders read them.
    """

    prompts: Mapping[str, Sequence[str]] | None
    copies: int = 1
    options: Mapping[str, Any] = {}
    texts: Mapping[str, Sequence[str]] = {}


class Conditioning:
    """The conditioning of any pipeline whose ``encode_prompt`` can be followed.

    Those that cannot are refused when they are first asked about, with the reason.
    """

    def __init__(self, pipe: Any):
        original = getattr(pipe, "encode_prompt", None)
        if not callable(original):
            raise InputError(
                f"{type(pipe).__name__} has no encode_prompt to attach to; pass a loaded diffusers"
                " pipeline that draws from prompts, such as Stable Diffusion, Flux or Qwen-Image"
            )
        self.pipe = pipe
        self.original: Callable[..., Any] = original
        self.calls: EncodeCalls = EncodeCalls(pipe, original)
        self.encoders: TextEncoders = TextEncoders(pipe)
        self._layouts: dict[str, ConditioningLayout] = {}
        self._peculiarity = peculiarity(pipe)
        self._written: dict[str, str] = {}

    @property
    def id(self) -> str:
        """Return the pipeline's name."""
        config = getattr(self.pipe, "config", {})
        return str(config.get("_name_or_path") or type(self.pipe).__name__)

    @property
    def usual(self) -> dict[str, Any]:
        """Return the options with which the pipeline's own call encodes, where it is not told."""
        return self.calls.usual()

    @property
    def parts(self) -> dict[str, int]:
        """Return part -> width."""
        return {part.name: part.width for part in self._layout(self.usual).parts}

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        """Return what ``encode_prompt`` returns; note which tokens its encoders were given."""
        with self.encoders.listening():
            return self.original(*args, **kwargs)

    def install(self) -> None:
        """Guard the encoders, and note the prompts that the pipeline writes anew."""
        self.encoders.guard()
        name = self._peculiarity.rewrites
        if name is None or not hasattr(self.pipe, name):
            return
        original = getattr(self.pipe, name)

        def rewritten(prompt: Any, *args: Any, **kwargs: Any) -> Any:
            with self.encoders.unguarded():
                texts = original(prompt, *args, **kwargs)
            self._note_written(prompt, texts)
            return texts

        setattr(self.pipe, name, rewritten)

    def remove(self) -> None:
        """Take off what ``install`` put on."""
        self.encoders.unguard()
        if self._peculiarity.rewrites is not None:
            vars(self.pipe).pop(self._peculiarity.rewrites, None)

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return name -> value of a call's arguments."""
        return self.calls.given(args, kwargs)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return what a call asks for."""
        given = self.given(args, kwargs)
        copies = given.get(self.calls.copies or "", 1)
        texts = self.calls.prompts_of(given)
        options = self.calls.options_of(given)
        if texts is None:
            return Call(None, copies, options)
        prompts = {}
        for part in self._layout(options).parts:
            rows = texts[part.argument]
            prompts[part.name] = [self._written.get(text, text) for text in rows]
        return Call(prompts, copies, options, texts)

    def require_room(self, texts: Sequence[str]) -> None:
        """Raise for a text that does not fit every encoder's window."""
        self.states(texts, self.usual)

    def states(self, texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return part -> the states (n, width) by which texts are fitted.

        They are those of CLIP's end token, which has seen the whole text and is trained to hold it,
        and the mean direction of the text's tokens for other encoders, which have no such token.
        """
        import torch

        layout = self._layout(options)
        found: dict[str, list[Any]] = {part.name: [] for part in layout.parts}
        size = max(1, min(_BATCH, _BYTES // max(layout.size, 1))) if layout.steady else 1
        with progress("texts", len(texts)) as advance:
            for start in range(0, len(texts), size):
                batch = list(texts[start : start + size])
                given = dict.fromkeys(self.calls.prompts, batch)
                output = self._encoded(given, options)
                self._require_room(layout, given)
                for part in layout.parts:
                    for i, row in enumerate(part.slot.rows(output)):
                        found[part.name].append(self._summary(layout, part, output, row, i))
                advance(len(batch))
        return {name: torch.stack(rows) for name, rows in found.items()}

    def edit(self, output: Any, call: Call, tokens: str, apply: Apply) -> Any:
        """Return the output of ``encode_prompt`` with the states of every prompt edited.

        Tokens that are the same for every prompt and the negative branch stay as they are.
        """
        if call.prompts is None:
            return output
        layout = self._layout(call.options)
        self._require_room(layout, call.texts)
        slots = dict.fromkeys(part.slot for part in layout.parts)
        for slot in slots:
            rows = [row.clone() for row in slot.rows(output)]
            for part in layout.parts:
                if part.slot == slot:
                    self._edit_part(layout, part, output, rows, call, tokens, apply)
            output = replaced(output, slot.path, slot.joined(rows, output))
        return output

    def _edit_part(
        self,
        layout: ConditioningLayout,
        part: ConditioningPart,
        output: Any,
        rows: Sequence[Any],
        call: Call,
        tokens: str,
        apply: Apply,
    ) -> None:
        prompts = (call.prompts or {})[part.name]
        for r, row in enumerate(rows):
            i = self._prompt_of(part, r, len(rows), len(prompts))
            states = part.states(row)
            chosen = self._chosen(layout, part, output, len(states), r, i, tokens)
            if not chosen.any():  # the empty prompt, of an encoder that reads from left to right
                continue
            edited = apply(part.name, states[chosen].contiguous(), prompts[i])
            if edited is not None:
                states[chosen] = edited

    def _prompt_of(self, part: ConditioningPart, row: int, rows: int, prompts: int) -> int:
        if prompts == 0 or rows % prompts:
            raise InputError(
                f"encode_prompt gave {rows} rows for {prompts} prompts in {part.name}; attach"
                " cannot tell whose they are"
            )
        return row % prompts if part.tiled else row // (rows // prompts)

    def _chosen(
        self,
        layout: ConditioningLayout,
        part: ConditioningPart,
        output: Any,
        length: int,
        row: int,
        i: int,
        tokens: str,
    ) -> Any:
        """Return the places of the tokens that are edited, in a row of prompt i."""
        import torch

        if part.pooled:
            return torch.ones(1, dtype=torch.bool)
        kept = self._kept(layout, part, output, length, row, i)
        counted = kept.int().cumsum(0)
        fixed = kept & (counted <= part.fixed)
        if self._masked(part, output) or tokens == "unpadded":
            return kept & ~fixed
        every = torch.ones(length, dtype=torch.bool)
        if part.fixed_padding:
            every = counted > 0
        return every & ~fixed

    def _masked(self, part: ConditioningPart, output: Any) -> bool:
        return part.mask is not None and at(output, part.mask.path) is not None

    def _kept(
        self,
        layout: ConditioningLayout,
        part: ConditioningPart,
        output: Any,
        length: int,
        row: int,
        i: int,
    ) -> Any:
        if self._masked(part, output):
            return kept_tokens(part, output, row, length, None)
        which = layout.called.get(part.encoder)
        if which is None:
            return kept_tokens(part, output, i, length, None)
        text_tokens = self.encoders.kept(part.encoder, self.encoders.seen[part.encoder][which])
        return kept_tokens(part, output, i, length, text_tokens)

    def _summary(
        self, layout: ConditioningLayout, part: ConditioningPart, output: Any, row: Any, i: int
    ) -> Any:
        states = part.states(row)
        if part.pooled:
            return states[0].float()
        chosen = self._chosen(layout, part, output, len(states), i, i, "unpadded")
        states = states[chosen].float()
        if part.gathers:
            return states[-1]
        lengths = states.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return (states / lengths).mean(0)

    def _encoded(
        self,
        texts: Mapping[str, Sequence[str]],
        options: Mapping[str, Any],
        copies: int = 1,
        guided: bool = False,
    ) -> Any:
        import torch

        with torch.no_grad():
            return self.encode(**self.calls.arguments(texts, options, copies, guided))

    def _layout(self, options: Mapping[str, Any]) -> ConditioningLayout:
        key = repr(sorted(options.items()))
        if key not in self._layouts:
            seen = self.encoders.seen
            finder = Finder(
                type(self.pipe).__name__,
                lambda texts, copies: self._encoded(texts, options, copies, guided=True),
                self.calls.prompts,
                self.encoders,
                self._stacked(options),
            )
            self._layouts[key] = finder.layout()
            self.encoders.seen = seen
        return self._layouts[key]

    def _stacked(self, options: Mapping[str, Any]) -> int:
        name = self._peculiarity.layers
        if name is None:
            return 1
        return len(options.get(name, self.calls.options[name].default))

    def _note_written(self, prompts: Any, texts: Any) -> None:
        if isinstance(prompts, str):
            prompts = [prompts]
        if isinstance(texts, str):
            texts = [texts]
        self._written.update(zip(texts, prompts, strict=True))

    def _require_room(self, layout: ConditioningLayout, texts: Mapping[str, Sequence[str]]) -> None:
        """Raise for a text of the last call that was cut off."""
        for part in layout.parts:
            if part.encoder in layout.overhead:
                around = layout.overhead[part.encoder]
                ids = self.encoders.seen[part.encoder][layout.called[part.encoder]]
                window = ids.shape[1] - around
                slack = 0 if around == 0 else _SLACK
                for text in texts[part.argument]:
                    self._require_length(part.encoder, text, window, slack)

    def _require_length(self, name: str, text: str, window: int, slack: int) -> None:
        tokenizer = self.encoders.tokenizer(name)
        said = text
        # With textual inversion, one word may be several tokens.
        if hasattr(self.pipe, "maybe_convert_prompt"):
            said = self.pipe.maybe_convert_prompt(text, tokenizer)
        count = len(tokenizer(said, truncation=False, verbose=False).input_ids)
        if count > window + slack:
            raise InputError(
                f"the prompt {text[:60]!r}... has {count} tokens and {name} of this"
                f" pipeline reads {window}, start and end token included; shorten it: what is cut"
                " off would be neither drawn nor gated"
            )
