"""Certificates: leakage and loss measured on the rows produced, beside what the theory guarantees.

A certificate has an array with one number per row. ``Totals`` (sums, extremes, histograms) serve
those who certify shard by shard and merge.
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
# A row this close to unit length was meant to have it, in any dtype; others kept their own length.
ALMOST_UNIT = 2.0**-5
_PARTS = ("mean", "median", "p95", "max")
BARE = "unknown: a bare array does not say which encoder made it"


@dataclass
class Tally:
    """One quantity over many rows: its sum, its largest value, and a histogram.

    The bins are logarithmic, fixed and under 4 % wide.
    """

    total: float = 0.0
    largest: float = 0.0
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Float64) -> Tally:
        if values.size == 0:
            return cls()
        # Sorting and looking the edges up is quicker than looking each value up.
        below = np.searchsorted(np.sort(values, axis=None), EDGES, side="right")
        counts = np.diff(below, prepend=0, append=values.size)
        bins = np.flatnonzero(counts)
        by_bin = dict(zip(bins.tolist(), counts[bins].tolist(), strict=True))
        return cls(float(values.sum()), float(values.max()), by_bin)

    def __add__(self, other: Tally) -> Tally:
        counts = {}
        for index in sorted(self.counts.keys() | other.counts.keys()):
            counts[index] = self.counts.get(index, 0) + other.counts.get(index, 0)
        return Tally(self.total + other.total, max(self.largest, other.largest), counts)

    def quantile(self, q: float) -> float:
        """Return the upper edge of the bin that holds the q-quantile: never below the true one."""
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

    invalid: rows without a direction, which count in no other figure. pure_attribute: rows of which
    the space leaves nothing but rounding, so that they stay as they are (Proposition 2); they count
    in every figure.
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
        shared = self.facts.keys() & other.facts.keys()
        differing = sorted(name for name in shared if self.facts[name] != other.facts[name])
        if differing:
            raise InputError(
                "certificates of different runs do not merge: they differ in"
                f" {', '.join(differing)}"
            )
        merged = {name: getattr(self, name) + getattr(other, name) for name in self.ADDED}
        worst = {name: max(getattr(self, name), getattr(other, name)) for name in self.WORST}
        return Totals(**merged, **worst, facts=self.facts or other.facts)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a manifest; ``from_json`` reads it back."""
        data = dict(vars(self))
        for name, value in vars(self).items():
            if isinstance(value, Tally):
                data[name] = dict(vars(value))
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Totals:
        values = dict(data)
        for name, value in data.items():
            if isinstance(value, dict) and name != "facts":
                counts = {int(index): count for index, count in value["counts"].items()}
                values[name] = Tally(value["total"], value["largest"], counts)
        return cls(**values)

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
    """What debiasing did to each row, as float64 arrays of the embeddings' leading shape.

    Rows without a direction have NaN. leakage_before, leakage: length of the part inside the
    attribute space, before and after. self_loss: 1 - <u, e>, taken as |u - e|^2 / 2 of the unit
    vectors. expected_*: what the theory gives for the same rows. length_error: how far the stored
    row's length is from what ``norm=`` promises.
    """

    leakage_before: Float64
    leakage: Float64
    self_loss: Float64
    expected_leakage: Float64
    expected_self_loss: Float64
    length_error: Float64
    totals: Totals

    def summary(self) -> dict[str, Any]:
        """Return counts, means, quantiles, bounds and differences from the theory as numbers.

        Quantiles are exact here, where the rows are at hand; those of merged ``totals`` are upper
        edges of bins under 4 % wide.
        """
        summary = self.totals.summary()
        for name in ("leakage_before", "leakage", "self_loss"):
            values = getattr(self, name)
            values = values[np.isfinite(values)]
            if values.size:
                summary[name]["median"] = float(np.median(values))
                summary[name]["p95"] = float(np.quantile(values, 0.95))
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
        rows = []
        for name in ("leakage_before", "leakage", "self_loss"):
            figures = [summary[name][part] for part in _PARTS]
            rows.append((name.replace("_", " "), *figures))
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

    def plot(self, axes: Any = None) -> Any:
        """Draw how much leakage the rows have before and after; return matplotlib's axes."""
        from equipoise import _plots as plots

        kappa = self.totals.facts.get("kappa", "unknown")
        values = {"before": self.leakage_before, "after": self.leakage}
        title = f"Certificate of {self.totals.n:,} rows, kappa {kappa}"
        return plots.draw_histograms(axes, values, "leakage", title)

    def __add__(self, other: Certificate) -> Certificate:
        """Return the certificate of both runs' rows, one after the other."""
        rows = []
        for one in fields(self)[:-1]:
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            rows.append(np.concatenate([mine.ravel(), theirs.ravel()]))
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

    def plot(self, axes: Any = None) -> Any:
        """Draw loss against leakage over kappa; return matplotlib's axes."""
        from equipoise import _plots as plots

        return plots.draw_frontier(axes, *self)


def _range(values: Float64) -> str:
    if not len(values):
        return "of none"
    return f"{values[0]:.4g} to {values[-1]:.4g}"


def certify(
    e: Rows,
    space: AttributeSpace,
    *,
    u: Rows | None = None,
    kappa: Any = None,
    weights: tuple[float, float] | None = None,
    encoder: Any = None,
) -> Certificate:
    """Measure what debiasing does to embeddings ``e`` (..., d).

    u: the rows that were stored, to measure what debiasing did. Rows without a direction are
    counted as invalid and left out of every figure. encoder: the encoder that made e (or the store
    that holds e); one that did not make the space is refused. A bare array cannot say, and the
    certificate says so.
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
    columns = kernels.measure(e, u, space.low_rank)
    return certificate_of(columns, space, wanted, dtype, facts, tuple(e.shape[:-1]))


def facts_of(
    space: AttributeSpace, wanted: Preference, dtype: str, kernel: str, made_by: EncoderRef
) -> dict[str, str]:
    """Return what a certificate says beside its numbers."""
    space_encoder = "unknown: the space does not say"
    if any(space.encoder):
        space_encoder = str(space.encoder)
    return {
        "kappa": _describe(wanted),
        "dtype": dtype,
        "kernel": kernel,
        "space": space.fingerprint,
        "space_encoder": space_encoder,
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
    """Return the certificate of what ``kernels.measure`` gives.

    dtype and shape: the embeddings' own dtype and leading shape.
    """
    p, o, leakage, chord, before, after = columns
    # Rows may be so short that the ratio to a unit row overflows.
    with np.errstate(over="ignore"):
        unit_error, keep_error = np.abs(after - 1), np.abs(after / before - 1)
    length_error = np.where(unit_error <= ALMOST_UNIT, unit_error, keep_error)
    pure = geometry.limits(dtype).pure
    stays = _stays(p, o, leakage, wanted, shape, pure)
    expected_leakage, expected_loss = _expected(p, o, wanted, shape, stays)
    loss = chord * chord / 2
    good = np.isfinite(p) & np.isfinite(leakage)  # a row that u lost counts as invalid too
    n = int(good.sum())
    if n == good.size:
        good = slice(None)  # a slice copies nothing
    # A stored row may be a little longer than 1.
    stored = (leakage * (1 + length_error))[good].max(initial=0.0)
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
    """Return a bound on ``|<u_I, u_T> - <e_I, e_T>|`` of unit e, for every image and text.

    The shape is (images..., texts...), or row by row if ``paired``. It is the angle form ``2
    sin((delta_I + delta_T) / 2)``, plus what the stored rows' lengths can add.
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
    image_loss, image_length = c_image.self_loss, c_image.length_error
    if not paired:
        outer = image_loss.shape + (1,) * c_text.self_loss.ndim
        image_loss, image_length = image_loss.reshape(outer), image_length.reshape(outer)
    image, text = np.sqrt(2 * image_loss), np.sqrt(2 * c_text.self_loss)
    lengths = (1 + image_length) * (1 + c_text.length_error) - 1
    return geometry.cross_utility_bound(image, text) + lengths


def frontier(e: Rows, space: AttributeSpace, kappas: Sequence[float] | None = None) -> Frontier:
    """Return the Pareto front of these embeddings: mean leakage against mean loss over kappa.

    kappas: from 0 to infinity by default.
    """
    check_arguments(e, space, 1.0, None)
    if kappas is None:
        kappas = [0, *np.geomspace(1e-2, 1e2, 41), np.inf]
    try:
        grid = np.asarray(kappas, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.array(np.nan)
    if grid.ndim != 1 or not (grid >= 0).all():
        raise InputError(f"kappas must be a list of numbers >= 0, and this is {kappas!r}")
    p, o, *_ = kernels.measure(e, e, space.low_rank)
    p, o = p[np.isfinite(p)], o[np.isfinite(p)]
    stays = o <= geometry.limits(kernels.dtype_name(e)).pure
    leakage, loss = np.zeros(len(grid)), np.zeros(len(grid))
    if len(p):
        for i, kappa in enumerate(grid):
            wanted = Preference("kappa", float(kappa))
            of_rows, loss_of_rows = _expected(p, o, wanted, p.shape, stays)
            leakage[i], loss[i] = of_rows.mean(), loss_of_rows.mean()
    return Frontier(grid, leakage, loss, len(p))


def _stays(
    p: Float64,
    o: Float64,
    leakage: Float64,
    wanted: Preference,
    shape: tuple[int, ...],
    pure: float,
) -> NDArray[np.bool_]:
    """Return the mask of rows that are pure attribute (Proposition 2).

    For rows close to the limit, rounding decides: they count as the kernel treated them.
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
        "kappa": "one per row",
        "printed": "printed",
        "weights": f"weights with ratio {wanted.value}",
    }[wanted.kind]
