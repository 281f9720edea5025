"""``equipoise apply`` in databases: a real PostgreSQL with pgvector, restarted while a run lasts, and LanceDB."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import equipoise as eq
from equipoise._applying import postgres as pg_apply
from equipoise._verbs.apply import read_transform
from tests.helpers.common import component, make_space, unit
from tests.helpers.postgres import patiently, start_postgres

DIM = 16


@pytest.fixture
def space(rng):
    return make_space(rng, DIM)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = start_postgres(tmp_path_factory.mktemp("postgres"))
    with connected(server) as connection:
        connection.execute("create extension vector")
    yield server
    server.cleanup()


def connected(server):
    import psycopg

    return psycopg.connect(server.get_uri(), autocommit=True)


def text(row):
    return str(row.tolist())


def make_table(server, name, rows, kind="vector", keys=None):
    keys = range(len(rows)) if keys is None else keys
    with connected(server) as connection:
        connection.execute(
            f'create table "{name}" (id {"text" if isinstance(keys, list) else "bigint"} primary key, url text, e {kind}({DIM}))'
        )
        with connection.cursor() as cursor:
            values = [
                (key, f"u{key}", None if row is None else text(row))
                for key, row in zip(keys, rows, strict=True)
            ]
            cursor.executemany(f'insert into "{name}" values (%s, %s, %s)', values)
    return f"{server.get_uri()}#{name}.e"


def column(server, table, name):
    """Exact numbers, by key."""
    with connected(server) as connection:
        found = connection.execute(f'select {name}::text from "{table}" order by id').fetchall()
    return [None if row[0] is None else np.array(eval(row[0]), np.float32) for row in found]


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_a_new_column_beside_the_old(server, rng, space, kind):
    rows = list(
        unit(rng.standard_normal((57, DIM))).astype(np.float16 if kind == "halfvec" else np.float32)
    )
    rows[5] = None
    url = make_table(server, f"new_{kind}", rows, kind)
    before = column(server, f"new_{kind}", "e")
    report = eq.apply(url, "debiased", space=space)
    assert report.rows == 56 and report.certificate["image"]["n"] == 56
    after = column(server, f"new_{kind}", "debiased")
    assert after[5] is None
    dtype = np.float16 if kind == "halfvec" else np.float32
    for i, (e, u) in enumerate(zip(rows, after, strict=True)):
        if i != 5:
            np.testing.assert_array_equal(u.astype(dtype), eq.debias(e.astype(dtype), space))
    for a, b in zip(before, column(server, f"new_{kind}", "e"), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(eq.EquipoiseError, match="pass `resume` to go on"):
        eq.apply(url, "debiased", space=space)
    with connected(server) as connection:  # rows that came later, before and after the others
        connection.execute(
            f"insert into new_{kind} values (-1, 'x', %s), (99, 'y', %s)",
            (text(rows[0]), text(rows[1])),
        )
    again = eq.apply(url, "debiased", space=space, resume=True)
    assert again.rows == 2 and again.certificate["image"]["n"] == 58


def test_keys_of_text_and_in_batches(server, rng, space):
    rows = unit(rng.standard_normal((23, DIM))).astype(np.float32)
    url = make_table(server, "Named Keys", rows, keys=[f"é{i:02d}'\"" for i in range(23)])
    report = pg_apply.apply_column(url, "debiased", _transform(space), batch=4)
    assert report.shards == 6
    np.testing.assert_array_equal(
        np.stack(column(server, "Named Keys", "debiased")), eq.debias(rows, space)
    )


def _transform(space):
    from equipoise._verbs.apply import read_transform

    return read_transform(space, None)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("varchar(20)", lambda i: f"k{i}"),
        ("char(5)", str),
        ("numeric(10, 2)", lambda i: i / 4),
        ("timestamp(3)", lambda i: f"2020-01-01 00:00:{i:02d}"),
        ("double precision", lambda i: i / 3),
        ("size", lambda i: "smlx"[i % 4] + "smlx"[i // 4]),
    ],
)
def test_keys_of_any_type(server, rng, space, kind, key):
    rows = unit(rng.standard_normal((11, DIM))).astype(np.float32)
    table = f"key_{kind.split('(')[0]}"
    with connected(server) as connection:
        if kind == "size":
            names = ", ".join(f"'{a}{b}'" for b in "smlx" for a in "smlx")
            connection.execute(f"create type size as enum ({names})")
        connection.execute(f'create table "{table}" (id {kind} primary key, e vector({DIM}))')
        with connection.cursor() as cursor:
            cursor.executemany(
                f'insert into "{table}" values (%s, %s)',
                [(key(i), text(row)) for i, row in enumerate(rows)],
            )
    report = pg_apply.apply_column(
        f"{server.get_uri()}#{table}.e", "debiased", read_transform(space, None), batch=3
    )
    assert report.rows == 11
    for e, u in zip(column(server, table, "e"), column(server, table, "debiased"), strict=True):
        np.testing.assert_array_equal(u, eq.debias(e, space))


def test_a_key_that_is_none(server, rng, space):
    """Two rows of one key would get each other's embedding; a row without a key would be written for ever."""
    rows = unit(rng.standard_normal((6, DIM))).astype(np.float32)
    url = make_table(server, "keys", rows)
    with connected(server) as connection:
        connection.execute(
            "alter table keys add column owner int not null default 1, add column tag int unique"
        )
        connection.execute("create unique index on keys (owner, id)")
        connection.execute("create unique index on keys (owner) where id = 1")
    for key in ("owner", "tag", "url"):
        with pytest.raises(
            eq.EquipoiseError, match=f"'{key}' of keys is not unique, or may be null"
        ):
            eq.apply(url, "debiased", space=space, key=key)
    with connected(server) as connection:
        connection.execute("create view seen as select * from keys")
        connection.execute("update keys set tag = -id")
        connection.execute("alter table keys alter tag set not null")
    with pytest.raises(eq.EquipoiseError, match="'id' of seen is not unique"):
        eq.apply(url.replace("#keys", "#seen"), "debiased", space=space, key="id")
    assert eq.apply(url, "debiased", space=space, key="tag").rows == 6
    np.testing.assert_array_equal(
        np.stack(column(server, "keys", "debiased")), eq.debias(rows, space)
    )


def test_a_column_that_was_dropped_is_begun_anew(server, rng, space):
    rows = unit(rng.standard_normal((6, DIM))).astype(np.float32)
    url = make_table(server, "dropped", rows)
    for kappa, resume in ((1, False), (2, False), (2, True)):
        assert eq.apply(url, "debiased", space=space, kappa=kappa, resume=resume).rows == 6
        np.testing.assert_array_equal(
            np.stack(column(server, "dropped", "debiased")), eq.debias(rows, space, kappa=kappa)
        )
        with connected(server) as connection:
            connection.execute("alter table dropped drop column debiased")


def test_what_the_database_refuses_is_told_in_words(server, rng, space):
    url = make_table(server, "guarded", unit(rng.standard_normal((3, DIM))).astype(np.float32))
    with connected(server) as connection:
        connection.execute("create role reader login")
        connection.execute("grant select on guarded to reader")
    with pytest.raises(
        eq.EquipoiseError, match=r"the database refused \(permission denied for schema public\)"
    ):
        eq.apply(url.replace("postgres:", "reader:", 1), "debiased", space=space)
    with pytest.raises(eq.EquipoiseError, match="is no address of a database"):
        eq.apply("postgresql://?colour=red#a.b", "debiased", space=space)


@pytest.mark.slow
def test_the_server_restarted_while_a_run_lasts(server, rng, space, monkeypatch):
    """Killed and started again three times: the column is that of a run in peace, and no row is written twice."""
    rows = unit(rng.standard_normal((1500, DIM))).astype(np.float32)
    urls = {name: make_table(server, name, rows) for name in ("peace", "war")}
    eq.apply(urls["peace"], "debiased", space=space)
    run = pg_apply._batch

    def slowly(*arguments):
        time.sleep(0.02)
        return run(*arguments)

    monkeypatch.setattr(pg_apply, "_batch", slowly)
    reports = []
    worker = threading.Thread(
        target=lambda: reports.append(
            pg_apply.apply_column(urls["war"], "debiased", _transform(space), batch=10)
        )
    )
    worker.start()
    reached = []
    for _ in range(3):
        time.sleep(0.7)
        server.stop()
        patiently(server.start)
        with connected(server) as connection:
            if connection.execute("select to_regclass('equipoise_apply')").fetchone()[0]:
                reached.append(
                    connection.execute(
                        "select count(*) from equipoise_apply where run like '%war%'"
                    ).fetchone()[0]
                )
    worker.join(120)
    assert reports and reports[0].rows == 1500
    assert any(0 < count < 151 for count in reached)
    np.testing.assert_array_equal(
        np.stack(column(server, "war", "debiased")), np.stack(column(server, "peace", "debiased"))
    )
    with connected(server) as connection:
        parts = connection.execute(
            "select part, rows from equipoise_apply where run = 'public.war.debiased' order by part"
        ).fetchall()
    assert [part for part, _ in parts] == list(range(151)) and sum(n for _, n in parts) == 1500


def test_what_a_database_can_get_wrong(server, rng, space):
    rows = unit(rng.standard_normal((5, DIM))).astype(np.float32)
    rows[3] = 0
    url = make_table(server, "wrong", rows)
    with pytest.raises(eq.errors.InvalidRowsError, match="row of wrong with id 3 has no direction"):
        eq.apply(url, "debiased", space=space)
    assert (
        eq.apply(url, "debiased", space=space, resume=True, on_invalid="keep").certificate["image"][
            "invalid"
        ]
        == 1
    )
    with pytest.raises(eq.EquipoiseError, match="holds another run"):
        eq.apply(url, "debiased", space=space, kappa=3, resume=True)
    for bad, message in [
        (url.replace("#wrong.e", ""), "does not say which column"),
        (url.replace("#wrong", "#nowhere"), "there is no table 'nowhere'"),
        (url.replace(".e", ".url"), "no column 'url' of type vector"),
        ("postgresql://nobody@127.0.0.1:1/x#a.b", "the database does not answer"),
    ]:
        with pytest.raises(eq.EquipoiseError, match=message):
            eq.apply(bad, "other", space=space)
    with pytest.raises(eq.EquipoiseError, match="no run of equipoise began it"):
        eq.apply(url, "url", space=space)
    with pytest.raises(eq.EquipoiseError, match="is not the name of a column"):
        eq.apply(url, "out/folder", space=space)
    with connected(server) as connection:
        connection.execute("select pg_advisory_lock(hashtext('public.wrong.busy'))")
        with pytest.raises(
            eq.EquipoiseError, match=r"another run is writing to public\.wrong\.busy"
        ):
            eq.apply(url, "busy", space=space)


@pytest.fixture
def lance_table(tmp_path, rng):
    """Three fragments of a LanceDB table, one row deleted."""
    import pyarrow as pa

    lancedb = component("lancedb")
    component("lance")
    database = lancedb.connect(tmp_path / "db")
    rows = unit(rng.standard_normal((300, DIM))).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), DIM)
    data = pa.table({"id": range(300), "vector": vectors})
    table = database.create_table("photos", data.slice(0, 100))
    table.add(data.slice(100, 100))
    table.add(data.slice(200, 100))
    table.delete("id = 150")
    return (
        tmp_path / "db" / "photos.lance",
        np.delete(rows, 150, axis=0),
        lambda: database.open_table("photos").to_arrow(),
    )


def _matrix(column):
    return np.stack(column.to_numpy(zero_copy_only=False))


def test_the_lock_of_a_connection_that_just_ended_is_waited_for(server, rng, space):
    import threading

    rows = unit(rng.standard_normal((7, DIM))).astype(np.float32)
    make_table(server, "ended", rows)
    held = connected(server)
    held.execute("select pg_advisory_lock(hashtext('public.ended.debiased'))")
    ending = threading.Timer(0.3, held.close)
    ending.start()
    assert eq.apply(f"{server.get_uri()}#ended.e", "debiased", space=space).rows == 7
    ending.join()


def test_lancedb(lance_table, space):
    path, rows, read = lance_table
    before = read()
    report = eq.apply(f"{path}#vector", "debiased", space=space)
    after = read()
    assert report.rows == 299 and report.certificate["image"]["n"] == 299
    assert after.drop_columns("debiased").equals(before)
    np.testing.assert_array_equal(_matrix(after["debiased"]), eq.debias(rows, space))
    assert after.schema.field("debiased").type == after.schema.field("vector").type
    with pytest.raises(eq.EquipoiseError, match="has a column 'debiased' already"):
        eq.apply(f"{path}#vector", "debiased", space=space)
    with pytest.raises(eq.EquipoiseError, match="no column 'id' of float16"):
        eq.apply(f"{path}#id", "other", space=space)


def test_lancedb_resumed_when_all_is_done(lance_table, space):
    """Nothing is written and the certificate is told again; not for another run's column, nor where rows came in since."""
    import pyarrow as pa

    path, rows, read = lance_table
    first, before = eq.apply(f"{path}#vector", "debiased", space=space), read()
    again = eq.apply(f"{path}#vector", "debiased", space=space, resume=True)
    assert (again.rows, again.bytes, again.shards) == (
        0,
        0,
        0,
    ) and again.certificate == first.certificate
    assert read().equals(before)
    space.save(path.parent / "space")
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "apply",
        f"{path}#vector",
        "--out",
        "debiased",
        "--space",
        path.parent / "space",
        "--resume",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0 and "nothing was left to write" in told.stdout
    with pytest.raises(eq.EquipoiseError, match="has a column 'debiased' already"):
        eq.apply(f"{path}#vector", "debiased", space=space, kappa=0.5, resume=True)
    added = {"id": [300], "vector": pa.FixedSizeListArray.from_arrays(pa.array(rows[0]), DIM)}
    component("lance").write_dataset(pa.table(added), path, mode="append")
    with pytest.raises(eq.EquipoiseError, match="1 rows were added"):
        eq.apply(f"{path}#vector", "debiased", space=space, resume=True)
    component("lance").dataset(path).drop_columns(["debiased"])
    assert eq.apply(f"{path}#vector", "debiased", space=space).rows == 300


def test_lancedb_stopped_and_resumed(lance_table, space, monkeypatch):
    """The table is as it was until all fragments are done; none is done twice."""
    path, rows, read = lance_table
    before, seen = read(), []
    from equipoise._applying import lance as lance_apply

    run = lance_apply.Transform.run

    def stops(self, e, u, dtype, modality):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(len(e))
        return run(self, e, u, dtype, modality)

    monkeypatch.setattr(lance_apply.Transform, "run", stops)
    with pytest.raises(BaseException):  # noqa: B017 - Lance wraps what its caller raises
        eq.apply(f"{path}#vector", "debiased", space=space)
    assert read().equals(before)
    monkeypatch.setattr(lance_apply.Transform, "run", run)
    with pytest.raises(eq.EquipoiseError, match="pass `resume` to go on"):
        eq.apply(f"{path}#vector", "debiased", space=space)
    report = eq.apply(f"{path}#vector", "debiased", space=space, resume=True)
    assert report.shards == 1 and report.certificate["image"]["n"] == 299
    np.testing.assert_array_equal(_matrix(read()["debiased"]), eq.debias(rows, space))


def test_a_note_of_an_earlier_lance_run_vouches_for_no_later_one(lance_table, space, monkeypatch):
    """The column of a finished run is dropped, another run is begun and stopped, and then somebody else makes a column of that name."""
    path, _, _ = lance_table
    lance = component("lance")
    from equipoise._applying import lance as lance_apply

    eq.apply(f"{path}#vector", "debiased", space=space)
    lance.dataset(path).drop_columns(["debiased"])
    merge = lance_apply._merge
    monkeypatch.setattr(lance_apply, "_merge", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        eq.apply(f"{path}#vector", "debiased", space=space)
    monkeypatch.setattr(lance_apply, "_merge", merge)
    assert [p.name for p in path.parent.glob(".*.journal")] and not [*path.parent.glob(".*.done")]
    lance.dataset(path).add_columns({"debiased": "vector"})
    with pytest.raises(eq.EquipoiseError, match="has a column 'debiased' already"):
        eq.apply(f"{path}#vector", "debiased", space=space, resume=True)


def test_a_lance_journal_that_kills_have_torn(lance_table, space, monkeypatch):
    path, rows, read = lance_table
    from equipoise._applying import lance as lance_apply

    merge, begun = lance_apply._merge, []

    def stops_at_the_second(*arguments):
        begun.append(arguments)
        return merge(*arguments) if len(begun) % 2 else 1 / 0

    monkeypatch.setattr(lance_apply, "_merge", stops_at_the_second)
    for resume in (False, True):
        with pytest.raises(ZeroDivisionError):
            eq.apply(f"{path}#vector", "debiased", space=space, resume=resume)
        (journal,) = path.parent.glob(".*.journal")
        with journal.open("a") as file:
            file.write('{"id": 2, "frag')
    assert eq.apply(f"{path}#vector", "debiased", space=space, resume=True).shards == 1
    np.testing.assert_array_equal(_matrix(read()["debiased"]), eq.debias(rows, space))
    (kept,) = path.parent.glob(".*.done")
    kept.write_text("garbage")
    with pytest.raises(eq.EquipoiseError, match="has a column 'debiased' already"):
        eq.apply(f"{path}#vector", "debiased", space=space, resume=True)


def test_what_is_no_lance_table_or_column(lance_table, space):
    path, _, _ = lance_table
    (path.parent / "none.lance").mkdir()
    with pytest.raises(eq.EquipoiseError, match="holds no Lance table"):
        eq.apply(f"{path.parent / 'none.lance'}#vector", "debiased", space=space)
    before = sorted(path.parent.iterdir())
    for name in ("", "a.b", "a/b", "a`b"):
        with pytest.raises(eq.EquipoiseError, match="is not the name of a column"):
            eq.apply(f"{path}#vector", name, space=space)
    assert sorted(path.parent.iterdir()) == before


def test_lance_rows_that_are_wrong(tmp_path, rng, space):
    import pyarrow as pa

    lance = component("lance")
    rows = unit(rng.standard_normal((10, DIM)))
    rows[7, 2] = np.nan
    lance.write_dataset(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), DIM)}),
        tmp_path / "t.lance",
    )
    with pytest.raises(eq.EquipoiseError, match=r"row 7 of fragment 0 of .* has no direction"):
        eq.apply(f"{tmp_path / 't.lance'}#v", "u", space=space)
    assert (
        eq.apply(
            f"{tmp_path / 't.lance'}#v", "u", space=space, on_invalid="keep", resume=True
        ).certificate["image"]["invalid"]
        == 1
    )
