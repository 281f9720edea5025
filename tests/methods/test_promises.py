"""What each method promises: what must be zero is zero, invariances, idempotence; with attributes of different scale."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import equipoise as eq
from equipoise import geometry
from equipoise.methods import _clip_clip as clip_clip
from equipoise.methods import _fairer_clip as fairer_clip
from equipoise.methods import _fitting_texts as texts
from equipoise.methods import _leace as leace
from equipoise.methods._fitting_rows import group_codes
from equipoise.methods._sfid import Imputation, SfidOperator
from tests.helpers.common import unit

DIM = 40
GENDER = eq.Attribute("gender", ("male", "female"))
AGE = eq.Attribute("age", ("young", "middle-aged", "old"))
BOTH = GENDER & AGE


@pytest.fixture
def pairs(rng):
    """(7, 6, d): unit rows of seven prompts in six groups; gender is a hundred times as strong as age."""
    shared, gender, age = (
        rng.standard_normal((7, 1, DIM)),
        rng.standard_normal((2, DIM)),
        rng.standard_normal((3, DIM)) / 100,
    )
    parts = [
        gender[GENDER.groups.index(g)] + age[AGE.groups.index(a)]
        for g, a in map(BOTH.split, BOTH.groups)
    ]
    return unit(shared + np.stack(parts) + rng.standard_normal((7, 6, DIM)) / 300)


@pytest.fixture
def prompts(pairs):
    return eq.FitContext(
        BOTH, prototypes=dict(zip(BOTH.groups, pairs.transpose(1, 0, 2), strict=True))
    )


@pytest.fixture
def labelled(rng):
    """Images in which gender is a hundred times as strong as age, groups of very different size, some labels unknown."""
    s = rng.choice(6, 3000, p=[0.5, 0.2, 0.2, 0.05, 0.03, 0.02])
    names = [BOTH.split(BOTH.groups[i]) for i in s]
    gender, age = rng.standard_normal(DIM), rng.standard_normal((3, DIM)) / 100
    rows = rng.standard_normal((3000, DIM)) * np.geomspace(0.05, 2, DIM) + 3 * rng.standard_normal(
        DIM
    )
    rows += np.stack([(g == "male") * gender + age[AGE.groups.index(a)] for g, a in names])
    features = {"gender": [g for g, _ in names], "age": [a for _, a in names]}
    features["age"][5] = features["age"][77] = "unknown"
    return eq.FitContext(BOTH, images=rows, sensitive_features=features)


def applied(operator, rows, change="image"):
    """In float64, so that only the method's own rounding is seen."""
    return getattr(operator, change)(np.asarray(rows, np.float64))


def dense(low_rank, dim=DIM):
    return np.eye(dim) - low_rank.left @ low_rank.right.T


# --- Orth-Proj and Orth-Cali ---------------------------------------------------------------------------------------------


def test_orth_proj_is_idempotent_and_off_every_text(prompts, pairs, rng):
    rows = rng.standard_normal((9, DIM))
    for span, off in (
        ("prompts", unit(unit(pairs).sum(0))),
        ("differences", np.diff(unit(unit(pairs).sum(0)), axis=0)),
    ):
        operator = eq.methods.create("orth-proj", span=span).fit(prompts)
        once = applied(operator, rows, "text")
        assert np.abs(once @ off.T).max() < 1e-12
        np.testing.assert_allclose(applied(operator, once, "text"), once, atol=1e-12)
    few = eq.FitContext(GENDER, prototypes={"male": pairs[:3, 0], "female": pairs[:3, 5]})
    texts_off = eq.methods.create("orth-proj", span="texts").fit(few)
    assert texts_off.space.rank == 6
    assert (
        np.abs(applied(texts_off, rows, "text") @ np.r_[pairs[:3, 0], pairs[:3, 5]].T).max() < 1e-12
    )
    with pytest.raises(eq.EquipoiseError, match="42 texts span 39 of 40 dimensions"):
        eq.methods.create("orth-proj", span="texts").fit(prompts)


def pair_matrix(pairs):
    """M as the paper writes it: the mean of (z_i - z_j)(z_i - z_j)^T over the pairs that differ in the group alone."""
    gaps = np.stack([z[i] - z[j] for z in pairs for i in range(6) for j in range(i)])
    return gaps, gaps.T @ gaps / len(gaps)


@pytest.mark.parametrize("lam", [1e-9, 1.0, 1000.0, 1e9])
@pytest.mark.parametrize("projection", [True, False])
def test_orth_cali_is_the_minimiser(lam, projection, prompts, pairs, rng):
    """P = P0 (I + lam M)^-1, which makes the gradient of |P - P0|^2 + lam mean |P z_i - P z_j|^2 zero; Woodbury's form equals the dense one."""
    _, m = pair_matrix(pairs)
    z = unit(unit(pairs).sum(0))
    p0 = np.eye(DIM) - np.linalg.pinv(z) @ z if projection else np.eye(DIM)
    operator = eq.methods.create("orth-cali", lam=lam, projection=projection).fit(prompts)
    p = dense(operator.maps["text"])
    np.testing.assert_allclose(
        p, p0 @ np.linalg.inv(np.eye(DIM) + lam * m), atol=2**-23
    )  # shares under 2^-24 are left out
    assert np.abs((p - p0) + lam * p @ m).max() < 1e-6 * max(1, lam * np.abs(m).max())
    rows = rng.standard_normal((5, DIM))
    np.testing.assert_allclose(applied(operator, rows, "text"), unit(rows @ p.T), atol=1e-12)


def test_orth_cali_between_its_limits(prompts, pairs, rng):
    """lam -> 0 is Orth-Proj; lam -> infinity draws every pair together, weak attribute and strong."""
    rows, gaps = rng.standard_normal((5, DIM)), pair_matrix(pairs)[0]
    projected = applied(eq.methods.create("orth-proj").fit(prompts), rows, "text")
    np.testing.assert_allclose(
        applied(eq.methods.create("orth-cali", lam=1e-12).fit(prompts), rows, "text"),
        projected,
        atol=1e-9,
    )
    left = [
        np.abs(
            gaps @ dense(eq.methods.create("orth-cali", lam=lam).fit(prompts).maps["text"]).T
        ).max()
        for lam in (0, 1e3, 1e9, 1e12)
    ]
    assert left[0] > 1e-3 and left == sorted(left, reverse=True) and left[3] < 1e-7


def test_the_mean_over_pairs_needs_no_pairs(pairs):
    np.testing.assert_allclose(
        texts.differences(pairs).T @ texts.differences(pairs), pair_matrix(pairs)[1], atol=1e-12
    )


# --- BEND-VLM --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bendable(labelled, pairs):
    """Labelled images, and a book of seven prompts in six groups."""
    book = {
        f"a photo of a thing {i}": {group: [f"{group} {i}"] for group in BOTH.groups}
        for i in range(7)
    }
    table = {f"{group} {i}": pairs[i, j] for i in range(7) for j, group in enumerate(BOTH.groups)}
    return eq.FitContext(
        BOTH,
        book=eq.PromptBook.of(book),
        text_table=table,
        images=labelled.images,
        sensitive_features=labelled.sensitive_features,
    )


def test_bend_vlm_is_as_near_to_one_group_as_to_another(bendable, rng):
    """The mean score of each group's nearest references is the same, weak attribute and strong; without the second step it is not."""
    operator = eq.methods.create("bend-vlm", neighbours=25).fit(bendable)
    queries = unit(rng.standard_normal((6, DIM)))
    prompts = [*list(bendable.book.prompts)[:3], "a thing", "a thing", "a thing"]
    for query, out, prompt in zip(queries, operator.text(queries, prompts), prompts, strict=True):
        basis = operator.local_basis(operator.worded(prompt))
        projected = unit(query - basis @ (basis.T @ query))
        means = operator.group_means(projected)
        assert np.ptp(means @ projected) > 1e-3
        assert np.ptp(means @ out) < 1e-7  # the references are stored in float32
    assert operator.text(queries[:1], prompts[:1]) != pytest.approx(operator.text(queries[:1]))


def test_bend_vlm_projects_off_what_a_prompt_s_own_wordings_differ_in(bendable, pairs):
    operator = eq.methods.create("bend-vlm").fit(bendable)
    for i, prompt in enumerate(bendable.book.prompts):
        basis = operator.local_basis(operator.worded(prompt))
        rest = pairs[i] - pairs[i] @ basis @ basis.T
        np.testing.assert_allclose(rest - rest.mean(0), 0, atol=1e-5)  # the rank's tolerance
        assert np.abs(unit(unit(pairs).sum(0)) @ basis @ basis.T).max() > 0.05


def test_bend_vlm_s_second_step_is_what_the_authors_solver_finds(rng):
    """argmax <e, t> where all <e, mu_g> agree and e has unit length, by SLSQP as in their code."""
    from scipy.optimize import minimize

    dim, codes = 10, np.repeat([0, 1, 2], 30)
    references = unit(rng.standard_normal((90, dim)) + np.eye(dim)[codes])
    context = eq.FitContext(
        AGE,
        prototypes=dict(zip(AGE.groups, np.eye(dim)[:3], strict=True)),
        images=references,
        sensitive_features=np.array(AGE.groups)[codes],
    )
    operator = eq.methods.create("bend-vlm", neighbours=5).fit(context)
    for text in unit(rng.standard_normal((4, dim))):
        projected = unit(text - operator.generic @ (operator.generic.T @ text))
        first, *others = operator.group_means(projected)
        constraints = [{"type": "eq", "fun": lambda e: e @ e - 1}]
        for mean in others:
            constraints.append({"type": "eq", "fun": lambda e, gap=mean - first: e @ gap})
        solved = minimize(
            lambda e, t=projected: -e @ t, projected, method="SLSQP", constraints=constraints
        )
        np.testing.assert_allclose(operator.bent(text), solved.x, atol=1e-5)


# --- Re-rankers ------------------------------------------------------------------------------------------------------------


def groups_in_order(places):
    """The group of each place of a page."""
    size = sum(len(there) for there in places)
    order = np.full(size, -1)
    for group, there in enumerate(places):
        order[there] = group
    assert (order >= 0).all()
    return order


@pytest.fixture
def best(rng):
    """Scores of three groups' images, best first; the first group is far ahead, the last has few."""
    found = [rng.standard_normal(60) + 3, rng.standard_normal(60), rng.standard_normal(9) - 2]
    return [-np.sort(-scores) for scores in found]


@pytest.mark.parametrize("shares", [(0.5, 0.35, 0.15), (1 / 3, 1 / 3, 1 / 3), (0.9, 0.1, 0.0)])
def test_det_const_sort_holds_every_share_in_every_prefix(shares, best):
    shares = np.array(shares)
    page = eq.methods.create("det-const-sort", k=27).places(best, shares)
    order = groups_in_order(page)
    assert len(order) == 27
    for prefix in range(1, 28):
        counts = np.bincount(order[:prefix], minlength=3)
        assert (counts >= np.floor(shares * prefix + 1e-9)).all()
    greedy = [best[group][: len(there)].sum() for group, there in enumerate(page)]
    assert len(greedy) == 3  # of every group, the best come


def test_det_const_sort_moves_better_images_up(best):
    """A worse image that came first for its share stands later, as far as its deadline allows."""
    order = groups_in_order(
        eq.methods.create("det-const-sort", k=10).places(best[:2], np.r_[0.5, 0.5])
    )
    assert order.tolist() == [0, 1] * 5
    order = groups_in_order(
        eq.methods.create("det-const-sort", k=10).places(best[:2], np.r_[0.2, 0.8])
    )
    assert (
        order.tolist()[4] == 1 and 0 in order[:5] and order[0] == 0
    )  # due at 5, and the best there


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_fa_ir_is_fair_in_every_prefix_and_no_more_than_needed(alpha, best, rng):
    from equipoise.methods._fa_ir import at_least, failing

    shares = np.array([0.4, 0.4, 0.2])
    method = eq.methods.create("fa-ir", k=40, alpha=alpha)
    order = groups_in_order(method.places(best, shares))
    for group, share in enumerate(shares):
        counts = np.cumsum(order == group)
        needed = np.minimum(at_least(40, float(share), alpha), len(best[group]))
        assert (counts >= needed).all()
        assert failing(at_least(40, float(share), alpha), share) <= alpha
    drawn = np.cumsum(rng.random((20_000, 40)) < 0.4, axis=1)
    failed = (drawn < at_least(40, 0.4, alpha)).any(1).mean()
    assert failed <= alpha + 0.01  # three standard deviations of 20,000 draws
    mixed = [-np.sort(-rng.standard_normal(50)) for _ in range(2)]
    plain = groups_in_order(
        [np.flatnonzero(np.argsort(-np.r_[mixed[0], mixed[1]])[:20] // 50 == g) for g in (0, 1)]
    )
    fair = all((np.cumsum(plain == g) >= at_least(20, 0.5, alpha)).all() for g in (0, 1))
    kept = groups_in_order(
        eq.methods.create("fa-ir", k=20, alpha=alpha).places(mixed, np.r_[0.5, 0.5])
    )
    assert not fair or (kept == plain).all()  # a page that passes stays as it was


def test_pbm_gives_every_group_as_many_places(best):
    order = groups_in_order(eq.methods.create("pbm", k=24).places(best, np.r_[0.9, 0.1, 0.0]))
    for round_ in range(8):
        assert sorted(order[3 * round_ : 3 * round_ + 3]) == [0, 1, 2]
    whole = groups_in_order(eq.methods.create("pbm", k=99).places(best, np.r_[0.9, 0.1, 0.0]))
    assert np.bincount(whole).tolist() == [45, 45, 9]  # a group that has run out takes no more
    with pytest.raises(eq.EquipoiseError, match="gives every group as many places"):
        eq.methods.create("pbm", target="collection").fit(eq.FitContext(GENDER))


@pytest.mark.parametrize("name", ["pbm", "det-const-sort", "fa-ir"])
def test_a_re_ranked_page_is_what_scores_rank(name, rng):
    """The page by the rule, of the best of each group; what follows is in its plain order."""
    from equipoise.methods._memberships import closest

    rows, queries = unit(rng.standard_normal((300, DIM))), unit(rng.standard_normal((5, DIM)))
    prototypes = unit(np.eye(DIM)[:2] + np.eye(DIM)[2])
    context = eq.FitContext(
        GENDER, prototypes=dict(zip(GENDER.groups, prototypes, strict=True)), images=rows
    )
    operator = eq.methods.create(name, k=10).fit(context)
    groups = closest(rows, prototypes)
    for j, column in enumerate(operator.scores(rows, queries).T):
        plain = rows @ queries[j]
        best = [-np.sort(-plain[groups == group]) for group in (0, 1)]
        order = groups_in_order(operator.options.places(best, operator.shares))
        ranked = np.argsort(-column, kind="stable")
        assert groups[ranked[:10]].tolist() == order.tolist()
        for group in (0, 1):
            mine = ranked[:10][order == group]
            np.testing.assert_array_equal(plain[mine], best[group][: len(mine)])
        assert (np.diff(plain[ranked[10:]]) <= 0).all()


# --- PRISM-mini and RoboShot ---------------------------------------------------------------------------------------------


def test_prism_mini_scores_are_those_of_projecting_both_sides(prompts, rng):
    images, queries = rng.standard_normal((20, DIM)), unit(rng.standard_normal((4, DIM)))
    one, both = (
        eq.methods.create("prism-mini", modality=modality).fit(prompts)
        for modality in ("image", "both")
    )
    np.testing.assert_allclose(
        one.scores(images, queries), both.scores(images, queries), atol=1e-12
    )
    p = dense(one.maps["image"])
    np.testing.assert_allclose(p, p.T, atol=1e-12)
    np.testing.assert_allclose(p @ p, p, atol=1e-12)
    words = unit(unit(np.stack(list(prompts.prototypes.values()), 1)).sum(0))
    assert (
        np.abs(words @ p).max() < 1e-9 and one.rank == 6
    )  # the words themselves go, not only their differences
    np.testing.assert_allclose(one.image(images), unit(images) @ p, atol=1e-12)


def test_prism_mini_encodes_bare_words():
    class Words:
        def __init__(self):
            self.asked = []

        def encode_text(self, given):
            self.asked += given
            return np.eye(DIM)[[len(text) for text in given]]

    for attribute, words in (
        (GENDER, ["man", "woman"]),
        (eq.Attribute.load("age"), ["young", "old"]),
        (BOTH, list(BOTH.groups)),
    ):
        encoder = Words()
        eq.methods.create("prism-mini").fit(eq.FitContext(attribute, encoder=encoder))
        assert encoder.asked == words


@pytest.mark.parametrize("accept", [False, True])
def test_roboshot_is_its_own_loop(accept, rng):
    """The code goes over the directions of a QR one by one, and normalises after each."""
    table = {f"t{i}": rng.standard_normal(DIM) * 10.0 ** rng.uniform(-2, 2) for i in range(14)}
    reject, kept = (
        tuple((f"t{i}", f"t{i + 1}") for i in numbers)
        for numbers in (range(0, 8, 2), range(8, 14, 2))
    )
    params = {"reject": reject} | ({"accept": kept} if accept else {})
    operator = eq.methods.create("roboshot", **params).fit(eq.FitContext(GENDER, text_table=table))
    z = {text: unit(row) for text, row in table.items()}
    x = unit(rng.standard_normal((6, DIM)))
    expected = x
    for sign, some in ((-1, reject), (1, kept if accept else ())):
        directions = (
            np.linalg.qr(np.stack([z[a] - z[b] for a, b in some], axis=1))[0].T if some else []
        )
        for q in directions:
            expected = unit(expected + sign * (expected @ q)[:, None] * q)
    np.testing.assert_allclose(operator.image(x), expected, atol=1e-12)


def test_roboshot_takes_every_difference_of_the_book_out(pairs, rng):
    pairs = pairs[:4]
    prompts = eq.FitContext(
        BOTH, prototypes=dict(zip(BOTH.groups, pairs.transpose(1, 0, 2), strict=True))
    )
    operator = eq.methods.create("roboshot").fit(prompts)
    out = applied(operator, rng.standard_normal((5, DIM)))
    assert np.abs(out @ pair_matrix(pairs)[0].T).max() < 1e-9
    np.testing.assert_allclose(
        applied(operator, out), out, atol=1e-9
    )  # without accept pairs, a projection
    twice = eq.FitContext(
        BOTH, prototypes={group: np.r_[rows, rows] for group, rows in prompts.prototypes.items()}
    )
    assert (
        eq.methods.create("roboshot").fit(twice).rank == operator.rank
    )  # duplicates add no direction of noise


# --- LEACE ---------------------------------------------------------------------------------------------------------------


def one_hot(context):
    codes = group_codes(context.sensitive_features, context.attribute)
    return codes >= 0, np.eye(6)[codes]


@pytest.mark.parametrize("variant", ["leace", "orth"])
@pytest.mark.parametrize("shrinkage", [True, False])
def test_leace_leaves_no_covariance_and_no_linear_predictor(variant, shrinkage, labelled):
    operator = eq.methods.create("leace", variant=variant, shrinkage=shrinkage).fit(labelled)
    known, z = one_hot(labelled)
    x, z = applied(operator, labelled.images)[known], z[known]
    x, z = x - x.mean(0), z - z.mean(0)
    before = unit(np.asarray(labelled.images))[known]
    assert np.abs((before - before.mean(0)).T @ z / len(z)).max() > 1e-3
    assert np.abs(x.T @ z / len(z)).max() < 1e-12
    fitted = x @ np.linalg.lstsq(x, z, rcond=None)[0]  # least squares does no better than the mean
    assert np.abs(fitted).max() < 1e-8
    assert operator.rank == 5 and known.sum() == 2998
    np.testing.assert_allclose(
        applied(operator, labelled.images).mean(0),
        unit(np.asarray(labelled.images)).mean(0),
        atol=1e-3,
    )


def test_leace_changes_least(labelled):
    """Of two maps that both erase, LEACE moves the rows less in expectation; and a trace that never grows [METHODS 13]."""
    known, _ = one_hot(labelled)
    x = unit(np.asarray(labelled.images))[known]
    moved = {}
    for variant in ("leace", "orth"):
        out = applied(
            eq.methods.create("leace", variant=variant, shrinkage=False).fit(labelled),
            labelled.images,
        )[known]
        moved[variant] = ((out - x) ** 2).sum(1).mean()
        assert np.trace(np.cov(out.T)) <= np.trace(np.cov(x.T)) * (1 + 1e-12)
    assert moved["leace"] < moved["orth"]


def test_unit_length_brings_some_leakage_back(labelled):
    known, z = one_hot(labelled)
    z = z[known] - z[known].mean(0)
    left = []
    for renormalise in (False, True):
        x = applied(
            eq.methods.create("leace", renormalise=renormalise).fit(labelled), labelled.images
        )[known]
        left.append(np.abs((x - x.mean(0)).T @ z / len(z)).max())
    assert left[0] < 1e-12 < 1e-7 < left[1]


def test_leace_with_the_package_s_tolerance_leaves_a_weak_concept_in(labelled):
    assert (
        eq.methods.create("leace", tolerance=0.2).fit(labelled).rank
        < eq.methods.create("leace").fit(labelled).rank
    )


def test_shrinkage_is_between_the_covariance_and_the_identity(rng):
    x = rng.standard_normal((60, DIM)) * np.geomspace(0.1, 3, DIM)
    s = np.cov(x.T, bias=True)
    out = leace.shrunk(s, 60)
    kept = (out - np.diag(np.diag(out))).sum() / (s - np.diag(np.diag(s))).sum()
    assert 0 < kept < 1
    np.testing.assert_allclose(
        out, kept * s + (1 - kept) * np.trace(s) / DIM * np.eye(DIM), atol=1e-12
    )
    np.testing.assert_allclose(leace.shrunk(s, 10**12), s, atol=1e-9)


# --- Other linear erasers ----------------------------------------------------------------------------------------------------


def covariance(x, z):
    return (x - x.mean(0)).T @ (z - z.mean(0)) / len(x)


@pytest.mark.parametrize("shrinkage", [True, False])
def test_splince_erases_the_group_and_keeps_the_class(shrinkage, labelled, rng):
    """The covariance with the group is zero and that with the class is what it was; LEACE keeps the first promise alone."""
    known, z = one_hot(labelled)
    x = unit(np.asarray(labelled.images))
    score = (x - x.mean(0)) @ rng.standard_normal(DIM)
    classes = (score / score.std() + 0.5 * z[:, :3].sum(1) > 0).astype(int)  # goes with gender
    context = replace(labelled, labels=classes)
    y = np.eye(2)[classes]
    found = {}
    for name in ("splince", "leace"):
        operator = eq.methods.create(name, shrinkage=shrinkage).fit(context)
        found[name] = applied(operator, labelled.images)[known]
        assert np.abs(covariance(found[name], z[known])).max() < 1e-12
    kept = covariance(x[known], y[known])
    np.testing.assert_allclose(covariance(found["splince"], y[known]), kept, atol=1e-12)
    assert np.abs(covariance(found["leace"], y[known]) - kept).max() > 1e-4
    moved = {name: ((out - x[known]) ** 2).sum(1).mean() for name, out in found.items()}
    assert moved["leace"] <= moved["splince"]  # which has one more promise to keep


def test_splince_says_where_class_and_group_are_one(labelled):
    gender = np.array([feature == "male" for feature in labelled.sensitive_features["gender"]])
    context = eq.FitContext(
        GENDER,
        images=labelled.images,
        sensitive_features=np.where(gender, "male", "female"),
        labels=gender.astype(int),
    )
    with pytest.raises(eq.EquipoiseError, match="lie in the same directions"):
        eq.methods.create("splince").fit(context)


def test_inlp_leaves_nothing_for_the_next_classifier(labelled):
    """A fresh classifier on what is left is no better than the most frequent group, on the rows that inlp was stopped by."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    operator = eq.methods.create("inlp", rounds=40).fit(labelled)
    known, z = one_hot(labelled)
    codes = z[known].argmax(1)
    rows = unit(np.asarray(labelled.images))[known]
    out = applied(operator, labelled.images)[known]
    left, right = operator.maps["image"].left, operator.maps["image"].right
    np.testing.assert_allclose(left.T @ right, np.eye(operator.rank), atol=1e-9)  # a projection
    fitted, held = train_test_split(
        np.arange(len(rows)), test_size=0.25, random_state=0, stratify=codes
    )

    def right_answers(x):
        x = (x - x.mean(0)) * np.sqrt(DIM)
        return (
            LogisticRegression(max_iter=1000)
            .fit(x[fitted], codes[fitted])
            .score(x[held], codes[held])
        )

    most = np.bincount(codes[held]).max() / len(held)
    assert right_answers(rows) > most + 0.02
    assert right_answers(out) <= most + 3 / len(held) or operator.rank > DIM // 2 - 6


@pytest.mark.parametrize("neutral", ["low-confidence", "groups"])
def test_spd_gives_every_row_the_same_neutral_component(labelled, neutral):
    params = {"modality": "image", "renormalise": False, "neutral": neutral, "directions": 3}
    operator = eq.methods.create("spd", **params).fit(labelled)
    plain = eq.methods.create("inlp", rounds=3).fit(labelled)
    basis = operator.maps["image"].right
    np.testing.assert_allclose(basis, plain.maps["image"].right[:, :3], atol=1e-12)
    out = applied(operator, labelled.images)
    inside = out @ basis
    assert np.abs(inside - inside[0]).max() < 1e-12 < np.abs(inside).max()
    rows = unit(np.asarray(labelled.images))
    away = rows - rows @ basis @ basis.T
    np.testing.assert_allclose(out - inside @ basis.T, away, atol=1e-12)


def test_spd_puts_back_the_mean_of_the_rows_whose_group_a_forest_does_not_know(labelled):
    """With tau 1 that is the mean of every held-out row that one tree at least is wrong about."""
    from equipoise.methods._sfid import Sfid

    params = {"modality": "image", "renormalise": False, "tau": 1.0}
    operator = eq.methods.create("spd", **params).fit(labelled)
    known, z = one_hot(labelled)
    rows = unit(np.asarray(labelled.images))[known]
    _, rest, sure = Sfid().forest(rows, z[known].argmax(1), 0, labelled.seed)
    mean = rows[rest[sure.max(1) < 1]].mean(0)
    basis = operator.maps["image"].right
    inside = applied(operator, labelled.images[:1]) @ basis
    np.testing.assert_allclose(inside[0], basis.T @ mean, atol=1e-12)


def test_fair_pca_keeps_the_most_variance_of_what_is_fair(labelled):
    known, z = one_hot(labelled)
    for components in (6, 20):
        operator = eq.methods.create("fair-pca", components=components).fit(labelled)
        out = applied(operator, labelled.images)[known]
        assert np.abs(covariance(out, z[known])).max() < 1e-12
        assert np.linalg.matrix_rank(out, 1e-8) == components
        fair = applied(eq.methods.create("leace", variant="orth").fit(labelled), labelled.images)
        values = np.linalg.eigvalsh(np.cov(fair[known].T))[::-1]
        assert np.trace(np.cov(out.T)) == pytest.approx(values[:components].sum())
    every = eq.methods.create("fair-pca", components=DIM - 5).fit(labelled)
    centred = applied(every, labelled.images)[known]
    assert np.trace(np.cov(centred.T)) == pytest.approx(values.sum())


def loss_left(rows, codes):
    """What a logistic classifier without a prior loses on the rows that it has learned."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    rows = (rows - rows.mean(0)) * np.sqrt(DIM)
    classifier = LogisticRegression(C=1e6, max_iter=5000).fit(rows, codes)
    return log_loss(codes, classifier.predict_proba(rows))


def test_what_rlace_looks_for_is_the_projection_off_the_mean_differences(labelled):
    """Its game has no better answer: the best logistic classifier is left with the entropy of the labels, the most there is."""
    operator = eq.methods.create("leace", variant="orth").fit(labelled)
    known, z = one_hot(labelled)
    codes, shares = z[known].argmax(1), z[known].mean(0)
    loss = loss_left(applied(operator, labelled.images)[known], codes)
    assert loss == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-6)
    assert operator.rank == len(BOTH.groups) - 1


def test_rlace_leaves_a_classifier_nearly_the_most_loss_there_is(labelled):
    """More than one round of inlp, which hides as many directions; never more than the entropy."""
    known, z = one_hot(labelled)
    codes, shares = z[known].argmax(1), z[known].mean(0)
    operators = [
        eq.methods.create(name, **params).fit(labelled)
        for name, params in (("inlp", {"rounds": 1}), ("rlace", {"rounds": 100}))
    ]
    one_round, game = (loss_left(applied(op, labelled.images)[known], codes) for op in operators)
    entropy = -(shares * np.log(shares)).sum()
    assert one_round < game <= entropy + 1e-6
    left = loss_left(unit(np.asarray(labelled.images))[known], codes)
    assert game - left > 0.9 * (entropy - left)
    basis = operators[1].maps["image"].right
    assert basis.shape[1] == len(BOTH.groups) - 1
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)


@pytest.mark.parametrize("rank", [1, 3])
def test_what_rlace_hides_is_the_nearest_of_its_kind(rng, rank):
    """The projection onto a convex set: no point of the set lies beyond it."""
    from equipoise.methods._rlace import fantope

    given = rng.standard_normal((8, 8))
    given = given + given.T
    nearest = fantope(given, rank)
    values = np.linalg.eigvalsh(nearest)
    assert values.min() > -1e-12 and values.max() < 1 + 1e-12
    assert values.sum() == pytest.approx(rank)
    for _ in range(50):
        other, _ = np.linalg.qr(rng.standard_normal((8, rank)))
        assert np.sum((given - nearest) * (other @ other.T - nearest)) < 1e-9


# --- CLIP-clip and SFID ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["histogram", "knn"])
def test_clip_clip_cuts_the_dimensions_that_tell_the_group(estimator, rng):
    rows = rng.standard_normal((2000, DIM)) * np.geomspace(0.5, 2, DIM)
    s = rng.integers(0, 6, 2000)
    for j, scale in ((3, 2.0), (17, 0.7), (30, 1.2)):
        rows[:, j] += scale * (s % 2 if j == 3 else s // 2)
    context = eq.FitContext(BOTH, images=rows, sensitive_features=np.array(BOTH.groups)[s])
    operator = eq.methods.create("clip-clip", m=3, estimator=estimator).fit(context)
    assert sorted(set(range(DIM)) - set(operator.keep)) == [3, 17, 30]
    np.testing.assert_allclose(operator.image(rows), unit(rows)[:, operator.keep], atol=1e-12)
    with pytest.raises(eq.EquipoiseError, match="a gate cannot keep rows"):
        operator.text(rows[:1], ["a man"], gate=True)
    assert eq.methods.create("clip-clip").fit(context).out_dim == DIM - round(112 / 512 * DIM)


def test_the_histogram_s_information_is_that_of_the_definition(rng):
    """The reference's estimate, straight down: numpy's histogram, scipy's filter, the three sums."""
    from scipy.ndimage import gaussian_filter

    rows, s = rng.standard_normal((500, 4)), rng.integers(0, 3, 500)
    rows[:, 1] += s
    found = clip_clip.histogram_information(rows, s)
    for j in range(4):
        p = (
            gaussian_filter(np.histogram2d(rows[:, j], s, bins=64)[0], 1, mode="constant")
            + np.finfo(float).eps
        )
        p /= p.sum()
        expected = (
            (p * np.log(p)).sum()
            - (p.sum(1) * np.log(p.sum(1))).sum()
            - (p.sum(0) * np.log(p.sum(0))).sum()
        )
        assert found[j] == pytest.approx(expected, abs=1e-9)


def test_sfid_overwrites_what_a_forest_reads_with_what_it_is_unsure_of(rng):
    rows = rng.standard_normal((1200, DIM)) * 0.3 + rng.standard_normal(DIM)
    s = rng.integers(0, 2, 1200)
    rows[:, 4] += 2 * s
    rows[:, 21] += 1.2 * s
    context = eq.FitContext(GENDER, images=rows, sensitive_features=np.array(["male", "female"])[s])
    operator = eq.methods.create("sfid", k=2, modality="image", renormalise=False).fit(context)
    assert operator.fills["image"].places.tolist() == [4, 21]
    out = applied(operator, rows)
    np.testing.assert_array_equal(
        np.ptp(out[:, [4, 21]], axis=0), 0
    )  # the same for every row: nothing to read there
    np.testing.assert_allclose(
        np.delete(out, [4, 21], 1), np.delete(unit(rows), [4, 21], 1), atol=1e-12
    )
    values, means = (
        operator.fills["image"].values,
        [unit(rows)[s == g][:, [4, 21]].mean(0) for g in (0, 1)],
    )
    assert (np.minimum(*means) < values).all() and (
        values < np.maximum(*means)
    ).all()  # between the groups
    assert eq.methods.create("sfid", k=2, modality="image", fill="zero").fit(context).fills[
        "image"
    ].values.tolist() == [0, 0]
    with pytest.raises(
        eq.EquipoiseError,
        match=r"sure of every held-out row \(at least 0.\d+\), so tau=0.5 leaves none",
    ) as refused:
        eq.methods.create("sfid", k=2, modality="image", tau=0.5).fit(context)
    advised = re.search(r"pass tau=(0\.\d+), which leaves (\d+)$", str(refused.value))
    assert advised and int(advised[2]) >= 20
    eq.methods.create("sfid", k=2, modality="image", tau=float(advised[1])).fit(context)


def test_sfid_says_where_no_tau_leaves_anything(rng):
    """Groups so far apart that every tree agrees about every row."""
    s = np.arange(200) % 2
    rows = rng.standard_normal((200, 6)) / 1000 + np.where(s, 1, -1)[:, None]
    context = eq.FitContext(GENDER, images=rows, sensitive_features=np.array(GENDER.groups)[s])
    with pytest.raises(eq.EquipoiseError, match="no tau leaves any, so pass fill=zero"):
        eq.methods.create("sfid", k=2, modality="image").fit(context)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_sfid_s_kernel_is_its_definition(dtype, renormalise, rng, monkeypatch):
    """Rows of any length, without a direction, and of nothing but what is overwritten: by the kernel, by array operations, by hand."""
    places, values = np.array([1, 4, 9]), np.array([0.1, -0.2, 0.05])
    rows = rng.standard_normal((300, DIM)).astype(dtype)
    rows[3], rows[5], rows[7] = 0, np.nan, np.inf
    rows[11] *= {"float64": 1e-250, "float32": 1e-30, "float16": 1e-2}[dtype]
    rows[12] *= {"float64": 1e250, "float32": 1e30, "float16": 1e2}[dtype]
    operator = SfidOperator(GENDER, {"image": Imputation(places, values)}, DIM, renormalise)
    found = operator.image(rows)
    monkeypatch.setenv("EQUIPOISE_NO_NUMBA", "1")
    plain = operator.image(rows)
    good = ~np.isin(np.arange(300), [3, 5, 7])
    expected = geometry.unit(rows[good].astype(np.float64))
    expected[:, places] = values
    expected = unit(expected) if renormalise else expected
    for out in (found, plain):
        assert out.dtype == dtype
        np.testing.assert_array_equal(out[~good], rows[~good])
        np.testing.assert_allclose(
            out[good].astype(np.float64), expected, atol=4 * np.finfo(dtype).eps
        )
    gone = np.zeros((1, DIM), dtype)
    gone[0, 4] = -3
    zero = SfidOperator(GENDER, {"image": Imputation(places, np.zeros(3))}, DIM, renormalise)
    for numba in ("1", ""):
        monkeypatch.setenv("EQUIPOISE_NO_NUMBA", numba)
        np.testing.assert_array_equal(zero.image(gone), gone / 3)


# --- FairerCLIP ------------------------------------------------------------------------------------------------------------


def test_fairer_clip_solves_its_eigenproblem(rng):
    """The thin solution is the dense one: the reference's C^-1 B from n x D features, by a general solver."""
    n, classes, size = 300, 3, 60
    rows, y, s = rng.standard_normal((n, 12)), rng.integers(0, classes, n), rng.integers(0, 4, n)
    features = fairer_clip.Features.draw(rows, size, rng)
    a, b = fairer_clip._centred_one_hot(y, classes), fairer_clip._centred_one_hot(s, 4)
    other = rng.standard_normal((classes, size))[y]
    other -= other.mean(0)
    r = features.of(rows)
    terms = [(1, a), (-0.6 / 0.4, b), (0.3 / 0.7, other)]
    dense_b = sum(
        weight * (r.T @ c) @ (r.T @ c).T / np.linalg.norm((r.T @ c) @ (r.T @ c).T, 2)
        for weight, c in terms
    )
    c = (r - r.mean(0)).T @ (r - r.mean(0)) + n * 1e-3 * np.eye(size)
    values, vectors = np.linalg.eig(np.linalg.solve(c, dense_b))
    best = vectors[:, np.argsort(-values.real)[:2]].real
    root = fairer_clip._root(other[[int(np.flatnonzero(y == k)[0]) for k in range(classes)]])[y]
    problem = fairer_clip._Problem(features, rows, np.ones(n), 1e-3, 0.6, 0.3)
    ours = problem.theta(a, b, root, 2)
    for j in range(ours.shape[1]):
        assert abs(unit(ours[:, j]) @ unit(best[:, j])) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=0), np.sqrt(n))
    wide = fairer_clip._Problem(
        fairer_clip.Features.draw(rows, 2 * n, rng), rows, np.ones(n), 1e-3, 0.6, 0.3
    )  # Woodbury's side
    right = rng.standard_normal((2 * n, 2))
    r = wide.features.of(rows)
    c = (r - r.mean(0)).T @ (r - r.mean(0)) + n * 1e-3 * np.eye(2 * n)
    np.testing.assert_allclose(c @ wide._solve(right), right, atol=1e-8)


def test_fairer_clip_s_classes_stand_for_their_images(rng):
    """The text side's eigenproblem on class prompts, weighed by their images, is that on a row an image."""
    y = rng.integers(0, 3, 200)
    prompts = rng.standard_normal((3, 8))
    features = fairer_clip.Features.draw(prompts, 50, rng)
    a, b = (
        fairer_clip._centred_one_hot(y, 3),
        fairer_clip._centred_one_hot(rng.integers(0, 2, 200), 2),
    )
    members = np.eye(3)[y]
    short = fairer_clip._Problem(features, prompts, members.sum(0), 1e-3, 0.1, 0.1).theta(
        members.T @ a, members.T @ b, None, 1
    )
    long = fairer_clip._Problem(features, prompts[y], np.ones(200), 1e-3, 0.1, 0.1).theta(
        a, b, None, 1
    )
    assert abs(unit(short[:, 0]) @ unit(long[:, 0])) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("classes", "labels"), [(2, "given"), (2, "zero-shot"), (4, "given")])
def test_fairer_clip_forgets_the_group_and_keeps_the_class(classes, labels, rng, monkeypatch):
    """The class and the group go together in the images; a probe reads the group from the encoding less than from the image."""
    n, dim = 1600, 24
    z, direction = unit(rng.standard_normal((classes, dim))), unit(rng.standard_normal(dim))
    y = rng.integers(0, classes, n)
    s = np.where(rng.random(n) < 0.85, y % 2, 1 - y % 2)
    rows = z[y] + 1.5 * np.where(s, 1, -1)[:, None] * direction + rng.standard_normal((n, dim)) / 5
    table = {f"class {i}": row for i, row in enumerate(z)}
    prototypes = {"male": -direction, "female": direction}
    context = eq.FitContext(
        GENDER,
        images=rows,
        labels=y,
        class_prompts=list(table),
        text_table=table,
        prototypes=prototypes,
        sensitive_features=np.array(GENDER.groups)[s],
    )
    operator = eq.methods.create("fairer-clip", features=400, labels=labels, gamma=1e-3).fit(
        context
    )
    right = operator.scores(rows, z).argmax(1) == y
    plain = (unit(rows) @ z.T).argmax(1) == y
    gaps = [
        abs(hit[(s == 0) & (y == k)].mean() - hit[(s == 1) & (y == k)].mean())
        for hit in (right, plain)
        for k in range(classes)
    ]
    assert right.mean() > plain.mean() - 0.02
    assert max(gaps[:classes]) < max(gaps[classes:]) + 0.02
    if (
        classes > 2
    ):  # the same in blocks, and for stored half-width rows: cosines are taken in float32, and only the result is rounded
        monkeypatch.setattr(fairer_clip, "BLOCK", 700)
        half = rows.astype(np.float16)
        exact = operator.image(half.astype(np.float64))
        np.testing.assert_allclose(
            operator.image(half).astype(np.float64), exact, atol=4 * np.finfo(np.float16).eps
        )


def test_fairer_clip_balances_the_classes_on_request(rng):
    y = np.repeat([0, 1, 2], [700, 60, 240])
    table = dict(zip("abc", np.eye(24)[:3], strict=True))
    rows = np.eye(24)[y] + rng.standard_normal((1000, 24)) / 5
    context = eq.FitContext(
        GENDER,
        images=rows,
        labels=y,
        class_prompts=list(table),
        text_table=table,
        prototypes={"male": np.eye(24)[5], "female": np.eye(24)[6]},
    )
    for balanced, images in ((False, 1000), (True, 180)):
        operator = eq.methods.create("fairer-clip", features=100, balanced=balanced).fit(context)
        assert operator.params["images"] == images
    kept = fairer_clip._as_many_of_each(y, rng)
    assert np.bincount(y[kept]).tolist() == [60, 60, 60] and (np.diff(kept) > 0).all()


def test_fairer_clip_says_when_nothing_is_left(rng):
    """Where class and group are one, no direction has the first without the second."""
    y = rng.integers(0, 2, 200)
    rows = rng.standard_normal((200, 10)) + 3 * y[:, None]
    table = {"a": np.ones(10), "b": -np.ones(10)}
    context = eq.FitContext(
        GENDER,
        images=rows,
        labels=y,
        class_prompts=list(table),
        text_table=table,
        sensitive_features=np.array(GENDER.groups)[y],
    )
    with pytest.raises(
        eq.EquipoiseError, match="no direction depends on the class more than on the group at tau 0"
    ):
        eq.methods.create("fairer-clip", features=50, tau=0.9, sensitive="given").fit(context)


# --- adapted ---------------------------------------------------------------------------------------------------------------


def test_adapted_cross_fits(rng):
    """An image's scores come from a space that it had no part in; ``text`` is the space of all images."""
    prototypes = {group: rng.standard_normal(DIM) for group in BOTH.groups}
    images = rng.standard_normal((900, DIM))
    context = eq.FitContext(BOTH, prototypes=prototypes, images=images)
    whole, crossed = (
        eq.methods.create("adapted", kappa=np.inf, folds=folds).fit(context) for folds in (1, 4)
    )
    queries = unit(rng.standard_normal((3, DIM)))
    np.testing.assert_allclose(whole.text(queries), crossed.text(queries), atol=1e-12)
    from equipoise.methods._adapted import fold_of

    fold = fold_of(images, 4)
    assert np.bincount(fold).min() > 150
    scores = crossed.scores(images, queries)
    for i in range(4):
        others = eq.methods.create("adapted", kappa=np.inf).fit(
            eq.FitContext(BOTH, prototypes=prototypes, images=images[fold != i])
        )
        np.testing.assert_allclose(
            scores[fold == i], others.scores(images[fold == i], queries), atol=1e-9
        )
    np.testing.assert_array_equal(fold, fold_of(7 * images, 4))
    assert crossed.per_prompt and not whole.per_prompt


def test_adapted_streams_an_index_larger_than_what_it_may_hold(rng, tmp_path):
    import tracemalloc

    rows = np.lib.format.open_memmap(tmp_path / "index.npy", "w+", np.float16, (200_000, 128))
    for start in range(0, 200_000, 20_000):
        rows[start : start + 20_000] = rng.standard_normal((20_000, 128))
    context = eq.FitContext(
        GENDER,
        prototypes={"male": rng.standard_normal(128), "female": rng.standard_normal(128)},
        images=np.load(tmp_path / "index.npy", mmap_mode="r"),
    )
    tracemalloc.start()
    eq.methods.create("adapted").fit(context)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        peak < rows.nbytes
    )  # 51 MB on disk; blocks of 8,192 rows in float64 with their copies take less


# --- Published check values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "share"),
    [
        (1e-6, 0.38197),
        (1e-4, 0.38197),
        (1e-3, 0.38197),
        (0.1, 0.3824),
        (0.3, 0.3856),
        (0.5, 0.393),
        (0.9, 0.436),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_closed_form_keeps_the_published_share(a, share, dtype):
    """METHODS.md 15: what is left of the attribute component, in float32 down to a = 1e-6."""
    operator = eq.methods.create("closed-form").fit(
        eq.FitContext(GENDER, prototypes={"male": np.eye(4)[0], "female": -np.eye(4)[0]})
    )
    row = np.array([[a, np.sqrt(1 - a * a), 0, 0]], dtype)
    assert operator.image(row)[0, 0] / row[0, 0] == pytest.approx(
        share, abs=5e-4 if a >= 0.5 else 5e-5
    )


def test_the_released_formula_loses_its_digits_in_float32():
    """METHODS.md 15: 1 - b cancels; at a = 3e-4 the share is 0.334, from 1e-4 down nothing is debiased."""
    number = np.float32

    def share(a):
        a, b = number(a), number(np.sqrt(1 - a * a))
        e = a + (number(1) - b) / a
        return (e - b * np.sqrt(e * e - a * a)) / (e * e + b * b) / a

    assert [float(share(a)) for a in (3e-4, 1e-4, 1e-5)] == pytest.approx([0.334, 1, 1], abs=5e-4)
    assert abs(share(1e-3) - 0.38197) > 5e-3


def test_max_skew_over_most_of_a_set_is_bounded():
    """METHODS.md 0.1: with 1,368 images and 1,000 places no ranking exceeds log 1.368."""
    groups, scores = np.repeat(["male", "female"], 684), np.arange(1368.0)[None]
    assert (
        eq.metrics.max_skew(scores, sensitive_features=groups, m=1000)
        == pytest.approx(np.log(1.368))
        == pytest.approx(0.313, abs=5e-4)
    )


# --- What is refused ---------------------------------------------------------------------------------------------------------


def small(n=60, **given):
    rng = np.random.default_rng(0)
    fields = {
        "images": rng.standard_normal((n, 8)),
        "sensitive_features": ["male", "female"] * (n // 2),
        "prototypes": {"male": np.eye(8)[0], "female": np.eye(8)[1]},
    }
    return eq.FitContext(GENDER, **(fields | given))


@pytest.mark.parametrize(
    ("name", "params", "given", "message"),
    [
        ("orth-cali", {"lam": -1}, {}, "lam=-1 is not legal"),
        ("roboshot", {"reject": ("ab", "cd")}, {}, "takes pairs of texts"),
        (
            "roboshot",
            {"accept": (("a", "b"),)},
            {},
            "needs an encoder or text_table for its pairs, which the context lacks",
        ),
        ("roboshot", {"tolerance": 1}, {}, "tolerance=1 is not legal"),
        ("prism-mini", {"words": "x"}, {}, "words='x' is not legal"),
        (
            "roboshot",
            {},
            {
                "prototypes": {
                    group: np.random.default_rng(i).standard_normal((6, 8))
                    for i, group in enumerate(GENDER.groups)
                }
            },
            "differences of the groups span 6 of 8 dimensions, so little would be left; pass a larger tolerance",
        ),
        ("orth-cali", {"lam": "high"}, {}, "lam='high' is not legal; pass a number"),
        ("leace", {"renormalise": "no"}, {}, "renormalise='no' is not legal; pass true or false"),
        ("sfid", {"trees": 1.5}, {}, "trees=1.5 is not legal; pass a whole number"),
        ("sfid", {"k": True}, {}, "k=True is not legal; pass a number"),
        (
            "fairer-clip",
            {"dim_z": "x"},
            {},
            "dim_z='x' is not legal; pass a whole number or nothing",
        ),
        ("adapted", {"smallest": 0}, {}, "smallest=0 is not legal"),
        ("clip-clip", {"m": 2.5}, {}, "m=2.5 is not legal"),
        ("sfid", {"k": 1.5}, {}, "k=1.5 is not legal"),
        (
            "clip-clip",
            {"m": 8},
            {},
            "m=8 is not legal; it is how many of the 8 dimensions are cut, 0 to 7",
        ),
        ("clip-clip", {"estimator": "x"}, {}, "estimator='x' is not legal"),
        (
            "clip-clip",
            {},
            {"sensitive_features": ["male"] * 60},
            "needs 2 images or more of each group, and there are: male 60, female 0",
        ),
        (
            "clip-clip",
            {},
            {"sensitive_features": ["male", "female"]},
            "more images than the 2 labels",
        ),
        ("leace", {}, {"sensitive_features": ["male", "female"] * 40}, "60 images and 80 labels"),
        ("leace", {}, {"sensitive_features": ["male", "x"] * 30}, "'x' is no label of 'gender'"),
        ("leace", {"tolerance": -1}, {}, "tolerance=-1 is not legal"),
        ("sfid", {"k": 2.5, "modality": "image"}, {}, "k=2.5 is not legal"),
        ("leace", {"variant": "x"}, {}, "variant='x' is not legal"),
        ("leace", {}, {"images": np.full((60, 8), np.nan)}, "no row with a direction"),
        ("leace", {}, {"images": "folder"}, "images are str"),
        ("leace", {}, {"images": np.ones(60)}, r"images have shape \(60,\)"),
        ("sfid", {"k": 9, "modality": "image"}, {}, "k=9 is not legal"),
        ("sfid", {"fill": "x"}, {}, "fill='x' is not legal"),
        (
            "sfid",
            {"k": 2},
            {},
            "sfid needs 20 texts or more of each group, and there are: male 1, female 1; take a larger book, or pass modality=image",
        ),
        (
            "sfid",
            {"modality": "image"},
            {"sensitive_features": ["male"] * 50 + ["female"] * 10},
            "sfid needs 20 images or more",
        ),
        ("fairer-clip", {"tau": 1}, {}, "tau=1 is not legal"),
        ("fairer-clip", {}, {}, "fairer-clip needs class_prompts, which the context lacks"),
        (
            "fairer-clip",
            {},
            {"class_prompts": ["a"], "text_table": {}},
            "needs two class prompts or more",
        ),
        (
            "fairer-clip",
            {},
            {"class_prompts": ["a", "b"], "text_table": {"a": np.ones(8), "b": np.eye(8)[0]}},
            "needs labels, which the context lacks",
        ),
        ("adapted", {"folds": 0}, {}, "folds=0 is not legal"),
        ("adapted", {"folds": 2}, {}, "adapted needs 20 images outside a fold"),
    ],
)
def test_bad_input(name, params, given, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.methods.create(name, **params).fit(small(**given))


def test_the_benchmark_of_methods():
    from equipoise._bench import methods as bench

    found = {
        row.method: row
        for row in bench.run(
            ("closed-form", "orth-cali", "leace", "clip-clip"), rows=200, dim=16, rounds=1
        )
    }
    assert [row.rank for row in found.values()] == [1, 4, 1, None]
    assert all(
        row.seconds > 0 and row.over_closed_form > 0 and row.fit_seconds > 0
        for row in found.values()
    )
    with pytest.raises(eq.EquipoiseError, match="is not legal"):
        list(bench.run(dim=4))
