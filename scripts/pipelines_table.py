"""Run ``attach`` on a small instance of every family of pipelines, and write the table of docs/generation.md.

    PYTHONPATH=src:mini/src:. python scripts/pipelines_table.py

Every row was run: the edited prompt drew other latents, the explicit one and kappa = 0 the same.
"""

from __future__ import annotations

from pathlib import Path

import diffusers
import torch
import transformers
from tests.helpers.families import FAMILIES, Family, family

import equipoise as eq
from equipoise._artefact import write_atomically

PAGE = Path(__file__).parents[1] / "docs" / "generation.md"
BEGIN, END = "<!-- pipelines -->\n", "<!-- /pipelines -->"
NEUTRAL, EXPLICIT = "a photo of a doctor", "a photo of a female doctor"
BOOK = eq.PromptBook.load("occupations-gender").subset([NEUTRAL])


def draw(found: Family, prompt: str) -> torch.Tensor:
    """Return the latents of a prompt."""
    noise = torch.Generator("cpu").manual_seed(0)
    return found.pipe(prompt=prompt, generator=noise, return_dict=False, **found.options)[0]


def row(name: str) -> str:
    """Return the line of a family, or raise where it does not keep its promises."""
    found = family(name)
    plain = {prompt: draw(found, prompt) for prompt in (NEUTRAL, EXPLICIT)}
    with eq.generation.attach(found.pipe, "gender", BOOK) as hook:
        edited = {prompt: draw(found, prompt) for prompt in plain}
        parts = ", ".join(f"`{part}`" for part in hook.spaces)
    with eq.generation.attach(found.pipe, "gender", BOOK, kappa=0):
        unmoved = draw(found, NEUTRAL)
    if torch.equal(edited[NEUTRAL], plain[NEUTRAL]):
        raise SystemExit(f"{name}: the edited prompt drew the same latents")
    if not torch.equal(edited[EXPLICIT], plain[EXPLICIT]) or not torch.equal(
        unmoved, plain[NEUTRAL]
    ):
        raise SystemExit(f"{name}: a prompt that is left alone drew other latents")
    return f"| {name} | `{type(found.pipe).__name__}` | {parts} |"


def table() -> str:
    """Return the table, with the versions that ran."""
    lines = ["| family | class | parts that are edited |", "|---|---|---|"]
    lines += [row(name) for name in FAMILIES]
    versions = f"diffusers {diffusers.__version__}, transformers {transformers.__version__}"
    return "\n".join([*lines, "", f"With {versions} and torch {torch.__version__}.", ""])


def main() -> None:
    """Write the table between its marks."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    write_atomically(PAGE, f"{before}{BEGIN}{table()}{END}{after}".encode())


if __name__ == "__main__":
    main()
