"""What is saved of a search: one HTML page that opens anywhere, and a table."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable
from contextlib import suppress

from equipoise._clock import now
from equipoise._explore.answers import BalancedRow, RankedImage, SearchRow, Trouble
from equipoise._explore.explorer import Explorer
from equipoise._explore.question import SearchQuestion
from equipoise._explore.words import percent, say, strings
from equipoise._version import __version__
from equipoise.errors import InputError

# A cell that begins so may be run by a spreadsheet.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = ("row", "place", "image", "group", "score", "moved")


def page(explorer: Explorer, question: SearchQuestion) -> str:
    """Return a self-contained page: pictures inside, no script, nothing fetched."""
    from jinja2 import Environment, PackageLoader

    before, after = explorer.searcher.before(question), explorer.searcher.after(question)
    environment = Environment(
        loader=PackageLoader("equipoise._explore"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    controls = question.controls
    about = explorer.about()
    by = next(one.by for one in about.attributes if one.name == controls.attribute)
    return environment.get_template("saved.html").render(
        words=strings(),
        say=say,
        percent=percent,
        text=question.text,
        controls=controls,
        about=about,
        by=by,
        before=before,
        after=after,
        pictures=_pictures(explorer, _images(before, after)),
        made=now(),
        version=__version__,
    )


def table(explorer: Explorer, question: SearchQuestion) -> str:
    """Return both rows as CSV: row, place, image, group, score, moved."""
    before, after = explorer.searcher.before(question), explorer.searcher.after(question)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    moved_in = moved_out = []
    if isinstance(after, BalancedRow):
        moved_in, moved_out = after.moved_in, after.moved_out
    for row, found, moved, word in (
        ("before", before, moved_out, "out"),
        ("after", after, moved_in, "in"),
    ):
        for place, image in enumerate(_images(found), 1):
            move = word if image.id in moved else ""
            name = _plain(image.name)
            group = _plain(image.group or "")
            writer.writerow([row, place, name, group, f"{image.score:.6f}", move])
    return file.getvalue()


def _images(*rows: SearchRow | Trouble) -> list[RankedImage]:
    """Return the images of the rows that could be had."""
    found = []
    for row in rows:
        if isinstance(row, SearchRow):
            found += row.images
    return found


def _plain(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _pictures(explorer: Explorer, images: Iterable[RankedImage]) -> dict[int, str]:
    """Return the small pictures of images as data addresses."""
    found = {}
    for image in images:
        if image.id in found:
            continue
        with suppress(InputError, OSError):
            data = explorer.thumbnails.small(explorer.collection.picture(image.id))
            found[image.id] = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    return found
