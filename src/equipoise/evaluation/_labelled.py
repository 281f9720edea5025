"""``Labelled``: images with the group of each, and its class and caption where there are some;
embedded when asked for.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np

from equipoise._rows import directed
from equipoise._stores import Store
from equipoise.datasets import Dataset
from equipoise.datasets._checks import check_encoder, check_members, groups_of, one_group
from equipoise.datasets._named import check_array, rows_of
from equipoise.encoders import UnreadableImageError
from equipoise.errors import InputError
from equipoise.evaluation._document import digest
from equipoise.metrics._labels import encode_groups
from equipoise.prompts._attribute import Attribute


class Labelled:
    """table: a row an image.

    groups (n,): None where unknown. embeddings: a store or an array (n, d), in place of encoding.

    on_unreadable: "skip" counts images that cannot be read, "raise" stops at the first.
    """

    def __init__(
        self,
        name: str,
        table: Any,
        groups: np.ndarray,
        encoder: Any,
        embeddings: Any = None,
        on_unreadable: str = "skip",
    ):
        if on_unreadable not in ("skip", "raise"):
            raise InputError(
                f'on_unreadable={on_unreadable!r} is not legal; pass "skip" or "raise"'
            )
        check_encoder(encoder, embeddings)
        if embeddings is not None and not isinstance(embeddings, Store):
            check_array(embeddings, len(table))
        self.name: str = name
        self.table: Any = table
        self.groups: np.ndarray = groups
        self.encoder: Any = encoder
        self.embeddings: Any = embeddings
        self.on_unreadable: str = on_unreadable

    @classmethod
    def of(
        cls, dataset: Dataset, attribute: Attribute, encoder: Any, *, once: bool, **options: Any
    ) -> Labelled:
        """The images of a dataset.

        once: a row for each image, though it may have several captions, all of one group.
        """
        table, groups = dataset.table, groups_of(dataset.table, dataset, attribute)
        if once:
            first = ~table["path"].duplicated().to_numpy()
            table, groups = (
                table[first].reset_index(drop=True),
                one_group(table["path"], groups)[first],
            )
        return cls(dataset.name, table, groups, encoder, **options)

    @cached_property
    def paths(self) -> list[str]:
        return [str(path) for path in self.table["path"]]

    def column(self, *names: str) -> np.ndarray | None:
        """The first of these columns that there is."""
        found = next((name for name in names if name in self.table), None)
        return None if found is None else self.table[found].to_numpy(dtype=object)

    @cached_property
    def images(self) -> tuple[Any, np.ndarray]:
        """Rows of the images that have one, and which those are."""
        if self.embeddings is not None:
            rows, there = rows_of(self.embeddings, self.paths)
            if isinstance(rows, Store):
                return rows, there
        else:
            rows, there = self.encoder.encode_images(self.paths), np.ones(len(self.paths), bool)
        good = directed(np.asarray(rows))
        there[np.flatnonzero(there)[~good]] = False
        if not there.all() and self.on_unreadable == "raise":
            first = self.paths[int((~there).argmax())]
            raise UnreadableImageError(
                f"{int((~there).sum())} of {len(there)} images have no embedding, first {first}"
            )
        if not there.any():
            raise UnreadableImageError(
                f"none of the {len(there)} images has an embedding, first {self.paths[0]}"
            )
        return (rows if good.all() else np.asarray(rows)[good]), there

    def split(self, share: float, seed: int, attribute: Attribute) -> tuple[Labelled, Labelled]:
        """So large a share of the images, drawn by lot within each group and class, and the others.

        Rows of one path stay together.
        """
        if not 0 < share < 1:
            raise InputError(
                f"a share of {share} cannot be held out for fitting; pass a number between 0 and 1,"
                " such as 0.5"
            )
        first = (
            self.table["path"]
            .map({path: i for i, path in reversed(list(enumerate(self.table["path"])))})
            .to_numpy()
        )
        places = np.unique(first)
        lot = np.random.default_rng(seed).permutation(len(places))
        labels = self.column("label")
        drawn: set[int] = set()
        cells: dict[tuple, list[int]] = {}
        for place in places[lot].tolist():
            cells.setdefault(
                (self.groups[place], None if labels is None else str(labels[place])), []
            ).append(place)
        for members in cells.values():
            drawn.update(members[: round(share * len(members))])
        held = np.isin(first, list(drawn))
        parts = self._part(held), self._part(~held)
        for part, what in zip(
            parts, ("that are held out for fitting", "that are left to measure"), strict=True
        ):
            check_members(part.groups, attribute, f"among those {what}")
        return parts

    def _part(self, rows: np.ndarray) -> Labelled:
        embeddings = self.embeddings
        if embeddings is not None and not isinstance(embeddings, Store):
            embeddings = np.asarray(embeddings)[rows]
        return Labelled(
            self.name,
            self.table[rows].reset_index(drop=True),
            self.groups[rows],
            self.encoder,
            embeddings,
            self.on_unreadable,
        )

    def facts(self) -> dict[str, Any]:
        """Which images these are, without reading them."""
        sizes = encode_groups(self.groups)
        return {
            "name": self.name,
            "images": len(self.paths),
            "groups": dict(zip(sizes.labels, sizes.sizes.tolist(), strict=True)),
            "sha256": digest([self.table.to_csv(index=False), self.groups.tolist()]),
            "embeddings": self._embeddings_digest,
        }

    @cached_property
    def _embeddings_digest(self) -> str:
        if isinstance(self.embeddings, Store):
            return digest([shard.sha256 for shard in self.embeddings.manifest.shards])
        return (
            ""
            if self.embeddings is None
            else hashlib.sha256(np.ascontiguousarray(self.embeddings).data).hexdigest()
        )
