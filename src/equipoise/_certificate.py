"""Certificates: leakage and loss measured on the numbers that were produced, beside what the theory
guarantees.

Per-row arrays for who wants them; ``Totals`` (sums, extremes, histograms) for who certifies shard
by shard and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise import geometry, kernels
from equipoise._array_types import Rows
from equipoise._debiasing import check_arguments, debias
from equipoise._display import html_table
from equipoise._space import AttributeSpace, EncoderRef
from equipoise._version import __version__
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._measure import Columns, to_numpy
from equipoise.kernels._recipe import Preference

BINS_PER_DECADE = 64
EDGES = np.concatenate([[0.0], np.logspace(-9, 0.5, round(9.5 * BINS_PER_DECADE) + 1)])
# a row this close to unit length was meant to be of unit length, in any dtype; others kept their
# own
ALMOST_UNIT = 2.0**-5
_PARTS = ("mean", "median", "p95", "max")
BARE = "unknown: a bare array does not say which encoder made it"


@dataclass
class Tally:
    """One quantity over many rows: its sum, its largest value, and counts on fixed logarithmic bins
    (under 4 % wide).
    """

    total: float = 0.0
    largest: float = 0.0
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Float64) -> Tally:
        if values.size == 0:
            return cls()
        below = np.searchsorted(
            np.sort(values, axis=None), EDGES, side="right"
        )  # quicker than looking each value up
        counts = np.diff(below, prepend=0, append=values.size)
        bins = np.flatnonzero(counts)
        return cls(
            float(values.sum()),
            float(values.max()),
            dict(zip(bins.tolist(), counts[bins].tolist(), strict=True)),
        )

    def __add__(self, other: Tally) -> Tally:
        counts = {
            b: self.counts.get(b, 0) + other.counts.get(b, 0)
            for b in sorted(self.counts.keys() | other.counts.keys())
        }
        return Tally(self.total + other.total, max(self.largest, other.largest), counts)

    def quantile(self, q: float) -> float:
        """The upper edge of the bin that holds the q-quantile: never below the true one."""
        wanted, seen = q * sum(self.counts.values()), 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return min(float(EDGES[min(index, len(EDGES) - 1)]), self.largest)
        return self.largest

    def summary(self) -> dict[str, float]:
        n = sum(self.counts.values())
        return {
            "mean": self.total / n if n else 0.0,
            "median": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "max": self.largest,
        }


@dataclass
class Totals:
    """What a certificate says in a few numbers; ``a + b`` is the certificate of both runs' rows.

    invalid: rows without a direction, in no other figure. pure_attribute: rows of which the space
    leaves nothing but rounding, so that they stay as they are (Proposition 2); in every figure.
    """

    ADDED: ClassVar = (
        "n",
        "invalid",
        "pure_attribute",
        "leakage_before",
        "leakage",
        "self_loss",
    )
    WORST: ClassVar = ("group_gap_bound", "leakage_error", "self_loss_error", "length_error")

    n: int = 0
    invalid: int = 0
    pure_attribute: int = 0
    leakage_before: Tally = field(default_factory=Tally)
    leakage: Tally = field(default_factory=Tally)
    self_loss: Tally = field(default_factory=Tally)
    group_gap_bound: float = 0.0
    leakage_error: float = 0.0
    self_loss_error: float = 0.0
    length_error: float = 0.0
    facts: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        differing = sorted(
            k for k in self.facts.keys() & other.facts.keys() if self.facts[k] != other.facts[k]
        )
        if differing:
            raise InputError(
                "certificates of different runs do not merge: they differ in"
                f" {', '.join(differing)}"
            )
        merged = {name: getattr(self, name) + getattr(other, name) for name in self.ADDED}
        worst = {name: max(getattr(self, name), getattr(other, name)) for name in self.WORST}
        return Totals(**merged, **worst, facts=self.facts or other.facts)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest; ``from_json`` reads it back."""
        return {
            name: dict(vars(value)) if isinstance(value, Tally) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Totals:
        tallies = {
            k: Tally(v["total"], v["largest"], {int(b): c for b, c in v["counts"].items()})
            for k, v in data.items()
            if isinstance(v, dict) and k != "facts"
        }
        return cls(**{**data, **tallies})

    def summary(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "invalid": self.invalid,
            "pure_attribute": self.pure_attribute,
            "leakage_before": self.leakage_before.summary(),
            "leakage": self.leakage.summary(),
            "self_loss": self.self_loss.summary(),
            "group_gap_bound": self.group_gap_bound,
            "differs_from_theory_by": {
                "leakage": self.leakage_error,
                "self_loss": self.self_loss_error,
            },
            "length_error": self.length_error,
            **self.facts,
        }


@dataclass(frozen=True, eq=False)
class Certificate:
    """What debiasing did to each row, float64 arrays of the embeddings' leading shape; NaN for rows
    without a direction.

    leakage_before, leakage: length of the part inside the attribute space, before and after.
    self_loss: 1 - <u, e>, taken as |u - e|^2 / 2 of the unit vectors. expected_*: what the theory
    gives for the same rows. length_error: how far the stored row's length is from what ``norm=``
    promises.
    """

    leakage_before: Float64
    leakage: Float64
    self_loss: Float64
    expected_leakage: Float64
    expected_self_loss: Float64
    length_error: Float64
    totals: Totals

    def summary(self) -> dict[str, Any]:
        """Counts, means, quantiles, bounds and differences from the theory, as plain numbers.

        Quantiles are exact here, where the rows are at hand; those of merged ``totals`` are upper
        edges of bins under 4 % wide.
        """
        summary = self.totals.summary()
        for name in ("leakage_before", "leakage", "self_loss"):
            values = getattr(self, name)
            values = values[np.isfinite(values)]
            if values.size:
                summary[name] |= {
                    "median": float(np.median(values)),
                    "p95": float(np.quantile(values, 0.95)),
                }
        return summary

    def __repr__(self) -> str:
        totals = self.totals
        means = ", ".join(
            f"{name} {getattr(totals, name).summary()['mean']:.4f}"
            for name in ("leakage_before", "leakage", "self_loss")
        )
        pure = f", pure_attribute={totals.pure_attribute}" if totals.pure_attribute else ""
        return (
            f"Certificate(n={totals.n}, invalid={totals.invalid}{pure},"
            f" kappa={totals.facts.get('kappa', 'unknown')}, means: {means})"
        )

    def _repr_html_(self) -> str:
        """Show counts, means and bounds as a table in notebooks."""
        summary = self.summary()
        rows = [
            (name.replace("_", " "), *(summary[name][part] for part in _PARTS))
            for name in ("leakage_before", "leakage", "self_loss")
        ]
        counts = [
            ("rows", summary["n"]),
            ("invalid", summary["invalid"]),
            ("pure attribute", summary["pure_attribute"]),
            ("kappa", summary.get("kappa", "unknown")),
            ("group gap at most", summary["group_gap_bound"]),
            ("leakage differs from theory by", summary["differs_from_theory_by"]["leakage"]),
        ]
        first = html_table("Certificate", rows, ("", *_PARTS))
        return first + html_table("", counts)

    def __add__(self, other: Certificate) -> Certificate:
        """The certificate of both runs' rows, one after the other."""
        rows = (
            np.concatenate([getattr(self, f.name).ravel(), getattr(other, f.name).ravel()])
            for f in fields(self)[:-1]
        )
        return Certificate(*rows, totals=self.totals + other.totals)


class Frontier(NamedTuple):
    """Mean leakage and mean self-utility loss of n rows at each kappa."""

    kappa: Float64
    leakage: Float64
    self_loss: Float64
    n: int

    def __repr__(self) -> str:
        points = [f"{name} {_range(getattr(self, name))}" for name in self._fields[:-1]]
        return f"Frontier(n={self.n}, {len(self.kappa)} points, {', '.join(points)})"

    def _repr_html_(self) -> str:
        """Show up to sixteen of the points as a table in notebooks."""
        points = np.stack([self.kappa, self.leakage, self.self_loss], axis=1)
        step = max(1, (len(points) - 1) // 8)
        rows = points[::step].tolist()
        heads = ("kappa", "mean leakage", "mean self-utility loss")
        return html_table(f"Frontier of {self.n:,} rows", rows, heads)


def _range(values: Float64) -> str:
    return f"{values[0]:.4g} to {values[-1]:.4g}" if len(values) else "of none"


def certify(
    e: Rows,
    space: AttributeSpace,
    *,
    u: Rows | None = None,
    kappa: Any = None,
    weights: tuple[float, float] | None = None,
    encoder: Any = None,
) -> Certificate:
    """Measure what debiasing does to embeddings ``e`` (..., d), or what it did, if ``u`` is what
    was stored.

    Rows without a direction are counted as invalid and left out of every figure. encoder (or the
    store that holds e) says which encoder made them: one that did not make the space is refused. A
    bare array cannot say, and the certificate says so.
    """
    wanted = check_arguments(e, space, kappa, weights)
    space.require_encoder(encoder)
    made_by = EncoderRef.of(encoder)
    dtype = kernels.dtype_name(e)
    kernel = kernels.which(e) if u is None else "not known: u was given"
    if u is None:
        u = debias(e, space, kappa=kappa, weights=weights, on_invalid="keep")
    elif kernels.framework(u) != kernels.framework(e):
        raise InputError(
            f"u is of type {type(u).__name__} and the embeddings are of type {type(e).__name__};"
            " they must match"
        )
    elif tuple(u.shape) != tuple(e.shape):
        raise InputError(
            f"u has shape {tuple(u.shape)} and the embeddings {tuple(e.shape)}; they must be the"
            " same rows"
        )
    facts = facts_of(space, wanted, kernels.dtype_name(u), kernel, made_by)
    return certificate_of(
        kernels.measure(e, u, space.low_rank), space, wanted, dtype, facts, tuple(e.shape[:-1])
    )


def facts_of(
    space: AttributeSpace, wanted: Preference, dtype: str, kernel: str, made_by: EncoderRef
) -> dict[str, str]:
    """What a certificate says beside its numbers."""
    return {
        "kappa": _describe(wanted),
        "dtype": dtype,
        "kernel": kernel,
        "space": space.fingerprint,
        "space_encoder": (
            str(space.encoder) if any(space.encoder) else "unknown: the space does not say"
        ),
        "embeddings_encoder": str(made_by) if any(made_by) else BARE,
        "version": __version__,
    }


def certificate_of(
    columns: Columns,
    space: AttributeSpace,
    wanted: Preference,
    dtype: str,
    facts: dict[str, str],
    shape: tuple[int, ...],
) -> Certificate:
    """From what ``kernels.measure`` gives for embeddings of this dtype and leading shape."""
    p, o, leakage, chord, before, after = columns
    with np.errstate(
        over="ignore"
    ):  # of rows so short that no number says how much longer a unit row is
        unit_error, keep_error = np.abs(after - 1), np.abs(after / before - 1)
    length_error = np.where(unit_error <= ALMOST_UNIT, unit_error, keep_error)
    pure = geometry.limits(dtype).pure
    stays = _stays(p, o, leakage, wanted, shape, pure)
    expected_leakage, expected_loss = _expected(p, o, wanted, shape, stays)
    loss = chord * chord / 2
    good = np.isfinite(p) & np.isfinite(leakage)  # a row that u lost counts as invalid too
    n = int(good.sum())
    good = slice(None) if n == good.size else good  # which copies nothing
    stored = (leakage * (1 + length_error))[good].max(
        initial=0.0
    )  # a stored row may be a little longer than 1
    totals = Totals(
        n=n,
        invalid=p.size - n,
        pure_attribute=int(stays[good].sum()),
        leakage_before=Tally.of(p[good]),
        leakage=Tally.of(leakage[good]),
        self_loss=Tally.of(loss[good]),
        group_gap_bound=float(space.group_gap_bound(stored)),
        leakage_error=float(np.abs(leakage - expected_leakage)[good].max(initial=0.0)),
        self_loss_error=float(np.abs(loss - expected_loss)[good].max(initial=0.0)),
        length_error=float(length_error[good].max(initial=0.0)),
        facts=facts,
    )
    rows = (p, leakage, loss, expected_leakage, expected_loss, length_error)
    return Certificate(*(row.reshape(shape) for row in rows), totals=totals)


def cross_bound(c_image: Certificate, c_text: Certificate, *, paired: bool = False) -> Float64:
    """Bound on ``|<u_I, u_T> - <e_I, e_T>|`` of unit e, for every image and text, shape (images...,
    texts...); row by row if ``paired``.

    The angle form ``2 sin((delta_I + delta_T) / 2)``, plus what the stored rows' lengths can add.
    """
    for c in (c_image, c_text):
        if not isinstance(c, Certificate):
            raise InputError(
                f"cross_bound takes two certificates, and this is {type(c).__name__}; make one with"
                " eq.certify(embeddings, space)"
            )
    if paired and c_image.self_loss.shape != c_text.self_loss.shape:
        raise InputError(
            f"paired certificates must have one shape, and these have {c_image.self_loss.shape} and"
            f" {c_text.self_loss.shape}"
        )
    outer = (
        (lambda a: a) if paired else (lambda a: a.reshape(a.shape + (1,) * c_text.self_loss.ndim))
    )
    image, text = np.sqrt(2 * outer(c_image.self_loss)), np.sqrt(2 * c_text.self_loss)
    lengths = (1 + outer(c_image.length_error)) * (1 + c_text.length_error) - 1
    return geometry.cross_utility_bound(image, text) + lengths


def frontier(e: Rows, space: AttributeSpace, kappas: Sequence[float] | None = None) -> Frontier:
    """The Pareto front of these embeddings: mean leakage against mean loss over kappa, from 0 to
    infinity.
    """
    check_arguments(e, space, 1.0, None)
    try:
        grid = np.asarray(
            [0, *np.geomspace(1e-2, 1e2, 41), np.inf] if kappas is None else kappas,
            dtype=np.float64,
        )
    except (TypeError, ValueError):
        grid = np.array(np.nan)
    if grid.ndim != 1 or not (grid >= 0).all():
        raise InputError(f"kappas must be a list of numbers >= 0, and this is {kappas!r}")
    p, o, *_ = kernels.measure(e, e, space.low_rank)
    p, o = p[np.isfinite(p)], o[np.isfinite(p)]
    stays = o <= geometry.limits(kernels.dtype_name(e)).pure
    points = [_expected(p, o, Preference("kappa", float(kappa)), p.shape, stays) for kappa in grid]
    leakage, loss = (np.array([v[i].mean() if len(p) else 0.0 for v in points]) for i in (0, 1))
    return Frontier(grid, leakage, loss, len(p))


def _stays(
    p: Float64,
    o: Float64,
    leakage: Float64,
    wanted: Preference,
    shape: tuple[int, ...],
    pure: float,
) -> NDArray[np.bool_]:
    """Mask of rows that are pure attribute (Proposition 2).

    Rounding decides for rows close to the limit: those are on the side on which they were put.
    """
    stays = o <= pure
    close = np.abs(o - pure) <= pure / 2
    if close.any():
        moved, _ = _expected(p, o, wanted, shape, np.zeros_like(stays))
        stays[close] = (np.abs(leakage - p) <= np.abs(leakage - moved))[close]
    return stays


def _expected(
    p: Float64,
    o: Float64,
    wanted: Preference,
    shape: tuple[int, ...],
    stays: NDArray[np.bool_],
) -> tuple[Float64, Float64]:
    kappa = wanted.kappa(p * p, o, np.sqrt)
    if wanted.kind == "kappa" and wanted.constant is None:
        kappa = np.broadcast_to(to_numpy(kappa), shape).reshape(-1).astype(np.float64)
    leakage, loss = geometry.leakage_and_loss(p, o, kappa)
    return np.where(stays, p, leakage), np.where(stays, 0.0, loss)


def _describe(wanted: Preference) -> str:
    if wanted.constant is not None:
        return repr(wanted.constant)
    if wanted.kind == "kappa" and not len(wanted.value.shape):  # a tensor with one number
        return repr(float(to_numpy(wanted.value)))
    return {
        "kappa": "one a row",
        "printed": "printed",
        "weights": f"weights with ratio {wanted.value}",
    }[wanted.kind]
