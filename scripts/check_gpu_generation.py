"""Check generation and the learned methods on a GPU against the CPU, and print one line a check.

``attach`` on a small instance of every family of pipelines, the embedded generator with its
methods, and every method that is fitted with gradients. Exits with 1 if a check fails. Run from the
repository root: ``PYTHONPATH=src:mini/src:. python scripts/check_gpu_generation.py``, with the
names of CHECKS for some of them.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tests.helpers.families import FAMILIES, Family, family

import equipoise as eq
from equipoise.encoders import load_encoder
from equipoise.generation import _treatments as treatments
from equipoise.generation._conditioning import Conditioning
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._outputs import nodes
from equipoise.generation._painters import Painter, load_painter
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.methods._specs import MethodSpec

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEUTRAL, EXPLICIT = "a photo of a doctor", "a photo of a female doctor"
BOOK = eq.PromptBook.load("occupations-gender").subset([NEUTRAL])
STATES_APART = 1e-3  # of their length: float32 encoders whose sums two devices order differently
PICTURES_APART = 3.0  # bytes on average: bfloat16 beside float32, over sixteen steps
DRAWN = 8  # pictures of each method that are drawn on both devices
TIMED = 2048  # pictures that are drawn for the time
METHODS = [
    "closed-form",
    "balanced:how=states,strength=1.5",
    "balanced",
    "uce",
    "prompt-intervention",
    "fair-diffusion",
]
ROWS, DIM = 4000, 64
LEARNED: dict[str, dict[str, Any]] = {
    "prism": {"samples": 400},
    "dear": {},
    "saner": {"epochs": 300},
    "joint-vl": {"epochs": 8},
}
LEARNED_APART = 1e-2  # between rows of length one, after hundreds of steps in another order of sums
FAILED: list[str] = []


def report(name: str, passed: bool, detail: str) -> None:
    """Print a line, and note a failure."""
    print(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}", flush=True)
    if not passed:
        FAILED.append(name)


def check_families() -> None:
    """Edited states are those of the CPU; prompts that are left alone draw the same bits."""
    for name in FAMILIES:
        with reporting(name):
            check_family(name, family(name))


@contextmanager
def reporting(name: str) -> Iterator[None]:
    """Report an error as a failure, so that it stops nothing else."""
    try:
        yield
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        report(name, False, f"{type(error).__name__} at {place}: {str(error)[:300]}")


def check_family(name: str, found: Family) -> None:
    """Compare one pipeline on both devices."""
    expected = edited_states(found)
    found.pipe.to(DEVICE)
    apart = max(map(_apart, edited_states(found), expected))
    report(f"{name}, edited states", apart < STATES_APART, f"{apart:.1e} from those of the CPU")
    plain = {prompt: draw(found, prompt) for prompt in (NEUTRAL, EXPLICIT)}
    with eq.generation.attach(found.pipe, "gender", BOOK):
        edited = {prompt: draw(found, prompt) for prompt in plain}
    with eq.generation.attach(found.pipe, "gender", BOOK, kappa=0):
        unmoved = draw(found, NEUTRAL)
    removed = draw(found, NEUTRAL)
    same = torch.equal(edited[EXPLICIT], plain[EXPLICIT])
    same &= torch.equal(unmoved, plain[NEUTRAL]) and torch.equal(removed, plain[NEUTRAL])
    moved = not torch.equal(edited[NEUTRAL], plain[NEUTRAL])
    report(f"{name}, pictures", same and moved, f"left alone: same bits {same}; edited: {moved}")
    steered = eq.generation.steer(found.pipe, eq.generation.GroupDraws("gender"))
    try:
        with steered.towards("female"):
            moved = draw(found, NEUTRAL)
    finally:
        steered.remove()
    there = bool(torch.isfinite(moved).all()) and not torch.equal(moved, plain[NEUTRAL])
    report(f"{name}, balanced by states", there, f"on {moved.device}, finite and moved: {there}")


def edited_states(found: Family) -> list[torch.Tensor]:
    """Return the tensors of ``encode_prompt`` for a neutral prompt that was edited."""
    conditioning = Conditioning(found.pipe)
    asked = {key: found.options[key] for key in conditioning.calls.options if key in found.options}
    prompts = {key: [NEUTRAL] for key in conditioning.calls.prompts}
    options = {**conditioning.usual, **asked}
    with eq.generation.attach(found.pipe, "gender", BOOK, kappa=np.inf), torch.no_grad():
        output = found.pipe.encode_prompt(
            **conditioning.calls.arguments(prompts, options, guided=True)
        )
    tensors = [value for _, value in nodes((output, {})) if isinstance(value, torch.Tensor)]
    return [tensor.detach().cpu() for tensor in tensors if tensor.is_floating_point()]


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-12))


def draw(found: Family, prompt: str) -> torch.Tensor:
    """Return the latents of a prompt, from noise of the CPU."""
    noise = torch.Generator("cpu").manual_seed(0)
    return found.pipe(prompt=prompt, generator=noise, return_dict=False, **found.options)[0]


def check_mini() -> None:
    """The embedded generator draws on the GPU what it draws on the CPU, with every method."""
    here, there = load_painter("mini"), load_painter("mini", device=DEVICE)
    for label in ["none", *METHODS]:
        with reporting(f"mini, {label}"):
            expected, found = (painted(painter, label, DRAWN) for painter in (here, there))
            apart = np.abs(found.astype(int) - expected).mean()
            detail = f"{apart:.2f} of 255 from those of the CPU, {there.precision}"
            report(f"mini, {label}", bool(apart < PICTURES_APART), detail)
    for label in ("none", "closed-form", "balanced:how=states,strength=1.5", "fair-diffusion"):
        painted(there, label, 256)
        began = time.perf_counter()
        painted(there, label, TIMED)
        print(
            f"     mini, {label}: {TIMED / (time.perf_counter() - began):.0f} pictures per second"
        )


def painted(painter: Painter, label: str, count: int) -> np.ndarray:
    """Return pictures of one prompt by a method."""
    gender = eq.Attribute.load("gender")
    methods = [] if label == "none" else [label]
    plan = make_plan("mini", gender, [NEUTRAL], methods, count)
    run = treatments.DrawingRun(plan, painter, gender)
    some = [
        DrawnPicture(
            image=f"{number}.png",
            prompt=NEUTRAL,
            method=label,
            seed=number,
            explicit_group="",
            attempt=0,
            number=number,
        )
        for number in range(count)
    ]
    with treatments.open_treatment(_spec(plan, label), run) as treatment:
        return np.asarray(treatment.paint(some))


def _spec(plan: DrawingPlan, label: str) -> MethodSpec:
    specs = plan.specs()
    return specs[label] if label in specs else list(specs.values())[-1]


def check_learned() -> None:
    """Methods that learn give the same rows from both devices, up to the order of sums."""
    gender = eq.Attribute.load("gender")
    encoder = load_encoder("mini")
    book = eq.PromptBook.load("occupations-gender")
    rng = np.random.default_rng(0)
    groups = rng.choice(np.array(gender.groups), ROWS)
    said = {
        group: encoder.encode_text([f"a photo of a {group} person"])[0] for group in gender.groups
    }
    images = rng.standard_normal((ROWS, encoder.dim)).astype(np.float32) / np.sqrt(encoder.dim)
    images += np.stack([said[group] for group in groups])
    for name, params in LEARNED.items():
        with reporting(f"{name} fitted on {DEVICE}"):
            rows, took = {}, {}
            for device in ("cpu", DEVICE):
                context = eq.FitContext(
                    gender,
                    encoder=encoder,
                    book=book,
                    images=images,
                    sensitive_features=groups,
                    device=device,
                )
                began = time.perf_counter()
                operator = eq.methods.create(name, **params).fit(context)
                took[device] = time.perf_counter() - began
                rows[device] = [operator.image(images), operator.text(images)]
            pairs = zip(rows[DEVICE], rows["cpu"], strict=True)
            apart = max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)
            detail = f"{apart:.1e} apart; {took['cpu']:.1f} s on the CPU, {took[DEVICE]:.1f} s here"
            report(f"{name} fitted on {DEVICE}", apart < LEARNED_APART, detail)


CHECKS: dict[str, Callable[[], None]] = {
    "families": check_families,
    "mini": check_mini,
    "learned": check_learned,
}


def main() -> None:
    """Run the checks that were named, or all of them."""
    names = sys.argv[1:] or list(CHECKS)
    for name in names:
        with reporting(name):
            CHECKS[name]()
    failed = f"{len(FAILED)} checks failed" if FAILED else "all checks passed"
    print(f"{failed}: {', '.join(names)}, on {DEVICE}")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
