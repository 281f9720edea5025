"""A collection of Milvus: a ``.db`` folder of Milvus Lite, or a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from equipoise._applying.collection import (
    Address,
    Batch,
    Cursor,
    require_known,
    require_local,
    the_vector,
)
from equipoise.errors import InputError, MissingExtraError

# Sorted by the primary key, as the client's own iterator asks; that one fails on keys with quotes.
IN_ORDER = {"iterator": "True", "reduce_stop_for_best": "True", "consistency_level": "Strong"}
# What describe_index says of an index besides its settings.
NO_SETTINGS = {"total_rows", "indexed_rows", "pending_index_rows", "state"}


class MilvusCollection:
    """Entities in the order of their primary key, with every field, dynamic ones too."""

    def __init__(self, client: Any, address: Address, vector: str | None):
        self.client = client
        self.name = address.name
        require_known(address, self.client.list_collections())
        self.about = self.client.describe_collection(self.name)
        if self.about["functions"]:
            names = ", ".join(one["name"] for one in self.about["functions"])
            raise InputError(
                f"{address.shown(self.name)} computes fields with functions ({names}), which cannot"
                " be written; debias those rows with eq.debias"
            )
        fields = self.about["fields"]
        widths = {one["name"]: one["params"]["dim"] for one in fields if _is_vector(one)}
        (self.key,) = [one["name"] for one in fields if one.get("is_primary")]
        self.vector = the_vector(vector, list(widths), address)
        self.width: int | None = int(widths[self.vector])
        self.client.load_collection(self.name)

    def count(self, name: str | None = None) -> int:
        found = self.client.query(
            name or self.name, output_fields=["count(*)"], consistency_level="Strong"
        )
        return found[0]["count(*)"]

    def read(self, begin: Cursor, size: int) -> Batch:
        after = "" if begin is None else f"{self.key} > {json.dumps(begin, ensure_ascii=False)}"
        rows = self.client.query(
            self.name, filter=after, limit=size, output_fields=["*"], **IN_ORDER
        )
        ids = [row[self.key] for row in rows]
        vectors = [row[self.vector] for row in rows]
        return Batch(ids, vectors, rows, ids[-1] if len(ids) == size else None)

    def exists(self, name: str) -> bool:
        return self.client.has_collection(name)

    def create(self, name: str, width: int) -> None:
        from pymilvus import CollectionSchema

        fields = [self._like(one, width) for one in self.about["fields"]]
        # Ids are kept, so the new collection makes none itself.
        about = self.about | {"fields": fields, "auto_id": False}
        indexes = self.client.prepare_index_params()
        for index in self.client.list_indexes(self.name):
            found = self.client.describe_index(self.name, index)
            indexes.add_index(**{key: found[key] for key in found if key not in NO_SETTINGS})
        schema = CollectionSchema.construct_from_dict(about)
        self.client.create_collection(name, schema=schema, index_params=indexes)

    def write(self, name: str, batch: Batch, vectors: Sequence[list[float] | None]) -> None:
        rows = zip(batch.rows, vectors, strict=True)
        self.client.upsert(name, [row | {self.vector: vector} for row, vector in rows])

    def _like(self, field: dict[str, Any], width: int) -> dict[str, Any]:
        if field["name"] == self.vector:
            return field | {"params": field["params"] | {"dim": width}}
        return field | {"auto_id": False} if field["name"] == self.key else field


def _is_vector(field: dict[str, Any]) -> bool:
    return field["type"].name == "FLOAT_VECTOR"


open_collection = MilvusCollection


def errors() -> tuple[type[Exception], ...]:
    """Return what the client raises where it is refused, or not answered."""
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    return MilvusException, RpcError, RuntimeError, OSError


def connect(address: Address) -> Any:
    """Return a client of the database."""
    try:
        from pymilvus import MilvusClient
    except ImportError:
        raise MissingExtraError("a collection of Milvus", "pymilvus", "milvus") from None
    if not address.is_server:
        require_local(address, "collections", "Milvus Lite")
    return MilvusClient(address.place)
