"""The figures of the model card, measured on the shipped files through ``load_encoder("mini")``,
each with n and a 95 % interval.

python mini/evaluate.py --data DATA [--teacher FOLDER] [--out FIGURES.json]
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parent))
import equipoise as eq
from training import zero_shot
from training.arrays import TEST
from training.labels import AGES, GENDERS, HELD_OUT, OCCUPATIONS, RACES
from training.prepare import known, photographs

RESAMPLES = 2000
SKEW_M = 200


def main() -> None:
    """Measure, print, and write the JSON that the card's table is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, help="all-MiniLM-L6-v2, to compare leans with.")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    began = time.perf_counter()
    encoder = eq.load_encoder("mini")
    loading = time.perf_counter() - began
    figures = {
        "revision": encoder.revision,
        "fingerprint": encoder.fingerprint,
        "loading_seconds": round(loading, 3),
    }
    figures |= from_photographs(encoder, args.data) | from_text(
        encoder.encode_text, args.data, args.teacher
    )
    for name, figure in figures.items():
        print(f"{name:44} {figure}")
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


def from_photographs(encoder: Any, data: Path) -> dict[str, Any]:
    """Zero-shot figures on the test parts."""
    table = photographs(data)
    table = table.loc[table["part"] == TEST].reset_index(drop=True)
    began = time.perf_counter()
    images = encoder.encode_images(
        [Image.open(io.BytesIO(picture)).convert("RGB") for picture in table["image"]]
    )
    out: dict[str, Any] = {"images_per_second": round(len(images) / (time.perf_counter() - began))}
    bits = np.stack([known(row) for row in table.drop(columns="image").to_dict("records")])
    source, encode = table["source"].to_numpy(), encoder.encode_text

    of = source == "fairface"
    found = zero_shot.faces(encode, images[of], bits[of])
    gender, race, age = (zero_shot.answer(bits[of], slot) for slot in ("gender", "race", "age"))
    out["fairface gender"] = share(found["gender"])
    for i, name in enumerate(GENDERS):
        out[f"fairface gender, {name}"] = share(found["gender"][gender == i])
    for i, name in enumerate(RACES):
        out[f"fairface gender, {name}"] = share(found["gender"][race == i])
    for name, some in (
        ("under 10", age < AGES.index("10-19")),
        ("10 and over", age >= AGES.index("10-19")),
    ):
        out[f"fairface gender, {name}"] = share(found["gender"][some])
    out["fairface race"] = share(found["race"])
    for i, name in enumerate(RACES):
        out[f"fairface race, {name}"] = share(found["race"][race == i])
    right, old = found["youth"]
    out["fairface young or old, balanced"] = interval(
        lambda rows: balanced(right[rows], old[rows]), len(right)
    )
    out["alignment of text and image gender axes"] = round(
        zero_shot.alignment(encode, images[of], bits[of]), 3
    )

    of_work = source == "idenprof"
    out["idenprof occupation"] = share(
        zero_shot.predict(encode, images[of_work], "occupation")
        == zero_shot.answer(bits[of_work], "occupation")
    )
    of_celeba = source == "celeba"
    for name in zero_shot.AUC:
        has, margin = (
            zero_shot.answer(bits[of_celeba], name) == 0,
            zero_shot.margin(encode, images[of_celeba], name),
        )
        out[f"celeba {name}, AUC"] = interval(
            lambda rows, has=has, margin=margin: roc_auc_score(has[rows], margin[rows]),
            len(has),
            resamples=500,
        )
    of_flickr = source == "flickr8k"
    captions = table.loc[of_flickr, "captions"].tolist()
    texts = encode([text for five in captions for text in five])
    target = np.repeat(np.arange(len(captions)), [len(five) for five in captions])
    for k in (1, 5, 10):
        hits = zero_shot.recall(images[of_flickr], texts, target, k)
        out[f"flickr8k text to image, R@{k}"] = interval(
            lambda rows, hits=hits: hits.reshape(len(captions), -1)[rows].mean(), len(captions)
        )
    out["fairface MaxSkew@200 by gender, 60 occupations"] = skew(encode, images[of], gender)
    return out


def from_text(encode: Callable, data: Path, teacher: Path | None) -> dict[str, Any]:
    """Leans of occupations, beside the teacher's and beside the share of women."""
    batch = ["a photo of a young doctor at work"] * 64
    encode(batch)
    began = time.perf_counter()
    for _ in range(20):
        encode([f"{text} {i}" for i, text in enumerate(batch)])
    out: dict[str, Any] = {
        "short_texts_per_second": round(20 * len(batch) / (time.perf_counter() - began))
    }
    if teacher:
        from training.teacher import Teacher

        theirs = Teacher(teacher)
        for name, occupations in (("held-out", HELD_OUT), ("seen", OCCUPATIONS)):
            lean = (
                zero_shot.leans(encode, occupations),
                zero_shot.leans(lambda texts: theirs(texts).numpy(), occupations),
            )
            out[f"lean of {name} occupations, Spearman with the teacher"] = correlation(*lean)
    kay = pd.read_csv(
        data
        / "annotations"
        / "kay2015"
        / "filtered_bls_occupations_with_search_gender_proportions.csv"
    )
    out["lean, Spearman with share of women (Kay 2015)"] = correlation(
        -zero_shot.leans(encode, kay["search_term"].tolist()), kay["bls_p_women"].to_numpy()
    )
    return out


def skew(encode: Callable, images: np.ndarray, gender: np.ndarray) -> dict[str, float]:
    """Mean MaxSkew of occupation prompts, and what random labels would give."""
    texts = encode([zero_shot.article(f"a photo of a {name}") for name in OCCUPATIONS[::5][:60]])
    groups = np.array(GENDERS)[gender]
    return {
        "value": round(
            float(eq.metrics.max_skew(texts @ images.T, sensitive_features=groups, m=SKEW_M)), 3
        ),
        "floor": round(float(eq.metrics.max_skew_floor(sensitive_features=groups, m=SKEW_M)), 3),
        "n": len(images),
    }


def share(right: np.ndarray) -> dict[str, Any]:
    """Of correct answers."""
    return interval(lambda rows: right[rows].mean(), len(right))


def balanced(right: np.ndarray, old: np.ndarray) -> float:
    """Mean accuracy of two classes."""
    return float((right[old].mean() + right[~old].mean()) / 2)


def interval(statistic: Callable, n: int, resamples: int = RESAMPLES) -> dict[str, Any]:
    """The value, and the middle 95 % of what resampled photographs give."""
    rng = np.random.default_rng(0)
    low, high = np.percentile(
        [statistic(rng.integers(0, n, n)) for _ in range(resamples)], [2.5, 97.5]
    )
    return {
        "value": round(float(statistic(np.arange(n))), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
        "n": n,
    }


def correlation(a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    """Spearman's, over occupations."""
    return interval(lambda rows: spearmanr(a[rows], b[rows])[0], len(a))


if __name__ == "__main__":
    main()
