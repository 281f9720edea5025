"""Stage 1: what the teacher makes of every sentence of the corpus, in the 256 directions that hold
most of it.

python -m training.teacher --teacher FOLDER --work WORK
"""

from __future__ import annotations

import argparse
import gzip
import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch.nn import functional as F

from training.arrays import tokenize
from training.labels import GENDERS, WORDS, phrases

DIM = 256
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Teacher:
    """A sentence encoder with mean pooling: all-MiniLM-L6-v2."""

    def __init__(self, folder: Path):
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = (
            AutoModel.from_pretrained(
                folder, dtype=torch.float16 if DEVICE == "cuda" else torch.float32
            )
            .to(DEVICE)
            .eval()
        )

    @torch.inference_mode()
    def __call__(self, texts: list[str], batch: int = 1024) -> torch.Tensor:
        """Unit rows, float32, in the order of the texts."""
        order = np.argsort([len(text) for text in texts])
        out = torch.empty(len(texts), self.model.config.hidden_size, device=DEVICE)
        for rows in np.array_split(order, max(1, len(order) // batch)):
            tokens = self.tokenizer(
                [texts[i] for i in rows],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            ).to(DEVICE)
            states = self.model(**tokens).last_hidden_state.float()
            mask = tokens["attention_mask"].unsqueeze(-1)
            out[torch.from_numpy(rows).to(DEVICE)] = F.normalize(
                (states * mask).sum(1) / mask.sum(1), dim=-1
            )
        return out


def main() -> None:
    """Read WORK/corpus.txt.gz, write WORK/teacher.safetensors: rows, tokens, which sentences are a
    gender word, which hold none.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    with gzip.open(args.work / "corpus.txt.gz", "rt", encoding="utf-8") as file:
        texts = file.read().split("\n")
    rows = Teacher(args.teacher)(texts)
    energy, directions = torch.linalg.eigh(rows.double().T @ rows.double())
    targets = F.normalize(rows @ directions[:, -DIM:].float(), dim=-1)
    tokens = tokenize(Tokenizer.from_file(str(args.work / "tokenizer.json")), texts)
    gender = [torch.tensor([text in said for text in texts]) for said in gender_words()]
    words = re.compile(
        "|".join(rf"\b{word}\b" for said in gender_words() for word in said), re.IGNORECASE
    )
    arrays = {"targets": targets.half().cpu(), "tokens": torch.from_numpy(tokens)}
    arrays |= {
        name: torch.nonzero(which).squeeze(1) for name, which in zip(GENDERS, gender, strict=True)
    }
    arrays["silent"] = torch.tensor([i for i, text in enumerate(texts) if not words.search(text)])
    save_file(arrays, args.work / "teacher.safetensors")
    print(f"{len(texts):,} sentences; {energy[-DIM:].sum() / energy.sum():.4f} of the energy kept")


def gender_words() -> list[list[str]]:
    """Words for men and words for women, most of them sentences of the corpus."""
    return [phrases(WORDS["gender"][gender]["plain"]) for gender in GENDERS]


if __name__ == "__main__":
    main()
