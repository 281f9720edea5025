"""Retrieval metrics: by hand, against naive loops and brute-force resampling of images, and at every degenerate case."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import equipoise as eq
from equipoise.errors import InputError
from equipoise.metrics import Ranking
from equipoise.metrics._labels import encode_groups
from equipoise.metrics._targets import Targets
from tests.helpers.common import component, shared_data

FAMILY = {"max_skew": eq.metrics.max_skew, "min_skew": eq.metrics.min_skew, "ndkl": eq.metrics.ndkl}


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setenv("EQUIPOISE_NO_NUMBA", "1")
    return request.param


def order_of(row):
    """Falling scores, equal ones in the order of the images."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def naive(kind, row, groups, m, target="dataset"):
    """One query, with loops, from the definitions."""
    known = [i for i in order_of(row) if groups[i] is not None]
    names = sorted({groups[i] for i in known})
    first = known[:m]
    share = {
        g: (
            sum(groups[i] == g for i in known) / len(known)
            if target == "dataset"
            else 1 / len(names)
        )
        for g in names
    }
    held = lambda places: {g: sum(groups[i] == g for i in places) / len(places) for g in names}  # noqa: E731
    if kind == "max_skew":
        return max(math.log(h / share[g]) for g, h in held(first).items() if h)
    if kind == "min_skew":
        return min(math.log((h or 1 / len(first)) / share[g]) for g, h in held(first).items())
    total = weights = 0.0
    for i in range(1, len(first) + 1):
        kl = sum(h * math.log(h / share[g]) for g, h in held(first[:i]).items() if h)
        total, weights = total + kl / math.log2(i + 1), weights + 1 / math.log2(i + 1)
    return total / weights


@st.composite
def searches(draw):
    queries, images = draw(st.integers(1, 4)), draw(st.integers(1, 25))
    scores = draw(
        arrays(np.float32, (queries, images), elements=st.integers(-3, 3).map(float))
    )  # many ties
    groups = draw(
        st.lists(st.sampled_from(["a", "b", "c", None]), min_size=images, max_size=images).filter(
            any
        )
    )
    return scores, groups, draw(st.integers(1, 30))


@given(
    searches(),
    st.sampled_from(sorted(FAMILY)),
    st.sampled_from(["dataset", "uniform"]),
    st.booleans(),
)
def test_agrees_with_the_definitions(search, kind, target, compiled):
    scores, groups, m = search
    expected = [naive(kind, row, groups, m, target) for row in scores]
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setenv("EQUIPOISE_NO_NUMBA", "1")
        each = FAMILY[kind](scores, sensitive_features=groups, m=m, target=target, average=False)
        assert each == pytest.approx(expected, abs=1e-12)
        assert FAMILY[kind](scores, sensitive_features=groups, m=m, target=target) == pytest.approx(
            np.mean(expected), abs=1e-12
        )
        lists = np.array([order_of(row) for row in scores])
        assert FAMILY[kind](
            top=lists, sensitive_features=groups, m=m, target=target, average=False
        ) == pytest.approx(expected, abs=1e-12)


def test_by_hand(kernel):
    """Six images, three a, three b; the first four are a a a b: shares 3/4 and 1/4 against 1/2 and 1/2."""
    groups, scores = list("aaabbb"), np.array([[6.0, 5, 4, 3, 2, 1]])
    assert eq.metrics.max_skew(scores, sensitive_features=groups, m=4) == pytest.approx(
        math.log(1.5)
    )
    assert eq.metrics.min_skew(scores, sensitive_features=groups, m=4) == pytest.approx(
        math.log(0.5)
    )
    kl4 = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    weights = [1, 1 / math.log2(3), 1 / 2, 1 / math.log2(5)]
    ndkl = (math.log(2) * sum(weights[:3]) + kl4 * weights[3]) / sum(weights)
    assert eq.metrics.ndkl(scores, sensitive_features=groups, m=4) == pytest.approx(ndkl)
    assert eq.metrics.max_skew(
        scores, sensitive_features=groups, m=4, target={"a": 0.75, "b": 0.25}
    ) == pytest.approx(0, abs=1e-15)


def test_degenerate_cases(kernel):
    groups, scores = list("aaab"), np.array([4.0, 3, 2, 1])
    skew = lambda **kw: eq.metrics.max_skew(scores, sensitive_features=groups, **kw)  # noqa: E731
    assert skew(m=2) == pytest.approx(math.log(4 / 3)), "b holds no place and is not the maximum"
    least = eq.metrics.min_skew(np.arange(8), sensitive_features=list("bbbbaaaa"), m=4)
    assert least == pytest.approx(math.log(1 / 4 / (1 / 2))), (
        "b holds none of four places, and is counted with one"
    )
    assert eq.metrics.min_skew(scores, sensitive_features=groups, m=2, absent=0) == -math.inf
    assert skew(m=4) == skew(m=1000) == pytest.approx(0, abs=1e-15), (
        "m beyond the images is their number"
    )
    ties = np.zeros(4)
    assert eq.metrics.max_skew(ties, sensitive_features=groups, m=2) == skew(m=2), (
        "equal scores rank in the order of the images"
    )
    assert eq.metrics.max_skew(ties, sensitive_features=groups[::-1], m=1) == pytest.approx(
        math.log(4)
    )
    assert eq.metrics.max_skew(scores, sensitive_features=["a"] * 4, m=2) == 0, (
        "one group has nothing to be skewed against"
    )


def test_unknown_images_take_no_place(kernel, rng):
    scores, groups = rng.standard_normal((5, 60)), rng.choice(["a", "b"], 60).astype(object)
    hidden = rng.random(60) < 0.4
    masked = np.where(hidden, None, groups)
    for metric in FAMILY.values():
        without = metric(scores[:, ~hidden], sensitive_features=groups[~hidden], m=10)
        assert metric(scores, sensitive_features=masked, m=10) == pytest.approx(without)
        assert metric(
            top=[order_of(row) for row in scores], sensitive_features=masked, m=10
        ) == pytest.approx(without)


def test_a_resample_without_any_known_image_is_undefined(kernel, rng):
    """Two known images of thirty: about one resample in eight draws neither."""
    metrics = {
        "max": lambda r: r.max_skew(5),
        "min": lambda r: r.min_skew(5),
        "ndkl": lambda r: r.ndkl(5),
    }
    groups = ["a", "b", *[None] * 28]
    result = eq.metrics.bootstrap_retrieval(
        {"x": rng.random((3, 30))}, sensitive_features=groups, metrics=metrics, resamples=400
    )
    for metric in metrics:
        estimate = result.estimate("x", metric)
        assert (
            20 < estimate.undefined < 90
            and np.isfinite([estimate.low, estimate.high, estimate.mean, estimate.std]).all()
        )
        assert estimate.left_out == 28 and estimate.n == 2


def test_tensors(rng):
    torch = component("torch")
    scores, groups = (
        rng.integers(-9, 9, (3, 20)),
        list("ab") * 10,
    )  # whole numbers that bfloat16 holds
    expected = eq.metrics.max_skew(scores, sensitive_features=groups, m=5)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        assert (
            eq.metrics.max_skew(torch.tensor(scores).to(dtype), sensitive_features=groups, m=5)
            == expected
        )
    lists = torch.tensor(np.argsort(-scores, axis=1, kind="stable"))
    assert eq.metrics.max_skew(top=lists, sensitive_features=groups, m=5) == expected
    assert eq.metrics.recall_at_k(torch.eye(3), torch.tensor([0, 1, 2]), 1) == 1


def test_intersections(rng):
    scores, a, b = (
        rng.standard_normal((3, 50)),
        rng.choice(["m", "f"], 50),
        rng.choice(["old", "young"], 50),
    )
    joined = eq.metrics.max_skew(
        scores, sensitive_features=[f"{x} {y}" for x, y in zip(a, b, strict=True)], m=10
    )
    assert eq.metrics.max_skew(scores, sensitive_features=(a, b), m=10) == pytest.approx(joined)


def naive_floor(sizes, m, shares):
    n, total = sum(sizes), 0.0
    for held in itertools.product(*(range(s + 1) for s in sizes)):
        if sum(held) == m:
            chance = math.prod(
                math.comb(s, h) for s, h in zip(sizes, held, strict=True)
            ) / math.comb(n, m)
            total += chance * max(
                math.log(h / m / s) for h, s in zip(held, shares, strict=True) if h
            )
    return total


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(1, 40), st.booleans())
def test_floor_is_the_hypergeometric_expectation(sizes, m, uniform):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    m = min(m, len(groups))
    shares = [1 / len(sizes)] * len(sizes) if uniform else np.array(sizes) / sum(sizes)
    floor = eq.metrics.max_skew_floor(
        sensitive_features=groups, m=m, target="uniform" if uniform else "dataset"
    )
    assert floor == pytest.approx(naive_floor(sizes, m, shares), abs=1e-12)


def test_floor_is_what_random_rankings_have(rng, kernel):
    groups = np.repeat(["a", "b", "c"], [300, 150, 50])
    random = eq.metrics.max_skew(
        rng.random((4000, 500)), sensitive_features=groups, m=100, average=False
    )
    error = random.std() / math.sqrt(4000)
    assert eq.metrics.max_skew_floor(sensitive_features=groups, m=100) == pytest.approx(
        random.mean(), abs=5 * error
    )


def test_floor_of_real_sets():
    """The two floors of the specification, exact to the digits given."""
    celeba = np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False)
    male = celeba["attrs"][:, list(celeba["attr_names"]).index("Male")]
    assert round(eq.metrics.max_skew_floor(sensitive_features=male, m=100), 4) == 0.0722
    flickr = np.load(
        shared_data("embeddings/flickr8k_train1000_clip_vitb32.npz"), allow_pickle=False
    )["caption_gender"]
    gender = flickr[np.isin(flickr, ["male", "female"])]
    assert round(eq.metrics.max_skew_floor(sensitive_features=gender, m=50), 4) == 0.1017


def test_skew_of_real_embeddings():
    """None of the specification's table: 495 Open Images names, measured there independently."""
    text = np.load(shared_data("embeddings/text_clip_vitb32_objects.npz"), allow_pickle=False)
    people = ("a man", "a woman", "a boy", "a girl", "a human face")
    keep = [
        i
        for i, (p, s) in enumerate(zip(text["prompt"], text["source"], strict=True))
        if s == "oid" and p.lower() not in people
    ]
    queries = text["text"][keep].astype(np.float32)
    celeba = np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False)
    male = celeba["attrs"][:, list(celeba["attr_names"]).index("Male")]
    assert eq.metrics.max_skew(
        queries @ celeba["image"].astype(np.float32).T, sensitive_features=male, m=100
    ) == pytest.approx(0.320, abs=1e-3)
    flickr = np.load(
        shared_data("embeddings/flickr8k_train1000_clip_vitb32.npz"), allow_pickle=False
    )
    gender = np.where(
        np.isin(flickr["caption_gender"], ["male", "female"]), flickr["caption_gender"], "unknown"
    )
    assert eq.metrics.max_skew(
        queries @ flickr["image"].astype(np.float32).T, sensitive_features=gender, m=50
    ) == pytest.approx(0.156, abs=5e-4)


def naive_recall(row, targets, k, many):
    found = [t in order_of(row)[:k] for t in targets]
    return float(any(found)) if many == "any" else sum(found) / len(found)


@given(searches(), st.data(), st.sampled_from(["any", "share"]))
def test_recall_is_the_definition(search, data, many):
    scores, _, k = search
    images = st.integers(0, scores.shape[1] - 1)
    targets = [data.draw(st.lists(images, min_size=1, max_size=3, unique=True)) for _ in scores]
    expected = [naive_recall(row, t, k, many) for row, t in zip(scores, targets, strict=True)]
    assert eq.metrics.recall_at_k(scores, targets, k, many=many, average=False) == pytest.approx(
        expected
    )
    one = [t[0] for t in targets]
    expected = np.mean(
        [naive_recall(row, [t], k, "any") for row, t in zip(scores, one, strict=True)]
    )
    assert (
        eq.metrics.recall_at_k(scores, one, k)
        == eq.metrics.recall_at_k(scores, np.array(one), k)
        == pytest.approx(expected)
    )
    lists = np.array([order_of(row) for row in scores])
    if k <= lists.shape[1]:
        assert eq.metrics.recall_at_k(None, one, k, top=lists[:, :k]) == pytest.approx(expected)


def test_able_reproduces_published_values():
    assert round(100 * eq.metrics.able(0.6831, 0.218), 2) == 73.87
    assert round(100 * eq.metrics.able(0.6805, 0.080), 2) == pytest.approx(
        78.35, abs=0.011
    )  # from rounded inputs


def test_statistical_parity():
    assert eq.metrics.statistical_parity(["m"] * 100, groups=("m", "f")) == pytest.approx(
        math.sqrt(0.5)
    )
    assert eq.metrics.statistical_parity(["m", "f"], groups=("m", "f")) == 0
    shares = eq.metrics.statistical_parity(
        ["a", "a", "a", "b", None, "unsure"], groups=("a", "b", "c")
    )
    assert shares == pytest.approx(
        math.sqrt((3 / 4 - 1 / 3) ** 2 + (1 / 4 - 1 / 3) ** 2 + (1 / 3) ** 2)
    )
    for labels, groups in (
        (["m"], ("f", "g")),
        (["m"], ("m",)),
        ([None], ("m", "f")),
        (["m"], "m"),
        (["m"], ("m", "m")),
    ):
        with pytest.raises(InputError):
            eq.metrics.statistical_parity(labels, groups=groups)


# Resampling


def brute(scores, groups, m, targets, k, drawn):
    """Build the resampled gallery, score and sort it again, measure."""
    drawn = np.sort(drawn)  # so that equal scores keep the order of the images
    gallery, labels = scores[:, drawn], [groups[i] for i in drawn]
    skew = [naive("max_skew", row, labels, m) for row in gallery]
    low = [naive("min_skew", row, labels, m) for row in gallery]
    kl = [naive("ndkl", row, labels, m) for row in gallery]
    found = [float(t in drawn[order_of(row)[:k]]) for row, t in zip(gallery, targets, strict=True)]
    weights = [(drawn == t).sum() for t in targets]
    recall = np.average(found, weights=weights) if sum(weights) else math.nan
    return [np.mean(skew), np.mean(low), np.mean(kl), recall]


@given(searches(), st.integers(0, 1000), st.booleans())
def test_multiplicities_are_resampled_galleries(search, seed, compiled):
    scores, groups, m = search
    rng = np.random.default_rng(seed)
    n = scores.shape[1]
    k, targets = min(m, n), rng.integers(0, n, len(scores))
    draws = [rng.integers(0, n, n) for _ in range(4)]
    draws = [
        d for d in draws if {groups[i] for i in d} - {None} == set(groups) - {None}
    ]  # naive min_skew knows only groups that are there
    if not draws:
        return
    times = np.stack([np.bincount(d, minlength=n) for d in draws]).astype(np.uint16)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setenv("EQUIPOISE_NO_NUMBA", "1")
        ranking = Ranking.of(
            scores, groups=encode_groups(groups), targets=Targets.of(targets)
        ).resampled(times)
        ours = np.array(
            [
                ranking.max_skew(m).mean(),
                ranking.min_skew(m).mean(),
                ranking.ndkl(m).mean(),
                ranking.recall(k).mean(),
            ]
        )
    for values, drawn in zip(ours.T, draws, strict=True):
        assert values == pytest.approx(
            brute(scores, groups, m, targets, k, drawn), abs=1e-10, nan_ok=True
        )


@pytest.mark.parametrize("m", [30, 100, 250])
def test_long_lists_and_both_kernels(m, rng, monkeypatch):
    """Long enough that the part summed without a decision matters, with one resample so lopsided that it must be walked."""
    scores, groups = (
        rng.standard_normal((7, 300)),
        rng.choice(["a", "b", None], 300, p=[0.6, 0.3, 0.1]),
    )
    times = np.stack(
        [np.bincount(rng.integers(0, 300, 300), minlength=300) for _ in range(6)]
    ).astype(np.uint16)
    times[0] = 0
    times[0, np.argsort(-scores[0])[:20]] = (
        15  # all 300 copies within the first places of the first query
    )
    coded = encode_groups(groups)
    ranking = Ranking.of(scores, groups=coded).resampled(times)
    compiled = [getattr(ranking, kind)(m).values for kind in FAMILY]
    monkeypatch.setenv("EQUIPOISE_NO_NUMBA", "1")
    for a, b in zip(compiled, (getattr(ranking, kind)(m).values for kind in FAMILY), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def small(rng, queries=12, images=80):
    scores = {
        "none": rng.standard_normal((queries, images)),
        "fair": rng.standard_normal((queries, images)),
    }
    groups = rng.choice(["a", "b"], images, p=[0.7, 0.3])
    scores["none"] += 0.8 * (groups == "a")
    return scores, groups


METRICS = {"skew": lambda r: r.max_skew(20), "R@10": lambda r: r.recall(10)}


@pytest.mark.parametrize("over", ["images", "queries", "both"])
def test_bootstrap_agrees_with_brute_force(over, rng, kernel):
    """Same distribution as drawing the rows: means within 5 standard errors of 600 draws, spreads within 5 of theirs."""
    scores, groups = small(rng)
    targets = rng.integers(0, 80, 12)
    ours = eq.metrics.bootstrap_retrieval(
        scores, sensitive_features=groups, target=targets, metrics=METRICS, over=over, resamples=600
    )
    theirs = []
    for _ in range(600):
        drawn = np.sort(rng.integers(0, 80, 80)) if over != "queries" else np.arange(80)
        asked = rng.integers(0, 12, 12) if over != "images" else np.arange(12)
        row = scores["none"][asked][:, drawn]
        lists = np.argsort(-row, axis=1, kind="stable")
        labels = groups[drawn]
        share = {g: (labels == g).mean() for g in "ab"}
        skews = [
            max(
                math.log((labels[top[:20]] == g).mean() / share[g])
                for g in "ab"
                if (labels[top[:20]] == g).any()
            )
            for top in lists
        ]
        found = np.array(
            [t in drawn[top[:10]] for t, top in zip(targets[asked], lists, strict=True)]
        )
        weights = np.array([(drawn == t).sum() for t in targets[asked]])
        theirs.append(
            [np.mean(skews), (found * weights).sum() / weights.sum() if weights.sum() else np.nan]
        )
    theirs = np.array(theirs)
    for column, metric in zip(theirs.T, METRICS, strict=True):
        estimate = ours.estimate("none", metric)
        assert estimate.mean == pytest.approx(
            np.nanmean(column), abs=5 * np.nanstd(column) * math.sqrt(2 / 600)
        )
        assert estimate.std == pytest.approx(np.nanstd(column), rel=5 / math.sqrt(600))
        assert estimate.over == over and estimate.n == (12 if over == "queries" else 80)


def test_both_draws_the_images_that_images_draws(rng):
    scores, groups = small(rng)
    run = lambda over, seed=3: eq.metrics.bootstrap_retrieval(  # noqa: E731
        scores,
        sensitive_features=groups,
        metrics={"skew": METRICS["skew"]},
        over=over,
        resamples=50,
        seed=seed,
    )
    images, both, again, other = run("images"), run("both"), run("images"), run("images", 4)
    key = ("none", "skew")
    assert np.array_equal(images.replicates[key], again.replicates[key])
    assert not np.array_equal(images.replicates[key], other.replicates[key])
    assert np.corrcoef(images.replicates[key], both.replicates[key])[0, 1] > 0.2


def test_resamples_do_not_depend_on_blocks(rng, monkeypatch):
    from equipoise.metrics import _resample_lists as resample_lists

    scores, groups = small(rng)

    def run():
        return eq.metrics.bootstrap_retrieval(
            scores,
            sensitive_features=groups,
            target=np.arange(12),
            metrics=METRICS,
            over="both",
            resamples=40,
        )

    whole = run()
    monkeypatch.setattr(resample_lists, "BLOCK", 500)
    blocked = run()
    for key, values in whole.replicates.items():
        np.testing.assert_array_equal(values, blocked.replicates[key])
    for kind in ("percentile", "bca", "basic"):
        assert whole.difference("none", "fair", "skew", kind=kind) == blocked.difference(
            "none", "fair", "skew", kind=kind
        )


def test_leave_one_out_is_the_metric_without_each(rng):
    scores, groups = small(rng, 5, 40)
    targets = np.arange(5)
    result = eq.metrics.bootstrap_retrieval(
        scores, sensitive_features=groups, target=targets, metrics=METRICS, over="both", resamples=2
    )
    images, queries = result.leave_one_out(("none", "skew"))
    for i in range(40):
        keep = np.arange(40) != i
        assert images.values[i] == pytest.approx(
            eq.metrics.max_skew(scores["none"][:, keep], sensitive_features=groups[keep], m=20)
        )
    for q in range(5):
        keep = np.arange(5) != q
        assert queries.values[q] == pytest.approx(
            eq.metrics.max_skew(scores["none"][keep], sensitive_features=groups, m=20)
        )


def test_top_lists_give_the_same_intervals_when_deep_enough(rng):
    scores, groups = small(rng, 12, 400)
    lists = {name: np.argsort(-s, axis=1, kind="stable") for name, s in scores.items()}
    run = lambda scores=None, **kw: eq.metrics.bootstrap_retrieval(  # noqa: E731
        scores, sensitive_features=groups, metrics={"skew": METRICS["skew"]}, resamples=100, **kw
    )
    a, b, c = run(scores), run(top={k: v[:, :80] for k, v in lists.items()}), run(scores, depth=80)
    assert a.estimate("none", "skew") == b.estimate("none", "skew") == c.estimate("none", "skew")
    with pytest.raises(InputError, match="places too short"):
        run(top={k: v[:, :20] for k, v in lists.items()})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g[:-1], m=2), "of 6 images and there are 5 labels"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, m=0), "m=0"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, m=2.5), "m=2.5"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, target="even"), "even"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, target={"a": 1.0}), "share above 0"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, target={"a": math.nan, "b": 0.5}), "share above 0"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, target={"a": "half", "b": 0.5}), "share above 0"),
        (lambda s, g: eq.metrics.max_skew(s, sensitive_features=g, target=np.array([0.5, 0.5])), "a mapping of group"),
        (lambda s, g: eq.metrics.max_skew(s * np.nan, sensitive_features=g), "NaN"),
        (lambda s, g: eq.metrics.max_skew(s, top=[[0]], sensitive_features=g), "either"),
        (lambda s, g: eq.metrics.max_skew(sensitive_features=g), "either"),
        (lambda s, g: eq.metrics.max_skew(top=[[0, 0]], sensitive_features=g, m=2), "twice"),
        (lambda s, g: eq.metrics.max_skew(top=[[0, 6]], sensitive_features=g, m=2), "0 to 5"),
        (lambda s, g: eq.metrics.max_skew(top=[[0.5]], sensitive_features=g, m=2), "whole numbers"),
        (lambda s, g: eq.metrics.max_skew(top=[[0, 1]], sensitive_features=g, m=3), "places too short"),
        (lambda s, g: eq.metrics.max_skew(s.astype(str), sensitive_features=g), "numbers"),
        (lambda s, g: eq.metrics.recall_at_k(s, [0], 1), "target is of 1 queries and there are 2"),
        (lambda s, g: eq.metrics.recall_at_k(s, [0, 9], 1), "names image 9"),
        (lambda s, g: eq.metrics.recall_at_k(s, [0, -1], 1), "lowest -1"),
        (lambda s, g: eq.metrics.recall_at_k(s, [[0], []], 1), "every query"),
        (lambda s, g: eq.metrics.recall_at_k(s, [0, 1], 1, many="all"), "many"),
        (lambda s, g: eq.metrics.recall_at_k(s, 0, 1), "target is 0"),
        (lambda s, g: eq.metrics.recall_at_k(s, np.array(0), 1), r"target is array\(0\)"),
        (lambda s, g: eq.metrics.recall_at_k(s, ["0.jpg", "1.jpg"], 1), "'0.jpg'.*whole numbers"),
        (lambda s, g: eq.metrics.recall_at_k(s, [None, 1], 1), "first None; pass the places"),
        (lambda s, g: eq.metrics.permuted_max_skew([[0, 1, 2]], sensitive_features=g, m=2, level=95), "level=95"),
        (lambda s, g: eq.metrics.max_skew([[1, 2], [3]], sensitive_features=g), "differ in length"),
        (lambda s, g: eq.metrics.max_skew(top=[[1, 2], [3]], sensitive_features=g), "differ in length"),
        (lambda s, g: eq.metrics.bootstrap_retrieval({"x": s}, sensitive_features=g, metrics=["max_skew"]), "metrics is list"),
        (lambda s, g: eq.metrics.bootstrap_retrieval({"x": s}, sensitive_features=g, metrics={"x": lambda r: 1.0}), "function of Ranking"),
        (lambda s, g: eq.metrics.recall_at_k(None, [0, 1], 5, top=[[0], [1]]), "lists of 1"),
        (lambda s, g: eq.metrics.able(68.3, 0.2), "percentage"),
        (lambda s, g: eq.metrics.bootstrap_retrieval(s, sensitive_features=g), "mapping"),
        (lambda s, g: eq.metrics.bootstrap_retrieval({"x": s}, sensitive_features=g, over="rows"), "over"),
        (lambda s, g: eq.metrics.bootstrap_retrieval({"x": s, "y": s[:1]}, sensitive_features=g), "same queries"),
        (lambda s, g: eq.metrics.bootstrap_retrieval({"x": s}, sensitive_features=g, metrics={"r": lambda r: r.recall(1)}), "target="),
    ],
)  # fmt: skip
def test_bad_input_says_what_to_do(call, says, rng):
    with pytest.raises(InputError, match=says):
        call(rng.standard_normal((2, 6)), list("aaabbb"))
