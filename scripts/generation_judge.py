"""Train a small classifier that judges drawn pictures: perceived gender, and occupation.

It learns from photographs (FairFace, IdenProf) and from the gallery's pictures, whose genders the
generator's own judge named; that judge was trained on a GPU and is not kept. It shares no weight
with the model that conditions the generator.

python scripts/generation_judge.py --data DATA --out judge.safetensors
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

import equipoise_mini

GENDERS = ("male", "female")
OCCUPATIONS = (
    *("chef", "doctor", "engineer", "farmer", "firefighter"),
    *("judge", "mechanic", "pilot", "police", "waiter"),
)
SIDE = 64
UNKNOWN = -1
HELD_OUT = 5  # every fifth picture of the gallery is for testing


class PictureJudge(nn.Module):
    """Features (n, 96) of pictures in [-1, 1], and logits of two questions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 32, 64, 96)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after)]
            layers += [nn.ReLU()]
        layers += [nn.Conv2d(96, 96, 3, 1, 1, bias=False), nn.BatchNorm2d(96), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.gender = nn.Linear(96, len(GENDERS))
        self.occupation = nn.Linear(96, len(OCCUPATIONS))

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return what is left of the pictures before the questions."""
        return self.trunk(pixels).mean((2, 3))

    @torch.inference_mode()
    def judge(self, pictures: np.ndarray) -> dict[str, np.ndarray]:
        """Return gender and occupation (n,) as places, and features, of bytes (n, 64, 64, 3)."""
        self.eval()
        rows = torch.cat(
            [self.features(as_pixels(part)) for part in np.split(pictures, _cuts(pictures))]
        )
        return {
            "gender": self.gender(rows).argmax(1).numpy(),
            "occupation": self.occupation(rows).argmax(1).numpy(),
            "features": rows.numpy(),
        }


def _cuts(pictures: np.ndarray) -> list[int]:
    return list(range(256, len(pictures), 256))


def load_judge(path: Path) -> PictureJudge:
    """Return a trained judge."""
    judge = PictureJudge()
    judge.load_state_dict(load_file(path))
    return judge.eval()


def save(judge: PictureJudge, found: dict, path: Path) -> None:
    """Write a judge, and beside it its accuracy as JSON."""
    save_file({name: tensor.contiguous() for name, tensor in judge.state_dict().items()}, path)
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


def as_pixels(pictures: np.ndarray) -> torch.Tensor:
    """Return floats in [-1, 1], channels first."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def decoded(data: bytes) -> np.ndarray:
    """Return a picture as bytes (64, 64, 3)."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def table(path: Path, label: str, most: int | None = None, **only: str) -> tuple[np.ndarray, list]:
    """Return pictures and labels of a parquet file."""
    rows = pq.read_table(path)
    keep = np.ones(len(rows), bool)
    for column, value in only.items():
        keep &= np.array(rows[column].to_pylist()) == value
    chosen = rows.filter(keep)[:most]
    pictures = np.stack([decoded(data) for data in chosen["image"].to_pylist()])
    return pictures, chosen[label].to_pylist()


def places(labels: list, names: tuple[str, ...]) -> np.ndarray:
    """Return the place of each label."""
    return np.array([names.index(label) for label in labels])


def train(data: Path, photographs: int, epochs: int, seed: int) -> tuple[PictureJudge, dict]:
    """Return a judge, and its accuracy on pictures that it has not seen."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    people, work = data / "people", data / "people" / "idenprof.parquet"
    faces, genders = table(people / "fairface_train_0.parquet", "gender", photographs)
    at_work, jobs = table(work, "occupation", split="train")
    drawn, drawn_genders = table(equipoise_mini.gallery().table, "gender")
    test = np.arange(len(drawn)) % HELD_OUT == 0
    drawn_places = places(drawn_genders, GENDERS)
    often = np.repeat(np.flatnonzero(~test), 3)
    pictures = np.concatenate([faces, at_work, drawn[often]])
    nothing = np.full(len(at_work), UNKNOWN)
    gender = np.concatenate([places(genders, GENDERS), nothing, drawn_places[often]])
    job = np.full(len(pictures), UNKNOWN)
    job[len(faces) : len(faces) + len(at_work)] = places(jobs, OCCUPATIONS)
    judge = PictureJudge()
    optimizer = torch.optim.AdamW(judge.parameters(), 3e-3, weight_decay=0.05)
    batches = len(pictures) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=epochs * batches)
    began = time.process_time()
    for epoch in range(epochs):
        judge.train()
        order = rng.permutation(len(pictures))
        for i in range(batches):
            rows = order[64 * i : 64 * i + 64]
            features = judge.features(changed(as_pixels(pictures[rows]), rng))
            loss = error(judge.gender(features), gender[rows])
            loss = loss + error(judge.occupation(features), job[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(
            f"epoch {epoch + 1}: loss {loss.item():.3f}, {time.process_time() - began:.0f} s",
            flush=True,
        )
    return judge, measured(judge, data, drawn[test], drawn_places[test])


def changed(pixels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Return pixels mirrored or not, and moved by up to four."""
    if rng.random() < 0.5:
        pixels = pixels.flip(3)
    down, right = rng.integers(0, 9, 2)
    padded = F.pad(pixels, (4, 4, 4, 4), mode="reflect")
    return padded[:, :, down : down + SIDE, right : right + SIDE]


def error(logits: torch.Tensor, known: np.ndarray) -> torch.Tensor:
    """Return the mean cross entropy where the answer is known."""
    answers = torch.from_numpy(known)
    total = F.cross_entropy(logits, answers, ignore_index=UNKNOWN, reduction="sum")
    return total / (answers != UNKNOWN).sum().clamp(min=1)


def measured(judge: PictureJudge, data: Path, drawn: np.ndarray, genders: np.ndarray) -> dict:
    """Return the judge's accuracy, each with its n."""
    faces, labels = table(data / "people" / "fairface_val.parquet", "gender", 2000)
    at_work, jobs = table(data / "people" / "idenprof.parquet", "occupation", split="test")
    found = {}
    for name, question, pictures, known in (
        ("gender, FairFace", "gender", faces, places(labels, GENDERS)),
        ("gender, gallery", "gender", drawn, genders),
        ("occupation, IdenProf", "occupation", at_work, places(jobs, OCCUPATIONS)),
    ):
        right = judge.judge(pictures)[question] == known
        found[name] = {"accuracy": round(float(right.mean()), 4), "n": len(right)}
    return found


def main() -> None:
    """Read DATA, write the judge and beside it its accuracy as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--photographs", type=int, default=13000, help="Of FairFace.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    judge, found = train(args.data, args.photographs, args.epochs, args.seed)
    save(judge, found, args.out)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
