"""Every method on the embedded model and real photographs, by ``equipoise compare``: writes
docs/methods-mini.md.

Run from the repository root: ``python -m scripts.methods_on_mini [DATA]``, the folder that holds
people/. Photographs and runs go to build/people, from where a stopped run goes on; the results to
docs/measurements/methods_mini_*.json, and the page is made from them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from scripts import people
from scripts.measured_runs import MeasuredRun, given, read

from equipoise._bench import machine
from equipoise.evaluation import _grids as grids
from equipoise.evaluation import _tables as tables
from equipoise.evaluation._run_file import write

COMMON = [
    "closed-form:kappa=1|inf",
    "adapted:kappa=1|inf",
    "orth-proj",
    "orth-proj:span=differences",
    "orth-cali",
    "prism-mini",
    "roboshot:tolerance=0.1",
    "clip-clip",
    "sfid:tau=0.9",  # at 0.7 the forest is sure of every photograph, and nothing is left to average
    "sfid:tau=0.9,modality=image",
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
    "joint-vl:queue=1024,epochs=25,lr=0.0001,sign=add|subtract",
]
# by default roboshot takes every difference out, which is most of the space where there are seven
# groups: refused
MORE = {
    "hair": ["roboshot", "fairer-clip", "fairer-clip:balanced=true"],
    "gender": ["roboshot"],
    "race": [],
}
MEASUREMENTS = Path("docs/measurements")
COMMANDS = MEASUREMENTS / "methods_mini_commands.json"


def measure(data: Path) -> None:
    """The three grids."""
    work = people.WORK
    work.mkdir(parents=True, exist_ok=True)
    measured, fitted = people.faces(data, work)
    celebrities, others = people.celebrities(data, work)
    asked = ["--task", "retrieval", "--prompts", people.queries(work)]
    wanted = {
        "hair": [
            celebrities,
            "--fit-dataset",
            others,
            "--label-column",
            "hair",
            "--group-columns",
            "gender",
            "--book",
            people.hair_book(work),
        ],
        "gender": [measured, "--fit-dataset", fitted, "--group-columns", "gender", *asked],
        "race": [measured, "--fit-dataset", fitted, "--group-columns", "race", *asked],
    }
    typed = {}
    for name, arguments in wanted.items():
        typed[name], runs = people.compare(
            work / f"runs_{name}", *arguments, methods=COMMON + MORE[name]
        )
        write(
            MEASUREMENTS / f"methods_mini_{name}.json",
            people.merged(runs).model_copy(update={"machine": machine.describe()}),
        )
    COMMANDS.write_text(json.dumps(typed, indent=1) + "\n")


PAGE = """# Every method on mini

This page has all methods on the embedded model ({encoder}) and real photographs, measured by `equipoise compare`. `python -m scripts.methods_on_mini` unpacks the photographs, runs the commands below and
writes this page from the files in `docs/measurements`. No measured photograph was used to fit a method or to train mini.

- **Classification**: blond hair or not, on {hair} photographs of CelebA, by gender. Methods are fitted on {hair_fit} others. The group prompts are blond hair or not in 24 places, for men and women: {hair_pairs} matched prompts.
- **Retrieval**: 60 occupation prompts over {faces} photographs of FairFace's validation part, by perceived gender and by perceived race (seven groups). Methods are fitted on {faces_fit} photographs of its training part.
  The group prompts are the 60 prompts themselves with each group put in: {gender_pairs} and {race_pairs} matched prompts. Nobody is at work in these photographs, so there is no right image, and no recall.

Methods have their default settings, which are those of the references. Where these are meant for far more images or texts than there are here, a second row has settings that change more
(chosen before measuring, not tuned). `fairer-clip` is defined for given classes, so it has no row in retrieval.

{tables}
{fits}
## How to read it

{reading}

## The commands

{commands}
"""


def page() -> str:
    """The page, from the files."""
    runs = {name: read(MEASUREMENTS / f"methods_mini_{name}.json") for name in MORE}
    pairs = {name: given(run.methods["closed-form"].book).prompts for name, run in runs.items()}
    sizes = {name: f"{run.counts.images:,}" for name, run in runs.items()}
    fitted = {name: f"{given(run.fitting).images:,}" for name, run in runs.items()}
    floors = {
        f"floor_{name}": grids.percent(
            next(row.floor for row in runs[name].rows if row.floor is not None)
        )
        for name in ("gender", "race")
    }
    encoder = runs["hair"].encoder
    commands = "\n".join(
        f"```\n{typed}\n```" for typed in json.loads(COMMANDS.read_text()).values()
    )
    return PAGE.format(
        encoder=f"{encoder.id} {encoder.revision}".strip(), hair=sizes["hair"], hair_fit=fitted["hair"], hair_pairs=pairs["hair"],
        faces=sizes["gender"], faces_fit=fitted["gender"], gender_pairs=pairs["gender"], race_pairs=pairs["race"],
        tables=tables.markdown(list(runs.values())), fits=fits_table(runs), reading=reading(runs, faces=sizes["gender"], hair=sizes["hair"], **floors), commands=commands,
    )  # fmt: skip


def fits_table(runs: dict[str, MeasuredRun]) -> str:
    """How long each fit took."""
    about = runs["hair"].machine
    lines = [
        (
            f"**Fit times** (seconds, one fit each, {about['processor']}, 2 cores, others at work;"
            " the book's texts are encoded in the first of each column, and cached)\n"
        ),
        "| method | changes | " + " | ".join(runs) + " |",
    ]
    lines.append("|---" * (len(runs) + 2) + "|")
    for label, known in runs["hair"].methods.items():
        times = [
            f"{run.fit_seconds[label]:.2f}" if label in run.fit_seconds else ""
            for run in runs.values()
        ]
        lines.append(
            f"| {label} | {' and '.join(known.changes)} | {' | '.join(times)} |"
            if label != "none"
            else ""
        )
    return "\n".join(line for line in lines if line) + "\n"


READING = """
- **What is measured.** Gender and race are as the annotators of FairFace and CelebA perceived them. MS is MaxSkew@1000 of {faces} images; its floor is {floor_gender} by gender and {floor_race} by race.
- **Retrieval by gender.** Without a method, MS is {gender:none}. The closed form in the space of the prompts gives {gender:closed-form}, and {gender:closed-form (kappa=inf)} as a projection: texts and photographs
  do not differ along the same directions. In the space of the photographs themselves it gives {gender:adapted} and, as a projection, {gender:adapted (kappa=inf)}. LEACE, which has seen the labels, gives {gender:leace}.
- **Retrieval by race.** Without a method, MS is {race:none}. The closed form gives {race:closed-form}, adapted as a projection {race:adapted (kappa=inf)}, and LEACE, also a projection, {race:leace}.
- **Classification.** Blond hair goes with gender in CelebA ({hair} photographs, 286 blond, 19 of those men). A part of the gap can be closed at little cost in F1 (orth-proj changes EO_avg by {gap:orth-proj} and F1 by {cost:orth-proj}, prompt-array
  by {gap:prompt-array} and {cost:prompt-array}, the closed form by {gap:closed-form} and {cost:closed-form}). Beyond that, F1 falls with the gap (adapted as a projection: {gap:adapted (kappa=inf)} and {cost:adapted (kappa=inf)}). The intervals of EO depend on 19 photographs;
  with one class and two groups EO_avg and EO_max are the same.
- **The probe.** A fresh linear classifier reads gender with an AUC of {probe:none} if nothing was done, {probe:leace} after LEACE, and {probe:leace (renormalise=True)} once the rows of LEACE have unit length. No other method that keeps the width of the
  rows hides it.
- **Learned methods.** `dear` and `saner` at their authors' learning rates hardly change in some hundred steps. `prism`, `prompt-array` and `joint-vl` do change, but not always towards less skew. Their papers train on ten to forty times as much.
- **fairer-clip** chooses signs by a majority of the images. With one blond photograph in seven, the rare class ends up on the wrong side. `balanced=True` puts it on the right one, and half of the others with it: its encoding is one number, and only the sign counts.
- **roboshot** takes out every difference of the groups; `tolerance=0.1` takes out only those that the prompts share. With seven groups the default would take nearly the whole space, and is refused.
"""
PLACE = re.compile(r"\{(gender|race|probe|gap|cost):([^}]+)\}")
MEANT = {
    "gender": ("gender", ""),
    "race": ("race", ""),
    "probe": ("gender", "probe AUC"),
    "gap": ("hair", "EO_avg"),
    "cost": ("hair", "F1"),
}


def reading(runs: dict[str, MeasuredRun], **numbers: str) -> str:
    """The notes, with the values of the methods that they name; of blond hair, the differences from
    none.
    """

    def value(found: re.Match) -> str:
        name, metric = MEANT[found[1]]
        run = runs[name]
        wanted = found[2], metric or f"MS@{run.settings.m}"
        row = next(row for row in run.rows if (row.method, row.metric) == wanted)
        return (
            grids.interval(given(row.difference), signed=True)
            if found[1] in ("gap", "cost")
            else grids.interval(row)
        )

    return PLACE.sub(value, READING.strip()).format(**numbers)


def main() -> None:
    measure(Path(sys.argv[1]) if len(sys.argv) > 1 else people.DATA)
    Path("docs/methods-mini.md").write_text(page())


if __name__ == "__main__":
    main()
