"""How much of fairer-clip is its seed: writes docs/measurements/fairer_clip_seeds.json, and its part
of docs/methods.md.

Run from the repository root: ``python -m scripts.fairer_clip_seeds [FOLDER]``, the folder that holds
the embeddings. Twenty seeds of one fit, for three things that people in CelebA's thousand images
wear; fitted on one half of the images, measured on the other.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
from scripts import retrieval_by_gender as clip
from scripts.measured_runs import write_plain

import equipoise as eq

MEASURED = Path("docs/measurements/fairer_clip_seeds.json")
PAGE = Path("docs/methods.md")
WORN = {"Wearing_Hat": "a Hat", "Eyeglasses": "a Glasses", "Wearing_Necktie": "a Tie"}
BARE = "a Human face"
SEEDS = 20


def balanced_accuracy(found: np.ndarray, true: np.ndarray) -> float:
    """The mean of the accuracies of both classes: one half for a guess."""
    return float(np.mean([(found == true)[true == label].mean() for label in np.unique(true)]))


def measure(folder: Path) -> None:
    """The balanced accuracy of every seed."""
    vectors, _ = clip.texts(folder)
    images, table = clip.images(folder, "celeba")
    with np.load(folder / clip.FILES["celeba"], allow_pickle=False) as file:
        names, attributes = file["attr_names"].tolist(), file["attrs"] == 1
    prototypes = {group: vectors.encode_text(words) for group, words in clip.WORDS.items()}
    fitted = np.isin(
        np.arange(len(images)), np.random.default_rng(0).permutation(len(images))[:500]
    )
    rows = []
    for worn, prompt in WORN.items():
        classes = {"worn": prompt, "bare": BARE}
        texts = vectors.encode_text(list(classes.values()))
        labels = np.where(attributes[:, names.index(worn)], "worn", "bare")

        def accuracy(operator, texts=texts, labels=labels, classes=classes) -> float:
            best = operator.scores(images[~fitted], texts).argmax(1)
            return balanced_accuracy(np.array(list(classes))[best], labels[~fitted])

        for balanced in (False, True):
            seeds = []
            for seed in range(SEEDS):
                context = eq.FitContext(
                    eq.Attribute.load("gender"), encoder=vectors, prototypes=prototypes,
                    images=images[fitted], labels=labels[fitted], class_prompts=classes, seed=seed,
                    sensitive_features=table["gender"].to_numpy()[fitted],
                )  # fmt: skip
                method = eq.methods.create("fairer-clip", balanced=balanced)
                seeds.append(accuracy(method.fit(context)))
            plain = accuracy(
                eq.methods.create("none").fit(eq.FitContext(eq.Attribute.load("gender")))
            )
            rows.append(
                {
                    "worn": worn,
                    "images": int((labels[~fitted] == "worn").sum()),
                    "of": int((~fitted).sum()),
                    "balanced": balanced,
                    "none": plain,
                    "seeds": seeds,
                }
            )
    write_plain(MEASURED, {"rows": rows})


def table() -> str:
    """The table, from the file."""
    lines = [
        "| class | images of it | `balanced` | none | worst seed | middle | best | seeds below one half |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in json.loads(MEASURED.read_text())["rows"]:
        seeds = np.array(row["seeds"])
        lines.append(
            f"| {row['worn'].replace('_', ' ').lower()} | {row['images']} of {row['of']}"
            f" | {row['balanced']} | {row['none']:.2f} | {seeds.min():.2f} | {np.median(seeds):.2f}"
            f" | {seeds.max():.2f} | {(seeds < 0.5).sum()} of {len(seeds)} |"
        )
    return "\n".join(lines)


def main() -> None:
    measure(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/embeddings"))
    body = f"<!-- seeds -->\n{table()}\n<!-- end of seeds -->"
    text = PAGE.read_text()
    PAGE.write_text(re.sub(r"<!-- seeds -->.*<!-- end of seeds -->", body, text, flags=re.S))


if __name__ == "__main__":
    main()
