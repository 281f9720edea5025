"""Stores: where embeddings live."""

from equipoise._stores.folder import Store, StoreWriter, open_store

__all__ = ["Store", "StoreWriter", "open_store"]
