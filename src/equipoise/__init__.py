"""equipoise: remove social bias from vision-language embeddings in closed form, and prove how
little changed.
"""

# ruff: noqa: E402 - the switches come before all else
from equipoise import telemetry

telemetry.switch_off()

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import errors, geometry, kernels
from equipoise._version import __version__
from equipoise.certificate import Certificate, Frontier, certify, cross_bound, frontier
from equipoise.debiasing import debias
from equipoise.errors import EquipoiseError
from equipoise.space import AttributeSpace

if TYPE_CHECKING:
    from equipoise import (
        audit,
        datasets,
        generation,
        methods,
        metrics,
        published,
        report,
        search,
        tasks,
    )
    from equipoise.applying import apply
    from equipoise.encoders import export_onnx, load_encoder, wrap
    from equipoise.methods import FitContext
    from equipoise.prompts.attribute import Attribute
    from equipoise.prompts.book import PromptBook
    from equipoise.prompts.marks import explicit_groups
    from equipoise.prompts.neutral import neutralize
    from equipoise.spaceset import SpaceSet
    from equipoise.stores import open_store

_LATER = {  # loaded when first used: what they import would make every import slow
    "Attribute": "equipoise.prompts.attribute",
    "FitContext": "equipoise.methods",
    "PromptBook": "equipoise.prompts.book",
    "SpaceSet": "equipoise.spaceset",
    "apply": "equipoise.applying",
    "audit": "equipoise.audit",
    "datasets": "equipoise.datasets",
    "explicit_groups": "equipoise.prompts.marks",
    "export_onnx": "equipoise.encoders",
    "generation": "equipoise.generation",
    "load_encoder": "equipoise.encoders",
    "methods": "equipoise.methods",
    "metrics": "equipoise.metrics",
    "neutralize": "equipoise.prompts.neutral",
    "open_store": "equipoise.stores",
    "published": "equipoise.published",
    "report": "equipoise.report",
    "search": "equipoise.search",
    "tasks": "equipoise.tasks",
    "wrap": "equipoise.encoders",
}

__all__ = [
    "Attribute",
    "AttributeSpace",
    "Certificate",
    "EquipoiseError",
    "FitContext",
    "Frontier",
    "PromptBook",
    "SpaceSet",
    "__version__",
    "apply",
    "audit",
    "certify",
    "cross_bound",
    "datasets",
    "debias",
    "errors",
    "explicit_groups",
    "export_onnx",
    "frontier",
    "generation",
    "geometry",
    "kernels",
    "load_encoder",
    "methods",
    "metrics",
    "neutralize",
    "open_store",
    "published",
    "report",
    "search",
    "tasks",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    module = import_module(_LATER[name])
    value = globals()[name] = (
        module if _LATER[name] == f"equipoise.{name}" else getattr(module, name)
    )
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
