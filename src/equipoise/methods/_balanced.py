"""``balanced``: the page of the largest total score whose mean membership is a target.

The programme is ``equipoise._balance``'s. Memberships are linear in the image, ``a = W^T x``, so
that the balanced ranking is that of one query, ``t - W lam*``: no image is rewritten, and any
vector database serves it. Fitting reads the images once, without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise import _balance as balance
from equipoise import geometry
from equipoise._balance import Balance, Bounds, InfeasibleTargetError
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64, limits
from equipoise.methods._arrays import constant, namespace
from equipoise.methods._candidates import (
    ROUNDS,
    WIDER,
    Found,
    Pool,
    Search,
    Solved,
    read,
    solve_in_rounds,
)
from equipoise.methods._context import FitContext
from equipoise.methods._memberships import (
    Kind,
    Memberships,
    Moments,
    agreement,
    closest,
    sampled,
    score_spread,
    wanted_shares,
)
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._pages import BalancedPage, PageCertificate, Ranked
from equipoise.methods._registry import Method, Strength
from equipoise.methods._rows import group_codes, unit_rows
from equipoise.methods._served import Served, can_be_served
from equipoise.methods._texts import matched, prototypes
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._marks import explicit_groups, names_person

More = Callable[[np.ndarray, int], Any]


class BalancedOperator(Operator):
    """Queries moved to where their first k images are balanced.

    ``text`` and ``scores`` solve on the index that the operator holds: the images that it was
    fitted on, where they can be read again, or those of ``bind(index=...)``. ``balance`` needs no
    index: it takes what a database found.
    """

    method = "balanced"

    def __init__(
        self,
        attribute: Attribute,
        options: Balanced,
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
        self.target = memberships.target(wanted_shares(options.target, attribute.groups))
        self._served: Served | None = None

    # --- What it is bound to

    @property
    def index(self) -> Any:
        """The images that searches run on; None until it is given some."""
        return None if self._served is None else self._served.images

    @property
    def per_prompt(self) -> bool:
        return self.memberships.weights is None

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
        self._served = served

    def update(self, rows: Any) -> BalancedOperator:
        """Return the operator of a collection to which these rows (n, d) were added.

        The old rows are not read again: the sums are kept. The spread that memberships are measured
        by stays that of the first fit. Bind the grown index to the result.
        """
        added = FitContext(self.attribute, images=rows)
        known = self.memberships
        moments = self.moments + Moments.of(added.image_blocks(), known.prototypes, known.spread)
        return _operator(
            self.attribute,
            self.options,
            moments,
            known.prototypes,
            known.spread,
            encoder=self._encoder if self._encoder is not None else self.made_by,
            params=self.params | _counts(moments, self.attribute),
        )

    def check_labels(self, context: FitContext) -> None:
        """Raise where the images have labels, and the prompts do no better than chance on them."""
        if self._served is None or context.sensitive_features is None:
            return
        labels = group_codes(context.sensitive_features, self.attribute)
        if len(labels) != len(self._served.groups):
            raise InputError(
                f"there are {len(self._served.groups)} images and {len(labels)} labels of"
                " sensitive_features; pass one for each"
            )
        known = (labels >= 0) & (self._served.groups >= 0)
        right = self._served.groups[known] == labels[known]
        counts = np.bincount(labels[known])
        rates = np.bincount(labels[known], right)[counts > 0] / counts[counts > 0]
        chance = 1 / len(self.attribute.groups)
        error = np.sqrt((rates * (1 - rates) / counts[counts > 0]).sum()) / len(rates)
        if len(rates) > 1 and rates.mean() <= chance + 2 * error:
            raise InputError(
                f"the prompts do not tell the groups of {self.attribute.name} apart in these"
                f" images: they name the labelled group {rates.mean():.0%} of the time, and chance"
                f" does {chance:.0%}; balancing would follow noise. Pass other prompts"
            )

    # --- Queries and scores

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        if self.options.strength == 0:
            return rows
        given = rows.detach().cpu().numpy() if hasattr(rows, "detach") else np.asarray(rows)
        texts, good = unit_rows(given)
        out = np.array(given, np.float64)
        lams = np.array([solved.answer.lam for solved in self._solve(texts)])
        out[good] = [
            self._shifted(text, lam, row)
            for text, lam, row in zip(texts, lams, out[good], strict=True)
        ]
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
        lams = np.array([solved.answer.lam for solved in self._solve(queries)])
        lams[np.broadcast_to(self._gated(prompts, gate), len(lams))] = 0
        return rows @ queries.T - self.memberships(rows) @ lams.T

    def search(self, texts: Any, k: int | None = None) -> Ranked:
        """Return the k best images of the index for each text (n, d), the first page balanced.

        Beyond the operator's own k the ranking goes on by the same adjusted scores, so that what
        follows a page repeats none of its images and leaves none out.
        """
        self._check_width(texts, "texts")
        queries = _unit_queries(texts)
        served = self._require_served()
        k = self.options.k if k is None else self.depth(k)
        solved = self._solve(queries, from_query=True)
        indices, scores = self._ranked(queries, solved, k, served)
        certificates = [
            self._certificate(query, one, "") for query, one in zip(queries, solved, strict=True)
        ]
        return Ranked(indices, scores, certificates)

    def depth(self, k: Any) -> int:
        """Return k as an int; raise unless the index has as many images."""
        count = self._require_served().count
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
        return names[self._require_served().groups[indices]]

    def _ranked(
        self, queries: Float64, solved: list[Solved], k: int, served: Served
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return places and adjusted scores (queries, k): the page, then what follows it."""
        further = [(one.pool.all.ids, _adjusted(one)) for one in solved]
        if k > self.options.k and not self.per_prompt:
            lams = np.array([one.answer.lam for one in solved])
            places, values = served.search(queries - lams @ self._weights.T, k)
            further = list(zip(places, values, strict=True))
        indices = np.empty((len(solved), k), np.int64)
        scores = np.empty((len(solved), k), np.float32)
        for i, one in enumerate(solved):
            page = one.answer.page
            ids, values = further[i]
            after = np.lexsort((ids, -values))
            after = after[~np.isin(ids[after], one.pool.all.ids[page])]
            indices[i] = np.concatenate([one.pool.all.ids[page], ids[after]])[:k]
            scores[i] = np.concatenate([_adjusted(one)[page], values[after]])[:k]
        return indices, scores

    def _shifted(self, text: Float64, lam: Float64, row: Float64) -> Float64:
        """Return the unit query that ranks by adjusted scores; ``row`` where nothing is shifted."""
        if not lam.any() and abs(row @ row - 1) <= limits("float32").unit:
            return row
        moved = text - self._weights @ lam
        if np.linalg.norm(moved) <= geometry.IDENTICAL:  # nothing but membership
            return text
        return geometry.unit(moved)

    def certificates(
        self, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> list[PageCertificate]:
        """Return the certificate of each text's page on the index."""
        self._check_width(texts, "texts")
        queries = geometry.unit(np.asarray(texts, np.float64))
        kept = np.broadcast_to(self._gated(prompts, gate), len(queries))
        found = []
        for i, solved in enumerate(self._solve(queries, from_query=True)):
            reason = ""
            if kept[i] and prompts is not None:
                reason = self.left_alone(prompts[i]) or "the gate keeps it"
            found.append(self._certificate(queries[i], solved, reason))
        return found

    def _require_served(self) -> Served:
        if self._served is None:
            raise InputError(
                "this balanced operator holds no index, and a page is balanced on the index that is"
                " served; pass it with op.bind(index=rows), or pass what a database found to"
                " op.balance"
            )
        return self._served

    def _solve(self, texts: Float64, from_query: bool = False) -> list[Solved]:
        served = self._require_served()
        if self.per_prompt:
            return [self._solve_all_scores(text, served) for text in texts]
        return self._solve_by_search(texts, served, from_query or self.options.strength < 1)

    def _solve_all_scores(self, text: Float64, served: Served) -> Solved:
        """Solve a re-ranking, whose memberships are no query: over the scores of all images."""
        there = np.flatnonzero(served.groups >= 0)
        scores = served.scores(text)[there]
        memberships = served.memberships[there].astype(np.float64)
        nothing = np.zeros(len(self.target))
        pool = Pool(
            Found(there, scores, memberships, served.groups[there], nothing, float(scores.min()))
        )
        return Solved(self._answer(pool, nothing), pool, True)

    def _solve_by_search(self, texts: Float64, served: Served, from_query: bool) -> list[Solved]:
        """Solve on the index.

        ``t - W lam`` has the same balanced page as t, whatever lam is: (P) holds the mean
        membership, so that all its pages lose the same. So the first search is already at a lam
        that is likely. ``from_query``: and at t itself, where its own first page is asked for too.
        """

        def search(left: list[int], lams: Float64, count: int) -> list[Found]:
            queries = texts[left] - lams @ self._weights.T
            places, values = served.search(queries, count)
            found = []
            for best, adjusted, lam in zip(places, values.astype(np.float64), lams, strict=True):
                known = served.groups[best] >= 0  # a row of zeros has a score, and no membership
                ids = best[known]
                there = served.memberships[ids].astype(np.float64)
                scores = adjusted[known] + there @ lam
                lowest = float(adjusted[-1])
                found.append(Found(ids, scores, there, served.groups[ids], lam, lowest))
            return found

        starts = self._likely(texts)[:, None]
        if from_query:
            starts = np.concatenate([np.zeros_like(starts), starts], axis=1)
        return self._in_rounds(search, starts, ROUNDS)

    def _in_rounds(self, search: Search, starts: Float64, rounds: int) -> list[Solved]:
        count = balance.few(self.options.k, len(self.target))
        bounds = self.bounds if self._served is None else self._served.bounds
        return solve_in_rounds(search, self._answer, starts, count, self._total, bounds, rounds)

    def _likely(self, texts: Float64) -> Float64:
        """Return a first guess of lam (n, r): the regression of a query's scores on memberships,
        from the images' covariance.
        """
        covariance = self.moments.covariance
        together = self._weights.T @ covariance
        guess = np.linalg.lstsq(together @ self._weights, together @ texts.T, rcond=None)[0]
        return np.asarray(guess.T, np.float64)

    def _answer(self, pool: Pool, guess: Float64) -> Balance:
        """Solve (P) over the candidates; over all images, a target may be out of reach."""
        try:
            return self._solve_over(pool, guess, nearest=False)
        except InfeasibleTargetError as error:
            if len(pool) < self._total:
                raise
            if not self.options.nearest:
                raise self._out_of_reach(error) from None
            return self._solve_over(pool, guess, nearest=True)

    def _solve_over(self, pool: Pool, guess: Float64, nearest: bool) -> Balance:
        found = pool.all
        return balance.solve(
            found.scores,
            found.memberships,
            self.target,
            self.options.k,
            strength=self.options.strength,
            nearest=nearest,
            guess=guess if guess.any() else None,
        )

    def _out_of_reach(self, error: InfeasibleTargetError) -> InfeasibleTargetError:
        nearest = self._named(self.memberships.shares(error.nearest))
        shares = ", ".join(f"{group} {share:.1%}" for group, share in nearest.items())
        return InfeasibleTargetError(
            f"no {self.options.k} images of the index reach the target; the nearest shares that"
            f" some reach are {shares}. Pass nearest=True to take them, a smaller k or another"
            " target",
            error.nearest,
        )

    @property
    def _total(self) -> int:
        """How many images the collection has."""
        return self.moments.count if self._served is None else self._served.count

    @property
    def _weights(self) -> Float64:
        if self.memberships.weights is None:
            raise InputError("a re-ranking has no shifted query; use op.scores or op.balance")
        return self.memberships.weights

    # --- What a database found

    def balance(
        self,
        query: Any,
        candidates: Any,
        more: More | None = None,
        *,
        prompt: str | None = None,
        gate: Gate = True,
    ) -> BalancedPage:
        """Balance what a search of any index found for a query (d,).

        candidates: the best of the query, as ``(ids, vectors)`` (c, d), as ``(ids, scores)`` where
        ids are places in the bound index, or as vectors alone. more: called with a query and a
        number, must return the best of that query in the same form; it is asked as long as other
        candidates could change the answer. Without it the certificate says whether they could.
        prompt: the query's text, for the gate, which is on.
        """
        text = geometry.unit(np.asarray(query, np.float64))
        if text.shape != (self.in_dim,) or not np.isfinite(text).all():
            raise InputError(f"the query must be one finite row of width {self.in_dim}")
        reason = ""
        if prompt is not None and np.any(self._gated([prompt], gate)):
            reason = self.left_alone(prompt) or "the gate keeps it"
        search = self._candidate_search(text, candidates, more)
        nothing = np.zeros((1, 1, len(self.target)))
        rounds = 1 if more is None or reason else ROUNDS
        solved = self._in_rounds(search, nothing, rounds)[0]
        return self._page(text, solved, reason)

    def _candidate_search(self, text: Float64, candidates: Any, more: More | None) -> Search:
        """Return a search whose first answer are the candidates, and the others what ``more``
        gives.
        """
        asked = 0

        def search(left: list[int], lams: Float64, count: int) -> list[Found]:
            nonlocal asked
            lam = lams[0]
            if asked == 0 or more is None:
                asked = 1
                return [self._found(text, candidates, np.zeros_like(lam))]
            asked += 1
            if self.per_prompt:  # no query ranks by adjusted scores: more of the same one
                wanted = min(count * WIDER ** (asked - 1), self._total)
                return [self._found(text, more(text, wanted), np.zeros_like(lam))]
            return [self._found(text, more(self._shifted(text, lam, text), count), lam)]

        return search

    def _found(self, text: Float64, given: Any, lam: Float64) -> Found:
        """Read candidates, which are the best of ``t - W lam``."""
        ids, values, vectors = read(given, self.in_dim)
        if vectors:
            rows = geometry.unit(values)
            memberships, groups = self.memberships(rows), closest(rows, self.memberships.prototypes)
            scores = rows @ text
        else:
            memberships, groups = self._of_index(ids)
            scores = values
            if lam.any():  # they are scores of the shifted query, which has unit length
                length = np.linalg.norm(text - self._weights @ lam)
                scores = scores * length + memberships @ lam
        lowest = float((scores - memberships @ lam).min())
        return Found(ids, scores, memberships, groups, lam, lowest)

    def _of_index(self, ids: np.ndarray) -> tuple[Float64, np.ndarray]:
        if self._served is None:
            raise InputError(
                "candidates have ids and scores, and without vectors their memberships are not"
                " known; pass (ids, vectors), or bind the index that the ids are places in"
            )
        count = len(self._served.groups)
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= count:
            raise InputError(
                f"ids must be places in the bound index, from 0 to {count - 1}; pass (ids, vectors)"
                " for ids of another kind"
            )
        return self._served.memberships[ids].astype(np.float64), self._served.groups[ids]

    # --- The page and its certificate

    def _page(self, text: Float64, solved: Solved, reason: str) -> BalancedPage:
        found = solved.pool.all
        lam = np.zeros_like(solved.answer.lam) if reason else solved.answer.lam
        ranked = balance.adjusted(found.scores, found.memberships, lam)
        order = balance.first(ranked, len(ranked))
        query = text if self.per_prompt else self._shifted(text, lam, text)
        certificate = self._certificate(text, solved, reason)
        return BalancedPage(query, found.ids[order].tolist(), ranked[order], certificate)

    def _certificate(self, text: Float64, solved: Solved, reason: str) -> PageCertificate:
        answer, found = solved.answer, solved.pool.all
        k = self.options.k
        before = self._shares(found.groups[balance.first(found.scores, k)])
        if reason:
            return PageCertificate.unchanged(k, before, len(found.ids), reason)
        usual = k * float(self.moments.mean @ text)
        return PageCertificate(
            k,
            before,
            self._shares(found.groups[answer.page]),
            answer.kept,
            answer.kept_of_bound,
            (answer.score - usual) / (answer.plain_score - usual),
            answer.gap,
            self._largest_move(text, answer.lam),
            len(found.ids),
            solved.exact,
        )

    def _largest_move(self, text: Float64, lam: Float64) -> float:
        """Return what no similarity of a unit image moves by more than."""
        if self.per_prompt:
            return float(np.abs(lam).max())  # memberships are shares of one
        return float(np.linalg.norm(self._shifted(text, lam, text) - text))

    def _shares(self, groups: np.ndarray) -> dict[str, float]:
        counts = np.bincount(groups, minlength=len(self.attribute.groups))
        return self._named(counts / len(groups))

    def _named(self, shares: Float64) -> dict[str, float]:
        return dict(zip(self.attribute.groups, shares.tolist(), strict=True))

    # --- The gate

    def left_alone(self, prompt: str) -> str:
        """Return why a prompt is left as it is, or "" where it is balanced."""
        if groups := explicit_groups(prompt, self.attribute):
            return f"it names {' and '.join(groups)}"
        if not names_person(prompt, self.attribute):
            return "it speaks of no person"
        return ""

    def _gated(self, prompts: Sequence[str] | None, gate: Gate) -> np.ndarray:
        if gate is True:
            return super()._gated(prompts, lambda prompt: bool(self.left_alone(prompt)))
        return super()._gated(prompts, gate)

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
            Balanced(**settings["options"]),
            Moments.from_arrays(arrays),
            memberships,
            Bounds(*arrays["bounds"]),
            encoder=made_by,
        )


@dataclass(frozen=True)
class Balanced(Method):
    """k: the page that is served.

    membership: "index" learns how the images show what the prompts say, "text" takes the prompts'
    own direction, "both" holds the page to both. mode: "query" shifts the query; "rerank" adjusts
    scores by group probabilities. target: "collection", "equal", or a share for each group.
    strength: how far the page's mean membership goes from its own, at 0, to the target, at 1; at
    each the page is the best of its kind. nearest: where the target is out of reach, take the
    nearest shares instead of an error. agreement: the correlation that two halves of the prompts
    must have over the images, and below which the groups cannot be told apart.
    """

    k: int = 20
    membership: Literal["index", "text", "both"] = "index"
    mode: Literal["query", "rerank"] = "query"
    target: str | Mapping[str, float] = "collection"
    strength: float = 1.0
    nearest: bool = False
    agreement: float = 0.3
    prototype: str = "both"

    name: ClassVar[str] = "balanced"
    summary: ClassVar[str] = "the best page whose groups are in proportion, by one shifted query"
    source: ClassVar[str] = "ours"
    needs: ClassVar[tuple[str, ...]] = ("prompts", "images")
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    page: ClassVar[str] = "k"
    sweep: ClassVar[Strength | None] = Strength("strength", 0, (0.25, 0.5, 0.75, 1))
    operator: ClassVar[type[Operator]] = BalancedOperator

    def fit(self, context: FitContext) -> BalancedOperator:
        """Fit memberships in one pass over the images, in blocks.

        The spread that scores are measured by must be known before the pass. It is that of 16,384
        images: drawn by lot from an array; of a store or an iterator of blocks the first ones, held
        until the pass. Images that can be read again are then the operator's index.
        """
        self._check(context)
        named = prototypes(self.name, context, self.prototype)
        dim = named.shape[1]
        sample, blocks = sampled(context.images, context.image_blocks(), dim, context.seed)
        spread = score_spread(sample, named) if len(sample) else 0.0
        if not spread > 0:
            raise InputError(
                f"balanced needs images that differ along the prompts' directions, and the"
                f" {len(sample)} that were read do not; pass other images"
            )
        moments = Moments.of(blocks, named, spread)
        agreed = self._check_agreement(context, moments)
        params = asdict(self) | _counts(moments, context.attribute) | {"agreement": agreed}
        operator = _operator(
            context.attribute,
            self,
            moments,
            named,
            spread,
            images=context.images if can_be_served(context.images) else None,
            encoder=context.encoder,
            params=params,
        )
        operator.check_labels(context)
        return operator

    def _check(self, context: FitContext) -> None:
        context.require(self.name, "images")
        wanted_shares(self.target, context.attribute.groups)
        if self.k < 1:
            raise InputError(f"k={self.k!r} is not legal; pass a whole number from 1")
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength={self.strength!r} is not legal; pass a number from 0 to 1")

    def _check_agreement(self, context: FitContext, moments: Moments) -> float | None:
        """Raise where two halves of the prompts do not see the same groups in the images.

        Returns their correlation; None where there is one prompt for each group.
        """
        rows = matched(self.name, context, self.prototype)
        if len(rows) < 2:
            return None
        first, second = (geometry.unit(half.sum(axis=0)) for half in (rows[::2], rows[1::2]))
        agreed = agreement(first, second, moments.covariance)
        if agreed < self.agreement:
            raise InputError(
                f"the prompts do not tell the groups of {context.attribute.name} apart in these"
                f" images: two halves of them agree with a correlation of {agreed:.2f}, and"
                f" {self.agreement:g} is needed; balancing would follow noise. Pass other prompts,"
                " or a lower agreement="
            )
        return agreed


def _operator(
    attribute: Attribute,
    options: Balanced,
    moments: Moments,
    named: Float64,
    spread: float,
    images: Any = None,
    **given: Any,
) -> BalancedOperator:
    """Return the operator of a collection with these moments; ``images`` become its index."""
    kind: Kind = options.membership
    memberships = Memberships.of(moments, named, spread, kind, options.mode == "query")
    shares = wanted_shares(options.target, attribute.groups)
    empty = [group for group, n in zip(attribute.groups, moments.counts, strict=True) if not n]
    if shares is not None and empty:
        raise InputError(
            f"no image is closest to the prompts of {', '.join(empty)}, so that a share of them has"
            " no meaning; pass target=collection, or other prompts"
        )
    served = None if images is None else Served(images, memberships)
    bounds = None if served is None else served.bounds
    operator = BalancedOperator(attribute, options, moments, memberships, bounds, **given)
    if served is not None:
        operator._serve(served)
    return operator


def _counts(moments: Moments, attribute: Attribute) -> dict[str, Any]:
    counts = dict(zip(attribute.groups, moments.counts.tolist(), strict=True))
    return {"images": counts, "left_out": int(moments.images[1])}


def _adjusted(solved: Solved) -> Float64:
    """Return what the candidates are ranked by."""
    found = solved.pool.all
    return balance.adjusted(found.scores, found.memberships, solved.answer.lam)


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


METHOD = Balanced
