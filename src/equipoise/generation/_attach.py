"""``attach``: a hook on a pipeline's ``encode_prompt`` that debiases what prompts condition.

Once the hook is removed, the pipeline is what it was.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from equipoise._certificate import Certificate, certify
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.generation import _edits as edits
from equipoise.generation._conditioning import TOKENS, Call, Conditioning, Tokens
from equipoise.generation._edits import CLOSED_FORM, Edit
from equipoise.generation._encode_calls import is_negative
from equipoise.generation._fitting import FixedEdits, book_of, edits_for
from equipoise.generation._mini import MiniConditioning
from equipoise.generation._unet import FeatureSfid
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._stated_groups import explicit_groups

Gate = bool | Callable[[str], bool]


def attach(
    pipe: Any,
    attribute: Attribute | str,
    book: PromptBook | str | os.PathLike[str] | None = None,
    method: str = CLOSED_FORM,
    kappa: float | None = None,
    gate: Gate = True,
    tokens: Tokens = "after-sos",
    *,
    spaces: AttributeSpace | Mapping[str, AttributeSpace] | None = None,
    seed: int = 0,
    **params: Any,
) -> Attached:
    """Debias what prompts condition in a diffusers pipeline.

    The hook stays until ``remove()`` or the end of a ``with`` block. The states of a prompt's
    tokens are edited by ``method`` ("closed-form", "orth-proj", "orth-cali", "sfid", "none") with
    its ``params``, fitted on ``book`` (a curated one by default) with the pipeline's own text
    encoders, in a space for each. What follows the prompt is found by calling ``encode_prompt``; a
    pipeline where something cannot be followed is refused. Tokens that are the same for every
    prompt (a start token, a template before it), negative prompts and the unconditional branch are
    left alone.

    tokens: "after-sos" edits words, end token and the padding that the denoiser sees, which has
    seen the whole prompt; "unpadded" leaves padding as it is. gate: True leaves prompts that name a
    group as they are; a function of the prompt decides by itself. spaces: fitted ones in place of a
    book. ``sfid`` with ``on="unet"`` edits the UNet's features instead, as its authors do.

    Embeddings that are passed in place of a prompt are left alone: ``pipe.encode_prompt`` gives
    edited ones while this is attached.
    """
    attribute = Attribute.load(attribute) if isinstance(attribute, str) else attribute
    if tokens not in TOKENS:
        raise InputError(f"tokens={tokens!r} is not legal; pass one of {', '.join(TOKENS)}")
    if not (isinstance(gate, bool) or callable(gate)):
        raise InputError(
            f"gate={gate!r} is not legal; pass True, False, or a function of the prompt"
        )
    if isinstance(getattr(getattr(pipe, "encode_prompt", None), "attached", None), Attached):
        raise InputError(
            "this pipeline is attached already; call remove() on what attach returned, or leave its"
            " with block, first"
        )
    conditioning = pipe.conditioning() if hasattr(pipe, "conditioning") else Conditioning(pipe)
    made = edits.create(method, kappa, params)
    if isinstance(made, FeatureSfid):
        features = made.fit(pipe, attribute, book_of(book, attribute), seed)
        return Attached(conditioning, attribute, FixedEdits({}), gate, tokens, features)
    source = edits_for(conditioning, attribute, made, book, spaces, kappa, seed)
    return Attached(conditioning, attribute, source, gate, tokens)


class Attached:
    """A hook on a pipeline; a context manager.

    ``edited``, ``gated``: prompts that met which, and how often. ``passed``: calls with embeddings
    in place of prompts.
    """

    def __init__(
        self,
        conditioning: Any,
        attribute: Attribute,
        source: Any,
        gate: Gate,
        tokens: str,
        features: Any = None,
    ):
        self.conditioning: Conditioning | MiniConditioning = conditioning
        self.attribute: Attribute = attribute
        self.gate: Gate = gate
        self.tokens: str = tokens
        self.edited: Counter[str] = Counter()
        self.gated: Counter[str] = Counter()
        self.passed: int = 0
        self._source, self._features = source, features
        self._source.edits(conditioning.usual)  # raises now for what cannot be fitted

        @functools.wraps(conditioning.original)
        def encode_prompt(*args: Any, **kwargs: Any) -> Any:
            given = conditioning.given(args, kwargs)
            if is_negative(sys._getframe(1), given):
                return conditioning.encode(*args, **kwargs)
            call = conditioning.bind(args, kwargs)
            found = self._begin(call)
            return self._edited(call, conditioning.encode(*args, **kwargs), found)

        encode_prompt.attached = self  # pyright: ignore[reportAttributeAccessIssue]
        self.pipe.encode_prompt = encode_prompt
        conditioning.install()
        if features is not None:
            features.install()

    @property
    def pipe(self) -> Any:
        """Return the pipeline."""
        return self.conditioning.pipe

    @property
    def spaces(self) -> dict[str, AttributeSpace]:
        """Return part -> attribute space, for methods that have one.

        They can be saved, and given to ``attach`` again.
        """
        found = {}
        for part, edit in self._source.edits(self.conditioning.usual).items():
            space = getattr(edit.operator, "space", None)
            if isinstance(space, AttributeSpace):
                found[part] = space
        return found

    def remove(self) -> None:
        """Take the hook off: the pipeline is what it was."""
        if getattr(self.pipe.__dict__.get("encode_prompt"), "attached", None) is self:
            del self.pipe.encode_prompt
            self.conditioning.remove()
        if self._features is not None:
            self._features.remove()

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def keeps(self, prompt: str) -> bool:
        """Return whether the gate leaves a prompt as it is."""
        if callable(self.gate):
            return bool(self.gate(prompt))
        return self.gate and bool(explicit_groups(prompt, self.attribute))

    def certify(self, prompts: Sequence[str]) -> dict[str, Certificate]:
        """Return part -> the certificate of the prompts' states as edited, gate aside.

        They are the states by which texts are fitted: of CLIP's end token, and the mean direction
        of the tokens of other encoders.
        """
        options = self.conditioning.usual
        states = self.conditioning.states(prompts, options)
        found = self._source.edits(options)
        certificates = {}
        for part, space in self.spaces.items():
            edited = found[part].apply(states[part], "")
            certificates[part] = certify(states[part], space, u=edited)
        return certificates

    def _begin(self, call: Call) -> dict[str, Edit]:
        """Count the prompts of a call; return part -> edit, for its options."""
        prompts = () if call.prompts is None else next(iter(call.prompts.values()))
        if self._features is not None:
            each = [prompt for prompt in prompts for _ in range(call.copies)]
            self._features.begin(each, [self.keeps(prompt) for prompt in each])
        if call.prompts is None:
            self._tell_passed()
            return {}
        for prompt in prompts:
            counter = self.gated if self.keeps(prompt) else self.edited
            counter[prompt] += 1
        return self._source.edits(call.options)

    def _edited(self, call: Call, output: Any, found: dict[str, Edit]) -> Any:
        def apply(part: str, states: Any, prompt: str) -> Any:
            if part not in found or self.keeps(prompt):
                return None
            return found[part].apply(states, prompt)

        return self.conditioning.edit(output, call, self.tokens, apply)

    def _tell_passed(self) -> None:
        self.passed += 1
        if self.passed == 1:
            warnings.warn(
                "embeddings were passed in place of a prompt, and are left as they are; those of"
                " pipe.encode_prompt are edited already",
                UserWarning,
                stacklevel=5,
            )
