"""Stage 6: the classifier that judges generated pictures.

It shares no weight with the model, which conditions the generator.

Flickr8k, where several captions agree on a gender, is there for people who are not seen close by,
and for close-ups like those at work.

python -m training.perceive --work WORK

A second one, of another seed and without photographs at work, names genders to the generator: the
first judges what came of it.

python -m training.perceive --work WORK --out labeller --seed 2 --without idenprof idenprof_close
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from equipoise_mini.module import DIM, ImageTower
from training.arrays import SOURCES, TEST, TRAIN
from training.augment import centre, views
from training.joint import Batches
from training.labels import SLOTS
from training.teacher import DEVICE
from training.text import autocast, warm_cosine
from training.zero_shot import answer

MIX = {
    "fairface": 0.4,
    "celeba": 0.15,
    "idenprof": 0.12,
    "flickr8k": 0.08,
    "idenprof_close": 0.13,
    "flickr8k_close": 0.12,
}
HEADS = ("gender", "age", "race", "occupation")
MEASURED = {
    "gender": ("gender", "fairface"),
    "gender of close-ups": ("gender", "flickr8k_close"),
    "gender from afar": ("gender", "flickr8k"),
    "age": ("age", "fairface"),
    "race": ("race", "fairface"),
    "occupation": ("occupation", "idenprof"),
    "occupation of close-ups": ("occupation", "idenprof_close"),
}  # figure -> question and set


class Perceiver(nn.Module):
    """Logits of each question for pictures in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = ImageTower(batch_norm=True, drop=0.1)
        self.heads = nn.ModuleDict({name: nn.Linear(DIM, len(SLOTS[name])) for name in HEADS})

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        features = F.gelu(self.trunk(pixels))
        return {name: head(features).float() for name, head in self.heads.items()}


def answers(bits: torch.Tensor) -> dict[str, torch.Tensor]:
    """The known value in each slot, -1 where none is."""
    return {name: torch.from_numpy(answer(bits.cpu().numpy(), name)).to(DEVICE) for name in HEADS}


def main() -> None:
    """Read WORK, write WORK/OUT.safetensors and WORK/OUT.json with its error on test photographs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", default="perceive")
    parser.add_argument("--without", nargs="*", default=[], help="Sources to leave out.")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    batches = Batches(args.work, (TRAIN,), args.without, args.batch, MIX)
    known = answers(batches.labels["bits"])
    model = Perceiver().to(DEVICE, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.998), use_buffers=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-3, weight_decay=0.1, fused=DEVICE == "cuda"
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: warm_cosine(i, 200, args.steps)
    )
    began = time.time()
    for step in range(args.steps):
        rows, _, _ = batches.draw()
        with autocast():
            logits = model(views(batches.pictures[rows]))
        loss = torch.stack([error(logits[name], known[name][rows]) for name in HEADS]).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        if step % 500 == 499:
            print(
                f"perceive {step + 1} loss {loss.item():.3f} {time.time() - began:.0f} s",
                flush=True,
            )
    measured = measure(average.module.eval(), batches, known)
    save_file(
        {name: tensor.contiguous() for name, tensor in average.module.state_dict().items()},
        args.work / f"{args.out}.safetensors",
    )
    (args.work / f"{args.out}.json").write_text(json.dumps(measured, indent=1))
    print(json.dumps(measured), flush=True)


def error(logits: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy where the answer is known; none, where it nowhere is."""
    total = F.cross_entropy(logits, known, ignore_index=-1, label_smoothing=0.05, reduction="sum")
    return total / (known >= 0).sum().clamp(min=1)


@torch.inference_mode()
def measure(
    model: nn.Module, batches: Batches, known: dict[str, torch.Tensor]
) -> dict[str, dict[str, float]]:
    """Accuracy and count, on the test photographs whose answer is known."""
    out = {}
    for figure, (name, source) in MEASURED.items():
        rows = batches.of(SOURCES.index(source), (TEST,))
        rows = rows[known[name][rows] >= 0]
        found = torch.cat(
            [model(centre(batches.pictures[part]))[name].argmax(1) for part in rows.split(512)]
        )
        out[figure] = {
            "accuracy": round((found == known[name][rows]).float().mean().item(), 4),
            "n": len(rows),
        }
    return out


if __name__ == "__main__":
    main()
