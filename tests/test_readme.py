"""What the README shows is true: its example runs, and so does the demo's."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.conftest import ROOT


def test_first_example_holds():
    first = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert first is not None and first.group(1).count("assert") >= 3
    exec(compile(first.group(1), "README.md", "exec"), {})


def test_demo_example_holds():
    result = subprocess.run([sys.executable, ROOT / "examples" / "first.py"], capture_output=True, text=True, check=True)
    assert "every one within its bound" in result.stdout


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
