"""``BalancedOperator``: queries moved to where their first k images are balanced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise._balance import Bounds
from equipoise._search import RecentScores
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64, limits
from equipoise.methods._arrays import constant, namespace
from equipoise.methods._balanced_page import Aim, BalancedPage, PageCertificate, Ranked, nobody
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import unit_rows
from equipoise.methods._memberships import Kind, Memberships, Moments, wanted_shares
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._page_options import PageOptions
from equipoise.methods._page_solver import More, PageSolver
from equipoise.methods._recent_pages import RecentPages
from equipoise.methods._search_rounds import Solved
from equipoise.methods._served_index import Served, can_be_served
from equipoise.methods._told_apart import check_labels, why_in_doubt
from equipoise.prompts._attribute import Attribute

REVISABLE = ("k", "target", "strength", "nearest")


class BalancedOperator(Operator):
    """Queries moved to where their first k images are balanced.

    ``text`` and ``scores`` solve on the index that the operator holds: the images that it was
    fitted on, where they can be read again, or those of ``bind(index=...)``. ``balance`` needs no
    index: it takes what a database found. The gate is on wherever prompts are given: those that
    name a group and those about no person are left as they are; ``gate=False`` turns it off.
    """

    method = "balanced"
    gates_by_default = True

    def __init__(
        self,
        attribute: Attribute,
        options: PageOptions,
        moments: Moments,
        memberships: Memberships,
        bounds: Bounds | None = None,
        **given: Any,
    ):
        linear = memberships.weights is not None
        super().__init__(
            attribute, ("text",) if linear else (), memberships.prototypes.shape[1], **given
        )
        self.options, self.moments, self.memberships = options, moments, memberships
        self.bounds = bounds or _certain_bounds(memberships)
        self.target = _target(attribute, options, moments, memberships)
        self._solver = PageSolver(
            attribute.groups,
            moments,
            memberships,
            self.target,
            self.bounds,
            options.k,
            options.strength,
            options.nearest,
        )

    # --- What it is bound to

    @property
    def index(self) -> Any:
        """Return the images that searches run on; None until it is given some."""
        served = self._solver.served
        return None if served is None else served.images

    @property
    def per_prompt(self) -> bool:
        return not self._solver.linear

    def bind(self, encoder: Any = None, *, index: Any = None) -> BalancedOperator:
        """Give the operator an encoder, an index to search, or both.

        index: an array (n, d), a memory map, a store, or a list of arrays; held by reference, and
        read once here.
        """
        if encoder is not None:
            super().bind(encoder)
        if index is not None:
            if not can_be_served(index):
                raise InputError(
                    f"the index is {type(index).__name__}, which can be read only once; pass an"
                    " array, a memory map, a store, or a list of arrays"
                )
            self._serve(Served(index, self.memberships))
        return self

    def _serve(self, served: Served) -> None:
        if self.options.k > served.count:
            raise InputError(
                f"k={self.options.k} images were asked for, and the index has {served.count}; pass"
                " a k of at most that"
            )
        self._solver = replace(self._solver, served=served, recent=None)

    def remember(self, recent: RecentScores) -> None:
        """Keep the scores of recent texts, so that the rounds of a search read the index once."""
        self._solver.require_served().remember(recent)

    def keep_pages(self) -> None:
        """Keep the pages of the last texts until another index is bound, for who asks for the same
        texts again.
        """
        self._solver = replace(self._solver, recent=RecentPages())

    def update(self, rows: Any) -> BalancedOperator:
        """Return the operator of a collection to which these rows (n, d) were added.

        The old rows are not read again: the sums are kept. The spread that memberships are measured
        by stays that of the first fit. Bind the grown index to the result.
        """
        added = FitContext(self.attribute, images=rows)
        known = self.memberships
        moments = self.moments + Moments.of(added.image_blocks(), known.prototypes, known.spread)
        return operator_of(
            self.attribute,
            self.options,
            moments,
            known.prototypes,
            known.spread,
            encoder=self._encoder if self._encoder is not None else self.made_by,
            params=self.params | images_of_groups(moments, self.attribute),
        )

    def revised(self, **options: Any) -> BalancedOperator:
        """Return the operator with another k, target, strength or nearest.

        Nothing is fitted or read again: both hold the same index and memberships.
        """
        unknown = [name for name in options if name not in REVISABLE]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} cannot be revised; pass {', '.join(REVISABLE)}, or fit again"
            )
        changed = replace(self.options, **options)
        changed.check(self.attribute)
        again = BalancedOperator(
            self.attribute,
            changed,
            self.moments,
            self.memberships,
            self.bounds,
            encoder=self._encoder if self._encoder is not None else self.made_by,
            params=self.params | options,
        )
        if self._solver.served is not None:
            again._serve(self._solver.served)
        return again

    def check_labels(self, sensitive_features: Any) -> None:
        """Raise where images of the index have labels, and the prompts do no better than chance."""
        served = self._solver.served
        if served is not None and sensitive_features is not None:
            check_labels(served.groups, sensitive_features, self.attribute)

    # --- Queries and scores

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        if self.options.strength == 0:
            return rows
        given = rows.detach().cpu().numpy() if hasattr(rows, "detach") else np.asarray(rows)
        texts, good = unit_rows(given)
        out = np.array(given, np.float64)
        solved = self._solver.on_index(texts)
        moved = []
        for text, one, row in zip(texts, solved, out[good], strict=True):
            moved.append(self._solver.query(text, one.answer.shift, row))
        out[good] = np.reshape(moved, texts.shape)
        if isinstance(rows, np.ndarray):
            return out.astype(rows.dtype)
        return namespace(rows).asarray(constant(out, rows))

    def scores(
        self, images: Any, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> Any:
        """Return what to rank images by: (images, texts)."""
        if not self.per_prompt:
            return super().scores(images, texts, prompts, gate)
        self._check_width(images, "images")
        self._check_width(texts, "texts")
        rows = geometry.unit(np.asarray(images, np.float64))
        queries = geometry.unit(np.asarray(texts, np.float64))
        shifts = np.array([solved.answer.shift for solved in self._solver.on_index(queries)])
        shifts[np.broadcast_to(self._gated(prompts, gate), len(shifts))] = 0
        return rows @ queries.T - self.memberships(rows) @ shifts.T

    def search(self, texts: Any, k: int | None = None, offset: int = 0) -> Ranked:
        """Return k images of the index for each text (n, d), page after page, each balanced.

        A page has the operator's own k images. The next one is the best balanced page of what is
        left, so that pages repeat no image and leave none out. offset: how many images come before;
        past the end of the index there are fewer than k, or none.
        """
        self._check_width(texts, "texts")
        queries = _unit_queries(texts)
        k = self.options.k if k is None else self.depth(k)
        end = min(offset + k, self.count)
        if offset >= end:
            return Ranked.past_the_end(len(queries))
        pages = list(self._pages(queries, end))
        indices = np.concatenate([page.indices for page in pages], axis=1)
        scores = np.concatenate([page.scores for page in pages], axis=1)
        first = pages[offset // self.options.k]
        return Ranked(indices[:, offset:end], scores[:, offset:end], first.certificates)

    def _pages(self, queries: Float64, end: int) -> Iterator[Ranked]:
        """Return one page after the other, until they have as many images as ``end``."""
        shown = np.empty((len(queries), 0), np.int64)
        while shown.shape[1] < end:
            rows = []
            for query, solved in zip(queries, self._solver.on_index(queries, shown), strict=True):
                there = solved.answer.page
                certificate = self._certificate(query, solved)
                rows.append((solved.pool.all.ids[there], solved.ranked[there], certificate))
            page = Ranked.of(rows)
            shown = np.concatenate([shown, page.indices], axis=1)
            yield page

    @property
    def count(self) -> int:
        """Return how many images of the index can be found: those that have a direction."""
        return self._solver.require_served().count

    def depth(self, k: Any) -> int:
        """Return k as an int; raise unless the index has as many images."""
        count = self.count
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= count:
            raise InputError(
                f"k={k!r} is not legal; pass a whole number from 1 to {count}, the images of the"
                " index"
            )
        return int(k)

    def groups_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the group that the prompts see in images of the index, given by their places; None
        for a row without a direction.
        """
        names = np.array([*self.attribute.groups, None], object)
        return names[self._solver.require_served().groups[indices]]

    def certificates(
        self, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> list[PageCertificate]:
        """Return the certificate of each text's page on the index."""
        self._check_width(texts, "texts")
        queries = geometry.unit(np.asarray(texts, np.float64))
        kept = np.broadcast_to(self._gated(prompts, gate), len(queries))
        found = []
        for i, solved in enumerate(self._solver.on_index(queries)):
            reason = ""
            if kept[i] and prompts is not None:
                reason = self.left_alone(prompts[i]) or "the gate keeps it"
            found.append(self._certificate(queries[i], solved, reason))
        return found

    # --- What a database found

    def balance(
        self,
        query: Any,
        candidates: Any,
        more: More | None = None,
        *,
        shown: Any = (),
        prompt: str | None = None,
        gate: Gate = True,
    ) -> BalancedPage:
        """Balance what a search of any index found for a query (d,).

        candidates: the best of the query, as ``(ids, vectors)`` (c, d), as ``(ids, scores)`` where
        ids are places in the bound index, or as vectors alone. more: called with a query and a
        number, must return the best of that query in the same form; it is asked as long as other
        candidates could change the answer. Without it the certificate says whether they could.

        shown: the ids of earlier pages; the page that comes back is the best balanced one of the
        rest. prompt: the query's text. A vector does not say what it means, so there is no gate
        without it; with it, the gate is on.
        """
        text = self._one_query(query)
        reason = ""
        if prompt is not None and np.any(self._gated([prompt], gate)):
            reason = self.left_alone(prompt) or "the gate keeps it"
        seen = np.asarray(list(shown))
        solved = self._solver.of_candidates(text, candidates, more, seen, bool(reason))
        query = text
        if not self.per_prompt:
            query = self._solver.query(text, solved.answer.shift, text)
        return BalancedPage.of(query, solved, self._certificate(text, solved, reason))

    def _one_query(self, query: Any) -> Float64:
        row = np.asarray(query, np.float64)
        if row.shape != (self.in_dim,) or not np.isfinite(row).all() or not row.any():
            raise InputError(
                f"the query has shape {row.shape}; pass one finite row of width {self.in_dim} that"
                " is not zero"
            )
        return geometry.unit(row)

    def _certificate(self, text: Float64, solved: Solved, reason: str = "") -> PageCertificate:
        """Return what balancing a page did; ``reason``: why it was left as it is."""
        shift = solved.answer.shift
        if self.per_prompt:
            move = float(np.abs(shift).max())  # memberships are shares of one
        else:
            move = float(np.linalg.norm(self._solver.query(text, shift, text) - text))
        usual = float(self.moments.mean @ text)
        return PageCertificate.of(solved, self._aim, usual, move, reason)

    @cached_property
    def _aim(self) -> Aim:
        """Return what certificates say that pages were held to."""
        shares = wanted_shares(self.options.target, self.attribute.groups)
        if shares is None:
            shares = self.moments.counts / self.moments.count
        target = dict(zip(self.attribute.groups, shares.tolist(), strict=True))
        agreed = self.params.get("agreement")
        doubt = why_in_doubt(agreed, self.moments.covariance, self.attribute)
        return Aim(target, self.memberships, doubt)

    # --- The gate

    def left_alone(self, prompt: str) -> str:
        """Return why a prompt is left as it is, or "" where it is balanced."""
        return super().left_alone(prompt) or nobody(prompt, self.attribute)

    # --- Files

    def arrays(self) -> dict[str, np.ndarray]:
        known = self.memberships
        found = self.moments.arrays() | {
            "prototypes": known.prototypes,
            "mean": known.mean,
            "by_group": known.by_group,
            "bounds": np.stack(self.bounds),
        }
        if known.weights is not None:
            found["weights"] = known.weights
        return found

    def settings(self) -> dict[str, Any]:
        options = asdict(self.options)
        return {"options": options, "spread": self.memberships.spread}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> BalancedOperator:
        memberships = Memberships(
            arrays["prototypes"],
            float(settings["spread"]),
            arrays.get("weights"),
            arrays["mean"],
            arrays["by_group"],
        )
        if arrays["bounds"].shape != (2, memberships.rank):
            raise ValueError("the bounds do not match the memberships")
        return cls(
            attribute,
            PageOptions(**settings["options"]),
            Moments.from_arrays(arrays),
            memberships,
            Bounds(*arrays["bounds"]),
            encoder=made_by,
        )


def operator_of(
    attribute: Attribute,
    options: PageOptions,
    moments: Moments,
    named: Float64,
    spread: float,
    images: Any = None,
    **given: Any,
) -> BalancedOperator:
    """Return the operator of a collection with these moments; ``images`` become its index."""
    kind: Kind = options.membership
    memberships = Memberships.of(moments, named, spread, kind, options.mode == "query")
    served = None if images is None else Served(images, memberships)
    bounds = None if served is None else served.bounds
    operator = BalancedOperator(attribute, options, moments, memberships, bounds, **given)
    if served is not None:
        operator._serve(served)
    return operator


def _target(
    attribute: Attribute, options: PageOptions, moments: Moments, memberships: Memberships
) -> Float64:
    """Return the mean membership of the page that is asked for."""
    shares = wanted_shares(options.target, attribute.groups)
    empty = [group for group, n in zip(attribute.groups, moments.counts, strict=True) if not n]
    if shares is not None and empty:
        raise InputError(
            f"no image is closest to the prompts of {', '.join(empty)}, so that a share of them has"
            " no meaning; pass target=collection, or other prompts"
        )
    return memberships.target(shares)


def images_of_groups(moments: Moments, attribute: Attribute) -> dict[str, Any]:
    """Return how many images were fitted on, by group, and how many were left out."""
    counts = dict(zip(attribute.groups, moments.counts.tolist(), strict=True))
    return {"images": counts, "left_out": int(moments.images[1])}


def _unit_queries(texts: Any) -> Float64:
    """Return unit rows in float64; rows that have unit length already stay bit for bit."""
    rows = np.asarray(texts, np.float64)
    lengths = np.einsum("ij,ij->i", rows, rows)
    wrong = ~np.isfinite(lengths) | (lengths == 0)
    if wrong.any():
        raise InputError(
            f"{wrong.sum()} of {len(rows)} texts have no direction (first: {wrong.argmax()});"
            " remove those rows"
        )
    unit = np.abs(lengths - 1) <= limits("float32").unit
    return np.where(unit[:, None], rows, geometry.unit(rows))


def _certain_bounds(memberships: Memberships) -> Bounds:
    """Return bounds that hold for every unit row, seen or not."""
    if memberships.weights is None:
        return Bounds(np.zeros(memberships.rank), np.ones(memberships.rank))
    length = np.linalg.norm(memberships.weights, axis=0)
    return Bounds(-length, length)
