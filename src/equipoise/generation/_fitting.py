"""Which edit each part of a pipeline's conditioning gets: fitted from a book with the pipeline's
own text encoders, or given as spaces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise._audit.plan import curated_prompts
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.generation import _edits as edits
from equipoise.generation._edits import CLOSED_FORM, NONE, Edit
from equipoise.methods import FitContext, Method
from equipoise.methods._closed_form import ClosedFormOperator
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._choosing import whole

PROBE = "a photo of a person"
SAME = 1e-3  # of the largest state: what rounding explains, and a LoRA exceeds

Edits = dict[str, Edit]


class Given:
    """Edits that stay as they are: in spaces that were fitted before, or none at all."""

    def __init__(self, found: Edits):
        self.found = found

    def edits(self, options: Mapping[str, Any]) -> Edits:
        """Whatever the call's options."""
        return self.found


@dataclass
class FromBook:
    """Fitted when asked for, and again when the text encoders give other states than they gave
    then: a LoRA, a skipped layer.
    """

    conditioning: Any
    attribute: Attribute
    method: Method
    book: PromptBook
    seed: int
    _found: Edits = field(default_factory=dict)
    _probe: dict[str, np.ndarray] = field(default_factory=dict)

    def edits(self, options: Mapping[str, Any]) -> Edits:
        """Part -> edit, for calls with these options."""
        probe = {
            part: as_float64(rows)
            for part, rows in self.conditioning.states([PROBE], options).items()
        }
        if not self._probe or not all(
            _same(rows, self._probe[part]) for part, rows in probe.items()
        ):
            known: dict[str, dict[str, np.ndarray]] = {}
            encoders = {
                part: _PartEncoder(self.conditioning, part, options, known)
                for part in self.conditioning.parts
            }
            context = {"attribute": self.attribute, "book": self.book, "seed": self.seed}
            self._found = {
                part: edits.fit(self.method, FitContext(encoder=encoder, **context))
                for part, encoder in encoders.items()
            }
            self._probe = probe
        return self._found


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
        self._conditioning, self._part, self._options, self._known = (
            conditioning,
            part,
            options,
            known,
        )

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """States (n, dim), float64, of any length."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            states = {
                part: as_float64(rows)
                for part, rows in self._conditioning.states(new, self._options).items()
            }
            self._known |= {
                text: {part: rows[i] for part, rows in states.items()} for i, text in enumerate(new)
            }
        return np.stack([self._known[text][self._part] for text in texts])


def edits_for(
    conditioning: Any,
    attribute: Attribute,
    method: Method,
    book: Any,
    spaces: Any,
    kappa: Any,
    seed: int,
) -> Given | FromBook:
    """Of a method, for every part. kappa: None for the spaces' own, where they are given."""
    if method.name == NONE:
        return Given({})
    if spaces is not None:
        return Given(_in_spaces(spaces, conditioning.parts, method, kappa))
    return FromBook(conditioning, attribute, method, book_of(book, attribute), seed)


def book_of(book: PromptBook | str | os.PathLike | None, attribute: Attribute) -> PromptBook:
    """The book to fit on, with the prompts that have every group: given, by name, or a curated
    one.
    """
    found = (
        book
        if isinstance(book, PromptBook)
        else PromptBook.load(curated_prompts(attribute) if book is None else book)
    )
    return whole(found, attribute)


def _in_spaces(spaces: Any, parts: Mapping[str, int], method: Method, kappa: float | None) -> Edits:
    """The closed form in spaces that were fitted before, once each part has one of its width."""
    if method.name != CLOSED_FORM:
        raise InputError(
            f"spaces= goes with method={CLOSED_FORM!r}, and {method.name!r} was given; it is fitted"
            " from a book"
        )
    if isinstance(spaces, AttributeSpace):
        spaces = {next(iter(parts)): spaces}
    if not isinstance(spaces, Mapping) or set(spaces) != set(parts):
        given = (
            ", ".join(map(str, spaces)) if isinstance(spaces, Mapping) else type(spaces).__name__
        )
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
                " another encoder made it; leave spaces= away to have one fitted with this"
                " pipeline's own"
            )
    weighed = {
        part: space if kappa is None else space.with_kappa(kappa) for part, space in spaces.items()
    }
    return {part: edits.edit_with(ClosedFormOperator.of(space)) for part, space in weighed.items()}


def as_float64(rows: Any) -> np.ndarray:
    """From any framework and device."""
    return (
        rows.detach().cpu().double().numpy()
        if hasattr(rows, "detach")
        else np.asarray(rows, np.float64)
    )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(abs(a - b).max() <= SAME * abs(b).max())
