"""``equipoise apply`` in Qdrant, Chroma and Milvus Lite, whole and on the disk: killed, resumed, and asked for what is not there."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

import equipoise as eq
from equipoise._applying import vector_databases
from equipoise._applying.notes import Notes
from equipoise._verbs.apply import read_transform
from tests.helpers.common import component, make_space, typed, unit
from tests.helpers.vector_databases import DATABASES, Chroma, Milvus, Qdrant, served

DIM, COUNT, BATCH = 16, 53, 7
# Databases scale vectors to length 1 themselves where they compare by cosine: an ulp or two.
SCALED = 3e-7


@pytest.fixture
def space(rng):
    return make_space(rng, DIM)


@pytest.fixture
def rows(rng):
    return unit(rng.standard_normal((COUNT, DIM))).astype(np.float32)


@pytest.fixture(params=DATABASES)
def database(request, tmp_path, rows):
    made = DATABASES[request.param](tmp_path)
    made.add(rows)
    return made


def in_batches(database, space, name="debiased", *, place=None, **options):
    source = f"{place or database.address}#photos"
    transform = read_transform(space, None)
    return vector_databases.apply_collection(source, name, transform, batch=BATCH, **options)


def check(database, rows, space, name="debiased"):
    """Every row is there once, under its id, debiased, with all else as it was."""
    before, after = database.read("photos"), database.read(name)
    assert set(after) == set(before) == set(database.ids(len(rows)))
    expected = dict(zip(database.ids(len(rows)), eq.debias(rows, space), strict=True))
    for key, (row, kept) in after.items():
        np.testing.assert_array_equal(row, expected[key])
        assert kept == before[key][1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the databases' own clients
class TestEveryDatabase:
    def test_a_new_collection_beside_the_old(self, database, rows, space):
        before = {key: row.copy() for key, (row, _) in database.read("photos").items()}
        report = eq.apply(f"{database.address}#photos", "debiased", space=space)
        assert report.rows == COUNT and report.certificate["image"]["n"] == COUNT
        assert report.bytes == COUNT * DIM * 4
        assert report.destination == f"{database.address}#debiased"
        check(database, rows, space)
        for key, (row, _) in database.read("photos").items():
            np.testing.assert_array_equal(row, before[key])

    def test_batches_give_the_same_rows_and_the_same_certificate(self, database, rows, space):
        whole = eq.apply(f"{database.address}#photos", "whole", space=space)
        report = in_batches(database, space)
        assert report.shards == -(-COUNT // BATCH) and whole.shards == 1
        check(database, rows, space)
        found, expected = report.certificate["image"], whole.certificate["image"]
        assert found["n"] == expected["n"]
        for quantity in ("median", "p95", "max"):
            assert found["leakage"][quantity] == expected["leakage"][quantity]
        # sums in another order
        assert abs(found["leakage"]["mean"] / expected["leakage"]["mean"] - 1) < 1e-12

    def test_stopped_and_resumed(self, database, rows, space, monkeypatch):
        add, seen = Notes.add, []

        def stops(self, part):
            seen.append(part)
            if len(seen) == 4:
                raise KeyboardInterrupt
            add(self, part)

        monkeypatch.setattr(Notes, "add", stops)
        with pytest.raises(KeyboardInterrupt):
            in_batches(database, space)
        assert in_batches(database, space, resume=True).rows == COUNT - 3 * BATCH
        check(database, rows, space)

    @pytest.mark.slow
    @pytest.mark.parametrize("moment", ["before a batch is written", "before it is noted"])
    def test_killed_and_resumed(self, database, rows, space, moment, tmp_path):
        """SIGKILL in the fourth batch; then it goes on, and no batch that was noted is done again."""
        calm = DATABASES[database.name](tmp_path / "calm")
        calm.path.parent.mkdir()
        calm.add(rows)
        expected = in_batches(calm, space)
        space.save(tmp_path / "space")
        script = KILLED.format(moment=moment, batch=BATCH)
        arguments = [f"{database.address}#photos", str(tmp_path / "space")]
        command = [sys.executable, "-c", script, *arguments]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        with pytest.raises(eq.EquipoiseError, match="a part of this run is done; pass `resume`"):
            in_batches(database, space)
        report = in_batches(database, space, resume=True)
        assert report.rows == COUNT - 3 * BATCH
        assert report.certificate == expected.certificate
        check(database, rows, space)
        again = in_batches(database, space, resume=True)
        assert (again.rows, again.shards) == (0, 0)
        assert again.certificate == expected.certificate

    def test_a_destination_that_exists(self, database, rows, space):
        database.add(rows, "taken")
        for resume in (False, True):
            with pytest.raises(eq.EquipoiseError, match="#taken exists already; write to another"):
                in_batches(database, space, "taken", resume=resume)
        in_batches(database, space)
        with pytest.raises(eq.EquipoiseError, match="#debiased exists already"):
            in_batches(database, space)
        with pytest.raises(eq.EquipoiseError, match="#debiased exists already"):
            eq.apply(f"{database.address}#photos", "debiased", space=space, kappa=0.5, resume=True)
        database.drop("debiased")
        assert (
            in_batches(database, space).rows == COUNT
        )  # a collection that was dropped is begun anew

    def test_rows_that_went_since(self, database, rows, space):
        in_batches(database, space)
        database.delete("debiased", database.ids(COUNT)[:2])
        with pytest.raises(eq.EquipoiseError, match="and 'debiased' has 51"):
            in_batches(database, space, resume=True)

    def test_what_is_typed_wrong_is_answered(self, database, space, rng, tmp_path):
        for source, message in [
            (f"{database.address}#nothing", "no collection 'nothing'; the database has 'photos'"),
            (database.address, "does not say which collection; write"),
            (f"{database.name}:{tmp_path / 'none.db'}#photos", "holds no database of"),
        ]:
            with pytest.raises(eq.EquipoiseError, match=message):
                eq.apply(source, "debiased", space=space)
        source = f"{database.address}#photos"
        with pytest.raises(eq.EquipoiseError, match="16 wide and the attribute space is 8 wide"):
            eq.apply(source, "debiased", space=make_space(rng, 8))
        with pytest.raises(eq.EquipoiseError, match=r"no vector 'clip' of floats; pass `column`"):
            eq.apply(source, "debiased", space=space, column="clip")
        for name in ("", "a/b", "a#b"):
            with pytest.raises(eq.EquipoiseError, match="is not the name of a collection"):
                eq.apply(source, name, space=space)
        if database.name != "milvus":  # Milvus Lite, unlike Milvus, takes any name
            with pytest.raises(eq.EquipoiseError, match="the database refused"):
                eq.apply(source, "???", space=space)
        assert not (tmp_path / "none.db").exists()  # which the client would have made

    def test_a_row_without_a_direction(self, database, rows, space):
        rows[40] = 0
        database.add(rows, "wrong")
        source, bad = f"{database.address}#wrong", database.ids(COUNT)[40]
        with pytest.raises(eq.errors.InvalidRowsError) as caught:
            eq.apply(source, "debiased", space=space)
        assert caught.value.rows == (bad,) and repr(bad) in str(caught.value)
        report = eq.apply(source, "debiased", space=space, on_invalid="keep", resume=True)
        assert report.certificate["image"]["invalid"] == 1
        np.testing.assert_array_equal(database.read("debiased")[bad][0], np.zeros(DIM))

    def test_the_command_line(self, database, rows, space, tmp_path, capsys):
        space.save(tmp_path / "space")
        source = f"{database.address}#photos"
        command = ["apply", source, "--out", "debiased", "--space", tmp_path / "space"]
        assert typed(*command) == 0
        check(database, rows, space)
        assert typed(*command, "--resume") == 0
        assert "nothing was left to write" in capsys.readouterr().out
        assert typed(*command, "--verify") != 0
        assert "would do nothing for such a database" in capsys.readouterr().err

    def test_an_operator_that_changes_the_width(self, database, rows, rng):
        groups = np.array(["male", "female"] * 30)
        context = eq.FitContext(
            eq.Attribute.load("gender"),
            images=rng.standard_normal((60, DIM)),
            sensitive_features=groups,
        )
        operator = eq.methods.create("clip-clip", m=6).fit(context)
        report = eq.apply(f"{database.address}#photos", "narrow", operator=operator)
        assert report.rows == COUNT and operator.out_dim == 10
        found = database.read("narrow")
        for key, row in zip(database.ids(COUNT), operator.image(rows), strict=True):
            np.testing.assert_array_equal(found[key][0], row)

    def test_a_collection_without_rows(self, database, rows, space):
        database.add(rows[:1], "one")
        database.delete("one", database.ids(1))
        report = eq.apply(f"{database.address}#one", "none", space=space)
        assert report.rows == 0 and report.certificate == {}
        assert database.read("none") == {}


KILLED = """
import os, signal, sys
from equipoise._applying import vector_databases as stores
from equipoise._applying.notes import Notes
from equipoise._verbs.apply import read_transform

seen = []

def dies_at_the_fourth(do):
    def call(*arguments):
        seen.append(arguments)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(*arguments)
    return call

if "{moment}" == "before it is noted":
    Notes.add = dies_at_the_fourth(Notes.add)
else:
    stores._CollectionApply._debiased = dies_at_the_fourth(stores._CollectionApply._debiased)
stores.apply_collection(sys.argv[1], "debiased", read_transform(sys.argv[2], None), batch={batch})
"""


@pytest.mark.parametrize(
    ("kind", "metric"), [(Qdrant, "Cosine"), (Chroma, "cosine"), (Milvus, "COSINE")]
)
def test_collections_that_compare_by_cosine(kind, metric, tmp_path, rows, space):
    database = kind(tmp_path, metric)
    database.add(3 * rows)
    eq.apply(f"{database.address}#photos", "debiased", space=space)
    found = database.read("debiased")
    for key, row in zip(database.ids(COUNT), eq.debias(rows, space), strict=True):
        np.testing.assert_allclose(found[key][0], row, atol=SCALED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the clients
@pytest.mark.parametrize("kind", [Chroma, Milvus])
def test_a_server_that_the_package_brings(kind, tmp_path, rows, space, monkeypatch):
    """The run's journal is in the user's own folder, since there is none beside the database."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    database = kind(tmp_path)
    database.add(rows)
    with served(database) as place:
        report = in_batches(database, space, place=place)
        assert report.rows == COUNT and report.destination == f"{place}#debiased"
        again = in_batches(database, space, place=place, resume=True)
        assert again.shards == 0 and again.certificate == report.certificate
        assert len(list((tmp_path / "state").rglob("*.done"))) == 1
    check(database, rows, space)
    with pytest.raises(eq.errors.ServiceError, match="does not answer"):
        in_batches(database, space, "other", place=place)


def test_qdrant_with_several_vectors(tmp_path, rows, space):
    """The one that is asked for is debiased; others, sparse ones too, and points without it stay as they are."""
    database = Qdrant(tmp_path)
    models = component("qdrant_client.models")
    settings = models.VectorParams(size=DIM, distance=models.Distance.DOT)
    other = models.VectorParams(size=3, distance=models.Distance.DOT)
    sparse = models.SparseVector(indices=[1, 4], values=[0.5, 2.0])
    with database.open() as client:
        client.create_collection(
            "photos",
            {"clip": settings, "colour": other},
            sparse_vectors_config={"words": models.SparseVectorParams()},
        )
        vectors = [{"clip": row.tolist(), "colour": [1, 2, 3], "words": sparse} for row in rows]
        del vectors[5]["clip"]
        points = [models.PointStruct(id=i, vector=one) for i, one in enumerate(vectors)]
        client.upsert("photos", points)
    source = f"{database.address}#photos"
    with pytest.raises(eq.EquipoiseError, match="several vectors per row; pass `column`, one of"):
        eq.apply(source, "debiased", space=space)
    report = eq.apply(source, "debiased", space=space, column="clip")
    assert report.rows == COUNT and report.certificate["image"]["n"] == COUNT - 1
    with database.open() as client:
        found = client.scroll("debiased", limit=100, with_vectors=True)[0]
        assert client.get_collection("debiased").config.params.vectors["colour"].size == 3
    assert "clip" not in found[5].vector
    for point, row in zip(found, eq.debias(rows, space), strict=True):
        assert point.vector["colour"] == [1, 2, 3] and point.vector["words"] == sparse
        if point.id != 5:
            np.testing.assert_array_equal(np.float32(point.vector["clip"]), row)


def test_qdrant_with_a_matrix_per_point(tmp_path, space):
    database = Qdrant(tmp_path)
    models = component("qdrant_client.models")
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    with database.open() as client:
        client.create_collection(
            "photos",
            models.VectorParams(size=DIM, distance=models.Distance.DOT, multivector_config=several),
        )
    with pytest.raises(eq.EquipoiseError, match="has a matrix per point in ''"):
        eq.apply(f"{database.address}#photos", "debiased", space=space)


def test_a_folder_that_another_client_of_qdrant_holds(tmp_path, rows, space):
    database = Qdrant(tmp_path)
    database.add(rows)
    with database.open(), pytest.raises(eq.EquipoiseError, match="already accessed by another"):
        eq.apply(f"{database.address}#photos", "debiased", space=space)
    assert eq.apply(f"{database.address}#photos", "debiased", space=space).rows == COUNT


def test_chroma_keeps_settings_and_embeds_no_text(tmp_path, rows, space):
    """The texts of a search must be debiased too, so the new collection embeds none by itself."""
    database = Chroma(tmp_path)
    database.add(rows)
    eq.apply(f"{database.address}#photos", "debiased", space=space)
    with database.open() as client:
        found = client.get_collection("debiased", embedding_function=None)
        assert found.metadata == {"owner": "me"}
        assert found.configuration["hnsw"]["ef_search"] == 77
        assert found.configuration["embedding_function"] is None


def test_milvus_with_ids_of_its_own(tmp_path, rows, space):
    """Ids that Milvus made are kept, and the index is made as it was."""
    database = Milvus(tmp_path)
    with database.open() as client:
        client.create_collection("photos", dimension=DIM, auto_id=True, metric_type="COSINE")
        client.insert("photos", [{"vector": row, "n": n} for n, row in enumerate(rows)])
    in_batches(database, space)
    with database.open() as client:
        client.load_collection("debiased")
        found = client.query("debiased", limit=100, output_fields=["*"])
        best = client.search("debiased", [eq.debias(rows[7], space)], limit=1)[0][0]
        index = client.describe_index("debiased", client.list_indexes("debiased")[0])
    assert index["metric_type"] == "COSINE"
    ids = {one["n"]: one["id"] for one in found}
    assert len(ids) == COUNT and best["id"] == ids[7]


def test_milvus_with_several_vectors(tmp_path, rows, space):
    database = Milvus(tmp_path)
    kinds = component("pymilvus").DataType
    with database.open() as client:
        schema = client.create_schema(auto_id=False)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("clip", kinds.FLOAT_VECTOR, dim=DIM)
        schema.add_field("colour", kinds.FLOAT_VECTOR, dim=3)
        index = client.prepare_index_params()
        index.add_index("clip", index_type="FLAT", metric_type="IP")
        index.add_index("colour", index_type="FLAT", metric_type="L2")
        client.create_collection("photos", schema=schema, index_params=index)
        entities = [{"id": i, "clip": row, "colour": [1, 2, 3]} for i, row in enumerate(rows)]
        client.insert("photos", entities)
    source = f"{database.address}#photos"
    with pytest.raises(eq.EquipoiseError, match="several vectors per row; pass `column`, one of"):
        eq.apply(source, "debiased", space=space)
    assert eq.apply(source, "debiased", space=space, column="clip").rows == COUNT
    with database.open() as client:
        client.load_collection("debiased")
        found = client.query("debiased", limit=100, output_fields=["*"])
    expected = eq.debias(rows, space)
    for one in found:
        np.testing.assert_array_equal(np.float32(one["clip"]), expected[one["id"]])
        assert one["colour"] == [1, 2, 3]
