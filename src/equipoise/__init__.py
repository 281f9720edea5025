"""equipoise: remove social bias from vision-language embeddings in closed form, and prove how little changed."""

from equipoise import errors, geometry, kernels
from equipoise._version import __version__
from equipoise.certificate import Certificate, Frontier, certify, cross_bound, frontier
from equipoise.debiasing import debias
from equipoise.errors import EquipoiseError
from equipoise.space import AttributeSpace

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
    "frontier",
    "geometry",
    "kernels",
]
