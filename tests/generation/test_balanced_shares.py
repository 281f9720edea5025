"""Shares of groups for generation: which group is drawn for a picture, and where its prompt goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise as eq
from equipoise._verbs.generate import GenerationRequest as Request
from equipoise.errors import ArtefactError, InputError
from equipoise.generation import GroupDraws, read_provenance
from equipoise.generation._manifest import MANIFEST, Manifest
from equipoise.generation._plan import make_plan
from equipoise.generation._quota import WINDOW, Quota, whole_counts
from equipoise.generation._shares import ShareTable, read_table, shares_of, table_names
from equipoise.generation._states_towards import moved
from tests.helpers.common import ROOT, component, rounding

GENDER = eq.Attribute.load("gender")
DOCTOR, NURSE, MAN, TREE = (
    "a photo of a doctor",
    "a photo of a nurse",
    "a photo of a male doctor",
    "a photo of a tree",
)

weights = st.lists(st.integers(0, 10**6), min_size=2, max_size=9).filter(any)


def fractions(numbers: list[int]) -> list[Fraction]:
    return [Fraction(number, sum(numbers)) for number in numbers]


# --- The sequence of groups


@given(weights, st.integers(0, 400))
@settings(max_examples=40, deadline=None)
def test_any_hundred_in_a_row_have_the_shares_to_within_one(numbers, start):
    shares = fractions(numbers)
    quota = Quota(shares)
    drawn = [quota[i] for i in range(start, start + WINDOW)]
    for group, share in enumerate(shares):
        assert abs(drawn.count(group) - WINDOW * share) <= 1


@given(weights)
@settings(max_examples=40, deadline=None)
def test_a_share_of_zero_is_never_drawn_and_whole_counts_are_whole(numbers):
    shares = fractions(numbers)
    counts = whole_counts(shares, WINDOW)
    assert sum(counts) == WINDOW
    assert all(abs(c - WINDOW * share) < 1 for c, share in zip(counts, shares, strict=True))
    quota = Quota(shares)
    drawn = {quota[i] for i in range(3 * WINDOW)}
    assert all(shares[group] > 0 for group in drawn)


def test_a_share_below_a_hundredth_is_drawn_in_the_long_run():
    """A window of its own would round it to nothing for ever."""
    quota = Quota([Fraction(4, 1000), Fraction(996, 1000)])
    rare = sum(quota[i] == 0 for i in range(10_000))
    assert abs(rare - 40) <= 2


# --- Shares as they are typed


def test_shares_are_equal_given_or_of_a_table():
    assert shares_of("equal", DOCTOR, GENDER) == {"male": 0.5, "female": 0.5}
    assert shares_of("female=0.7,male=0.3", DOCTOR, GENDER) == {"male": 0.3, "female": 0.7}
    assert shares_of("male=30, female=70", DOCTOR, GENDER) == {"male": 0.3, "female": 0.7}
    assert shares_of("kay2015", DOCTOR, GENDER) == {"male": 0.657, "female": 0.343}
    practitioner = shares_of("kay2015", "a portrait of a nurse practitioner", GENDER)
    assert practitioner["female"] == 0.861  # and not that of a nurse, a shorter name


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("male=0.5", "the groups of gender are male, female"),
        ("male=0.5,female=0.6", "they sum to 1.1"),
        ("male=1.5,female=-0.5", "not shares"),
        ("male=nan,female=1", "is not GROUP=SHARE"),
        ("fair", "pass equal, shares such as male=0.5,female=0.5, a table"),
        ("nowhere.json", "cannot be read"),
    ],
)
def test_illegal_shares_are_named(target, reason):
    with pytest.raises(InputError, match=reason):
        shares_of(target, DOCTOR, GENDER)


def test_a_table_says_what_it_lacks_and_whose_groups_it_has(tmp_path):
    with pytest.raises(InputError, match="no occupation that 'a photo of a cowboy' names"):
        shares_of("kay2015", "a photo of a cowboy", GENDER)
    with pytest.raises(InputError, match="are of gender, and the attribute is age"):
        shares_of("kay2015", DOCTOR, eq.Attribute.load("age"))
    mine = read_table("kay2015").model_dump() | {"name": "mine"}
    mine["shares"] = {"": {"male": 0.25, "female": 0.75}}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(mine))
    assert shares_of(str(path), "a photo of a cowboy", GENDER)["female"] == 0.75
    path.write_text('{"kind": "equipoise shares"}')
    with pytest.raises(ArtefactError, match="not a file of shares, or damaged"):
        shares_of(str(path), DOCTOR, GENDER)


def test_every_table_of_the_package_is_whole():
    for name in table_names():
        table = read_table(name)
        assert isinstance(table, ShareTable) and table.source and table.licence
        for occupation in filter(None, table.shares):
            table.of(f"a photo of a {occupation}", eq.Attribute.load(table.attribute))


# --- What is drawn for a picture


def test_prompts_that_name_a_group_or_nobody_are_left_alone():
    draws = GroupDraws("gender")
    assert draws(MAN, 1) == ("", MAN, "it names a group")
    assert draws(TREE, 1) == ("", TREE, "it speaks of no person")
    assert draws(DOCTOR, 1) == ("female", "a photo of a female doctor", "")


def test_the_draw_is_by_position_whatever_was_drawn_before():
    forward, backward = GroupDraws("gender", "kay2015"), GroupDraws("gender", "kay2015")
    there = [forward(DOCTOR, i) for i in range(150)]
    assert there == [backward(DOCTOR, i) for i in reversed(range(150))][::-1]
    women = sum(drawn.group == "female" for drawn in there[:100])
    assert abs(women - 34.3) <= 1


def test_any_attribute_and_intersections():
    both = eq.Attribute.load("gender") & eq.Attribute.load("age")
    draws = GroupDraws(both)
    drawn = [draws(DOCTOR, i) for i in range(100)]
    assert {d.group for d in drawn} == set(both.groups)
    assert all(sum(d.group == group for d in drawn) == 25 for group in both.groups)
    for d in drawn[:8]:
        assert eq.explicit_groups(d.wording, both) == (d.group,)
    race = GroupDraws("race")
    assert len({race(DOCTOR, i).wording for i in range(7)}) == 7


def test_a_book_of_ones_own_words_the_anchors():
    book = eq.PromptBook.of(
        {DOCTOR: {group: [f"{group} physician"] for group in GENDER.groups}}, writer="me"
    )
    assert GroupDraws("gender", book=book)(DOCTOR, 0).wording == "male physician"
    assert GroupDraws("gender", book=book)(NURSE, 0).wording == "a photo of a male nurse"


@pytest.mark.parametrize("position", [-1, 2.5, 10**9])
def test_positions_are_whole_numbers(position):
    with pytest.raises(InputError, match="is not legal; it is a whole number from 0"):
        GroupDraws("gender")(DOCTOR, position)


# --- States


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_moved_states_have_new_coordinates_and_all_else_of_the_old(seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((12, 2)))[0]
    states = rng.standard_normal((5, 12)) * 28
    shift = 0.2 * rng.standard_normal(2)
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    inside = states / lengths @ basis
    result = moved(states, basis, shift)
    wanted = inside + shift
    short = np.linalg.norm(wanted, axis=1) < 0.99
    # float64: some sums of 12 products, and a rest that may be as short as 0.14 of a state
    error = 12 * np.finfo(float).eps / 0.14
    np.testing.assert_allclose(np.linalg.norm(result, axis=1, keepdims=True), lengths)
    coordinates = result / lengths @ basis
    np.testing.assert_allclose(coordinates[short], wanted[short], atol=error)

    def outside(rows):
        rest = rows - rows @ basis @ basis.T
        return rest / np.linalg.norm(rest, axis=1, keepdims=True)

    np.testing.assert_allclose(outside(result), outside(states), atol=error)


# --- Runs on real small pipelines


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    component("diffusers")
    component("torch")
    from tests.helpers import pipelines

    folder = tmp_path_factory.mktemp("balanced")
    pipelines.sd1().save_pretrained(folder / "sd1")
    (folder / "prompts.txt").write_text("\n".join([DOCTOR, NURSE, MAN, TREE]) + "\n")
    eq.PromptBook.load("occupations-gender").subset([DOCTOR, NURSE]).save(folder / "book.json")
    return folder


METHODS = ("balanced", "balanced:how=states")


def request(places, out, **options) -> Request:
    given = {
        "prompts": str(places / "prompts.txt"),
        "book": str(places / "book.json"),
        "per_prompt": 4,
        "steps": 1,
        "methods": METHODS,
        "resamples": 50,
        "loading": {"device": "cpu", "offline": True},
    }
    return Request(out, str(places / "sd1"), **{**given, **options})


def files(folder) -> dict[str, bytes]:
    found = sorted((folder / "images").rglob("*.png"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def pixels(path) -> bytes:
    from PIL import Image

    with Image.open(path) as image:
        return image.tobytes()


@pytest.fixture(scope="module")
def run(places, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    request(places, out).perform()
    return out


def test_every_picture_says_what_was_drawn_for_it(run):
    manifest = Manifest(run)
    for picture in manifest.pictures.values():
        said = read_provenance(run / picture.image)
        assert said is not None and said.drawn == picture.drawn
        balanced = picture.method.startswith("balanced")
        drawn = balanced and picture.prompt in (DOCTOR, NURSE)
        assert bool(said.drawn) == drawn == (said.shares == {"male": 0.5, "female": 0.5})
        if picture.method == "balanced" and drawn:
            assert eq.explicit_groups(said.wording, GENDER) == (said.drawn,)
        if balanced and not drawn:
            assert said.gated and said.left_alone in ("it names a group", "it speaks of no person")
        assert bool(said.spaces) == (picture.method == "balanced (how=states)")
    groups = [manifest.pictures["balanced", DOCTOR, i].drawn for i in range(4)]
    assert groups == ["male", "female", "male", "female"]
    others = [manifest.pictures["balanced", NURSE, i].drawn for i in range(4)]
    assert others == ["female", "male", "female", "male"]  # so are the first of many prompts


def test_prompts_left_alone_give_the_original_pictures_and_others_do_not(run):
    pictures = Manifest(run).pictures
    for method in ("balanced", "balanced (how=states)"):
        for prompt, same in ((MAN, True), (TREE, True), (DOCTOR, False), (NURSE, False)):
            for number in range(4):
                before = pixels(run / pictures["none", prompt, number].image)
                after = pixels(run / pictures[method, prompt, number].image)
                assert (before == after) == same


def test_the_wording_s_picture_is_the_anchor_s_own(run, places, tmp_path):
    """``how="prompt"`` is the original model, asked for the anchor from the same noise."""
    anchors = tmp_path / "anchors.txt"
    anchors.write_text("a photo of a female doctor\n")
    request(places, tmp_path / "run", prompts=str(anchors), methods=("none",)).perform()
    asked = Manifest(tmp_path / "run").pictures["none", "a photo of a female doctor", 1]
    drawn = Manifest(run).pictures["balanced", DOCTOR, 1]
    assert pixels(tmp_path / "run" / asked.image) == pixels(run / drawn.image)


def test_states_reach_the_anchor_s_coordinates_and_the_pipeline_is_left_as_it_was(places):
    from equipoise.generation import steer
    from equipoise.generation._fitting import as_float64
    from equipoise.generation._painters import load_painter

    pipe = load_painter(str(places / "sd1"), device="cpu", offline=True).pipe

    def encoded() -> np.ndarray:
        return as_float64(pipe.encode_prompt(DOCTOR, "cpu", 1, False)[0][0])

    before = encoded()
    draws = GroupDraws("gender")
    steered = steer(pipe, draws, book=str(places / "book.json"))
    with steered.towards("female"):
        after = encoded()
    assert np.array_equal(encoded(), before)

    texts = [DOCTOR, draws.anchors(DOCTOR)["female"]]
    conditioning = steered.hook.conditioning
    options = getattr(conditioning, "usual", {})
    ends = as_float64(conditioning.states(texts, options)["text_encoder"])
    end = int(np.abs(before - ends[0]).max(1).argmin())
    basis = steered.hook.spaces["text_encoder"].basis

    def coordinates(row):
        return row / np.linalg.norm(row) @ basis

    # The way to the anchor is measured in a batch of two, where the encoder rounds otherwise.
    apart = abs(coordinates(before[end]) - coordinates(ends[0])).max() + rounding(len(basis))
    np.testing.assert_allclose(coordinates(after[end]), coordinates(ends[1]), atol=apart)
    assert np.array_equal(after[0], before[0])  # the start token
    steered.remove()
    assert "encode_prompt" not in pipe.__dict__


def test_shares_of_a_table_are_kept_in_the_plan(places, tmp_path):
    plan = make_plan("sd1", GENDER, [DOCTOR, NURSE, MAN, TREE], ["balanced"], 2, target="kay2015")
    assert set(plan.shares) == {DOCTOR, NURSE}
    request(places, tmp_path, methods=("balanced",), per_prompt=2, target="kay2015").perform()
    drawn = [Manifest(tmp_path).pictures["balanced", NURSE, i].drawn for i in range(2)]
    assert drawn == ["female", "female"]
    with pytest.raises(InputError, match="what differs: target, shares"):
        request(places, tmp_path, methods=("balanced",), per_prompt=2).perform()


def test_parameters_of_balanced_are_checked():
    for typed, reason in (
        ("balanced:how=magic", "how='magic' is not legal"),
        ("balanced:k=20", "has no parameter 'k' in generation"),
        ("balanced:strength=2", "goes with how=states"),
        ("balanced:how=states,strength=-1", "it is a number from 0"),
    ):
        with pytest.raises(InputError, match=reason):
            make_plan("sd1", GENDER, [DOCTOR], [typed], 1)
    same = make_plan("sd1", GENDER, [DOCTOR], ["balanced", "balanced:how=prompt"], 1)
    assert list(same.specs()) == ["none", "balanced"]


@pytest.mark.slow
def test_killed_and_gone_on_gives_the_same_bytes(places, run, tmp_path):
    out = tmp_path / "run"
    typed = [sys.executable, "-m", "equipoise", "generate", str(places / "prompts.txt")]
    typed += ["--out", str(out), "--pipeline", str(places / "sd1"), "-n", "4", "--steps", "1"]
    typed += ["--book", str(places / "book.json"), "--device", "cpu", "--offline"]
    for method in METHODS:
        typed += ["--method", method]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    for drawn in (18, 38):  # within each of the two
        process = subprocess.Popen(typed, env=environment, stdout=subprocess.DEVNULL)
        while not (out / MANIFEST).is_file() or (out / MANIFEST).read_bytes().count(b"\n") < drawn:
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(typed, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert files(out) == files(run)
    assert (out / MANIFEST).read_bytes() == (run / MANIFEST).read_bytes()
