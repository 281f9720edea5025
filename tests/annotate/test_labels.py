"""Labels: kept once, taken back, exchanged; pictures found, shown without their names, replaced; how far people agree."""

from __future__ import annotations

import io
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import equipoise as eq
from equipoise._annotate import (
    UNSURE,
    Project,
    Question,
    catalogue,
    exchange,
    labels,
    people,
    pictures,
)
from equipoise._annotate.agreement import agreement, outcome
from equipoise._annotate.labels import ConflictError, Label
from equipoise._annotate.project import read_gold
from equipoise._paths import inside
from equipoise.errors import ArtefactError, InputError
from tests.helpers.annotating import NAMES, make_folder, opened
from tests.helpers.common import typed


@pytest.fixture
def project(tmp_path):
    with opened(tmp_path / "run") as project:
        for name in NAMES:
            people.invite(project.database, name)
        yield project


def ids(project):
    """Opaque names by path, as the database has them."""
    with project.database.reading() as db:
        return dict(
            db.execute("select path, id from pictures where state != 'replaced'").fetchall()
        )


def say(project, said):
    """Answers as {annotator: {path: answer}}."""
    known = ids(project)
    for name, answers in said.items():
        for n, (path, answer) in enumerate(answers.items()):
            labels.keep(project.database, name, known[path], answer, f"{name}-{path}-{n}-{answer}")


# --- The question -------------------------------------------------------------------------------------------------------------


def test_every_answer_has_a_key_that_no_other_has():
    for name in eq.Attribute.load("gender"), eq.Attribute.load("age"), eq.Attribute.load("race"):
        question = Question.about(name)
        keys = [key for of in question.keys().values() for key in of]
        assert (
            len(keys) == len(set(keys))
            and set(question.keys()) == {*name.groups, UNSURE}
            and "z" not in keys
        )
    assert (
        Question.about(eq.Attribute.load("gender")).text
        == "What is the perceived gender of the person in this image?"
    )
    assert Question("?", ("zebra", "unicorn", "man", "mouse")).keys()["zebra"] == ["1"]


@pytest.mark.parametrize(
    "answers", [(), ("one",), ("a", "A"), ("a", "unsure"), ("a", " "), tuple("abcdefghij")]
)
def test_answers_that_cannot_be_keys_are_refused(answers):
    with pytest.raises(InputError, match="answers"):
        Question("Which?", answers)


# --- The pictures -------------------------------------------------------------------------------------------------------------


def test_a_manifest_says_which_pictures_and_of_what(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = make_folder(tmp_path / "run")
    (folder / "contact-sheet.png").write_bytes((folder / "none-0.png").read_bytes())
    found = pictures.find(folder)
    assert len(found) == 6 and {one.method for one in found} == {"none", "closed-form", "sfid"}
    assert {one.path for one in pictures.find(folder, ["a photo of a nurse"])} == {
        "closed-form-1.png",
        "none-3.png",
        "sfid-5.png",
    }
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    (folder / "manifest.jsonl").unlink()
    assert len(pictures.find(folder)) == 7
    pq.write_table(pa.Table.from_pylist(lines), folder / "manifest.parquet")
    assert pictures.find(folder) == found


def test_a_manifest_that_is_being_written_is_read_as_far_as_it_goes(tmp_path):
    folder = make_folder(tmp_path / "run")
    manifest = folder / "manifest.jsonl"
    whole = manifest.read_text()
    manifest.write_text(whole[:-20])
    assert len(pictures.find(folder)) == 5
    manifest.write_text("{nothing\n" + whole)
    with pytest.raises(InputError, match="line 1"):
        pictures.find(folder)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.png",
        "/etc/passwd",
        "a/../../outside.png",
        "link.png",
        "folder/outside.png",
        "x\0y",
        "\ud800.png",
    ],
)
def test_nothing_outside_the_folder_is_a_picture(tmp_path, path):
    folder = make_folder(tmp_path / "run", manifest=False)
    Image.new("RGB", (4, 4)).save(tmp_path / "outside.png")
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "folder").symlink_to(tmp_path)
    with pytest.raises(InputError, match="not inside"):
        inside(folder, path)
    with pytest.warns(UserWarning, match="left out"):
        assert len(pictures.find(folder)) == 6
    (folder / "manifest.jsonl").write_text(json.dumps({"image": path}) + "\n")
    with pytest.raises(InputError, match=r"not inside|not JSON"):
        pictures.find(folder)


def test_a_link_inside_the_folder_is_followed(tmp_path):
    folder = make_folder(tmp_path / "run", manifest=False)
    (folder / "link.png").symlink_to(folder / "none-0.png")
    assert inside(folder, "link.png") == folder / "none-0.png"


@pytest.mark.parametrize(
    "lines", ["[]\n", '{"prompt": "x"}\n', '{"image": 3}\n', '{"image": ""}\n']
)
def test_lines_without_an_image_are_refused(tmp_path, lines):
    folder = make_folder(tmp_path / "run")
    (folder / "manifest.jsonl").write_text(lines)
    with pytest.raises(InputError, match="has no image"):
        pictures.find(folder)


def test_what_is_shown_tells_nothing_but_pixels(tmp_path):
    folder = make_folder(tmp_path / "run", 1)
    data = (folder / "none-0.png").read_bytes()
    assert b"doctor" in data
    photograph = Image.new("RGB", (3000, 1000), "red")
    exif = photograph.getexif()
    exif[0x010E] = "a photo of a doctor"
    exif[0x0112] = 6  # on its side
    buffer = io.BytesIO()
    photograph.save(buffer, "JPEG", exif=exif, comment=b"closed-form")
    assert b"doctor" in buffer.getvalue()
    for given_data, size in ((data, (16, 16)), (buffer.getvalue(), (533, 1600))):
        shown = pictures.shown(given_data)
        assert b"doctor" not in shown and b"closed-form" not in shown and b"Exif" not in shown
        with Image.open(io.BytesIO(shown)) as image:
            assert image.size == size and not image.info.get("comment") and not image.getexif()


def test_a_folder_without_pictures_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match="holds no picture"):
        Project.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(InputError, match="not a folder"):
        Project.open(tmp_path / "nowhere")


# --- The project --------------------------------------------------------------------------------------------------------------


def test_a_project_is_the_same_on_another_day(tmp_path):
    question = Question("Who is this?", ("a cat", "a dog"))
    with opened(
        tmp_path / "run", question=question, prompts=["a photo of a nurse"], show_prompt=True
    ) as project:
        token = people.invite(project.database, "anna")
        first = labels.turn(project.database, "anna")
        before = project.id
    with Project.open(tmp_path / "run") as project:
        assert (project.id, project.question, project.show_prompt) == (
            before,
            question,
            True,
        ) and project.size() == 3
        assert (
            people.invite(project.database, "anna") is None
            and people.who(project.database, token) == "anna"
        )
        assert labels.turn(project.database, "anna") == first
        labels.keep(project.database, "anna", first.picture, "a cat", "request-1")
    with pytest.raises(InputError, match="Who is this"):
        Project.open(tmp_path / "run", question=Question("Another?", ("yes", "no")))
    with Project.open(tmp_path / "run", question=question, prompts=[]) as project:
        assert project.size() == 6


def test_labels_may_be_kept_elsewhere(tmp_path):
    folder = make_folder(tmp_path / "run")
    before = sorted(folder.iterdir())
    with Project.open(folder, database=tmp_path / "labels.sqlite") as project:
        assert project.size() == 6 and sorted(folder.iterdir()) == before
    with pytest.raises(ArtefactError, match="`database`"):
        Project.open(folder, database=tmp_path / "nowhere" / "labels.sqlite")


def test_a_picture_under_a_name_that_had_another_is_asked_about_anew(project):
    say(project, {name: {"none-0.png": "male", "sfid-2.png": "female"} for name in NAMES})
    old = ids(project)["none-0.png"]
    Image.new("RGB", (9, 9), "blue").save(project.folder / "none-0.png")
    project.scan()
    assert (
        ids(project)["none-0.png"] != old
        and catalogue.look_up(project.database, old)[0] == catalogue.REPLACED
    )
    assert {label.image for label in labels.said(project.database)} == {"sfid-2.png"}
    assert labels.turn(project.database, "anna").left == 5
    labels.keep(
        project.database, "anna", old, "female", "a-late-answer"
    )  # to what she saw, and not to what is there now
    assert {label.image for label in labels.said(project.database)} == {"sfid-2.png"}


def test_a_picture_that_vanished_keeps_its_labels_and_may_come_back(project):
    say(project, {"anna": {"none-0.png": "male"}})
    data = (project.folder / "none-0.png").read_bytes()
    (project.folder / "none-0.png").unlink()
    project.scan()
    assert (
        len(labels.said(project.database)) == 1 and labels.turn(project.database, "ben").left == 5
    )
    assert (
        labels.undo(project.database, "anna", "nothing-to-show") is None
    )  # what cannot be shown cannot be answered again
    (project.folder / "none-0.png").write_bytes(data)
    project.scan()
    assert (
        labels.turn(project.database, "ben").left == 6
        and labels.turn(project.database, "anna").answered == 1
    )


def test_without_a_manifest_labels_of_a_picture_that_vanished_stay_too(tmp_path):
    """A folder that was tidied up, or moved to an archive, takes nobody's work with it; what nobody answered is no part of it any more."""
    from equipoise._verbs import annotate as commands

    folder = make_folder(tmp_path / "run", manifest=False)
    with Project.open(folder) as project:
        for name in NAMES:
            people.invite(project.database, name)
        say(project, {name: {"none-0.png": "male", "sfid-2.png": "female"} for name in NAMES})
    data = (folder / "none-0.png").read_bytes()
    for gone, left in (
        (["none-0.png", "none-3.png"], 5),
        (["sfid-2.png", "sfid-5.png", "closed-form-1.png", "closed-form-4.png"], 2),
    ):
        for name in gone:
            (folder / name).unlink()
        with commands.opened(folder, None, None, create=False) as project:
            assert commands.export(project, tmp_path / "labels.csv", force=True) == 6
            found = agreement(project)
            assert (found.images, found.unanimous) == (left, 2)
    with pytest.raises(InputError, match="holds no picture"):
        Project.open(folder, database=tmp_path / "new.sqlite")
    (folder / "none-0.png").write_bytes(data)
    with Project.open(folder) as project:
        assert project.size() == 1 and labels.turn(project.database, "anna").answered == 2
        Image.new("RGB", (9, 9), "blue").save(folder / "none-0.png")
        project.scan()
        assert {label.image for label in labels.said(project.database)} == {
            "sfid-2.png"
        }  # another picture took its name


def test_new_pictures_are_found(project):
    with (project.folder / "manifest.jsonl").open("a") as file:
        file.write(
            json.dumps({"image": "later.png", "prompt": "a photo of a doctor", "method": "none"})
            + "\n"
        )
    project.scan()
    assert labels.turn(project.database, "anna").left == 6
    Image.new("RGB", (9, 9)).save(project.folder / "later.png")
    project.scan()
    assert labels.turn(project.database, "anna").left == 7


def test_a_database_that_is_none_or_newer_is_refused(tmp_path):
    folder = make_folder(tmp_path / "run")
    (folder / "annotate.sqlite").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(ArtefactError, match="cannot be used for labels"):
        Project.open(folder)
    with opened(tmp_path / "other") as project, project.database.writing() as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(ArtefactError, match="newer"):
        Project.open(tmp_path / "other")


# --- The annotators -----------------------------------------------------------------------------------------------------------


def test_a_token_is_kept_as_a_hash_and_can_be_renewed(project):
    token = people.invite(project.database, "anna", renew=True)
    assert people.who(project.database, token) == "anna"
    files = list(project.folder.glob("annotate.sqlite*"))
    assert files and not any(token.encode() in file.read_bytes() for file in files)
    newer = people.invite(project.database, "anna", renew=True)
    assert (
        people.who(project.database, token) is None
        and people.who(project.database, newer) == "anna"
    )
    for wrong in ("", token[:-1], "\ud800", "x" * 10_000):
        assert people.who(project.database, wrong) is None


@pytest.mark.parametrize("name", ["", " ", "-x", "a\nb", "<script>", "x" * 61, "=cmd()"])
def test_names_that_are_none(project, name):
    with pytest.raises(InputError, match="is not a name"):
        people.invite(project.database, name)


def test_everyone_has_an_order_of_their_own_in_which_nothing_is_left_out(tmp_path):
    with Project.open(make_folder(tmp_path / "run", 40)) as project:
        orders = {}
        for name in NAMES:
            people.invite(project.database, name)
            order = orders.setdefault(name, [])
            while (turn := labels.turn(project.database, name)).picture:
                assert turn.answered == len(order) and turn.left == 40 - len(order)
                order.append(turn.picture)
                labels.keep(project.database, name, turn.picture, "male", f"request-{len(order)}")
        assert all(sorted(order) == sorted(ids(project).values()) for order in orders.values())
        assert len({tuple(order) for order in orders.values()}) == 3
        place = {id: i for i, id in enumerate(orders["anna"])}
        moved = [abs(place[id] - i) for i, id in enumerate(orders["ben"])]
        assert np.mean(moved) > 5  # of 13.3 for two orders that have nothing to do with each other


# --- What they say ------------------------------------------------------------------------------------------------------------


def steps():
    answer = st.tuples(
        st.just("label"),
        st.sampled_from(NAMES),
        st.integers(0, 5),
        st.sampled_from(("male", "female", UNSURE)),
    )
    back = st.tuples(st.just("undo"), st.sampled_from(NAMES), st.just(0), st.just(""))
    again = st.tuples(st.just("again"), st.sampled_from(NAMES), st.integers(0, 30), st.just(""))
    return st.lists(st.one_of(answer, back, again), max_size=30)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("template") / "run")


@settings(max_examples=25)
@given(steps())
def test_labels_are_what_a_plain_reading_of_the_requests_says(template, sequence):
    """Against a model: answers by picture in the order they were given, an undo takes the last, and a repeated request does nothing."""
    (template / "annotate.sqlite").unlink(missing_ok=True)
    for rest in template.glob("annotate.sqlite-*"):
        rest.unlink()
    with Project.open(template) as project:
        for name in NAMES:
            people.invite(project.database, name)
        known = list(ids(project).values())
        model = {name: {} for name in NAMES}
        made = {name: [] for name in NAMES}
        for n, (kind, name, which, answer) in enumerate(sequence):
            if kind == "again":
                if made[name]:
                    function, arguments, gave = made[name][which % len(made[name])]
                    assert function(project.database, name, *arguments) == gave
                continue
            if kind == "label":
                function, arguments = labels.keep, (known[which], answer, f"request-{n}")
                model[name].pop(known[which], None)
                model[name][known[which]] = answer
                expected = None
            else:
                function, arguments = labels.undo, (f"request-{n}",)
                expected = model[name].popitem()[0] if model[name] else None
            assert function(project.database, name, *arguments) == expected
            made[name].append((function, arguments, expected))
        path_of = {id: path for path, id in ids(project).items()}
        said = {
            (label.annotator, label.image): label.answer for label in labels.said(project.database)
        }
        assert said == {
            (name, path_of[id]): answer for name, of in model.items() for id, answer in of.items()
        }
        with project.database.reading() as db:
            (lines,) = db.execute("select count(*) from history").fetchone()
        assert lines == sum(kind != "again" for kind, *_ in sequence)


def test_a_request_that_comes_again_as_something_else_is_refused(project):
    first, second, *_ = ids(project).values()
    labels.keep(project.database, "anna", first, "male", "request-1")
    for picture, answer in ((second, "male"), (first, "female")):
        with pytest.raises(ConflictError):
            labels.keep(project.database, "anna", picture, answer, "request-1")
    with pytest.raises(ConflictError):
        labels.undo(project.database, "anna", "request-1")
    labels.undo(project.database, "anna", "request-2")
    with pytest.raises(ConflictError):
        labels.keep(project.database, "anna", first, "male", "request-2")
    labels.keep(
        project.database, "ben", second, "female", "request-1"
    )  # another's requests are their own


def test_many_threads_save_the_same_picture_at_once(project):
    picture = ids(project)["none-0.png"]

    def work(name, n):
        for i in range(5):
            labels.keep(
                project.database, name, picture, ("male", "female")[(n + i) % 2], f"request-{n}-{i}"
            )

    threads = [threading.Thread(target=work, args=(NAMES[n % 3], n)) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(label.annotator, label.image) for label in labels.said(project.database)] == [
        (name, "none-0.png") for name in NAMES
    ]
    with project.database.reading() as db:
        assert db.execute("select count(*) from history").fetchone() == (45,)
        assert not db.execute(
            "select * from labels join history using (entry) where labels.answer != history.answer"
        ).fetchall()


def test_a_full_disk_is_an_error_that_loses_nothing(project):
    say(project, {"anna": {"none-0.png": "male"}})
    project.database._db.execute(
        "pragma max_page_count = 1"
    )  # as a disk would, the file refuses to grow
    with pytest.raises(ArtefactError, match="has space"):
        for n in range(10_000):
            labels.keep(
                project.database,
                "anna",
                ids(project)["sfid-2.png"],
                ("male", "female")[n % 2],
                f"request-{n:060}",
            )
    project.database._db.execute("pragma max_page_count = 1000000")
    assert {label.image for label in labels.said(project.database)} >= {"none-0.png"}
    labels.keep(project.database, "anna", ids(project)["sfid-2.png"], UNSURE, "afterwards")


# --- Exchange -----------------------------------------------------------------------------------------------------------------

SAID = {
    "anna": {"none-0.png": "male", "closed-form-1.png": "male", "sfid-2.png": "female"},
    "ben": {"none-0.png": "male", "closed-form-1.png": "female", "sfid-2.png": UNSURE},
    "c@example.org": {"none-0.png": "male", "closed-form-1.png": "male"},
}


@pytest.mark.parametrize("name", ["labels.csv", "labels.json"])
def test_labels_come_back_from_a_file_as_they_went_out(tmp_path, name):
    from equipoise._verbs import annotate as commands

    with opened(tmp_path / "run") as project:
        for who in SAID:
            people.invite(project.database, who)
        say(project, SAID)
        assert commands.export(project, tmp_path / name, configuration=tmp_path / "view.xml") == 8
        assert "perceived gender" in (tmp_path / "view.xml").read_text()
        before = labels.said(project.database)
    with opened(tmp_path / "other") as project:
        assert commands.import_labels(project, tmp_path / name, replace=False) == (8, 8)
        assert labels.said(project.database) == before
        assert commands.import_labels(project, tmp_path / name, replace=False) == (8, 0)
        assert (
            people.names(project.database) == sorted(SAID)
            and people.names(project.database, invited=True) == []
        )


def test_the_csv_is_what_generate_takes(project):
    say(project, {"anna": {"none-0.png": "male"}})
    (label,) = labels.said(project.database)
    assert (
        exchange.to_csv([label]) == f"image,annotator,answer,at\nnone-0.png,anna,male,{label.at}\n"
    )
    assert label.at.endswith("Z") and "T" in label.at


def test_what_label_studio_exports_is_read(project, tmp_path):
    """Its own shape: users by number or as objects, uploads with something before their name, skipped tasks, predictions."""

    def task(image, *annotations):
        result = [
            {
                "from_name": "gender",
                "to_name": "img",
                "type": "choices",
                "value": {"choices": [choice]},
            }
            for _, choice, _ in annotations
        ]
        made = [
            {
                "id": i,
                "result": [one],
                "completed_by": by,
                "was_cancelled": skipped,
                "created_at": "2026-03-09T22:16:08.728353Z",
            }
            for i, (one, (by, _, skipped)) in enumerate(zip(result, annotations, strict=True))
        ]
        return {
            "id": 1,
            "data": {"image": image},
            "annotations": made,
            "predictions": [{"result": result}],
        }

    tasks = [
        task(
            "/data/upload/7/1f2e3d4c-none-0.png",
            (10, "male", False),
            ({"id": 2, "email": "b@example.org"}, "female", False),
        ),
        task(
            "/data/local-files/?d=some/where/closed-form-1.png",
            (10, "unsure", False),
            (11, "male", True),
        ),
        task("https://example.org/run/sfid-2.png?x=1"),
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = exchange.read(
        tmp_path / "export.json", project.question, catalogue.pictures(project.database)
    )
    at = "2026-03-09T22:16:08.728Z"
    assert found == [
        Label("none-0.png", "user 10", "male", at),
        Label("none-0.png", "b@example.org", "female", at),
        Label("closed-form-1.png", "user 10", "unsure", at),
    ]


def test_the_configuration_for_label_studio_is_xml_with_every_answer(project):
    from xml.etree import ElementTree

    question = Question('Is this "a & b"?', ("<yes>", "no"))
    view = ElementTree.fromstring(exchange.configuration(question))
    assert [choice.get("value") for choice in view.iter("Choice")] == ["<yes>", "no", "unsure"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "no column image"),
        ("a.csv", "image,answer\nnone-0.png,male\n", "no column annotator"),
        (
            "a.csv",
            "image,annotator,answer\nnone-0.png,anna,blue\n",
            "legal are male, female, unsure",
        ),
        ("a.csv", "image,annotator,answer\nnone-0.png,<b>,male\n", "not a name"),
        (
            "a.csv",
            "image,annotator,answer\nnone-0.png,anna,male\nnowhere.png,anna,male\n",
            "no picture of this project",
        ),
        (
            "a.csv",
            "image,annotator,answer\nnone-0.png,anna,male\nnone-0.png,anna ,female\n",
            "two answers",
        ),
        ("a.csv", "image,annotator,answer,at\nnone-0.png,anna,male,yesterday\n", "not a time"),
        (
            "a.csv",
            "image,annotator,answer,at\nnone-0.png,anna,male,0001-01-01T00:00:00+23:59\n",
            "not a time",
        ),
        ("a.csv", "image,annotator,answer\nnone-0.png\n", "no answer"),
        ("a.csv", "x" * 200_000, "cannot be read as csv"),
        (
            "a.json",
            '[{"data": {"path": [], "image": 3}, "annotations": []}]',
            "not what Label Studio exports",
        ),
        ("a.json", "[", "not what Label Studio exports"),
        ("a.json", "{}", None),
        ("a.json", "[1]", "not what Label Studio exports"),
        ("a.json", '[{"data": {"image": "none-0.png"}}]', "not what Label Studio exports"),
        (
            "a.json",
            '[{"data": {"image": "x.png"}, "annotations": []}]',
            "no picture of this project",
        ),
        ("a.json", "[" * 100_000, "not what Label Studio exports"),
        ("a.txt", "", "unknown kind"),
    ],
)
def test_files_that_are_no_labels_change_nothing(project, tmp_path, name, text, message):
    from equipoise._verbs import annotate as commands

    (tmp_path / name).write_text(text)
    if message is None:
        assert commands.import_labels(project, tmp_path / name, replace=False) == (0, 0)
    else:
        with pytest.raises(InputError, match=message):
            commands.import_labels(project, tmp_path / name, replace=False)
    assert labels.said(project.database) == []


def test_an_answer_that_differs_from_one_here_needs_to_be_asked_for(project, tmp_path):
    from equipoise._verbs import annotate as commands

    say(project, {"anna": {"none-0.png": "male"}})
    (tmp_path / "a.csv").write_text(
        "image,annotator,answer\nsfid-2.png,anna,male\nnone-0.png,anna,female\n"
    )
    with pytest.raises(ConflictError, match="`force`"):
        commands.import_labels(project, tmp_path / "a.csv", replace=False)
    assert [label.answer for label in labels.said(project.database)] == ["male"]
    assert commands.import_labels(project, tmp_path / "a.csv", replace=True) == (2, 2)
    assert {label.image: label.answer for label in labels.said(project.database)} == {
        "none-0.png": "female",
        "sfid-2.png": "male",
    }


# --- Agreement ----------------------------------------------------------------------------------------------------------------

FLEISS = [  # ten subjects, fourteen raters: the worked example of textbooks, 0.210
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def test_fleiss_kappa_of_the_worked_example():
    assert eq.metrics.fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)  # as printed
    weights = np.random.default_rng(0).multinomial(10, [0.1] * 10, 7)
    one_by_one = [eq.metrics.fleiss_kappa(np.repeat(FLEISS, often, axis=0)) for often in weights]
    np.testing.assert_allclose(eq.metrics.fleiss_kappa(FLEISS, weights), one_by_one, rtol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=40))
def test_for_two_people_kappa_is_scotts_pi(pairs):
    counts = np.zeros((len(pairs), 3))
    for row, (a, b) in enumerate(pairs):
        counts[row, a] += 1
        counts[row, b] += 1
    shares = counts.sum(0) / counts.sum()
    expected = (shares**2).sum()
    kappa = eq.metrics.fleiss_kappa(counts)
    if len({answer for pair in pairs for answer in pair}) == 1:
        assert np.isnan(kappa)
    else:
        assert kappa == pytest.approx(
            (np.mean([a == b for a, b in pairs]) - expected) / (1 - expected), abs=1e-12
        )
        assert kappa == pytest.approx(eq.metrics.fleiss_kappa(counts[:, ::-1]), abs=1e-12)
        assert (kappa == 1) == all(a == b for a, b in pairs) or abs(kappa - 1) < 1e-12


@pytest.mark.parametrize(
    "counts", [[1, 2], [[1, 0]], [[3, -1]], [[0, 0]], [["male", "female"]], [[np.nan, 3]]]
)
def test_counts_that_are_none(counts):
    with pytest.raises(InputError, match="counts"):
        eq.metrics.fleiss_kappa(counts)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], "waiting"),
        (["male"], "waiting"),
        (["male", "male"], "waiting"),
        (["male", "male", "male"], "unanimous"),
        (["male", "female"], "disagreed"),
        (["unsure"], "unsure"),
        (["male", "female", "unsure"], "unsure"),
        (["male"] * 4, "unanimous"),
    ],
)
def test_what_answers_come_to(answers, expected):
    assert outcome(answers, 3) == expected


def test_agreement_of_three(project):
    full = {
        f"{method}-{i}.png"
        for i, method in enumerate(("none", "closed-form", "sfid", "none", "closed-form"))
    }
    say(project, {name: dict.fromkeys(full, "male") for name in NAMES})
    say(
        project,
        {
            "chris": {"closed-form-1.png": "female", "sfid-2.png": UNSURE},
            "anna": {"sfid-5.png": "male"},
        },
    )
    found = agreement(project)
    assert {key: getattr(found, key) for key in ("images", "unanimous", "disagreed", "unsure", "waiting", "needed")} == {
        "images": 6, "unanimous": 3, "disagreed": 1, "unsure": 1, "waiting": 1, "needed": 3,
    }  # fmt: skip
    assert [image.to_plain() for image in found.regenerate] == [
        {
            "image": "closed-form-1.png",
            "why": "disagreed",
            "prompt": "a photo of a nurse",
            "method": "closed-form",
        },
        {"image": "sfid-2.png", "why": "unsure", "prompt": "a photo of a doctor", "method": "sfid"},
    ]
    assert found.unanimity.value == 0.6 and found.unanimity.n == 5 and found.unanimity.left_out == 1
    by_hand = eq.metrics.fleiss_kappa([[3, 0, 0], [2, 1, 0], [2, 0, 1], [3, 0, 0], [3, 0, 0]])
    assert (
        found.kappa.value == pytest.approx(by_hand, abs=1e-12)
        and found.kappa.low <= by_hand <= found.kappa.high
    )
    assert found == agreement(project) and found.to_text()
    chris = next(row for row in found.annotators if row.annotator == "chris")
    assert (
        chris.answered == 5
        and chris.counts == {"male": 3, "female": 1, "unsure": 1}
        and chris.gold is None
    )
    assert next(row for row in found.methods if row.method == "none").to_plain() == {
        "method": "none", "images": 2, "unanimous": 2, "disagreed": 0, "unsure": 0, "waiting": 0,
    }  # fmt: skip
    with pytest.raises(InputError, match="two annotators"):
        agreement(project, needed=1)


def test_agreement_where_all_say_the_same_or_nothing(project):
    assert agreement(project).kappa is None
    say(project, {name: dict.fromkeys(ids(project), "male") for name in NAMES})
    found = agreement(project)
    assert found.unanimity.value == 1 and found.kappa.value is None and found.regenerate == []


def test_gold_questions_check_people_and_are_no_part_of_the_study(tmp_path):
    folder = make_folder(tmp_path / "run")
    Image.new("RGB", (8, 8), "red").save(folder / "known.png")
    (tmp_path / "gold.csv").write_text("image,answer\nknown.png,male\nnone-0.png,female\n")
    with Project.open(folder, gold=read_gold(tmp_path / "gold.csv")) as project:
        for name in NAMES:
            people.invite(project.database, name)
        assert project.size() == 7 and labels.turn(project.database, "anna").left == 7
        say(
            project,
            {"anna": {"known.png": "male", "none-0.png": "female"}, "ben": {"known.png": "female"}},
        )
        found = agreement(project)
        gold = {row.annotator: row.gold for row in found.annotators}
        assert (
            (gold["anna"].right, gold["anna"].asked) == (2, 2)
            and gold["anna"].low < 1
            and gold["chris"] is None
        )
        assert (gold["ben"].right, gold["ben"].asked) == (0, 1)
        assert (
            found.images == 6 and found.annotators[0].answered == 1
        )  # a picture of the run counts as one, gold or not
        assert [label.image for label in labels.said(project.database)] == ["none-0.png"]
    for text, message in (
        ("image\nx\n", "columns image and answer"),
        ("image,answer\nknown.png,unsure\n", "known answer"),
        ("image,answer\nknown.png,male\nknown.png,female\n", "two answers to 'known.png'"),
        ("answer,image\nmale\n", "'' is not inside"),
        ("", "columns"),
    ):
        (tmp_path / "gold.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            Project.open(folder, gold=read_gold(tmp_path / "gold.csv"))


def test_unreadable_file_names_are_left_out(tmp_path):
    folder = make_folder(tmp_path / "run", manifest=False)
    with open(os.fsencode(folder) + b"/\xff.png", "wb") as file:
        file.write(b"x")
    with pytest.warns(UserWarning, match="UTF-8"):
        assert len(pictures.find(folder)) == 6


# --- One answer per image ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "agreed"),
    [
        ("unanimous", [("none-0.png", "male", "3", "3")]),
        ("majority", [("none-0.png", "male", "3", "3"), ("none-3.png", "female", "2", "3")]),
    ],
)
def test_annotators_come_to_one_answer_per_image(project, tmp_path, rule, agreed):
    """All the same, two of three, and one of each: the last has no answer by any rule."""
    from equipoise._verbs import annotate as commands

    first, second, third = NAMES
    say(
        project,
        {
            first: {"none-0.png": "male", "none-3.png": "female", "sfid-2.png": "male"},
            second: {"none-0.png": "male", "none-3.png": "female", "sfid-2.png": "female"},
            third: {"none-0.png": "male", "none-3.png": "unsure", "sfid-2.png": "unsure"},
        },
    )
    out = tmp_path / "labels.csv"
    assert commands.export_consensus(project, out, rule) == (len(agreed), 3 - len(agreed))
    header, *rows = [tuple(line.split(",")) for line in out.read_text().splitlines()]
    assert header == ("image", "answer", "agreeing", "answers") and rows == agreed
    with pytest.raises(InputError, match="unanimous or majority"):
        commands.export_consensus(project, out, "most", force=True)
    with pytest.raises(InputError, match=r"\.csv"):
        commands.export_consensus(project, tmp_path / "labels.json", rule)


def test_the_command_line_exports_what_annotators_agree_on(tmp_path):
    folder = make_folder(tmp_path / "run", manifest=False)
    with Project.open(folder) as project:
        for name in NAMES:
            people.invite(project.database, name)
        say(project, {name: {"none-0.png": "male"} for name in NAMES})
    out = tmp_path / "labels.csv"
    assert typed("annotate", "export", folder, "--out", out, "--consensus", "unanimous") == 0
    assert out.read_text() == "image,answer,agreeing,answers\nnone-0.png,male,3,3\n"
    assert typed("annotate", "export", folder, "--out", out, "--consensus", "majority") == 2
