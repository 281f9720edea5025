"""equipoise: remove social bias from vision-language embeddings in closed form, and prove how little changed."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from equipoise import errors, geometry, kernels
from equipoise._version import __version__
from equipoise.certificate import Certificate, Frontier, certify, cross_bound, frontier
from equipoise.debiasing import debias
from equipoise.errors import EquipoiseError
from equipoise.space import AttributeSpace

if TYPE_CHECKING:
    from equipoise import datasets, metrics

__all__ = [
    "AttributeSpace",
    "Certificate",
    "EquipoiseError",
    "Frontier",
    "__version__",
    "certify",
    "cross_bound",
    "datasets",
    "debias",
    "errors",
    "frontier",
    "geometry",
    "kernels",
    "metrics",
]

_LAZY = {"datasets": "equipoise.datasets", "metrics": "equipoise.metrics"}  # loaded when first asked for


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(_LAZY[name])
