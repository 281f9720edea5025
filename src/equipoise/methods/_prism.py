"""``prism``: one linear map for images and texts, learned from prompts alone.

The method is that of Molahasani et al. 2025: texts of one prompt and two groups are drawn together,
texts of two prompts and one group are pushed apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise import geometry, kernels
from equipoise.errors import InputError
from equipoise.kernels._recipe import PROJECT, LowRank
from equipoise.methods._context import FitContext
from equipoise.methods._networks import Net, NetworkOperator, unit
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method
from equipoise.methods._training import Batches, Stage, choose, machine, require_numbers, train

INITS = ("random", "identity", "orth")
TEXT_NORMS = ("unit", "raw")


class PrismOperator(NetworkOperator):
    """The rows ``W x``, or x without its part in the span of a thin basis."""

    method = "prism"

    @cached_property
    def low_rank(self) -> LowRank | None:
        """Return what the projection takes away, for the kernels; None for a map."""
        if "bases" not in self.net:
            return None
        return LowRank.projection(np.ascontiguousarray(self.net["bases"].T))

    def changed(self, net: Net, rows: Any, modality: Modality) -> Any:
        return rows @ net["map"].T

    def _through(self, rows: Any, modality: Modality) -> Any:
        if self.low_rank is None:
            return super()._through(rows, modality)
        length = "unit" if self.unit or modality == "image" else "raw"
        return kernels.debias(rows, self.low_rank, PROJECT, length)

    @property
    def unit(self) -> bool:
        """Return whether the rows that it changes come out at unit length."""
        return self.options["text_norm"] == "unit"

    def _ended(self, rows: Any, modality: Modality) -> Any:
        return unit(rows) if self.unit or modality == "image" else rows


@dataclass(frozen=True)
class Prism(Method):
    """Parameters of ``prism``.

    init: how the map starts: "random", as in the reference, "identity", or "orth", the projection
    off the span of the group prototypes. bases: above 0, a projection off so many learned
    directions instead of a map. text_norm: "unit" compares by cosine; "raw" leaves texts as long as
    the map makes them, as the reference code does, so that long classes win. samples: how many
    quadruples of texts are drawn for every epoch.
    """

    margin: float = 0.5
    init: Literal["random", "identity", "orth"] = "random"
    bases: int = 0
    text_norm: Literal["unit", "raw"] = "unit"
    lr: float = 0.1
    samples: int = 500
    batch: int = 3
    epochs: int = 1

    name: ClassVar[str] = "prism"
    summary: ClassVar[str] = (
        "a linear map on images and texts, learned from group prompts with a contrastive loss"
    )
    source: ClassVar[str] = "Molahasani et al. 2025"
    needs: ClassVar[tuple[str, ...]] = ("book",)
    training: ClassVar[str] = "a linear map, some 170 steps"
    code: ClassVar[str] = "texts keep the length that the map gives them (text_norm=raw)"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = PrismOperator

    def fit(self, context: FitContext) -> PrismOperator:
        choose("init", self.init, INITS)
        choose("text_norm", self.text_norm, TEXT_NORMS)
        counts = {
            "bases": (self.bases, 0),
            "samples": (self.samples, 1),
            "batch": (self.batch, 1),
            "epochs": (self.epochs, 0),
        }
        require_numbers(counts, whole=True)
        texts = BookTexts.of(self.name, context)
        here = machine(self.name, context.device)
        rows = here.tensor(texts.rows)
        batches = Batches(self.samples, self.batch, context.seed)

        def loss(state: Net, step: int) -> Any:
            rng = np.random.default_rng([context.seed, 2, step])
            at = here.tensor(texts.draw(rng, len(batches[step])))
            n1, n2, p1, p2 = (unit(_mapped(here.torch, state, rows[column])) for column in at.T)
            apart = ((n1 * n2).sum(1) - self.margin).clip(min=0)
            return (1 - (p1 * p2).sum(1)).mean() + apart.mean()

        start = self._start(context.seed, texts)
        stage = Stage("prism", context, asdict(self), {"rows": texts.rows, "cells": texts.starts})
        steps = self.epochs * batches.steps
        net = train(stage, here, start, loss, list(start), steps=steps, lr=self.lr)
        if self.bases:
            net = {"bases": np.linalg.qr(net["bases"].T)[0].T}
        else:
            net = {"map": net["map"].astype(np.float32)}
        options = {"text_norm": self.text_norm}
        params = asdict(self) | {"seed": context.seed, "texts": len(texts.rows)}
        return PrismOperator(
            context.attribute,
            net,
            options,
            ("image", "text"),
            rows.shape[1],
            encoder=context.encoder,
            params=params,
        )

    def _start(self, seed: int, texts: BookTexts) -> dict[str, np.ndarray]:
        rng, dim = np.random.default_rng([seed, 1]), texts.rows.shape[1]
        if self.bases > dim:
            raise InputError(
                f"bases={self.bases} is not legal: the embeddings have {dim} dimensions; pass a few"
            )
        if self.bases:
            return {"bases": rng.standard_normal((self.bases, dim))}
        if self.init == "random":
            return {"map": rng.uniform(-(dim**-0.5), dim**-0.5, (dim, dim))}
        if self.init == "identity":
            return {"map": np.eye(dim)}
        basis = geometry.span_basis(texts.prototypes())
        return {"map": np.eye(dim) - basis @ basis.T}


def _mapped(torch: Any, state: Net, rows: Any) -> Any:
    if "map" in state:
        return rows @ state["map"].T
    # The projection of the reference, without inverting V V^T.
    basis, _ = torch.linalg.qr(state["bases"].T)
    return rows - (rows @ basis) @ basis.T


class BookTexts:
    """The book's texts as unit rows in float64, by prompt and group.

    Cell (p, g) holds rows starts[p, g] to starts[p, g] + counts[p, g].
    """

    def __init__(self, rows: np.ndarray, starts: np.ndarray, counts: np.ndarray):
        self.rows, self.starts, self.counts = rows, starts, counts

    @classmethod
    def of(cls, method: str, context: FitContext) -> BookTexts:
        """Return the texts, encoded by the context's encoder or text table."""
        if context.text_encoder is None or context.book is None:
            raise InputError(
                f"{method} needs a book and an encoder or text_table; the context lacks"
                f" {_missing(context)}"
            )
        groups = context.attribute.groups
        every: list[str] = []
        counts = []
        for entries in context.book.prompts.values():
            if set(groups) <= set(entries):
                cells = [entries[group].texts for group in groups]
                counts.append([len(texts) for texts in cells])
                for texts in cells:
                    every += texts
        if len(counts) < 2:
            raise InputError(
                f"{method} compares prompts, and the book has {len(counts)} with every group of"
                f" {context.attribute.name}; write a book of two prompts or more"
            )
        sizes = np.array(counts)
        starts = np.cumsum(sizes).reshape(sizes.shape) - sizes
        encoded = np.asarray(context.text_encoder.encode_text(every), np.float64)
        return cls(unit(encoded), starts, sizes)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw rows (count, 4): n1, n2 share a group, p1, p2 share a prompt.

        n1 and n2 are of two prompts, p1 and p2 of two groups. Every choice is a draw of its own.
        """
        prompts, groups = self.counts.shape
        first, second = _two(rng, prompts, count)
        one, other = _two(rng, groups, count)
        prompt, group = rng.integers(0, prompts, count), rng.integers(0, groups, count)
        cells = ((first, group), (second, group), (prompt, one), (prompt, other))
        drawn = [self.starts[cell] + rng.integers(0, self.counts[cell]) for cell in cells]
        return np.stack(drawn, axis=1)

    def prototypes(self) -> np.ndarray:
        """Return the mean text (groups, d) of each group over the prompts."""
        means = np.empty((*self.starts.shape, self.rows.shape[1]))
        for cell in np.ndindex(*self.starts.shape):
            first, count = self.starts[cell], self.counts[cell]
            means[cell] = self.rows[first : first + count].mean(0)
        return unit(np.mean(means, axis=0))


def _two(rng: np.random.Generator, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two different places, ``count`` times."""
    first = rng.integers(0, size, count)
    return first, (first + rng.integers(1, size, count)) % size


def _missing(context: FitContext) -> str:
    missing = []
    if context.book is None:
        missing.append("a book")
    if context.text_encoder is None:
        missing.append("an encoder or text_table")
    return " and ".join(missing)


METHOD = Prism
