"""The paper's row beside ours: which of its models, methods and variants a run is."""

from __future__ import annotations

from typing import Any

from equipoise import published
from equipoise.methods._specs import MethodSpec

MODELS = {
    "hf:openai/clip-vit-large-patch14": "CLIP ViT-L/14",
    "open_clip:ViT-L-14/openai": "CLIP ViT-L/14",
    "open_clip:RN50/openai": "CLIP RN50",
    "hf:Salesforce/blip-itm-base-coco": "BLIP",
    "hf:Salesforce/blip-itm-base-flickr": "BLIP",
    "hf:Salesforce/blip-itm-large-coco": "BLIP",
    "hf:Salesforce/blip-itm-large-flickr": "BLIP",
}
OWN = {
    "kappa": 1,
    "modality": "both",
    "prototype": "both",
}  # the paper's own configuration of closed-form


def model_of(encoder: str) -> str:
    """The paper's name of an encoder; "" for one that it does not have."""
    return MODELS.get(encoder, "")


def variant_of(spec: MethodSpec) -> str | None:
    """The paper's name of a setting, "" for its own; None for one that it does not have.

    Scope is ours to vary: it prints one.
    """
    if spec.is_file or (spec.name != "closed-form" and spec.params):
        return None
    other = [
        f"{name}={value}"
        for name, value in spec.params.items()
        if name != "scope" and value != OWN.get(name)
    ]
    other += [f"book={spec.book}"] if spec.book else []
    return None if len(other) > 1 else "".join(other)


def cell(
    model: str, task: str, dataset: str, attribute: str, spec: MethodSpec, metric: str
) -> dict[str, Any] | None:
    """What the paper printed for this, as shares and not percent; None where it printed nothing of
    the kind.
    """
    variant = variant_of(spec)
    if not model or variant is None:
        return None
    names = {
        "model": model,
        "task": task,
        "dataset": dataset,
        "attribute": attribute,
        "method": spec.name,
        "variant": variant,
    }
    found = published.lookup(**names, metric=metric)
    if found.empty:
        return None
    first = found.iloc[0]
    return {
        "table": str(first["table"]),
        "value": float(first["value"]) / 100,
        "spread": float(first["spread"]) / 100,  # NaN where none is printed
        "marker": str(first["marker"]),
        "problem": str(first["problem"]),
    }
