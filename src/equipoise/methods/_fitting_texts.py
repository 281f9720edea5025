"""Texts that methods are fitted on.

They are prototypes, matched prompts that differ in the group alone, or texts with the group that
they state.
"""

from __future__ import annotations

import numpy as np

from equipoise import geometry
from equipoise.geometry import Float64
from equipoise.methods._closed_form import book_of, shared_space
from equipoise.methods._context import FitContext
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prototypes import encode, prompt_prototypes


def prototypes(method: str, context: FitContext, prototype: str = "both") -> Float64:
    """Return the unit prototype (groups, d) of each group, given or from the book."""
    return shared_space(method, context, 1.0, prototype).parts[0].prototypes


def matched_texts(method: str, context: FitContext, prototype: str = "both") -> Float64:
    """Return unit rows (m, groups, d) that differ in the group alone.

    From the book there is one for each of its prompts. Prototypes given as embeddings (m, d) of
    every group are matched by their place; otherwise m is 1.
    """
    if context.prototypes is None:
        encoder, book = book_of(method, context)
        return prompt_prototypes(encoder, book, context.attribute, prototype=prototype)[1]
    means = prototypes(method, context)
    given = _given(context)
    if len({len(rows) for rows in given}) > 1:
        return means[None]
    return geometry.unit(np.stack(given, axis=1))


def differences(rows: Float64) -> Float64:
    """Return rows (n, d) that span all differences of matched pairs.

    Their Gram matrix is the mean of (z_g - z_h)(z_g - z_h)^T over all matched pairs.
    """
    groups = rows.shape[1]
    pairs = len(rows) * groups * (groups - 1) / 2
    # The pairs of one prompt sum to its centred rows, times the number of groups.
    centred = rows - rows.mean(axis=1, keepdims=True)
    return centred.reshape(-1, rows.shape[-1]) * np.sqrt(groups / pairs)


def labelled_texts(method: str, context: FitContext) -> tuple[Float64, np.ndarray]:
    """Return unit rows (n, d) of texts, and the place (n,) of the group that each states.

    Anchors and variants are texts alike.
    """
    if context.prototypes is not None:
        prototypes(method, context)  # checks them
        given = _given(context)
        codes = np.repeat(np.arange(len(given)), [len(rows) for rows in given])
        return geometry.unit(np.concatenate(given)), codes
    encoder, book = book_of(method, context)
    said: dict[tuple[str, int], None] = {}  # each text of a group once, in order
    for prompt in book.prompts:
        for i, group in enumerate(context.attribute.groups):
            said |= dict.fromkeys((text, i) for text in book[prompt][group].texts)
    texts = [text for text, _ in said]
    return geometry.unit(encode(encoder, texts)), np.array([i for _, i in said])


def _given(context: FitContext) -> list[Float64]:
    """Return the given prototypes of each group, as rows (m, d)."""
    named = context.prototypes or {}
    found = []
    for group in context.attribute.groups:
        found.append(np.atleast_2d(np.asarray(named[group], np.float64)))
    return found


def bare_words(attribute: Attribute) -> list[str]:
    """Return the shortest way to say each group: "man" and "woman", "young" and "old".

    The groups of an intersection go by their names.
    """
    if len(attribute.parts) > 1:
        return list(attribute.groups)
    nouns = [attribute.wordings[group].nouns.get("person", ()) for group in attribute.groups]
    if all(words and " " not in words[0] for words in nouns):
        return [words[0] for words in nouns]
    return [attribute.wordings[group].adjectives[0] for group in attribute.groups]
