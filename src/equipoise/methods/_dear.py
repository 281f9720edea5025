"""``dear``: a residual that hides the attribute of images from a classifier (Seth et al. 2023).

The residual is added to images; texts stay as they are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images
from equipoise.methods._networks import Net, NetworkOperator, dense, linear, mlp
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method, Strength
from equipoise.methods._training import (
    Batches,
    Stage,
    capped,
    choose,
    machine,
    require_numbers,
    train,
    trained_with,
)
from equipoise.prompts._attribute import Attribute

OBJECTIVES = ("capped", "uniform", "unbounded")
# Parameters that the training of the classifier does not depend on.
RESIDUAL = ("objective", "weight", "reconstruction", "lr", "epochs")


class DearOperator(NetworkOperator):
    """Images with the residual added: ``x + amount * (W x + b)``."""

    method = "dear"

    def changed(self, net: Net, rows: Any, modality: Modality) -> Any:
        return rows + self.options["amount"] * dense(net, "residual", rows)


@dataclass(frozen=True)
class Dear(Method):
    """Parameters of ``dear``.

    objective: what the residual does to the classifier. "capped": its cross-entropy rises, to that
    of a guess at most. "uniform": its answers tend to equal shares. "unbounded": the cross-entropy
    rises without end, as the paper prints it. weight: how much the objective counts beside staying
    close. amount: how much of the fitted residual is added. For an intersection the classifier has
    one head per part.
    """

    objective: Literal["capped", "uniform", "unbounded"] = "capped"
    weight: float = 1e-2
    reconstruction: float = 1.0
    amount: float = 1.0
    lr: float = 5e-4
    epochs: int = 10
    batch: int = 512
    classifier_lr: float = 5e-3
    classifier_epochs: int = 10

    name: ClassVar[str] = "dear"
    summary: ClassVar[str] = (
        "a learned residual on images that a frozen attribute classifier cannot read"
    )
    source: ClassVar[str] = "Seth et al. 2023"
    changes: ClassVar[tuple[str, ...]] = ("image",)
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    training: ClassVar[str] = "a classifier, then a linear layer"
    tasks: ClassVar[tuple[str, ...]] = ("retrieval", "classification")
    sweep: ClassVar[Strength | None] = Strength("weight", 0, (1e-3, 1e-2, 1e-1, 1.0))
    operator: ClassVar[type[Operator]] = DearOperator

    def fit(self, context: FitContext) -> DearOperator:
        choose("objective", self.objective, OBJECTIVES)
        require_numbers(
            {
                "weight": (self.weight, 0),
                "reconstruction": (self.reconstruction, 0),
                "amount": (self.amount, 0),
            }
        )
        require_numbers(
            {
                "epochs": (self.epochs, 0),
                "classifier_epochs": (self.classifier_epochs, 0),
                "batch": (self.batch, 1),
            },
            whole=True,
        )
        images, codes = labelled_images(self.name, context)
        here = machine(self.name, context.device)
        inputs = {"rows": images, "codes": codes}
        rows = here.tensor(images.astype(np.float32))
        labels = [here.tensor(label) for label in part_codes(context.attribute, codes)]
        sizes = [len(part.groups) for part in context.attribute.parts]
        cross_entropy = here.torch.nn.functional.cross_entropy
        batches = Batches(len(rows), self.batch, context.seed)

        def classifier_loss(state: Net, step: int) -> Any:
            at = here.tensor(batches[step])
            logits = _read(state, rows[at], len(sizes))
            heads = zip(logits, labels, strict=True)
            return sum(cross_entropy(given, label[at]) for given, label in heads)

        start = _classifier(context.seed, rows.shape[1], sizes)
        stage = Stage("dear classifier", context, trained_with(self, *RESIDUAL), inputs)
        steps = self.classifier_epochs * batches.steps
        frozen = train(
            stage, here, start, classifier_loss, list(start), steps=steps, lr=self.classifier_lr
        )
        classifier = {name: here.tensor(array) for name, array in frozen.items()}

        def residual_loss(state: Net, step: int) -> Any:
            at = here.tensor(batches[step])
            added = dense(state, "residual", rows[at])
            logits = _read(classifier, rows[at] + added, len(sizes))
            near = self.reconstruction * (added * added).sum(1).mean()
            heads = zip(logits, labels, strict=True)
            return near + self.weight * sum(
                self._read_as(given, label[at]) for given, label in heads
            )

        # The residual starts at nothing, so that a weight of 0 leaves images exactly as they are.
        dim = rows.shape[1]
        start = linear(np.random.default_rng(context.seed), "residual", dim, dim, zero=True)
        stage = Stage("dear residual", context, trained_with(self), inputs)
        steps = self.epochs * batches.steps
        net = train(stage, here, start, residual_loss, list(start), steps=steps, lr=self.lr)
        options = {"amount": self.amount}
        params = asdict(self) | {"seed": context.seed, "images": len(images)}
        return DearOperator(
            context.attribute,
            net,
            options,
            ("image",),
            dim,
            encoder=context.encoder,
            params=params,
        )

    def _read_as(self, logits: Any, labels: Any) -> Any:
        """Return what is minimised: how well the attribute is still read."""
        logs = logits.log_softmax(1)
        if self.objective == "uniform":
            # KL from equal shares, but for the constant log of their number
            return (logs.exp() * logs).sum(1).mean()
        entropies = -logs.gather(1, labels[:, None])[:, 0]
        if self.objective == "capped":
            entropies = capped(entropies, logits.shape[1])
        return -entropies.mean()


def part_codes(attribute: Attribute, codes: np.ndarray) -> list[np.ndarray]:
    """Return, for each part of an intersection, the place of each row's group in that part.

    A plain attribute has one part, itself.
    """
    groups = [attribute.split(group) for group in attribute.groups]
    found = []
    for i, part in enumerate(attribute.parts):
        places = np.array([part.groups.index(names[i]) for names in groups])
        found.append(places[codes])
    return found


def _classifier(seed: int, dim: int, sizes: list[int]) -> dict[str, np.ndarray]:
    """Return the classifier's first weights: a shared layer, and a head of two per attribute."""
    rng = np.random.default_rng([seed, 1])
    net = linear(rng, "shared", dim, 256)
    for i, size in enumerate(sizes):
        net |= linear(rng, f"head{i}", 256, 128)
        net |= linear(rng, f"out{i}", 128, size)
    return net


def _read(net: Net, rows: Any, heads: int) -> list[Any]:
    """Return the logits of each attribute."""
    return [mlp(net, ("shared", f"head{i}", f"out{i}"), rows) for i in range(heads)]


METHOD = Dear
