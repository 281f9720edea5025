"""Stage 2: the text tower learns the teacher's space.

python -m training.text --work WORK
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from equipoise_mini.module import DIM, TextTower
from training.teacher import DEVICE

HELD_OUT = 4096  # sentences that only measure
WARM_UP = 300


class Student(nn.Module):
    """The text tower with a second head that mimics the teacher, while the first learns to meet
    images.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tower = TextTower()
        self.mimic = nn.Linear(256, DIM, bias=False)
        self.mimic.load_state_dict(self.tower.head.state_dict())

    def pooled(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean states of padded tokens."""
        tokens = tokens.long()
        return self.tower.pooled(self.tower.tokens(tokens), tokens != 0)


def autocast() -> torch.autocast:
    """bfloat16 on the GPU; a CPU is for trying things out."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda")


def mimic_loss(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Each sentence where the teacher has it, and all pairs as similar as the teacher finds them."""
    rows = F.normalize(rows.float(), dim=-1)
    return (1 - (rows * targets).sum(1)).mean() + 10 * F.mse_loss(
        rows @ rows.T, targets @ targets.T
    )


def main() -> None:
    """Read WORK/teacher.safetensors, write WORK/text.safetensors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = load_file(args.work / "teacher.safetensors", device=DEVICE)
    tokens, targets = data["tokens"], data["targets"]
    student = Student().to(DEVICE)
    optimizer = torch.optim.AdamW(
        student.parameters(), lr=1.2e-3, weight_decay=0.02, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: warm_cosine(i, WARM_UP, args.steps)
    )
    began = time.time()
    for step in range(args.steps):
        rows = torch.randint(HELD_OUT, len(tokens), (args.batch,), device=DEVICE)
        with autocast():
            out = student.mimic(student.pooled(tokens[rows]))
        loss = mimic_loss(out, targets[rows].float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 499 or step == args.steps - 1:
            print(
                f"text {step + 1} loss {loss.item():.4f} held-out cosine"
                f" {held_out(student, tokens, targets):.4f} {time.time() - began:.0f} s",
                flush=True,
            )
    student.tower.head.load_state_dict(student.mimic.state_dict())
    save_file(student.state_dict(), args.work / "text.safetensors")


@torch.inference_mode()
def held_out(student: Student, tokens: torch.Tensor, targets: torch.Tensor) -> float:
    """Mean cosine to the teacher on sentences that were never trained on."""
    with autocast():
        rows = student.mimic(student.pooled(tokens[:HELD_OUT]))
    return float(F.cosine_similarity(rows.float(), targets[:HELD_OUT].float()).mean())


def warm_cosine(i: float, warm_up: float, total: float) -> float:
    """Learning rate factor: up in a line, down in a cosine."""
    return min(1.0, (i + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * min(1.0, i / total)))


if __name__ == "__main__":
    main()
