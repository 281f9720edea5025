"""Stage 6: train the judge of drawn pictures, on photographs alone; two CPU cores are enough.

Half of the portraits are shrunk and enlarged again: faces at work are small, in photographs as in
what is drawn. Flickr8k, where several captions agree on a gender, is there for close-ups like those
at work.

python -m training.perceive --data DATA --out build/judge

A second one, of another seed and without photographs at work, names genders to the generator: the
first judges what came of it.

python -m training.perceive --data DATA --out WORK --name labeller --seed 2 \
    --without idenprof idenprof_close
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from scipy.stats import binomtest
from torch import distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from training.arrays import TEST, TRAIN, decode, middle
from training.augment import SIDE, shrunk, views
from training.judging import DEVICE, QUESTIONS, Perceiver, judged, save
from training.prepare import close_ups_of, known, photographs
from training.zero_shot import answer

MIX = {
    "fairface": 0.62,
    "celeba": 0.12,
    "idenprof": 0.05,
    "idenprof_close": 0.09,
    "flickr8k": 0.03,
    "flickr8k_close": 0.09,
}
PORTRAITS = ("fairface", "celeba")
SMALL = 3  # one in so many portraits is seen as a small face
WEIGHTS = {"gender": 2.0, "age": 1.0, "race": 1.0, "occupation": 1.0}
BATCH = 192
STRENGTH = 0.25  # of the views: of stronger ones a judge learned less in the time that it has
SIDES = ((0.45, 48), (1.0, SIDE))  # until which share of the time, pixels of the views
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
MEETING = "workers"  # the file in which the workers find each other
SHRUNK = 4.0  # times, for the figure of shrunk faces: one of 50 pixels has 13 then


class Photographs:
    """Pictures (n, 72, 72, 3), their source and part, and the known answers, -1 where none is."""

    def __init__(self, data: Path, out: Path) -> None:
        table = photographs(data)
        close = cut(table, out / "close_ups.parquet")
        parents = close["parent"].to_numpy()
        own_and_parents = np.concatenate([np.arange(len(table)), parents])
        with ThreadPoolExecutor() as pool:
            pictures = [*table["image"], *close["image"]]
            self.pictures = np.stack(list(pool.map(decode, pictures, chunksize=256)))
        rows = table.drop(columns="image").to_dict("records")
        bits = np.stack([known(row) for row in rows])
        self.known = {name: answer(bits, name)[own_and_parents] for name in QUESTIONS}
        self.part = table["part"].to_numpy()[own_and_parents]
        names = table["source"].to_numpy(str)
        close_names = np.array([f"{name}_close" for name in names[parents]])
        self.source = np.concatenate([names, close_names])

    def of(self, source: str, part: int) -> np.ndarray:
        """Return the places of the photographs with an answer, of a source and a part."""
        answered = np.any([known >= 0 for known in self.known.values()], axis=0)
        return np.flatnonzero((self.source == source) & (self.part == part) & answered)


def cut(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the close-ups and their parents; they are cut once, which takes minutes."""
    if not path.is_file():
        parents, found = close_ups_of(table)
        partial = path.with_suffix(".partial")
        pd.DataFrame({"parent": parents, "image": found}).to_parquet(partial, index=False)
        partial.replace(path)
    return pd.read_parquet(path)


def batches(
    there: Photographs, without: list[str], batch: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield places of photographs without end, the sources in fixed shares: those that are seen as
    they are, and portraits that are seen as small faces.
    """
    shares = {name: share for name, share in MIX.items() if name not in without}
    whole = sum(shares.values())
    counts = {name: round(batch * share / whole) for name, share in shares.items()}
    rows = {name: endless(there.of(name, TRAIN), rng) for name in shares}
    while True:
        near, far = [], []
        for name, count in counts.items():
            some = [next(rows[name]) for _ in range(count)]
            small = count // SMALL if name in PORTRAITS else 0
            far += some[:small]
            near += some[small:]
        yield np.array(near), np.array(far)


def views_of(
    there: Photographs, places: tuple[np.ndarray, np.ndarray], side: int
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return views of a batch, and their answers."""
    near, far = (torch.from_numpy(there.pictures[some]).to(DEVICE) for some in places)
    seen = (
        views(near, 0.85, 1.05, side, STRENGTH),
        shrunk(views(far, 0.85, 1.7, side, STRENGTH)),
    )
    rows = np.concatenate(places)
    answers = {
        name: torch.from_numpy(known[rows]).to(DEVICE) for name, known in there.known.items()
    }
    return torch.cat(seen).contiguous(memory_format=torch.channels_last), answers


def endless(rows: np.ndarray, rng: np.random.Generator) -> Iterator[int]:
    """Yield all rows in random order, again and again."""
    while True:
        yield from rng.permutation(rows)


def train(there: Photographs, args: argparse.Namespace) -> tuple[Perceiver, dict[str, Any]]:
    """Return the mean of the last nets, and what it took.

    Each worker does this on photographs of its own, and all take the mean of their gradients.
    """
    rank, workers = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(args.seed)
    model = Perceiver().to(DEVICE, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    if args.start:
        model.load_state_dict(load_file(args.start))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.05)
    torch.manual_seed(1000 * args.seed + rank)
    batch = BATCH // workers
    stream = batches(there, args.without, batch, np.random.default_rng([args.seed, rank]))
    began, done, step, recent = time.monotonic(), 0.0, 0, 0.0
    while done < 1:
        for group in optimizer.param_groups:
            group["lr"] = args.rate * one_cycle(done)
        side = next(side for end, side in SIDES if done < end)
        seen, answers = views_of(there, next(stream), side)
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = model(seen)
        losses = [WEIGHTS[name] * error(logits[name], answers[name]) for name in QUESTIONS]
        loss = torch.stack(losses).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        passed = (time.monotonic() - began) / (60 * args.minutes)
        done = shared(model, passed) if workers > 1 else passed
        optimizer.step()
        average.update_parameters(model)
        step += 1
        recent = 0.98 * recent + 0.02 * loss.item()
        if step % 500 == 0 and rank == 0:
            print(f"perceive {step}, {done:.0%} of the time, loss {recent:.2f}", flush=True)
    took = {
        "pictures": step * batch * workers,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "minutes of a processor": round(workers * time.process_time() / 60, 1),
    }
    return cast(Perceiver, average.module.eval()), took


def shared(model: nn.Module, done: float) -> float:
    """Give every worker the mean gradient, and return the mean of how far they are."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([*(gradient.flatten() for gradient in gradients), torch.tensor([done])])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
    return float(flat[-1])


def one_cycle(done: float) -> float:
    """Return the share of the highest rate: up in a tenth of the time, and down along a cosine."""
    if done < 0.1:
        return 0.05 + 9.5 * done
    return 0.5 + 0.5 * float(np.cos(np.pi * (done - 0.1) / 0.9))


def error(logits: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy where the answer is known; none, where it nowhere is."""
    total = F.cross_entropy(logits, known, ignore_index=-1, label_smoothing=0.05, reduction="sum")
    return total / (known >= 0).sum().clamp(min=1)


def measure(model: Perceiver, there: Photographs, part: int) -> dict[str, dict[str, Any]]:
    """Return accuracy and n, where the answer is known; print accuracy with its 95 % interval."""
    found = {}
    for figure, (question, source) in MEASURED.items():
        rows = there.of(source.split()[0], part)
        rows = rows[there.known[question][rows] >= 0]
        pictures = middle(there.pictures[rows])
        if source.endswith("shrunk"):
            pictures = blurred(pictures)
        right = judged(model, pictures)[question].argmax(1) == there.known[question][rows]
        interval = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        print(f"{figure}: {right.mean():.4f} [{interval.low:.4f}, {interval.high:.4f}]", flush=True)
        found[figure] = {"accuracy": round(float(right.mean()), 4), "n": len(right)}
    return found


def blurred(pictures: np.ndarray) -> np.ndarray:
    """Return pictures shrunk to a quarter of their side and enlarged again."""
    pixels = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float()
    side = round(SIDE / SHRUNK)
    small = F.interpolate(pixels, (side, side), mode="bicubic", antialias=True)
    large = F.interpolate(small, (SIDE, SIDE), mode="bicubic").clamp(0, 255).round()
    return large.to(torch.uint8).permute(0, 2, 3, 1).numpy()


def work(rank: int, there: Photographs, args: argparse.Namespace) -> None:
    """Train as one of several workers; the first measures the judge and writes it."""
    torch.set_num_threads(1)
    if args.workers > 1:
        meeting = f"file://{(args.out / MEETING).resolve()}"
        dist.init_process_group("gloo", meeting, rank=rank, world_size=args.workers)
    model, took = train(there, args)
    if rank == 0:
        path = args.out / f"{args.name}.safetensors"
        save(model, path)
        print(took, flush=True)
        measured = measure(model, there, TEST)
        path.with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


def main() -> None:
    """Read DATA, write OUT/NAME.safetensors and beside it its accuracy on test photographs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="perceive")
    parser.add_argument("--without", nargs="*", default=[], help="Sources to leave out.")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--rate", type=float, default=1.5e-3, help="The highest, of learning.")
    parser.add_argument("--start", type=Path, help="Weights to go on from.")
    parser.add_argument("--workers", type=int, default=2, help="Processes, each on one core.")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # so that the workers can be forked
    there = Photographs(args.data, args.out)
    (args.out / MEETING).unlink(missing_ok=True)
    fork = multiprocessing.get_context("fork")
    others = [
        fork.Process(target=work, args=(rank, there, args), daemon=True)
        for rank in range(1, args.workers)
    ]
    for process in others:
        process.start()
    work(0, there, args)


if __name__ == "__main__":
    main()
