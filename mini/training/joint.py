"""Stage 3: the image tower learns to meet the text tower, which keeps what the teacher taught it.

python -m training.joint --work WORK --out NAME
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from equipoise_mini.module import DIM, ImageTower
from training import zero_shot
from training.arrays import SOURCES, TRAIN, VALIDATION, photographs, tokenize, with_bits
from training.augment import centre, floats, views
from training.labels import BITS, GENDERS, HELD_OUT, OCCUPATIONS, membership
from training.teacher import DEVICE, Teacher
from training.text import Student, autocast, warm_cosine

MIX = {"fairface": 0.48, "celeba": 0.18, "idenprof": 0.22, "flickr8k": 0.12}
UNKNOWN = 0.1  # weight of a pair of which nobody knows whether it fits
WARM_UP = 200
EXTRA = 512  # more captions of Flickr8k, to tell its photographs apart by


class Pair(nn.Module):
    """Both towers and the temperature between them."""

    def __init__(self, image: nn.Module):
        super().__init__()
        self.image, self.text = image, Student()
        self.scale = nn.Parameter(torch.tensor(20.0).log())

    def forward(
        self, pixels: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Unit rows of images and of texts in the joint space, and the texts as they mimic the
        teacher.
        """
        pooled = self.text.pooled(tokens)
        rows = (self.image(pixels), self.text.tower.head(pooled), self.text.mimic(pooled))
        image, text, mimic = (F.normalize(row.float(), dim=-1) for row in rows)
        return image, text, mimic


class Batches:
    """Photographs of all sources in fixed shares, each with one of its captions; and what is known
    of every pair.
    """

    def __init__(
        self,
        work: Path,
        parts: tuple[int, ...],
        without: list[str],
        batch: int,
        mix: dict[str, float] = MIX,
    ):
        self.work = work
        self.pictures = torch.from_numpy(photographs(work)).to(DEVICE)
        labels, captions = (
            with_bits(work / "labels.safetensors"),
            with_bits(work / "captions.safetensors"),
        )
        self.labels = {name: torch.from_numpy(array).to(DEVICE) for name, array in labels.items()}
        self.captions = {
            name: torch.from_numpy(array).to(DEVICE) for name, array in captions.items()
        }
        self.slots = torch.from_numpy(membership()).to(DEVICE).float()
        shares = {name: share for name, share in mix.items() if name not in without}
        self.counts = {
            SOURCES.index(name): round(batch * share / sum(shares.values()))
            for name, share in shares.items()
        }
        self.rows = {source: self.of(source, parts) for source in self.counts}

    def of(self, source: int, parts: tuple[int, ...]) -> torch.Tensor:
        """Indices of the photographs of a source that belong to these parts."""
        part = torch.isin(
            self.labels["part"], torch.tensor(parts, device=DEVICE, dtype=torch.uint8)
        )
        return torch.nonzero((self.labels["source"] == source) & part).squeeze(1)

    def photographs_of(self, rows: torch.Tensor) -> torch.Tensor:
        """The photographs that these rows are crops of, as bytes."""
        return self.pictures[self.labels["photograph"][rows]]

    def draw(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Photographs, a caption for each, and more captions of Flickr8k, as indices."""
        rows = torch.cat(
            [
                found[torch.randint(len(found), (self.counts[source],), device=DEVICE)]
                for source, found in self.rows.items()
            ]
        )
        flickr = self.rows.get(SOURCES.index("flickr8k"))
        more = (
            flickr[torch.randint(len(flickr), (EXTRA,), device=DEVICE)]
            if flickr is not None
            else rows[:0]
        )
        return rows, self.caption_of(rows), self.caption_of(more)

    def caption_of(self, rows: torch.Tensor) -> torch.Tensor:
        """One of the captions of each photograph."""
        start, end = self.labels["spans"][rows].unbind(1)
        return start + (torch.rand(len(rows), device=DEVICE) * (end - start)).long()

    def pairs(self, rows: torch.Tensor, texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(positive, weight) of every photograph with every caption; the first captions are the
        photographs' own.
        """
        known, says = self.labels["bits"][rows].float(), self.captions["bits"][texts].float()
        answered, asked = known @ self.slots, ((says @ self.slots) > 0).float()
        agrees, both = known @ says.T, answered @ asked.T
        free = self.captions["free"][texts][None, :]
        positive = (agrees == asked.sum(1)) & ~free
        positive.fill_diagonal_(True)
        strangers = free & (self.labels["source"][rows] == SOURCES.index("flickr8k"))[:, None]
        return positive, torch.where(positive | (both > agrees) | strangers, 1.0, UNKNOWN)


def contrast(scores: torch.Tensor, positive: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Softmax over a row, every positive equally right."""
    log_share = scores - torch.logsumexp(scores + weight.log(), dim=1, keepdim=True)
    return -((log_share * positive).sum(1) / positive.sum(1)).mean()


@torch.inference_mode()
def encoded(pair: Pair, tokens: torch.Tensor) -> torch.Tensor:
    """Unit text rows in the joint space."""
    return F.normalize(pair.text.tower.head(pair.text.pooled(tokens.to(DEVICE))).float(), dim=-1)


def image_tower(kind: str) -> nn.Module:
    """The convolutional tower, or for comparison the vision tower of a transformers CLIPModel of
    the same size.
    """
    if kind == "conv":
        return ImageTower(batch_norm=True, drop=0.2)
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = CLIPVisionConfig(
                hidden_size=256,
                intermediate_size=1024,
                num_hidden_layers=10,
                num_attention_heads=4,
                image_size=64,
                patch_size=8,
                projection_dim=DIM,
                attention_dropout=0.0,
            )
            self.model = CLIPVisionModelWithProjection(config)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.model(pixel_values=pixels).image_embeds

    return Vision()


def main() -> None:
    """Read WORK, write WORK/NAME.safetensors and WORK/NAME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, help="To compare leans with.")
    parser.add_argument("--out", default="joint")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--image", choices=("conv", "clip"), default="conv")
    parser.add_argument("--image-rate", type=float, default=2e-3)
    parser.add_argument("--text-rate", type=float, default=3e-4)
    parser.add_argument(
        "--scale-rate", type=float, default=2e-3, help="Learning rate of the temperature."
    )
    parser.add_argument(
        "--relations", type=float, default=3.0, help="Weight of the teacher's similarities."
    )
    parser.add_argument(
        "--lean",
        type=float,
        default=0.5,
        help="Weight of the teacher's lean to men's or women's words.",
    )
    parser.add_argument(
        "--axes",
        type=float,
        default=0.3,
        help="Weight of the angle between the gender axes of images and of texts.",
    )
    parser.add_argument(
        "--share",
        type=float,
        default=0.7,
        help=(
            "How far the text tower goes from stage 2 to what it learned here; less keeps more of"
            " the teacher."
        ),
    )
    parser.add_argument("--without", nargs="*", default=[], help="Sources to leave out.")
    parser.add_argument(
        "--all",
        action="store_true",
        help="Train on the validation part too, once every choice is made.",
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    batches = Batches(
        args.work, (TRAIN, VALIDATION) if args.all else (TRAIN,), args.without, args.batch
    )
    corpus = load_file(args.work / "teacher.safetensors", device=DEVICE)
    pair = Pair(image_tower(args.image)).to(DEVICE)
    taught = {
        name: tensor.float()
        for name, tensor in load_file(args.work / "text.safetensors", device=DEVICE).items()
    }
    pair.text.load_state_dict(taught)
    pair.image.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    average = AveragedModel(pair, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True)
    groups = [
        {"params": pair.image.parameters(), "lr": args.image_rate, "weight_decay": 0.15},
        {"params": pair.text.parameters(), "lr": args.text_rate, "weight_decay": 0.02},
        {"params": [pair.scale], "lr": args.scale_rate, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=DEVICE == "cuda")
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: warm_cosine(i, WARM_UP, args.steps)
    )
    began = time.time()
    for step in range(args.steps):
        loss = one_step(pair, batches, corpus, args)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(pair.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(pair)
        if step % 500 == 499:
            print(
                f"{args.out} {step + 1} loss {loss.item():.3f} scale {pair.scale.exp().item():.1f}"
                f" {time.time() - began:.0f} s",
                flush=True,
            )
    final = cast(Pair, average.module.eval())
    final.text.load_state_dict(
        {
            name: taught[name].lerp(tensor, args.share)
            for name, tensor in final.text.state_dict().items()
        }
    )
    result = vars(args) | {"seconds": time.time() - began} | measure(final, batches, args)
    result = {
        name: str(value) if isinstance(value, Path) else value for name, value in result.items()
    }
    save_file(
        {name: tensor.contiguous() for name, tensor in final.state_dict().items()},
        args.work / f"{args.out}.safetensors",
    )
    (args.work / f"{args.out}.json").write_text(json.dumps(result, indent=1))
    print(
        json.dumps(
            {
                name: round(value, 4) if isinstance(value, float) else value
                for name, value in result.items()
            }
        ),
        flush=True,
    )


def one_step(
    pair: Pair, batches: Batches, corpus: dict[str, torch.Tensor], args: argparse.Namespace
) -> torch.Tensor:
    """The loss of one batch: the contrast both ways, and what keeps the text near the teacher."""
    rows, own, more = batches.draw()
    texts, sentences = torch.cat([own, more]), drawn(corpus, args.batch)
    tokens = torch.cat([batches.captions["tokens"][texts], corpus["tokens"][sentences]])
    with autocast():
        image, text, mimic = pair(views(floats(batches.pictures[rows])), tokens)
    positive, weight = batches.pairs(rows, texts)
    scores = pair.scale.exp().clamp(max=60) * image @ text[: len(texts)].T
    n = len(rows)
    loss = (
        contrast(scores, positive, weight)
        + contrast(scores[:, :n].T, positive[:, :n].T, weight[:, :n].T)
    ) / 2
    targets = corpus["targets"][sentences].float()
    joint, mimic = text[len(texts) :], mimic[len(texts) :]
    loss = (
        loss
        + (1 - (mimic * targets).sum(1)).mean()
        + args.relations * F.mse_loss(joint @ joint.T, targets @ targets.T)
    )
    ours, theirs = (
        found[len(corpus["male"]) + len(corpus["female"]) :][: args.batch // 2]
        @ axis(found, corpus)
        for found in (joint, targets)
    )
    loss = loss + args.lean * (
        1 - F.cosine_similarity(ours - ours.mean(), theirs - theirs.mean(), dim=0)
    )
    male, female = (
        batches.labels["bits"][rows, BITS["gender", gender]].float()[:, None] for gender in GENDERS
    )
    seen = (image * male).sum(0) / male.sum() - (image * female).sum(0) / female.sum()
    return loss + args.axes * (1 - F.cosine_similarity(seen, axis(joint, corpus), dim=0))


def drawn(corpus: dict[str, torch.Tensor], batch: int) -> torch.Tensor:
    """Sentences of the corpus: the words for men, for women, then as many that name no gender as
    any.
    """
    silent = corpus["silent"][torch.randint(len(corpus["silent"]), (batch // 2,), device=DEVICE)]
    return torch.cat(
        [
            corpus["male"],
            corpus["female"],
            silent,
            torch.randint(len(corpus["tokens"]), (batch // 2,), device=DEVICE),
        ]
    )


def axis(rows: torch.Tensor, corpus: dict[str, torch.Tensor]) -> torch.Tensor:
    """Mean of the words for men minus mean of the words for women; rows as ``drawn`` orders them."""
    men, women = rows.split([len(corpus["male"]), len(rows) - len(corpus["male"])])
    return men.mean(0) - women[: len(corpus["female"])].mean(0)


@torch.inference_mode()
def measure(pair: Pair, batches: Batches, args: argparse.Namespace) -> dict[str, float]:
    """Zero-shot figures on the validation part."""
    from sklearn.metrics import roc_auc_score
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer.json"))

    def of_tokens(tokens: torch.Tensor) -> np.ndarray:
        return torch.cat([encoded(pair, part) for part in tokens.split(2048)]).cpu().numpy()

    def encode(texts: list[str]) -> np.ndarray:
        return of_tokens(torch.from_numpy(tokenize(tokenizer, texts)))

    def of(source: str) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        rows = batches.of(SOURCES.index(source), (VALIDATION,))
        images = torch.cat(
            [
                F.normalize(pair.image(centre(batches.pictures[part])).float(), dim=-1)
                for part in rows.split(512)
            ]
        )
        return rows, images.cpu().numpy(), batches.labels["bits"][rows].cpu().numpy()

    _, faces, bits = of("fairface")
    found = zero_shot.faces(encode, faces, bits)
    right, old = found["youth"]
    out = {
        "gender": found["gender"].mean(),
        "race": found["race"].mean(),
        "youth": (right[old].mean() + right[~old].mean()) / 2,
    }
    out["alignment"] = zero_shot.alignment(encode, faces, bits)
    _, work, bits = of("idenprof")
    out["occupation"] = (
        zero_shot.predict(encode, work, "occupation") == zero_shot.answer(bits, "occupation")
    ).mean()
    _, celeba, bits = of("celeba")
    for name in zero_shot.AUC:
        out[f"auc_{name}"] = roc_auc_score(
            zero_shot.answer(bits, name) == 0, zero_shot.margin(encode, celeba, name)
        )
    rows, flickr, _ = of("flickr8k")
    spans = batches.labels["spans"][rows].cpu().numpy()
    texts = np.concatenate([np.arange(*span) for span in spans])
    target = np.repeat(np.arange(len(spans)), [end - start for start, end in spans])
    captions = of_tokens(batches.captions["tokens"][torch.from_numpy(texts).to(DEVICE)])
    out |= {f"recall_{k}": zero_shot.recall(flickr, captions, target, k).mean() for k in (1, 10)}
    if args.teacher:
        from scipy.stats import spearmanr

        teacher = Teacher(args.teacher)
        for name, occupations in (("held_out", HELD_OUT), ("seen", OCCUPATIONS)):
            theirs = zero_shot.leans(lambda texts: teacher(texts).cpu().numpy(), occupations)
            out[f"lean_{name}"] = spearmanr(zero_shot.leans(encode, occupations), theirs)[0]
    return {name: float(value) for name, value in out.items()}


if __name__ == "__main__":
    main()
