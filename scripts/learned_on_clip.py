"""Learned methods on real CLIP embeddings: fitted on one half of a set, measured on the other;
writes docs/measurements/learned_on_clip_*.json.

Run from the repository root: ``python -m scripts.learned_on_clip [FOLDER]``, the folder that holds
the embeddings.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from scripts.measured_runs import MeasuredRun, ProbedMethod, given, read
from scripts.retrieval_by_gender import DEPTHS, MEASUREMENTS, NAMES, WORDS, images, texts

import equipoise as eq
from equipoise.evaluation import Evaluation, Settings, parse
from equipoise.evaluation import _grids as grids
from equipoise.evaluation._run_file import write

GENDER = eq.Attribute("gender", ("male", "female"))
BOOK = {
    "a Person": {"male": ["a Man"], "female": ["a Woman"]},
    "a Child": {"male": ["a Boy"], "female": ["a Girl"]},
}
SMALL = {
    "batch": 64,
    "epochs": 100,
}  # a few hundred images: more and smaller steps than the defaults, which are for tens of thousands
SETTINGS = {  # label: method, parameters and seed; chosen before anything was measured
    "closed-form": ("closed-form", {}, 0),
    "dear": ("dear", {}, 0),
    "dear, more steps": ("dear", {**SMALL, "weight": 0.1}, 0),
    "dear, unbounded, more steps": ("dear", {**SMALL, "weight": 0.1, "objective": "unbounded"}, 0),
    "joint-vl, more steps": ("joint-vl", {**SMALL, "lr": 1e-4}, 0),
    "joint-vl, subtract, more steps": ("joint-vl", {**SMALL, "lr": 1e-4, "sign": "subtract"}, 0),
    "prism, seed 0": ("prism", {}, 0),
    "prism, seed 1": ("prism", {}, 1),
    "prism, seed 2": ("prism", {}, 2),
    "prism, from the identity": ("prism", {"init": "identity", "lr": 0.01}, 0),
    "saner, from one prompt": ("saner", {"epochs": 500, "lr": 1e-3}, 0),
}


def measure(folder: Path, name: str) -> None:
    """Two runs' worth in one file: retrieval on the half that nothing was fitted on, and the
    probe's AUC there.
    """
    vectors, queries = texts(folder)
    rows, table = images(folder, name)
    order = np.random.default_rng(0).permutation(len(rows))
    seen, held = np.sort(order[: len(rows) // 2]), np.sort(order[len(rows) // 2 :])
    prototypes = {group: vectors.encode_text(words) for group, words in WORDS.items()}
    labelled = {"images": rows[seen], "sensitive_features": table["gender"].to_numpy()[seen]}
    book = eq.PromptBook.of(BOOK)
    with tempfile.TemporaryDirectory() as place:
        operators = {}
        for label, (method, params, seed) in SETTINGS.items():
            source = {
                "encoder": vectors,
                "book": book if method == "prism" else book.subset(["a Person"]),
            }
            source = {"prototypes": prototypes} if method in ("closed-form", "joint-vl") else source
            context = eq.FitContext(
                GENDER,
                **source,
                **(labelled if method in ("dear", "joint-vl") else {}),
                seed=seed,
                device="cpu",
            )
            operators[label] = eq.methods.create(method, **params).fit(context)
            operators[label].save(Path(place) / f"{label}.safetensors")
        dataset = eq.datasets.Dataset(
            f"{NAMES[name]}, the other half", table.iloc[held].reset_index(drop=True), ("gender",)
        )
        task = Evaluation(
            "retrieval",
            dataset,
            vectors,
            book=book,
            embeddings=rows[held],
            prompts=queries,
            settings=Settings(m=DEPTHS[name] // 2),
        )
        run = task.run(parse(str(Path(place) / f"{label}.safetensors") for label in SETTINGS))
    changed = {"none": rows[held]} | {
        label: op.image(rows[held]) for label, op in operators.items() if "image" in op.changes
    }
    probe = eq.metrics.leakage_probe(changed, sensitive_features=table["gender"].to_numpy()[held])
    found = run.to_plain()
    for about in found["methods"].values():
        about.pop("file", None)
    found["probe"] = [_probed(probe, label) for label in changed]
    write(MEASUREMENTS / f"learned_on_clip_{name}.json", MeasuredRun.model_validate(found))


def _probed(probe: eq.metrics.Bootstrap, label: str) -> ProbedMethod:
    estimate = probe.estimate(label, "probe AUC")
    return ProbedMethod(
        method=label,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
    )


def page() -> str:
    """The tables, from the files."""
    parts = []
    for name in DEPTHS:
        run = read(MEASUREMENTS / f"learned_on_clip_{name}.json")
        skew = next(row.metric for row in run.rows if row.metric.startswith("MS@"))
        aucs = {row.method: row for row in run.probe}
        floor = given(next(row.floor for row in run.rows if row.metric == skew))
        lines = [
            (
                f"{run.dataset.name}: {run.dataset.images} images,"
                f" {run.dataset.prompts} queries, floor of {skew} {100 * floor:.1f}"
            ),
            "",
        ]
        lines += [f"| method | {skew} | minus none | probe AUC |", "|---|---|---|---|"]
        for row in run.rows:
            if row.metric == skew:
                difference = grids.interval(row.difference, signed=True) if row.difference else ""
                auc = "images unchanged"
                if row.method in aucs:
                    auc = grids.interval(aucs[row.method])
                lines.append(f"| {row.method} | {grids.interval(row)} | {difference} | {auc} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/embeddings")
    for name in DEPTHS:
        measure(folder, name)
    print(page())


if __name__ == "__main__":
    main()
