"""Stage 8, second part: which candidates are good, learned from those that somebody looked at.

What a face detector makes of a picture (looks.py) and mini's embedding go into two ridge-penalised
logistic regressions. The scores say whom to look at next; sheets of them are written beside.

python -m training.fitness --candidates candidates.parquet --out fitness.parquet --sheets FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

import equipoise as eq
from training.candidates import BROKEN, GOOD, decoded, drawn
from training.looks import Looker

PENALTY = 0.005  # C of the regressions; .001 to .01 give the same within .01 of AUC
STATED = 2.0  # weight of what is measured, beside the nets' many features, before the penalty
FOLDS, SEED = 5, 0
COLUMNS, ROWS, ENLARGED, MARGIN = 10, 8, 2, 12


def main() -> None:
    """Measure, learn, score; write OUT, its figures beside it, and sheets to look at."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sheets", type=Path, help="Write sheets of the best not looked at.")
    args = parser.parse_args()
    table = pd.read_parquet(args.candidates)
    verdicts = table[["seed"]].merge(drawn(), on="seed")["verdict"].to_numpy()
    pictures = decoded(table)
    rows = measured(pictures, (table["kind"] == "at work").to_numpy(), args.out)
    figures: dict[str, Any] = {"looked at": int((verdicts != "").sum())}
    scores = {"seed": table["seed"].to_numpy()}
    for name, answer in (("not good", verdicts != GOOD), ("broken", verdicts == BROKEN)):
        known = verdicts != ""
        scores[name] = learned(rows[known], answer[known]).predict_proba(rows)[:, 1]
        held_out = out_of_fold(rows[known], answer[known])
        figures[f"AUC, {name}"] = {
            kind: round(float(roc_auc_score(answer[known][of], held_out[of])), 4)
            for kind in ("portrait", "at work")
            for of in [(table["kind"] == kind).to_numpy()[known]]
        }
    pd.DataFrame(scores).to_parquet(args.out, index=False)
    args.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    if args.sheets:
        order = np.argsort(scores["not good"])
        write_sheets(pictures, table["seed"].to_numpy(), order[verdicts[order] == ""], args.sheets)


def measured(pictures: np.ndarray, at_work: np.ndarray, out: Path) -> np.ndarray:
    """Rows of all that is known of the pictures, each column of spread one before weighting; kept
    beside OUT, because the detector takes a fifth of a second a picture.
    """
    kept = out.with_suffix(".npz")
    if kept.is_file() and len(np.load(kept)["looks"]) == len(pictures):
        found = np.load(kept)
        looks, features, embedded = found["looks"], found["features"], found["embedded"]
    else:
        looks, features = Looker()(pictures)
        images = [Image.fromarray(picture) for picture in pictures]
        embedded = np.asarray(eq.load_encoder("mini").encode_images(images))
        np.savez(kept, looks=looks, features=features, embedded=embedded)
    parts = [StandardScaler().fit_transform(part) for part in (looks, features, embedded)]
    return np.concatenate([STATED * parts[0], *parts[1:], 3.0 * at_work[:, None]], axis=1)


def learned(rows: np.ndarray, answer: np.ndarray) -> LogisticRegression:
    """A regression of an answer of yes or no."""
    return LogisticRegression(C=PENALTY, max_iter=3000).fit(rows, answer)


def out_of_fold(rows: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """The probability of each row by a regression that did not see it."""
    held_out = np.zeros(len(rows))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    for seen, unseen in folds.split(rows, answer):
        held_out[unseen] = learned(rows[seen], answer[seen]).predict_proba(rows[unseen])[:, 1]
    return held_out


def write_sheets(pictures: np.ndarray, seeds: np.ndarray, order: np.ndarray, out: Path) -> None:
    """Numbered by seed, enlarged, a page each."""
    side, each = pictures.shape[1] * ENLARGED, COLUMNS * ROWS
    for start in range(0, len(order), each):
        page = Image.new("RGB", (COLUMNS * side, ROWS * (side + MARGIN)), "white")
        pen = ImageDraw.Draw(page)
        for place, i in enumerate(order[start : start + each]):
            x, y = place % COLUMNS * side, place // COLUMNS * (side + MARGIN)
            pen.text((x, y), str(seeds[i]), fill="black")
            large = Image.fromarray(pictures[i]).resize((side, side), Image.Resampling.BICUBIC)
            page.paste(large, (x, y + MARGIN))
        page.save(out / f"sheet_{start // each:03d}.png")


if __name__ == "__main__":
    main()
