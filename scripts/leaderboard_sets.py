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
from equipoise.datasets import Dataset
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


# What CelebA's annotators were asked about, as queries; gender, age and looks are left out.
SHOWN = {
    "a photo of a person with glasses": "eyeglasses",
    "a photo of a person with a hat": "wearing_hat",
    "a photo of a person with a necktie": "wearing_necktie",
    "a photo of a person with a necklace": "wearing_necklace",
    "a photo of a person with earrings": "wearing_earrings",
    "a photo of a smiling person": "smiling",
    "a photo of a person with an open mouth": "mouth_slightly_open",
    "a photo of a person with blond hair": "blond_hair",
    "a photo of a person with black hair": "black_hair",
    "a photo of a person with brown hair": "brown_hair",
    "a photo of a person with gray hair": "gray_hair",
    "a photo of a person with wavy hair": "wavy_hair",
    "a photo of a person with straight hair": "straight_hair",
    "a photo of a person with bangs": "bangs",
}
# So many photographs are measured, and so many others fitted on, to keep the whole short.
MEASURED, FITTED = 2000, 1000
PAGE = 200  # places that skew looks at: a tenth of the measured photographs
SURE = 0.9  # of a group that a classifier reads, where nobody has said it
WORK = people.WORK


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
        WORK.mkdir(parents=True, exist_ok=True)
        measured, fitted = people.faces(data, WORK)
        prompts = people.queries(WORK).read_text().splitlines()
        return _evaluation(
            "retrieval",
            _some(measured, MEASURED, group_columns=list(groups)),
            _some(fitted, FITTED, group_columns=list(groups)),
            prompts=prompts,
            settings=_with(settings, m=PAGE),
        )

    return build


def _shown(data: Path, settings: Settings) -> Evaluation:
    """CelebA: fourteen things that a photograph shows, asked for in words."""
    WORK.mkdir(parents=True, exist_ok=True)
    measured, fitted = people.celebrities(data, WORK)
    return _evaluation(
        "retrieval",
        _some(measured, MEASURED, group_columns=["gender"]),
        _some(fitted, FITTED, group_columns=["gender"]),
        prompts=list(SHOWN),
        settings=_with(settings, m=PAGE),
    )


def _which_show(data: Path, paths: list[str]) -> dict[str, np.ndarray]:
    """Which of CelebA's photographs show what a query names."""
    columns = ["name", *SHOWN.values()]
    table: Any = pd.read_parquet(data / "people" / "celeba.parquet", columns=columns)
    measured = table.sort_values("name").iloc[-people.TEST_CELEBRITIES :]
    chosen = measured.iloc[[int(Path(path).stem) for path in paths]]
    return {query: chosen[column].to_numpy() for query, column in SHOWN.items()}


def _hair(data: Path, settings: Settings) -> Evaluation:
    WORK.mkdir(parents=True, exist_ok=True)
    measured, fitted = people.celebrities(data, WORK)
    options: dict[str, Any] = {"label_column": "hair", "group_columns": ["gender"]}
    return _evaluation(
        "classification",
        _some(measured, MEASURED, **options),
        _some(fitted, FITTED, **options),
        book=str(people.hair_book(WORK)),
        settings=settings,
    )


def _at_work(data: Path, settings: Settings) -> Evaluation:
    """IdenProf: ten occupations. Nobody has said the gender of its people, so a classifier does.

    It is fitted on the faces of FairFace and reads the embeddings that methods change; photographs
    of which it is not sure are left out.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    encoder = _mini()
    read = _gender_reader(data, encoder)
    table: Any = pd.read_parquet(data / "people" / "idenprof.parquet")
    parts = {}
    for part, most in (("test", MEASURED), ("train", FITTED)):
        chosen = table[table["split"] == part]
        chosen = chosen.sample(min(len(chosen), most), random_state=0).sort_index()
        path = people.unpacked(chosen, WORK / f"idenprof_{part}")
        files = [str(WORK / file) for file in pd.read_csv(path)["file"]]
        gender = read(encoder.encode_images(files))
        known = chosen.assign(gender=gender, label=chosen["occupation"], path=files)
        known = known[known["gender"].notna()][["path", "label", "gender"]]
        parts[part] = Dataset(f"IdenProf, {part}", known.reset_index(drop=True), ("gender",))
    classes = {name: _occupation(name) for name in sorted(table["occupation"].unique())}
    return _evaluation(
        "classification", parts["test"], parts["train"], prompts=classes, settings=settings
    )


def _occupation(name: str) -> str:
    noun = "police officer" if name == "police" else name
    article = "an" if noun[0] in "aeio" else "a"
    return f"a photo of {article} {noun}"


def _gender_reader(data: Path, encoder: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A classifier of gender by FairFace's labels; None where it is not sure."""
    from sklearn.linear_model import LogisticRegression

    _, fitted = people.faces(data, WORK)
    faces = _some(fitted, FITTED, group_columns=["gender"]).table
    model = LogisticRegression(max_iter=1000)
    wide = np.sqrt(encoder.dim)  # so that entries are about one, and the prior is a weak one
    model.fit(wide * encoder.encode_images(list(faces["path"])), faces["gender"])

    def read(rows: np.ndarray) -> np.ndarray:
        shares = model.predict_proba(wide * rows)
        named = model.classes_[shares.argmax(1)].astype(object)
        named[shares.max(1) < SURE] = None
        return named

    return read


def _captions(data: Path, settings: Settings) -> Evaluation:
    """Flickr8k: the test part by its own captions, whose words also say the gender."""
    WORK.mkdir(parents=True, exist_ok=True)
    table: Any = pd.read_parquet(data / "people" / "flickr8k.parquet")
    gender = eq.Attribute.load("gender")
    said = []
    for captions in table["captions"]:
        groups = {group for text in captions for group in explicit_groups(text, gender)}
        said.append(groups.pop() if len(groups) == 1 else None)
    table["gender"] = said
    table["caption"] = [eq.neutralize(captions[0]) for captions in table["captions"]]
    options: dict[str, Any] = {"caption_column": "caption", "group_columns": ["gender"]}
    parts = {}
    for part in ("test", "train"):
        some = table[(table["split"] == part) & table["gender"].notna()].head(FITTED)
        path = people.unpacked(some, WORK / f"flickr8k_{part}")
        parts[part] = eq.datasets.table(path, **options)
    return _evaluation(
        "retrieval", parts["test"], parts["train"], book="people-gender", settings=settings
    )


def _evaluation(task: str, measured: Dataset, fitted: Dataset, **options: Any) -> Evaluation:
    """The task with the embedded model, whose embeddings of photographs are kept and made once."""
    return Evaluation(
        task,
        measured,
        _mini(),
        fit_on=FitOn(dataset=fitted),
        workdir=WORK / "fits",
        **options,
    )


def _mini() -> Any:
    """The embedded model, which keeps what it has encoded."""
    return eq.load_encoder("mini", cache=WORK / "embeddings.sqlite")


def _some(path: Path, most: int, **options: Any) -> Dataset:
    """So many rows of a table at most, drawn by lot."""
    whole = eq.datasets.table(path, **options)
    chosen = whole.table.sample(min(len(whole.table), most), random_state=0).sort_index()
    return Dataset(whole.name, chosen.reset_index(drop=True), whole.groups)


def _with(settings: Settings, **changed: Any) -> Settings:
    return Settings(**(vars(settings) | changed))


SETS = (
    Set("clip-celeba", "CelebA, CLIP, by gender", _clip_retrieval("celeba"), _worn),
    Set("clip-flickr8k", "Flickr8k, CLIP, by gender", _clip_retrieval("flickr8k")),
    Set("clip-celeba-worn", "CelebA, CLIP, what people wear, by gender", _clip_classes),
    Set("fairface-gender", "FairFace, mini, by gender", _faces("gender")),
    Set("fairface-race", "FairFace, mini, by race", _faces("race")),
    Set("fairface-both", "FairFace, mini, by gender and race", _faces("gender", "race")),
    Set("celeba-attributes", "CelebA, mini, attributes, by gender", _shown, _which_show),
    Set("celeba-hair", "CelebA, mini, blond hair, by gender", _hair),
    Set("idenprof", "IdenProf, mini, occupations, by read gender", _at_work),
    Set("flickr8k-captions", "Flickr8k, mini, by captions and gender", _captions),
)
