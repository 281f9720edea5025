"""The text encoders of a pipeline: which it has, which tokens they are given, whether they are told
something behind ``encode_prompt``'s back.

They are known by their table of token embeddings, which every text goes through, however the
pipeline calls the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from equipoise.errors import InputError


class TextEncoders:
    """The text encoders of a pipeline, by the names of its components."""

    def __init__(self, pipe: Any):
        self.pipe = pipe
        self.tables: dict[str, list[Any]] = _tables(pipe)
        self.seen: dict[str, list[Any]] = {}
        self._busy = False
        self._guards: list[Any] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the tokens (n, tokens) that each encoder is given, in ``seen``, call by call."""
        self.seen = {}
        handles = []
        for name, tables in self.tables.items():
            note = self._note(name)
            handles += [table.register_forward_pre_hook(note) for table in tables]
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before
            for handle in handles:
                handle.remove()

    @contextmanager
    def scrambled(self, name: str) -> Iterator[None]:
        """Give one encoder its tokens in reverse."""
        handles = [table.register_forward_hook(_reversed) for table in self.tables[name]]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def guard(self) -> None:
        """Raise, from now on, where the pipeline gives an encoder text outside encode_prompt."""
        for name, tables in self.tables.items():
            refuse = self._refusal(name)
            self._guards += [table.register_forward_pre_hook(refuse) for table in tables]

    def unguard(self) -> None:
        """Take the guards off."""
        for handle in self._guards:
            handle.remove()
        self._guards = []

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Let the pipeline use its encoders for something else: to write a prompt anew."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def tokenizer(self, name: str) -> Any:
        """Return the tokenizer of an encoder; None where the pipeline has none for it."""
        found = getattr(self.pipe, name.replace("text_encoder", "tokenizer"), None)
        if hasattr(found, "pad_token_id"):
            return found
        return getattr(found, "tokenizer", None)  # of a processor

    def kind(self, name: str) -> str:
        """Return the type of an encoder's model."""
        encoder = getattr(self.pipe, name)
        config = getattr(encoder, "config", None)
        return str(getattr(config, "model_type", type(encoder).__name__))

    def kept(self, name: str, ids: Any) -> Any:
        """Return which of the tokens (n, tokens) are no padding, as booleans.

        Padding is a run of the padding token at either end. Where it is the end token too, the
        first of the run ends the text.
        """
        tokenizer = self.tokenizer(name)
        padding = getattr(tokenizer, "pad_token_id", None)
        if padding is None:
            return ids >= 0  # none
        other = (ids != padding).int()
        after = other.cumsum(1) > 0
        before = other.flip(1).cumsum(1).flip(1) > 0
        kept = after & before
        if padding == getattr(tokenizer, "eos_token_id", None):
            ends = after & ~before
            kept |= ends & (ends.int().cumsum(1) == 1)
        return kept

    def _note(self, name: str) -> Any:
        def note(module: Any, inputs: tuple[Any, ...]) -> None:
            if inputs and getattr(inputs[0], "ndim", 0) == 2:
                self.seen.setdefault(name, []).append(inputs[0].detach().cpu())

        return note

    def _refusal(self, name: str) -> Any:
        def refuse(module: Any, inputs: tuple[Any, ...]) -> None:
            if not self._busy and _called_by(self.pipe):
                raise InputError(
                    f"{type(self.pipe).__name__} gave {name} a text outside encode_prompt; what"
                    " that conditions is not edited. Turn off what asks for it (such as rewriting"
                    " prompts), or remove the hook"
                )

        return refuse


def _tables(pipe: Any) -> dict[str, list[Any]]:
    """Return text encoder -> its table of token embeddings, under each name that it has.

    T5 holds one table twice, and reads the one that it does not name.
    """
    found = {}
    for name, component in getattr(pipe, "components", {}).items():
        if not hasattr(component, "get_input_embeddings"):
            continue
        try:
            table = component.get_input_embeddings()
        except (AttributeError, NotImplementedError):
            continue
        if hasattr(table, "num_embeddings"):
            found[name] = [each for each in component.modules() if _alike(each, table)]
    return found


def _alike(module: Any, table: Any) -> bool:
    """Return whether a module is a table of the same sizes."""
    sizes = (table.num_embeddings, table.embedding_dim)
    return (getattr(module, "num_embeddings", 0), getattr(module, "embedding_dim", 0)) == sizes


def _reversed(module: Any, inputs: Any, output: Any) -> Any:
    return output.flip(-2)


def _called_by(pipe: Any) -> bool:
    """Return whether a method of the pipeline is running."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_locals.get("self") is pipe:
            return True
        frame = frame.f_back
    return False
