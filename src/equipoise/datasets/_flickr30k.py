"""Flickr30K: photographs with five captions each.

The paper keeps pictures of one person, and captions with one gender's words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Frame, Sieve
from equipoise.errors import InputError
from equipoise.prompts import _nine_words as nine_words

DOWNLOAD = (
    "Ask for Flickr30K at shannon.cs.illinois.edu/DenotationGraph: flickr30k-images, and"
    " results_20130124.token; or Karpathy's dataset_flickr30k.json for the captions"
)
CAPTIONS = (
    "results_20130124.token",
    "flickr30k_images/results_20130124.token",
    "dataset_flickr30k.json",
)


def flickr30k(
    root: files.Where, *, one_person: Iterable[str] | files.Where | None, on_missing: str = "raise"
) -> Dataset:
    """Return one row per caption: path, caption, query, gender (male, female).

    query: the caption with its gender words made "person". one_person: the names of the images that
    show one person, a text file with one name per line (``datasets.one_person_images`` finds them),
    or None for all images. A caption without gender
    words, or with words of both, is dropped; so is an image whose captions disagree.
    """
    folder = files.root_of(root, "Flickr30K", DOWNLOAD)
    table = captions(files.find(folder, CAPTIONS, "Flickr30K", DOWNLOAD))
    images = files.folder_of(folder, ("flickr30k-images", "flickr30k_images", "images"))
    sieve = Sieve(table.assign(path=[str(images / name) for name in table["image"]]))
    if one_person is not None:
        sieve.drop(
            ~sieve.table["image"].isin(_names(one_person)),
            "captions of images that do not show one person",
        )
    said = sieve.table["caption"].map(nine_words.gender_of)
    sieve.drop(said == nine_words.NONE, "captions without a gender word")
    sieve.drop(said[sieve.table.index] == nine_words.BOTH, "captions with words of both genders")
    sieve.table = sieve.table.assign(
        gender=said, query=sieve.table["caption"].map(nine_words.without_gender)
    )
    disagree = sieve.table.groupby("image")["gender"].transform("nunique") > 1
    sieve.drop(disagree, "captions of images whose captions disagree")
    return sieve.without_missing_files(on_missing).result("Flickr30K", ("gender",))


def captions(path: Path) -> Frame:
    """Return columns image and caption, from a token file or Karpathy's JSON."""
    import pandas as pd

    pairs = _from_json(path) if ".json" in path.suffixes else _from_tokens(path)
    return pd.DataFrame(pairs, columns=["image", "caption"])


def _from_json(path: Path) -> list[tuple[str, str]]:
    pairs = []
    try:
        for image in json.loads(files.text(path))["images"]:
            for sentence in image["sentences"]:
                pairs.append((image["filename"], sentence["raw"].strip()))
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not Karpathy's JSON: images, each with a filename and sentences with raw"
        ) from None
    return pairs


def _from_tokens(path: Path) -> list[tuple[str, str]]:
    pairs = []
    for line in files.text(path).split("\n"):
        if not line.strip():
            continue
        name, tab, caption = line.partition("\t")
        if not tab or "#" not in name:
            raise InputError(
                f"{path} is not a token file: image.jpg#number, a tab and the caption in each line"
            )
        pairs.append((name.rsplit("#", 1)[0], caption.strip()))
    return pairs


def _names(one_person: Iterable[str] | files.Where) -> set[str]:
    if isinstance(one_person, str | Path):
        if not Path(one_person).is_file():
            raise InputError(
                f"one_person={str(one_person)!r} is not a file; pass a text file with the name of"
                " an image in each line, or the names"
            )
        return {name.strip() for name in files.text(Path(one_person)).split("\n")} - {""}
    return {str(name) for name in one_person}  # pyright: ignore[reportGeneralTypeIssues]
