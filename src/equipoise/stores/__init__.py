"""Stores: where embeddings live."""

from equipoise.stores.folder import Store, StoreWriter, open_store

__all__ = ["Store", "StoreWriter", "open_store"]
