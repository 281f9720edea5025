"""Which edit each part of a pipeline's conditioning gets.

Edits are fitted from a book with the pipeline's own text encoders, or given as spaces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.generation import _edits as edits
from equipoise.generation._edits import CLOSED_FORM, NONE, Edit
from equipoise.methods import FitContext, Method
from equipoise.methods._closed_form import ClosedFormOperator
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_choice import curated_prompts, whole
from equipoise.prompts._prompt_book import PromptBook

PROBE = "a photo of a person"
SAME = 1e-3  # of the largest state: what rounding explains, and a LoRA exceeds

Edits = dict[str, Edit]


class FixedEdits:
    """Edits that stay as they are: in spaces that were fitted before, or none at all."""

    def __init__(self, found: Edits):
        self.found = found

    def edits(self, options: Mapping[str, Any]) -> Edits:
        """Return the edits, whatever the call's options are."""
        return self.found


@dataclass
class FromBook:
    """Edits that are fitted when they are asked for.

    They are fitted again when the text encoders give other states than they gave then: with a LoRA,
    or a skipped layer.
    """

    conditioning: Any
    attribute: Attribute
    method: Method
    book: PromptBook
    seed: int
    _found: Edits = field(default_factory=dict)
    _probe: dict[str, np.ndarray] = field(default_factory=dict)

    def edits(self, options: Mapping[str, Any]) -> Edits:
        """Return part -> edit, for calls with these options."""
        states = self.conditioning.states([PROBE], options)
        probe = {part: as_float64(rows) for part, rows in states.items()}
        if not self._fits(probe):
            self._found = self._fitted(options)
            self._probe = probe
        return self._found

    def _fits(self, probe: dict[str, np.ndarray]) -> bool:
        """Return whether the text encoders give the states that they gave when this was fitted."""
        if not self._probe:
            return False
        return all(_same(rows, self._probe[part]) for part, rows in probe.items())

    def _fitted(self, options: Mapping[str, Any]) -> Edits:
        known: dict[str, dict[str, np.ndarray]] = {}
        found = {}
        for part in self.conditioning.parts:
            encoder = _PartEncoder(self.conditioning, part, options, known)
            context = FitContext(self.attribute, encoder=encoder, book=self.book, seed=self.seed)
            found[part] = edits.fit(self.method, context)
        return found


class _PartEncoder:
    """One part as an encoder.

    All parts are encoded at once, and each text once: ``known`` is shared.
    """

    def __init__(
        self,
        conditioning: Any,
        part: str,
        options: Mapping[str, Any],
        known: dict[str, dict[str, np.ndarray]],
    ):
        self.id = f"{conditioning.id}/{part}"
        self.dim = conditioning.parts[part]
        self._conditioning, self._part = conditioning, part
        self._options, self._known = options, known

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Return states (n, dim), float64, of any length."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            for text in new:
                self._known[text] = {}
            for part, rows in self._conditioning.states(new, self._options).items():
                for text, row in zip(new, as_float64(rows), strict=True):
                    self._known[text][part] = row
        return np.stack([self._known[text][self._part] for text in texts])


def edits_for(
    conditioning: Any,
    attribute: Attribute,
    method: Method,
    book: Any,
    spaces: Any,
    kappa: Any,
    seed: int,
) -> FixedEdits | FromBook:
    """Return the edits of a method for every part.

    kappa: None for the given spaces' own.
    """
    if method.name == NONE:
        return FixedEdits({})
    if spaces is not None:
        return FixedEdits(_in_spaces(spaces, conditioning.parts, method, kappa))
    return FromBook(conditioning, attribute, method, book_of(book, attribute), seed)


def book_of(book: PromptBook | str | os.PathLike[str] | None, attribute: Attribute) -> PromptBook:
    """Return the book to fit on: given, by name, or a curated one.

    Only prompts that have every group are kept.
    """
    if book is None:
        book = curated_prompts(attribute)
    if not isinstance(book, PromptBook):
        book = PromptBook.load(book)
    return whole(book, attribute)


def _in_spaces(spaces: Any, parts: Mapping[str, int], method: Method, kappa: float | None) -> Edits:
    """Return the closed form in fitted spaces; raise unless each part has one of its width."""
    if method.name != CLOSED_FORM:
        raise InputError(
            f"spaces= goes with method={CLOSED_FORM!r}, and {method.name!r} was given; it is fitted"
            " from a book"
        )
    if isinstance(spaces, AttributeSpace):
        spaces = {next(iter(parts)): spaces}
    if not isinstance(spaces, Mapping) or set(spaces) != set(parts):
        given = type(spaces).__name__
        if isinstance(spaces, Mapping):
            given = ", ".join(map(str, spaces))
        raise InputError(
            f"spaces are of {given}, and this pipeline's parts are {', '.join(parts)}; pass a"
            " mapping with a space for each"
        )
    for part, space in spaces.items():
        if not isinstance(space, AttributeSpace):
            raise InputError(
                f"the space of {part} is {type(space).__name__}; pass an AttributeSpace"
                " (AttributeSpace.load reads a file)"
            )
        if space.dim != parts[part]:
            raise InputError(
                f"the space of {part} is {space.dim} wide and its states are {parts[part]} wide:"
                " another encoder made it; leave spaces= out to have one fitted with this"
                " pipeline's own"
            )
    found = {}
    for part, space in spaces.items():
        weighed = space if kappa is None else space.with_kappa(kappa)
        found[part] = edits.edit_with(ClosedFormOperator.of(weighed))
    return found


def as_float64(rows: Any) -> np.ndarray:
    """Return rows of any framework and device as a float64 array."""
    if hasattr(rows, "detach"):
        return rows.detach().cpu().double().numpy()
    return np.asarray(rows, np.float64)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(abs(a - b).max() <= SAME * abs(b).max())
