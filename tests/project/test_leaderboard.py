"""The leaderboard and the page beside the authors' code: made from their files, resumed, sorted in a real browser."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from scripts import beside, leaderboard
from scripts.critical_difference import diagram, ranked
from scripts.leaderboard_sets import SETS, Set

import equipoise as eq
from equipoise.evaluation import Evaluation, Settings
from equipoise.evaluation._comparison import _slug as slug
from equipoise.evaluation._fitting_images import FitOn
from equipoise.prompts._text_vectors import TextVectors
from tests.helpers.common import ROOT, unit

WORDS = {"male": ["a man", "a boy"], "female": ["a woman", "a girl"]}
QUERIES = [f"a thing {i}" for i in range(12)]


def small(data, settings):
    """120 images in which gender leans, twelve queries."""
    rng = np.random.default_rng(0)
    texts = [*WORDS["male"], *WORDS["female"], *QUERIES]
    rows = unit(rng.standard_normal((len(texts), 16)))
    rows[:2] += np.eye(16)[0]
    rows[2:4] -= np.eye(16)[0]
    gender = np.where(rng.random(120) < 0.5, "male", "female")
    images = (
        rng.standard_normal((120, 16)) + np.where(gender == "male", 1, -1)[:, None] * np.eye(16)[0]
    )
    table = pd.DataFrame({"path": [f"{i}.jpg" for i in range(120)], "gender": gender})
    return Evaluation(
        "retrieval",
        eq.datasets.Dataset("small", table, ("gender",)),
        TextVectors(texts, unit(rows)),
        book=eq.PromptBook.of({"a person": WORDS}),
        embeddings=unit(images),
        prompts=QUERIES,
        settings=settings,
        fit_on=FitOn(share=0.5),
    )


def thirds(data, paths):
    return {QUERIES[0]: np.arange(len(paths)) % 3 == 0, QUERIES[1]: np.arange(len(paths)) % 3 == 1}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(leaderboard, "FILES", tmp_path / "cells")
    one = Set("small", "A small set", small, thirds)
    monkeypatch.setattr(leaderboard, "SETS", (one, one._replace(name="again")))
    return tmp_path


def test_a_stopped_run_goes_on_and_the_page_says_what_the_files_hold(here, monkeypatch):
    settings = Settings(resamples=20, permutations=1, m=10)
    methods = ["none", "closed-form", "leace", "pbm", "prism"]
    measured = []
    whole = leaderboard._cell

    def watched(one, data, evaluation, spec):
        measured.append((one.name, spec.label))
        if len(measured) == 4:
            raise KeyboardInterrupt
        return whole(one, data, evaluation, spec)

    monkeypatch.setattr(leaderboard, "_cell", watched)
    with pytest.raises(KeyboardInterrupt):
        leaderboard.measure(here, leaderboard.SETS, methods, settings)
    leaderboard.measure(here, leaderboard.SETS, methods, settings)
    stopped = measured[3]
    assert measured.count(stopped) == 2
    assert len(measured) == len(set(measured)) + 1  # nothing else was measured twice
    done = len(measured)
    leaderboard.measure(here, leaderboard.SETS, methods, settings)
    assert len(measured) == done
    whole, left = leaderboard.boards()
    page = leaderboard.page(whole, left)
    assert "| leace |" in page and "| pbm |" in page and "- *prism*: " in page
    assert (
        "## To search by text" in page
        and "has the best mean rank" in page
        and page.count("<svg") == 1
    )
    assert not left and "Not measured whole" not in page
    path = here / "cells" / "small--leace.json"
    cell = json.loads(path.read_text())
    assert cell["fit_seconds"] > 0 and len(cell["replicates"]["mAP"]) == 20
    path.unlink()
    whole, left = leaderboard.boards()
    page = leaderboard.page(whole, left)
    assert [one.name for one in left] == ["small"] and "Not measured whole yet" in page


def test_what_to_use_follows_from_the_numbers(here):
    """With the numbers of two methods exchanged in the files, the sentences name the other one."""
    settings = Settings(resamples=20, permutations=1, m=10, probe=0)
    leaderboard.measure(here, leaderboard.SETS, ["none", "pbm", "clip-clip"], settings)
    before = leaderboard.page(*leaderboard.boards())
    files = {path.stem: path for path in (here / "cells").glob("*.json")}
    best = re.search(r"\*\*(.+?)\*\* has the best mean rank", before)[1]
    [other] = {"pbm", "clip-clip"} - {best}
    assert f"**{best}** removes most" in before
    for one in leaderboard.SETS:
        pair = [files[f"{one.name}--{slug(name)}"] for name in (best, other)]
        cells = [json.loads(path.read_text()) for path in pair]
        for path, cell, taken in zip(pair, cells, reversed(cells), strict=True):
            moved = {name: taken[name] for name in ("values", "replicates")}
            path.write_text(json.dumps(cell | moved))
    after = leaderboard.page(*leaderboard.boards())
    assert f"**{other}** has the best mean rank" in after and f"**{other}** removes most" in after
    kept = re.search(r"keeps most of the task: (\S+) points of mAP", after)
    boards = leaderboard.boards()[0]
    changes = [
        np.mean([board.kept(name) for board in boards])
        for name in boards[0].cells
        if name != "none"
    ]
    assert float(kept[1]) == pytest.approx(max(changes), abs=0.05)


def test_a_file_of_a_variant_that_is_gone_keeps_no_set_off_the_page(here):
    settings = Settings(resamples=10, permutations=1, m=10, probe=0)
    leaderboard.measure(here, leaderboard.SETS, ["none", "closed-form"], settings)
    old = json.loads((here / "cells" / "small--closed-form.json").read_text())
    gone = old | {"method": "closed-form (kappa=17)"}
    (here / "cells" / "small--gone.json").write_text(json.dumps(gone))
    whole, left = leaderboard.boards()
    assert len(whole) == 2 and not left
    assert "kappa=17" not in leaderboard.page(whole, left)


def test_ranks_allow_what_the_intervals_do(here):
    settings = Settings(resamples=50, permutations=1, m=10, probe=0)
    leaderboard.measure(here, leaderboard.SETS[:1], ["closed-form", "leace", "adapted"], settings)
    board = leaderboard.boards()[0][0]
    places = leaderboard.ranks(board)
    assert min(rank for rank, _, _ in places.values()) == 1  # equal values share a rank
    for method, (rank, best, worst) in places.items():
        assert best <= rank <= worst
        for other, (_, other_best, _) in places.items():
            gap = board.bootstrap.difference(method, other, board.fairness)
            if gap.low > 0:
                assert other != method and best > 1 and other_best < len(places)


def test_average_precision_is_that_of_scikit_learn_for_any_weights(rng):
    from sklearn.metrics import average_precision_score

    right = rng.random(50) < 0.3
    scores = rng.integers(0, 20, 50).astype(float)  # with ties
    weights = rng.multinomial(50, np.full(50, 1 / 50), 5)
    expected = [average_precision_score(right, scores, sample_weight=row) for row in weights]
    found = leaderboard.average_precisions(right, scores, weights)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_bars_join_those_that_nemenyi_cannot_tell_apart(rng):
    """Demsar's example: with ten sets and four methods, mean ranks must differ by 1.48."""
    names = ["one", "two", "three", "four"]
    values = [dict(zip(names, rng.random(4) + np.arange(4), strict=True)) for _ in range(10)]
    ranking = ranked(values)
    assert ranking.needed == pytest.approx(2.569 * np.sqrt(4 * 5 / 60), abs=1e-3)
    assert list(ranking.means) == names and sum(ranking.means.values()) == pytest.approx(10)
    for low, high in ranking.bars:
        assert high - low < ranking.needed
    apart = [
        (a, b)
        for a, x in ranking.means.items()
        for b, y in ranking.means.items()
        if y - x >= ranking.needed
    ]
    joined = [
        low <= ranking.means[a] and ranking.means[b] <= high
        for a, b in apart
        for low, high in ranking.bars
    ]
    assert apart and not any(joined)
    tied = ranked([{"one": 1.0, "two": 1.0}, {"one": 1.0, "two": 2.0}])
    assert tied.means == {"one": 1.25, "two": 1.75}
    drawn = diagram(ranking)
    assert all(f">{name} " in drawn for name in names)
    assert drawn.count("<path") == 4


def test_sets_have_names_of_their_own():
    assert len({one.name for one in SETS}) == len(SETS)


def test_the_page_beside_the_authors_code_is_its_file():
    assert (ROOT / "docs" / "beside.md").read_text() == beside.page()


def test_a_method_is_beside_its_authors_code_or_says_why_not():
    """A new one need do neither: whoever makes the page again is asked."""
    rows = json.loads((ROOT / beside.MEASURED).read_text())["rows"]
    assert set(beside.NO_ROW) <= set(eq.methods.names())
    assert not beside.compared(rows) & set(beside.NO_ROW)
    assert all(row["commit"] and row["largest"] >= 0 for row in rows)


def test_the_page_beside_the_authors_code_is_made_only_of_every_method(monkeypatch):
    excused = dict.fromkeys(eq.methods.names(), "a reason")  # a new one too, which has no row yet
    monkeypatch.setattr(beside, "NO_ROW", excused)
    beside.require_every_method()
    del beside.NO_ROW["saner"]
    with pytest.raises(SystemExit, match="saner: compare it, or say in NO_ROW why not"):
        beside.require_every_method()


def test_a_click_on_a_heading_sorts(browser):
    rows = [("b", "10.5 [9, 12]"), ("c", ""), ("a", "-2.0 [-3, 1]"), ("d", "1,200")]
    body = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    head = "<tr><th>name</th><th>value</th></tr>"
    script = (ROOT / "docs" / "sort.js").read_text()
    page = browser.new_page()
    page.set_content(
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table><script>{script}</script>"
    )
    clicks = {"value": ("abdc", "dbac"), "name": ("abcd", "dcba")}  # a cell without a value is last
    for heading, orders in clicks.items():
        for order in orders:
            page.get_by_role("columnheader", name=heading).click()
            names = page.locator("tbody tr td:first-child").all_inner_texts()
            assert "".join(names) == order
    page.close()
