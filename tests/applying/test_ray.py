"""``equipoise apply --engine ray``: a real cluster of three nodes on this machine, one of them killed while a run lasts."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import equipoise as eq
from equipoise import _applying as applying
from equipoise._engines import ray as ray_engine
from equipoise._engines import shard
from equipoise._engines.transform import Transform
from tests.helpers.common import ROOT, component, make_space, tree, unit

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Slow(Transform):
    """So that there is a moment at which a node can be lost."""

    def run(self, e, u, dtype, modality):
        time.sleep(0.2)
        return super().run(e, u, dtype, modality)


@pytest.fixture
def cluster(monkeypatch):
    component("ray")
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    others = [cluster.add_node(**node) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, others
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def source(tmp_path, rng):
    folder = tmp_path / "in"
    (folder / "img_emb").mkdir(parents=True)
    (folder / "metadata").mkdir()
    for i in range(24):
        np.save(
            folder / "img_emb" / f"img_emb_{i}.npy",
            unit(rng.standard_normal((400, 32))).astype(np.float16),
        )
        pq.write_table(pa.table({"n": range(400)}), folder / "metadata" / f"metadata_{i}.parquet")
    return folder


def test_a_lost_node_changes_nothing(cluster, source, tmp_path, rng):
    import ray

    space = make_space(rng, 32)
    eq.apply(source, tmp_path / "here", space=space)
    slow = Slow.of(space, None)
    failed = []

    def run():
        try:
            applying.apply_files(source, tmp_path / "there", slow, engine=ray_engine.engine())
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    journal = tmp_path / "there" / "equipoise-apply.journal"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        journal.exists() and len(journal.read_bytes().splitlines()) > 6
    ):
        time.sleep(0.05)
    done = len(journal.read_bytes().splitlines()) - 1
    cluster[0].remove_node(cluster[1][0], allow_graceful=False)
    worker.join(240)
    assert not failed and not worker.is_alive()
    assert 0 < done < 48
    deadline = time.monotonic() + 120  # until the cluster has noticed
    while time.monotonic() < deadline and sum(node["Alive"] for node in ray.nodes()) > 2:
        time.sleep(0.5)
    assert sum(node["Alive"] for node in ray.nodes()) == 2
    found = tree(
        tmp_path / "there"
    )  # where a lost worker that outlives the run may leave a temporary file
    assert {name: data for name, data in found.items() if not name.endswith(".part")} == tree(
        tmp_path / "here"
    )


def test_an_error_on_a_node_names_the_row_and_resume_goes_on_here(cluster, source, tmp_path, rng):
    space = make_space(rng, 32)
    rows = np.load(source / "img_emb" / "img_emb_20.npy", mmap_mode="r+")
    rows[123, 4] = np.nan
    rows.flush()
    with pytest.raises(eq.errors.InvalidRowsError, match=r"row 123 of img_emb/img_emb_20.npy"):
        eq.apply(source, tmp_path / "there", space=space, engine=ray_engine.engine())
    report = eq.apply(
        source, tmp_path / "there", space=space, resume=True, on_invalid="keep"
    )  # the rest on threads
    assert report.certificate["image"]["n"] == 24 * 400 - 1
    eq.apply(source, tmp_path / "here", space=space, on_invalid="keep")
    assert tree(tmp_path / "there") == tree(tmp_path / "here")
    assert shard.PIECE_ROWS > 400
