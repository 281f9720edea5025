"""``equipoise fit``: an attribute space, or any method's operator, from names and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import _space as space
from equipoise import methods
from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.errors import InputError
from equipoise.methods import FitContext, Operator
from equipoise.methods._specs import MethodSpec, parse
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_choice import curated_prompts, whole
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._prototypes import PROTOTYPES

if TYPE_CHECKING:
    from equipoise._verbs.fitting_images import FittingImages

# What a method may need that a book of prompts gives.
TEXTS = {"prompts", "words", "book", "neutral texts"}
KINDS = {"shared": AttributeSpace, "per prompt": SpaceSet}


def check_space_options(scope: str, prototype: str, kappa: float, tolerance: float) -> None:
    """Raise for an option that is not legal, before an encoder is loaded."""
    if scope.replace("-", " ") not in KINDS:
        raise InputError(f"scope={scope!r} is not legal; pass `scope` shared or per-prompt")
    if prototype not in PROTOTYPES:
        choices = ", ".join(PROTOTYPES)
        raise InputError(f"prototype={prototype!r} is not legal; pass `prototype` {choices}")
    space.check_options(kappa=kappa)
    space.check_options(tolerance=tolerance)


def space_inputs(
    attribute: Attribute | None, book: PromptBook | None
) -> tuple[Attribute, PromptBook]:
    """Return what a space is fitted with; the book is the curated one where none is given."""
    if attribute is None:
        raise InputError("an attribute space needs an `attribute`, for example gender")
    if book is None:
        book = _curated_book(attribute, "an attribute space")
    return attribute, book


def fit_space(
    encoder: Any, attribute: Attribute, book: PromptBook, scope: str, **options: Any
) -> AttributeSpace | SpaceSet:
    """Return a shared space, or a set with one space per prompt."""
    return KINDS[scope.replace("-", " ")].from_prompts(encoder, book, attribute, **options)


def space_facts(fitted: AttributeSpace | SpaceSet) -> dict[str, Any]:
    """Return what a reader of the file wants to know."""
    facts: dict[str, Any] = {}
    if isinstance(fitted, SpaceSet):
        facts["prompts"] = len(fitted)
        fitted = next(iter(fitted.values()))
    return facts | {
        "attribute": fitted.parts[0].attribute,
        "groups": list(fitted.groups),
        "dim": fitted.dim,
        "rank": fitted.rank,
        "kappa": fitted.kappa,
        "scope": fitted.scope,
        "encoder": str(fitted.encoder),
        "book_hash": fitted.book_hash,
    }


def read_method(text: str) -> MethodSpec:
    """Return the one method that ``text`` names, with its parameters."""
    specs = parse([text])
    if len(specs) != 1 or specs[0].is_file:
        raise InputError(f"method={text!r} is not one method; pass `method` NAME:param=value,...")
    return specs[0]


def fit_method(
    spec: MethodSpec,
    attribute: Attribute | None,
    *,
    open_model: Callable[[], Any],
    book: PromptBook | None = None,
    images: FittingImages | None = None,
    seed: int = 0,
    workdir: Path | None = None,
) -> Operator:
    """Fit a method. Cheap mistakes are found before ``open_model`` loads the encoder."""
    spec.check("shared", "classification")
    if images is None and spec.takes_images():
        raise InputError(f"{spec.label} is fitted on images; pass `images`")
    if attribute is None:
        if images is None or not images.group_columns:
            raise InputError("no attribute was given; pass `attribute`, for example gender")
        attribute = images.attribute
    words = _book_for(spec, attribute, book)
    source = None if images is None else images.read()
    encoder = open_model()
    known: dict[str, Any] = {}
    if images is not None and source is not None:
        known = images.context(source, attribute, encoder)
    device = getattr(encoder, "device", None)
    context = FitContext(
        attribute,
        encoder=encoder,
        book=words,
        seed=seed,
        device=None if device is None else str(device),
        workdir=workdir,
        **known,
    )
    return spec.fit(context, "shared")


def _book_for(spec: MethodSpec, attribute: Attribute, book: PromptBook | None) -> PromptBook | None:
    """Return the book to fit with: the one given, or a curated one where the method needs texts."""
    if book is not None or TEXTS.isdisjoint(methods.find(spec.name).needs):
        return book
    return _curated_book(attribute, spec.label)


def _curated_book(attribute: Attribute, fitted: str) -> PromptBook:
    """Return the curated book of an attribute. fitted: what needs it, for the error."""
    try:
        name = curated_prompts(attribute)
    except InputError:
        raise InputError(
            f"{fitted} is fitted on prompts, and no curated book has any for {attribute.name};"
            " pass `book`"
        ) from None
    return whole(PromptBook.load(name), attribute)


def operator_facts(operator: Operator) -> dict[str, Any]:
    """Return what a reader of an operator's file wants to know."""
    return {
        "method": operator.name,
        "attribute": operator.attribute.name,
        "groups": list(operator.attribute.groups),
        "params": {name: str(value) for name, value in operator.params.items()},
        "changes": list(operator.changes),
        "encoder": str(operator.made_by),
        "fingerprint": operator.fingerprint,
    }
