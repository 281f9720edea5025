"""Methods by name. Other packages join through the entry point group ``equipoise.methods``."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from importlib import import_module
from importlib.metadata import entry_points
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

from equipoise import _artefact as artefact
from equipoise._documents import validated
from equipoise._near_names import nearest
from equipoise._space import EncoderRef
from equipoise.errors import ArtefactError, InputError
from equipoise.methods._context import FitContext
from equipoise.methods._operator import KIND, Operator
from equipoise.methods._operator_document import OperatorMetadata
from equipoise.prompts._attribute import Attribute

GROUP = "equipoise.methods"
OURS = (
    "none",
    "closed-form",
    "adapted",
    "balanced",
    "interleave",
    "pbm",
    "det-const-sort",
    "fa-ir",
    "bend-vlm",
    "orth-proj",
    "orth-cali",
    "prism-mini",
    "roboshot",
    "clip-clip",
    "sfid",
    "fairer-clip",
    "leace",
    "splince",
    "inlp",
    "rlace",
    "spd",
    "fair-pca",
    "prism",
    "dear",
    "saner",
    "prompt-array",
    "joint-vl",
)
PLAIN: dict[Any, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a word or a sentence"),
}
NEEDS = {  # what a method may need of a context, as a reader is told it
    "prompts": "group prompts: prototypes, or a book with an encoder or text_table",
    "words": "group words: prototypes, or an encoder or text_table",
    "images": "images",
    "sensitive_features": "the group of each image",
    "labels": "the class of each image",
    "class_prompts": "class prompts",
    "captions": "captions",
    "book": "a book of two prompts or more, with an encoder or text_table",
    "neutral texts": "captions (with their images) or a book, with an encoder or text_table",
    "encoder": "an encoder",
}


class Strength(NamedTuple):
    """The parameter that sweeps a method; at ``neutral`` it is the method ``becomes``.

    values: a sweep, from weak to strong.
    """

    param: str
    neutral: Any
    values: tuple[Any, ...]
    becomes: str = "none"


class Method(ABC):
    """A method with its parameters: a dataclass whose fields they are, and ``fit``."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str] = ""  # who published it
    needs: ClassVar[tuple[str, ...]] = ()  # keys of NEEDS, or words of its own
    training: ClassVar[str] = ""  # what is trained, in a few words; "" where nothing is
    gradients: ClassVar[str] = ""  # what gradients flow through; "" where there are none
    changes: ClassVar[tuple[str, ...]] = ("image", "text")  # as its parameters stand by default
    # The tasks for which its authors defined it.
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval")
    # The parameters that generation begins with; None where it cannot edit the states of prompts.
    generation: ClassVar[Mapping[str, Any] | None] = None
    sweep: ClassVar[Strength | None] = None
    # The parameter that says how many images a page has; "" where there is none.
    page: ClassVar[str] = ""
    # Where the reference code differs from the paper, or from its Table 1.
    code: ClassVar[str] = ""
    # Of the authors' own code; "none given" where it has none, "" where there is no code to read.
    licence: ClassVar[str] = ""
    operator: ClassVar[type[Operator]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls):
            cls.fit = _with_a_context(cls.fit)

    @abstractmethod
    def fit(self, context: FitContext) -> Operator:
        """Return the operator for what the context holds."""


def _with_a_context(fit: Callable[..., Operator]) -> Callable[..., Operator]:
    """Return a ``fit`` that says what it takes, where it is given anything but a context."""

    @wraps(fit)
    def checked(self: Method, context: FitContext) -> Operator:
        if not isinstance(context, FitContext):
            raise InputError(
                f"fit was given {type(context).__name__}; pass a context:"
                " eq.FitContext(attribute, images=..., sensitive_features=...), or with encoder="
                " and book=. `equipoise methods` says what each method needs"
            )
        return fit(self, context)

    return checked


def names() -> list[str]:
    """Return the names of all methods that ``create`` knows."""
    others = [point.name for point in entry_points(group=GROUP) if point.name not in OURS]
    return [*OURS, *sorted(others)]


def find(name: str) -> type[Method]:
    """Return the class of a method."""
    if name in OURS:
        module = import_module(f"equipoise.methods._{name.replace('-', '_')}")
        return module.METHOD
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    known = names()
    raise InputError(
        f"there is no method {name!r}; there are {', '.join(known)}{nearest(name, known)}"
    )


def defaults(name: str) -> dict[str, Any]:
    """Return the parameters of a method, each with its default."""
    return {param.name: param.default for param in fields(find(name))}  # pyright: ignore


def create(name: str, **params: Any) -> Method:
    """Return a method with these parameters."""
    method = find(name)
    legal = list(inspect.signature(method).parameters)
    unknown = [param for param in params if param not in legal]
    if unknown:
        raise InputError(
            f"{name} has no parameter {unknown[0]!r}; it has {', '.join(legal) or 'none'}"
        )
    kinds = _kinds(method)
    for param, value in params.items():
        if param in kinds and (otherwise := _illegal(value, kinds[param])):
            raise InputError(f"{param}={value!r} is not legal; pass {otherwise}")
    return method(**params)


def _kinds(method: type[Method]) -> dict[str, Any]:
    try:
        return get_type_hints(method)
    except (NameError, TypeError):  # of another package, written for a type checker alone
        return {}


def _illegal(value: Any, kind: Any) -> str:
    """Return what is legal for a parameter of this kind, or "" where the value is legal.

    A kind that is not a plain one takes any value.
    """
    parts = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    found = [_one_illegal(value, part) for part in parts]
    return "" if "" in found else " or ".join(found)


def _one_illegal(value: Any, kind: Any) -> str:
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return "" if value in choices else f"one of {', '.join(map(str, choices))}"
    if kind is NoneType:
        return "" if value is None else "nothing"
    if kind not in PLAIN:
        return ""
    legal_type, words = PLAIN[kind]
    is_bool_if_asked = (kind is bool) == isinstance(value, bool)  # a bool is an int to Python
    return "" if isinstance(value, legal_type) and is_bool_if_asked else words


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Operator:
    """Read a saved operator; with ``encoder``, bind it and refuse that of another encoder."""
    arrays, found = artefact.load(path, KIND)
    try:
        metadata = validated(OperatorMetadata, found)
        operator_class = find(metadata.method).operator
        attribute = Attribute.from_facts(metadata.attribute)
        made_by = EncoderRef(**metadata.encoder.model_dump())
        operator = operator_class.restore(attribute, arrays, metadata.settings, made_by)
        operator.params = dict(metadata.params)
        if not {"image", "text"}.issuperset(operator.changes):
            raise ValueError(f"it changes {operator.changes}")
    except InputError:
        raise
    except artefact.NOT_WHOLE as error:
        raise ArtefactError(
            f"{path} does not hold a whole operator ({error}); the file is damaged, so fit it again"
        ) from None
    return operator.bind(encoder) if encoder is not None else operator


def from_pretrained(
    repo_id_or_folder: str | os.PathLike[str], *, encoder: Any = None, **options: Any
) -> Operator:
    """Load an operator from a folder or from the Hugging Face hub.

    options: revision, token, offline.
    """
    from equipoise import _hub as hub

    return load(hub.fetch(repo_id_or_folder, hub.OPERATOR, **options), encoder=encoder)
