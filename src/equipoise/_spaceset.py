"""``SpaceSet``: one attribute space per prompt, the paper's own scope, saved to one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import _artefact as artefact
from equipoise._display import html_table, listed
from equipoise._space import AttributeSpace, check_options
from equipoise.errors import ArtefactError, InputError
from equipoise.geometry import RANK_TOLERANCE

if TYPE_CHECKING:
    from equipoise._space_document import SpaceSetMetadata
    from equipoise.encoders import TextEncoder
    from equipoise.prompts._attribute import Attribute
    from equipoise.prompts._prompt_book import PromptBook

KIND = "space set"


@dataclass(frozen=True, eq=False, repr=False)
class SpaceSet(Mapping[str, AttributeSpace]):
    """A mapping of prompts to attribute spaces, all of one attribute and one encoder.

    Made by ``from_prompts`` or ``load``.
    """

    spaces: Mapping[str, AttributeSpace]

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
    ) -> SpaceSet:
        """Fit one space for each prompt of the book, or of ``prompts``.

        The options are those of ``AttributeSpace.from_prompts``.
        """
        from equipoise.prompts._prototypes import prompt_prototypes

        check_options(kappa, tolerance)
        names, rows = prompt_prototypes(
            encoder,
            book,
            attribute,
            prompts=prompts,
            prototype=prototype,
            allow_partial=allow_partial,
            progress=progress,
        )
        spaces = {}
        for name, prototypes in zip(names, rows, strict=True):
            given = dict(zip(attribute.groups, prototypes, strict=True))
            try:
                spaces[name] = AttributeSpace.from_prototypes(
                    given,
                    attribute=attribute.name,
                    kappa=kappa,
                    scope="per prompt",
                    tolerance=tolerance,
                    encoder=encoder,
                    book_hash=book.hash,
                )
            except InputError as error:
                raise InputError(f"{name!r}: {error}") from None
        return cls(spaces)

    def __post_init__(self) -> None:
        if not self.spaces:
            raise InputError("a space set needs one prompt or more")
        first = self._first
        for prompt, space in self.spaces.items():
            if len(space.parts) > 1:
                raise InputError(
                    f"the spaces of a set must have one attribute, and that of {prompt!r} is a"
                    f" union of {len(space.parts)}; fit a set for each, or one for their"
                    " intersection"
                )
            ours, firsts = _shared(space), _shared(first)
            for name, mine in ours.items():
                theirs = firsts[name]
                if mine != theirs:
                    raise InputError(
                        f"the spaces of a set must have one {name}, and {prompt!r} has {mine!r}"
                        f" where the first has {theirs!r}"
                    )

    def __getitem__(self, prompt: str) -> AttributeSpace:
        try:
            return self.spaces[prompt]
        except KeyError:
            raise InputError(
                f"the set has no space for {prompt!r}; it has {len(self)} prompts, such as"
                f" {next(iter(self.spaces))!r}"
            ) from None

    def get(self, prompt: str, default: Any = None) -> Any:
        """Return the space of a prompt, or the default."""
        return self.spaces.get(prompt, default)

    def __contains__(self, prompt: object) -> bool:
        return prompt in self.spaces

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    @property
    def dim(self) -> int:
        return self._first.dim

    @property
    def groups(self) -> tuple[str, ...]:
        return self._first.groups

    @property
    def _first(self) -> AttributeSpace:
        return next(iter(self.spaces.values()))

    def with_kappa(self, kappa: float) -> SpaceSet:
        """Return the same spaces with another default kappa."""
        return SpaceSet({prompt: space.with_kappa(kappa) for prompt, space in self.spaces.items()})

    def require_encoder(self, encoder: Any) -> None:
        """Raise if ``encoder`` is known not to be the one the spaces were fitted with."""
        self._first.require_encoder(encoder)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, atomically."""
        artefact.save(path, KIND, self.arrays(), self.metadata().to_plain())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the file: bases side by side, prototypes stacked."""
        spaces = list(self.spaces.values())
        prototypes = np.stack([space.parts[0].prototypes for space in spaces])
        return {
            "basis": np.concatenate([space.basis for space in spaces], axis=1),
            "prototypes": prototypes,
        }

    def metadata(self) -> SpaceSetMetadata:
        """Return everything but the arrays, as the file holds it."""
        from equipoise._space_document import SpaceSetMetadata

        ranks = [space.rank for space in self.spaces.values()]
        shared = self._first.metadata().to_plain()
        return SpaceSetMetadata(**shared, prompts=tuple(self.spaces), ranks=tuple(ranks))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoder: Any = None) -> SpaceSet:
        """Read a saved set; with ``encoder``, refuse one that another encoder made."""
        from equipoise._documents import validated
        from equipoise._space_document import SpaceSetMetadata

        arrays, found = artefact.load(path, KIND)
        try:
            loaded = cls.from_arrays(arrays, validated(SpaceSetMetadata, found))
        except (
            KeyError,
            TypeError,
            ValueError,
            IndexError,
            AttributeError,
            OverflowError,
        ) as error:
            raise ArtefactError(
                f"{path} does not hold a whole space set ({error}); the file is damaged, so fit it"
                " again"
            ) from None
        loaded.require_encoder(encoder)
        return loaded

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], metadata: SpaceSetMetadata) -> SpaceSet:
        """Return the set that a file holds.

        Raise KeyError, TypeError, ValueError or IndexError where the file does not hold a whole
        set.
        """
        prompts, ranks = metadata.prompts, metadata.ranks
        ends = np.cumsum(ranks)
        if not len(prompts) == len(set(prompts)) == len(ranks) == len(arrays["prototypes"]):
            raise ValueError("prompts, ranks and arrays do not match")
        if ends[-1] != arrays["basis"].shape[1]:
            raise ValueError("prompts, ranks and arrays do not match")
        spaces = {}
        for prompt, start, end, prototypes in zip(
            prompts, ends - ranks, ends, arrays["prototypes"], strict=True
        ):
            basis = np.ascontiguousarray(arrays["basis"][:, start:end])
            spaces[prompt] = AttributeSpace.from_arrays(
                {"basis": basis, "prototypes.0": prototypes}, metadata
            )
        return cls(spaces)

    def __repr__(self) -> str:
        return f"SpaceSet({len(self)} prompts, {self._first!r})"

    def _repr_html_(self) -> str:
        """Show prompts, groups, dim, ranks and kappa as a table in notebooks."""
        ranks = sorted({space.rank for space in self.spaces.values()})
        rows = [
            ("prompts", listed(self.spaces)),
            (self._first.parts[0].attribute or "attribute", listed(self.groups)),
            ("dim", self.dim),
            ("rank", listed(ranks)),
            ("kappa", self._first.kappa),
        ]
        return html_table(f"SpaceSet of {len(self):,} prompts", rows)


def _shared(space: AttributeSpace) -> dict[str, Any]:
    """Return what all spaces of a set have in common."""
    return {
        "dim": space.dim,
        "groups": space.groups,
        "kappa": space.kappa,
        "scope": space.scope,
        "tolerance": space.tolerance,
        "encoder": space.encoder,
        "book_hash": space.book_hash,
        "attribute": space.parts[0].attribute,
    }
