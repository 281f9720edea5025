"""Engines: one shard function, run by threads here or by Ray Data on a cluster."""
