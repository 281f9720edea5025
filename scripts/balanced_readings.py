"""What the description of balanced search leaves open, and what each reading of it gives: writes
docs/measurements/balanced_readings.json, which docs/decisions/methods.md tells of.

Run from the repository root: ``python -m scripts.balanced_readings [DATA]``, the folder that holds
embeddings/ and people/. It shares no code with the package's own solver: plain bisection in
float64, on all images.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scripts import balanced_results as results
from scripts import people
from scripts import retrieval_by_gender as clip

import equipoise as eq
from equipoise.evaluation._retrieval import rank
from equipoise.methods import FitContext
from equipoise.methods._fitting_texts import prototypes
from equipoise.prompts._book_choice import book_for

OUT = Path("docs/measurements/balanced_readings.json")
STEPS = 60
BRACKETS = (1.0, 2.0, 5.0, 10.0, 100.0)
ENDINGS = (20, 30, 40, 50, 60)  # steps of a bisection
RULES = ("nearer", "other", "below", "above", "chance", "fractions")


@dataclass(frozen=True)
class Reading:
    """One way to read the description; the defaults are ours."""

    kind: str = "soft"  # text, soft, hard
    rows: str = "unit"  # or stored
    words: str = "spherical"  # mean of two words; or arithmetic, first
    centred: bool = False
    steepness: float = 4.0
    ridge: float = 1.0
    fitted: str = "labelled"  # or all: the images without a label too


READINGS = {
    "ours": Reading(),
    "rows as stored": Reading(rows="stored"),
    "prototypes: arithmetic mean": Reading(words="arithmetic"),
    "prototypes: man and woman alone": Reading(words="first"),
    "z less its mean": Reading(centred=True),
    "steepness 2": Reading(steepness=2),
    "steepness 8": Reading(steepness=8),
    "ridge 0.1": Reading(ridge=0.1),
    "ridge 10": Reading(ridge=10),
    "hard assignments": Reading(kind="hard"),
    "fitted on all 1,000": Reading(fitted="all"),
}


class Question(NamedTuple):
    """Scores (q, n), memberships (n,), whether an image shows a man (n,), and k."""

    scores: np.ndarray
    memberships: np.ndarray
    male: np.ndarray
    k: int


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


# --- Pages


def first(lifted: np.ndarray, k: int) -> np.ndarray:
    return np.argpartition(-lifted, k - 1, axis=1)[:, :k]


def bisected(given: Question, reach: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The ends (q,) of the bracket of lam after so many halvings."""
    offsets = given.memberships - given.memberships.mean()
    low = np.full(len(given.scores), -reach)
    high = -low
    for _ in range(steps):
        middle = (low + high) / 2
        page = first(given.scores - middle[:, None] * offsets, given.k)
        too_high = offsets[page].sum(axis=1) > 0
        low = np.where(too_high, middle, low)
        high = np.where(too_high, high, middle)
    return low, high


def skew(given: Question, shares: np.ndarray) -> np.ndarray:
    """MaxSkew (q,) of pages with these shares of men."""
    usual = given.male.mean()
    with np.errstate(divide="ignore"):
        men, women = np.log(shares / usual), np.log((1 - shares) / (1 - usual))
    return np.maximum(men, women)


def by_rule(given: Question) -> dict[str, float]:
    """The mean skew if, of the two optimal pages of each query, a rule takes one.

    below, above: the target. chance: the mean of both. fractions: the mean of both, weighted as the
    programme takes them.
    """
    offsets = given.memberships - given.memberships.mean()
    reach = 50 * float(given.scores.std() / offsets.std())
    drifts, skews = [], []
    for lam in bisected(given, reach, STEPS):
        page = first(given.scores - lam[:, None] * offsets, given.k)
        drifts.append(offsets[page].sum(axis=1))
        skews.append(skew(given, given.male[page].mean(axis=1)))
    above, below = skews
    share = drifts[0] / np.maximum(drifts[0] - drifts[1], 1e-300)
    below_is_nearer = share >= 0.5
    found = {
        "nearer": np.where(below_is_nearer, below, above),
        "other": np.where(below_is_nearer, above, below),
        "below": below,
        "above": above,
        "chance": (below + above) / 2,
        "fractions": share * below + (1 - share) * above,
    }
    return {rule: float(found[rule].mean()) for rule in RULES}


def as_bisections_end(given: Question) -> list[float]:
    """The mean skew of the page in the middle of the bracket, for each bracket and ending."""
    found = []
    for reach in BRACKETS:
        for steps in ENDINGS:
            low, high = bisected(given, reach, steps)
            middle = (low + high) / 2
            page = first(given.scores - middle[:, None] * given.memberships, given.k)
            found.append(float(skew(given, given.male[page].mean(axis=1)).mean()))
    return found


# --- Memberships


def memberships(rows: np.ndarray, axis: np.ndarray, reading: Reading) -> np.ndarray:
    """Weights (d,) of a linear membership, fitted on rows (n, d)."""
    z = rows @ axis
    if reading.kind == "text":
        return axis / z.std()
    z = (z - z.mean() * reading.centred) / z.std()
    y = (z > 0).astype(np.float64)
    if reading.kind == "soft":
        y = 1 / (1 + np.exp(-reading.steepness * z))
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    added = reading.ridge * np.trace(covariance) / len(axis) * np.eye(len(axis))
    return np.linalg.solve(covariance + added, centred.T @ (y - y.mean()) / len(rows))


def clip_question(folder: Path, name: str, reading: Reading) -> Question:
    """CelebA or Flickr8k."""
    vectors, prompts = clip.texts(folder)
    labelled, table = clip.images(folder, name)
    everything = labelled
    if reading.fitted == "all":
        with np.load(folder / clip.FILES[name], allow_pickle=False) as file:
            everything = file["image"]
    groups = []
    for words in clip.WORDS.values():
        texts = unit(np.asarray(vectors.encode_text(words), np.float64))
        mean = texts[0] if reading.words == "first" else texts.mean(axis=0)
        groups.append(mean if reading.words == "arithmetic" else unit(mean))
    rows, fitted = (part.astype(np.float64) for part in (labelled, everything))
    if reading.rows == "unit":
        rows, fitted = unit(rows), unit(fitted)
    weights = memberships(fitted, unit(groups[0] - groups[1]), reading)
    queries = unit(np.asarray(vectors.encode_text(prompts), np.float64))
    male = table["gender"].to_numpy(str) == "male"
    return Question(queries @ rows.T, rows @ weights, male, clip.DEPTHS[name])


BARE = {
    "a man, a boy; a woman, a girl": (["a man", "a boy"], ["a woman", "a girl"]),
    "a man; a woman": (["a man"], ["a woman"]),
    "a photo of a man; woman": (["a photo of a man"], ["a photo of a woman"]),
    "a photo of a male; female person": (
        ["a photo of a male person"],
        ["a photo of a female person"],
    ),
    "male; female": (["male"], ["female"]),
}


def face_axes(encoder: eq.encoders.Encoder) -> dict[str, np.ndarray]:
    """The axis of each choice of prototypes."""
    gender = eq.Attribute.load("gender")
    axes = {}
    for book in ("occupations-gender", "people-gender"):
        prompts = list(eq.PromptBook.curated(book).prompts)
        context = FitContext(gender, encoder=encoder, book=book_for(prompts, gender, None))
        for part in ("both", "anchor", "variants"):
            men, women = prototypes("balanced", context, part)
            axes[f"{book}, {part}"] = unit(men - women)
    for name, words in BARE.items():
        men, women = (unit(np.asarray(encoder.encode_text(one), np.float64)) for one in words)
        axes[name] = unit(unit(men.mean(axis=0)) - unit(women.mean(axis=0)))
    return axes


# --- What is written


def of_clip(folder: Path) -> dict[str, dict[str, dict[str, object]]]:
    found: dict[str, dict[str, dict[str, object]]] = {}
    for name in clip.DEPTHS:
        found[name] = {"rules": {}, "bisections": {}}
        for label, reading in READINGS.items():
            if reading.fitted == "all" and name == "celeba":
                continue  # all of its images have labels
            found[name]["rules"][f"index, {label}"] = by_rule(clip_question(folder, name, reading))
        text = replace(READINGS["ours"], kind="text")
        for label, reading in (("text", text), ("index", READINGS["ours"])):
            given = clip_question(folder, name, reading)
            found[name]["rules"].setdefault(f"{label}, ours", by_rule(given))
            found[name]["bisections"][label] = as_bisections_end(given)
            print(name, label, flush=True)
    return found


def of_faces(data: Path) -> dict[str, dict[str, float]]:
    encoder = eq.load_encoder("mini")
    stored, table = results.embedded(data, "fairface_val", encoder)
    rows = unit(stored.astype(np.float64))
    prompts = list(eq.PromptBook.curated("occupations-gender").prompts)
    scores = unit(np.asarray(encoder.encode_text(prompts), np.float64)) @ rows.T
    male = table["gender"].to_numpy(str) == "male"
    found = {}
    for name, axis in face_axes(encoder).items():
        for kind in ("text", "soft", "hard"):
            weights = memberships(rows, axis, Reading(kind=kind))
            found[f"{name}: {kind}"] = by_rule(Question(scores, rows @ weights, male, 500))
        print(name, found[f"{name}: soft"], flush=True)
    return found


def beside_faces(data: Path) -> dict[str, object]:
    """``adapted`` at infinity with bare words, and the skew of shuffled labels under 34 queries:
    mean and standard deviation over 200 shuffles.
    """
    encoder = eq.load_encoder("mini")
    rows, table = results.embedded(data, "fairface_val", encoder)
    groups = table["gender"].to_numpy(str)
    prompts = list(eq.PromptBook.curated("occupations-gender").prompts)
    texts = np.asarray(encoder.encode_text(prompts))
    words = next(iter(BARE.values()))
    named = {
        group: np.asarray(encoder.encode_text(one))
        for group, one in zip(("male", "female"), words, strict=True)
    }
    context = FitContext(eq.Attribute.load("gender"), prototypes=named, images=rows)
    operator = eq.methods.create("adapted", kappa=float("inf")).fit(context)
    top = rank(operator, rows, texts, prompts, 500)
    rng = np.random.default_rng(0)
    shuffled = []
    for _ in range(200):
        pages = np.array([rng.permutation(len(rows))[:500] for _ in prompts])
        shuffled.append(eq.metrics.max_skew(top=pages, sensitive_features=groups, m=500))
    return {
        "adapted": float(eq.metrics.max_skew(top=top, sensitive_features=groups, m=500)),
        "shuffled": [float(np.mean(shuffled)), float(np.std(shuffled))],
    }


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else people.DATA
    document = {
        "faces": of_faces(data),
        "beside_faces": beside_faces(data),
        **of_clip(data / "embeddings"),
    }
    OUT.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
