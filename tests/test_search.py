"""Search gives what brute force gives, whatever the blocks, and never holds the matrix of all scores."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise import _search as search
from equipoise._search import top_k
from equipoise.errors import InputError
from equipoise.kernels import _best as best
from tests.helpers.common import component, make_space, run, unit
from tests.helpers.searching import assert_same

NAN = np.float64("nan")


@pytest.fixture(params=["numba", "integers", "numpy"], autouse=True, scope="module")
def kernel(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_NO_NUMBA", "1" if request.param == "numpy" else "")
        if request.param != "numpy":
            component("numba")
            patch.setattr(best, "FEWEST", 0 if request.param == "integers" else 1 << 40)
        if request.param == "integers" and not integers().available():
            pytest.skip("this processor has no product of 16-bit integers")
        yield request.param


def integers():
    from equipoise.kernels import _numba_integers

    return _numba_integers


def brute_force(texts, images, k):
    """All scores in float64, rounded to float32, sorted by score and then by index."""
    with np.errstate(invalid="ignore"):
        scores = (texts.astype(np.float64) @ images.astype(np.float64).T).astype(np.float32)
    good = np.flatnonzero(np.isfinite(images).all(axis=1))
    order = np.stack([good[np.lexsort((good, -row[good]))] for row in scores])[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@st.composite
def cases(draw):
    """Eighths up to 8: exact in every dtype here, and so are their sums, so that ties are many and brute force has one answer."""
    seed, dim = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 9))
    queries, images, distinct = (
        draw(st.integers(1, 5)),
        draw(st.integers(1, 700)),
        draw(st.integers(1, 700)),
    )
    rng = np.random.default_rng(seed)
    rows = (rng.integers(-64, 65, (distinct, dim)) / 8)[rng.integers(0, distinct, images)]
    for i in draw(st.lists(st.integers(0, images - 1), max_size=3)):
        rows[i, draw(st.integers(0, dim - 1))] = draw(st.sampled_from([NAN, np.inf, -np.inf]))
    kind = st.sampled_from([np.float16, np.float32, np.float64])
    return (rng.integers(-64, 65, (queries, dim)) / 8).astype(draw(kind)), rows.astype(draw(kind))


@given(cases(), st.integers(1, 900), st.integers(1, 900))
def test_equals_brute_force_with_ties_and_unreadable_rows(case, k, block):
    texts, images = case
    if np.isfinite(images).all(axis=1).any():
        assert_same(top_k(texts, images, k, block=block), brute_force(texts, images, k))
    else:
        with pytest.raises(InputError, match="finite"):
            top_k(texts, images, k, block=block)


@given(cases(), st.lists(st.integers(0, 700), max_size=4), st.integers(1, 300))
def test_blocks_of_any_lengths_are_one_index(case, cuts, k):
    texts, images = case
    images = np.nan_to_num(images, posinf=0, neginf=0)
    parts = np.split(images, sorted(min(cut, len(images)) for cut in cuts))
    expected = top_k(texts, images, k)
    assert_same(top_k(texts, parts, k), expected)
    assert_same(top_k(texts, iter(parts), k, block=64), expected)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e18, 3e37])
def test_blocks_do_not_change_scores_that_rounding_could(rng, scale):
    """Real-valued rows, near ties and duplicates: float32 products differ in their last digits from one shape to another."""
    images = unit(rng.standard_normal((3000, 48))).astype(np.float32)
    images[1500:2500] = images[:1000]
    images[2500:] = np.nextafter(images[:500], np.float32(1))
    images *= np.float32(scale)
    texts = unit(rng.standard_normal((20, 48))).astype(np.float32)
    reference = top_k(texts, images, 300, block=3000)
    for block in (1, 7, 256, 1000):
        assert_same(top_k(texts, images, 300, block=block), reference)
    scores = texts.astype(np.float64) @ images.astype(np.float64).T
    worst_found = np.take_along_axis(scores, reference[0], 1)
    assert (
        np.abs(worst_found - reference[1]) <= 2.0**-24 * np.abs(worst_found) + 1e-44
    ).all()  # rounded once
    np.put_along_axis(scores, reference[0], -np.inf, 1)
    # what was left out is no better, but for what rounding to float32 makes equal
    assert (
        scores.max(axis=1) <= worst_found.min(axis=1) + 2.0**-23 * np.abs(worst_found.min(axis=1))
    ).all()


def test_one_enormous_row_takes_nothing_from_the_others(rng):
    """Its products overflow float32, where a rough score says nothing."""
    images = rng.standard_normal((600, 8))
    images[100] = np.array([3e38, -3e38] * 4)
    texts = np.vstack([rng.standard_normal((5, 8)), np.array([3e38, 3e38] * 4)])
    found = top_k(texts, images, 5, block=50)
    with np.errstate(over="ignore"):
        scores = (texts @ images.T).astype(np.float32)
    for row, indices, values in zip(scores, *found, strict=True):
        np.testing.assert_array_equal(indices, np.lexsort((np.arange(600), -row))[:5])
        np.testing.assert_allclose(values, row[indices], rtol=1e-6)


@pytest.mark.parametrize("spread", ["even", "one entry", "outliers"])
@pytest.mark.parametrize("dim", [1, 7, 512])
def test_sums_of_integers_are_within_their_bound(rng, dim, spread):
    """All integer products are below 2**30, and as far from the scores as ``rounding`` says."""
    component("numba")
    texts, images = rng.standard_normal((2, 90, dim))
    if spread == "one entry":
        texts, images = np.eye(dim)[rng.integers(0, dim, (2, 90))] * 3.7
    if spread == "outliers":
        images[:, 0] *= 200
    length = integers().length_in_integers(dim)
    longest = np.linalg.norm(images, axis=1).max()
    lengths = np.linalg.norm(texts, axis=1)
    whole_texts = np.rint(texts * (length / lengths)[:, None]).astype(np.int64)
    scale = np.float32(length / longest)
    whole_images = np.rint(images.astype(np.float32) * scale).astype(np.int64)
    sums = whole_texts @ whole_images.T
    assert max(abs(whole_texts).max(), abs(whole_images).max()) <= integers().LARGEST
    assert (abs(whole_texts) @ abs(whole_images).T).max() < 1 << 30
    rough = sums * (lengths * longest / length**2)[:, None]
    reach = lengths[:, None] * longest
    assert (abs(rough - texts @ images.T) <= reach * (integers().rounding(dim) + 2.0**-23)).all()


@pytest.mark.parametrize("window", [1, 40_000, 1 << 28])
@pytest.mark.parametrize("images", ["distinct", "near ties", "one and the same", "ever better"])
def test_windows_do_not_change_the_result(rng, monkeypatch, window, images):
    """What is held between windows is exact; within one it may be rough, and near ties are more than there is room for."""
    rows = unit(rng.standard_normal((4000, 24)))
    texts = unit(rng.standard_normal((5, 24))).astype(np.float32)
    if images == "near ties":
        rows = rows[:1] + 1e-7 * rows
    elif images == "one and the same":
        rows[:] = rows[0]
    elif images == "ever better":
        rows = rows[np.argsort(rows @ texts[0].astype(np.float64))]
    rows = rows.astype(np.float32)
    expected = top_k(
        texts,
        (rows[i : i + 1000] for i in range(0, 4000, 1000)),
        30,
        transform=lambda part: part.copy(),
    )
    monkeypatch.setattr(search, "WINDOW", window)
    assert_same(top_k(texts, rows, 30, block=300), expected)
    np.testing.assert_allclose(expected[1], brute_force(texts, rows, 30)[1], rtol=1e-7)


def test_many_queries_go_in_tiles(rng, monkeypatch):
    monkeypatch.setattr(best, "TILE", 7)
    texts, images = (rng.integers(-8, 9, shape) / 8 for shape in ((23, 4), (400, 4)))
    assert_same(top_k(texts, images, 30, block=90), brute_force(texts, images, 30))


def test_memory_maps_strides_and_byte_orders(rng, tmp_path):
    texts, images = (
        rng.integers(-8, 9, shape).astype(np.float32) for shape in ((6, 16), (900, 16))
    )
    expected = brute_force(texts, images, 40)
    np.save(tmp_path / "images.npy", images)
    for same in (
        np.load(tmp_path / "images.npy", mmap_mode="r"),
        np.asfortranarray(images),
        np.repeat(images, 2, axis=1)[:, ::2],
        images.astype(">f4"),
        images.astype(np.float16),
    ):
        assert_same(top_k(texts, same, 40, block=128), expected)
    assert_same(top_k(texts.astype(">f8"), images, 40), expected)


def test_float64_of_the_other_byte_order_keeps_its_digits(rng):
    texts, images = rng.standard_normal((9, 32)), rng.standard_normal((300, 32))
    assert_same(top_k(texts, images.astype(">f8"), 20), top_k(texts, images, 20))


def test_an_operator_is_applied_on_the_fly(rng):
    space = make_space(rng, 32)
    images, texts = (unit(rng.standard_normal((n, 32))).astype(np.float32) for n in (500, 9))
    images[17] = np.nan

    def debiased(rows):
        return eq.debias(rows, space, on_invalid="keep")

    expected = top_k(texts, debiased(images), 20)
    assert 17 not in expected[0]
    for block in (64, 500):
        assert_same(top_k(texts, images, 20, transform=debiased, block=block), expected)
    narrow = top_k(
        texts[:, :8], images, 20, transform=lambda rows: rows[:, :8]
    )  # a transform may change the width
    assert_same(narrow, top_k(texts[:, :8], images[:, :8], 20))


def test_works_where_standard_error_is_closed():
    code = "import numpy as np; from equipoise._search import top_k; print(top_k(np.eye(3), np.eye(3), 1)[0].ravel().tolist())"
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} 2>&-"
    assert (
        subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
        == "[0, 1, 2]\n"
    )


def adjusted(rng, texts, memberships, k):
    """An adjustment of memberships that are the last columns of the images."""
    width = memberships.shape[1]
    lams = rng.uniform(-1, 1, (len(texts), width))
    moved = texts.astype(np.float64)
    moved[:, -width:] -= lams
    slack = 1e-5 * np.abs(lams) @ np.abs(memberships).max(axis=0)  # beyond float32's rounding
    return best.Adjustment(moved, lams, slack, k)


@pytest.mark.parametrize("window", [1, 1 << 28])
def test_kept_scores_change_no_ranking(rng, monkeypatch, window):
    """Nothing but how often the images are multiplied: forgotten or not, and with bad rows too."""
    monkeypatch.setattr(search, "WINDOW", window)
    images = rng.standard_normal((700, 6)).astype(np.float32)
    images[[3, 400]] = NAN
    memberships = np.nan_to_num(images[:, -2:])
    recent = search.RecentScores(limit=2 * 4 * len(images))  # of two texts
    texts = unit(rng.standard_normal((3, 6)))
    for text in (texts[[i]] for i in (0, 1, 0, 2, 1)):
        shift = adjusted(rng, text, memberships, 30)
        plain = top_k(text, images, 20, block=128, recent=recent)
        found = search.top_k_adjusted(
            text, images, 20, [shift], memberships, block=128, recent=recent
        )
        expected = search.top_k_adjusted(text, images, 20, [shift], memberships, block=128)
        for one, other in zip([plain, *found], [expected[0], *expected], strict=True):
            assert_same(one, other)
        assert_same(found[1], top_k(shift.texts, images, 30))
    many = top_k(texts, images, 20, block=128, recent=recent)
    assert_same(many, top_k(texts, images, 20))


def test_a_text_that_is_kept_is_not_multiplied_again(rng):
    """The second ranking follows the scores of the first, whatever the rows say by then."""
    images = unit(rng.standard_normal((500, 6))).astype(np.float32)
    recent, text = search.RecentScores(), unit(rng.standard_normal((1, 6)))
    first = top_k(text, images, 5, recent=recent)
    others = np.setdiff1d(np.arange(500), first[0][0])
    images[others] = text  # the best of all, had they been looked at
    assert_same(top_k(text, images, 5, recent=recent), first)
    other = unit(rng.standard_normal((1, 6)))
    assert_same(top_k(other, images, 5, recent=recent), top_k(other, images, 5))


def test_a_depth_beyond_what_there_is_costs_no_memory(rng):
    indices, _ = top_k(rng.standard_normal((3, 4)), iter([rng.standard_normal((5, 4))]), 10**12)
    assert indices.shape == (3, 5) and (np.sort(indices) == np.arange(5)).all()


def test_errors_say_what_to_do(rng):
    texts, images = rng.standard_normal((2, 4)), rng.standard_normal((9, 4))
    bad = texts.copy()
    bad[1, 2] = np.nan
    for arguments, options, message in (
        ((texts, images[:, :3], 1), {}, "3 wide and texts are 4 wide"),
        ((texts, [images, images[:, :3]], 1), {}, "3 wide"),
        (
            (texts, images, 1),
            {"transform": lambda rows: rows[:, :2]},
            "transformed images are 2 wide",
        ),
        ((texts, images, 1), {"transform": lambda rows: rows[:2]}, "2 rows of 9"),
        ((texts, images, 1), {"transform": lambda rows: None}, "NoneType"),
        ((bad, images, 1), {}, r"1 of 2 texts .* \(first: 1\)"),
        ((texts * 1e39, images, 1), {}, "beyond float32"),
        ((texts[:0], images, 1), {}, "nothing to search for"),
        ((texts[0], images, 1), {}, r"\(n, d\)"),
        ((texts.astype(int), images, 1), {}, "int64"),
        ((texts, images[:0], 1), {}, "no images"),
        ((texts, iter(()), 1), {}, "no images"),
        ((texts, images * np.nan, 1), {}, "none of the 9 images"),
        ((texts, list(images), 1), {}, r"shape \(4,\)"),
        ((texts, images.tolist(), 1), {}, "list"),
        ((texts, 5, 1), {}, "int"),
        ((texts, np.ma.masked_array(images), 1), {}, "masked"),
        ((texts, images, 0), {}, "k=0"),
        ((texts, images, 1.5), {}, "k=1.5"),
        ((texts, images, 1), {"block": 0}, "block=0"),
    ):
        with pytest.raises(InputError, match=message):
            top_k(*arguments, **options)


def test_memory_is_bounded_by_the_block(tmp_path):
    """A half-width index of 64 MiB, mapped, and 500 queries: its scores would take 250 MiB, a float32 copy of it 128 MiB."""
    code = """
        import resource, sys
        import numpy as np
        from equipoise._search import top_k
        images = np.load(sys.argv[1], mmap_mode="r")
        texts = np.random.default_rng(0).standard_normal((500, 256), dtype=np.float32)
        for rows in (images[:4096], images):
            top_k(texts, rows, 10, block=1024)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    images = np.lib.format.open_memmap(tmp_path / "images.npy", "w+", np.float16, (1 << 17, 256))
    rng = np.random.default_rng(0)
    for start in range(0, len(images), 1 << 14):
        images[start : start + (1 << 14)] = rng.standard_normal((1 << 14, 256), dtype=np.float32)
    images.flush()
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "images.npy")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    little, much = (int(line) for line in result.stdout.split())
    assert (much - little) * 1024 < images.nbytes + (
        32 << 20
    )  # the pages of the map itself, and a little


def test_bench_as_json_and_as_a_table(kernel):
    component("faiss")
    if kernel == "integers":
        pytest.skip("a process of its own chooses by itself")
    options = (
        "bench",
        "retrieval",
        "--count",
        "3000",
        "--queries",
        "20",
        "--dim",
        "16",
        "-k",
        "5",
        "-k",
        "50",
        "--rounds",
        "1",
    )
    result = json.loads(run(*options, "--json").stdout)
    assert result["machine"]["faiss-cpu"]
    assert [row["k"] for row in result["rows"]] == [5, 50]
    for row in result["rows"]:
        assert (
            row["agreement"] > 0.99
            and row["over_faiss"] > 0
            and row["over_product"] > 0
            and row["mebibytes"] > 0
        )
    assert "faiss" in run(*options).stdout
    refused = run(*options, "--depth", "4000")
    assert (
        refused.returncode == 2 and "4000" in refused.stderr and "Traceback" not in refused.stderr
    )
