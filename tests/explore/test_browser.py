"""The page in a real browser, with real pictures: type, compare, turn the strength, share the link, save, open offline; no view has a fault of accessibility."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise as eq
from equipoise import explore, methods
from equipoise._verbs.search import balancing_context
from tests.helpers.common import component, embedded_model, shared_data
from tests.helpers.exploring import ExploreClient, write_people

VIEWS = ("search", "texts", "classes")
# reading the clipboard asks a person, whom a headless browser has not
KEEP_COPIES = """() => {
    window.copies = [];
    const write = navigator.clipboard.writeText.bind(navigator.clipboard);
    navigator.clipboard.writeText = (text) => { window.copies.push(text); return write(text); };
}"""
DOCTOR, NURSE = "a photo of a doctor", "a photo of a nurse"


@pytest.fixture(scope="module")
def expect():
    component("starlette")
    component("uvicorn")
    embedded_model()
    expect = component("playwright.sync_api").expect
    expect.set_options(timeout=30_000)
    return expect


@pytest.fixture(scope="module")
def photos(expect, tmp_path_factory):
    """A folder of pictures, some of hostile names."""
    place = tmp_path_factory.mktemp("browser") / "photos"
    write_people(place, 300)
    return place


@pytest.fixture(scope="module")
def served(photos):
    with explore(photos, attribute=["gender", "race"]) as page:
        yield page


@contextmanager
def opened(browser, url, **options):
    """A browser of its own at an address; what the page complains of, or asks elsewhere for, is an error."""
    options = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True} | options
    context = browser.new_context(**options)
    tab = context.new_page()
    complaints, asked = [], []
    tab.on(
        "console",
        lambda told: complaints.append(told.text) if told.type in ("error", "warning") else None,
    )
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(f"a script ran: {dialog.message}"))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(url)
    try:
        yield tab
    finally:
        context.close()
    ours = urlsplit(url).netloc
    assert complaints == []
    assert [
        one for one in asked if urlsplit(one).netloc != ours and one[:5] not in ("blob:", "data:")
    ] == []


def ids(tab, row):
    return [int(tile.get_attribute("data-id")) for tile in tab.locator(f"#{row} .tile").all()]


def settle(tab):
    """Wait until what was asked last is shown."""
    tab.wait_for_selector('#results[data-shown="yes"]', state="attached")


def until(tab, expression):
    """Wait until an expression is true; the page forbids what playwright would wait with."""
    while not tab.evaluate(expression):
        tab.wait_for_timeout(20)


def shown(tab, text):
    """Type a text, and wait until both rows are its."""
    tab.fill("#text", text)
    settle(tab)


def test_type_compare_and_turn_the_strength(browser, served, expect):
    client = ExploreClient(served.url)
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        assert "key" not in tab.url  # it leaves the address at once
        tab.fill("#text", "")
        tab.locator("#text").press_sequentially(NURSE, delay=15)
        settle(tab)
        expect(tab.locator("#price")).to_contain_text("of the total score is kept")
        before, after = client.parts("/api/search", {"text": NURSE})
        assert ids(tab, "before") == [image["id"] for image in before["images"]]
        assert ids(tab, "after") == [image["id"] for image in after["images"]]
        assert tab.locator("#before [data-move=out]").count() == len(after["moved_out"]) > 0
        assert tab.locator("#after [data-move=in]").count() == len(after["moved_in"])
        expect(tab.locator("#shares tbody tr")).to_have_count(2)
        male = f"{round(100 * after['shares']['male'])} %"
        expect(tab.locator("#shares tbody tr").first).to_contain_text(male)
        expect(tab.locator("#by")).to_contain_text("as the model perceives")
        tab.locator("#strength").focus()
        for _ in range(20):
            tab.keyboard.press("ArrowLeft")  # down to nothing
        expect(tab.locator("#strength-of")).to_have_text("0 %")
        expect(tab.locator("#change")).to_have_text("The same images stay on the page.")
        assert ids(tab, "after") == ids(tab, "before")
        tab.keyboard.press("End")
        expect(tab.locator("#after [data-move=in]")).to_have_count(len(after["moved_in"]))


def test_the_balanced_row_is_that_of_eq_search(browser, served, photos, expect):
    """Image by image, for the controls as a person turns them."""
    text = f"{DOCTOR} in a hospital"
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        tab.select_option("#target", "equal")
        tab.fill("#places", "12")
        shown(tab, text)
        expect(tab.locator("#after .tile")).to_have_count(12)
        encoder = embedded_model()
        paths = sorted(path for path in photos.rglob("*.jpg"))
        index = encoder.encode_images(paths)
        context = balancing_context(eq.Attribute.load("gender"), index, encoder)
        operator = methods.create("balanced", k=12, target="equal", prototype="anchor").fit(context)
        found = eq.search(index, [text], 12, encoder=encoder, balance=operator)
        assert ids(tab, "after") == found.indices[0].tolist()
        labels = [tile.get_attribute("aria-label") for tile in tab.locator("#after .tile").all()]
        for place, image in enumerate(found.indices[0].tolist(), 1):
            assert labels[place - 1].startswith(f"Place {place}: {paths[image].name}, ")


def test_a_link_shows_the_same_and_needs_the_key_once(browser, served, expect):
    asked = "q=a+chef+in+a+kitchen&a=race&t=equal&s=0.5&k=15"
    with opened(browser, f"{served.url}&{asked}") as tab:
        tab.wait_for_selector("#after .tile")
        settle(tab)
        assert tab.url.endswith(f"#{asked}")
        first = ids(tab, "before"), ids(tab, "after")
        link = tab.url
        other = tab.context.new_page()  # of the same browser
        other.goto(link)
        other.wait_for_selector("#after .tile")
        settle(other)
        assert (ids(other, "before"), ids(other, "after")) == first
        for id, value in (
            ("text", "a chef in a kitchen"),
            ("attribute", "race"),
            ("target", "equal"),
        ):
            expect(other.locator(f"#{id}")).to_have_value(value)
        other.reload()
        other.wait_for_selector("#after .tile")
        assert other.url == link
        tab.evaluate("location.hash = 'q=a+smiling+engineer'")  # as going back does
        expect(tab.locator("#text")).to_have_value("a smiling engineer")
        expect(tab.locator("#attribute")).to_have_value("gender")
    elsewhere = browser.new_page()
    elsewhere.goto(link)  # somebody who was not let in
    expect(elsewhere.locator("#notice-title")).to_have_text("This page needs its key")
    assert elsewhere.locator(".tile").count() == 0
    elsewhere.close()


def test_the_link_is_copied(browser, served, expect):
    with opened(browser, served.url, permissions=["clipboard-write"]) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, NURSE)
        tab.evaluate(KEEP_COPIES)
        tab.click("#copy")
        expect(tab.locator("#status")).to_contain_text("copied")
        assert tab.evaluate("window.copies") == [tab.url]


def test_a_saved_page_opens_anywhere_offline(browser, served, expect, tmp_path):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, NURSE)
        with tab.expect_download() as page:
            tab.click("#save-page")
        assert page.value.suggested_filename == "a-photo-of-a-nurse.html"
        page.value.save_as(tmp_path / "saved.html")
        with tab.expect_download() as table:
            tab.click("#save-table")
        table.value.save_as(tmp_path / "saved.csv")
        change = tab.inner_text("#change")
        rows = ids(tab, "before") + ids(tab, "after")
    html = (tmp_path / "saved.html").read_text()
    assert "<script" not in html and "http" not in re.sub('content="[^"]*"', "", html).replace(
        "http-equiv", ""
    )
    assert len((tmp_path / "saved.csv").read_text().splitlines()) == 1 + len(rows)
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 844})
    saved = context.new_page()
    asked = []
    saved.on("request", lambda request: asked.append(request.url[:5]))
    saved.goto((tmp_path / "saved.html").as_uri())
    expect(saved.locator("h1")).to_have_text(f"“{NURSE}”, before and after")
    assert saved.locator("figure img").count() == len(rows)
    assert saved.evaluate(
        "[...document.images].every((image) => image.complete && image.naturalWidth > 0)"
    )
    assert change in saved.inner_text("main")
    assert set(asked) <= {"file:", "data:"}
    assert saved.evaluate("document.documentElement.scrollWidth") <= 390
    assert axe(saved) == []
    context.close()


def test_explicit_texts_are_shown_as_left_alone(browser, served, expect):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, "a female doctor")
        expect(tab.locator("#alone")).to_contain_text("it names female")
        assert ids(tab, "before") == ids(tab, "after")
        shown(tab, DOCTOR)
        expect(tab.locator("#alone")).to_be_hidden()


def test_rows_share_hover_scroll_and_keys(browser, served, expect):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, NURSE)
        both = next(one for one in ids(tab, "before") if one in ids(tab, "after"))
        tab.hover(f'#before [data-id="{both}"]')
        expect(tab.locator(f'#after [data-id="{both}"]')).to_have_class(re.compile("twin"))
        tab.evaluate("document.getElementById('before').scrollLeft = 400")
        until(tab, "document.getElementById('after').scrollLeft === 400")
        tab.locator("#before .tile").first.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            tab.keyboard.press(key)
        third = ids(tab, "after")[2]
        assert tab.evaluate("document.activeElement.dataset.id") == str(third)
        tab.keyboard.press("Enter")
        expect(tab.locator("#large")).to_be_visible()
        until(tab, "document.getElementById('large-picture').style.width !== ''")
        width, own = tab.evaluate(
            "(() => { const p = document.getElementById('large-picture');"
            " return [p.clientWidth, p.naturalWidth]; })()"
        )
        assert own <= width <= 2 * own  # softly enlarged, at most twice
        tab.keyboard.press("Escape")
        expect(tab.locator("#large")).to_be_hidden()
        assert tab.locator(".strip .tile[tabindex='0']").count() == 2  # one stop of Tab per row


def test_shares_of_ones_own(browser, served, expect):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        tab.select_option("#target", "own")
        tab.fill("#share-0", "80")
        expect(tab.locator("#sum")).to_contain_text("130 %")
        tab.fill("#share-1", "20")
        expect(tab.locator("#sum")).to_have_text("")
        settle(tab)
        assert parse_qs(urlsplit(tab.url).fragment)["t"] == ["80,20"]
        shares = {"male": 0.8, "female": 0.2}
        after = ExploreClient(served.url).parts("/api/search", {"text": DOCTOR, "target": shares})[
            1
        ]
        expect(tab.locator("#change")).to_have_text(after["said"]["change"])
        assert ids(tab, "after") == [image["id"] for image in after["images"]]


def test_prompts_are_collected_for_an_audit(browser, served, expect, tmp_path):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        for text in (DOCTOR, NURSE, NURSE):
            tab.fill("#text", text)
            tab.click("#add")
        expect(tab.locator("#download-prompts")).to_have_text("Download prompts (2)")
        with tab.expect_download() as file:
            tab.click("#download-prompts")
        file.value.save_as(tmp_path / "prompts.txt")
    assert (tmp_path / "prompts.txt").read_text() == f"{DOCTOR}\n{NURSE}\n"


def test_texts_and_classes(browser, served, expect):
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        tab.click("button[data-view=texts]")
        tab.fill("#texts", f"{DOCTOR}\na photo of a woman")
        expect(tab.locator(".track")).to_have_count(2)
        expect(tab.locator(".track").nth(1)).to_contain_text("left alone, because it names female")
        label = tab.locator(".track svg").first.get_attribute("aria-label")
        assert re.match(r"a photo of a doctor: -?\d+ % of the way to male, after -?\d+ %", label)
        tab.select_option("#attribute", "race")
        until(tab, "document.querySelectorAll('.track .axis').length === 14")  # 7 groups, 2 texts
        tab.select_option("#attribute", "gender")
        tab.click("button[data-view=classes]")
        tab.fill("#classes", "doctor, nurse, engineer")
        expect(tab.locator("#class-table tbody tr")).to_have_count(3)
        expect(tab.locator("#class-method")).to_contain_text("closed-form")
        tab.fill("#classes", "doctor")
        expect(tab.locator("#class-table")).to_have_text("Type two classes or more.")
        assert parse_qs(urlsplit(tab.url).fragment)["v"] == ["classes"]


def axe(tab):
    engine = component("axe_playwright_python.sync_playwright").Axe()
    return engine.run(tab).response["violations"]


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("dark", 1280, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_and_nothing_sticks_out(browser, served, expect, scheme, width):
    size = {"width": width, "height": 844}
    with opened(browser, served.url, viewport=size, color_scheme=scheme) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, NURSE)
        for view in VIEWS:
            tab.click(f"button[data-view={view}]")
            tab.wait_for_selector(
                {"search": "#after .tile", "texts": ".track", "classes": "#class-table table"}[view]
            )
            settle(tab)
            tab.wait_for_timeout(300)  # colours that fade are judged as they end
            assert [found["id"] for found in axe(tab)] == []
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            if shots := os.environ.get("EQUIPOISE_SCREENSHOTS"):
                tab.screenshot(path=f"{shots}/explore-{view}-{width}-{scheme}.png", full_page=True)


def test_names_of_files_and_texts_run_nothing(browser, served, photos, expect):
    """The folder holds files that are called <img src=x onerror=...>; a script would open a dialog."""
    hostile = "<img src=x onerror=alert(1)> {{7*7}} doctor"
    with opened(browser, f"{served.url}&{urlencode({'k': 100, 'q': hostile})}") as tab:
        tab.wait_for_selector("#after .tile")
        settle(tab)
        assert tab.locator("main img[src=x]").count() == 0
        names = sorted(path.name for path in photos.iterdir())  # as a store has them
        trapped = [i for i, name in enumerate(names) if name.startswith("<img")]
        assert any(tab.locator(f'[data-id="{i}"]').count() for i in trapped)
        with tab.expect_download() as page:
            tab.click("#save-page")
        html = page.value.path().read_text()
        assert "<img src=x" not in html and "&lt;img src=x" in html and "49" not in tab.title()


ADDRESS = st.dictionaries(
    st.sampled_from(("v", "q", "a", "m", "t", "s", "k", "x", "c", "zz")),
    st.text(st.characters(codec="utf-8"), max_size=30) | st.integers(-5, 500).map(str),
    max_size=6,
)


@pytest.mark.slow
def test_a_fuzz_of_the_address(browser, served, expect):
    """Any address leads to a page that works, and is answered without an error of ours."""
    with opened(browser, served.url) as tab:
        tab.wait_for_selector("#after .tile")
        answers = []
        tab.on("response", lambda answer: answers.append(answer.status))

        @given(found=ADDRESS)
        @settings(max_examples=40, database=None)
        def visit(found):
            tab.evaluate("(hash) => { location.hash = hash; }", urlencode(found))
            tab.wait_for_timeout(60)
            assert tab.locator("#work").is_visible() and not tab.locator("#notice").is_visible()

        visit()
        tab.evaluate("location.hash = ''")
        expect(tab.locator("#text")).to_have_value(DOCTOR)
        tab.wait_for_selector("#after .tile")
        assert answers and max(answers) < 500


def test_a_server_that_went_away_is_said(browser, expect, photos):
    page = explore(photos, attribute="gender")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(page.url)
    tab.wait_for_selector("#after .tile")
    page.close()
    tab.fill("#text", "a cook")
    expect(tab.locator("#notice-title")).to_have_text("The page is not served any more")
    context.close()


def test_it_works_inside_a_notebooks_page(browser, served, expect):
    """A page of another port of this machine frames it, as a notebook does."""
    import functools
    import http.server
    import tempfile
    import threading

    with tempfile.TemporaryDirectory() as place:
        with open(f"{place}/index.html", "w") as file:
            file.write(f"<!doctype html><title>notebook</title>{served._repr_html_()}")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=place)
        handler.log_message = lambda *_: None
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as notebook:
            threading.Thread(target=notebook.serve_forever, daemon=True).start()
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(f"http://localhost:{notebook.server_port}/")
            frame = tab.frame_locator("iframe")
            expect(frame.locator("#after .tile").first).to_be_visible()
            frame.locator("#text").fill(NURSE)
            expect(frame.locator("#price")).to_contain_text("of the total score is kept")
            assert (
                frame.locator("#after img").first.evaluate(
                    "(image) => image.decode().then(() => image.naturalWidth)"
                )
                > 0
            )
            context.close()
            notebook.shutdown()


@pytest.mark.slow
def test_real_photographs(browser, expect):
    """Photographs of people with labels, from a parquet file."""
    table = shared_data("people/fairface_val.parquet")
    page = explore(table, attribute="gender", group_columns=["gender"])
    with page, opened(browser, page.url) as tab:
        tab.wait_for_selector("#after .tile")
        shown(tab, "a smiling person with glasses")
        expect(tab.locator("#by")).to_contain_text("your labels")
        expect(tab.locator("#seen")).to_contain_text("As the model perceives it")
        until(
            tab,
            "[...document.querySelectorAll('#after img')].slice(0, 5).every((image) => image.complete && image.naturalWidth > 0)",
        )
        assert axe(tab) == []
