"""The verdict: what each outcome says to a reader, on made cases and on made collections."""

from __future__ import annotations

import pytest

from equipoise._audit import run
from equipoise._audit.results import AuditDocument
from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words
from equipoise.report import headline, model_card
from tests.helpers.audits import made_plan
from tests.helpers.findings import SURE, UNSURE, document, ranged


def told(made) -> tuple[str, str]:
    """Return the headline, and all the sentences after it."""
    sentences = [numbers.fill(sentence, made) for sentence in words.sentences(made)]
    return headline(made), " ".join(sentences)


@pytest.mark.parametrize(
    ("after", "half", "outcome"),
    [
        (0.2, SURE, "lowered"),
        (0.6, SURE, "raised"),
        (0.41, SURE, "no change seen"),
        (0.41, UNSURE, "too few images to say"),
        (0.3, UNSURE, "too few images to say"),
    ],
)
def test_a_method_is_judged_by_its_paired_interval(after, half, outcome):
    made = document([[0.4, after]] * 4, half=half)
    [one] = made.verdict.methods
    assert one.outcome == outcome
    assert (one.worse != []) == (outcome == "raised")


def test_what_is_not_seen_is_never_said_to_be_absent():
    """400 photographs, no labels: some prompts lean, and the mean is within chance."""
    few = [[0.2, 0.2], [0.15, 0.15], *[[0.05, 0.05]] * 8]
    made = document(few, mean_chance=0.2, images=400, groups_from="zero-shot")
    first, rest = told(made)
    assert made.verdict.state == "too few images to say"
    assert first.startswith("There are too few images to say whether search results lean by gender")
    assert "do not lean" not in first + rest
    # the smallest lean that they would show, and how many images a smaller one needs
    assert made.verdict.power.smallest is not None
    assert 0.2 < made.verdict.power.smallest < 0.3
    assert made.verdict.power.images is not None
    assert made.verdict.power.images > 4 * 400
    assert "2 of 10 prompts lean more than 95 % of random rankings do" in rest
    assert "images, and a look at the first" in rest and "would show 10 %" in rest


def test_no_lean_is_said_to_be_unseen_only_where_it_would_have_been_seen():
    made = document([[0.05, 0.05]] * 10, mean_chance=0.07)
    first, _ = told(made)
    assert made.verdict.state == "no lean seen"
    assert first.startswith("No lean by gender was seen in search results, and 2,000 images would")
    assert made.verdict.power.smallest is not None
    assert made.verdict.power.smallest <= made.verdict.power.wanted


def test_more_leaning_prompts_than_chance_gives_are_a_lean_though_the_mean_is_not():
    made = document([[0.3, 0.1]] * 3 + [[0.01, 0.01]] * 30, mean_chance=0.07)
    assert made.verdict.state == "leans"
    assert told(made)[0].startswith("Search results lean by gender for 3 of 33 prompts")


def test_prompts_that_a_method_made_worse_are_in_the_headline_and_named():
    """The demonstration: the mean falls, and "a photo of a dentist" goes from .001 to .581."""
    made = document([[0.8, 0.3]] * 8 + [[0.001, 0.581], [0.2, 0.4]])
    first, rest = told(made)
    assert made.verdict.methods[0].outcome == "lowered"
    assert made.verdict.methods[0].worse == [8, 9]
    assert first == (
        "Search results lean by gender for 9 of 10 prompts; no method lowers it without making a"
        " prompt worse; closed-form makes 2 prompts worse."
    )
    assert "10 of 10 prompts lean with it, 9 before" in rest
    assert "“prompt 8” (0.001 to 0.581)" in rest and "“prompt 9”" in rest
    assert "debiasing lowers it" not in first + rest
    assert made.recommendation.method is None


def test_a_method_that_raises_the_mean_is_in_the_headline_beside_one_that_lowers_it():
    """Flickr8k: closed-form raises the mean, and the other method lowers it."""
    labels = ("closed-form", "balanced")
    made = document([[0.4, 0.5, 0.05]] * 6, labels=labels)
    first, _ = told(made)
    assert first == (
        "Search results lean by gender for 6 of 6 prompts; balanced lowers that to 0; closed-form"
        " raises it, and makes 6 prompts worse."
    )
    assert made.recommendation.method == 2
    assert [one.why for one in made.recommendation.passed_over] == ["it raises the mean skew"]


@pytest.mark.parametrize("after", [0.3, 0.2])
def test_a_mean_that_falls_is_not_said_to_leave_fewer_prompts_leaning_than_it_does(after):
    """All six lean before and after, each of them less."""
    made = document([[0.4, after]] * 6)
    assert made.recommendation.method == 1
    assert told(made)[0] == (
        "Search results lean by gender for 6 of 6 prompts; closed-form lowers the mean skew, and 6"
        " prompts lean with it."
    )


def test_a_rise_of_what_was_not_seen_is_said_of_the_mean():
    first, _ = told(document([[0.05, 0.3]] * 10, mean_chance=0.07))
    assert first.startswith("No lean by gender was seen in search results")
    assert first.endswith("; closed-form raises the mean skew, and makes 10 prompts worse.")


def test_a_rise_within_chance_is_no_harm():
    made = document([[0.5, 0.05]] * 5 + [[0.001, 0.06]])
    [one] = made.verdict.methods
    assert one.raised == [5] and one.worse == []
    assert made.recommendation.method == 1


def test_the_cost_is_in_results_that_change_and_similarities_have_their_scale():
    _, rest = told(document([[0.4, 0.1]] * 4, changed=11))
    assert "11.0 of the first 20 results of a prompt are new on average" in rest
    assert "A similarity moves by 0.020 on average, 0.7 times their spread" in rest
    assert rest.index("results of a prompt are new") < rest.index("A similarity moves")


@pytest.mark.parametrize(("probe", "how"), [(0.61, "hardly tells"), (0.51, "cannot tell")])
def test_a_model_that_hardly_sees_the_groups_is_said_to(probe, how):
    made = document([[0.05, 0.05]] * 10, probe=probe)
    first, rest = told(made)
    assert first.startswith(f"The model {how} male and female apart in these images")
    assert f"AUC of {probe:.2f}" in first and "do not lean" not in first + rest


def test_who_named_the_groups_is_the_model_itself_says_nothing_of_its_sight():
    made = document([[0.05, 0.05]] * 10, probe=0.99, groups_from="zero-shot")
    assert made.verdict.sight.tells == "not measured"
    first, rest = told(made)
    assert first.endswith("; the model itself named the groups.")
    assert "Labels would show both" in rest
    labelled, _ = told(document([[0.05, 0.05]] * 10, probe=0.99))
    assert "named the groups" not in labelled


def test_wording_and_results_that_disagree_are_explained():
    made = document([[0.47, 0.1]] * 4, shares=0.8, towards="male")
    assert [one.most for one in made.verdict.disagree] == [1] * 4
    rest = told(made)[1]
    assert (
        "“prompt 0” is worded nearer to male, and 80 % of its first 20 results are female" in rest
    )
    assert "Go by the results" in rest
    assert not document([[0.47, 0.1]] * 4, shares=0.8, towards="female").verdict.disagree
    assert not document([[0.47, 0.1]] * 4, shares=0.51, towards="male").verdict.disagree


def test_of_methods_that_cannot_be_told_apart_the_one_that_changes_least_is_recommended():
    labels = ("first", "second")
    made = document([[0.5, 0.06, 0.05]] * 4, labels=labels)
    changed = made.model_dump()
    for entry in changed["prompts"]:
        entry["changed"] = [0, 2, 9]
    from equipoise._audit.recommendation import recommend
    from equipoise._audit.results import AuditFindings
    from equipoise._audit.verdict import verdict

    for key in ("verdict", "recommendation", "record"):
        changed.pop(key)
    found = AuditFindings.model_validate(changed)
    assert recommend(found, verdict(found)).method == 1
    # surely further: the larger reduction wins, whatever it changes
    for gap in changed["gaps"]:
        gap["difference"] = ranged(0.05)
    found = AuditFindings.model_validate(changed)
    assert recommend(found, verdict(found)).method == 2


def test_the_card_and_the_terminal_say_the_same(capsys):
    from rich.console import Console

    from equipoise.report._terminal import summary

    made = document([[0.8, 0.3]] * 8 + [[0.001, 0.581]])
    first, _ = told(made)
    console = Console(width=400, record=True)
    console.print(summary(made))
    assert first in console.export_text()
    assert first in model_card(made) == model_card(made.to_plain())


def test_numbers_that_rest_on_few_images_are_said_to():
    """Seven men with blond hair: the sentence, and a mark in the card."""
    results = document([[0.8, 0.3]] * 4).to_plain()
    results["summary"][1]["small"] = ["blond, male 7"]
    few = "Read with care what rests on fewer than twenty images (blond, male 7): AUC."
    assert told(AuditDocument.model_validate(results))[1].endswith(few)
    card = model_card(results)
    assert few in card and "AUC † (lower is better)" in card
    assert "† rests on fewer than 20 images." in card


def test_too_few_images_are_said_to_be_on_a_made_collection():
    audit = run(made_plan(60, lean=0.2, labels=False, methods=["closed-form"]))
    assert audit.document.verdict.state != "leans"
    assert "too few images to say" in headline(audit.document)


def test_the_smallest_lean_said_is_seen_four_times_in_five():
    """Shuffled skews of mean 0.05 and deviation 0.01: one at ``smallest`` is above their range."""
    power = document([[0.05, 0.05]] * 4, mean_chance=0.07).verdict.power
    assert power.smallest == pytest.approx(0.07 + 0.84 * 0.04 / 3.92, abs=1e-6)
