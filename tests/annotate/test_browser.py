"""The annotation page in a real browser: three people at once, keys, undo, two tabs, vanished pictures, a server that is killed."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager

import pytest
from PIL import Image, ImageDraw

from equipoise._annotate import Project, labels
from equipoise._bench.annotate import started
from tests.helpers.annotating import NAMES, make_folder, opened, served
from tests.helpers.common import ROOT, component

ALLOWED = re.compile(
    r"Failed to load resource|net::ERR_CONNECTION_REFUSED"
)  # what a browser says of a server that is down


@pytest.fixture
def expect():
    component("starlette")
    component("uvicorn")
    expect = component("playwright.sync_api").expect
    expect.set_options(timeout=30_000)
    return expect


@contextmanager
def person(browser, link, **options):
    """Someone with a browser of their own, at their link; what the page complains of is an error."""
    context = browser.new_context(viewport={"width": 1000, "height": 760}, **options)
    tab = context.new_page()
    complaints = []
    tab.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(link)
    try:
        yield tab
    finally:
        context.close()
    assert [text for text in complaints if not ALLOWED.search(text)] == []


def link(client):
    return f"{client.address}#token={client.token}"


def ready(tab):
    """Once the picture is seen and can be answered."""
    tab.wait_for_selector('#answers button[aria-disabled="false"]')
    return tab.get_attribute("#picture", "src").removeprefix("/picture/")


def test_three_people_finish_a_project_at_once(browser, expect, tmp_path):
    """In three browsers at the same time, by key, by letter and by mouse, with mistakes that are taken back."""
    folder = make_folder(tmp_path / "run", 6, pixels=64)
    said = {name: {} for name in NAMES}
    with started(folder, NAMES) as (_, started_with):
        links = started_with["links"]
        with (
            person(browser, links["anna"]) as anna,
            person(browser, links["ben"]) as ben,
            person(browser, links["chris"]) as chris,
        ):
            tabs = dict(zip(NAMES, (anna, ben, chris), strict=True))
            for n in range(6):
                for name, tab in tabs.items():
                    expect(tab.locator("#count")).to_have_text(f"{n} of 6")
                    picture = ready(tab)
                    if name == "anna":
                        said[name][picture] = "female" if n == 0 else "male"
                        tab.keyboard.press("2" if n == 0 else "m")
                    elif name == "ben":
                        said[name][picture] = "unsure" if n == 1 else "male"
                        tab.click(f'button[data-answer="{said[name][picture]}"]')
                    else:
                        tab.keyboard.press("f")
                        expect(tab.locator("#status")).to_have_text("Saved: female.")
                        tab.keyboard.press("Backspace" if n % 2 else "z")
                        expect(tab.locator("#count")).to_have_text(f"{n} of 6")
                        assert ready(tab) == picture
                        said[name][picture] = "male"
                        tab.keyboard.press("1")
            for tab in tabs.values():
                expect(tab.locator("#notice-title")).to_have_text("All done")
                expect(tab.locator("#count")).to_have_text("6 of 6")
                assert tab.evaluate("document.getElementById('progress').position") == 1
            chris.click("#undo")  # also after the end
            last = ready(chris)
            chris.keyboard.press("u")
            said["chris"][last] = "unsure"
            expect(chris.locator("#notice-title")).to_have_text("All done")
    with Project.open(folder) as project, project.database.reading() as db:
        rows = db.execute("select annotator, picture, answer from labels").fetchall()
        (lines,) = db.execute("select count(*) from history").fetchone()
    assert len(rows) == 18 and {(name, picture): answer for name, picture, answer in rows} == {
        (name, picture): answer for name, of in said.items() for picture, answer in of.items()
    }
    assert lines == 6 + 6 + 6 * 3 + 2


def test_a_token_leaves_the_address_and_no_script_sees_it(browser, expect, tmp_path):
    with opened(tmp_path / "run") as project, served(project) as clients:
        client = clients["anna"]
        with person(browser, link(client)) as tab:
            ready(tab)
            assert tab.url == client.address and client.token not in tab.content()
            stored = tab.evaluate(
                "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + history.state"
            )
            assert client.token not in stored
            (cookie,) = tab.context.cookies()
            assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["expires"] > 0
            expect(tab.locator("#annotator")).to_have_text(" · anna")
            tab.reload()  # another day
            ready(tab)
            tab.click("#leave")
            expect(tab.locator("#notice-text")).to_contain_text("open your link")
            tab.reload()
            expect(tab.locator("#notice-title")).to_have_text("Who are you?")
            tab.goto(link(client))
            ready(tab)


def test_a_link_that_is_void_says_so(browser, expect, tmp_path):
    with (
        opened(tmp_path / "run") as project,
        served(project) as clients,
        person(browser, clients["anna"].address + "#token=void") as tab,
    ):
        expect(tab.locator("#notice-text")).to_contain_text("not valid")
        assert tab.url == clients["anna"].address
        assert not tab.is_visible("#work") and not tab.is_visible("#tools")


def test_what_a_held_key_or_a_key_for_something_else_does(browser, expect, tmp_path):
    with (
        opened(tmp_path / "run") as project,
        served(project) as clients,
        person(browser, link(clients["anna"])) as tab,
    ):
        ready(tab)
        for _ in range(5):
            tab.keyboard.down("m")  # all but the first are repeats
        tab.keyboard.up("m")
        expect(tab.locator("#count")).to_have_text("1 of 6")
        ready(tab)
        for keys in ("Control+m", "Alt+f", "x", "9", "Enter"):
            tab.keyboard.press(keys)
        tab.uncheck("#keys")
        tab.keyboard.press("m")
        tab.reload()
        ready(tab)
        assert not tab.is_checked("#keys")
        tab.keyboard.press("m")
        expect(tab.locator("#count")).to_have_text("1 of 6")
        tab.check("#keys")
        tab.keyboard.press("m")
        expect(tab.locator("#count")).to_have_text("2 of 6")
        assert len(labels.said(project.database)) == 2


def test_two_tabs_of_one_person(browser, expect, tmp_path):
    with (
        opened(tmp_path / "run") as project,
        served(project) as clients,
        person(browser, link(clients["anna"])) as first,
    ):
        ready(first)
        second = first.context.new_page()
        second.goto(clients["anna"].address)
        picture = ready(second)
        assert ready(first) == picture
        first.keyboard.press("m")
        expect(first.locator("#count")).to_have_text("1 of 6")
        second.keyboard.press("f")
        expect(second.locator("#count")).to_have_text("1 of 6")
        assert ready(first) == ready(second) != picture
        (label,) = labels.said(project.database)
        assert label.answer == "female"  # the later answer


def test_a_picture_that_vanished_is_said_to_be_gone_and_left_out(browser, expect, tmp_path):
    with opened(tmp_path / "run") as project, served(project) as clients:
        clients["anna"].enter()
        turn = clients["anna"].call("/api/turn")
        with project.database.reading() as db:
            (path,) = db.execute(
                "select path from pictures where id = ?", (turn["picture"],)
            ).fetchone()
        (project.folder / path).unlink()
        with person(browser, link(clients["anna"])) as tab:
            expect(tab.locator("#notice-title")).to_have_text("This picture cannot be shown")
            expect(tab.locator("#notice-text")).to_contain_text("not there any more")
            tab.keyboard.press("m")  # there is nothing to answer
            tab.keyboard.press("Enter")  # the button has the focus
            assert ready(tab) == turn["following"]
            expect(tab.locator("#count")).to_have_text("0 of 5")
        assert labels.said(project.database) == []


def test_the_server_is_killed_while_someone_labels(browser, expect, tmp_path):
    """The answer is kept by the page, also over a reload, and arrives once when the server is back."""
    folder = make_folder(tmp_path / "run", 4)
    with started(folder, ["anna"]) as (server, first):
        port = first["address"].rstrip("/").rsplit(":", 1)[1]
        with person(browser, first["links"]["anna"]) as tab:
            ready(tab)
            tab.keyboard.press("m")
            expect(tab.locator("#count")).to_have_text("1 of 4")
            picture = ready(tab)
            server.send_signal(signal.SIGKILL)
            server.wait()
            tab.keyboard.press("f")
            expect(tab.locator("#status")).to_contain_text("Not saved yet")
            tab.keyboard.press("m")  # nothing happens before that is saved
            with started(folder, (), "--port", port):
                expect(tab.locator("#count")).to_have_text("2 of 4")
                expect(tab.locator("#status")).to_have_text("Saved: female.")
                ready(tab)
    with Project.open(folder) as project, project.database.reading() as db:
        rows = db.execute("select picture, answer from history order by entry").fetchall()
    assert len(rows) == 2 and rows[1] == (picture, "female")


def test_an_answer_on_its_way_outlives_a_reload_of_the_page(browser, expect, tmp_path):
    with (
        opened(tmp_path / "run") as project,
        served(project) as clients,
        person(browser, link(clients["anna"])) as tab,
    ):
        ready(tab)
        # no answer comes; a route of playwright's may come too late for the first request
        tab.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('lost')); }")
        tab.keyboard.press("f")
        expect(tab.locator("#status")).to_contain_text("Not saved yet")
        tab.reload()  # with the browser's own fetch again
        expect(tab.locator("#count")).to_have_text("1 of 6")
        assert [label.answer for label in labels.said(project.database)] == ["female"]


def test_axe_finds_nothing_serious(browser, expect, tmp_path):
    axe = component("axe_playwright_python.sync_playwright").Axe()

    def check():
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            found = axe.run(tab).response["violations"]
            assert [
                (one["id"], one["nodes"][0]["html"][:100])
                for one in found
                if one["impact"] in ("serious", "critical")
            ] == []

    folder = make_folder(tmp_path / "run", 1)
    with (
        Project.open(folder) as project,
        served(project) as clients,
        person(browser, link(clients["anna"]), bypass_csp=True) as tab,
    ):
        ready(tab)
        check()
        tab.keyboard.press("m")
        expect(tab.locator("#notice-title")).to_have_text("All done")
        check()


def test_it_fits(browser, expect, tmp_path):
    with (
        opened(tmp_path / "run") as project,
        served(project) as clients,
        person(browser, link(clients["anna"])) as tab,
    ):
        ready(tab)
        for width in (1000, 390, 320):
            tab.set_viewport_size({"width": width, "height": 760})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            box = tab.locator("#answers").bounding_box()
            assert box["y"] + box["height"] <= 760  # picture and answers at one glance


def figure(path):
    """A drawing of nobody, for a page that shows no real person."""
    image = Image.new("RGB", (512, 512), "#b9c7c9")
    draw = ImageDraw.Draw(image)
    draw.ellipse((76, 330, 436, 690), fill="#f4f4f0")
    draw.polygon([(216, 330), (296, 330), (256, 430)], fill="#6a8caf")
    draw.rectangle((226, 270, 286, 350), fill="#c99b7a")
    draw.ellipse((166, 90, 346, 310), fill="#d8ab8a")
    draw.pieslice((156, 70, 356, 270), 180, 360, fill="#3b332e")
    for x in (221, 291):
        draw.ellipse((x - 8, 195, x + 8, 211), fill="#3b332e")
    draw.arc((221, 220, 291, 275), 20, 160, fill="#8a4b3c", width=6)
    image.save(path)


def test_the_picture_of_the_docs(browser, expect, tmp_path):
    """Written to docs/pictures where EQUIPOISE_PICTURES is set."""
    folder = make_folder(tmp_path / "run", 40)
    for path in folder.glob("*.png"):
        figure(path)
    target = (
        ROOT / "docs" / "pictures" if os.environ.get("EQUIPOISE_PICTURES") else tmp_path
    ) / "annotate.png"
    with Project.open(folder) as project, served(project) as clients:
        client = clients["anna"]
        turn = client.enter()
        for n in range(14):
            turn = client.call(
                "/api/label",
                {"picture": turn["picture"], "answer": "male", "request": f"request-{n}"},
            )
        with person(browser, link(client)) as tab:
            ready(tab)
            tab.keyboard.press("f")
            expect(tab.locator("#count")).to_have_text("15 of 40")
            ready(tab)
            tab.screenshot(path=target)
    Image.open(target).convert("RGB").quantize(128).save(target, optimize=True)
    assert 5_000 < target.stat().st_size < 100_000
