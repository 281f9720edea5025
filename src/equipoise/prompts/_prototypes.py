"""Make prototypes from a book: encode each text once, and average groups on the sphere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import Entry, PromptBook

PROTOTYPES = ("both", "anchor", "variants")
_BATCH = 1024

Progress = Callable[[int, int], None]


def prompt_prototypes(
    encoder: Any,
    book: PromptBook,
    attribute: Attribute,
    *,
    prompts: Iterable[str] | None = None,
    prototype: str = "both",
    allow_partial: bool = False,
    progress: Progress | None = None,
) -> tuple[tuple[str, ...], Float64]:
    """Return the prompts and their unit prototypes (prompts, groups, d).

    prototype: "both" is the spherical mean of anchor and variants, "anchor" and "variants" are the
    ablations of the paper's Table 5. allow_partial leaves out the prompts that lack a group;
    otherwise they are an error.
    """
    if prototype not in PROTOTYPES:
        raise InputError(
            f"prototype={prototype!r} is not legal; pass one of {', '.join(PROTOTYPES)}"
        )
    if not isinstance(book, PromptBook) or not isinstance(attribute, Attribute):
        raise InputError(
            f"a book and an attribute are needed, and {type(book).__name__},"
            f" {type(attribute).__name__} were given; eq.PromptBook.load('people-gender') and"
            " eq.Attribute.load('gender') read them by name or from a file"
        )
    if prompts is None:
        prompts = book.prompts
    wanted = _covered(book, attribute, list(dict.fromkeys(prompts)), allow_partial)
    pairs = list(itertools.product(wanted, attribute.groups))
    texts = [_texts(book[prompt][group], prompt, group, prototype) for prompt, group in pairs]
    unique = list(dict.fromkeys(itertools.chain.from_iterable(texts)))
    vectors = dict(zip(unique, encode(encoder, unique, progress), strict=True))
    means = [_mean(vectors, group_texts) for group_texts in texts]
    shape = (len(wanted), len(attribute.groups), -1)
    return tuple(wanted), np.array(means).reshape(shape)


def _mean(vectors: dict[str, Float64], texts: tuple[str, ...]) -> Float64:
    """Return the spherical mean of the vectors of some texts."""
    rows = [vectors[text] for text in texts]
    return geometry.prototype(np.stack(rows))


def encode(encoder: Any, texts: Sequence[str], progress: Progress | None = None) -> Float64:
    """Return the rows (n, d) that anything with ``encode_text`` gives for texts, checked."""
    if not callable(getattr(encoder, "encode_text", None)):
        raise InputError(
            f"the encoder has no encode_text ({type(encoder).__name__}); pass one of"
            " eq.load_encoder, or any object that has it"
        )
    parts = []
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        rows = _float64(encoder.encode_text(batch))
        _require_rows(rows, batch)
        parts.append(rows)
        if progress:
            progress(start + len(batch), len(texts))
    return np.concatenate(parts)


def _float64(rows: Any) -> Float64:
    """Return rows as a numpy array, torch's too."""
    if hasattr(rows, "detach"):
        return rows.detach().cpu().double().numpy()
    return np.asarray(rows, dtype=np.float64)


def _require_rows(rows: Float64, texts: list[str]) -> None:
    """Raise unless there is one row per text, finite and not zero."""
    if rows.ndim != 2 or len(rows) != len(texts):
        raise InputError(
            f"encode_text gave shape {rows.shape} for {len(texts)} texts; it must give one row"
            " per text"
        )
    lengths = np.linalg.norm(rows, axis=1)
    good = np.isfinite(lengths) & (lengths > 0)
    if not good.all():
        bad = texts[int(np.argmin(good))]
        raise InputError(
            f"encode_text gave NaN, infinity or zero for {bad!r}; look for a failed encoding"
        )


def _covered(
    book: PromptBook, attribute: Attribute, prompts: list[str], allow_partial: bool
) -> list[str]:
    """Return the prompts that have every group; the others are an error unless allowed."""
    missing = book.missing(prompts, attribute)
    if missing and not allow_partial:
        raise InputError(
            f"the book lacks {len(missing)} of {len(prompts)} prompts x {len(attribute.groups)}"
            f" groups, first {missing[0].prompt!r} for {missing[0].group!r}; write them, or pass"
            " allow_partial to leave those prompts out"
        )
    lacking = {prompt for prompt, _ in missing}
    kept = [prompt for prompt in prompts if prompt not in lacking]
    if not kept:
        raise InputError(
            f"no prompt of the book has every group of {attribute}; its groups are"
            f" {', '.join(book.groups) or 'none'}"
        )
    return kept


def _texts(entry: Entry, prompt: str, group: str, prototype: str) -> tuple[str, ...]:
    """Return the texts of an entry that go into its prototype."""
    if prototype == "anchor":
        return (entry.anchor,)
    if prototype == "both":
        return entry.texts
    if not entry.variants:
        raise InputError(
            f'{prompt!r} has no variants for {group!r}, so prototype="variants" cannot be made;'
            ' write some, or use "both"'
        )
    return entry.variants
