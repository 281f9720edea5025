"""From a book to prototypes: the texts of each group encoded once, and averaged on the sphere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import Entry, PromptBook

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
    """The prompts, and their unit prototypes (prompts, groups, d).

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
    wanted = _covered(
        book,
        attribute,
        list(dict.fromkeys(book.prompts if prompts is None else prompts)),
        allow_partial,
    )
    texts = {
        (prompt, group): _texts(book[prompt][group], prompt, group, prototype)
        for prompt in wanted
        for group in attribute.groups
    }
    unique = list(dict.fromkeys(text for group_texts in texts.values() for text in group_texts))
    vectors = dict(zip(unique, encode(encoder, unique, progress), strict=True))
    rows = [
        [
            geometry.prototype(np.stack([vectors[text] for text in texts[prompt, group]]))
            for group in attribute.groups
        ]
        for prompt in wanted
    ]
    return tuple(wanted), np.array(rows)


def encode(encoder: Any, texts: Sequence[str], progress: Progress | None = None) -> Float64:
    """Unit rows (n, d) of texts, from anything that has ``encode_text``; checked."""
    if not callable(getattr(encoder, "encode_text", None)):
        raise InputError(
            f"the encoder has no encode_text ({type(encoder).__name__}); pass one of"
            " eq.load_encoder, or any object that has it"
        )
    parts = []
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        rows = encoder.encode_text(batch)
        rows = (
            rows.detach().cpu().double().numpy()
            if hasattr(rows, "detach")
            else np.asarray(rows, dtype=np.float64)
        )
        if rows.ndim != 2 or len(rows) != len(batch):
            raise InputError(
                f"encode_text gave shape {rows.shape} for {len(batch)} texts; it must give one row"
                " a text"
            )
        lengths = np.linalg.norm(rows, axis=1)
        if not (np.isfinite(lengths).all() and lengths.all()):
            bad = batch[int(np.argmin(np.isfinite(lengths) & (lengths > 0)))]
            raise InputError(
                f"encode_text gave NaN, infinity or zero for {bad!r}; look for a failed encoding"
            )
        parts.append(rows)
        if progress:
            progress(start + len(batch), len(texts))
    return np.concatenate(parts)


def _covered(
    book: PromptBook, attribute: Attribute, prompts: list[str], allow_partial: bool
) -> list[str]:
    missing = book.missing(prompts, attribute)
    if missing and not allow_partial:
        raise InputError(
            f"the book lacks {len(missing)} of {len(prompts)} prompts x {len(attribute.groups)}"
            f" groups, first {missing[0].prompt!r} for {missing[0].group!r}; write them, or pass"
            " allow_partial to leave those prompts out"
        )
    lacking = {prompt for prompt, _ in missing}
    if not (kept := [prompt for prompt in prompts if prompt not in lacking]):
        raise InputError(
            f"no prompt of the book has every group of {attribute}; its groups are"
            f" {', '.join(book.groups) or 'none'}"
        )
    return kept


def _texts(entry: Entry, prompt: str, group: str, prototype: str) -> tuple[str, ...]:
    if prototype == "anchor":
        return (entry.anchor,)
    if prototype == "variants" and not entry.variants:
        raise InputError(
            f'{prompt!r} has no variants for {group!r}, so prototype="variants" cannot be made;'
            ' write some, or use "both"'
        )
    return entry.variants if prototype == "variants" else entry.texts
