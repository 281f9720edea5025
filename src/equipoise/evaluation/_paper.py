"""The paper's row beside ours: which of its models, methods and variants a run is."""

from __future__ import annotations

from equipoise import published
from equipoise.evaluation._run_document import PublishedCell
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
# the paper's own configuration of closed-form
OWN = {"kappa": 1, "modality": "both", "prototype": "both"}


def model_of(encoder: str) -> str:
    """Return the paper's name of an encoder; "" for one that it does not have."""
    return MODELS.get(encoder, "")


def variant_of(spec: MethodSpec) -> str | None:
    """Return the paper's name of a setting, "" for its own; None for one that it does not have.

    Scope does not count, because the paper prints one scope only.
    """
    if spec.is_file or (spec.name != "closed-form" and spec.params):
        return None
    other = []
    for name, value in spec.params.items():
        if name != "scope" and value != OWN.get(name):
            other.append(f"{name}={value}")
    if spec.book:
        other.append(f"book={spec.book}")
    if len(other) > 1:
        return None
    return "".join(other)


def cell(
    model: str, task: str, dataset: str, attribute: str, spec: MethodSpec, metric: str
) -> PublishedCell | None:
    """Return what the paper printed for this, as shares; None where it printed nothing."""
    variant = variant_of(spec)
    if not model or variant is None:
        return None
    found = published.lookup(
        model=model,
        task=task,
        dataset=dataset,
        attribute=attribute,
        method=spec.name,
        variant=variant,
        metric=metric,
    )
    if found.empty:
        return None
    first = found.iloc[0]
    return PublishedCell(
        table=str(first["table"]),
        value=float(first["value"]) / 100,
        # NaN where none is printed
        spread=float(first["spread"]) / 100,
        marker=str(first["marker"]),
        problem=str(first["problem"]),
    )
