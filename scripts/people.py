"""Photographs of people for ``equipoise evaluate`` and ``compare``: JPEG files and tables, from
parquet files that hold both.

What the embedded model has learned from is fitted on and never measured: the parts are those of its
training.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scripts.measured_runs import MeasuredRun

DATA, WORK = Path("../shared/data"), Path("build/people")
FIT_FACES, FIT_CELEBRITIES, TEST_CELEBRITIES = 4000, 4000, 2000
BLOND = 286  # of those 2,000
OCCUPATIONS = (
    "accountant", "actor", "architect", "artist", "athlete", "baker", "barber", "bartender", "biologist", "butcher", "carpenter", "cashier",
    "chef", "chemist", "cleaner", "clerk", "coach", "computer programmer", "construction worker", "cook", "dancer", "dentist", "designer",
    "doctor", "driver", "economist", "editor", "electrician", "engineer", "farmer", "firefighter", "florist", "hairdresser", "housekeeper",
    "journalist", "judge", "lawyer", "librarian", "lifeguard", "mathematician", "mechanic", "musician", "nurse", "painter", "pharmacist",
    "photographer", "pilot", "plumber", "police officer", "professor", "psychologist", "receptionist", "scientist", "secretary", "singer",
    "social worker", "soldier", "surgeon", "teacher", "writer",
)  # fmt: skip


PLACES = (
    "at a party", "at home", "at school", "at the beach", "at work", "in a bar", "in a car", "in a city", "in a garden", "in a hotel",
    "in a kitchen", "in a library", "in a meeting", "in a museum", "in a park", "in a restaurant", "in a shop", "in a street",
    "in an office", "on a bridge", "on a mountain", "on a sofa", "on a stage", "on a train",
)  # fmt: skip


def queries(work: Path) -> Path:
    """A file of 60 occupation prompts."""
    path = work / "occupations.txt"
    lines = [f"a photo of {'an' if name[0] in 'aeio' else 'a'} {name}" for name in OCCUPATIONS]
    path.write_text("\n".join(lines) + "\n")
    return path


def hair_book(work: Path) -> Path:
    """A book of 48 prompts, blond hair or not in 24 places, each for a man and for a woman, written
    by rule.
    """
    prompts, book = work / "hair.txt", work / "hair.json"
    lines = [
        f"a photo of a person with {hair} hair {place}"
        for place in PLACES
        for hair in ("blond", "non-blond")
    ]
    prompts.write_text("\n".join(lines) + "\n")
    equipoise("prompts", "write", "--from", prompts, "--out", book, "--force")
    return book


def faces(data: Path, work: Path) -> tuple[Path, Path]:
    """FairFace: tables of its validation part, which is measured, and of some of its training part,
    to fit on.
    """
    measured = _read(data, "fairface_val")
    training = pd.concat([_read(data, f"fairface_train_{i}") for i in range(3)], ignore_index=True)
    some = np.sort(np.random.default_rng(0).choice(len(training), FIT_FACES, replace=False))
    return unpacked(measured, work / "fairface_val"), unpacked(
        training.iloc[some], work / "fairface_train"
    )


def celebrities(data: Path, work: Path) -> tuple[Path, Path]:
    """CelebA, blond or not, by gender and age: the last 2,000, which mini has not seen, and some of
    the others to fit on.
    """
    table = _read(data, "celeba").sort_values("name")
    table["hair"] = np.where(table["blond_hair"], "blond", "non-blond")
    table["gender"], table["age"] = (
        np.where(table["male"], "male", "female"),
        np.where(table["young"], "young", "old"),
    )
    seen = np.sort(
        np.random.default_rng(0).choice(
            len(table) - TEST_CELEBRITIES, FIT_CELEBRITIES, replace=False
        )
    )
    return unpacked(table.iloc[-TEST_CELEBRITIES:], work / "celeba_test"), unpacked(
        table.iloc[seen], work / "celeba_train"
    )


def _read(data: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(data / "people" / f"{name}.parquet")


def unpacked(table: pd.DataFrame, folder: Path) -> Path:
    """The photographs as files, and beside them a table of what is known of each."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{i:05}.jpg" for i in range(len(table))]
    for name, picture in zip(names, table["image"], strict=True):
        (folder / name).write_bytes(picture)
    path = folder.with_suffix(".csv")
    columns = [column for column in ("gender", "age", "race", "hair", "caption") if column in table]
    table[columns].assign(file=[f"{folder.name}/{name}" for name in names]).to_csv(
        path, index=False
    )
    return path


def compare(folder: Path, *arguments: object, methods: list[str]) -> tuple[str, list[dict]]:
    """``equipoise compare`` on mini: the command as it would be typed, and the runs that it made."""
    typed = [
        "compare",
        *arguments,
        "--out",
        folder,
        "--model",
        "mini",
        *(word for method in methods for word in ("--method", method)),
    ]
    return shlex.join(["equipoise", *map(str, typed)]), json.loads(equipoise(*typed, "--json"))


def equipoise(*words: object) -> bytes:
    """A command, said and run; what it printed."""
    typed = [str(word) for word in words]
    print(shlex.join(["equipoise", *typed]), flush=True)
    return subprocess.run(
        [sys.executable, "-m", "equipoise", *typed], check=True, stdout=subprocess.PIPE
    ).stdout


def merged(runs: list[dict]) -> MeasuredRun:
    """Runs of one grid as one document: the facts, every method, every row once."""
    rows: dict[tuple[str, str], dict] = {}
    for row in (row for run in runs for row in run["rows"]):
        rows.setdefault(
            (row["method"], row["metric"]), row
        )  # each run has ``none`` beside it; that of the first is shown
    methods = {label: about for run in runs for label, about in run["methods"].items()}
    seconds = {
        label: run["fit_seconds"]
        for run in runs
        for label in run["methods"]
        if label != "none" or len(run["methods"]) == 1
    }
    facts = {key: value for key, value in runs[0].items() if key != "key"}
    return MeasuredRun.model_validate(
        facts | {"methods": methods, "rows": list(rows.values()), "fit_seconds": seconds}
    )
