"""The report in a real browser: no errors, the dial is Python's, galleries follow it, it is accessible, prints on A4, fits a phone."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise import evaluation as tasks
from equipoise import metrics
from equipoise._audit import AuditSettings, association, documents, run
from equipoise._audit.plan import make_plan
from equipoise._audit.sources import ImageSource
from equipoise.prompts._vectors import TextVectors
from equipoise.report import comparison, page, sweep_page
from tests.helpers.common import ROOT, component, shared_data
from tests.test_fit_on import evaluation

GENDER = eq.Attribute.load("gender")
PROMPTS = [
    f"a photo of a {job}"
    for job in ("doctor", "nurse", "pilot", "cook", "judge", "clerk", "singer", "coach")
]
A4 = 673  # CSS pixels between margins of 15 mm


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
        self.pictures = [
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).resize((32, 32))
            for _ in range(300)
        ]

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


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def audit(world):
    return run(world.plan())


@pytest.fixture
def opened(browser, audit, tmp_path):
    """A page, and what it complains of."""
    (tmp_path / "report.html").write_text(page(audit.results, audit.pictures))
    tab = browser.new_page(viewport={"width": 1100, "height": 900})
    complaints: list[str] = []
    tab.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:", "blob:"))
            else complaints.append(request.url)
        ),
    )
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_function(
        "window.equipoise !== undefined && document.querySelectorAll('#dumbbell svg').length > 0"
    )
    yield tab, complaints
    tab.close()


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
    tab.check('input[name="measure"][value="lean"]')
    tab.check('input[name="turning"][value="2"]')
    assert complaints == []


@pytest.mark.parametrize(("step", "kappa"), [(0, 0.0), (21, 0.1), (41, 1.0), (82, np.inf)])
@pytest.mark.parametrize("method", [1, 2])
def test_the_dial_shows_what_python_computes(opened, world, audit, step, kappa, method):
    """Python's side is independent of the audit: debias, score, rank, measure."""
    tab, _ = opened
    tab.check(f'input[name="turning"][value="{method}"]')
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


def test_shares_beside_a_row_are_shown_only_where_they_are_its_own(opened):
    """They are those of the method's own kappa, and the pictures follow the dial."""
    tab, _ = opened
    visible = "rows => rows.map(row => row.querySelector('.held').checkVisibility())"
    for step, own in ((41, True), (82, False)):
        turn(tab, step)
        assert tab.eval_on_selector_all("details[open] .row", visible)[:3] == [True, own, True]


def test_prompts_that_differ_only_in_how_they_begin_have_rows_of_their_own(
    browser, audit, tmp_path
):
    prompts = [
        entry | {"prompt": "the photo of a pilot"} if i == 0 else entry
        for i, entry in enumerate(audit.results["prompts"])
    ]
    (tmp_path / "report.html").write_text(
        page(audit.results | {"prompts": prompts}, audit.pictures)
    )
    tab = browser.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_function("document.querySelectorAll('#dumbbell svg').length > 0")
    rows = tab.evaluate("document.getElementById('dumbbell').data[1].y")
    assert sorted(rows) == sorted(entry["prompt"] for entry in prompts)
    tab.close()


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, scheme):
    axe = component("axe_playwright_python.sync_playwright")
    tab, _ = opened
    tab.emulate_media(color_scheme=scheme)
    for details in tab.query_selector_all("details"):
        details.evaluate("element => { element.open = true; }")
    found = axe.Axe().run(tab).response["violations"]
    assert [
        (one["id"], one["nodes"][0]["html"][:100])
        for one in found
        if one["impact"] in ("serious", "critical")
    ] == []


def test_charts_say_in_words_what_they_show(opened):
    tab, _ = opened
    for name in ("dumbbell", "front", "course"):
        assert tab.get_attribute(
            f"#{name}", "role"
        ) == "img" and "table below" in tab.get_attribute(f"#{name}", "aria-label")
    assert tab.locator("table tbody tr").count() > len(PROMPTS)


@pytest.mark.parametrize(
    ("width", "media"), [(1100, "screen"), (390, "screen"), (320, "screen"), (A4, "print")]
)
def test_it_fits(opened, width, media):
    tab, _ = opened
    tab.emulate_media(media=media)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.wait_for_timeout(400)  # plotly follows a resize a moment later
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("dumbbell", "front", "course"):
        box, inside = (
            tab.locator(f"#{name}").bounding_box(),
            tab.locator(f"#{name} svg.main-svg").first.bounding_box(),
        )
        assert inside["width"] <= box["width"] + 1 and inside["height"] <= box["height"] + 1


def test_it_prints_on_a4(opened, tmp_path):
    tab, _ = opened
    tab.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    data = (tmp_path / "report.pdf").read_bytes()
    assert data.startswith(b"%PDF") and b"/MediaBox [0 0 594.95996 841.91998]" in data


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


@pytest.mark.parametrize(("width", "media"), [(1100, "screen"), (320, "screen"), (A4, "print")])
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
    drawn = tab.locator("#sweep .scatterlayer .point")
    drawn.first.wait_for()
    assert drawn.count() == len(results["points"]) == tab.locator("tbody tr").count()
    assert tab.locator("#sweep .legendtext").all_text_contents() == [
        "none",
        "closed-form",
        "orth-proj",
    ]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width and complaints == []
    if media == "screen":
        axe = component("axe_playwright_python.sync_playwright")
        found = axe.Axe().run(tab).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"][:100])
            for one in found
            if one["impact"] in ("serious", "critical")
        ] == []
    tab.close()


def test_files_are_small(audit):
    assert len(page(audit.results, audit.pictures).encode()) < 5 << 20


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


def test_the_pictures_of_the_docs(browser, tmp_path):
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
    audit = run(
        make_plan(
            vectors,
            GENDER,
            group_columns=["gender"],
            settings=AuditSettings(resamples=200),
            **options,
        )
    )
    (tmp_path / "report.html").write_text(page(audit.results, audit.pictures))
    folder = ROOT / "docs" / "pictures" if os.environ.get("EQUIPOISE_PICTURES") else tmp_path
    tab = browser.new_page(viewport={"width": 1000, "height": 1180})
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_function("document.querySelectorAll('#course svg').length > 0")
    tab.screenshot(path=folder / "report.png")
    tab.locator("section", has=tab.locator("#dial")).screenshot(path=folder / "dial.png")
    for name in ("report.png", "dial.png"):
        Image.open(folder / name).convert("RGB").quantize(128).save(folder / name, optimize=True)
        assert 10_000 < (folder / name).stat().st_size < 100_000
    tab.close()
