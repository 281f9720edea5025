"""One grammar for every verb: an option means one thing, old spellings are answered, and what
``fit`` writes every other verb reads."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import numpy as np
import pytest
import typer
from PIL import Image

import equipoise as eq
from equipoise import _cli as cli
from equipoise._cli.grammar import NO_VERBS, OLD_SPELLINGS
from tests.helpers.common import embedded_model, typed

ASIDE = ("bench", "cache", "doctor")  # they are about this machine, not about data
MOST = 15  # options that a reader sees before the panels
OWN_WORDS = {
    "--out": "each verb says what it writes: a file, a folder, a book or a column",
    "--device": "apply loads no model, so its default and its choices are others",
}


def commands(command=None, path=()):
    """Yield each verb's words and its command."""
    command = command or typer.main.get_command(cli.app)
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name, below in command.commands.items():
        yield from commands(below, (*path, name))


def options_of(command):
    return [param for param in command.params if param.param_type_name == "option"]


EVERY_VERB = dict(commands())
VERBS = {verb: command for verb, command in EVERY_VERB.items() if verb.split()[0] not in ASIDE}


def test_bench_counts_with_no_option_that_names_data_elsewhere():
    """--images, --rows, --prompts, --annotators and --size are files, people and pixels elsewhere."""
    for verb, command in EVERY_VERB.items():
        if verb.startswith("bench ") and verb != "bench encode":
            names = {name for option in options_of(command) for name in option.opts}
            assert not names & {"--images", "--rows", "--prompts", "--annotators", "--size"}, verb


def test_an_option_says_the_same_everywhere():
    """Of an option that several verbs have, the first sentence of the help is one."""
    said = defaultdict(lambda: defaultdict(list))
    for verb, command in VERBS.items():
        for option in options_of(command):
            sentence = option.help.split(". ")[0].rstrip(".")
            for name in [*option.opts, *option.secondary_opts]:
                if name.startswith("--"):
                    said[name][sentence].append(verb)
    several = {name: dict(words) for name, words in said.items() if len(words) > 1}
    assert set(several) == set(OWN_WORDS), {k: v for k, v in several.items() if k not in OWN_WORDS}


def test_a_short_option_means_one_thing():
    means = defaultdict(set)
    for command in VERBS.values():
        for option in options_of(command):
            for name in option.opts:
                if not name.startswith("--"):
                    means[name].add(max(option.opts, key=len))
    assert means and all(len(names) == 1 for names in means.values()), dict(means)


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_few_options_stand_before_the_panels(verb):
    first = [option for option in options_of(VERBS[verb]) if not option.rich_help_panel]
    assert len(first) <= MOST, [option.name for option in first]


def old_spellings():
    for verb, spellings in OLD_SPELLINGS.items():
        for old, answer in spellings.items():
            yield pytest.param(verb, old, answer, id=f"{verb} {old}")


@pytest.mark.parametrize(("verb", "old", "answer"), list(old_spellings()))
@pytest.mark.parametrize("joined", [False, True], ids=["apart", "joined"])
def test_an_old_spelling_is_answered_with_the_new_one(verb, old, answer, joined, capsys):
    value = [f"{old}=x"] if joined else [old, "x"]
    assert typed(*verb.split(), *value) == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"{old} is {answer}" in told and "Traceback" not in told
    new = answer.removeprefix("now ")
    if new.startswith("-"):
        assert new in {name for option in options_of(EVERY_VERB[verb]) for name in option.opts}


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("serch", "To search in Python: eq.search(...). In the browser: equipoise explore."),
        ("evalute", "Did you mean 'evaluate'?"),
        ("banch", "Did you mean 'bench'?"),
        ("help", "Type equipoise --help"),
        ("nonsense", "No such command 'nonsense'."),
    ],
)
def test_a_word_that_is_no_verb_is_answered_with_what_was_meant(word, answer, capsys):
    assert typed(word) == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert answer in told and ("Did you mean" in told) == ("Did you mean" in answer)


def test_words_that_are_no_verbs_name_verbs_and_functions_that_there_are():
    for word, answer in NO_VERBS.items():
        assert word not in EVERY_VERB
        verbs = re.findall(r"equipoise ([a-z]+)", answer)
        assert all(verb in EVERY_VERB for verb in verbs)
        assert all(hasattr(eq, name) for name in re.findall(r"eq\.([a-z]+)", answer))


# --- What fit writes, the others read --------------------------------------------------------------


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table of 100 made pictures, with a group and a class each, and stores of images and texts."""
    embedded_model()
    root = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    lines = ["file,gender,job"]
    for i in range(100):
        coarse = Image.fromarray(rng.integers(0, 255, (3, 3, 3), dtype=np.uint8))
        coarse.resize((40, 40), Image.Resampling.NEAREST).save(root / f"{i}.png")
        lines.append(f"{i}.png,{('male', 'female')[i % 2]},{('doctor', 'nurse')[i // 2 % 2]}")
    (root / "people.csv").write_text("\n".join(lines))
    (root / "texts.txt").write_text("a photo of a doctor\na photo of a nurse\n")
    quick = ("--model", "mini", "--workers", 0)
    assert typed("embed", root, "--out", root / "image", *quick) == 0
    assert typed("embed", root / "texts.txt", "--out", root / "text", *quick) == 0
    return root


LABELLED = ("--group-columns", "gender", "--label-column", "job")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("closed-form", ()),
        ("orth-proj", ()),
        ("adapted", ("people.csv",)),
        ("leace", ("people.csv", *LABELLED)),
    ],
)
def test_every_verb_reads_the_operator_that_fit_writes(method, given, people, tmp_path, capsys):
    """The operator needs nothing more than the file: the same rows from every reader of it."""
    table, quick = people / "people.csv", ("--model", "mini", "--workers", 0)
    file = tmp_path / "operator.safetensors"
    given = [table if word == "people.csv" else word for word in given]
    fitting = ("-a", "gender", "--method", method, "--out", file, "--json")
    assert typed("fit", *given, *quick, *fitting) == 0
    facts = json.loads(capsys.readouterr().out)
    operator = eq.methods.load(file, encoder=eq.load_encoder("mini"))
    assert operator.name == facts["method"] == method
    assert operator.fingerprint == facts["fingerprint"]

    modality, applied = operator.changes[0], tmp_path / "applied"
    assert typed("apply", people / modality, "--out", applied, "--operator", file) == 0
    before, after = rows(people / modality), rows(applied)
    debiased = operator.image(before) if modality == "image" else operator.text(before)
    np.testing.assert_allclose(after, debiased, atol=1e-6)
    assert not np.allclose(after, before, atol=1e-3)

    audit = tmp_path / "audit"
    measured = (*LABELLED, "--method", file, "--resamples", 20)
    assert typed("audit", table, *quick, *measured, "--out", audit) == 0
    assert "operator" in json.dumps(json.loads((audit / "results.json").read_text())["methods"])

    run = tmp_path / "run.json"
    assert typed("evaluate", table, *quick, *measured, "--probe", 0, "--out", run) == 0
    assert "operator" in json.dumps(json.loads(run.read_text())["methods"])


def rows(folder):
    return np.concatenate([np.load(path) for path in sorted(folder.rglob("*.npy"))])


def test_fit_takes_the_curated_book_where_none_is_named(tmp_path, capsys):
    embedded_model()
    fitted = []
    for named in ((), ("--book", "occupations-gender")):
        file = tmp_path / f"{len(named)}.safetensors"
        assert typed("fit", "-a", "gender", *named, "--model", "mini", "-o", file, "--json") == 0
        fitted.append(json.loads(capsys.readouterr().out)["book_hash"])
    assert fitted[0] == fitted[1]
    assert typed("fit", "--model", "mini", "-o", tmp_path / "none.safetensors") == 2
    assert "needs an --attribute" in capsys.readouterr().err


def test_fit_asks_for_a_book_where_none_is_curated(tmp_path, capsys):
    """Before it loads a model: there is none of this name."""
    attribute = tmp_path / "hats.toml"
    attribute.write_text('name = "hats"\n[groups.hatted]\n[groups.bareheaded]\n')
    file = tmp_path / "operator.safetensors"
    assert typed("fit", "-a", attribute, "--method", "orth-proj", "-o", file, "--model", "no") == 2
    assert "pass --book" in capsys.readouterr().err and not file.exists()
