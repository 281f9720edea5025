"""``LabelledImages``: images with their groups, classes and captions, embedded when asked for."""

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
from equipoise.evaluation._run_document import ImageFacts
from equipoise.evaluation._run_file import digest
from equipoise.metrics._labels import encode_groups
from equipoise.prompts._attribute import Attribute


class LabelledImages:
    """Images with the group of each, and its class and caption where they are known.

    table: one row per image. groups (n,): None where unknown. embeddings: a store or an array
    (n, d), in place of encoding. on_unreadable: "skip" counts images that cannot be read, "raise"
    stops at the first.
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
    ) -> LabelledImages:
        """Return the images of a dataset.

        once: one row per image, though it may have several captions, all of one group.
        """
        table = dataset.table
        groups = groups_of(table, dataset, attribute)
        if once:
            first = ~table["path"].duplicated().to_numpy()
            groups = one_group(table["path"], groups)[first]
            table = table[first].reset_index(drop=True)
        return cls(dataset.name, table, groups, encoder, **options)

    @cached_property
    def paths(self) -> list[str]:
        """Return the path of each image."""
        return [str(path) for path in self.table["path"]]

    def column(self, *names: str) -> np.ndarray | None:
        """Return the first of these columns that the table has."""
        for name in names:
            if name in self.table:
                return self.table[name].to_numpy(dtype=object)
        return None

    @cached_property
    def images(self) -> tuple[Any, np.ndarray]:
        """Return the rows of the images that have one, and which images those are."""
        if self.embeddings is not None:
            rows, there = rows_of(self.embeddings, self.paths)
            if isinstance(rows, Store):
                return rows, there
        else:
            rows = self.encoder.encode_images(self.paths)
            there = np.ones(len(self.paths), bool)
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
        if not good.all():
            rows = np.asarray(rows)[good]
        return rows, there

    def split(
        self, share: float, seed: int, attribute: Attribute
    ) -> tuple[LabelledImages, LabelledImages]:
        """Return a share of the images, drawn by lot within each group and class, and the others.

        Rows of one path stay together.
        """
        if not 0 < share < 1:
            raise InputError(
                f"a share of {share} cannot be held out for fitting; pass a number between 0 and 1,"
                " such as 0.5"
            )
        # the place of the first row that has each row's path
        first_of: dict[Any, int] = {}
        for i, path in enumerate(self.table["path"]):
            first_of.setdefault(path, i)
        first = self.table["path"].map(first_of).to_numpy()
        places = np.unique(first)
        lot = np.random.default_rng(seed).permutation(len(places))
        labels = self.column("label")
        cells: dict[tuple, list[int]] = {}
        for place in places[lot].tolist():
            label = None if labels is None else str(labels[place])
            cells.setdefault((self.groups[place], label), []).append(place)
        drawn: set[int] = set()
        for members in cells.values():
            drawn.update(members[: round(share * len(members))])
        held = np.isin(first, list(drawn))
        fitting, measured = self._part(held), self._part(~held)
        check_members(fitting.groups, attribute, "among those that are held out for fitting")
        check_members(measured.groups, attribute, "among those that are left to measure")
        return fitting, measured

    def _part(self, rows: np.ndarray) -> LabelledImages:
        embeddings = self.embeddings
        if embeddings is not None and not isinstance(embeddings, Store):
            embeddings = np.asarray(embeddings)[rows]
        return LabelledImages(
            self.name,
            self.table[rows].reset_index(drop=True),
            self.groups[rows],
            self.encoder,
            embeddings,
            self.on_unreadable,
        )

    def facts(self) -> ImageFacts:
        """Return which images these are, without reading them."""
        sizes = encode_groups(self.groups)
        return ImageFacts(
            name=self.name,
            images=len(self.paths),
            groups=dict(zip(sizes.labels, sizes.sizes.tolist(), strict=True)),
            sha256=digest([self.table.to_csv(index=False), self.groups.tolist()]),
            embeddings=self._embeddings_digest,
        )

    @cached_property
    def _embeddings_digest(self) -> str:
        if isinstance(self.embeddings, Store):
            return digest([shard.sha256 for shard in self.embeddings.manifest.shards])
        if self.embeddings is None:
            return ""
        return hashlib.sha256(np.ascontiguousarray(self.embeddings).data).hexdigest()
