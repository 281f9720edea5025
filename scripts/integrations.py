"""The table of docs/integrations: name, version tested, what works, what does not.

Each page says the last two itself, and constraints.txt says the versions. To write the table again:
python -m scripts.integrations
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path("docs/integrations")
CONSTRAINTS = Path("constraints.txt")
# The packages that each page is about, by their names in constraints.txt.
PACKAGES = {
    "scikit-learn": ["scikit-learn"],
    "transformers": ["transformers"],
    "sentence-transformers": ["sentence-transformers"],
    "open-clip": ["open_clip_torch"],
    "vector-databases": ["qdrant-client", "chromadb", "pymilvus", "milvus-lite"],
    "fiftyone": ["fiftyone"],
    "hugging-face-hub": ["huggingface_hub"],
    "langchain": ["langchain-core"],
    "llama-index": ["llama-index-core"],
    "mlflow": ["mlflow-skinny"],
    "wandb": ["wandb"],
    "matplotlib": ["matplotlib"],
    "spark": ["pyspark"],
    "github-action": [],
}
HEAD = """# Tools that you already have

Each page is short, and a test runs its code with the real package, at the version that stands here. None of these packages is needed by equipoise itself.

| tool | tested with | works | does not work |
|---|---|---|---|
"""
FOOT = """
The table is made from the pages and from `constraints.txt`: `python -m scripts.integrations`.
[Recipes for balanced searches of databases](../how-to/databases.md) are on a page of their own, and so are [PostgreSQL, LanceDB and Ray](../apply.md).
"""


def versions() -> dict[str, str]:
    """Return the tested version of each package."""
    return dict(re.findall(r"^([\w-]+)==(\S+)$", CONSTRAINTS.read_text(), re.M))


def said(page: str, what: str) -> str:
    """Return the paragraph of a page that begins with these bold words."""
    (found,) = re.findall(rf"^\*\*{what}:\*\* (.+)$", page, re.M)
    return found.removesuffix(".").replace("|", "\\|")


def line(name: str) -> str:
    """Return the row of one page."""
    page = (FOLDER / f"{name}.md").read_text()
    title = page.splitlines()[0].removeprefix("# ")
    known = versions()
    tested = ", ".join(f"{package} {known[package]}" for package in PACKAGES[name])
    cells = [
        f"[{title}]({name}.md)",
        tested or "-",
        said(page, "Works"),
        said(page, "Does not work"),
    ]
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """Return docs/integrations/index.md."""
    return HEAD + "".join(line(name) for name in PACKAGES) + FOOT


if __name__ == "__main__":
    (FOLDER / "index.md").write_text(page())
