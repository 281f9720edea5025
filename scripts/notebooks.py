"""Run the notebooks with a real kernel and keep what they show: python -m scripts.notebooks [NAME ...].

Pictures are kept as JPEG where that is smaller. Notebooks and the opening pictures of
docs/notebooks.md stay under a megabyte in all.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
OPENINGS = ROOT / "docs" / "pictures" / "notebooks"
NAMES = (
    "first-steps",
    "your-own-search",
    "compare-methods",
    "generation",
    "audit-of-a-classifier",
)
LONGEST = 120  # seconds for one notebook
LARGEST = 1_000_000  # bytes of all notebooks and opening pictures
QUALITY = 80


def run(notebook: Any) -> float:
    """Run every cell in an empty folder; return the seconds that it took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=LONGEST,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return time.monotonic() - began


def tidy(notebook: Any) -> None:
    """Keep of each cell what a reader sees: no times, no bars, pictures as small as they can be."""
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type != "code":
            continue
        shown = [one for one in cell.outputs if one.get("name") != "stderr"]
        cell.outputs = shown
        for output in shown:
            _shrink(output.get("data", {}))
    notebook.metadata = {
        "kernelspec": notebook.metadata["kernelspec"],
        "language_info": {"name": "python"},
    }


def _shrink(data: Any) -> None:
    if "image/png" not in data:
        return
    data.pop("image/jpeg", None)  # a picture of PIL comes as both
    png = base64.b64decode(data["image/png"])
    jpeg = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").save(jpeg, "JPEG", quality=QUALITY, optimize=True)
    if len(jpeg.getvalue()) < len(png):
        del data["image/png"]
        data["image/jpeg"] = base64.b64encode(jpeg.getvalue()).decode()


def pictures(cell: Any) -> list[bytes]:
    """Return the pictures that a cell shows, each once: one of PIL comes as PNG and as JPEG."""
    found = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        picture = data.get("image/png") or data.get("image/jpeg")
        if picture is not None:
            found.append(base64.b64decode(picture))
    return found


def keep_opening(name: str, notebook: Any) -> None:
    """Write the first picture of a notebook for its page."""
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    OPENINGS.mkdir(exist_ok=True)
    image = Image.open(io.BytesIO(pictures(first)[-1])).convert("RGB")
    image.save(OPENINGS / f"{name}.webp", quality=QUALITY, method=6)


def size() -> int:
    """Return the bytes of all notebooks and opening pictures."""
    files = [*FOLDER.glob("*.ipynb"), *OPENINGS.glob("*")]
    return sum(path.stat().st_size for path in files)


def main(names: list[str]) -> None:
    for name in names or NAMES:
        path = FOLDER / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        seconds = run(notebook)
        tidy(notebook)
        nbformat.write(notebook, path)
        keep_opening(name, notebook)
        print(f"{name}: {seconds:.0f} s, {path.stat().st_size:,} bytes", flush=True)
    if size() > LARGEST:
        sys.exit(f"the notebooks have {size():,} bytes, and {LARGEST:,} are allowed")


if __name__ == "__main__":
    main(sys.argv[1:])
