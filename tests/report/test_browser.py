"""The report in a real browser: the dial is Python's, pictures follow it, tables sort, words are explained, it copies, downloads, prints and fits a phone."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

import equipoise as eq
from equipoise import evaluation as tasks
from equipoise import metrics
from equipoise._audit import AuditSettings, association, documents
from equipoise._audit import run as run_audit
from equipoise._audit.plan import make_plan
from equipoise._audit.sources import ImageSource
from equipoise._verbs.audit import run_plan
from equipoise.methods._specs import parse
from equipoise.prompts._text_vectors import TextVectors
from equipoise.report import _glossary as glossary
from equipoise.report import comparison, page, sweep_page
from tests.helpers.common import ROOT, shared_data
from tests.helpers.pages import violations
from tests.helpers.people import evaluation

GENDER = eq.Attribute.load("gender")
PROMPTS = [
    f"a photo of a {job}"
    for job in ("doctor", "nurse", "pilot", "cook", "judge", "clerk", "singer", "coach")
]
# CSS pixels between margins of 15 mm, and the size of a sheet in points
PAPER = {"A4": (680, (595.28, 841.89)), "Letter": (702, (612, 792))}


def png(picture):
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


class World:
    """Images and texts of 24 dimensions in which one axis is gender and prompts lean along it, with a picture for each image."""

    def __init__(self):
        rng = np.random.default_rng(0)
        axis = np.eye(24)[0]
        self.male = rng.random(300) < 0.5
        self.images = (
            rng.standard_normal((300, 24)) + np.where(self.male, 0.8, -0.8)[:, None] * axis
        )
        self.texts = {
            prompt: rng.standard_normal(24) + lean * axis
            for prompt, lean in zip(PROMPTS, np.linspace(-2, 2, 8), strict=True)
        }
        words = {
            "male": ["a male person", "a man", "a guy"],
            "female": ["a female person", "a woman", "a lady"],
        }
        self.book = eq.PromptBook.of(
            {
                f"person {i}": {g: [f"{w} {i}" for w in ws] for g, ws in words.items()}
                for i in range(5)
            }
        )
        for _, group, entry in self.book.entries():
            for text in entry.texts:
                self.texts[text] = (
                    rng.standard_normal(24) * 0.5 + (3 if group == "male" else -3) * axis
                )
        noise = rng.integers(0, 255, (300, 8, 8, 3), dtype=np.uint8)
        self.pictures = [png(Image.fromarray(one).resize((32, 32))) for one in noise]

    @property
    def vectors(self):
        return TextVectors(
            list(self.texts), np.stack(list(self.texts.values())), id="the tests' world"
        )

    def plan(self, **options):
        table = pd.DataFrame(
            {
                "path": [f"{i}.png" for i in range(300)],
                "gender": np.where(self.male, "male", "female"),
            }
        )
        source = ImageSource(
            "the tests' world", table, self.pictures, self.images.astype(np.float32)
        )
        settings = AuditSettings(resamples=50, permutations=10)
        columns = (
            {"group_columns": ["gender"], "source": source}
            if options.pop("with_images", True)
            else {}
        )
        return make_plan(
            self.vectors,
            GENDER,
            prompts=PROMPTS,
            book=self.book,
            settings=settings,
            **columns,
            **options,
        )


class Measured(NamedTuple):
    """An audit, with its results as the page reads them."""

    results: dict
    pictures: documents.Pictures


def run(plan):
    found = run_audit(plan)
    return Measured(found.document.to_plain(), found.pictures)


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def audit(world):
    return run(world.plan(specs=parse(["closed-form", "adapted"])))


def show(browser, html, folder, width=1100, **options):
    """Return a tab with a page from the disk, and what it complains of: errors, warnings, requests."""
    (folder / "report.html").write_text(html)
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    tab = context.new_page()
    complaints: list[str] = []

    def complain(message):
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def asked(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(request.url)

    tab.on("console", complain)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", asked)
    tab.goto((folder / "report.html").as_uri())
    return tab, complaints


@pytest.fixture(scope="module")
def html(audit):
    return page(audit.results, audit.pictures)


@pytest.fixture
def opened(browser, html, tmp_path):
    """A page, and what it complains of."""
    tab, complaints = show(browser, html, tmp_path, reduced_motion="reduce")
    tab.select_option("#turning", "1")
    yield tab, complaints
    tab.context.close()


def turn(tab, step):
    """Move the slider as a user's keys would."""
    tab.eval_on_selector(
        "#kappa",
        "(slider, step) => { slider.value = step; slider.dispatchEvent(new Event('input')); }",
        str(step),
    )


def shown(tab, name):
    return tab.inner_text(f'[data-dial="{name}"]')


def test_it_opens_from_disk_without_a_complaint(opened):
    tab, complaints = opened
    for scheme in ("dark", "light"):
        tab.emulate_media(color_scheme=scheme)
    turn(tab, 0)
    turn(tab, 82)
    tab.select_option("#turning", "2")
    tab.select_option("#method-of-prompts", "2")
    tab.select_option("#entry", "1")
    assert complaints == []


@pytest.mark.parametrize(("step", "kappa"), [(0, 0.0), (21, 0.1), (41, 1.0), (82, np.inf)])
@pytest.mark.parametrize("method", [1, 2])
def test_the_dial_shows_what_python_computes(opened, world, audit, step, kappa, method):
    """Python's side is independent of the audit: debias, score, rank, measure."""
    tab, _ = opened
    tab.select_option("#turning", str(method))
    turn(tab, step)
    context = eq.FitContext(GENDER, encoder=world.vectors, book=world.book, images=world.images)
    operator = eq.methods.create(("closed-form", "adapted")[method - 1], kappa=kappa).fit(context)
    texts = np.stack([world.texts[prompt] for prompt in PROMPTS])
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    images = world.images / np.linalg.norm(world.images, axis=1, keepdims=True)
    u_texts, u_images = operator.text(texts, PROMPTS), operator.image(images)
    groups = np.where(world.male, "male", "female")
    assert (
        shown(tab, "max_skew")
        == f"{metrics.max_skew(u_texts @ u_images.T, sensitive_features=groups, m=audit.results['settings']['m']):.3f}"
    )
    prototypes = (
        eq.AttributeSpace.from_prompts(world.vectors, world.book, GENDER).parts[0].prototypes
    )
    assert shown(tab, "lean") == f"{association.leans(u_texts, prototypes).max(1).mean():.4f}"
    certificate = eq.certify(texts, operator.space, u=u_texts)
    assert (
        shown(tab, "leakage_texts") == f"{certificate.leakage.mean():.4f}"
        and shown(tab, "self_loss_texts") == f"{certificate.self_loss.mean():.4f}"
    )
    if method == 1:
        certificate = eq.certify(images, operator.space, u=u_images)
        assert shown(tab, "leakage_images") == f"{certificate.leakage.mean():.4f}"
        assert shown(tab, "self_loss_images") == f"{certificate.self_loss.mean():.4f}"
    else:
        assert shown(tab, "leakage_images") == "as before"


def test_galleries_follow_the_dial_and_the_first_one_stays(opened, audit):
    tab, _ = opened
    after = '.pictures[data-entry="0"][data-method="1"] li'
    lists = {}
    for step in (0, 41, 82):
        turn(tab, step)
        lists[step] = tab.eval_on_selector_all(
            after, "items => items.map(item => Number(item.dataset.image))"
        )
        assert tab.eval_on_selector_all(
            f"{after} img",
            "images => images.every(image => image.complete && image.naturalWidth > 0 && image.alt)",
        )
    gallery = audit.results["gallery"]["prompts"][0]["found"]
    assert (
        lists[0] == gallery[0]
        and lists[41] == gallery[1]
        and lists[82] not in (lists[0], lists[41])
    )
    before = tab.eval_on_selector_all(
        '.pictures[data-entry="0"][data-method="0"] li',
        "items => items.map(item => Number(item.dataset.image))",
    )
    assert before == gallery[0]


def test_the_row_of_the_dials_method_says_its_kappa_and_counts_who_is_shown(opened):
    tab, _ = opened
    row = tab.locator('.entry[data-entry="0"] .row').nth(1)
    names = {}
    for step in (41, 82):
        turn(tab, step)
        names[step] = row.locator(".side").inner_text()
        groups = row.locator("li").evaluate_all("items => items.map(item => item.dataset.group)")
        counts = f"{groups.count('0')} male, {groups.count('1')} female"
        assert row.locator(".held").inner_text() == counts
    assert names == {41: "closed-form", 82: "closed-form, kappa infinity"}


def test_pictures_that_were_not_there_before_are_ringed(opened):
    tab, _ = opened
    turn(tab, 82)
    entry = '.entry[data-entry="0"]'
    images = "items => items.map(item => item.dataset.image)"
    before = tab.eval_on_selector_all(f'{entry} [data-method="0"] li', images)
    after = tab.eval_on_selector_all(f'{entry} [data-method="1"] li', images)
    ringed = tab.eval_on_selector_all(f'{entry} [data-method="1"] li.new', images)
    assert ringed == [image for image in after if image not in before] != []


def test_the_pictures_are_beside_the_dial(opened):
    """Both are seen at once, so that turning is seen."""
    tab, _ = opened
    tab.set_viewport_size({"width": 1400, "height": 900})
    dial = tab.locator("#kappa").bounding_box()
    first = tab.locator(".entry:not(.away) .pictures").first.bounding_box()
    last = tab.locator(".entry:not(.away) .pictures").last.bounding_box()
    assert dial["x"] + dial["width"] < first["x"]
    assert abs(last["y"] + last["height"] - dial["y"]) < 900


@pytest.mark.parametrize("kind", ["exact", "grid"])
def test_the_dial_keeps_its_value_when_the_method_changes(browser, audit, tmp_path, kind):
    pictures = audit.pictures if kind == "exact" else None
    tab, _ = show(browser, page(audit.results, pictures), tmp_path)
    turn(tab, 60 if kind == "exact" else 9)
    kappa = tab.inner_text("#kappa-value")
    assert kappa not in ("1", "0", "infinity")
    readings = []
    for method in ("1", "2", "1"):
        tab.select_option("#turning", method)
        assert tab.inner_text("#kappa-value") == kappa
        readings.append(shown(tab, "lean"))
    assert readings[0] == readings[2] != readings[1]
    tab.context.close()


def test_every_dot_is_where_its_prompt_is(opened, audit):
    """The first chart against the results: a dot per prompt and method, in order of its skew."""
    tab, _ = opened
    rows = tab.locator("#swarm .lane svg")
    assert rows.count() == len(audit.results["methods"])
    for method in range(rows.count()):
        places = (
            rows.nth(method)
            .locator("circle")
            .evaluate_all("dots => dots.map(dot => parseFloat(dot.getAttribute('cx')))")
        )
        skews = [entry["max_skew"][method]["value"] for entry in audit.results["prompts"]]
        assert len(places) == len(skews)
        assert np.corrcoef(places, skews)[0, 1] == pytest.approx(1, abs=1e-4)  # cx has two digits


def test_the_dots_of_the_dial_follow_it(opened):
    tab, _ = opened
    places = {}
    for step in (0, 82):
        turn(tab, step)
        places[step] = tab.eval_on_selector_all(
            "#follows circle", "dots => dots.map(dot => dot.getAttribute('cx'))"
        )
    assert len(places[0]) == len(PROMPTS) and places[0] != places[82]


# --- Tables -----------------------------------------------------------------------------


def column(tab, header):
    """Return the numbers of a column of the table of prompts, as they stand now."""
    return tab.evaluate(
        """(text) => {
        const table = document.getElementById('table-of-prompts');
        const cells = [...table.tHead.rows[0].cells];
        const place = cells.findIndex((cell) => !cell.hidden && cell.textContent.includes(text));
        return [...table.tBodies[0].rows].map((row) => Number(row.cells[place].dataset.sort));
        }""",
        header,
    )


def test_tables_sort_by_mouse_and_keyboard_and_say_so(opened, audit):
    tab, _ = opened
    values = [entry["max_skew"][0]["value"] for entry in audit.results["prompts"]]
    assert column(tab, "Skew before") == sorted(values, reverse=True)  # as it opens
    button = tab.locator("#table-of-prompts thead button", has_text="Skew before")
    header = tab.locator("#table-of-prompts thead th", has_text="Skew before")
    button.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(tab, "Skew before") == sorted(values)
    button.focus()
    tab.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(tab, "Skew before") == sorted(values, reverse=True)
    tab.locator("#table-of-prompts thead button", has_text="Prompt").click()
    names = tab.locator("#table-of-prompts tbody th > .n").all_inner_texts()
    assert names == sorted(names) and len(names) == len(PROMPTS)
    assert tab.locator("#table-of-prompts [aria-sort]").count() == 1


def test_the_table_of_prompts_has_before_and_the_chosen_method_side_by_side(opened, audit):
    tab, _ = opened
    for method in (1, 2):
        tab.select_option("#method-of-prompts", str(method))
        label = audit.results["methods"][method]["label"]
        headers = [
            text.strip()
            for text in tab.locator("#table-of-prompts thead th:visible").all_inner_texts()
        ]
        assert len([text for text in headers if label in text]) == 3  # skew, first results, lean
        row = audit.results["verdict"]["worst"][0]
        expected = audit.results["prompts"][row]["max_skew"][method]["value"]
        assert column(tab, f"with {label}")[0] == pytest.approx(expected)


def test_a_long_table_shows_its_first_rows_and_all_when_asked(browser, audit, tmp_path):
    entries = [
        entry | {"prompt": f"{entry['prompt']}, {copy}"}
        for copy in range(3)
        for entry in audit.results["prompts"]
    ]
    tab, _ = show(browser, page(audit.results | {"prompts": entries, "gallery": None}), tmp_path)
    rows = tab.locator("#table-of-prompts tbody tr:visible")
    assert rows.count() == 12
    tab.get_by_role("button", name="Show all 24 prompts").click()
    assert rows.count() == 24
    tab.get_by_role("button", name="Show the first 12").click()
    tab.emulate_media(media="print")
    assert rows.count() == 24  # paper has them all
    tab.context.close()


# --- Words, copies, downloads -----------------------------------------------------------


def test_words_are_explained_on_focus_and_on_hover_and_escape_closes_it(opened):
    tab, _ = opened
    tip = tab.locator("#tip")
    term = tab.locator(".tiles .term", has_text="probe")
    term.focus()
    assert tip.is_visible() and tip.inner_text() == glossary.TERMS["probe"]
    tab.keyboard.press("Escape")
    assert not tip.is_visible()
    term.hover()
    assert tip.is_visible()
    assert tab.locator(term.get_attribute("href")).inner_text() == glossary.TERMS["probe"]
    assert term.get_attribute("aria-describedby") == glossary.place("probe")


def test_the_box_of_an_explanation_stays_on_the_screen(opened):
    tab, _ = opened
    tab.set_viewport_size({"width": 390, "height": 844})
    for term in tab.locator(".term:visible").all():
        term.focus()
        box = tab.locator("#tip").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


NEXT = {
    "method": 1,
    "file": "audit/closed-form.safetensors",
    "python": ["import equipoise as eq", "op = eq.methods.load('a \"b\" <c>')", "op.text(rows)"],
    "shell": ["equipoise apply store/ --out <there> && echo 'done'"],
    "back": "Delete it.",
}


@pytest.mark.parametrize("allowed", [True, False])
def test_what_to_do_next_is_copied_to_the_letter(browser, audit, tmp_path, allowed):
    """Also where a page may not ask for the clipboard, as from the disk in some browsers."""
    results = audit.results | {"recommendation": audit.results["recommendation"] | NEXT}
    html = page(results, audit.pictures)
    if not allowed:
        refuse = "<script>delete Navigator.prototype.clipboard;</script>"
        html = html.replace("<body>", f"<body>{refuse}")
    permissions = ["clipboard-read", "clipboard-write"]
    tab, complaints = show(browser, html, tmp_path, permissions=permissions)
    for name in ("python", "shell"):
        tab.locator(f'[data-copy="next-{name}"]').click()
        tab.locator("#said", has_text="Copied").wait_for(state="attached")
        if allowed:
            copied = tab.evaluate("navigator.clipboard.readText()")
        else:
            tab.evaluate(
                "document.body.insertAdjacentHTML('beforeend', '<textarea id=paste></textarea>')"
            )
            tab.locator("#paste").focus()
            tab.keyboard.press("Control+V")
            copied = tab.locator("#paste").input_value()
            tab.evaluate("document.getElementById('paste').remove()")
        assert copied == "\n".join(NEXT[name])
        tab.evaluate("document.getElementById('said').textContent = ''")
    assert complaints == []
    tab.context.close()


def download(tab, kind):
    with tab.expect_download() as waiting:
        tab.locator(f'[data-download="{kind}"]').click()
    return waiting.value


def test_downloads_hold_the_results(opened, audit):
    tab, complaints = opened
    found = download(tab, "json")
    assert found.suggested_filename == "results.json"
    assert json.loads(found.path().read_text(encoding="utf-8")) == audit.results
    found = download(tab, "csv")
    assert found.suggested_filename == "results.csv"
    with found.path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    results = audit.results
    labels = [method["label"] for method in results["methods"]]
    of_all = [row for row in rows if row["prompt"] == "all prompts"]
    names = {(row["measure"], row["method"]) for row in of_all}
    assert len(names) == len(of_all) == len(results["summary"]) * len(labels)
    for place, row in enumerate(of_all):
        metric = results["summary"][place // len(labels)]
        value = metric["values"][place % len(labels)]
        assert row["measure"].startswith(metric["name"]) and int(row["n"]) == metric["n"]
        assert row["method"] == labels[place % len(labels)]
        assert float(row["value"]) == value["value"]
    skews = [row for row in rows if row["measure"] == "max_skew"]
    assert len(skews) == len(labels) * len(PROMPTS)
    for row in skews:
        [entry] = [one for one in results["prompts"] if one["prompt"] == row["prompt"]]
        value = entry["max_skew"][labels.index(row["method"])]
        assert [float(row[end]) for end in ("value", "low", "high")] == [
            value["value"],
            value["low"],
            value["high"],
        ]
        change = value.get("change")
        assert (
            row["change_value"] == ""
            if change is None
            else float(row["change_value"]) == change["value"]
        )
    assert complaints == []


def test_a_comma_and_a_quote_in_a_prompt_do_not_shift_a_column(browser, audit, tmp_path):
    nasty = 'a "doctor", on\ntwo lines'
    prompts = [audit.results["prompts"][0] | {"prompt": nasty}, *audit.results["prompts"][1:]]
    tab, _ = show(browser, page(audit.results | {"prompts": prompts}, audit.pictures), tmp_path)
    with download(tab, "csv").path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert nasty in {row["prompt"] for row in rows} and all(None not in row for row in rows)
    tab.context.close()


def test_without_javascript_the_verdict_the_chart_and_every_table_are_there(
    browser, audit, tmp_path
):
    tab, _ = show(browser, page(audit.results, audit.pictures), tmp_path, java_script_enabled=False)
    assert tab.locator("h1").inner_text() and tab.locator(".tiles dd b").count() == 4
    assert tab.locator("#swarm circle").count() == len(PROMPTS) * len(audit.results["methods"])
    rows = tab.locator("#table-of-prompts tbody tr")
    assert rows.count() == len(PROMPTS) and rows.last.is_visible()
    assert tab.get_by_text("need JavaScript").is_visible()
    assert not tab.locator("[data-download]").first.is_visible()  # nothing that would do nothing
    assert not tab.locator("#kappa").is_visible()
    tab.context.close()


def test_the_keyboard_turns_the_dial(opened):
    tab, _ = opened
    tab.focus("#kappa")
    before = tab.inner_text("#kappa-value")
    tab.keyboard.press("ArrowRight")
    assert float(tab.inner_text("#kappa-value")) > float(before)
    tab.keyboard.press("End")
    assert (
        tab.inner_text("#kappa-value") == "infinity"
        and tab.get_attribute("#kappa", "aria-valuetext") == "kappa infinity"
    )
    tab.keyboard.press("Home")
    assert tab.inner_text("#kappa-value") == "0"


# --- What everybody can read ------------------------------------------------------------


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, scheme, width):
    tab, _ = opened
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 900})
    assert violations(tab) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["texts alone", "no method", "comparison"])
def test_axe_finds_nothing_on_the_other_pages(browser, world, audit, tmp_path, kind):
    if kind == "comparison":
        html = comparison([("a", audit.results), ("b", run(world.plan(with_images=False)).results)])
    elif kind == "no method":
        found = run(world.plan(specs=parse(["none"])))
        html = page(found.results, found.pictures)
    else:
        found = run(world.plan(with_images=False))
        html = page(found.results, found.pictures)
    for scheme in ("light", "dark"):
        tab, complaints = show(browser, html, tmp_path, color_scheme=scheme)
        assert violations(tab) == [] and complaints == []
        tab.context.close()


def test_charts_say_in_words_what_they_show(opened):
    tab, _ = opened
    charts = tab.locator('[role="img"]')
    assert charts.count() >= 3
    for label in charts.evaluate_all("found => found.map(chart => chart.ariaLabel)"):
        assert "table" in label  # where the same numbers stand


def test_the_first_screen_has_the_verdict_the_tiles_and_the_chart(opened):
    tab, _ = opened
    tab.set_viewport_size({"width": 1400, "height": 900})
    for part in ("h1", ".tiles", "#swarm", ".next h2"):
        box = tab.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900
    assert tab.locator(".tiles > div").count() == 4
    # no empty third: the last of the tiles and the box end where the page does
    right = max(
        tab.locator(part).bounding_box()["x"] + tab.locator(part).bounding_box()["width"]
        for part in (".tiles", ".screen .two")
    )
    assert right > 1400 * 0.9


# of a figure the last letter of an axis may stand half beside it, and is seen
WIDE = """() => [...document.querySelectorAll('table, figure, pre, dl, .pictures, .tiles')]
    .filter((part) => part.checkVisibility())
    .filter((part) => part.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        || (!part.matches('figure') && part.scrollWidth > part.clientWidth + 1))
    .map((part) => part.outerHTML.slice(0, 90))"""


@pytest.mark.parametrize("kind", ["audit", "comparison"])
@pytest.mark.parametrize(
    ("width", "media"),
    [
        (1400, "screen"),
        (1100, "screen"),
        (820, "screen"),
        (390, "screen"),
        (320, "screen"),
        (PAPER["A4"][0], "print"),
        (PAPER["Letter"][0], "print"),
    ],
)
def test_it_fits_and_nothing_is_cut_off(browser, audit, tmp_path, width, media, kind):
    html = page(audit.results, audit.pictures)
    if kind == "comparison":
        html = comparison([("a", audit.results), ("b", audit.results)])
    tab, _ = show(browser, html, tmp_path, width=width)
    tab.emulate_media(media=media)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(WIDE) == []
    tab.context.close()


@pytest.mark.parametrize("paper", PAPER)
def test_it_prints(opened, tmp_path, paper):
    """On the paper of whoever prints it."""
    tab, _ = opened
    tab.emulate_media(color_scheme="dark")
    data = tab.pdf(path=tmp_path / "report.pdf", format=paper)
    sizes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", data)
    assert data.startswith(b"%PDF") and len(sizes) > 1
    for size in sizes:
        assert [float(x) for x in size] == pytest.approx(PAPER[paper][1], abs=1)


def test_what_is_dark_on_the_screen_is_printed_on_white(opened):
    tab, _ = opened
    tab.emulate_media(color_scheme="dark", media="print")
    colours = "() => [getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).color]"
    assert tab.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(29, 31, 33)"]
    assert not tab.locator(".copy, [data-download], select, #kappa").first.is_visible()
    assert tab.locator("#kappa-value").is_visible()  # what the dial stands at


def test_a_difference_between_audits_holds_zero_for_the_same_audit(audit):
    found = json.loads(
        comparison([("a", audit.results), ("b", audit.results)])
        .split('id="results">')[1]
        .split("</script>")[0]
    )
    assert len(found["differences"]) == len(audit.results["summary"]) * len(
        audit.results["methods"]
    )
    for one in found["differences"]:
        assert one["value"] == 0
        if one["low"] is not None:
            assert one["low"] <= 0 <= one["high"]
            [metric] = [row for row in audit.results["summary"] if row["key"] == one["key"]]
            place = [method["label"] for method in audit.results["methods"]].index(one["method"])
            own = metric["values"][place]
            # as wide as two independent values of this interval, which differ by root two of it if it is even
            assert one["high"] == pytest.approx(
                math.hypot(own["high"] - own["value"], own["value"] - own["low"])
            )


def test_a_page_of_texts_alone_and_one_with_a_grid(browser, world, audit, tmp_path):
    alone = run(world.plan(with_images=False))
    pages = {
        "alone": page(alone.results, alone.pictures),
        "grid": page(audit.results),
        "two": comparison([("a", audit.results), ("b", alone.results)]),
    }
    for name, html in pages.items():
        (tmp_path / f"{name}.html").write_text(html)
        tab = browser.new_page()
        complaints: list[str] = []
        tab.on("pageerror", lambda error, complaints=complaints: complaints.append(str(error)))
        tab.on(
            "console",
            lambda message, complaints=complaints: (
                complaints.append(message.text) if message.type == "error" else None
            ),
        )
        tab.goto((tmp_path / f"{name}.html").as_uri())
        if name == "grid":
            grid = audit.results["dials"][1]
            tab.select_option("#turning", "1")
            for place in (0, len(grid["kappas"]) - 1):
                turn(tab, place)
                assert shown(tab, "max_skew") == f"{grid['max_skew'][place]:.3f}"
        elif name == "alone":
            turn(tab, 82)
            assert float(shown(tab, "lean")) == pytest.approx(
                alone.results["dials"][1]["lean"][-1], abs=5e-5
            )
        assert complaints == []
        tab.close()


@pytest.mark.parametrize(
    ("width", "media"), [(1100, "screen"), (320, "screen"), (PAPER["A4"][0], "print")]
)
def test_the_page_of_a_sweep(browser, width, media, tmp_path):
    specs = tasks.sweep_grid(None, ["closed-form", "orth-proj"], [], "classification")
    results, _ = tasks.sweep(evaluation(), specs, tmp_path)
    (tmp_path / "sweep.html").write_text(sweep_page(results))
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.emulate_media(media=media)
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    tab.goto((tmp_path / "sweep.html").as_uri())
    drawn = tab.locator("#sweep .point")
    assert drawn.count() == len(results.points) == tab.locator("tbody tr").count()
    names = tab.locator(".toggles button")
    assert names.all_text_contents() == ["none", "closed-form", "orth-proj"]
    names.nth(1).click()
    assert names.nth(1).get_attribute("aria-pressed") == "false"
    shown = [line.is_visible() for line in tab.locator("#sweep [data-series]").all()]
    assert shown == [True, False, True]
    names.nth(1).click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width and complaints == []
    if media == "screen":
        assert violations(tab) == []
    tab.close()


def test_files_are_small(audit):
    """No library of charts is in them."""
    assert len(page(audit.results, audit.pictures).encode()) < 1 << 20


def test_fifty_galleries_of_twenty_real_photographs_are_a_file_of_under_20_mb(audit):
    """Before and after, no picture twice: 2,000 photographs."""
    photographs = pd.read_parquet(shared_data("people/celeba.parquet"), columns=["image"])["image"][
        :2000
    ]
    small = {i: documents.small(data) for i, data in enumerate(photographs)}
    assert (
        len(page(audit.results, documents.Pictures(audit.pictures.arrays, small)).encode())
        < 20 << 20
    )


THINGS = [
    "Tie",
    "Suit",
    "Dress",
    "Microphone",
    "Guitar",
    "Football",
    "Earrings",
    "Laptop",
    "Handgun",
    "Doll",
    "Flower",
    "Book",
    "Car",
    "Hat",
    "Sunglasses",
    "Scarf",
    "Saxophone",
    "Cake",
    "Balloon",
    "Boat",
]


def quantized(path):
    """Make a screenshot small: 256 colours are enough for letters and dots."""
    picture = Image.open(path).convert("RGB")
    picture.quantize(256).save(path, optimize=True)
    assert 10_000 < path.stat().st_size < 200_000


def on_paper(path):
    """Put what is printed between the margins of a sheet of A4 with an edge."""
    sheet = Image.new("RGB", (794, 1123), "white")
    sheet.paste(Image.open(path), (57, 53))
    ImageOps.expand(sheet, 1, "#cccccc").save(path)


def test_the_pictures_of_the_docs(browser, tmp_path, monkeypatch):
    """Of real CLIP embeddings of CelebA, without its photographs. Written to docs/pictures where EQUIPOISE_PICTURES is set."""
    with np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False) as file:
        rows, male = (
            file["image"].astype(np.float32),
            file["attrs"][:, list(file["attr_names"]).index("Male")] > 0,
        )
        table = pd.DataFrame(
            {"path": file["filename"].astype(str), "gender": np.where(male, "male", "female")}
        )
    vectors = TextVectors.load(shared_data("embeddings/text_clip_vitb32_objects.npz"))
    vectors.id = "OpenAI CLIP ViT-B/32"
    book = eq.PromptBook.of(
        {
            "an adult": {"male": ["a Man"], "female": ["a Woman"]},
            "a child": {"male": ["a Boy"], "female": ["a Girl"]},
        }
    )
    options = {
        "prompts": [f"a {thing}" for thing in THINGS],
        "book": book,
        "source": ImageSource("CelebA", table, None, rows),
    }
    settings = AuditSettings(resamples=200)
    monkeypatch.chdir(tmp_path)  # the page says where its files are
    run_plan(
        make_plan(vectors, GENDER, group_columns=["gender"], settings=settings, **options)
    ).save("audit")
    folder = ROOT / "docs" / "pictures" if os.environ.get("EQUIPOISE_PICTURES") else tmp_path
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto((tmp_path / "audit" / "report.html").as_uri())
    looks = {
        "report": {},
        "report-dark": {"color_scheme": "dark"},
        "report-390": {"color_scheme": "light"},
        "report-print": {"media": "print", "color_scheme": "dark"},
    }
    sizes = {"report-390": (390, 1500), "report-print": (PAPER["A4"][0], 1017)}
    for name, media in looks.items():
        width, height = sizes.get(name, (1400, 900))
        tab.emulate_media(**media)
        tab.set_viewport_size({"width": width, "height": height})
        tab.screenshot(path=folder / f"{name}.png")
        if name == "report-print":
            on_paper(folder / f"{name}.png")
        quantized(folder / f"{name}.png")
    tab.close()
