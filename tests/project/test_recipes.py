"""docs/how-to/databases.md: each recipe runs against the real database, and pages follow each other."""

from __future__ import annotations

import re

import numpy as np
import pytest

import equipoise as eq
from tests.helpers.common import ROOT, component
from tests.helpers.postgres import start_postgres

PAGE = (ROOT / "docs" / "how-to" / "databases.md").read_text()
NEEDS = {
    "faiss": ["faiss"],
    "pgvector": [],  # the server asks for what it needs
    "LanceDB": ["lancedb"],
    "Qdrant": ["qdrant_client"],
    "Chroma": ["chromadb"],
    "Milvus Lite": ["pymilvus", "milvus_lite"],
    "sentence-transformers": ["sentence_transformers"],
}


def block(heading: str) -> str:
    """The code under a heading, or that before the first one."""
    parts = re.split(r"^## (.*)$", PAGE, flags=re.M)
    sections = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    (code,) = re.findall(r"```python\n(.*?)```", sections[heading], re.S)
    return code


def run(heading: str, names: dict) -> dict:
    exec(compile(block(heading), f"databases.md, {heading}", "exec"), names)
    return names


@pytest.fixture
def url(request, tmp_path):
    """The address of a database where the recipe needs one."""
    if request.getfixturevalue("recipe") != "pgvector":
        yield ""
        return
    server = start_postgres(tmp_path / "postgres")
    yield server.get_uri()
    server.cleanup()


def test_every_recipe_of_the_page_is_tested():
    headings = re.findall(r"^## (.*)$", PAGE, flags=re.M)
    assert headings == [*NEEDS, "The next page", "What to keep in mind"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the databases' own clients
@pytest.mark.parametrize("recipe", NEEDS)
def test_a_recipe_finds_the_balanced_page_of_the_whole_index(recipe, url, tmp_path, monkeypatch):
    for name in NEEDS[recipe]:
        component(name)
    monkeypatch.chdir(tmp_path)
    names = run("", {"url": url})
    run(recipe, names)
    page, rows, query, more = (names[one] for one in ("page", "rows", "query", "more"))
    certificate = page.certificate
    assert certificate.exact and certificate.k == 20
    assert abs(certificate.after["male"] - 0.5) < abs(certificate.before["male"] - 0.5)
    operator = names["operator"].bind(index=rows)
    expected = eq.search(rows, query[None], 20, balance=operator).indices[0].tolist()
    assert {int(one) for one in page.first} == set(expected)
    served = more(page.query, 20)[0]  # the database itself, with the shifted query
    assert {int(one) for one in served} == set(expected)
    run("The next page", names)
    pages = eq.search(rows, query[None], 20, balance=operator, offset=20).indices[0]
    assert {int(one) for one in names["second"].first} == set(pages.tolist())
    close = getattr(names.get("client"), "close", None)
    if close is not None:
        close()
    if "connection" in names:
        names["connection"].close()


def test_pages_of_a_database_repeat_nothing_and_lose_nothing():
    """All of a small index, page after page, each the best balanced one of what is left."""
    component("faiss")
    names = run("", {})
    names["rows"] = names["rows"][:130]
    names["operator"] = eq.methods.create("balanced", k=20).fit(
        eq.FitContext(
            names["gender"],
            prototypes={"male": names["man"], "female": names["woman"]},
            images=iter([names["rows"]]),
        )
    )
    run("faiss", names)
    operator, query, more = names["operator"], names["query"], names["more"]
    shown: list[int] = []
    sizes = []
    while len(shown) < 130:
        page = operator.balance(query, more(query, min(130, 60 + len(shown))), more, shown=shown)
        sizes.append(len(page.first))
        shown += page.first
    assert sizes == [20] * 6 + [10]
    assert sorted(shown) == list(range(130))
    served = operator.bind(index=names["rows"])
    whole = eq.search(names["rows"], query[None], 130, balance=served).indices[0]
    for start in range(0, 130, 20):
        there = slice(start, start + 20)
        assert set(shown[there]) == set(np.asarray(whole[there]).tolist())
