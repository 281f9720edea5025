"""Every method on the embedded model and real photographs, by ``equipoise compare``: writes docs/methods-mini.md.

Run from the repository root: ``python -m scripts.methods_on_mini [DATA]``, the folder that holds people/. Photographs and runs go to
build/people, from where a stopped run goes on; the results to docs/measurements/methods_mini_*.json, and the page is made from them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts import people

from equipoise.bench import machine
from equipoise.tasks import tables
from equipoise.tasks.document import read, write

COMMON = [
    "closed-form:kappa=1|inf",
    "adapted:kappa=1|inf",
    "orth-proj",
    "orth-proj:span=differences",
    "orth-cali",
    "prism-mini",
    "roboshot",
    "clip-clip",
    "sfid",
    "sfid:modality=image",
    "leace",
    "leace:renormalise=true",
    "prism",
    "prism:init=identity",
    "dear",
    "dear:weight=0.1,lr=0.005",
    "saner",
    "saner:lr=0.001,epochs=500",
    "prompt-array",
    "prompt-array:adversary=logits,lr=0.01",
    "joint-vl",
    "joint-vl:sign=subtract,lr=0.0001",
]
TABLES = {"hair": "classification", "gender": "retrieval", "race": "retrieval"}
MEASUREMENTS = Path("docs/measurements")
COMMANDS = MEASUREMENTS / "methods_mini_commands.json"


def measure(data: Path) -> None:
    """The three grids."""
    work = people.WORK
    work.mkdir(parents=True, exist_ok=True)
    measured, fitted = people.faces(data, work)
    celebrities, others = people.celebrities(data, work)
    asked = ["--task", "retrieval", "--prompts", people.queries(work)]
    grids = {
        "hair": [celebrities, "--fit-dataset", others, "--label-column", "hair", "--group-columns", "gender", "--book", "people-gender"],
        "gender": [measured, "--fit-dataset", fitted, "--group-columns", "gender", *asked],
        "race": [measured, "--fit-dataset", fitted, "--group-columns", "race", *asked],
    }
    typed = {}
    for name, arguments in grids.items():
        methods = [*COMMON, "fairer-clip", "fairer-clip:sensitive=given"] if name == "hair" else COMMON
        typed[name], runs = people.compare(work / f"runs_{name}", *arguments, methods=methods)
        write(MEASUREMENTS / f"methods_mini_{name}.json", people.merged(runs) | {"machine": machine.describe()})
    COMMANDS.write_text(json.dumps(typed, indent=1) + "\n")


PAGE = """# Every method on mini

All methods on the embedded model ({encoder}) and real photographs, measured by `equipoise compare`; `python -m scripts.methods_on_mini` unpacks the photographs, runs the commands below and
writes this page from [the files](measurements). Nothing that is measured was fitted on, nor seen by mini in its training.

- **Classification**: blond hair or not, {hair} photographs of CelebA, by gender. Fitted on {hair_fit} others. Group prompts: the curated book of people, {hair_pairs} matched prompts.
- **Retrieval**: 60 occupation prompts over {faces} photographs of FairFace's validation part, by perceived gender and by perceived race (seven groups). Fitted on {faces_fit} of its training part.
  Group prompts: the 60 prompts themselves with each group put in, {gender_pairs} and {race_pairs} matched prompts. Nobody is at work in these photographs, so there is no right image, and no recall.

Methods stand with their defaults, which are the references'; where those are meant for far more images or texts than there are here, a second row has settings that move something
(chosen before measuring, not tuned). `fairer-clip` is defined for given classes, and has no row in retrieval.

{tables}
{fits}
## How to read it

{reading}

## The commands

{commands}
"""


def page() -> str:
    """The page, from the files."""
    runs = {name: read(MEASUREMENTS / f"methods_mini_{name}.json") for name in TABLES}
    pairs = {name: run["methods"]["closed-form"]["book"]["prompts"] for name, run in runs.items()}
    sizes = {name: f"{run['counts']['images']:,}" for name, run in runs.items()}
    fitted = {name: f"{run['fitting']['images']:,}" for name, run in runs.items()}
    encoder = runs["hair"]["encoder"]
    commands = "\n".join(f"```\n{typed}\n```" for typed in json.loads(COMMANDS.read_text()).values())
    return PAGE.format(
        encoder=f"{encoder['id']} {encoder['revision']}".strip(), hair=sizes["hair"], hair_fit=fitted["hair"], hair_pairs=pairs["hair"],
        faces=sizes["gender"], faces_fit=fitted["gender"], gender_pairs=pairs["gender"], race_pairs=pairs["race"],
        tables=tables.markdown(list(runs.values())), fits=fits_table(runs), reading=READING.strip(), commands=commands,
    )  # fmt: skip


def fits_table(runs: dict[str, dict]) -> str:
    """How long each fit took."""
    about = runs["hair"]["machine"]
    lines = [
        f"**Fit times** (seconds, one fit each, {about['processor']}, 2 cores, others at work)\n",
        "| method | changes | " + " | ".join(runs) + " |",
    ]
    lines.append("|---" * (len(runs) + 2) + "|")
    for label, known in runs["hair"]["methods"].items():
        times = [f"{run['fit_seconds'][label]:.2f}" if label in run["fit_seconds"] else "" for run in runs.values()]
        lines.append(f"| {label} | {' and '.join(known['changes'])} | {' | '.join(times)} |" if label != "none" else "")
    return "\n".join(line for line in lines if line) + "\n"


READING = """
- TO BE WRITTEN FROM THE FIGURES
"""


def main() -> None:
    measure(Path(sys.argv[1]) if len(sys.argv) > 1 else people.DATA)
    Path("docs/methods-mini.md").write_text(page())


if __name__ == "__main__":
    main()
