"""A collection of Chroma: a folder of its persistent client, or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from equipoise._applying.collection import (
    Address,
    Batch,
    Cursor,
    require_known,
    require_local,
    the_vector,
)
from equipoise.errors import MissingExtraError

KEPT = ("metadatas", "documents", "uris")


class ChromaCollection:
    """Records in the order in which they were added, with metadata, documents and URIs."""

    def __init__(self, client: Any, address: Address, vector: str | None):
        self.client = client
        require_known(address, [one.name for one in self.client.list_collections()])
        self.vector = the_vector(vector, ["embeddings"], address)
        self.source = self._collection(address.name)
        self.limit = self.client.get_max_batch_size()
        first = self.source.get(limit=1, include=["embeddings"])["embeddings"]
        self.width: int | None = len(first[0]) if len(first) else None

    def count(self, name: str | None = None) -> int:
        return (self._collection(name) if name else self.source).count()

    def read(self, begin: Cursor, size: int) -> Batch:
        start, size = int(begin or 0), min(size, self.limit)
        found = self.source.get(limit=size, offset=start, include=["embeddings", *KEPT])
        ids = found["ids"]
        after = start + size if len(ids) == size else None
        return Batch(ids, found["embeddings"], found, after)

    def exists(self, name: str) -> bool:
        return name in [one.name for one in self.client.list_collections()]

    def create(self, name: str, width: int) -> None:
        # Without the function that embeds texts: those would not be debiased.
        index = {kind: self.source.configuration.get(kind) for kind in ("hnsw", "spann")}
        self.client.create_collection(
            name,
            configuration={kind: found for kind, found in index.items() if found},
            metadata=self.source.metadata,
            embedding_function=None,
        )

    def write(self, name: str, batch: Batch, vectors: Sequence[list[float] | None]) -> None:
        kept = {what: [one or None for one in batch.rows[what]] for what in KEPT}
        self._collection(name).upsert(ids=batch.ids, embeddings=vectors, **kept)

    def _collection(self, name: str) -> Any:
        return self.client.get_collection(name, embedding_function=None)


open_collection = ChromaCollection


def errors() -> tuple[type[Exception], ...]:
    """Return what the client raises where it is refused, or not answered."""
    from chromadb.errors import ChromaError
    from httpx import HTTPError

    return ChromaError, HTTPError, RuntimeError, ValueError, OSError


def connect(address: Address) -> Any:
    """Return a client of the database."""
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError:
        raise MissingExtraError("a collection of Chroma", "chromadb", "chroma") from None
    settings = Settings(anonymized_telemetry=False)
    if address.is_server:
        found = urlsplit(address.place)
        secure = found.scheme == "https"
        port = found.port or (443 if secure else 8000)
        return chromadb.HttpClient(found.hostname or "", port, ssl=secure, settings=settings)
    require_local(address, "chroma.sqlite3", "Chroma")
    return chromadb.PersistentClient(address.place, settings)
