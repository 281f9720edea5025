"""Texts that methods are fitted on: prototypes, matched prompts that differ in the group alone,
texts with the group they state.
"""

from __future__ import annotations

import itertools

import numpy as np

from equipoise import geometry
from equipoise.geometry import Float64
from equipoise.methods._closed_form import book_of, shared_space
from equipoise.methods._context import FitContext
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prototypes import encode, prompt_prototypes


def prototypes(method: str, context: FitContext, prototype: str = "both") -> Float64:
    """(groups, d): the unit prototype of each group, given or from the book."""
    return shared_space(method, context, 1.0, prototype).parts[0].prototypes


def matched(method: str, context: FitContext, prototype: str = "both") -> Float64:
    """(m, groups, d): unit rows that differ in the group alone; from the book, one for each of its
    prompts.

    Prototypes given as embeddings (m, d) of every group are matched by their place; otherwise m is
    1.
    """
    if context.prototypes is None:
        encoder, book = book_of(method, context)
        return prompt_prototypes(encoder, book, context.attribute, prototype=prototype)[1]
    means = prototypes(method, context)
    rows = [
        np.atleast_2d(np.asarray(context.prototypes[group], np.float64))
        for group in context.attribute.groups
    ]
    return (
        geometry.unit(np.stack(rows, axis=1))
        if len({len(row) for row in rows}) == 1
        else means[None]
    )


def differences(rows: Float64) -> Float64:
    """(n, d): rows whose Gram matrix is the mean of (z_g - z_h)(z_g - z_h)^T over all matched
    pairs; they span all differences.
    """
    groups = rows.shape[1]
    pairs = len(rows) * groups * (groups - 1) / 2
    centred = rows - rows.mean(
        axis=1, keepdims=True
    )  # the pairs of one prompt sum to its centred rows, times the number of groups
    return centred.reshape(-1, rows.shape[-1]) * np.sqrt(groups / pairs)


def labelled_texts(method: str, context: FitContext) -> tuple[Float64, np.ndarray]:
    """Unit rows (n, d) of texts, anchors and variants alike, and the place of the group that each
    states.
    """
    if context.prototypes is not None:
        prototypes(method, context)  # checks them
        given = [
            np.atleast_2d(np.asarray(context.prototypes[group], np.float64))
            for group in context.attribute.groups
        ]
        return geometry.unit(np.concatenate(given)), np.repeat(
            np.arange(len(given)), [len(rows) for rows in given]
        )
    encoder, book = book_of(method, context)
    groups = context.attribute.groups
    said = [
        (text, i)
        for prompt, i in itertools.product(book.prompts, range(len(groups)))
        for text in book[prompt][groups[i]].texts
    ]
    unique = dict.fromkeys(said)
    return geometry.unit(encode(encoder, [text for text, _ in unique])), np.array(
        [i for _, i in unique]
    )


def bare_words(attribute: Attribute) -> list[str]:
    """The shortest way to say each group: "man" and "woman", "young" and "old"; an intersection's
    groups by their names.
    """
    if len(attribute.parts) > 1:
        return list(attribute.groups)
    nouns = [attribute.wordings[group].nouns.get("person", ()) for group in attribute.groups]
    short = all(words and " " not in words[0] for words in nouns)
    return [
        words[0] if short else attribute.wordings[group].adjectives[0]
        for group, words in zip(attribute.groups, nouns, strict=True)
    ]
