"""Zero-shot classification: each image goes to the class whose prompt it is most similar to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from equipoise import metrics
from equipoise._rows import encoded_texts, unit_blocks
from equipoise.encoders import TextEncoder
from equipoise.errors import InputError
from equipoise.evaluation._estimates import Measured, check_operators, gated
from equipoise.evaluation._protocol import Protocol
from equipoise.evaluation._run_document import Better
from equipoise.evaluation._small_cells import small_cells
from equipoise.metrics import Cells
from equipoise.metrics._resample_cells import CellMetric


def predict(
    operator: Any, images: Any, texts: np.ndarray, prompts: Sequence[str], *, gate: Any = None
) -> np.ndarray:
    """Return the place of the prompt that scores highest for each image: (n,).

    Images are read block by block. texts (classes, d): the prompts' rows.
    """
    best = [
        operator.scores(rows, texts, prompts, **gated(operator, gate)).argmax(1)
        for rows in unit_blocks(images, len(prompts))
    ]
    if not best:
        raise InputError("there are no images to classify")
    return np.concatenate(best)


def classify(
    operators: Mapping[str, Any],
    images: Any,
    class_prompts: Mapping[Any, str],
    *,
    labels: Any,
    sensitive_features: Any,
    encoder: TextEncoder | None = None,
    texts: Any = None,
    protocol: str = "mended",
    positive: Hashable | None = None,
    gate: Any = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Measured:
    """Return F1, equal opportunity and accuracies of every operator, on the same resamples.

    operators: name -> operator. images: (n, d), a store or an iterable of arrays that can be read
    again. class_prompts: label -> prompt; their rows are ``texts``, or encoded by ``encoder``.
    protocol: "paper", "released" or "mended", which differ in the form of equal opportunity and in
    what an empty class scores. positive: one class of interest, for a binary F1 and equal
    opportunity of that class alone, as on CelebA.
    """
    check_operators(operators)
    check_classes(labels, class_prompts, positive)
    prompts = list(class_prompts.values())
    rows = encoded_texts(prompts, encoder, texts)
    predictions = {
        name: predict_labels(operator, images, rows, class_prompts, gate=gate)
        for name, operator in operators.items()
    }
    return measure_predictions(
        predictions,
        labels=labels,
        sensitive_features=sensitive_features,
        classes=len(class_prompts),
        protocol=protocol,
        positive=positive,
        resamples=resamples,
        seed=seed,
    )


def predict_labels(
    operator: Any,
    images: Any,
    texts: np.ndarray,
    class_prompts: Mapping[Any, str],
    *,
    gate: Any = None,
) -> np.ndarray:
    """Return the predicted class of each image: (n,)."""
    names = np.empty(len(class_prompts), dtype=object)
    names[:] = list(class_prompts)
    return names[predict(operator, images, texts, list(class_prompts.values()), gate=gate)]


def measure_predictions(
    predictions: Mapping[str, Any],
    *,
    labels: Any,
    sensitive_features: Any,
    classes: int,
    protocol: str = "mended",
    positive: Hashable | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Measured:
    """Return what ``classify`` measures, from predictions: method -> (n,).

    classes: how many there are to predict.
    """
    functions, better = _metrics(Protocol.named(protocol), positive, classes)
    bootstrap = metrics.bootstrap_classification(
        labels,
        predictions,
        sensitive_features=sensitive_features,
        metrics=functions,
        resamples=resamples,
        seed=seed,
    )
    cells = small_cells(labels, sensitive_features)
    of_class = tuple(cell for cell in cells if cell.startswith(f"{positive}, "))
    small = {name: cells for name in functions if name.startswith("worst-group")}
    for name in functions:
        if name.startswith("EO_"):
            small[name] = cells if positive is None else of_class
    return Measured(bootstrap, better, small=small)


def check_classes(labels: Any, class_prompts: Any, positive: Hashable | None) -> None:
    """Raise unless there are two classes or more, each with a prompt of its own.

    positive: must be one of the classes, or None.
    """
    from equipoise.metrics._labels import encode

    if not isinstance(class_prompts, Mapping) or len(class_prompts) < 2:
        raise InputError(
            f"classification needs two classes or more, and class_prompts is {class_prompts!r};"
            " pass label -> prompt"
        )
    if len(set(class_prompts.values())) < len(class_prompts):
        raise InputError(
            "two classes have the same prompt, so nothing tells them apart; give each its own"
        )
    found = encode(labels, "labels").labels
    unknown = [label for label in found if label not in class_prompts]
    if unknown:
        raise InputError(
            f"labels hold {unknown[:5]}, which have no prompt; class_prompts has"
            f" {list(class_prompts)[:10]}"
        )
    if len(found) < 2:
        raise InputError(
            f"the images are of one class, {list(found)}; classification needs two or more"
        )
    if positive is not None and positive not in found:
        raise InputError(
            f"positive={positive!r} is no class of the images; they have {list(found)}"
        )


def _metrics(
    protocol: Protocol, positive: Hashable | None, out_of: int
) -> tuple[dict[str, CellMetric], dict[str, Better]]:
    """Return the metrics by name, and whether "higher" or "lower" is better."""
    functions: dict[str, CellMetric] = {}
    better: dict[str, Better] = {}

    def add(name: str, function: CellMetric, which: Better) -> None:
        functions[name] = function
        better[name] = which

    if positive is None:
        classes = None
        divisor = out_of if protocol.to_the_letter else None
        add("macro F1", partial(Cells.macro_f1, out_of=divisor), "higher")
    else:
        classes = [positive]
        add("F1", lambda cells: cells.binary_f1(positive), "higher")
    form = protocol.form(one_class=positive is not None)
    for name, options in metrics.EQUAL_OPPORTUNITY[form].items():
        add(f"EO_{name}", partial(Cells.equal_opportunity, **options, classes=classes), "lower")
    add("accuracy", Cells.accuracy, "higher")
    add("worst-group accuracy", Cells.worst_group_accuracy, "higher")
    return functions, better
