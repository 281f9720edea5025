"""Stage 7: the generator learns to draw what a text row of the model says.

python -m training.generator --work WORK --seconds 360
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from equipoise_mini import FOLDER
from equipoise_mini.drawing import GUIDANCE, STEPS
from equipoise_mini.module import Mini, load, weights
from equipoise_mini.torch_drawing import TorchGenerator, answer, draw
from equipoise_mini.velocity import Velocity
from training import zero_shot
from training.arrays import SOURCES, TRAIN, VALIDATION, tokenize
from training.augment import centre
from training.framing import framed, moved
from training.joint import Batches
from training.judging import Judge
from training.teacher import DEVICE
from training.text import autocast

MIX = {
    "fairface": 0.4,
    "celeba": 0.18,
    "idenprof_close": 0.28,
    "flickr8k_close": 0.07,
    "idenprof": 0.07,
}
UNSAID = (
    0.1  # share of pictures drawn without their text, so that there is something to guide away from
)
NAMED = 0.6  # share of the captions of close-ups at work that name a gender, where it is clear
CLEAR = 0.7  # how sure a classifier is of a gender that is named
SHIFT, SIZE, TURN = 1.5, 0.04, 0.05  # how far a crop is moved, in pixels; resized; turned, radians
BLOCK = TorchGenerator.block
PROMPTS = (
    "a photo of a man", "a photo of a woman", "a photo of a young woman", "a photo of an old man", "a photo of a little girl",
    "a photo of a Black woman", "a photo of an East Asian man", "a photo of a woman with blond hair", "a photo of a smiling man with glasses",
    "a photo of a doctor", "a photo of a female doctor", "a photo of a male chef", "a photo of a firefighter", "a photo of a judge",
    "a photo of a nurse",
)  # fmt: skip


class Texts:
    """Text rows of every caption, and a caption for each photograph: of close-ups at work often
    with the gender that is seen,
    of others at work with how far away they are."""

    def __init__(self, mini: Mini, batches: Batches):
        self.batches = batches
        self.rows = torch.cat(
            [text_rows(mini, part) for part in batches.captions["tokens"].split(4096)]
        ).half()
        close, afar = (
            batches.of(SOURCES.index(name), (TRAIN, VALIDATION))
            for name in ("idenprof_close", "idenprof")
        )
        occupation = torch.from_numpy(
            zero_shot.answer(batches.labels["bits"].cpu().numpy(), "occupation")
        ).to(DEVICE)
        self.spans = batches.labels["spans"].clone()
        self.spans[afar] = batches.labels["spans_afar"][occupation[afar]]
        self.gender = torch.full_like(occupation, -1)
        self.gender[close] = clear_gender(mini, batches, close)
        self.named = batches.labels["spans_at_work"][occupation, self.gender]

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """A text row for each photograph."""
        named = (self.gender[rows] >= 0) & (torch.rand(len(rows), device=DEVICE) < NAMED)
        start, end = torch.where(named[:, None], self.named[rows], self.spans[rows]).unbind(1)
        return self.rows[
            start + (torch.rand(len(rows), device=DEVICE) * (end - start)).long()
        ].float()


def clear_gender(mini: Mini, batches: Batches, rows: torch.Tensor) -> torch.Tensor:
    """The gender that both the model and a classifier see in each of these photographs, -1 where
    they differ or the classifier doubts.
    """
    crops = torch.cat(
        [
            framed(batches.photographs_of(some), batches.labels["frame"][some])
            for some in rows.split(512)
        ]
    )
    pictures = ((crops + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1)
    found = Judge(batches.work, "labeller")(pictures.cpu().numpy())["gender"]
    sure, classified = torch.from_numpy(found).to(DEVICE).max(1)
    tokenizer = Tokenizer.from_file(str(batches.work / "tokenizer.json"))
    male, female = (
        zero_shot.ensemble(
            lambda texts: (
                text_rows(mini, torch.from_numpy(tokenize(tokenizer, texts))).cpu().numpy()
            ),
            nouns,
        )
        for nouns in zero_shot.SAID["gender"].values()
    )
    images = torch.cat([mini.encode_image(part) for part in crops.split(512)])
    seen = (images @ torch.from_numpy(female - male).to(DEVICE) > 0).long()
    gender = torch.where((sure >= CLEAR) & (seen == classified), classified, -1)
    print(
        "close-ups with no clear gender, of men, of women:",
        torch.bincount(gender + 1, minlength=3).tolist(),
        flush=True,
    )
    return gender


@torch.inference_mode()
def text_rows(mini: Mini, tokens: torch.Tensor) -> torch.Tensor:
    """Unit rows of tokenized texts."""
    tokens = tokens.to(DEVICE).long()
    return mini.encode_text(tokens, tokens != 0)


def pixels(batches: Batches, rows: torch.Tensor) -> torch.Tensor:
    """Return the photographs as they are framed, nearly, and mirrored or not: floats (n, 3, 64,
    64).
    """
    frames = moved(batches.labels["frame"][rows], SHIFT, SIZE, TURN)
    flipped = torch.rand(len(rows), device=DEVICE) < 0.5
    return framed(batches.photographs_of(rows), frames, flipped=flipped)


def main() -> None:
    """Read WORK, write WORK/generator.safetensors and WORK/generator.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--from",
        dest="start",
        type=Path,
        help="Weights to go on from, of a run or as they are shipped.",
    )
    parser.add_argument("--seconds", type=float, default=360, help="How long to train.")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    batches = Batches(args.work, (TRAIN, VALIDATION), [], args.batch, MIX)
    with torch.no_grad():
        texts = Texts(load(FOLDER).to(DEVICE), batches)
    model = Velocity().to(DEVICE)
    if args.start:
        model.load_state_dict(weights(load_file(args.start)))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=args.rate,
        weight_decay=0.02,
        betas=(0.9, 0.99),
        fused=DEVICE == "cuda",
    )
    compiled = cast(nn.Module, torch.compile(model, dynamic=False)) if DEVICE == "cuda" else model
    began, step, total, spent = None, 0, 0.0, 0.0
    while spent < args.seconds:
        spent = time.time() - began if began else 0.0
        for group in optimizer.param_groups:
            group["lr"] = (
                args.rate
                * min(1, (step + 1) / 300)
                * 0.5
                * (1 + math.cos(math.pi * min(1.0, spent / args.seconds)))
            )
        loss = one_step(compiled, model.nothing, batches, texts)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(model)
        total, step = total + loss.detach(), step + 1
        if step == 20:
            float(total)
            began = time.time()  # what came before was compilation
        if step % 250 == 0:
            print(f"generator {step} loss {float(total) / 250:.4f} {spent:.0f} s", flush=True)
            total = 0.0
        if step % 2500 == 0:
            write(average.module, args.work)
    write(average.module, args.work)
    sheet(Drawer(args.work), args.work / "generator.png")


def write(model: nn.Module, work: Path) -> None:
    """The weights in half precision, for export or to go on from."""
    save_file(
        {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()},
        work / "generator.safetensors",
    )


def one_step(
    model: nn.Module, nothing: torch.Tensor, batches: Batches, texts: Texts
) -> torch.Tensor:
    """Squared error of the velocity at random times, more of them in the middle."""
    rows, _, _ = batches.draw()
    told = torch.where(torch.rand(len(rows), 1, device=DEVICE) < UNSAID, nothing, texts.of(rows))
    pictures = pixels(batches, rows)
    start = torch.randn_like(pictures)
    # a blurred photograph teaches early times alone: later ones would learn its blur
    times = torch.sigmoid(torch.randn(len(rows), device=DEVICE)) * batches.labels["until"][rows]
    share = times[:, None, None, None]
    with autocast():
        velocity = model(torch.lerp(start, pictures, share), times, told)
    return F.mse_loss(velocity.float(), pictures - start)


class Drawer:
    """Pictures of prompts, drawn on the device by what WORK holds and the shipped model reads."""

    def __init__(self, work: Path, guidance: float = GUIDANCE):
        self.guidance = guidance
        self.mini = load(FOLDER).to(DEVICE)
        self.model = Velocity().to(DEVICE).eval()
        self.model.load_state_dict(weights(load_file(work / "generator.safetensors")))
        self.tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))

    def __call__(self, prompts: list[str], seeds: list[int]) -> np.ndarray:
        """Bytes (n, 64, 64, 3), one seed a prompt."""
        return self.of_rows(self.text_rows(prompts), seeds)

    def of_rows(self, rows: torch.Tensor, seeds: list[int]) -> np.ndarray:
        """The same for text rows (n, 256)."""
        velocity, nothing = partial(answer, self.model), self.model.nothing
        drawn = []
        for i in range(0, len(seeds), BLOCK):
            some = rows[i : i + BLOCK], seeds[i : i + BLOCK]
            drawn.append(draw(velocity, nothing, *some, self.guidance, STEPS))
        return np.concatenate(drawn)

    def text_rows(self, prompts: list[str]) -> torch.Tensor:
        """Unit rows of texts."""
        return self.token_rows(torch.from_numpy(tokenize(self.tokenizer, prompts)))

    def token_rows(self, tokens: torch.Tensor) -> torch.Tensor:
        """Unit rows of tokenized texts."""
        return torch.cat([text_rows(self.mini, part) for part in tokens.split(4096)])

    @torch.inference_mode()
    def image_rows(self, pictures: np.ndarray) -> np.ndarray:
        """Unit rows of bytes (n, 64, 64, 3)."""
        parts = torch.from_numpy(np.ascontiguousarray(pictures)).split(BLOCK)
        return (
            torch.cat([self.mini.encode_image(centre(part.to(DEVICE))) for part in parts])
            .cpu()
            .numpy()
        )


def sheet(drawer: Drawer, path: Path, columns: int = 12) -> None:
    """A contact sheet, unfiltered: one prompt a row, the same noise down each column."""
    asked = [(prompt, seed) for prompt in PROMPTS for seed in range(columns)]
    pictures = drawer([prompt for prompt, _ in asked], [seed for _, seed in asked])
    rows = [np.concatenate(list(row), axis=1) for row in np.split(pictures, len(PROMPTS))]
    Image.fromarray(np.concatenate(rows)).save(path)


if __name__ == "__main__":
    main()
