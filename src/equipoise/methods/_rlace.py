"""``rlace``: images projected off the directions without which a classifier can read no group.

Relaxed linear adversarial concept erasure (Ravfogel et al. 2022) is a game. A linear classifier
reads the groups from what a matrix leaves of the images, and the matrix hides what the classifier
reads them by. The matrix may hide a direction in part; its leading directions are the answer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method

FEW = 8  # rows per group
LOOK = 10  # rounds after which the leading directions are tried
BISECTIONS = 60


class RlaceOperator(LowRankOperator):
    """The projection off what the game has found."""

    method = "rlace"


@dataclass(frozen=True)
class Rlace(Method):
    """Parameters of ``rlace``.

    rank: how many directions are hidden; None is the number of groups less one. rounds: moves of
    the matrix at most. step: how far the first moves go; later ones are shorter. close: the game
    ends where the classifier's loss is this share of the most that it can be, the entropy of the
    groups. renormalise: False, as in the code, leaves rows the length that is left.
    """

    rank: int | None = None
    rounds: int = 200
    step: float = 0.2
    close: float = 0.999
    renormalise: bool = False

    name: ClassVar[str] = "rlace"
    summary: ClassVar[str] = "images projected off what wins a game against a linear classifier"
    source: ClassVar[str] = "Ravfogel et al. 2022"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    training: ClassVar[str] = "a linear classifier, in a game"
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[str] = (
        "both sides move by one step on a batch; here the classifier gives its best answer to"
        " each move"
    )
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = RlaceOperator

    def fit(self, context: FitContext) -> RlaceOperator:
        rows, codes = labelled_images(self.name, context, FEW)
        rank = self._rank(len(context.attribute.groups), rows.shape[1])
        centred = (rows - rows.mean(0)) * np.sqrt(rows.shape[1])  # so that entries are about one
        basis = self._play(centred, codes, rank, context.seed)
        maps: dict[Modality, LowRank] = {"image": LowRank.projection(basis)}
        params = asdict(self) | {"images": len(rows), "rank": rank}
        return RlaceOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=params
        )

    def _rank(self, groups: int, dim: int) -> int:
        rank = groups - 1 if self.rank is None else self.rank
        if not 1 <= rank <= dim // 2:
            raise InputError(f"rank={rank} is not legal; pass a whole number from 1 to {dim // 2}")
        if self.rounds < 1 or self.step <= 0 or not 0 < self.close <= 1:
            raise InputError(
                f"rounds={self.rounds} (from 1), step={self.step} (above 0) or close={self.close}"
                " (above 0, to 1) is not legal"
            )
        return rank

    def _play(self, rows: Float64, codes: np.ndarray, rank: int, seed: int) -> Float64:
        """Return the directions (d, rank) that left a classifier the most loss in the game."""
        dim = rows.shape[1]
        drawn = np.random.default_rng(seed).standard_normal((dim, dim)) / 10
        hidden = fantope(drawn + drawn.T, rank)
        reader, judge = _Reader(), _Reader()
        most = self.close * _entropy(codes)
        best, found = -1.0, np.empty((dim, 0))
        for move in range(1, self.rounds + 1):
            gradient = reader.answer(rows - rows @ hidden, codes).gradient(rows)
            length = np.linalg.norm(gradient)
            if length > 0:
                gradient *= self.step / np.sqrt(move) / length
            hidden = fantope(hidden + gradient, rank)
            if move % LOOK and move < self.rounds:
                continue
            basis = np.linalg.eigh(hidden)[1][:, -rank:]
            loss = judge.answer(rows - (rows @ basis) @ basis.T, codes).loss
            if loss > best:
                best, found = loss, basis
            if best >= most:
                break
        return found


class _Answer(NamedTuple):
    """A classifier's best answer: its weights (k, d), what it is wrong by (n, k), and its loss."""

    weights: Float64
    wrong: Float64
    loss: float

    def gradient(self, rows: Float64) -> Float64:
        """Return how the loss grows with what is hidden of the rows, as a symmetric matrix."""
        slope = -(rows.T @ self.wrong) @ self.weights / len(rows)
        return slope + slope.T


class _Reader:
    """A logistic classifier that goes on from its last answer."""

    def __init__(self) -> None:
        from sklearn.linear_model import LogisticRegression

        self.model: Any = LogisticRegression(max_iter=300, warm_start=True)

    def answer(self, rows: Float64, codes: np.ndarray) -> _Answer:
        self.model.fit(rows, codes)
        shares = self.model.predict_proba(rows)
        of_own = shares[np.arange(len(codes)), codes]
        loss = -float(np.log(np.maximum(of_own, 1e-300)).mean())
        wrong = shares - np.eye(shares.shape[1])[codes]
        if len(self.model.coef_) == 1:  # of two groups there are weights for the second alone
            wrong = wrong[:, 1:]
        return _Answer(self.model.coef_, wrong, loss)


def fantope(matrix: Float64, rank: int) -> Float64:
    """Return the nearest matrix whose eigenvalues are from 0 to 1 and sum up to ``rank``.

    Eigenvalues are moved by one number and cut off; the number is found by bisection.
    """
    values, vectors = np.linalg.eigh(matrix)
    low, high = values.min() - 1, values.max()
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if np.clip(values - middle, 0, 1).sum() > rank:
            low = middle
        else:
            high = middle
    return (vectors * np.clip(values - high, 0, 1)) @ vectors.T


def _entropy(codes: np.ndarray) -> float:
    shares = np.bincount(codes) / len(codes)
    shares = shares[shares > 0]
    return -float((shares * np.log(shares)).sum())


METHOD = Rlace
