"""A Spark of this machine, or a skip with a reason."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

from tests.helpers.common import component


def spark_session() -> Any:
    """A local session on loopback; its batches of seven rows cut anywhere."""
    component("pyspark")
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail("java is not installed, and everything must be here")
        pytest.skip("Spark needs Java 17, which is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the Python of its workers
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        .getOrCreate()
    )
