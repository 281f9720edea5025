"""Collections of real vector databases on the disk: made, read back whole, and served."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from tests.helpers.common import component


class Qdrant:
    """Points with numbers and UUIDs as ids."""

    name, place, one = "qdrant", "qdrant", "Dot"

    def __init__(self, folder, metric=one):
        component("qdrant_client")
        self.path, self.metric = folder / self.place, metric
        self.address = f"qdrant:{self.path}"

    def open(self):
        from qdrant_client import QdrantClient

        return closing(QdrantClient(path=str(self.path)))

    def ids(self, count):
        return [3 * i if i % 2 else str(uuid.UUID(int=i)) for i in range(count)]

    def add(self, rows, name="photos"):
        from qdrant_client.models import Distance, PointStruct, VectorParams

        with self.open() as client:
            client.create_collection(
                name, VectorParams(size=rows.shape[1], distance=Distance(self.metric))
            )
            points = [
                PointStruct(id=i, vector=row.tolist(), payload={"url": f"u{n}"} if n else {})
                for n, (i, row) in enumerate(zip(self.ids(len(rows)), rows, strict=True))
            ]
            client.upsert(name, points)

    def read(self, name):
        with self.open() as client:
            points = client.scroll(name, limit=10_000, with_vectors=True)[0]
        return {one.id: (np.array(one.vector, np.float32), one.payload) for one in points}

    def delete(self, name, ids):
        with self.open() as client:
            client.delete(name, ids)

    def drop(self, name):
        with self.open() as client:
            client.delete_collection(name)


class Chroma:
    """Records with texts as ids, and metadata, documents and URIs for some of them."""

    name, place, one = "chroma", "chroma", "l2"

    def __init__(self, folder, metric=one):
        component("chromadb")
        self.path, self.metric = folder / self.place, metric
        self.address = f"chroma:{self.path}"

    def open(self):
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        return closing(chromadb.PersistentClient(str(self.path), settings))

    def ids(self, count):
        return [f"é'\"{count - i}" for i in range(count)]

    def add(self, rows, name="photos"):
        with self.open() as client:
            made = client.create_collection(
                name,
                metadata={"owner": "me"},
                configuration={"hnsw": {"space": self.metric, "ef_search": 77}},
            )
            some = range(len(rows))
            made.add(
                ids=self.ids(len(rows)),
                embeddings=rows,
                metadatas=[{"url": f"u{n}", "n": n} if n % 3 else None for n in some],
                documents=[f"text {n}" if n % 2 else None for n in some],
                uris=[f"file:{n}" if n % 5 else None for n in some],
            )

    def read(self, name):
        with self.open() as client:
            kept = ["metadatas", "documents", "uris"]
            one = client.get_collection(name, embedding_function=None)
            found = one.get(include=["embeddings", *kept])
        columns = zip(*([value or None for value in found[what]] for what in kept), strict=True)
        rows = np.asarray(found["embeddings"], np.float32)
        return dict(zip(found["ids"], zip(rows, columns, strict=True), strict=True))

    def delete(self, name, ids):
        with self.open() as client:
            client.get_collection(name, embedding_function=None).delete(ids=ids)

    def drop(self, name):
        with self.open() as client:
            client.delete_collection(name)


class Milvus:
    """Entities with texts as keys, a field that may be null and a dynamic one."""

    name, place, one = "milvus", "photos.db", "IP"

    def __init__(self, folder, metric=one):
        component("pymilvus")
        component("milvus_lite")
        self.path, self.metric = folder / self.place, metric
        self.address = f"milvus:{self.path}"

    @contextmanager
    def open(self):
        from milvus_lite.server_manager import server_manager_instance
        from pymilvus import MilvusClient

        with closing(MilvusClient(str(self.path))) as client:
            yield client
        server_manager_instance.release_server(str(self.path))  # for another process

    def ids(self, count):
        return [f"é'\"\\{count - i}" for i in range(count)]

    def add(self, rows, name="photos"):
        from pymilvus import DataType

        with self.open() as client:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
            schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=40)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=rows.shape[1])
            schema.add_field("year", DataType.INT64, nullable=True)
            index = client.prepare_index_params()
            index.add_index("vector", index_type="FLAT", metric_type=self.metric)
            client.create_collection(name, schema=schema, index_params=index)
            entities = [
                {"key": key, "vector": row, "year": n if n % 3 else None, "url": f"u{n}"}
                for n, (key, row) in enumerate(zip(self.ids(len(rows)), rows, strict=True))
            ]
            client.insert(name, entities)

    def read(self, name):
        with self.open() as client:
            client.load_collection(name)
            rows = client.query(name, limit=10_000, output_fields=["*"])
        return {
            row.pop("key"): (np.array(row.pop("vector"), np.float32), dict(row)) for row in rows
        }

    def delete(self, name, ids):
        with self.open() as client:
            for key in ids:  # the client itself does not escape what it is given
                client.delete(name, filter=f"key == {json.dumps(key, ensure_ascii=False)}")

    def drop(self, name):
        with self.open() as client:
            client.drop_collection(name)


DATABASES = {one.name: one for one in (Qdrant, Chroma, Milvus)}


@contextmanager
def served(database):
    """The address of a server that the package itself brings, which serves this database."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scripts = Path(sys.executable).parent
    commands = {
        "chroma": [scripts / "chroma", "run", "--path", database.path],
        "milvus": [scripts / "milvus-lite", "server", "--data-dir", database.path],
    }
    where = ["--host", "127.0.0.1", "--port", str(port)]
    command = [str(word) for word in (*commands[database.name], *where)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield f"{database.name}:http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(port, patience=60):
    begun = time.monotonic()
    while time.monotonic() - begun < patience:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no server on port {port}")
