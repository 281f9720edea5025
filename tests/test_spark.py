"""equipoise.spark: a local session, and the bytes that eq.apply writes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from equipoise.errors import EquipoiseError
from tests.helpers.common import make_space, unit
from tests.helpers.sparks import spark_session

pytestmark = pytest.mark.slow  # a session takes its time to start


@pytest.fixture(scope="module")
def session():
    session = spark_session()
    yield session
    session.stop()


def frame_of(session, rows, kind):
    table = [(i, row.tolist()) for i, row in enumerate(rows)]
    return session.createDataFrame(table, f"id int, embedding array<{kind}>")


def column(frame, name):
    found = frame.orderBy("id").toPandas()[name]
    return np.stack([np.asarray(row) for row in found])


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_rows_have_the_bytes_that_apply_writes(session, rng, tmp_path, kind, dtype):
    from equipoise.spark import debias

    space = make_space(rng, 16)
    rows = unit(rng.standard_normal((50, 16))).astype(dtype)
    np.save(tmp_path / "rows.npy", rows)
    eq.apply(tmp_path / "rows.npy", tmp_path / "debiased.npy", space=space)
    written = np.load(tmp_path / "debiased.npy")
    frame = debias(frame_of(session, rows, kind), "embedding", space)
    found = column(frame, "embedding").astype(dtype)
    assert found.tobytes() == written.tobytes()


def test_a_new_column_keeps_the_old_one_and_null_stays_null(session, rng, tmp_path):
    from equipoise.spark import debias

    space = make_space(rng, 4)
    space.save(tmp_path / "space.safetensors")
    frame = session.createDataFrame(
        [(0, [1.0, 2.0, 3.0, 4.0]), (1, None)], "id int, embedding array<double>"
    )
    changed = debias(frame, "embedding", tmp_path / "space.safetensors", out="fair", kappa=2.0)
    found = changed.orderBy("id").toPandas()
    assert changed.columns == ["id", "embedding", "fair"]
    assert list(found["embedding"][0]) == [1.0, 2.0, 3.0, 4.0]
    expected = eq.debias(np.array([1.0, 2.0, 3.0, 4.0]), space, kappa=2.0)
    np.testing.assert_array_equal(found["fair"][0], expected)
    assert found["fair"][1] is None


def test_what_is_typed_wrong_first_is_answered(session, rng):
    from pyspark.errors import PythonException

    from equipoise.spark import debias

    space = make_space(rng, 4)
    frame = session.createDataFrame([(0, [1.0, 2.0])], "id int, embedding array<double>")
    with pytest.raises(EquipoiseError, match=r"no column 'vector'.*id \(int\)"):
        debias(frame, "vector", space)
    with pytest.raises(EquipoiseError, match="no column 'id' of array<float>"):
        debias(frame, "id", space)
    with pytest.raises(EquipoiseError, match="is no Spark data frame"):
        debias(pd.DataFrame({"embedding": [[1.0]]}), "embedding", space)
    with pytest.raises(EquipoiseError, match="space is of type int"):
        debias(frame, "embedding", 3)
    with pytest.raises(EquipoiseError, match="kappa"):
        debias(frame, "embedding", space, kappa=-1)
    with pytest.raises(PythonException, match="rows are 2 wide and the space has 4"):
        debias(frame, "embedding", space).collect()
