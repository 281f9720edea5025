"""Stage 0: photographs, captions, corpus and tokenizer, as plain arrays that any machine with torch
can train on.

python -m training.prepare --data DATA --teacher FOLDER --work WORK
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
from safetensors.numpy import save_file

from training import captions, corpus
from training.arrays import SOURCES, TEST, TRAIN, VALIDATION, tokenize
from training.faces import close_ups
from training.labels import AGES, ATTRIBUTES, GENDERS, SLOTS, YES_NO, bits

SEED = 0
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
    from wordfreq import top_n_list  # pyright: ignore[reportMissingImports]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="The folder with people/ and annotations/."
    )
    parser.add_argument(
        "--teacher", type=Path, required=True, help="all-MiniLM-L6-v2, for the words it knows."
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="One to keep, so that a text tower that was trained with it still fits.",
    )
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)

    table = photographs(args.data)
    celeba = table[table["source"] == "celeba"]
    pool = Pool({name: float(cast(float, celeba[name].mean())) for name in ATTRIBUTES})
    rows = table.drop(columns="image").to_dict("records")
    spans = [pool.span(row) for row in rows]
    vocabulary = [*(args.teacher / "vocab.txt").read_text().split("\n"), *top_n_list("en", WORDS)]
    texts = list(
        dict.fromkeys([*corpus.sentences(args.data, vocabulary, PROMPTS), *pool.written()])
    )
    random.Random(SEED).shuffle(texts)
    with gzip.open(args.work / "corpus.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(texts))
    tokenizer = (
        Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else train_tokenizer(texts)
    )
    tokenizer.save(str(args.work / "tokenizer.json"))

    afar = [pool.afar(occupation) for occupation in SLOTS["occupation"]]
    tokens = tokenize(tokenizer, pool.texts)
    save_file(
        {
            "tokens": tokens,
            "bits": np.packbits(np.stack(pool.bits), axis=1),
            "free": np.array(pool.free),
        },
        args.work / "captions.safetensors",
    )
    parents, close = close_ups_of(table)
    own_and_parents = np.concatenate([np.arange(len(table)), parents])
    names = [*table["source"], *(f"{name}_close" for name in table["source"].iloc[parents])]
    labels = {
        "bits": np.packbits(np.stack([known(row) for row in rows]), axis=1)[own_and_parents],
        "source": np.array([SOURCES.index(name) for name in names], np.uint8),
        "part": table["part"].to_numpy(np.uint8)[own_and_parents],
        "spans": np.array(spans, np.int64)[own_and_parents],
        "spans_at_work": np.array(
            [
                [pool.shared[occupation, gender] for gender in GENDERS]
                for occupation in SLOTS["occupation"]
            ],
            np.int64,
        ),
        "spans_afar": np.array(afar, np.int64),
    }
    save_file(labels, args.work / "labels.safetensors")
    write_photographs([*table["image"], *close], args.work)
    print(
        f"{len(table):,} photographs, {len(close):,} close-ups, {len(pool.texts):,} captions,"
        f" {len(texts):,} sentences"
    )


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


def close_ups_of(table: pd.DataFrame) -> tuple[np.ndarray, list[bytes]]:
    """Close-ups of the sets that show people from afar, and the photograph that each is from,
    counted in the table.
    """
    rows = np.flatnonzero(table["source"].isin(("idenprof", "flickr8k")))
    parents, found = close_ups(table["image"].iloc[rows].tolist())
    return rows[parents], found


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
