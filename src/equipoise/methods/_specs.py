"""Methods as they are typed: ``closed-form:kappa=inf,modality=text``, or a saved operator's file.

``|`` between values makes a grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import methods
from equipoise._rows import unit
from equipoise.errors import InputError
from equipoise.methods import FitContext, Operator
from equipoise.methods._registry import NEEDS

BASELINE = "none"
SAVED = ".safetensors"


@dataclass(frozen=True)
class MethodSpec:
    """A method's name and the parameters that were given, or the path of an operator's file.

    book: where it is not the run's.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    book: str = ""

    @property
    def label(self) -> str:
        """Return what tables call it: its name, and what differs from the defaults.

        The size of a page is shown where it was given, since a run has a default of its own.
        """
        defaults = {}
        if self.name in methods.names():
            defaults = methods.defaults(self.name)
            defaults.pop(methods.find(self.name).page, None)
        shown = []
        for param, value in self.params.items():
            if value != defaults.get(param):
                shown.append(f"{param}={value}")
        if self.book:
            shown.append(f"book={Path(self.book).stem}")
        name = Path(self.name).stem if self.is_file else self.name
        return f"{name} ({', '.join(shown)})" if shown else name

    @property
    def is_file(self) -> bool:
        return self.name.endswith(SAVED)

    def takes_images(self, captioned: bool = False) -> bool:
        """Return whether it is fitted on images.

        captioned: whether there are images with captions, for methods that can do without images.
        """
        needs = () if self.is_file else methods.find(self.name).needs
        if "images" in needs:
            return True
        return captioned and any("images" in NEEDS.get(need, need) for need in needs)

    @property
    def needs_labels(self) -> bool:
        """Return whether it learns from labels, and so must not be measured on the same images."""
        if self.is_file:
            return False
        needs = methods.find(self.name).needs
        return not {"sensitive_features", "labels", "captions"}.isdisjoint(needs)

    def resolved(self, scope: str) -> dict[str, Any]:
        """Return the parameters, with the protocol's scope where the method has one of its own."""
        if "scope" not in methods.defaults(self.name):
            return dict(self.params)
        return {"scope": scope, **self.params}

    def check(self, scope: str, task: str) -> None:
        """Raise for what cannot be created, or cannot be fitted for this task."""
        if self.is_file:
            if not Path(self.name).is_file():
                raise InputError(
                    f"there is no file {self.name}; pass a method ({', '.join(methods.names())}) or"
                    " a saved operator"
                )
            return
        method = methods.create(self.name, **self.resolved(scope))
        if task == "retrieval" and "class_prompts" in method.needs:
            raise InputError(
                f"{self.name} is defined for given classes, and the task is retrieval; leave it out"
            )

    def fit(self, context: FitContext, scope: str, page: int | None = None) -> Operator:
        """Return the operator, fitted on the context or read from its file.

        page: how many images are looked at, for methods that balance a page and were given none.
        """
        if self.is_file:
            return methods.load(self.name, encoder=context.encoder)
        params = self.resolved(scope)
        name = methods.find(self.name).page
        if page is not None and name and name not in params:
            params[name] = page
        return methods.create(self.name, **params).fit(context)


def serve(operator: Operator, images: Any) -> None:
    """Bind an operator that balances pages to the images that it is measured on.

    Measurements rank unit rows. Rows that were rounded to float16 are not quite that, and an array
    of such rows is bound as unit rows: the page that is balanced is the page that is measured.
    """
    held: Any = operator
    if not hasattr(held, "index"):
        return
    if isinstance(images, np.ndarray) and not _exactly_unit(images):
        images = unit(images)
    if held.index is not images:
        held.bind(index=images)


def _exactly_unit(rows: np.ndarray) -> bool:
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return bool((np.abs(squared - 1) <= 8 * np.finfo(np.float32).eps).all())


def parse(
    texts: Iterable[str], books: Sequence[str] = (), others: Sequence[str] = ()
) -> list[MethodSpec]:
    """Return every method of every text, grids multiplied out, none twice.

    books: more than one makes the book a part of the grid. others: legal names that are no methods
    of embeddings.
    """
    if isinstance(texts, str):
        raise InputError(f"methods={texts!r} is a string; pass a list of methods, [{texts!r}]")
    specs = [spec for text in texts for spec in _grid(text, others)]
    if len(books) > 1:
        specs = _with_books(specs, books)
    return [spec for i, spec in enumerate(specs) if spec not in specs[:i]]


def _with_books(specs: Iterable[MethodSpec], books: Sequence[str]) -> list[MethodSpec]:
    """Return each method with each book; the baseline needs none."""
    found = []
    for spec in specs:
        its_books = books if spec.name != BASELINE else [""]
        found += [MethodSpec(spec.name, spec.params, book) for book in its_books]
    return found


def _grid(text: str, others: Sequence[str]) -> Iterable[MethodSpec]:
    if text.endswith(SAVED):
        yield MethodSpec(text)
        return
    name, _, rest = text.partition(":")
    choices = []
    for part in filter(None, rest.split(",")):
        key, equals, values = part.partition("=")
        if not equals or not key.strip() or not values.strip():
            raise InputError(
                f"method {text!r}: {part!r} is not NAME=VALUE; write for example"
                " closed-form:kappa=inf,modality=text|both"
            )
        choices.append([(key.strip(), _value(value.strip())) for value in values.split("|")])
    if name.strip() not in others:
        methods.find(name.strip())
    for combination in itertools.product(*choices):
        yield MethodSpec(name.strip(), dict(combination))


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
