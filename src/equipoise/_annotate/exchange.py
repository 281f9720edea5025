"""Labels in and out: CSV, and the JSON of Label Studio."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from equipoise._annotate import people
from equipoise._annotate.catalogue import Picture
from equipoise._annotate.database import now, stamp
from equipoise._annotate.labels import Label
from equipoise._annotate.question import Question
from equipoise._artefact import NOT_WHOLE, parse_json
from equipoise.errors import InputError

CONSENSUS = ("unanimous", "majority")
CONTROL = "answer"  # the name of the choices in Label Studio's configuration


def to_csv(labels: Iterable[Label]) -> str:
    """Return labels as CSV with the columns image, annotator, answer, at.

    ``equipoise generate`` reads it.
    """
    return _csv_text(Label._fields, labels)


def _csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()


class Agreed(NamedTuple):
    """The answer that annotators came to for one image; answers: how many gave one."""

    image: str
    answer: str
    agreeing: int
    answers: int


def consensus(labels: Iterable[Label], rule: str, unsure: str) -> tuple[list[Agreed], int]:
    """Return one answer per image, and how many images have none by this rule.

    rule: "unanimous", where all gave the same answer, or "majority", where more than half did. Who
    is unsure counts among the answers, and for none.
    """
    if rule not in CONSENSUS:
        raise InputError(f"consensus={rule!r} is not legal; pass {' or '.join(CONSENSUS)}")
    given: dict[str, list[str]] = defaultdict(list)
    for label in labels:
        given[label.image].append(label.answer)
    found, split = [], 0
    for image, answers in given.items():
        answer, agreeing = Counter(answers).most_common(1)[0]
        enough = agreeing == len(answers) if rule == "unanimous" else agreeing > len(answers) / 2
        if enough and answer != unsure:
            found.append(Agreed(image, answer, agreeing, len(answers)))
        else:
            split += 1
    return found, split


def consensus_csv(agreed: Iterable[Agreed]) -> str:
    """Return CSV with one row per image: image, answer, agreeing, answers."""
    return _csv_text(Agreed._fields, agreed)


def to_label_studio(labels: Iterable[Label], pictures: Sequence[Picture]) -> str:
    """Return a task per picture, answered or not.

    Paths are as Label Studio's local storage has them.
    """
    given = defaultdict(list)
    for label in labels:
        given[label.image].append(_annotation(label))
    tasks = [
        {"id": i, "data": _data(picture), "annotations": given[picture.image]}
        for i, picture in enumerate(pictures, 1)
    ]
    return json.dumps(tasks, indent=1, ensure_ascii=False)


def configuration(question: Question) -> str:
    """Return the labelling configuration of a Label Studio project that asks the same."""
    from xml.sax.saxutils import quoteattr

    choices = "\n".join(f"    <Choice value={quoteattr(answer)}/>" for answer in question.legal)
    lines = [
        "<View>",
        f"  <Header value={quoteattr(question.text)}/>",
        '  <Image name="image" value="$image"/>',
        f'  <Choices name="{CONTROL}" toName="image" choice="single">',
        choices,
        "  </Choices>",
        "</View>",
        "",
    ]
    return "\n".join(lines)


def read(path: Path, question: Question, pictures: Sequence[Picture]) -> list[Label]:
    """Return the labels of a .csv file, or of a .json file that Label Studio exported."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error})") from None
    if path.suffix not in (".csv", ".json"):
        raise InputError(f"{path} is of an unknown kind; pass .csv, or the .json of Label Studio")
    if path.suffix == ".csv":
        found = list(_csv(path, text))
    else:
        images = {picture.image for picture in pictures}
        found = list(_label_studio(path, text, images))
    said: dict[tuple[str, str], str] = {}
    for label in found:
        question.require(label.answer)
        people.require_name(label.annotator)
        if said.setdefault((label.image, label.annotator), label.answer) != label.answer:
            raise InputError(
                f"{path} holds two answers of {label.annotator} to {label.image}; leave one of them"
            )
    return found


def _csv(path: Path, text: str) -> Iterator[Label]:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        columns = rows.fieldnames or ()
        missing = [name for name in ("image", "annotator", "answer") if name not in columns]
        if missing:
            raise InputError(
                f"{path} has no column {', '.join(missing)}; labels are the columns image,"
                " annotator, answer and, if known, at"
            )
        for row in rows:
            yield Label(
                row["image"] or "",
                (row["annotator"] or "").strip(),
                row["answer"] or "",
                _time(row.get("at")),
            )
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as csv: {error}") from None


def _data(picture: Picture) -> dict[str, str]:
    address = f"/data/local-files/?d={quote(picture.image)}"
    return {
        "image": address,
        "path": picture.image,
        "prompt": picture.prompt,
        "method": picture.method,
    }


def _annotation(label: Label) -> dict[str, Any]:
    choice = {
        "from_name": CONTROL,
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [label.answer]},
    }
    # Label Studio refuses other names
    by = {"completed_by": {"email": label.annotator}} if "@" in label.annotator else {}
    return {
        "result": [choice | {"meta": {"annotator": label.annotator}}],
        "created_at": label.at,
        **by,
    }


def _label_studio(path: Path, text: str, images: Set[str]) -> Iterator[Label]:
    try:
        tasks = parse_json(text, infinite=True)
        for task in tasks:
            image = _image(task["data"], images)
            for annotation in task["annotations"]:
                choices = [item for item in annotation["result"] if item["type"] == "choices"]
                if choices and not annotation.get("was_cancelled"):
                    (answer,) = choices[0]["value"]["choices"]
                    yield Label(
                        image,
                        _who(annotation, choices[0]),
                        str(answer),
                        _time(annotation.get("created_at")),
                    )
    except InputError:
        raise
    except NOT_WHOLE as error:
        raise InputError(
            f"{path} is not what Label Studio exports as JSON, tasks with annotations that make one"
            f" choice each ({error!r})"
        ) from None


def _who(annotation: dict[str, Any], choice: dict[str, Any]) -> str:
    by = annotation.get("completed_by")
    name = (choice.get("meta") or {}).get("annotator") or (
        by.get("email") or by.get("id") if isinstance(by, dict) else by
    )
    return name if isinstance(name, str) else f"user {name}"


def _image(data: dict[str, Any], images: Set[str]) -> str:
    """Return the picture that a task is about: by its path, or by the end of its address.

    Label Studio puts other things before the path.
    """
    if data.get("path") in images:
        return data["path"]
    address = urlsplit(str(data["image"]))
    name = parse_qs(address.query).get("d", [unquote(address.path)])[0].lstrip("/")
    last = PurePosixPath(name).name
    ways = (
        lambda image: image == name,
        lambda image: name.endswith(f"/{image}"),
        lambda image: last.endswith(f"-{PurePosixPath(image).name}"),  # as uploads are named
    )
    for fits in ways:
        if len(found := [image for image in images if fits(image)]) == 1:
            return found[0]
    raise InputError(
        f"{data['image']!r} is no picture of this project, or could be several; give each task the"
        " field path of the export"
    )


def _time(given: Any) -> str:
    if not given:
        return now()
    try:
        at = datetime.fromisoformat(str(given))
        return stamp((at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        raise InputError(f"{given!r} is not a time; pass ISO 8601, such as {now()}") from None
