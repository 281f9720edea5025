"""``prompt-array``: learned tokens before every prompt (Berg et al. 2022).

With the tokens, similarities do not tell the attribute of an image. Gradients flow through the text
encoder, so the method needs one that has a text tower in torch (``encoder.text_tower()``). The
operator holds the tokens alone: it encodes prompts, and cannot change rows that are encoded
already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images
from equipoise.methods._networks import Net, linear, mlp, unit
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._registry import Method
from equipoise.methods._training import (
    Batches,
    Machine,
    Stage,
    capped,
    choose,
    machine,
    require_numbers,
    train,
)
from equipoise.prompts._attribute import Attribute

TRAITS = (
    "good",
    "evil",
    "smart",
    "dumb",
    "attractive",
    "unattractive",
    "lawful",
    "criminal",
    "friendly",
    "unfriendly",
)
PROMPTS = tuple(f"a photo of a {trait} person" for trait in TRAITS)
SCALE = 100.0  # of similarities, as CLIP's
SOFTER = 20.0  # what they are divided by for the adversary
TURN = 10  # batches until adversary and tokens take turns
CHECKS = 4  # an epoch, of which the best is kept
LAYERS = ("adversary.0", "adversary.1", "adversary.2", "adversary.3")
BLOCK = 256  # prompts encoded at a time


class PromptArrayOperator(Operator):
    """Prompts encoded with the tokens before them."""

    method = "prompt-array"

    def __init__(self, attribute: Attribute, tokens: np.ndarray, in_dim: int, **about: Any):
        super().__init__(attribute, ("text",), in_dim, **about)
        self.tokens = tokens

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        if prompts is None:
            raise InputError(
                "prompt-array puts tokens before a prompt and cannot change rows that are encoded"
                " already; use op.encode_text(prompts), or pass prompts= beside the rows"
            )
        out = self._encode(prompts)
        return out.astype(rows.dtype) if isinstance(rows, np.ndarray) else rows.new_tensor(out)

    def encode_text(self, prompts: Sequence[str], gate: Gate = None) -> np.ndarray:
        """Return debiased rows of prompts.

        The encoder is the one that the operator was fitted with, or was given by ``bind``.
        """
        prompts = list(prompts)
        out = self._encode(prompts)
        kept = np.broadcast_to(self._gated(prompts, gate), len(prompts))
        if kept.any() and self._encoder is not None:
            as_they_are = [prompts[i] for i in np.flatnonzero(kept)]
            out[kept] = self._encoder.encode_text(as_they_are)
        return out

    def _encode(self, prompts: Sequence[str]) -> np.ndarray:
        """Return unit rows (n, d), float32."""
        if self._encoder is None:
            raise InputError(
                f"this {self.method} operator has no encoder; give it one with op.bind(encoder)"
            )
        tower = tower_of(self._encoder)
        torch = machine(self.method, tower.device).torch
        out = np.empty((len(prompts), self.in_dim), np.float32)
        with torch.inference_mode():
            tokens = torch.from_numpy(self.tokens).to(tower.device)
            for start in range(0, len(prompts), BLOCK):
                some = list(prompts[start : start + BLOCK])
                rows = tower.features(tower.tokenize(some, len(tokens)), tokens)
                out[start : start + len(some)] = unit(rows.float()).cpu().numpy()
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        return {"tokens": self.tokens}

    def settings(self) -> dict[str, Any]:
        return {"in_dim": self.in_dim}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> PromptArrayOperator:
        if arrays["tokens"].ndim != 2 or not np.isfinite(arrays["tokens"]).all():
            raise ValueError("the tokens are not finite rows")
        return cls(attribute, arrays["tokens"], int(settings["in_dim"]), encoder=made_by)


@dataclass(frozen=True)
class PromptArray(Method):
    """Parameters of ``prompt-array``.

    tokens: how many stand before a prompt. adversary: "sigmoid" squeezes its answers as the
    reference does, which bounds its loss; "logits" does not, and its loss counts up to that of a
    guess. regularise: weight of the squared distance to the plain features. contrast: weight of the
    image-text loss, for which each image needs a caption. held_out: share of the images that the
    best tokens are chosen on, by NDKL; 0 keeps the last tokens.
    """

    tokens: int = 2
    adversary: Literal["sigmoid", "logits"] = "sigmoid"
    regularise: float = 0.0
    contrast: float = 0.0
    held_out: float = 0.1
    lr: float = 2e-5
    batch: int = 64
    epochs: int = 10
    prompts: tuple[str, ...] = PROMPTS

    name: ClassVar[str] = "prompt-array"
    summary: ClassVar[str] = (
        "learned tokens before every prompt, against an adversary that reads similarities"
    )
    source: ClassVar[str] = "Berg et al. 2022"
    changes: ClassVar[tuple[str, ...]] = ("text",)
    needs: ClassVar[tuple[str, ...]] = ("encoder", "images", "sensitive_features")
    training: ClassVar[str] = "tokens and an adversary"
    gradients: ClassVar[str] = "through the text encoder"
    code: ClassVar[str] = (
        "changes texts alone, where Table 1 says both; cross-entropy of sigmoid outputs"
        " (adversary=logits mends it)"
    )
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = PromptArrayOperator

    def fit(self, context: FitContext) -> PromptArrayOperator:
        self._check()
        context.require(self.name, "encoder")
        tower = tower_of(context.encoder)
        images = Labelled.of(self.name, context)
        captions = _captions(context, len(images.rows)) if self.contrast else None
        here = machine(self.name, tower.device)
        seen, held = _split(len(images.rows), self.held_out, context.seed)
        batches = Batches(len(seen), self.batch, context.seed)
        loss = _Losses(self, here, tower, images, seen, captions, batches)
        if loss.plain.shape[1] != images.rows.shape[1]:
            raise InputError(
                f"the encoder gives {loss.plain.shape[1]} dimensions, and the images have"
                f" {images.rows.shape[1]}; use one encoder"
            )
        start = self._start(context, tower, here)
        every = max(1, batches.steps // CHECKS)
        steps = self.epochs * batches.steps

        def choose_best(state: Net, step: int) -> None:
            if len(held) and ((step + 1) % every == 0 or step + 1 == steps):
                _keep_best(state, loss.texts(state).cpu().numpy(), images, held)

        inputs = {"rows": images.rows, "codes": images.codes, "start": start["tokens"]}
        settings = asdict(self) | {"encoder": EncoderRef.of(context.encoder), "captions": captions}
        stage = Stage("prompt-array", context, settings, inputs)
        learned = [name for name in start if name == "tokens" or name.startswith("adversary")]
        state = train(
            stage,
            here,
            start,
            loss,
            learned,
            steps=steps,
            lr=self.lr,
            turn=lambda step: _turn(learned, step),
            after=choose_best,
        )
        tokens = state["best"] if len(held) and steps else state["tokens"]
        params = asdict(self) | {
            "prompts": list(self.prompts),
            "seed": context.seed,
            "images": len(images.rows),
        }
        return PromptArrayOperator(
            context.attribute, tokens, images.rows.shape[1], encoder=context.encoder, params=params
        )

    def _check(self) -> None:
        choose("adversary", self.adversary, ("sigmoid", "logits"))
        require_numbers(
            {"tokens": (self.tokens, 1), "batch": (self.batch, 1), "epochs": (self.epochs, 0)},
            whole=True,
        )
        require_numbers(
            {
                "regularise": (self.regularise, 0),
                "contrast": (self.contrast, 0),
                "held_out": (self.held_out, 0),
            }
        )
        no_prompts = isinstance(self.prompts, str) or len(self.prompts) < 1
        if no_prompts or self.held_out >= 1:
            raise InputError(
                f"prompts={self.prompts!r} and held_out={self.held_out} are not legal; pass a list"
                " of prompts, and a share below 1"
            )

    def _start(self, context: FitContext, tower: Any, here: Machine) -> dict[str, np.ndarray]:
        """Return tokens that are the embedding of token 0, and an adversary of four layers."""
        rng = np.random.default_rng([context.seed, 1])
        groups = len(context.attribute.groups)
        zero = here.tensor(np.zeros(self.tokens, np.int64))
        tokens = tower.embed(zero).detach().float().cpu().numpy()
        widths = (len(self.prompts), 32, 32, 32, groups)
        net = {"tokens": tokens, "best": tokens.copy(), "best_ndkl": np.full(1, np.inf, np.float32)}
        for name, inputs, outputs in zip(LAYERS, widths[:-1], widths[1:], strict=True):
            net |= linear(rng, name, inputs, outputs)
        return net


class Labelled(NamedTuple):
    """Images with their groups: rows (n, d), unit, float32; codes (n,), the place of the group."""

    rows: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, method: str, context: FitContext) -> Labelled:
        """Return the context's images of a known group."""
        rows, codes = labelled_images(method, context)
        return cls(rows.astype(np.float32), codes)


class _Losses:
    """The losses of the adversary and of the tokens, in turn."""

    def __init__(
        self,
        method: PromptArray,
        here: Machine,
        tower: Any,
        images: Labelled,
        seen: np.ndarray,
        captions: Any,
        batches: Batches,
    ):
        self.method, self.here, self.tower = method, here, tower
        self.batches, self.captions = batches, captions
        self.seen, self.groups = seen, int(images.codes.max()) + 1
        self.rows, self.codes = here.tensor(images.rows), here.tensor(images.codes)
        self.tokens = tower.tokenize(list(method.prompts), method.tokens)
        with here.torch.no_grad():
            width = tower.embed(here.tensor(np.zeros(1, np.int64))).shape[-1]
            nothing = here.tensor(np.zeros((0, width), np.float32))
            self.plain = unit(tower.features(self.tokens, nothing).float())

    def texts(self, state: Net) -> Any:
        """Return unit features of the training prompts with the tokens before them."""
        return unit(self.tower.features(self.tokens, state["tokens"]).float())

    def __call__(self, state: Net, step: int) -> Any:
        at = self.seen[self.batches[step]]
        rows, codes = self.rows[self.here.tensor(at)], self.codes[self.here.tensor(at)]
        texts = self.texts(state)
        squeezed = self.method.adversary == "sigmoid"
        answers = mlp(state, LAYERS, SCALE * rows @ texts.T / SOFTER)
        if squeezed:
            answers = answers.sigmoid()
        entropies = self.here.torch.nn.functional.cross_entropy(answers, codes, reduction="none")
        if _adversary(step):
            return entropies.mean()
        bounded = entropies if squeezed else capped(entropies, self.groups)
        moved = ((texts - self.plain) ** 2).sum(1).mean()
        total = -bounded.mean() + self.method.regularise * moved
        if self.captions is None:
            return total
        return total + self.method.contrast * self._contrast(state, at, rows)

    def _contrast(self, state: Net, at: np.ndarray, rows: Any) -> Any:
        tokens = self.tower.tokenize([self.captions[i] for i in at], self.method.tokens)
        alike = SCALE * rows @ unit(self.tower.features(tokens, state["tokens"]).float()).T
        own = self.here.tensor(np.arange(len(at)))
        cross_entropy = self.here.torch.nn.functional.cross_entropy
        return (cross_entropy(alike, own) + cross_entropy(alike.T, own)) / 2


def tower_of(encoder: Any) -> Any:
    """Return the encoder's text tower; raise where it has none."""
    if not hasattr(encoder, "text_tower"):
        raise InputError(
            f"prompt-array learns through the text encoder, and {type(encoder).__name__} has no"
            " text_tower(); use mini, or a CLIP of hf:"
        )
    return encoder.text_tower()


def _adversary(step: int) -> bool:
    return step // TURN % 2 == 0


def _turn(learned: list[str], step: int) -> list[str]:
    return [name for name in learned if (name != "tokens") == _adversary(step)]


def _split(rows: int, held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places that are trained on, and those that the best tokens are chosen on."""
    order = np.random.default_rng([seed, 4]).permutation(rows)
    held = int(rows * held_out)
    return np.sort(order[held:]), np.sort(order[:held])


def _keep_best(state: Net, texts: np.ndarray, images: Labelled, held: np.ndarray) -> None:
    from equipoise.metrics import ndkl

    scores = texts @ images.rows[held].T
    value = ndkl(scores, sensitive_features=images.codes[held], m=min(1000, len(held)))
    if value < float(state["best_ndkl"][0]):
        state["best"].copy_(state["tokens"])
        state["best_ndkl"].fill_(value)


def _captions(context: FitContext, images: int) -> list[str]:
    """Return the caption of each image."""
    context.require("prompt-array with contrast", "captions")
    captions = list(context.captions if context.captions is not None else ())
    if len(captions) != images:
        raise InputError(
            f"there are {len(captions)} captions and {images} images of a known group; pass one"
            " caption for each of these images, and none for the others"
        )
    return captions


METHOD = PromptArray
