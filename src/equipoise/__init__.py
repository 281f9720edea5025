"""equipoise: remove social bias from vision-language embeddings in closed form, and prove how little changed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import errors, geometry, kernels
from equipoise._version import __version__
from equipoise.certificate import Certificate, Frontier, certify, cross_bound, frontier
from equipoise.debiasing import debias
from equipoise.errors import EquipoiseError
from equipoise.space import AttributeSpace

if TYPE_CHECKING:
    from equipoise.encoders import export_onnx, load_encoder, wrap
    from equipoise.stores import open_store

_LAZY = {
    "export_onnx": "equipoise.encoders",
    "load_encoder": "equipoise.encoders",
    "open_store": "equipoise.stores",
    "wrap": "equipoise.encoders",
}

__all__ = [
    "AttributeSpace",
    "Certificate",
    "EquipoiseError",
    "Frontier",
    "__version__",
    "certify",
    "cross_bound",
    "debias",
    "errors",
    "export_onnx",
    "frontier",
    "geometry",
    "kernels",
    "load_encoder",
    "open_store",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Rooms that ``import equipoise`` does not load, on first use."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
