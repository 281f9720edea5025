"""Stage 0: photographs, the faces in them, captions, corpus and tokenizer, as plain arrays that any
machine with torch can train on.

python -m training.prepare --data DATA --teacher FOLDER --work WORK

Without a teacher there is no corpus, which only stages 1 to 3 need.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file, save_file

from training import captions, corpus
from training.arrays import SOURCES, TEST, TRAIN, VALIDATION, decode, tokenize
from training.faces import KINDS, frames_of
from training.framing import WHOLE, framed, latest_times
from training.labels import AGES, ATTRIBUTES, GENDERS, SLOTS, YES_NO, bits

SEED = 0
BLOCK = 4096
VOCABULARY = 8192
PROMPTS = 350_000
WORDS = 80_000  # of English, the commonest
SHARD_BYTES = 45_000_000
MALE = re.compile(
    r"\b(?:man|men|boy|boys|guy|guys|gentleman|male|father|he|his|him)\b", re.IGNORECASE
)
FEMALE = re.compile(
    r"\b(?:woman|women|girl|girls|lady|ladies|female|mother|she|her)\b", re.IGNORECASE
)


def main() -> None:
    """Read everything, write WORK."""
    from tokenizers import Tokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="The folder with people/ and annotations/."
    )
    parser.add_argument("--teacher", type=Path, help="all-MiniLM-L6-v2, for the words it knows.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="One to keep, so that a text tower that was trained with it still fits.",
    )
    args = parser.parse_args()
    if not args.teacher and not args.tokenizer:
        parser.error("a tokenizer is trained on the teacher's corpus; name one of the two")
    args.work.mkdir(parents=True, exist_ok=True)

    table = photographs(args.data)
    celeba = table[table["source"] == "celeba"]
    pool = Pool({name: float(cast(float, celeba[name].mean())) for name in ATTRIBUTES})
    rows = table.drop(columns="image").to_dict("records")
    spans = [pool.span(row) for row in rows]
    texts = write_corpus(args, pool) if args.teacher else []
    tokenizer = (
        Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else train_tokenizer(texts)
    )
    tokenizer.save(str(args.work / "tokenizer.json"))
    at_work = [
        [pool.shared[occupation, gender] for gender in GENDERS]
        for occupation in SLOTS["occupation"]
    ]
    afar = [pool.afar(occupation) for occupation in SLOTS["occupation"]]
    said = {
        "tokens": tokenize(tokenizer, pool.texts),
        "bits": np.packbits(np.stack(pool.bits), axis=1),
        "free": np.array(pool.free),
    }
    save_file(said, args.work / "captions.safetensors")

    rows_seen = sights(table, args.work)
    parents, frames = rows_seen["photograph"], rows_seen["frame"]
    known_bits = np.packbits(np.stack([known(row) for row in rows]), axis=1)
    labels = {
        **rows_seen,
        "bits": known_bits[parents],
        "part": table["part"].to_numpy(np.uint8)[parents],
        "until": until(table["image"].tolist(), parents, frames),
        "spans": np.array(spans, np.int64)[parents],
        "spans_at_work": np.array(at_work, np.int64),
        "spans_afar": np.array(afar, np.int64),
    }
    save_file(labels, args.work / "labels.safetensors")
    write_photographs(table["image"].tolist(), args.work)
    print(
        f"{len(table):,} photographs, {len(parents) - len(table):,} close-ups,"
        f" {len(pool.texts):,} captions, {len(texts):,} sentences"
    )


def write_corpus(args: argparse.Namespace, pool: Pool) -> list[str]:
    """Write the sentences that a text tower learns from, in random order; return them."""
    from wordfreq import top_n_list  # pyright: ignore[reportMissingImports]

    vocabulary = [*(args.teacher / "vocab.txt").read_text().split("\n"), *top_n_list("en", WORDS)]
    texts = list(
        dict.fromkeys([*corpus.sentences(args.data, vocabulary, PROMPTS), *pool.written()])
    )
    random.Random(SEED).shuffle(texts)
    with gzip.open(args.work / "corpus.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(texts))
    return texts


def sights(table: pd.DataFrame, work: Path) -> dict[str, np.ndarray]:
    """Return what is seen of the photographs: each of them once, then every small face from nearby.

    photograph: its place in the table. frame: a square about a portrait's face, or the middle of
    another photograph. source: SOURCES.index.
    """
    count = len(table)
    frames = {kind: faces_of(table, kind, work) for kind in KINDS}
    near = frames["people"]
    photograph = np.concatenate([np.arange(count), near["photograph"]])
    whole = np.tile(np.array(WHOLE, np.float32), (count, 1))
    whole[frames["portrait"]["photograph"]] = frames["portrait"]["frame"]
    names = table["source"].to_numpy(str)
    close = [f"{name}_close" for name in names[near["photograph"]]]
    source = [SOURCES.index(name) for name in (*names, *close)]
    return {
        "photograph": photograph,
        "frame": np.concatenate([whole, near["frame"]]),
        "source": np.array(source, np.uint8),
    }


def faces_of(table: pd.DataFrame, kind: str, work: Path) -> dict[str, np.ndarray]:
    """Return photograph and frame of the faces of a kind; they are looked for once, which takes
    half an hour.
    """
    path = work / f"faces_{kind}.safetensors"
    if not path.is_file():
        rows = np.flatnonzero(table["source"].isin(KINDS[kind]))
        places, frames = zip(*frames_of(table["image"].iloc[rows].tolist(), kind), strict=True)
        found = {"photograph": rows[np.array(places)], "frame": np.array(frames, np.float32)}
        partial = path.with_suffix(".partial")
        save_file(found, partial)
        partial.replace(path)
    return load_file(path)


def until(images: list[bytes], photograph: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Return until which time each crop teaches to draw (framing.py)."""
    found = []
    for start in range(0, len(photograph), BLOCK):
        some = slice(start, start + BLOCK)
        pictures = np.stack([decode(images[place]) for place in photograph[some]])
        here = torch.from_numpy(frames[some])
        crops = framed(torch.from_numpy(pictures), here)
        found.append(latest_times(crops, here[:, 2]).numpy())
    return np.concatenate(found)


def photographs(data: Path) -> pd.DataFrame:
    """All of them, with the part that each belongs to; a validation part is held out of every
    training set.
    """
    folder = data / "people"
    faces = pd.concat(
        [pd.read_parquet(folder / f"fairface_train_{i}.parquet") for i in range(3)]
        + [pd.read_parquet(folder / "fairface_val.parquet")]
    )
    faces["part"] = np.where(faces["split"] == "val", TEST, _held(len(faces), 2000 / 40000))
    faces["age"] = faces["age"].replace("more than 70", AGES[-1])
    celeba = pd.read_parquet(folder / "celeba.parquet").sort_values("name")
    celeba["part"] = np.where(
        np.arange(len(celeba)) >= len(celeba) - 2000, TEST, _held(len(celeba), 800 / 8000)
    )
    work = pd.read_parquet(folder / "idenprof.parquet")
    work["part"] = np.where(work["split"] == "test", TEST, _held(len(work), 800 / 9000))
    flickr = pd.read_parquet(folder / "flickr8k.parquet")
    dev = (data / "annotations" / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()
    test = (data / "annotations" / "flickr8k" / "Flickr_8k.testImages.txt").read_text().split()
    flickr["part"] = np.where(
        flickr["name"].isin(test), TEST, np.where(flickr["name"].isin(dev), VALIDATION, TRAIN)
    )
    return pd.concat([faces, celeba, work, flickr], ignore_index=True)


def _held(count: int, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(SEED).random(count) < share, VALIDATION, TRAIN)


def known(row: dict[str, Any]) -> np.ndarray:
    """The bits of one photograph."""
    if row["source"] == "fairface":
        youth = (
            {"young": ["no"]}
            if row["age"] in ("60-69", "70+")
            else {"young": ["yes"]}
            if row["age"] in ("10-19", "20-29")
            else {}
        )
        return bits(
            {"gender": [row["gender"]], "age": [row["age"]], "race": [row["race"]], **youth}
        )
    if row["source"] == "celeba":
        answers = {name: [YES_NO[not row[name]]] for name in ("young", *ATTRIBUTES)}
        return bits({"gender": [GENDERS[not row["male"]]], **answers})
    if row["source"] == "idenprof":
        return bits({"occupation": [row["occupation"]]})
    gender = caption_gender(row["captions"])
    return bits({"gender": [gender]} if gender else {})


def caption_gender(texts) -> str:
    """A gender that at least three captions name and none contradicts, or ""."""
    male, female = (sum(bool(words.search(text)) for text in texts) for words in (MALE, FEMALE))
    return "male" if male >= 3 and not female else "female" if female >= 3 and not male else ""


class Pool:
    """Captions of all photographs; those of FairFace and IdenProf are shared by photographs of the
    same labels.
    """

    def __init__(self, rates: dict[str, float]) -> None:
        self.rates = rates
        self.rng = random.Random(SEED)
        self.texts: list[str] = []
        self.bits: list[np.ndarray] = []
        self.free: list[bool] = []
        self.shared: dict[object, tuple[int, int]] = {}
        for key, found in captions.faces(self.rng, 240).items():
            self.shared[key] = self._add(found)
        for occupation in captions.WORDS["idenprof"]:
            self.shared[occupation] = self._add(
                [captions.at_work(self.rng, occupation) for _ in range(400)]
            )
            for gender in GENDERS:
                self.shared[occupation, gender] = self._add(
                    [captions.at_work(self.rng, occupation, gender) for _ in range(200)]
                )

    def span(self, row: dict[str, Any]) -> tuple[int, int]:
        """Where the captions of a photograph are: the first, and one after the last."""
        if row["source"] == "fairface":
            return self.shared[row["gender"], row["age"], row["race"]]
        if row["source"] == "idenprof":
            return self.shared[row["occupation"]]
        if row["source"] == "celeba":
            has = {name: bool(row[name]) for name in ATTRIBUTES}
            return self._add(
                [
                    captions.attributes(
                        self.rng, GENDERS[not row["male"]], bool(row["young"]), has, self.rates
                    )
                    for _ in range(14)
                ]
            )
        return self._add([(text, {}) for text in row["captions"]], free=True)

    def afar(self, occupation: str) -> tuple[int, int]:
        """Captions that say that somebody at work is far away: for the generator, whose other
        captions at work go with close-ups.
        """
        return self._add([captions.at_work(self.rng, occupation, afar=True) for _ in range(200)])

    def written(self) -> list[str]:
        """Our own captions, each once."""
        return list(
            dict.fromkeys(
                text for text, free in zip(self.texts, self.free, strict=True) if not free
            )
        )

    def _add(self, found, *, free: bool = False) -> tuple[int, int]:
        start = len(self.texts)
        for text, says in dict(found).items():
            self.texts.append(text)
            self.bits.append(bits(says))
            self.free.append(free)
        return start, len(self.texts)


def train_tokenizer(texts: list[str]):
    """Lower-case word pieces; a first token, so that no text is empty."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    alphabet = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["[PAD]", "[UNK]", "[CLS]"],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]"))]
    )
    return tokenizer


def write_photographs(pictures: list[bytes], work: Path) -> None:
    """JPEG bytes in files of a size that travels well."""
    shard, size, number = [], 0, 0
    for i, picture in enumerate(pictures):
        shard.append(picture)
        size += len(picture)
        if size > SHARD_BYTES or i == len(pictures) - 1:
            ends = np.cumsum([len(picture) for picture in shard])
            save_file(
                {"jpeg": np.frombuffer(b"".join(shard), np.uint8), "ends": ends},
                work / f"photographs_{number}.safetensors",
            )
            shard, size, number = [], 0, number + 1


if __name__ == "__main__":
    main()
