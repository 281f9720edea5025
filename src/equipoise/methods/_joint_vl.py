"""``joint-vl``: two small networks, trained together, take the bias out of images and texts.

The method is that of Zhang et al. 2025. The bias that images lose is to be distributed as the bias
that texts lose, and similarities are to stay what they were, whichever group a text states. The
paper's own measure of both at once is ``equipoise.metrics.able``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise._rows import directed
from equipoise.errors import InputError
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images
from equipoise.methods._networks import Net, NetworkOperator, linear, mlp, unit
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method, Strength
from equipoise.methods._training import (
    Batches,
    Machine,
    Stage,
    choose,
    machine,
    require_numbers,
    train,
    trained_with,
)
from equipoise.prompts._english import fix_articles

SIGNS = {"add": 1.0, "subtract": -1.0}
TEACHER = "teacher."  # of the slowly following copy of the networks
FOLLOWS = 0.995
TEACHER_SHARE, TEACHER_FROM = 0.4, 5  # of the targets, from this epoch on


class JointOperator(NetworkOperator):
    """Texts as ``t + r(t)``, images as ``x + r(x + s(x))``.

    r and s are two-layer networks that end in a ReLU.
    """

    method = "joint-vl"

    def changed(self, net: Net, rows: Any, modality: Modality) -> Any:
        return _debiased(net, rows, modality, **self.options)


def _debiased(
    net: Net,
    rows: Any,
    modality: Modality,
    sign: str,
    length: float,
    amount: float = 1.0,
    prefix: str = "",
) -> Any:
    """Return debiased rows, of any length, from unit rows that are first given this length."""
    rows = rows * length
    seen = rows
    if modality == "image":
        seen = rows + _block(net, f"{prefix}image", rows)
    return rows + SIGNS[sign] * amount * _block(net, f"{prefix}both", seen)


def _block(net: Net, name: str, rows: Any) -> Any:
    return mlp(net, (f"{name}.hidden", f"{name}.out"), rows).clip(min=0)


@dataclass(frozen=True)
class JointVL(Method):
    """Parameters of ``joint-vl``.

    alpha: weight of keeping similarities; the rest of 1 is for aligning bias. sign: the code adds
    what the networks give, the paper subtracts it. length: the length that rows are given before
    the networks, about that of CLIP's own features. template: what a text says of an image, with
    {group}. queue: how many earlier pairs a batch is compared with. amount: how much of the fitted
    part is taken.
    """

    alpha: float = 0.3
    sign: Literal["add", "subtract"] = "add"
    amount: float = 1.0
    length: float = 10.0
    template: str = "This is the photo of a {group} person."
    hidden_image: int = 512
    hidden_both: int = 1024
    queue: int = 65_536
    temperature: float = 0.07
    lr: float = 5e-6
    batch: int = 512
    epochs: int = 100

    name: ClassVar[str] = "joint-vl"
    summary: ClassVar[str] = (
        "two small networks on images and texts that align the bias taken from both and keep"
        " similarities"
    )
    source: ClassVar[str] = "Zhang et al. 2025"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features", "words")
    training: ClassVar[str] = "two MLPs on images and texts"
    code: ClassVar[str] = (
        "adds a ReLU output where the paper subtracts the bias part (sign=subtract)"
    )
    tasks: ClassVar[tuple[str, ...]] = ("retrieval", "classification")
    sweep: ClassVar[Strength | None] = Strength("amount", 0, (0.25, 0.5, 0.75, 1.0))
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = JointOperator

    def fit(self, context: FitContext) -> JointOperator:
        choose("sign", self.sign, tuple(SIGNS))
        require_numbers(
            {
                "amount": (self.amount, 0),
                "length": (self.length, 1e-6),
                "temperature": (self.temperature, 1e-6),
            }
        )
        require_numbers(
            {
                "hidden_image": (self.hidden_image, 1),
                "hidden_both": (self.hidden_both, 1),
                "queue": (self.queue, 1),
            },
            whole=True,
        )
        require_numbers({"batch": (self.batch, 1), "epochs": (self.epochs, 0)}, whole=True)
        require_numbers({"alpha": (self.alpha, 0)})
        if self.alpha > 1:
            raise InputError(f"alpha={self.alpha} is not legal; pass a share from 0 to 1")
        images, codes = labelled_images(self.name, context)
        dim = images.shape[1]
        texts = self._texts(context, dim)
        here = machine(self.name, context.device)
        pairs = _Pairs(
            here, images.astype(np.float32), codes, texts, self.batch, self.queue, context.seed
        )

        def loss(state: Net, step: int) -> Any:
            return self._loss(here, state, pairs, step)

        def follow(state: Net, step: int) -> None:
            for name in learned:
                state[TEACHER + name].mul_(FOLLOWS).add_(state[name], alpha=1 - FOLLOWS)

        start = self._start(context.seed, dim)
        learned = list(start)
        start |= {TEACHER + name: array.copy() for name, array in start.items()}
        stage = Stage(
            "joint-vl",
            context,
            trained_with(self),
            {"rows": images, "codes": codes, "texts": texts},
        )
        steps = self.epochs * pairs.batches.steps
        net = train(stage, here, start, loss, learned, steps=steps, lr=self.lr, after=follow)
        options = {"sign": self.sign, "length": self.length, "amount": self.amount}
        params = asdict(self) | {"seed": context.seed, "images": len(images)}
        kept = {name: net[name] for name in learned}
        return JointOperator(
            context.attribute,
            kept,
            options,
            ("image", "text"),
            dim,
            encoder=context.encoder,
            params=params,
        )

    def _start(self, seed: int, dim: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([seed, 1])
        net = linear(rng, "image.hidden", dim, self.hidden_image)
        net |= linear(rng, "image.out", self.hidden_image, dim)
        net |= linear(rng, "both.hidden", dim, self.hidden_both)
        net |= linear(rng, "both.out", self.hidden_both, dim)
        return net

    def _texts(self, context: FitContext, dim: int) -> np.ndarray:
        """Return unit rows (groups, d): what is said of an image of each group."""
        groups = context.attribute.groups
        if context.text_encoder is not None:
            if "{group}" not in self.template:
                raise InputError(
                    f"template={self.template!r} has no {{group}}; write one sentence with a place"
                    " for the group"
                )
            said = [fix_articles(self.template.replace("{group}", group)) for group in groups]
            rows = np.asarray(context.text_encoder.encode_text(said), np.float64)
        elif context.prototypes is not None:
            means = []
            for group in groups:
                given = np.asarray(context.prototypes[group], np.float64)
                means.append(np.atleast_2d(given).mean(0))
            rows = np.stack(means)
        else:
            raise InputError(
                "joint-vl needs a text of each group: an encoder, a text_table or prototypes, and"
                " the context lacks them"
            )
        if rows.shape[1] != dim or not directed(rows).all():
            raise InputError(
                f"joint-vl has texts {rows.shape[1]} wide and images {dim} wide; both must be"
                " embeddings of one encoder"
            )
        return unit(rows).astype(np.float32)

    def _loss(self, here: Machine, state: Net, pairs: _Pairs, step: int) -> Any:
        x, t, other, images, texts = pairs[step]
        how: dict[str, Any] = {"sign": self.sign, "length": self.length}
        fair_x = unit(_debiased(state, x, "image", **how))
        fair_t = unit(_debiased(state, t, "text", **how))
        said = fair_t
        if np.random.default_rng([pairs.seed, 2, step]).random() >= 0.5:
            said = unit(_debiased(state, other, "text", **how))

        def logs(rows: Any, seen: Any) -> Any:
            return (rows @ seen.T / self.temperature).log_softmax(1)

        lost_t, lost_x = logs(t - fair_t, texts), logs(x - fair_x, images)
        align = (lost_t.exp() * (lost_t - lost_x)).sum(1).mean()  # KL(texts || images)
        with here.torch.no_grad():
            to_texts, to_images = logs(x, texts).exp(), logs(t, images).exp()
            if step // pairs.batches.steps >= TEACHER_FROM:
                slow_x = unit(_debiased(state, x, "image", prefix=TEACHER, **how))
                slow_t = unit(_debiased(state, t, "text", prefix=TEACHER, **how))
                own, taught = 1 - TEACHER_SHARE, TEACHER_SHARE
                to_texts = own * to_texts + taught * logs(slow_x, texts).exp()
                to_images = own * to_images + taught * logs(slow_t, images).exp()
        kept_x = (to_texts * logs(fair_x, texts)).sum(1).mean()
        kept_t = (to_images * logs(said, images)).sum(1).mean()
        keep = -(kept_x + kept_t) / 2
        return self.alpha * keep + (1 - self.alpha) * align


class _Pairs:
    """Batches of images with their texts, the same texts for another group, and the queue.

    The queue holds the pairs of the steps before. It starts with pairs of the set itself, and is no
    longer than the set.
    """

    def __init__(
        self,
        here: Machine,
        rows: np.ndarray,
        codes: np.ndarray,
        texts: np.ndarray,
        batch: int,
        queue: int,
        seed: int,
    ):
        self.here, self.seed, self.codes, self.groups = here, seed, codes, len(texts)
        self.rows, self.texts = here.tensor(rows), here.tensor(texts)
        self.batches, self.queue = Batches(len(rows), batch, seed), min(queue, len(rows))

    def __getitem__(self, step: int) -> tuple[Any, Any, Any, Any, Any]:
        """Return images, texts and other texts of a batch; images and texts of it and the queue."""
        now = self.batches[step]
        rng = np.random.default_rng([self.seed, 3, step])
        turns = rng.integers(1, self.groups, len(now))
        other_codes = (self.codes[now] + turns) % self.groups
        others = self.texts[self.here.tensor(other_codes)]
        all_of = np.concatenate([now, self._queued(step)])
        images = self.rows[self.here.tensor(all_of)]
        texts = self.texts[self.here.tensor(self.codes[all_of])]
        return images[: len(now)], texts[: len(now)], others, images, texts

    def _queued(self, step: int) -> np.ndarray:
        """Return what was seen last before this step, the newest first.

        The number of the step alone gives it, so nothing needs to be kept.
        """
        epoch, place = divmod(step, self.batches.steps)
        seen = place * self.batches.size
        this_epoch = self.batches.order(epoch)[:seen][::-1]
        epoch_before = self.batches.order(epoch - 1)[::-1]
        return np.concatenate([this_epoch, epoch_before])[: self.queue]


METHOD = JointVL
