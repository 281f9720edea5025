"""``equipoise.fiftyone``: predictions and skew as fields of FiftyOne, to sort and filter by.

``eq.datasets.fiftyone`` reads labels and groups from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError, MissingExtraError
from equipoise.metrics._retrieval import skews

TEMPLATE = "a photo of a {}"


def add_predictions(
    samples: Any,
    encoder: Any,
    classes: Sequence[str],
    *,
    field: str = "equipoise",
    template: str = TEMPLATE,
    scale: float = 100.0,
) -> None:
    """Classify the pictures of a dataset or view, and write labels and confidences to a field.

    encoder: what ``load_encoder`` or ``wrap`` returns; wrap it to write debiased predictions beside
    plain ones. scale: of the similarities before the softmax, CLIP's own by default. Pictures that
    cannot be read get no prediction.
    """
    if isinstance(classes, str) or len(classes) < 2:
        raise InputError(f"classes={classes!r} are not two or more; pass a list of names")
    fo = _fiftyone()
    texts = encoder.encode_text([template.format(name) for name in classes])
    images = encoder.encode_images(samples.values("filepath"))
    found = []
    for row in scale * images @ texts.T:
        if np.isnan(row).any():
            found.append(None)
            continue
        chances = np.exp(row - row.max())
        best = int(row.argmax())
        share = float(chances[best] / chances.sum())
        found.append(fo.Classification(label=classes[best], confidence=share))
    samples.set_values(field, found)


def add_skew(
    samples: Any, predictions: str, groups: str, *, field: str = "skew"
) -> dict[str, dict[str, float]]:
    """Write the skew of each sample's group among the samples of its predicted class.

    That is the log of the group's share there over its share of all: above 0 where it is found too
    often. predictions, groups: fields of Classification, or of plain values. Samples without either
    get none. Return the skew by class and group.
    """
    labels, held = _values(samples, predictions), _values(samples, groups)
    known = [pair for pair in zip(labels, held, strict=True) if None not in pair]
    if not known:
        raise InputError(
            f"no sample has both {predictions!r} and {groups!r}; pass fields that hold labels"
        )
    names = sorted({group for _, group in known})
    sizes = _counted([group for _, group in known], names)
    table: dict[str, dict[str, float]] = {}
    for label in sorted({label for label, _ in known}):
        there = _counted([group for one, group in known if one == label], names)
        found = skews(there, there.sum(), sizes / sizes.sum())
        table[label] = dict(zip(names, found.tolist(), strict=True))
    pairs = zip(labels, held, strict=True)
    samples.set_values(field, [table.get(label, {}).get(group) for label, group in pairs])
    return table


def _counted(values: Sequence[Any], names: Sequence[Any]) -> np.ndarray:
    return np.array([values.count(name) for name in names], float)


def _values(samples: Any, field: str) -> list[Any]:
    """Return the label or value of each sample."""
    if field not in samples.get_field_schema():
        known = ", ".join(sorted(samples.get_field_schema()))
        raise InputError(f"{samples.name} has no field {field!r}; it has {known}")
    return [getattr(value, "label", value) for value in samples.values(field)]


def _fiftyone() -> Any:
    try:
        import fiftyone  # pyright: ignore[reportMissingImports] - in an environment of its own
    except ImportError:
        raise MissingExtraError("equipoise.fiftyone", "fiftyone", "fiftyone") from None
    return fiftyone
