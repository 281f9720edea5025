"""Files that somebody made to harm: each is refused in words or read, and nothing outside is
touched.
"""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin
from safetensors import safe_open
from safetensors.numpy import save_file

import equipoise as eq
from equipoise import _applying as applying
from equipoise import _artefact as artefact
from equipoise._annotate import catalogue, exchange
from equipoise._annotate.catalogue import Picture as Shown
from equipoise._annotate.labels import Label
from equipoise._annotate.project import Project
from equipoise._annotate.question import Question
from equipoise._cli.printing import Console, visible
from equipoise._space import EncoderRef
from equipoise._stores import open_store
from equipoise._stores.folder import StoreManifest, StoreWriter
from equipoise._verbs.apply import read_transform
from equipoise.encoders._cache import image_keys
from equipoise.encoders._images import open_image
from equipoise.errors import ArtefactError, EquipoiseError, InputError
from equipoise.generation._drawing import draw
from equipoise.generation._labels import LabelFile
from equipoise.generation._manifest import MANIFEST, DrawnPicture, Manifest
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.report import _card as card
from equipoise.report import _number_format as numbers
from tests.helpers.common import component, make_space

DOCTOR = "a photo of a doctor"
QUESTION = Question("Which?", ("male", "female"))
SHOWN = [Shown("a.png", "p", "m", True, None, "here")]
PICTURE = {
    "image": "images/none/000-a-photo-of-a-doctor/00000.png",
    "prompt": DOCTOR,
    "method": "none",
    "seed": 0,
    "explicit_group": "",
    "attempt": 0,
    "number": 0,
}


def run_folder(folder: Path, **changes) -> Path:
    """A folder of ``generate`` whose manifest has one line."""
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps(PICTURE | changes) + "\n")
    return folder


def plan(images: int = 1) -> DrawingPlan:
    return make_plan("mini", eq.Attribute.load("gender"), [DOCTOR], ["none"], images)


class Untouched:
    """A painter that must never be asked."""

    def require(self, prompts):
        pass

    def __getattr__(self, name):
        raise AssertionError(f"a picture was begun: {name}")


# --- Path traversal ------------------------------------------------------------------------------


@pytest.mark.parametrize("image", ["../outside.png", "/tmp/outside.png", "link/outside.png"])
def test_generate_reads_and_writes_nothing_outside_its_folder(tmp_path, image):
    folder = run_folder(tmp_path / "run", image=image)
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="not inside"):
        draw(plan(), Untouched(), eq.Attribute.load("gender"), folder)
    assert not (tmp_path / "outside.png").exists()


def test_a_link_for_pictures_that_leads_out_is_refused_before_any_is_drawn(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "images").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="not inside"):
        draw(plan(), Untouched(), eq.Attribute.load("gender"), tmp_path / "run")
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "changes", [{"prompt": "another"}, {"method": "other"}, {"number": 7}, {"seed": -5}]
)
def test_a_line_that_the_plan_cannot_have_given_is_refused_before_any_is_drawn(tmp_path, changes):
    folder = run_folder(tmp_path / "run", **changes)
    with pytest.raises(ArtefactError, match="no picture of this run"):
        draw(plan(), Untouched(), eq.Attribute.load("gender"), folder)


def test_crops_of_facet_stay_in_their_folder(tmp_path):
    pd = component("pandas")
    from equipoise.datasets import write_crops
    from equipoise.datasets._dataset import Dataset

    Image.new("RGB", (8, 8)).save(tmp_path / "photo.jpg")
    row = {"path": str(tmp_path / "photo.jpg"), "person": "../outside", "box": (0, 0, 4, 4)}
    with pytest.raises(InputError, match="no name of a file in"):
        write_crops(Dataset("FACET", pd.DataFrame([row])), tmp_path / "crops")
    assert not (tmp_path / "outside.jpg").exists()


# --- Names that a user may choose ----------------------------------------------------------------


NAMES = st.text("ab.\\/|{}\"'\n ", min_size=1, max_size=8)


@given(NAMES, NAMES)
def test_any_name_is_a_step_of_a_path(one, other):
    results = {"counts": {one: {other: 7}}, "other": 8}
    path = f"counts.{numbers.step(one)}.{numbers.step(other)}"
    assert numbers.at(results, path) == 7
    assert numbers.text(numbers.at(results, path), "n") == "7"


def test_a_group_called_unsure_is_refused_before_any_work():
    groups = eq.Attribute("mood", ("unsure", "sure"))
    with pytest.raises(InputError, match="give the group another name"):
        make_plan("mini", groups, [DOCTOR], ["none"], 1)


# --- The low ones, a row each --------------------------------------------------------------------


def in_manifest_of_generate(tmp_path):
    Manifest(run_folder(tmp_path / "run", prompt="\ud800"))


def in_manifest_of_annotate(tmp_path):
    folder = run_folder(tmp_path / "run", image="\ud800.png", prompt="\ud800")
    Project.open(folder)


def in_picture_id(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with Project.open(tmp_path) as project:
        catalogue.look_up(project.database, "\ud800")


def in_metadata(tmp_path, **changes):
    space = make_space(np.random.default_rng(0), 8)
    space.save(tmp_path / "space.safetensors")
    with safe_open(tmp_path / "space.safetensors", "np") as file:
        metadata = json.loads(file.metadata()["equipoise"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    said = {"equipoise": json.dumps(metadata | changes)}
    save_file(arrays, tmp_path / "space.safetensors", said)
    eq.AttributeSpace.load(tmp_path / "space.safetensors")


def altered_operator(tmp_path):
    prototypes = {"male": np.eye(8)[0], "female": np.eye(8)[1]}
    context = eq.FitContext(eq.Attribute.load("gender"), prototypes=prototypes)
    operator = eq.methods.create("closed-form").fit(context)
    operator.save(tmp_path / "op.safetensors")
    with safe_open(tmp_path / "op.safetensors", "np") as file:
        metadata = json.loads(file.metadata()["equipoise"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata["settings"]["changes"] = [1e308]
    save_file(arrays, tmp_path / "op.safetensors", {"equipoise": json.dumps(metadata)})
    repr(eq.methods.load(tmp_path / "op.safetensors"))


def applied(tmp_path):
    rng = np.random.default_rng(0)
    space = make_space(rng, 8)
    np.save(tmp_path / "in.npy", rng.standard_normal((64, 8)).astype(np.float32))
    eq.apply(tmp_path / "in.npy", tmp_path / "out", space=space)
    return space, tmp_path / "out" / "equipoise-apply.json"


def altered_manifest_of_apply(tmp_path):
    space, path = applied(tmp_path)
    document = json.loads(path.read_text())
    document["shards"][0]["file"] = 99
    path.write_text(json.dumps(document))
    applying.verify(tmp_path / "in.npy", tmp_path / "out", read_transform(space, None))


def altered_certificate(tmp_path):
    space, path = applied(tmp_path)
    document = json.loads(path.read_text())
    document["shards"][0]["totals"] = {"n": "many"}
    path.write_text(json.dumps(document))
    eq.apply(tmp_path / "in.npy", tmp_path / "out", space=space, resume=True)


def infinite_results(tmp_path):
    from equipoise._audit import read

    (tmp_path / "results.json").write_text('{"kind": "equipoise audit", "format": Infinity}')
    read(tmp_path)


def infinite_evaluation(tmp_path):
    from equipoise.evaluation import _run_file as document

    text = '{"kind": "equipoise evaluation", "format": Infinity, "rows": []}'
    (tmp_path / "run.json").write_text(text)
    document.read(tmp_path / "run.json")


def nested_book(tmp_path):
    (tmp_path / "book.json").write_text('{"kind": "\\ud800"}')
    eq.PromptBook.load(tmp_path / "book.json")


def long_column(_):
    from equipoise._applying.postgres import apply_column

    component("psycopg")
    space = make_space(np.random.default_rng(0), 8)
    apply_column("postgresql://h.invalid/d#t.c", "é" * 32, read_transform(space, None))


def fifo_as_picture(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    assert image_keys([tmp_path / "a.png"]) == [None]
    open_image(tmp_path / "a.png")


def fifo_as_manifest(tmp_path):
    os.mkfifo(tmp_path / MANIFEST)
    Manifest(tmp_path)


def fifo_as_labels(tmp_path):
    os.mkfifo(tmp_path / "labels.csv")
    LabelFile(tmp_path / "labels.csv", "me", ("male", "female"))


REFUSED = {
    "half a character in a manifest of generate": (in_manifest_of_generate, "is not a picture"),
    "half a character in a manifest of annotate": (in_manifest_of_annotate, "no picture|not JSON"),
    "half a character in the id of a picture": (in_picture_id, "half of a character"),
    "a format that is infinite": (lambda p: in_metadata(p, format=float("inf")), "metadata"),
    "a format of 400 digits": (lambda p: in_metadata(p, format=10**400), "metadata"),
    "a tolerance of 400 digits": (lambda p: in_metadata(p, tolerance=10**400), "metadata"),
    "an operator that changes a number": (altered_operator, "whole operator"),
    "a piece of a file that is not there": (altered_manifest_of_apply, "every row"),
    "a certificate whose count is a word": (altered_certificate, "damaged"),
    "results whose format is infinite": (infinite_results, "audit's results"),
    "an evaluation whose format is infinite": (infinite_evaluation, "not the file"),
    "half a character in a prompt book": (nested_book, "not JSON"),
    "a PostgreSQL column that would be cut": (long_column, "64 bytes"),
    "a FIFO in place of a picture": (fifo_as_picture, "FIFO and not a regular file"),
    "a FIFO in place of a manifest": (fifo_as_manifest, "is a FIFO"),
    "a FIFO in place of labels": (fifo_as_labels, "is a FIFO"),
}


@pytest.mark.parametrize(("reading", "message"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_file_is_refused_in_words(reading, message, tmp_path):
    with pytest.raises(EquipoiseError, match=message):
        reading(tmp_path)


def test_annotate_goes_on_beside_a_fifo(tmp_path):
    folder = run_folder(tmp_path / "run", image="fifo.png")
    os.mkfifo(folder / "fifo.png")
    Image.new("RGB", (4, 4)).save(folder / "a.png")
    with (folder / MANIFEST).open("a") as file:
        file.write(json.dumps(PICTURE | {"image": "a.png", "number": 1}) + "\n")
    with Project.open(folder) as project:
        assert project.size() == 1


@pytest.mark.parametrize("key", ["xmp", "interlace", "transparency"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_a_text_of_a_png_is_not_taken_for_a_note_of_pillow(key, mode):
    notes = PngImagePlugin.PngInfo()
    notes.add_text(key, "<x:xmpmeta/>")
    file = io.BytesIO()
    Image.new(mode, (4, 4)).save(file, "PNG", pnginfo=notes)
    assert open_image(file.getvalue()).size == (4, 4)


def test_names_cannot_act_on_the_terminal(capsys):
    name = "a\x1b]0;title\x07\x9b31m\r.npy"
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system=None).print(name, markup=False)
    assert not set("\x1b\x07\x9b\r") & set(file.getvalue()) and ".npy" in file.getvalue()
    assert json.loads(visible(json.dumps([name], ensure_ascii=False))) == [name]
    command = [sys.executable, "-m", "equipoise", "report", name]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2 and b"\x1b]0;" not in done.stderr and b"u001b" in done.stderr


def test_a_model_card_shows_names_and_obeys_none():
    name = "<script>x</script> [a](http://b) `c` | *d*\n# e"
    shown = card.plain(name)
    assert "<" not in shown and "\n" not in shown
    for letter in "[]`|*":
        assert shown.count(letter) == shown.count("\\" + letter)
    assert card.plain("closed-form (kappa=2)") == "closed-form (kappa=2)"


# --- Random edits --------------------------------------------------------------------------------

NUMBERS = [True, -1, 0, 3, 2**62, 2**70, 10**400, 1e308, -0.5, float("inf"), float("nan")]
TEXTS = ["", "x", "../../x", "\ud800", "\x1b[31m", "\0", "a" * 300]
HOSTILE = st.sampled_from([None, *NUMBERS, *TEXTS, [], {}, [[]], [None], {"a": 1}, ["a", "a"]])


def places(document, path=()):
    """The paths of all values, of lists the first four."""
    yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for i, value in enumerate(document[:4]):
            yield from places(value, (*path, i))


@st.composite
def edited(draw_one, document):
    """A document with one value replaced, taken out or called something else."""
    document = copy.deepcopy(document)
    path = draw_one(st.sampled_from(list(places(document))))
    value = draw_one(HOSTILE)
    if not path:
        return value
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    how = draw_one(st.sampled_from(["set", "set", "delete", "rename"]))
    if how == "delete":
        del holder[path[-1]]
    elif how == "rename" and isinstance(holder, dict):
        holder["\ud800"] = holder.pop(path[-1])
    else:
        holder[path[-1]] = value
    return document


MANY = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def must_be_read_or_refused(read):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(EquipoiseError):
            read()


@MANY
@given(data=st.data())
def test_any_edit_of_a_generation_manifest_is_read_or_refused(data, tmp_path):
    line = data.draw(edited(PICTURE))
    (tmp_path / MANIFEST).write_text(json.dumps(line) + "\n")

    def read():
        manifest = Manifest(tmp_path)
        manifest.forget_missing()
        manifest.add([DrawnPicture(**PICTURE)])
        manifest.compact()

    must_be_read_or_refused(read)


@MANY
@given(data=st.data())
def test_any_edit_of_a_plan_is_read_or_refused(data, tmp_path):
    document = data.draw(edited(json.loads(plan().model_dump_json())))
    (tmp_path / "run.json").write_text(json.dumps(document))
    must_be_read_or_refused(
        lambda: plan().require_same(DrawingPlan.load(tmp_path), tmp_path, ["none"])
    )


@MANY
@given(data=st.data())
def test_any_edit_of_what_annotate_reads_is_read_or_refused(data, tmp_path):
    folder = tmp_path / "pictures"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    Image.new("RGB", (4, 4)).save(folder / "a.png")
    line = data.draw(edited(PICTURE | {"image": "a.png"}))
    (folder / MANIFEST).write_text(json.dumps(line) + "\n{}\n")

    def read():
        with Project.open(folder) as project:
            project.size()

    must_be_read_or_refused(read)
    labels = [Label("a.png", "anna", "male", "2026-01-01T00:00:00Z")]
    tasks = data.draw(edited(json.loads(exchange.to_label_studio(labels, SHOWN))))
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    must_be_read_or_refused(lambda: exchange.read(tmp_path / "tasks.json", QUESTION, SHOWN))


@MANY
@given(data=st.data())
def test_any_edit_of_the_notes_of_apply_is_read_or_refused(data, tmp_path):
    folder = tmp_path / "apply"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    space, path = applied(folder)
    source, out, transform = folder / "in.npy", folder / "out", read_transform(space, None)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(data.draw(edited(whole))))
    must_be_read_or_refused(lambda: applying.verify(source, out, transform))
    must_be_read_or_refused(lambda: eq.apply(source, out, space=space, resume=True))
    path.unlink(missing_ok=True)
    head = {name: value for name, value in whole.items() if name not in ("shards", "certificate")}
    lines = [head, *whole["shards"]]
    i = data.draw(st.integers(0, len(lines) - 1))
    lines[i] = data.draw(edited(lines[i]))
    journal = "".join(json.dumps(line) + "\n" for line in lines)
    path.with_name("equipoise-apply.journal").write_text(journal)
    must_be_read_or_refused(lambda: eq.apply(source, out, space=space, resume=True))


@MANY
@given(data=st.data())
def test_any_edit_of_a_store_is_read_or_refused(data, tmp_path):
    pd = component("pandas")
    folder = tmp_path / "store"
    shutil.rmtree(folder, ignore_errors=True)
    facts = {"modality": "image", "dim": 8, "dtype": "float32", "source": "x", "items": 4}
    about = StoreManifest(encoder=EncoderRef(), source_sha256="", shard_items=4, **facts)
    rows, lines = np.ones((4, 8), np.float32), pd.DataFrame({"path": list("abcd")})
    StoreWriter(folder, about).add(rows, lines, [], 4)
    document = data.draw(edited(json.loads((folder / "equipoise.json").read_text())))
    (folder / "equipoise.json").write_text(json.dumps(document))

    def read():
        store = open_store(folder)
        assert repr(store) and len(store.load()) == len(store.metadata())
        store.damaged()

    must_be_read_or_refused(read)


@MANY
@given(data=st.data())
def test_any_edit_of_the_metadata_of_a_space_is_read_or_refused(data, tmp_path):
    space = make_space(np.random.default_rng(0), 8)
    space.save(tmp_path / "space.safetensors")
    with safe_open(tmp_path / "space.safetensors", "np") as file:
        metadata = json.loads(file.metadata()["equipoise"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    said = json.dumps(data.draw(edited(metadata)))
    save_file(arrays, tmp_path / "edited.safetensors", {"equipoise": said})

    def read():
        found = eq.AttributeSpace.load(tmp_path / "edited.safetensors")
        eq.debias(np.ones((2, 8)), found)
        assert repr(found) and found.fingerprint

    must_be_read_or_refused(read)


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_parse_json_raises_value_errors_only(text):
    try:
        found = artefact.parse_json(text)
    except ValueError:
        return
    assert json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
