"""The programme of balanced search: its theorem by brute force, its two solvers, ties, strengths, candidates, bad input."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import equipoise as eq
from equipoise import _balance as balance
from equipoise._balance import Bounds, InfeasibleTargetError, Searched
from equipoise._balance._vertices import lowest_vertex

ROUNDING = 1e-9  # sums of a few dozen numbers of size one


def question(seed, ties=False, most=10):
    """Scores, memberships, a target that some weights reach, and k; rounded numbers tie often."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(3, most)), int(rng.integers(1, 4))
    scores, memberships = rng.standard_normal(n), rng.standard_normal((n, r))
    if ties:
        scores, memberships = np.round(scores), np.round(memberships)
    k = int(rng.integers(1, n))
    weights = rng.random(n)
    weights = weights if weights.sum() > k else 1 - weights
    weights *= k / weights.sum()
    if weights.max() > 1:
        weights = np.full(n, k / n)
    return scores, memberships, weights @ memberships / k, k


def by_highs(scores, memberships, target, k):
    """The value of (P), by the textbook's programme over all images; None where there is none."""
    rows = np.vstack([np.ones(len(scores)), (memberships - target).T])
    sums = np.append(float(k), np.zeros(len(target)))
    found = linprog(-scores, A_eq=rows, b_eq=sums, bounds=(0, 1), options=balance.TIGHT)
    return None if found.status == 2 else -found.fun


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.booleans())
def test_no_page_that_is_as_balanced_scores_higher(seed, ties):
    """Weak duality for every k-subset; strong duality for the optimum."""
    scores, memberships, target, k = question(seed, ties)
    found = balance.solve(scores, memberships, target, k)
    pages = np.array(list(combinations(range(len(scores)), k)))
    totals = scores[pages].sum(axis=1)
    drifts = (memberships[pages] - target).sum(axis=1)
    assert (totals <= found.bound + drifts @ found.lam + ROUNDING).all()
    as_good = (np.sign(found.lam) * drifts <= ROUNDING).all(
        axis=1
    )  # the same mean, or a better one
    assert (totals[as_good] <= found.bound + ROUNDING).all()
    assert abs(found.gap) < ROUNDING
    assert abs(found.bound - by_highs(scores, memberships, target, k)) < ROUNDING
    assert abs(found.bound - balance.dual(scores, memberships, target, k, found.lam)) < ROUNDING


@given(st.integers(0, 10**6))
def test_the_page_is_the_optimum_but_for_images_that_are_tied(seed):
    """Without the tied images, page and optimum have the same images, and at most r + 1 are tied."""
    scores, memberships, target, k = question(seed, most=30)
    found = balance.solve(scores, memberships, target, k)
    lifted = balance.adjusted(scores, memberships - target, found.lam)
    tied = np.abs(lifted - found.edge) < ROUNDING
    assert tied.sum() <= len(target) + 1
    assert set(np.flatnonzero(lifted > found.edge + ROUNDING)) <= set(found.page.tolist())
    assert (lifted[found.page] >= found.edge - ROUNDING).all()
    np.testing.assert_array_equal(found.mean, memberships[found.page].mean(axis=0))


@given(st.integers(0, 10**6), st.booleans())
def test_where_two_lines_meet_is_what_the_linear_programme_finds(seed, ties):
    scores, memberships, target, k = question(seed, ties, most=60)
    offsets = memberships[:, :1] - target[:1]
    one = balance.minimise_one(scores, offsets[:, 0], k)
    many = balance.minimise_many(scores, offsets, k)
    assert one is not None and many is not None
    assert abs(one.value - many.value) < ROUNDING
    values = [balance.dual(scores, offsets, np.zeros(1), k, at) for at in (one.lam, many.lam)]
    np.testing.assert_allclose(values, one.value, atol=ROUNDING)  # both minimise Phi


def as_rows(memberships, target, k):
    """The rows (n, r + 1) and sums of (P): how many images, and how far from the target."""
    rows = np.column_stack([np.ones(len(memberships)), memberships - target])
    return rows, np.append(float(k), np.zeros(len(target)))


@given(st.integers(0, 10**6), st.booleans())
def test_the_lowest_vertex_is_what_the_linear_programme_finds(seed, ties):
    """From any basis. Where images tie it may find none, and never a wrong one."""
    scores, memberships, target, k = question(seed, ties, most=60)
    rows, sums = as_rows(memberships, target, k)
    order = np.random.default_rng(seed).permutation(len(scores))
    found = lowest_vertex(scores, rows, sums, order)
    if found is None:
        assert ties or len(scores) <= len(target)
        return
    edge_and_lam, value = found
    assert abs(value - by_highs(scores, memberships, target, k)) < ROUNDING
    dual = balance.dual(scores, memberships, target, k, edge_and_lam[1:])
    assert abs(value - dual) < ROUNDING


def test_there_is_no_lowest_vertex_where_the_target_is_out_of_reach(rng):
    memberships = rng.random((40, 2))
    rows, sums = as_rows(memberships, np.full(2, 1.5), 8)
    assert lowest_vertex(rng.standard_normal(40), rows, sums, np.arange(40)) is None


@given(st.integers(0, 10**6))
def test_of_the_two_pages_that_meet_the_nearer_one_is_served_and_rounding_does_not_choose(seed):
    """Both solve (P) but for the tied images. The shift is where one of them is alone."""
    scores, memberships, target, k = question(seed, most=40)
    memberships, target = memberships[:, :1], target[:1]
    found = balance.solve(scores, memberships, target, k)
    offsets = memberships - target
    lifted = balance.adjusted(scores, offsets, found.lam)
    assert abs(lifted[found.page].sum() - found.bound) < ROUNDING  # optimal at the minimum
    drift = abs(offsets[found.page].sum())
    for step in (-1e-7, 1e-7):
        beside = balance.first(balance.adjusted(scores, offsets, found.lam + step), k)
        optimal = abs(lifted[beside].sum() - found.bound) < ROUNDING
        assert not optimal or drift <= abs(offsets[beside].sum()) + ROUNDING
    if found.lam.any():
        order = np.sort(balance.adjusted(scores, offsets, found.shift))[::-1]
        assert k == len(order) or order[k - 1] > order[k]


def test_the_gap_is_measured_and_not_presumed(monkeypatch, rng):
    """A minimum that is none has a gap: what its bound is above the value of (P)."""
    scores, memberships = rng.standard_normal(50), rng.standard_normal((50, 1))
    scores += 2 * memberships[:, 0]
    right = balance.solve(scores, memberships, [0.0], 10)

    def wrong(*given):
        found = balance.minimise_one(*given)
        return found._replace(lam=0.5 * found.lam, shift=0.5 * found.shift)

    monkeypatch.setattr("equipoise._balance._programme.minimise_one", wrong)
    found = balance.solve(scores, memberships, [0.0], 10)
    assert abs(right.gap) < ROUNDING < found.gap
    assert abs(found.gap - (found.bound - right.bound)) < ROUNDING


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.1, 1.0, 10.0]))
def test_a_guess_changes_the_time_and_not_the_answer(seed, ties, far):
    scores, memberships, target, k = question(seed, ties, most=60)
    guess = far * np.random.default_rng(seed).standard_normal(len(target))
    found = balance.solve(scores, memberships, target, k, guess=guess)
    assert abs(found.bound - by_highs(scores, memberships, target, k)) < ROUNDING
    assert abs(found.gap) < ROUNDING


def test_where_a_page_has_the_target_itself_nothing_is_tied(rng):
    """Labels for memberships: Phi is flat, and its middle gives a page that is exactly balanced."""
    for _ in range(50):
        scores, labels = rng.standard_normal(40), rng.integers(0, 2, 40).astype(float)
        if 10 <= labels.sum() <= 30:
            found = balance.solve(scores + labels, labels, [0.5], 20)
            assert found.mean == 0.5 and abs(found.gap) < ROUNDING
            best = sorted(scores[labels == 0] + 0)[-10:] + sorted(scores[labels == 1] + 1)[-10:]
            assert abs(found.score - sum(best)) < ROUNDING


def test_a_target_at_the_end_of_what_can_be_reached():
    """All of one group: lam may be as large as one likes, and the page is that group's best."""
    scores, labels = np.arange(10.0), np.array([0, 1] * 5, float)
    found = balance.solve(scores, labels, [0.0], 3)
    assert found.page.tolist() == [8, 6, 4] and np.isfinite(found.lam).all()
    assert abs(found.gap) < ROUNDING
    assert balance.solve(scores, labels, [0.0], 5).page.tolist() == [8, 6, 4, 2, 0]


def test_everything_tied():
    found = balance.solve(np.ones(9), np.eye(9)[:, :2], np.full(2, 1 / 9), 4)
    assert len(set(found.page.tolist())) == 4 and abs(found.gap) < ROUNDING
    same = balance.solve(np.arange(9.0), np.ones((9, 1)), [1.0], 4)
    assert same.page.tolist() == [8, 7, 6, 5] and not same.lam.any()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25, 0.7, 1.0]))
def test_every_strength_is_an_optimum_for_its_own_target(seed, strength):
    scores, memberships, target, k = question(seed, most=40)
    found = balance.solve(scores, memberships, target, k, strength=strength)
    plain = balance.first(scores, k)
    start = memberships[plain].mean(axis=0)
    np.testing.assert_allclose(found.target, start + strength * (target - start), atol=1e-12)
    if strength == 0:
        assert not found.lam.any() and found.page.tolist() == plain.tolist()
        assert found.score == found.plain_score
    else:
        again = balance.solve(scores, memberships, found.target, k)
        assert abs(found.bound - again.bound) < ROUNDING
    assert found.bound <= found.plain_score + ROUNDING


@given(st.integers(0, 10**6), st.floats(-3, 3))
def test_a_query_that_is_shifted_has_the_same_balanced_page(seed, much):
    """(P) holds the mean membership, so that scores less any multiple of it have the same optimum."""
    scores, memberships, target, k = question(seed, most=40)
    shift = much * np.ones(len(target))
    found = balance.solve(scores, memberships, target, k)
    moved = balance.solve(
        balance.adjusted(scores, memberships - target, shift), memberships, target, k
    )
    assert abs(found.bound - moved.bound) < ROUNDING
    first = balance.dual(scores, memberships, target, k, moved.lam + shift)
    assert abs(first - found.bound) < ROUNDING


@pytest.mark.parametrize("k", [1, 20, 500])
@pytest.mark.parametrize("far", [0.5, 1.03, 2.0])
def test_images_that_cannot_change_places_are_left_out_of_the_search(k, far, rng):
    """The bracket of one membership is narrowed again and again; the answer is HiGHS's."""
    memberships = 0.1 * rng.standard_normal((3000, 1))
    for _ in range(5):
        scores = 0.2 * rng.standard_normal(3000) + memberships[:, 0]
        target = memberships.mean(axis=0)
        found = balance.minimise_one(scores, memberships[:, 0] - target, k, far)
        assert abs(found.value - by_highs(scores, memberships, target, k)) < 1e-7  # HiGHS' own
        dual = balance.dual(scores, memberships, target, k, found.lam)
        assert abs(dual - found.value) < ROUNDING


@pytest.mark.parametrize("r", [1, 3])
def test_a_large_collection_has_the_answer_of_the_whole_programme(r, rng):
    """Few of 20,000 images are looked at, and the answer is that over all of them."""
    memberships = rng.standard_normal((20_000, r)) @ rng.standard_normal((r, r))
    scores = rng.standard_normal(20_000) + memberships[:, 0]
    target = memberships.mean(axis=0)
    found = balance.solve(scores, memberships, target, 50)
    assert abs(found.gap) < ROUNDING and found.lam.any()
    assert abs(found.bound - by_highs(scores, memberships, target, 50)) < 1e-7  # HiGHS' own
    lifted = balance.adjusted(scores, memberships - target, found.lam)
    assert (np.delete(lifted, found.page) <= found.edge + ROUNDING).all()


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_candidates_that_are_called_exact_give_the_whole_answer(seed, count):
    """Point 5: no image outside can be above the edge, so that both have the same bound."""
    rng = np.random.default_rng(seed)
    scores, memberships = rng.standard_normal(300), 0.3 * rng.standard_normal((300, 2))
    target, k, at = memberships.mean(axis=0), 5, rng.standard_normal(2) * rng.integers(0, 2)
    lifted = balance.adjusted(scores, memberships - target, at)
    few = balance.first(lifted, count + k)
    bounds = Bounds.of(memberships)
    try:
        part = balance.solve(scores[few], memberships[few], target, k)
    except InfeasibleTargetError:
        return
    searched = [Searched(at, float(lifted[few[-1]]))]
    whole = balance.solve(scores, memberships, target, k)
    assert part.bound <= whole.bound + ROUNDING
    if part.exact(searched, bounds):
        assert abs(part.bound - whole.bound) < ROUNDING


def test_some_candidates_are_called_exact_and_some_are_not(rng):
    scores, memberships = rng.standard_normal(3000), 0.1 * rng.standard_normal((3000, 1))
    target, bounds = memberships.mean(axis=0), Bounds.of(memberships)

    def exact(count):
        few = balance.first(scores, count)
        part = balance.solve(scores[few], memberships[few], target, 10)
        return part.exact([Searched(np.zeros(1), float(scores[few[-1]]))], bounds)

    assert [exact(count) for count in (12, 1500)] == [False, True]


def test_a_target_out_of_reach_is_an_error_that_says_what_is_near(rng):
    """Two images of a group cannot be a third of twelve."""
    labels = np.zeros(100)
    labels[:2] = 1
    scores = rng.standard_normal(100)
    with pytest.raises(
        InfeasibleTargetError, match=r"nearest that some have is .*0\.1667"
    ) as error:
        balance.solve(scores, labels, [1 / 3], 12)
    np.testing.assert_allclose(error.value.nearest, [2 / 12], atol=1e-9)
    found = balance.solve(scores, labels, [1 / 3], 12, nearest=True)
    assert {0, 1} <= set(found.page.tolist())
    several = np.eye(4)[rng.integers(0, 4, 400)][:, :3]
    with pytest.raises(InfeasibleTargetError):
        balance.solve(rng.standard_normal(400), several, [0.9, 0.9, 0.9], 20)
    near = balance.solve(rng.standard_normal(400), several, [0.9, 0.9, 0.9], 20, nearest=True)
    assert near.nearest and abs(near.gap) < ROUNDING and abs(near.target.sum() - 1) < ROUNDING
    assert abs(near.mean.sum() - 1) <= 4 / 20 + ROUNDING  # four images may be tied at the edge


GOOD = np.arange(6.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 7}, "k=7 images were asked for, and there are 6"),
        ({"k": 0}, "k=0 is not legal"),
        ({"k": 2.0}, "k=2.0 is not legal"),
        ({"scores": np.full(6, np.nan)}, "scores hold NaN or infinity in 6 rows"),
        ({"memberships": np.append(np.ones(5), np.inf)}, r"memberships hold .*\(first: 5\)"),
        ({"target": [np.nan]}, "target hold NaN"),
        ({"target": [1.0, 2.0]}, "pass one number for each"),
        ({"memberships": np.ones(5)}, r"pass \(n,\) and \(n, r\)"),
        ({"strength": 1.5}, "strength=1.5 is not legal"),
    ],
)
def test_what_is_no_question(change, message):
    fields = {"scores": GOOD, "memberships": GOOD, "target": [2.5], "k": 2} | change
    with pytest.raises(eq.EquipoiseError, match=message):
        balance.solve(**fields)
