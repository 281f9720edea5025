"""equipoise: remove social bias from vision-language embeddings in closed form, and prove how
little changed.
"""

# ruff: noqa: E402 - the switches come before all else
from equipoise import _telemetry as telemetry

telemetry.switch_off()

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import errors
from equipoise._version import __version__
from equipoise.errors import EquipoiseError

if TYPE_CHECKING:
    from equipoise import (
        datasets,
        evaluation,
        generation,
        geometry,
        kernels,
        methods,
        metrics,
        published,
        report,
    )
    from equipoise._applying import ApplyReport
    from equipoise._certificate import Certificate, Frontier, certify, cross_bound, frontier
    from equipoise._debiasing import debias
    from equipoise._row_check import RowCheck
    from equipoise._space import AttributeSpace
    from equipoise._spaceset import SpaceSet
    from equipoise._stores import Store, open_store
    from equipoise._verbs.apply import apply
    from equipoise._verbs.audit import AuditResults, audit
    from equipoise._verbs.embed import embed
    from equipoise._verbs.explore import Exploration, explore
    from equipoise._verbs.search import SearchResults, search
    from equipoise.encoders import export_onnx, load_encoder, wrap
    from equipoise.methods import FitContext
    from equipoise.prompts._attribute import Attribute
    from equipoise.prompts._neutral_captions import neutralize
    from equipoise.prompts._prompt_book import PromptBook
    from equipoise.prompts._stated_groups import explicit_groups

# Loaded when first used. What they import, numpy to begin with, would make every start slow, that
# of `equipoise --help` too.
_LATER = {
    "ApplyReport": "equipoise._applying",
    "Attribute": "equipoise.prompts._attribute",
    "AttributeSpace": "equipoise._space",
    "AuditResults": "equipoise._verbs.audit",
    "Certificate": "equipoise._certificate",
    "Exploration": "equipoise._verbs.explore",
    "FitContext": "equipoise.methods",
    "Frontier": "equipoise._certificate",
    "PromptBook": "equipoise.prompts._prompt_book",
    "RowCheck": "equipoise._row_check",
    "SearchResults": "equipoise._verbs.search",
    "SpaceSet": "equipoise._spaceset",
    "Store": "equipoise._stores",
    "apply": "equipoise._verbs.apply",
    "audit": "equipoise._verbs.audit",
    "certify": "equipoise._certificate",
    "cross_bound": "equipoise._certificate",
    "datasets": "equipoise.datasets",
    "debias": "equipoise._debiasing",
    "embed": "equipoise._verbs.embed",
    "evaluation": "equipoise.evaluation",
    "explicit_groups": "equipoise.prompts._stated_groups",
    "explore": "equipoise._verbs.explore",
    "export_onnx": "equipoise.encoders",
    "frontier": "equipoise._certificate",
    "generation": "equipoise.generation",
    "geometry": "equipoise.geometry",
    "kernels": "equipoise.kernels",
    "load_encoder": "equipoise.encoders",
    "methods": "equipoise.methods",
    "metrics": "equipoise.metrics",
    "neutralize": "equipoise.prompts._neutral_captions",
    "open_store": "equipoise._stores",
    "published": "equipoise.published",
    "report": "equipoise.report",
    "search": "equipoise._verbs.search",
    "wrap": "equipoise.encoders",
}

__all__ = [
    "ApplyReport",
    "Attribute",
    "AttributeSpace",
    "AuditResults",
    "Certificate",
    "EquipoiseError",
    "Exploration",
    "FitContext",
    "Frontier",
    "PromptBook",
    "RowCheck",
    "SearchResults",
    "SpaceSet",
    "Store",
    "__version__",
    "apply",
    "audit",
    "certify",
    "cross_bound",
    "datasets",
    "debias",
    "embed",
    "errors",
    "evaluation",
    "explicit_groups",
    "explore",
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
