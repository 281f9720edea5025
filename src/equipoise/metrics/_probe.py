"""The leakage probe: what an adversary with labels reads from embeddings, after debiasing too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._intervals import Bootstrap, LeaveOneOut, check_methods
from equipoise.metrics._labels import Coded, encode_groups
from equipoise.metrics._resample_lists import multiplicities

METRIC = "probe AUC"


def leakage_probe(
    embeddings: Any,
    *,
    sensitive_features: Any,
    folds: int = 5,
    strength: float = 1.0,
    resamples: int = 1000,
    seed: int = 0,
) -> Bootstrap:
    """Return the AUC of a cross-validated linear classifier that guesses the group.

    0.5 reads nothing, 1 everything. The metric is called "probe AUC".

    embeddings: a mapping of method -> (n, d), or one (n, d), which is called "embeddings". All are
    probed on the same folds and the same resamples of rows, so differences are paired. Every row is
    scored by a classifier that has not seen it (logistic regression on standardised columns,
    scikit-learn's C = ``strength``), and compared with rows of its own fold only. With more than
    two groups: the mean AUC of one group against the rest. Rows of an unknown group are left out.
    The interval is of the scored rows; the classifiers are not fitted again.
    """
    given = embeddings if isinstance(embeddings, Mapping) else {"embeddings": embeddings}
    arrays = {name: _rows(x) for name, x in check_methods(given, resamples, "embeddings").items()}
    lengths = [len(x) for x in arrays.values()]
    if len(set(lengths)) != 1:
        raise InputError(f"the embeddings have {lengths} rows; paired probes need the same rows")
    groups = encode_groups(sensitive_features, lengths[0])
    _check(groups, folds, strength)
    codes = groups.codes[groups.known]
    contests = {
        (name, METRIC): _contests(x[groups.known], codes, folds, strength, seed)
        for name, x in arrays.items()
    }
    once = np.ones((1, len(codes)), np.uint16)
    values = {key: float(_auc(contest, once)[0]) for key, contest in contests.items()}
    rng = np.random.default_rng(seed)
    parts: dict[tuple[str, str], list] = {key: [] for key in contests}
    for _ in range(resamples):
        times = multiplicities(rng, len(codes), 1)
        for key, contest in contests.items():
            parts[key].append(_auc(contest, times))

    def leave_one_out(key: tuple[str, str]) -> list[LeaveOneOut]:
        without_each = np.mean([_auc_without_each(c) for c in contests[key]], axis=0)
        return [LeaveOneOut(without_each, np.ones(len(codes), np.int64))]

    replicates = {key: np.concatenate(part) for key, part in parts.items()}
    left_out = int((~groups.known).sum())
    return Bootstrap(values, replicates, leave_one_out, "images", len(codes), left_out)


class _Contest(NamedTuple):
    """One group against the rest: rows sorted by fold and score, in blocks of equal ones."""

    order: np.ndarray  # (n,) rows
    positive: np.ndarray  # (n,) bool, sorted
    blocks: np.ndarray  # where each block of equal scores starts
    folds: np.ndarray  # which block each fold starts with

    @classmethod
    def of(cls, scores: np.ndarray, positive: np.ndarray, fold: np.ndarray) -> _Contest:
        order = np.lexsort((scores, fold))
        s, f = scores[order], fold[order]
        new_fold = np.r_[True, f[1:] != f[:-1]]
        starts = np.flatnonzero(new_fold | np.r_[True, s[1:] != s[:-1]])
        return cls(order, positive[order], starts, np.flatnonzero(new_fold[starts]))

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight in each block, and in the blocks before it in its fold.

        weights (..., n), sorted.
        """
        inside = np.add.reduceat(weights, self.blocks, axis=-1)
        before = np.cumsum(inside, axis=-1) - inside
        lengths = np.diff(np.r_[self.folds, len(self.blocks)])
        return inside, before - np.repeat(before[..., self.folds], lengths, axis=-1)

    def per_fold(self, by_block: np.ndarray) -> np.ndarray:
        return np.add.reduceat(by_block, self.folds, axis=-1)


def _auc(contests: list[_Contest], times: np.ndarray) -> np.ndarray:
    """Return the mean AUC (resamples,) over the contests.

    An AUC is the share of pairs of one fold in which the positive row scores higher; a tie counts
    half.
    """
    total = np.zeros(len(times))
    for c in contests:
        weights = times[:, c.order].astype(np.float64)
        up, _ = c.sums(weights * c.positive)
        down, below = c.sums(weights * ~c.positive)
        pairs = (c.per_fold(up) * c.per_fold(down)).sum(-1)
        total += (up * (below + down / 2)).sum(-1) / np.where(pairs > 0, pairs, np.nan)
    return total / len(contests)


def _auc_without_each(c: _Contest) -> np.ndarray:
    """Return the AUC with each row left out in turn (n,): its won pairs and all its pairs go."""
    up, up_below = c.sums(c.positive.astype(np.float64))
    down, below = c.sums((~c.positive).astype(np.float64))
    sizes = np.diff(np.r_[c.blocks, len(c.order)])
    lengths = np.diff(np.r_[c.folds, len(c.blocks)])
    ups, downs = (np.repeat(np.repeat(c.per_fold(x), lengths), sizes) for x in (up, down))
    won = np.where(
        c.positive, np.repeat(below + down / 2, sizes), ups - np.repeat(up_below + up / 2, sizes)
    )
    pairs = (c.per_fold(up) * c.per_fold(down)).sum()
    left = pairs - np.where(c.positive, downs, ups)
    out = np.empty(len(c.order))
    out[c.order] = ((up * (below + down / 2)).sum() - won) / np.where(left > 0, left, np.nan)
    return out


def _contests(
    x: np.ndarray, codes: np.ndarray, folds: int, strength: float, seed: int
) -> list[_Contest]:
    """Return one contest per group, or a single one for two groups.

    Each fold is scored by a classifier that was fitted on all the others.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    size = int(codes.max()) + 1
    scores = np.empty((len(x), 1 if size == 2 else size))
    fold = np.empty(len(x), int)
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, codes)
    # Of many small products, threads would wait for each other longer than they work.
    with threadpool_limits(1, user_api="blas"):
        for i, (train, test) in enumerate(splits):
            classifier = LogisticRegression(C=strength, max_iter=2000)
            model = make_pipeline(StandardScaler(), classifier).fit(x[train], codes[train])
            scores[test] = model.decision_function(x[test]).reshape(len(test), -1)
            fold[test] = i
    names = [1] if size == 2 else range(size)
    return [
        _Contest.of(column, codes == name, fold)
        for column, name in zip(scores.T, names, strict=True)
    ]


def _rows(x: Any) -> np.ndarray:
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    try:
        x = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "embeddings are not numbers, or their rows differ in length; pass (n, d)"
        ) from None
    if x.ndim != 2 or not x.size:
        raise InputError(f"embeddings have shape {x.shape}; pass (n, d)")
    if not np.isfinite(x).all():
        raise InputError(
            f"{int((~np.isfinite(x).all(1)).sum())} rows hold NaN or infinity; leave them out"
            " before probing"
        )
    return x


def _check(groups: Coded, folds: int, strength: float) -> None:
    if len(groups.labels) < 2:
        raise InputError(
            f"a probe tells groups apart, and sensitive_features holds only {list(groups.labels)}"
        )
    if not strength > 0:
        raise InputError(f"strength={strength} is not legal; pass a number above 0")
    if not isinstance(folds, int | np.integer) or folds < 2 or folds > groups.sizes.min():
        smallest = groups.labels[int(groups.sizes.argmin())]
        raise InputError(
            f"folds={folds} is not legal: 2 to {groups.sizes.min()}, the rows of the smallest"
            f" group, {smallest!r}"
        )
