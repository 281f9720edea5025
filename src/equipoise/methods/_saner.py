"""``saner``: a residual that brings neutral texts equally close to all groups (Hirota et al. 2025).

The gate is part of the method: a prompt that states a group itself passes as it is. No code was
released; defaults are the paper's as far as they are known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InputError
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import directed_images
from equipoise.methods._networks import Net, NetworkOperator, linear, mlp, unit
from equipoise.methods._operator import Gate, Modality, Operator
from equipoise.methods._registry import Method, Strength
from equipoise.methods._training import (
    Batches,
    Stage,
    machine,
    require_numbers,
    train,
    trained_with,
)
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._grammar import CannotWrite, write_entry
from equipoise.prompts._neutral_captions import neutralize
from equipoise.prompts._stated_groups import explicit_groups

SCALE = 100.0  # of similarities in the contrastive loss, as CLIP's
TINY = 1e-12  # under the root of a variance, whose slope is infinite at zero


class SanerOperator(NetworkOperator):
    """The rows ``z + amount * MLP(z)``, for texts that state no group."""

    method = "saner"

    def changed(self, net: Net, rows: Any, modality: Modality) -> Any:
        return rows + self.options["amount"] * mlp(net, ("hidden", "out"), rows)

    def text(self, rows: Any, prompts: Any = None, gate: Gate = None) -> Any:
        """Return debiased texts (n, d). gate None: the method's own, where prompts are given."""
        own = bool(self.options["gate"]) and prompts is not None
        return super().text(rows, prompts, own if gate is None else gate)


@dataclass(frozen=True)
class Saner(Method):
    """Parameters of ``saner``.

    debias, reconstruct, contrast: the weights of the three losses; contrast needs the image of each
    caption, and is left out without images. gate: whether prompts that state a group pass as they
    are. amount: how much of the fitted residual is added.
    """

    debias: float = 1.0
    reconstruct: float = 0.1
    contrast: float = 1e-4
    gate: bool = True
    amount: float = 1.0
    hidden: int = 128
    lr: float = 5e-6
    batch: int = 128
    epochs: int = 5

    name: ClassVar[str] = "saner"
    summary: ClassVar[str] = (
        "a learned residual on texts that makes neutral captions equally close to all groups"
    )
    source: ClassVar[str] = "Hirota et al. 2025"
    changes: ClassVar[tuple[str, ...]] = ("text",)
    needs: ClassVar[tuple[str, ...]] = ("neutral texts",)
    training: ClassVar[str] = "an MLP on texts"
    tasks: ClassVar[tuple[str, ...]] = ("retrieval", "generation")
    sweep: ClassVar[Strength | None] = Strength("amount", 0, (0.25, 0.5, 0.75, 1.0))
    operator: ClassVar[type[Operator]] = SanerOperator

    def fit(self, context: FitContext) -> SanerOperator:
        weights = {
            "debias": self.debias,
            "reconstruct": self.reconstruct,
            "contrast": self.contrast,
            "amount": self.amount,
        }
        require_numbers({name: (value, 0) for name, value in weights.items()})
        require_numbers(
            {"hidden": (self.hidden, 1), "batch": (self.batch, 1), "epochs": (self.epochs, 0)},
            whole=True,
        )
        data = _corpus(context)
        here = machine(self.name, context.device)
        neutral, stated = here.tensor(data.neutral), here.tensor(data.stated)
        images = None if data.images is None else here.tensor(data.images)
        batches = Batches(len(neutral), self.batch, context.seed)
        cross_entropy = here.torch.nn.functional.cross_entropy

        def loss(state: Net, step: int) -> Any:
            at = here.tensor(batches[step])
            added = mlp(state, ("hidden", "out"), neutral[at])
            rows = unit(neutral[at] + added)
            # (texts, groups): similarity to the form for each group
            close = (stated[at] * rows[:, None]).sum(-1)
            spread = (close.var(1, correction=0) + TINY) ** 0.5
            moved = (added * added).sum(1).mean()
            total = self.debias * spread.mean() + self.reconstruct * moved
            if images is None:
                return total
            alike = SCALE * rows @ images[at].T
            own = here.tensor(np.arange(len(at)))
            both_ways = cross_entropy(alike, own) + cross_entropy(alike.T, own)
            return total + self.contrast * both_ways / 2

        rng, dim = np.random.default_rng([context.seed, 1]), neutral.shape[1]
        # The last layer starts at nothing, so that without a debiasing loss texts stay exactly as
        # they are.
        start = linear(rng, "hidden", dim, self.hidden)
        start |= linear(rng, "out", self.hidden, dim, zero=True)
        inputs = {"neutral": data.neutral, "stated": data.stated}
        if data.images is not None:
            inputs["images"] = data.images
        stage = Stage("saner", context, trained_with(self), inputs)
        steps = self.epochs * batches.steps
        net = train(stage, here, start, loss, list(start), steps=steps, lr=self.lr)
        options = {"amount": self.amount, "gate": self.gate}
        params = asdict(self) | {
            "seed": context.seed,
            "texts": len(data.neutral),
            "texts_left_out": data.left_out,
            "with_images": images is not None,
        }
        return SanerOperator(
            context.attribute, net, options, ("text",), dim, encoder=context.encoder, params=params
        )


class _Corpus(NamedTuple):
    """What is trained on: neutral (n, d), stated (n, groups, d), images (n, d) or None, unit rows.

    left_out: how many captions no group can be put into.
    """

    neutral: np.ndarray
    stated: np.ndarray
    images: np.ndarray | None
    left_out: int


def _corpus(context: FitContext) -> _Corpus:
    if context.text_encoder is None or (context.captions is None and context.book is None):
        raise InputError(
            "saner needs captions (or a book) and an encoder or text_table, and the context lacks"
            " one of them"
        )
    images = None
    if context.captions is None:
        texts, count = _from_book(context), len(context.book or ())
        kept = sorted(texts)
    else:
        texts, count = _from_captions(context), len(context.captions)
        kept = sorted(texts)
        if context.images is not None:
            kept, images = _paired(context, kept, count)
    if not kept:
        raise InputError(
            "saner found no text that groups can be put into; pass captions or prompts about a"
            " person"
        )
    every = [text for i in kept for text in texts[i]]
    unique = list(dict.fromkeys(every))
    encoded = unit(np.asarray(context.text_encoder.encode_text(unique), np.float64))
    place = {text: i for i, text in enumerate(unique)}
    rows = encoded.astype(np.float32)[[place[text] for text in every]]
    rows = rows.reshape(len(kept), 1 + len(context.attribute.groups), -1)
    return _Corpus(rows[:, 0], np.ascontiguousarray(rows[:, 1:]), images, count - len(kept))


def _paired(context: FitContext, places: list[int], count: int) -> tuple[list[int], np.ndarray]:
    """Return the places whose image has a direction, and the unit rows of these images."""
    rows, good = directed_images(context)
    if len(good) != count:
        raise InputError(
            f"saner pairs captions with images, and there are {count} captions and {len(good)}"
            " images; pass one for each"
        )
    kept = [i for i in places if good[i]]
    row_of_place = np.cumsum(good) - 1
    return kept, rows[row_of_place[kept]].astype(np.float32)


def _from_captions(context: FitContext) -> dict[int, tuple[str, ...]]:
    """Return, by the place of a caption, its neutral form and that form with each group put in.

    Blank captions and those about nobody are left out.
    """
    found = {}
    for i, caption in enumerate(context.captions if context.captions is not None else ()):
        if not isinstance(caption, str) or not caption.strip():
            continue
        neutral = neutralize(caption, context.attribute)
        try:
            found[i] = (neutral, *_stated(neutral, context.attribute))
        except CannotWrite:
            continue
    return found


def _from_book(context: FitContext) -> dict[int, tuple[str, ...]]:
    """Return, by their place, the prompts that state no group, and their anchors."""
    if not context.book:
        return {}
    groups = context.attribute.groups
    found = {}
    for i, (prompt, entries) in enumerate(context.book.prompts.items()):
        complete = set(groups) <= set(entries)
        if complete and not explicit_groups(prompt, context.attribute):
            found[i] = (prompt, *(entries[group].anchor for group in groups))
    return found


def _stated(neutral: str, attribute: Attribute) -> list[str]:
    return [write_entry(neutral, attribute, group, most=0).anchor for group in attribute.groups]


METHOD = Saner
