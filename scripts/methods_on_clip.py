"""Every method that real CLIP vectors can fit, fitted on half the images and measured on the other:
writes docs/methods-clip.md.

Run from the repository root: ``python -m scripts.methods_on_clip [FOLDER]``, the folder that holds
the embeddings. The results go to docs/measurements/methods_clip_*.json, and the page is made from
them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scripts import retrieval_by_gender as clip
from scripts.measured_runs import MeasuredRun, read

import equipoise as eq
from equipoise._bench import machine
from equipoise.evaluation import Evaluation, Settings, parse
from equipoise.evaluation import _tables as tables
from equipoise.evaluation._run_file import write

GENDER = eq.Attribute.load("gender")
METHODS = [
    "closed-form:kappa=1|inf",
    "adapted:kappa=1|inf",
    "orth-proj",
    "orth-cali",
    "prism-mini",
    "roboshot",
    "clip-clip",
    "sfid:modality=image",
    "leace",
    "leace:renormalise=true",
    "fairer-clip",
    "dear",
]
CLASSES = {"hat": "a Hat", "glasses": "a Glasses", "neither": "a Human face"}
DEPTHS = {"celeba": 100, "flickr8k": 50}
MEASUREMENTS = Path("docs/measurements")


def halves(table: pd.DataFrame, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places of the images to fit on and of those to measure on, each half of every gender."""
    rng = np.random.default_rng(seed)
    first = np.zeros(len(table), bool)
    for gender in GENDER.groups:
        members = rng.permutation(np.flatnonzero(table["gender"] == gender))
        first[members[: len(members) // 2]] = True
    return np.flatnonzero(first), np.flatnonzero(~first)


def wearing(folder: Path) -> np.ndarray:
    """CelebA's images by what they wear: a hat, glasses, neither; None for both."""
    with np.load(folder / clip.FILES["celeba"], allow_pickle=False) as file:
        names, attrs = file["attr_names"].tolist(), file["attrs"] == 1
    hat, glasses = (attrs[:, names.index(name)] for name in ("Wearing_Hat", "Eyeglasses"))
    worn = np.where(hat, "hat", np.where(glasses, "glasses", "neither")).astype(object)
    worn[hat & glasses] = None
    return worn


def fit(
    context: eq.FitContext, folder: Path, skip: tuple[str, ...] = ()
) -> tuple[list[str], dict[str, dict]]:
    """An operator's file for each method, and how long its fit took."""
    files, about = [], {}
    for spec in parse(text for text in METHODS if text.partition(":")[0] in eq.methods.names()):
        if spec.name in skip:
            continue
        start = time.perf_counter()
        operator = eq.methods.create(spec.name, **spec.params).fit(context)
        seconds = time.perf_counter() - start
        path = folder / f"{spec.label}.safetensors"
        operator.save(path)
        files.append(str(path))
        about[spec.label] = {
            "fit_seconds": seconds,
            "kilobytes": path.stat().st_size / 1000,
            "changes": " and ".join(operator.changes),
        }
    return files, about


def measure(folder: Path, name: str, task: str) -> MeasuredRun:
    """The document of one set and task."""
    vectors, queries = clip.texts(folder)
    rows, table = clip.images(folder, name)
    table["label"] = wearing(folder) if name == "celeba" else "none"
    first, second = halves(table)
    classes = (
        {"class_prompts": CLASSES, "labels": table["label"].to_numpy()[first]}
        if task == "classification"
        else {}
    )
    prototypes = {group: vectors.encode_text(words) for group, words in clip.WORDS.items()}
    context = eq.FitContext(
        GENDER, encoder=vectors, prototypes=prototypes, images=rows[first],
        sensitive_features=table["gender"].to_numpy()[first], **classes,
    )  # fmt: skip
    dataset = eq.datasets.Dataset(
        f"{clip.NAMES[name]}, measured on one half",
        table.iloc[second].reset_index(drop=True),
        ("gender",),
    )
    options = {
        "embeddings": rows[second],
        "prompts": CLASSES if task == "classification" else queries,
    }
    settings = Settings(m=DEPTHS[name] if task == "retrieval" else None)
    with tempfile.TemporaryDirectory() as place:
        files, about = fit(
            context, Path(place), skip=() if task == "classification" else ("fairer-clip",)
        )
        run = Evaluation(
            task, dataset, vectors, attribute=GENDER, settings=settings, **options
        ).run(parse(files))
    found = run.to_plain()
    found["methods"] = {
        Path(label).stem if label != "none" else label: {
            k: v for k, v in known.items() if k != "file"
        }
        for label, known in found["methods"].items()
    }
    found |= {"fits": about, "machine": machine.describe(), "fitted_on": len(first)}
    return MeasuredRun.model_validate(found)


TASKS = (("celeba", "retrieval"), ("flickr8k", "retrieval"), ("celeba", "classification"))
PAGE = """# Every method on real CLIP embeddings

`python -m scripts.methods_on_clip` measures OpenAI CLIP ViT-B/32 embeddings and writes this page and the files in `docs/measurements` that it is made from.
Every method is fitted on one half of the images and measured on the other half. Methods that need labels get them: gender is annotated on CelebA, and read from the captions on
Flickr8k. Prototypes come from matched bare words, "a Man" / "a Woman" and "a Boy" / "a Girl".

The texts that go with these vectors are bare class names, so some methods cannot be fitted here, or not as their authors intended:

- **prism**, **saner**, **prompt-array**, **joint-vl** learn from sentences (captions, templates, a text encoder with gradients); there are none.
- **sfid** changes images only: its text forest needs twenty labelled texts per group, and there are two.
- **roboshot** and **orth-cali** have two pairs where their authors had a dozen, and no list of insights by a language model.
- **fairer-clip** is defined for given classes, so it has a row in classification and none in retrieval.

MS is MaxSkew in percent of a nat, with 495 object names as queries. Beside it stand its floors: the exact expectation of a random ranking, and the value with shuffled
labels. There are no right images for these queries, so look at the classification below to see utility.

{tables}
{fits}
## How to read it

- Near its floor MaxSkew cannot tell methods apart, and with {few} to {many} images the intervals are wide. Paired differences are sharper than the intervals.
- Methods that need labels (clip-clip, sfid, leace, dear) have seen the gender of {fitted} images; the others have seen none. `adapted` has seen the images but not their labels.
- LEACE erases exactly what a linear probe can read on the images that it was fitted on. A probe with its own labels finds more on other images, as the column
  of the probe shows. Unit length brings a little back. fairer-clip's encoding has one dimension less than there are classes, and so it tells less. clip-clip and sfid hide some on Flickr8k and
  nothing on CelebA; dear at its defaults hides nothing.
- In classification the classes are rare ({classes}), so equal opportunity has wide intervals. Do not rank methods by it here.
"""


def fits_table(runs: list[MeasuredRun]) -> str:
    lines = [
        "**Fit times and files** (seconds, one fit, "
        + runs[0].machine["processor"]
        + ", 2 cores, others at work)\n"
    ]
    lines += [
        "| method | changes | "
        + " | ".join(f"{run.dataset.name.split(' (')[0]}, {run.task}" for run in runs)
        + " | file |",
        "|---" * (len(runs) + 3) + "|",
    ]
    for label in runs[-1].fits:
        times = [
            f"{run.fits[label]['fit_seconds']:.3f}" if label in run.fits else "" for run in runs
        ]
        known = runs[-1].fits[label]
        lines.append(
            f"| {label} | {known['changes']} | {' | '.join(times)} | {known['kilobytes']:,.0f} kB |"
        )
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the files."""
    runs = [read(MEASUREMENTS / f"methods_clip_{name}_{task}.json") for name, task in TASKS]
    counts = sorted(run.counts.images for run in runs)
    fitted = " and ".join(str(run.fitted_on) for run in runs[:2])
    return PAGE.format(
        tables=tables.markdown(runs), fits=fits_table(runs), few=counts[0], many=counts[-1], fitted=fitted,
        classes=", ".join(f"{label} {count}" for label, count in runs[-1].class_sizes.items()),
    )  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/embeddings")
    for name, task in TASKS:
        run = measure(folder, name, task)
        if task == "classification":
            kept = wearing(folder)[halves(clip.images(folder, name)[1])[1]]
            sizes = {label: int((kept == label).sum()) for label in CLASSES}
            run = run.model_copy(update={"class_sizes": sizes})
        write(MEASUREMENTS / f"methods_clip_{name}_{task}.json", run)
    Path("docs/methods-clip.md").write_text(page())


if __name__ == "__main__":
    main()
