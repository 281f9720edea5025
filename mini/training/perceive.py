"""Stage 6: train the judge of drawn pictures, on photographs alone.

A third of the portraits are shrunk and enlarged again: faces at work are small, in photographs as
in what is drawn. Flickr8k, where several captions agree on a gender, is there for close-ups like
those at work.

python -m training.perceive --work WORK --seconds 130

A second one, of another seed and without photographs at work, names genders to the generator: the
first judges what came of it.

python -m training.perceive --work WORK --name labeller --seed 2 --seconds 60 \
    --without idenprof idenprof_close
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import load_file
from scipy.stats import binomtest
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from training.arrays import SOURCES, TEST, TRAIN, Sights
from training.augment import SIDE, floats, shrunk, views
from training.framing import framed
from training.judging import DEVICE, QUESTIONS, Perceiver, judged, save

MIX = {
    "fairface": 0.58,
    "celeba": 0.12,
    "idenprof": 0.06,
    "idenprof_close": 0.1,
    "flickr8k": 0.05,
    "flickr8k_close": 0.09,
}
PORTRAITS = ("fairface", "celeba")
SMALL = 3  # one in so many portraits is seen as a small face
WEIGHTS = {"gender": 2.0, "age": 1.0, "race": 1.0, "occupation": 1.0}
BATCH = 1024
WARM_UP = 0.05  # share of the time
WHOLE = 72  # pixels of what a view is a crop of
MEASURED = {
    "gender": ("gender", "fairface"),
    "gender of shrunk faces": ("gender", "fairface shrunk"),
    "gender of close-ups": ("gender", "flickr8k_close"),
    "gender, CelebA": ("gender", "celeba"),
    "gender from afar": ("gender", "flickr8k"),
    "age": ("age", "fairface"),
    "race": ("race", "fairface"),
    "occupation": ("occupation", "idenprof"),
    "occupation of close-ups": ("occupation", "idenprof_close"),
}  # figure -> question and set
SHRUNK = 4.0  # times, for the figure of shrunk faces: one of 50 pixels has 13 then


class Batches:
    """Rows of the sources in fixed shares, as views on the device, with what is known of them."""

    def __init__(self, there: Sights, without: list[str], batch: int):
        shares = {name: share for name, share in MIX.items() if name not in without}
        whole = sum(shares.values())
        self.counts = {name: round(batch * share / whole) for name, share in shares.items()}
        self.rows = {name: torch.from_numpy(known_of(there, name, TRAIN)) for name in shares}
        self.pictures = torch.from_numpy(there.pictures).to(DEVICE)
        self.photograph = torch.from_numpy(there.photograph).to(DEVICE)
        self.frame = torch.from_numpy(there.frame).to(DEVICE)
        self.known = {name: torch.from_numpy(there.known(name)).to(DEVICE) for name in QUESTIONS}

    def draw(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return views of a batch, and the answers."""
        near, far = [], []
        for name, count in self.counts.items():
            rows = self.rows[name][torch.randint(len(self.rows[name]), (count,))]
            small = count // SMALL if name in PORTRAITS else 0
            far.append(rows[:small])
            near.append(rows[small:])
        seen = [torch.cat(near).to(DEVICE), torch.cat(far).to(DEVICE)]
        crops = [self.crops(rows) for rows in seen]
        rows = torch.cat(seen)
        pixels = torch.cat([views(crops[0], 0.6, 1.05), shrunk(views(crops[1], 0.7, 1.7))])
        answers = {name: known[rows] for name, known in self.known.items()}
        return pixels.contiguous(memory_format=torch.channels_last), answers

    def crops(self, rows: torch.Tensor) -> torch.Tensor:
        """Return more than what is framed, of which a view is a part."""
        frame = self.frame[rows].clone()
        frame[:, 2] *= WHOLE / SIDE
        return framed(self.pictures[self.photograph[rows]], frame, WHOLE)


def known_of(there: Sights, source: str, part: int) -> np.ndarray:
    """Return the rows of a source and a part of which an answer is known."""
    rows = there.of(source, part)
    answered = np.any([there.known(name)[rows] >= 0 for name in QUESTIONS], axis=0)
    return rows[answered]


def train(there: Sights, args: argparse.Namespace) -> Perceiver:
    """Return the mean of the last nets."""
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    model = Perceiver().to(DEVICE, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    if args.start:
        model.load_state_dict(load_file(args.start))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.998), use_buffers=True)
    fused = DEVICE == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.1, fused=fused)
    stream = Batches(there, args.without, args.batch)
    began, done, step = time.monotonic(), 0.0, 0
    while done < 1:
        for group in optimizer.param_groups:
            group["lr"] = args.rate * one_cycle(done)
        seen, answers = stream.draw()
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = model(seen)
        losses = [WEIGHTS[name] * error(logits[name], answers[name]) for name in QUESTIONS]
        loss = torch.stack(losses).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        step += 1
        if step % 20 == 0:  # elsewhere nobody waits for the device
            said = float(loss)
            done = (time.monotonic() - began) / args.seconds
            if step % 1000 == 0:
                print(f"{args.name} {step}, {done:.0%} of the time, loss {said:.2f}", flush=True)
    print(f"{args.name}: {step} steps, {step * args.batch:,} pictures", flush=True)
    return cast(Perceiver, average.module.eval())


def one_cycle(done: float) -> float:
    """Return the share of the highest rate: up for a little, and down along a cosine."""
    if done < WARM_UP:
        return 0.05 + 0.95 * done / WARM_UP
    return 0.5 + 0.5 * float(np.cos(np.pi * min(1.0, (done - WARM_UP) / (1 - WARM_UP))))


def error(logits: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy where the answer is known; none, where it nowhere is."""
    total = F.cross_entropy(logits, known, ignore_index=-1, label_smoothing=0.05, reduction="sum")
    return total / (known >= 0).sum().clamp(min=1)


def measure(model: nn.Module, there: Sights, part: int) -> dict[str, dict[str, Any]]:
    """Return accuracy and n, where the answer is known; print accuracy with its 95 % interval."""
    found = {}
    for figure, (question, source) in MEASURED.items():
        rows = there.of(source.split()[0], part)
        rows = rows[there.known(question)[rows] >= 0]
        pictures = there.crops(rows)
        if source.endswith("shrunk"):
            pictures = blurred(pictures)
        answers = judged(cast(Perceiver, model), pictures)[question].argmax(1)
        right = answers == there.known(question)[rows]
        interval = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        print(f"{figure}: {right.mean():.4f} [{interval.low:.4f}, {interval.high:.4f}]", flush=True)
        found[figure] = {"accuracy": round(float(right.mean()), 4), "n": len(right)}
    return found


def blurred(pictures: np.ndarray) -> np.ndarray:
    """Return pictures shrunk to a quarter of their side and enlarged again."""
    pixels = floats(torch.from_numpy(np.ascontiguousarray(pictures)))
    side = round(SIDE / SHRUNK)
    small = F.interpolate(pixels, (side, side), mode="bicubic", antialias=True)
    large = F.interpolate(small, (SIDE, SIDE), mode="bicubic").clamp(-1, 1)
    return ((large + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def main() -> None:
    """Read WORK, write WORK/NAME.safetensors and beside it its accuracy on photographs that it
    did not learn from.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--name", default="perceive")
    parser.add_argument("--without", nargs="*", default=[], choices=SOURCES, help="Sources.")
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--rate", type=float, default=2e-3, help="The highest, of learning.")
    parser.add_argument("--start", type=Path, help="Weights to go on from.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, default=TEST, help="The part that is measured.")
    args = parser.parse_args()
    there = Sights(args.work)
    model = train(there, args)
    path = args.work / f"{args.name}.safetensors"
    save(model, path)
    measured = measure(model, there, args.part)
    path.with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
