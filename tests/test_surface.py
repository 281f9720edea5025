"""What users see of the package: its names, its types, and how objects print."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from html.parser import HTMLParser

import numpy as np
import pytest

import equipoise as eq
from equipoise import methods
from equipoise._display import html_table
from equipoise._space import EncoderRef
from equipoise._stores.folder import Manifest, StoreWriter
from tests.helpers.common import ROOT, component, embedded_model, make_space

HOSTILE = '<script>alert("x")</script>'
LONGEST = 400


def book_of(attribute, prompts):
    entries = {
        prompt: {
            group: {"anchor": f"{group} {prompt}", "variants": []} for group in attribute.groups
        }
        for prompt in prompts
    }
    return eq.PromptBook.model_validate({"prompts": entries})


def core_objects():
    """Every public core object, each with many groups, long names and large arrays."""
    rng = np.random.default_rng(0)
    groups = tuple(f"group {i} with quite a long name of its own" for i in range(40))
    attribute = eq.Attribute(
        "an attribute with a name that goes on", groups, dict(enumerate(groups * 3, 0))
    )
    prompts = [f"a photo of somebody at work, number {i}" for i in range(30)]
    prototypes = {group: rng.standard_normal(64) for group in groups}
    space = eq.AttributeSpace.from_prototypes(prototypes, attribute=attribute, kappa=2.0)
    other = make_space(rng, 64, 3, kappa=2.0)
    rows = rng.standard_normal((5000, 64))
    spaces = eq.SpaceSet(dict.fromkeys(prompts, space))
    context = eq.FitContext(
        attribute,
        prototypes=prototypes,
        images=rows,
        text_table=dict.fromkeys(prompts, rows[0]),
        sensitive_features=np.array(groups * 125),
        labels=list(range(5000)),
        captions=prompts * 100,
    )
    yield "Attribute", attribute, ("group 0",)
    yield "AttributeSpace", space, ("40 groups", "rank=39", "dim=64", "kappa=2")
    yield "union", space + other + other + other + other, ("dim=64", "kappa=2")
    yield "SpaceSet", spaces, ("30 prompts", "dim=64", "kappa=2")
    yield "Certificate", eq.certify(rows, space), ("n=5000", "kappa=2")
    yield "Frontier", eq.frontier(rows, space), ("n=5000", "kappa 0 to inf")
    yield "FitContext", context, ("group 0", "(5000, 64)")
    small = eq.Attribute("gender", ("male", "female"))
    pair = {"male": rows[0], "female": rows[1]}
    shown = {"closed-form": ("dim=64", "rank=1", "kappa=1"), "orth-proj": ("dim=64",), "none": ()}
    for method, told in shown.items():
        operator = methods.create(method).fit(eq.FitContext(small, prototypes=pair, images=rows))
        yield method, operator, ("male, female", *told)


OBJECTS = {name: (thing, told) for name, thing, told in core_objects()}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_repr_is_short_and_tells_what_matters(name):
    thing, told = OBJECTS[name]
    text = repr(thing)
    assert len(text) < LONGEST and text.count("\n") < 3
    assert "array(" not in text and "[[" not in text
    for part in told:
        assert part in text


def test_books_encoders_and_stores_too(tmp_path):
    attribute = eq.Attribute("age", tuple(f"{i} years of age or so" for i in range(80)))
    book = book_of(attribute, [f"a person {i}" for i in range(50)])
    assert "50 prompts" in repr(book)
    encoder = embedded_model()
    assert f"dim={encoder.dim}" in repr(encoder)
    manifest = Manifest(
        encoder=EncoderRef("somebody/a-model", "main", "0123456789abcdef"),
        modality="image",
        dim=64,
        dtype="float32",
        source="",
        source_sha256="",
        items=4,
        shard_items=2,
    )
    StoreWriter(tmp_path, manifest).write_manifest()
    store = eq.open_store(tmp_path)
    assert "dim=64" in repr(store) and "a-model" in repr(store)
    for thing in (book, encoder, store):
        assert len(repr(thing)) < LONGEST


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "class"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def hostile_objects():
    rng = np.random.default_rng(1)
    prototypes = {HOSTILE: rng.standard_normal(16), "<b>&": rng.standard_normal(16)}
    space = eq.AttributeSpace.from_prototypes(prototypes, attribute=HOSTILE, encoder=HOSTILE)
    rows = rng.standard_normal((20, 16))
    context = eq.FitContext(eq.Attribute(HOSTILE, tuple(prototypes)), prototypes=prototypes)
    yield space
    yield eq.SpaceSet({HOSTILE: space})
    yield eq.certify(rows, space)
    yield eq.frontier(rows, space)
    yield eq.frontier(rows, space, [])
    yield methods.create("closed-form").fit(context)


@pytest.mark.parametrize("thing", list(hostile_objects()), ids=lambda thing: type(thing).__name__)
def test_notebooks_get_a_small_escaped_table(thing):
    html = thing._repr_html_()
    tags = _Tags()
    tags.feed(html)
    assert not tags.open
    assert set(tags.seen) <= {"table", "caption", "b", "tr", "th", "td"}
    assert "http" not in html and "url(" not in html
    assert len(html) < 8000
    # no colour of its own but a translucent grey: it reads on light and on dark
    assert "color: inherit" in html and "#" not in html


def test_a_table_shows_what_it_was_given():
    html = html_table("a & b", [("x<y", 0.123456), ("n", 12345)], ("", "value"))
    for part in ("a &amp; b", "x&lt;y", "0.1235", "12,345"):
        assert part in html


def test_dir_shows_the_public_names_and_no_other():
    assert dir(eq) == sorted(eq.__all__)
    assert not [name for name in dir(eq) if name.startswith("_") and name != "__version__"]
    for name in dir(eq):
        assert getattr(eq, name) is not None


REVEALED = """
import numpy as np
import numpy.typing as npt
import equipoise as eq
from equipoise.methods._operator import Operator


class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> object: ...


def f(a: npt.NDArray[np.float32], t: Tensor, space: eq.AttributeSpace, op: Operator) -> None:
    reveal_type(eq.debias(a, space))
    reveal_type(eq.debias(t, space))
    reveal_type(op.image(t))
    reveal_type(op.text(a))
    reveal_type(eq.certify(t, space))
    eq.debias([1.0], space)
"""


@pytest.mark.slow
def test_type_checkers_know_that_the_type_comes_back(tmp_path):
    """Without torch or jax: a class with shape and dtype stands for their arrays."""
    (tmp_path / "user.py").write_text(REVEALED)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(ROOT / "src")], "include": ["user.py"]})
    )
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(tmp_path)], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = [d["message"] for d in found if d["severity"] == "information"]
    types = [message.split('" is "')[-1].rstrip('"') for message in told]
    assert types == ["NDArray[float32]", "Tensor", "Tensor", "NDArray[float32]", "Certificate"]
    errors = [d for d in found if d["severity"] == "error" and "list[float]" in d["message"]]
    assert len(errors) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("project", "package"),
    [(".", "equipoise"), ("mini", "equipoise_mini")],
    ids=["equipoise", "mini"],
)
def test_wheels_say_that_they_are_typed(tmp_path, project, package):
    component("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / project, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert f"{package}/py.typed" in archive.namelist()
