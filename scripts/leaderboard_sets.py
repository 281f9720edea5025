"""The sets that scripts/leaderboard.py measures methods on, each as an ``Evaluation``.

A set that is added here is a table of the leaderboard; nothing else needs to know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scripts import people
from scripts import retrieval_by_gender as clip
from scripts.methods_on_clip import CLASSES, wearing

import equipoise as eq
from equipoise.evaluation import Evaluation, Settings
from equipoise.evaluation._fitting_images import FitOn
from equipoise.prompts._stated_groups import explicit_groups

WORN = {
    "a Hat": "Wearing_Hat",
    "a Glasses": "Eyeglasses",
    "a Tie": "Wearing_Necktie",
    "a Necklace": "Wearing_Necklace",
    "a Earrings": "Wearing_Earrings",
}


class Set(NamedTuple):
    """A set of images and what is asked of them.

    build: from the folder of the data and the settings, the evaluation. found: from the folder and
    the paths of the measured images, which of them each query should find; for the mean average
    precision.
    """

    name: str
    title: str
    build: Callable[[Path, Settings], Evaluation]
    found: Callable[[Path, list[str]], dict[str, np.ndarray]] | None = None


def _clip_retrieval(name: str) -> Callable[[Path, Settings], Evaluation]:
    def build(data: Path, settings: Settings) -> Evaluation:
        folder = data / "embeddings"
        vectors, queries = clip.texts(folder)
        rows, table = clip.images(folder, name)
        return Evaluation(
            "retrieval",
            eq.datasets.Dataset(clip.NAMES[name], table, ("gender",)),
            vectors,
            book=eq.PromptBook.of({"a Person": clip.WORDS}),
            embeddings=rows,
            prompts=queries,
            settings=_with(settings, m=clip.DEPTHS[name]),
            fit_on=FitOn(share=0.5),
        )

    return build


def _clip_classes(data: Path, settings: Settings) -> Evaluation:
    folder = data / "embeddings"
    vectors, _ = clip.texts(folder)
    table: Any
    rows, table = clip.images(folder, "celeba")
    table["label"] = wearing(folder)
    known = table["label"].notna().to_numpy()
    return Evaluation(
        "classification",
        eq.datasets.Dataset(clip.NAMES["celeba"], table[known].reset_index(drop=True), ("gender",)),
        vectors,
        book=eq.PromptBook.of({"a Person": clip.WORDS}),
        embeddings=rows[known],
        prompts=CLASSES,
        settings=settings,
        fit_on=FitOn(share=0.5),
    )


def _worn(data: Path, paths: list[str]) -> dict[str, np.ndarray]:
    """Which of CelebA's images show what a query names."""
    with np.load(data / "embeddings" / clip.FILES["celeba"], allow_pickle=False) as file:
        names, attributes = file["attr_names"].tolist(), file["attrs"] == 1
        place = {str(path): i for i, path in enumerate(file["filename"])}
    chosen = [place[path] for path in paths]
    vectors, _ = clip.texts(data / "embeddings")
    known = {query: worn for query, worn in WORN.items() if query in vectors.rows}
    return {query: attributes[chosen, names.index(worn)] for query, worn in known.items()}


def _faces(*groups: str) -> Callable[[Path, Settings], Evaluation]:
    def build(data: Path, settings: Settings) -> Evaluation:
        people.WORK.mkdir(parents=True, exist_ok=True)
        measured, fitted = people.faces(data, people.WORK)
        prompts = people.queries(people.WORK).read_text().splitlines()
        return Evaluation(
            "retrieval",
            eq.datasets.table(measured, group_columns=list(groups)),
            eq.load_encoder("mini"),
            prompts=prompts,
            settings=settings,
            fit_on=FitOn(dataset=eq.datasets.table(fitted, group_columns=list(groups))),
            workdir=people.WORK / "fits",
        )

    return build


def _hair(data: Path, settings: Settings) -> Evaluation:
    people.WORK.mkdir(parents=True, exist_ok=True)
    measured, fitted = people.celebrities(data, people.WORK)
    options: dict[str, Any] = {"label_column": "hair", "group_columns": ["gender"]}
    return Evaluation(
        "classification",
        eq.datasets.table(measured, **options),
        eq.load_encoder("mini"),
        book=str(people.hair_book(people.WORK)),
        settings=settings,
        fit_on=FitOn(dataset=eq.datasets.table(fitted, **options)),
        workdir=people.WORK / "fits",
    )


def _captions(data: Path, settings: Settings) -> Evaluation:
    """Flickr8k: the test part by its own captions, whose words also say the gender."""
    people.WORK.mkdir(parents=True, exist_ok=True)
    table: Any = pd.read_parquet(data / "people" / "flickr8k.parquet")
    gender = eq.Attribute.load("gender")
    said = []
    for captions in table["captions"]:
        groups = {group for text in captions for group in explicit_groups(text, gender)}
        said.append(groups.pop() if len(groups) == 1 else None)
    table["gender"] = said
    table["caption"] = [eq.neutralize(captions[0]) for captions in table["captions"]]
    parts = {}
    for part in ("test", "train"):
        some = table[(table["split"] == part) & table["gender"].notna()].head(people.FIT_FACES)
        parts[part] = people.unpacked(some, people.WORK / f"flickr8k_{part}")
    options: dict[str, Any] = {"caption_column": "caption", "group_columns": ["gender"]}
    return Evaluation(
        "retrieval",
        eq.datasets.table(parts["test"], **options),
        eq.load_encoder("mini"),
        book="people-gender",
        settings=settings,
        fit_on=FitOn(dataset=eq.datasets.table(parts["train"], **options)),
        workdir=people.WORK / "fits",
    )


def _with(settings: Settings, **changed: Any) -> Settings:
    return Settings(**(vars(settings) | changed))


SETS = (
    Set("clip-celeba", "CelebA, CLIP, by gender", _clip_retrieval("celeba"), _worn),
    Set("clip-flickr8k", "Flickr8k, CLIP, by gender", _clip_retrieval("flickr8k")),
    Set("clip-celeba-worn", "CelebA, CLIP, what people wear, by gender", _clip_classes),
    Set("fairface-gender", "FairFace, mini, by gender", _faces("gender")),
    Set("fairface-race", "FairFace, mini, by race", _faces("race")),
    Set("fairface-both", "FairFace, mini, by gender and race", _faces("gender", "race")),
    Set("celeba-hair", "CelebA, mini, blond hair, by gender", _hair),
    Set("flickr8k-captions", "Flickr8k, mini, by captions and gender", _captions),
)
