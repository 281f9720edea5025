"""A collection of Qdrant: a folder of its client's local mode, or a server."""

from __future__ import annotations

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


class QdrantCollection:
    """Points in the order of their ids. Payload and other vectors are written as they are."""

    def __init__(self, client: Any, address: Address, vector: str | None):
        self.client = client
        self.name = address.name
        require_known(address, [one.name for one in self.client.get_collections().collections])
        self.params = self.client.get_collection(self.name).config.params
        found = _named(self.params.vectors)
        self.vector = the_vector(vector, list(found), address)
        if found[self.vector].multivector_config is not None:
            raise InputError(
                f"{address.shown(self.name)} has a matrix per point in {self.vector!r}, and one"
                " vector is needed; debias those rows with eq.debias"
            )
        self.width: int | None = found[self.vector].size

    def count(self, name: str | None = None) -> int:
        return self.client.count(name or self.name, exact=True).count

    def read(self, begin: Cursor, size: int) -> Batch:
        points, after = self.client.scroll(
            self.name, limit=size, offset=begin, with_vectors=True, with_payload=True
        )
        vectors = [self._vector(point.vector) for point in points]
        return Batch([point.id for point in points], vectors, points, after)

    def exists(self, name: str) -> bool:
        return self.client.collection_exists(name)

    def create(self, name: str, width: int) -> None:
        vectors = self.params.vectors
        found = _named(vectors)
        changed = found[self.vector].model_copy(update={"size": width})
        whole = found | {self.vector: changed} if isinstance(vectors, dict) else changed
        self.client.create_collection(
            name,
            whole,
            sparse_vectors_config=self.params.sparse_vectors,
            on_disk_payload=self.params.on_disk_payload,
        )

    def write(self, name: str, batch: Batch, vectors: Sequence[list[float] | None]) -> None:
        from qdrant_client.models import PointStruct

        points = []
        for point, row in zip(batch.rows, vectors, strict=True):
            vector = self._with(point.vector, row)
            points.append(PointStruct(id=point.id, vector=vector, payload=point.payload))
        self.client.upsert(name, points, wait=True)

    def _vector(self, found: Any) -> Any:
        return found if isinstance(found, list) else (found or {}).get(self.vector)

    def _with(self, found: Any, row: list[float] | None) -> Any:
        if row is None:
            return found or {}
        return row if isinstance(found, list) else found | {self.vector: row}


open_collection = QdrantCollection


def errors() -> tuple[type[Exception], ...]:
    """Return what the client raises where it is refused, or not answered."""
    from qdrant_client.http.exceptions import ApiException

    return ApiException, RuntimeError, ValueError, OSError


def connect(address: Address) -> Any:
    """Return a client of the database."""
    try:
        from qdrant_client import QdrantClient
    except ImportError:
        raise MissingExtraError("a collection of Qdrant", "qdrant-client", "qdrant") from None
    if address.is_server:
        return QdrantClient(url=address.place)
    require_local(address, "meta.json", "Qdrant's client")
    return QdrantClient(path=address.place)


def _named(vectors: Any) -> dict[str, Any]:
    """Return the settings of each vector by its name, which is "" where it has none."""
    if vectors is None:
        return {}
    return dict(vectors) if isinstance(vectors, dict) else {"": vectors}
