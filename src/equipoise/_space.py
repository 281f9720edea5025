"""``AttributeSpace``: the fitted artefact, the span of prototype differences, and its origin."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise import _artefact as artefact
from equipoise import geometry
from equipoise._display import cut, html_table, listed
from equipoise._version import __version__
from equipoise.errors import ArtefactError, EncoderMismatchError, InputError
from equipoise.geometry import RANK_TOLERANCE, Float64
from equipoise.kernels._recipe import LowRank, preference

if TYPE_CHECKING:
    from equipoise._space_document import SpaceMetadata
    from equipoise.encoders import TextEncoder
    from equipoise.prompts._attribute import Attribute
    from equipoise.prompts._prompt_book import PromptBook

KIND = "attribute space"
SCOPES = ("shared", "per prompt")
MOST_PARTS = 3  # attributes that are named where a space is printed
SPELT_OUT = 4  # groups that are named there; more are only counted


class Part(NamedTuple):
    """One attribute of a space: its groups and their unit prototypes (groups, d)."""

    attribute: str
    groups: tuple[str, ...]
    prototypes: Float64


class EncoderRef(NamedTuple):
    """Which encoder made the prototypes; empty strings where nobody said."""

    id: str = ""
    revision: str = ""
    fingerprint: str = ""
    note: str = ""  # why its rows may differ from run to run, if they may

    @classmethod
    def of(cls, encoder: Any) -> EncoderRef:
        """Return the reference to an encoder: itself, its id, a store of its rows, or None."""
        if encoder is None or isinstance(encoder, EncoderRef):
            return encoder or cls()
        if isinstance(getattr(encoder, "encoder", None), EncoderRef):
            return encoder.encoder
        if isinstance(encoder, str):
            return cls(encoder)
        values = [str(getattr(encoder, name, None) or "") for name in cls._fields]
        return cls(*values)

    def differs_from(self, other: EncoderRef) -> bool:
        """Return whether both name an encoder, and not the same one.

        Fingerprints decide where both have one.
        """
        if self.fingerprint and other.fingerprint:
            return self.fingerprint != other.fingerprint
        return any(a and b and a != b for a, b in zip(self[:2], other[:2], strict=True))

    def __str__(self) -> str:
        parts = [self.id or "an unnamed encoder"]
        if self.revision:
            parts.append(f"@{self.revision}")
        if self.fingerprint:
            parts.append(self.fingerprint[:12])
        return " ".join(parts)


@dataclass(frozen=True, eq=False)
class AttributeSpace:
    """The span of prototype differences, with an orthonormal ``basis`` (d, r).

    Made by ``from_prototypes``, ``from_prompts`` or ``load``.
    """

    basis: Float64
    parts: tuple[Part, ...]
    kappa: float = 1.0
    scope: str = "shared"
    tolerance: float = RANK_TOLERANCE
    encoder: EncoderRef = field(default=EncoderRef())
    book_hash: str = ""
    version: str = __version__

    @classmethod
    def from_prototypes(
        cls,
        prototypes: Mapping[str, Any],
        *,
        attribute: str | Attribute = "",
        kappa: float = 1.0,
        scope: str = "shared",
        tolerance: float = RANK_TOLERANCE,
        encoder: Any = None,
        book_hash: str = "",
    ) -> AttributeSpace:
        """Fit a space from one prototype per group.

        A prototype is a vector (d,), or a group's embeddings (m, d), whose spherical mean is taken.
        attribute: its name, or the Attribute. tolerance: directions with a singular value under
        this fraction of the largest are dropped. kappa: what ``debias`` uses by default. encoder
        (an encoder or its id) and book_hash say where the prototypes came from.
        """
        if scope not in SCOPES:
            raise InputError(f"scope={scope!r} is not legal; pass one of {', '.join(SCOPES)}")
        check_options(kappa, tolerance)
        groups, unit_prototypes = _prototypes(prototypes)
        basis, _ = geometry.attribute_basis(unit_prototypes, tolerance)
        part = Part(str(getattr(attribute, "name", attribute)), groups, unit_prototypes)
        return cls(
            basis=basis,
            parts=(part,),
            kappa=_one_kappa(kappa),
            scope=scope,
            tolerance=float(tolerance),
            encoder=EncoderRef.of(encoder),
            book_hash=book_hash,
        )

    @classmethod
    def from_prompts(
        cls,
        encoder: TextEncoder,
        book: PromptBook,
        attribute: Attribute,
        *,
        prompts: Iterable[str] | None = None,
        prototype: str = "both",
        kappa: float = 1.0,
        tolerance: float = RANK_TOLERANCE,
        allow_partial: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> AttributeSpace:
        """Fit one shared space from the prototypes of each group, averaged over prompts.

        encoder: anything with ``encode_text``. prompts: those of the book to use, all by default.
        prototype: "both" (anchor and variants), "anchor" or "variants". allow_partial leaves out
        prompts that lack a group. progress(done, all) is called as texts are encoded.
        """
        from equipoise.prompts._prototypes import prompt_prototypes

        check_options(kappa, tolerance)
        _, rows = prompt_prototypes(
            encoder,
            book,
            attribute,
            prompts=prompts,
            prototype=prototype,
            allow_partial=allow_partial,
            progress=progress,
        )
        given = {group: rows[:, i] for i, group in enumerate(attribute.groups)}
        return cls.from_prototypes(
            given,
            attribute=attribute.name,
            kappa=kappa,
            tolerance=tolerance,
            encoder=encoder,
            book_hash=book.hash,
        )

    def __post_init__(self) -> None:
        # Kernels keep copies, so the arrays must not change.
        self.basis.flags.writeable = False
        for part in self.parts:
            part.prototypes.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep a copy (``copy``, pickle) as read-only as its original."""
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def dim(self) -> int:
        return self.basis.shape[0]

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    @property
    def groups(self) -> tuple[str, ...]:
        groups = []
        for part in self.parts:
            groups += part.groups
        return tuple(dict.fromkeys(groups))

    @cached_property
    def fingerprint(self) -> str:
        """Return twelve digits that identify this basis."""
        return hashlib.sha256(np.ascontiguousarray(self.basis).tobytes()).hexdigest()[:12]

    @cached_property
    def low_rank(self) -> LowRank:
        """Return the orthogonal projection onto this space, as the kernels take it."""
        return LowRank.projection(self.basis)

    def group_gap_bound(self, leakage: Float64) -> Float64:
        """Return how far the similarities to two groups' prototypes can differ at this leakage.

        It is the bound of the worst pair of any part.
        """
        bounds = []
        for part in self.parts:
            bounds.append(geometry.group_gap_bound(leakage, part.prototypes, self.basis))
        return np.max(bounds, axis=0)

    def with_kappa(self, kappa: float) -> AttributeSpace:
        """Return the same space with another default kappa."""
        return replace(self, kappa=_one_kappa(kappa))

    def __add__(self, other: AttributeSpace) -> AttributeSpace:
        """Return the union: debiasing in it equalises the groups of both spaces."""
        if not isinstance(other, AttributeSpace):
            return NotImplemented
        if self.dim != other.dim:
            raise InputError(
                f"spaces of {self.dim} and of {other.dim} dimensions have no union: they come from"
                " different encoders"
            )
        self.require_encoder(other.encoder)
        if self.kappa != other.kappa:
            raise InputError(
                f"the spaces have kappa {self.kappa} and {other.kappa}; give both the same with"
                " .with_kappa(...)"
            )
        tolerance = max(self.tolerance, other.tolerance)
        basis, _ = geometry.union_basis([self.basis, other.basis], tolerance)
        scope = self.scope if self.scope == other.scope else "mixed"
        books = ",".join(dict.fromkeys(filter(None, (self.book_hash, other.book_hash))))
        encoder = max(self.encoder, other.encoder, key=lambda ref: sum(map(bool, ref)))
        parts = self.parts + other.parts
        return replace(
            self,
            basis=basis,
            parts=parts,
            scope=scope,
            tolerance=tolerance,
            book_hash=books,
            encoder=encoder,
        )

    def require_encoder(self, encoder: Any) -> None:
        """Raise if ``encoder`` is known not to be the one this space was fitted with.

        encoder: an encoder, its id, or an EncoderRef.
        """
        given = EncoderRef.of(encoder)
        if self.encoder.differs_from(given):
            raise EncoderMismatchError(
                f"this attribute space was fitted with {self.encoder}, and {given} was given;"
                " embeddings of two encoders do not share a space, so fit one with the encoder"
                " that made the embeddings"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, atomically."""
        artefact.save(path, KIND, self.arrays(), self.metadata().to_plain())

    def arrays(self) -> dict[str, Float64]:
        """Return the arrays of the file."""
        arrays = {"basis": self.basis}
        for i, part in enumerate(self.parts):
            arrays[f"prototypes.{i}"] = part.prototypes
        return arrays

    def metadata(self) -> SpaceMetadata:
        """Return everything but the arrays, as the file holds it."""
        from equipoise._space_document import EncoderFacts, PartFacts, SpaceMetadata

        parts = [PartFacts(attribute=part.attribute, groups=part.groups) for part in self.parts]
        return SpaceMetadata(
            parts=tuple(parts),
            groups=self.groups,
            rank=self.rank,
            kappa=self.kappa if np.isfinite(self.kappa) else "inf",
            scope=self.scope,
            tolerance=self.tolerance,
            encoder=EncoderFacts(**self.encoder._asdict()),
            book_hash=self.book_hash,
            version=self.version,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoder: Any = None) -> AttributeSpace:
        """Read a saved space; with ``encoder``, refuse one that another encoder made."""
        from equipoise._documents import validated
        from equipoise._space_document import SpaceMetadata

        arrays, found = artefact.load(path, KIND)
        try:
            space = cls.from_arrays(arrays, validated(SpaceMetadata, found))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArtefactError(
                f"{path} does not hold a whole attribute space ({error}); the file is damaged, so"
                " fit it again"
            ) from None
        space.require_encoder(encoder)
        return space

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float64], metadata: SpaceMetadata) -> AttributeSpace:
        """Return the space that a file holds.

        Raise KeyError or ValueError where the file does not hold a whole space.
        """
        parts = []
        for i, part in enumerate(metadata.parts):
            parts.append(Part(part.attribute, part.groups, arrays[f"prototypes.{i}"]))
        space = cls(
            basis=arrays["basis"],
            parts=tuple(parts),
            kappa=_one_kappa(float(metadata.kappa)),
            scope=metadata.scope,
            tolerance=metadata.tolerance,
            encoder=EncoderRef(**metadata.encoder.model_dump()),
            book_hash=metadata.book_hash,
            version=metadata.version,
        )
        space._check_arrays()
        return space

    def _check_arrays(self) -> None:
        """Raise ValueError for arrays that no fit could have made.

        Each array must be float64, finite and of its shape, the basis orthonormal, the prototypes
        unit.
        """
        if not self.parts or not _is_finite_rows(self.basis):
            raise ValueError("an array is missing, or not of finite float64 rows")
        if not all(_is_finite_rows(part.prototypes) for part in self.parts):
            raise ValueError("an array is missing, or not of finite float64 rows")
        products = self.basis.T @ self.basis
        if self.rank == 0 or not np.allclose(products, np.eye(self.rank), atol=1e-6):
            raise ValueError("the basis is not orthonormal")
        for part in self.parts:
            if part.prototypes.shape != (len(part.groups), self.dim):
                raise ValueError("groups and prototypes do not match")
            if not np.allclose(np.linalg.norm(part.prototypes, axis=1), 1, atol=1e-6):
                raise ValueError("the prototypes are not of unit length")

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload to the Hugging Face hub; return the address of the commit.

        The options are those of ``equipoise._hub.push``.
        """
        from equipoise import _hub as hub

        return hub.push(self, hub.SPACE, hub.space_card(self, repo_id), repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, repo_id_or_folder: str | os.PathLike[str], *, encoder: Any = None, **options: Any
    ) -> AttributeSpace:
        """Load from a folder or from the Hugging Face hub.

        The options are those of ``equipoise._hub.fetch``.
        """
        from equipoise import _hub as hub

        return cls.load(hub.fetch(repo_id_or_folder, hub.SPACE, **options), encoder=encoder)

    def __repr__(self) -> str:
        attributes = [_shown(part) for part in self.parts[:MOST_PARTS]]
        if len(self.parts) > MOST_PARTS:
            attributes.append(f"{len(self.parts) - MOST_PARTS} more")
        return (
            f"AttributeSpace({' + '.join(attributes)}, dim={self.dim}, rank={self.rank},"
            f" kappa={self.kappa:g})"
        )

    def _repr_html_(self) -> str:
        """Show groups, dim, rank, kappa and encoder as a table in notebooks."""
        rows = [(part.attribute or "attribute", listed(part.groups)) for part in self.parts]
        rows += [
            ("dim", self.dim),
            ("rank", self.rank),
            ("kappa", self.kappa),
            ("scope", self.scope),
            ("encoder", cut(self.encoder if any(self.encoder) else "unknown", 80)),
        ]
        return html_table("AttributeSpace", rows)


def _is_finite_rows(array: Any) -> bool:
    return array.dtype == np.float64 and array.ndim == 2 and bool(np.isfinite(array).all())


def _shown(part: Part) -> str:
    name = cut(part.attribute or "attribute")
    if len(part.groups) > SPELT_OUT:
        return f"{name}({len(part.groups)} groups)"
    return f"{name}({listed(part.groups)})"


def check_options(kappa: Any = 1.0, tolerance: Any = RANK_TOLERANCE) -> None:
    """Raise for what no space can be fitted with, before any work."""
    _one_kappa(kappa)
    if not (isinstance(tolerance, int | float | np.number) and 0 <= tolerance < 1):
        raise InputError(
            f"tolerance={tolerance} is not legal; it is a fraction of the largest singular value,"
            " from 0 to below 1"
        )


def _one_kappa(kappa: Any) -> float:
    constant = preference(kappa, None).constant
    if constant is None:
        raise InputError(f"kappa={kappa!r} is not legal here; a space keeps one number >= 0")
    return constant


def _prototypes(given: Mapping[str, Any]) -> tuple[tuple[str, ...], Float64]:
    """Check what the user gave; return the names of groups and one unit float64 row per group."""
    if not isinstance(given, Mapping):
        raise InputError(
            f"prototypes must be a mapping of group -> vector, and this is {type(given).__name__}"
        )
    if len(given) < 2:
        raise InputError(
            f"an attribute needs two groups or more, and {len(given)} was given: {list(given)}; add"
            " the groups it is compared with"
        )
    if len({str(group) for group in given}) < len(given):
        raise InputError(f"two groups have the same name: {list(given)}; name each differently")
    rows, width = [], None
    for group, vector in given.items():
        array = _to_float64(group, vector)
        width = width or array.shape[-1]
        if array.shape[-1] != width:
            raise InputError(
                f"the prototype of {group!r} is {array.shape[-1]} wide and the first one {width};"
                " all must come from one encoder"
            )
        rows.append(geometry.prototype(array))
    return tuple(str(group) for group in given), np.stack(rows)


def _to_float64(group: str, vector: Any) -> Float64:
    # A tensor of torch leaves its device, through float64 because numpy has no bfloat16.
    if hasattr(vector, "detach"):
        vector = vector.detach().cpu().double().numpy()
    try:
        if np.iscomplexobj(vector) or isinstance(vector, np.ma.MaskedArray):
            raise TypeError
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"the prototype of {group!r} is not an array of numbers ({type(vector).__name__});"
            " encode prompts first, and pass rows of one width"
        ) from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InputError(
            f"the prototype of {group!r} has shape {array.shape}; pass a vector (d,) or its"
            " embeddings (m, d)"
        )
    if not np.isfinite(array).all():
        raise InputError(
            f"the prototype of {group!r} holds NaN or infinity; look for a failed encoding or an"
            " overflow in float16"
        )
    if not np.abs(array).max(axis=-1).all():
        raise InputError(
            f"the prototype of {group!r} is zero, so it has no direction; look for a failed"
            " encoding"
        )
    return array
