"""``equipoise apply``: every store and dtype round trip, kills, and input that is not what it should be."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib

import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import equipoise as eq
from equipoise import _applying as applying
from equipoise import _embedding as embedding
from equipoise._applying.journal import journal_at
from equipoise._cli import app
from equipoise._engines import ray as ray_engine
from equipoise._engines import shard, threads
from equipoise._space import EncoderRef
from equipoise._stores import StoreWriter
from equipoise._stores import locations as places
from equipoise._stores.checksum import crc32
from equipoise._stores.folder import StoreManifest
from equipoise._stores.layout import SourceFile
from equipoise._verbs.apply import read_transform
from equipoise.encoders import Encoder
from tests.helpers.averages import Averages
from tests.helpers.common import component, make_space, run, tree, unit

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
DTYPES = ("float16", "float32", "float64", "bfloat16")


@pytest.fixture
def space(rng):
    return make_space(rng, 32)


def rows_of(rng, n, dtype="float32", dim=32):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return unit(rng.standard_normal((n, dim))).astype(kind)


@pytest.fixture
def clip_folder(tmp_path, rng):
    """As clip-retrieval writes it: both modalities, metadata, numbers that are not padded."""
    folder = tmp_path / "clip"
    for kind in ("img_emb", "text_emb", "metadata"):
        (folder / kind).mkdir(parents=True)
    for i, n in enumerate((5, 0, 70, *[3] * 9)):
        for kind in ("img_emb", "text_emb"):
            np.save(folder / kind / f"{kind}_{i}.npy", rows_of(rng, n, "float16"))
        pq.write_table(
            pa.table({"url": [f"{i}/{j}" for j in range(n)]}),
            folder / "metadata" / f"metadata_{i}.parquet",
        )
    return folder


def test_a_clip_retrieval_folder(clip_folder, tmp_path, space):
    before = tree(clip_folder)
    report = eq.apply(clip_folder, tmp_path / "out", space=space)
    assert tree(clip_folder) == before
    after = tree(tmp_path / "out")
    assert set(after) == {*before, "equipoise-apply.json"}
    for name in before:
        if name.endswith(".npy"):
            e, u = np.load(clip_folder / name), np.load(tmp_path / "out" / name)
            assert u.dtype == e.dtype
            np.testing.assert_array_equal(u, eq.debias(e, space))
        else:
            assert after[name] == before[name]
    manifest = json.loads(after["equipoise-apply.json"])
    assert (
        report.rows
        == sum(part["stop"] - part["start"] for part in manifest["shards"] if part["totals"])
        == 2 * 102
    )
    rows = np.concatenate(
        [np.load(clip_folder / name) for name in before if name.startswith("img_emb")]
    )
    want, found = eq.certify(rows, space).totals.summary(), report.certificate["image"]
    assert found["n"] == want["n"] == 102
    for name in ("leakage_before", "leakage", "self_loss"):
        assert found[name]["max"] == want[name]["max"]
        assert found[name]["mean"] == pytest.approx(
            want[name]["mean"], rel=1e-12
        )  # summed in another order
    assert found["kernel"] == eq.kernels.which(rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_npy(tmp_path, rng, space, dtype):
    e = rows_of(rng, 301, dtype)
    np.save(tmp_path / "e.npy", e)
    eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", space=space, kappa=2.0)
    u = np.load(tmp_path / "u.npy").view(e.dtype)
    np.testing.assert_array_equal(u, eq.debias(e, space, kappa=2.0))
    eq.apply(tmp_path / "e.npy", tmp_path / "same.npy", space=space, kappa=0, norm="keep")
    assert (tmp_path / "same.npy").read_bytes() == (tmp_path / "e.npy").read_bytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_through_a_device(tmp_path, rng, space, dtype):
    """torch's own name for the CPU takes the way that a GPU's rows take."""
    component("torch")
    e = rows_of(rng, 301, dtype)
    np.save(tmp_path / "e.npy", e)
    report = eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", space=space, device="cpu:0")
    u, want = (
        np.load(tmp_path / "u.npy").view(e.dtype).astype(np.float64),
        eq.debias(e.astype(np.float64), space),
    )
    eps = 2.0 ** -{"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}[dtype]
    np.testing.assert_allclose(u, want, rtol=0, atol=eps)  # of unit rows
    assert report.certificate["image"]["n"] == 301


def test_big_endian_rows(tmp_path, rng, space):
    e = rows_of(rng, 9).astype(">f4")
    np.save(tmp_path / "e.npy", e)
    eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", space=space)
    u = np.load(tmp_path / "u.npy")
    assert u.dtype == e.dtype
    np.testing.assert_array_equal(u, eq.debias(e, space))


def test_a_file_of_many_pieces_is_that_of_one(tmp_path, rng, space, monkeypatch):
    e = rows_of(rng, 1000, "float16")
    np.save(tmp_path / "e.npy", e)
    eq.apply(tmp_path / "e.npy", tmp_path / "one.npy", space=space)
    monkeypatch.setattr(shard, "PIECE_ROWS", 37)
    report = eq.apply(tmp_path / "e.npy", tmp_path / "many.npy", space=space)
    assert report.shards == 28
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "many.npy").read_bytes()
    applying.verify(tmp_path / "e.npy", tmp_path / "many.npy", read_transform(space, None))


tables = st.fixed_dictionaries(
    {
        "groups": st.lists(st.integers(0, 20), max_size=4),
        "kind": st.sampled_from(["fixed", "list", "large"]),
        "dtype": st.sampled_from(["float16", "float32", "float64"]),
        "codec": st.sampled_from(["NONE", "snappy", "zstd"]),
        "position": st.integers(0, 3),
        "metadata": st.dictionaries(st.sampled_from("abc"), st.text(max_size=5)),
        "seed": st.integers(0, 99),
    }
)


@given(tables)
@settings(max_examples=40)
def test_parquet_keeps_everything_else(tmp_path_factory, about):
    folder, rng = tmp_path_factory.mktemp("parquet"), np.random.default_rng(about["seed"])
    space = make_space(np.random.default_rng(0), 32)
    n = sum(about["groups"])
    e = rows_of(rng, n, about["dtype"])
    value = pa.from_numpy_dtype(e.dtype)
    kind = {"fixed": pa.list_(value, 32), "list": pa.list_(value), "large": pa.large_list(value)}[
        about["kind"]
    ]
    words = ["naïve", "", None, "x" * 30]
    columns = {
        "id": pa.array(rng.integers(0, 1 << 60, n)),
        "word": pa.array(
            [words[i] for i in rng.integers(0, 4, n)], pa.dictionary(pa.int8(), pa.string())
        ),
        "when": pa.array(rng.integers(0, 1 << 60, n), pa.timestamp("ns", "UTC")),
    }
    names = list(columns)
    names.insert(about["position"], "vector")
    columns["vector"] = pa.array(list(e), kind)
    table = pa.table({name: columns[name] for name in names}).replace_schema_metadata(
        about["metadata"] or None
    )
    with pq.ParquetWriter(folder / "e.parquet", table.schema, compression=about["codec"]) as writer:
        start = 0
        for size in about["groups"]:
            writer.write_table(table.slice(start, size), row_group_size=max(1, size))
            start += size
    if not n and about["kind"] != "fixed":
        return  # no row says how wide it would be
    eq.apply(folder / "e.parquet", folder / "u.parquet", space=space)
    before, after = pq.ParquetFile(folder / "e.parquet"), pq.ParquetFile(folder / "u.parquet")
    found = after.read()
    assert found.schema.equals(before.read().schema, check_metadata=True)
    assert found.drop_columns("vector").equals(table.drop_columns("vector"))
    if n:
        u = np.concatenate(
            [chunk.flatten().to_numpy() for chunk in found.column("vector").chunks]
        ).reshape(-1, 32)
        np.testing.assert_array_equal(u, eq.debias(e, space))
    groups = [
        [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        for file in (before, after)
    ]
    assert groups[0] == groups[1]
    if n:
        codecs = [
            [file.metadata.row_group(0).column(i).compression for i in range(4)]
            for file in (before, after)
        ]
        assert codecs[0] == codecs[1]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float16()), pa.list_(pa.float32(), 32), pa.large_list(pa.float64())]
)
def test_a_parquet_file_without_rows(tmp_path, space, kind):
    pq.write_table(
        pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], kind)}), tmp_path / "e.parquet"
    )
    assert eq.apply(tmp_path / "e.parquet", tmp_path / "u.parquet", space=space).rows == 0
    assert pq.read_table(tmp_path / "u.parquet").equals(pq.read_table(tmp_path / "e.parquet"))


def test_names_in_order():
    """2 before 10; what only looks like a number is none."""
    names = ["x10.npy", "x2.npy", "²1.npy", "a\nb c.npy", "x٣.npy", ".hidden.npy"]
    assert places._in_order(names) == ["a\nb c.npy", "x2.npy", "x٣.npy", "x10.npy", "²1.npy"]


def test_a_parquet_run_that_fails_says_so_once(tmp_path, rng, space, monkeypatch):
    """Not again when the writer is collected, as a traceback that nobody can catch."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    rows = _with_nan(rows_of(rng, 100), 70)
    pq.write_table(
        pa.table({"v": pa.array(list(rows), pa.list_(pa.float32()))}),
        tmp_path / "e.parquet",
        row_group_size=10,
    )
    with pytest.raises(eq.EquipoiseError, match="row 70"):
        eq.apply(tmp_path / "e.parquet", tmp_path / "u.parquet", space=space)
    gc.collect()
    assert not told


def test_a_file_without_rows_among_others(tmp_path, rng, space):
    """A list column without rows does not say how wide it would be, and need not."""
    (tmp_path / "in").mkdir()
    for i, rows in enumerate(([], list(rows_of(rng, 5)))):
        pq.write_table(
            pa.table({"v": pa.array(rows, pa.list_(pa.float32()))}),
            tmp_path / "in" / f"{i}.parquet",
        )
    assert eq.apply(tmp_path / "in", tmp_path / "out", space=space).rows == 5
    assert pq.read_metadata(tmp_path / "out" / "0.parquet").num_rows == 0


def test_a_store_of_embed_stays_one(tmp_path, rng):
    encoder = Encoder(Averages())
    (tmp_path / "t.txt").write_text("a\nb\nc\n")
    embedding.embed(
        embedding.read_source(tmp_path / "t.txt"),
        tmp_path / "store",
        encoder,
        shard_items=2,
        dtype="float16",
    )
    space = make_space(rng, encoder.dim, encoder=encoder)
    report = eq.apply(tmp_path / "store", tmp_path / "out", space=space)
    before, after = eq.open_store(tmp_path / "store"), eq.open_store(tmp_path / "out")
    np.testing.assert_array_equal(after.load(), eq.debias(before.load(), space))
    assert after.encoder == before.encoder and after.damaged() is None
    assert after.metadata().equals(before.metadata())
    assert report.certificate["text"]["embeddings_encoder"] == str(before.encoder)
    (tmp_path / "out" / "equipoise.json").unlink()
    eq.apply(
        tmp_path / "store", tmp_path / "out", space=space, resume=True
    )  # which writes again what is gone
    assert eq.open_store(tmp_path / "out").manifest == after.manifest
    (tmp_path / "out" / "text_emb" / "text_emb_00001.npy").unlink()
    with pytest.raises(eq.EquipoiseError, match="holds rows that equipoise apply has debiased"):
        embedding.embed(
            embedding.read_source(tmp_path / "t.txt"),
            tmp_path / "out",
            encoder,
            dtype="float16",
            resume=True,
        )
    eq.apply(tmp_path / "store", tmp_path / "out", space=space, resume=True)
    twice = (
        eq.apply(tmp_path / "out", tmp_path / "twice", space=space, kappa=2)
        and eq.open_store(tmp_path / "twice").manifest.debiased
    )
    assert twice.startswith(after.manifest.debiased) and "'kappa': '2.0'" in twice
    other = make_space(rng, encoder.dim, encoder="another")
    with pytest.raises(eq.errors.EncoderMismatchError, match="fitted with another"):
        eq.apply(tmp_path / "store", tmp_path / "out2", space=other)
    assert not (tmp_path / "out2").exists()


def test_a_part_of_a_store_is_a_folder(tmp_path, rng):
    """It names files that were not asked for, so that it would be no store."""
    table = pd.DataFrame({"path": list("abcd")})
    manifest = StoreManifest(
        encoder=EncoderRef(),
        modality="image",
        dim=32,
        dtype="float32",
        source="",
        source_sha256="",
        items=4,
        shard_items=2,
    )
    writer = StoreWriter(tmp_path / "in", manifest)
    for start in (0, 2):
        writer.add(rows_of(rng, 2), table[start : start + 2], [], 2)
    for i, rows in enumerate(("img_emb/*0.npy", "img_emb/*.npy")):
        report = eq.apply(tmp_path / "in", tmp_path / str(i), space=make_space(rng, 32), rows=rows)
        assert report.rows == (2, 4)[i] and "equipoise.json" not in os.listdir(tmp_path / str(i))


def test_a_folder_may_be_called_as_a_file(tmp_path, rng, space):
    """Spark's are called x.parquet. Nothing is written beside the destination, whose neighbours may have names of the same kind."""
    (tmp_path / "in.parquet").mkdir()
    for i in range(2):
        rows = pa.array(list(rows_of(rng, 4)), pa.list_(pa.float32()))
        pq.write_table(pa.table({"v": rows}), tmp_path / "in.parquet" / f"part-{i}.parquet")
    (tmp_path / "part-1.parquet").write_text("somebody's")
    with pytest.raises(eq.EquipoiseError, match="lies in the source"):
        eq.apply(tmp_path / "in.parquet", tmp_path / "in.parquet" / "out.parquet", space=space)
    eq.apply(tmp_path / "in.parquet", tmp_path / "out.parquet", space=space)
    assert set(tree(tmp_path / "out.parquet")) == {
        "part-0.parquet",
        "part-1.parquet",
        "equipoise-apply.json",
    }
    assert (tmp_path / "part-1.parquet").read_text() == "somebody's"
    np.save(tmp_path / "e.npy", rows_of(rng, 4))
    with pytest.raises(eq.EquipoiseError, match=r"e.npy stays a .npy file"):
        eq.apply(tmp_path / "e.npy", tmp_path / "e.parquet", space=space)


def test_any_pair_of_globs(tmp_path, rng, space):
    for i in range(3):
        (tmp_path / "in" / f"v{i}").mkdir(parents=True)
        np.save(tmp_path / "in" / f"v{i}" / "feats.npy", rows_of(rng, 4))
        pq.write_table(pa.table({"x": range(4)}), tmp_path / "in" / f"v{i}" / "info.parquet")
    with pytest.raises(eq.EquipoiseError, match="say which hold rows"):
        eq.apply(tmp_path / "in", tmp_path / "out", space=space)
    eq.apply(
        tmp_path / "in",
        tmp_path / "out",
        space=space,
        rows="*/feats.npy",
        metadata="v*/info.parquet",
    )
    assert set(tree(tmp_path / "out")) == {*tree(tmp_path / "in"), "equipoise-apply.json"}
    with pytest.raises(eq.EquipoiseError, match=r"3 files match .* and 1 match"):
        eq.apply(
            tmp_path / "in",
            tmp_path / "out2",
            space=space,
            rows="*/feats.npy",
            metadata="v1/info.parquet",
        )


def test_places_behind_a_url(clip_folder, tmp_path, space):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(clip_folder), "/clip", recursive=True)
    eq.apply("memory://clip", "memory://out", space=space)
    memory.get("/out/", str(tmp_path / "fetched"), recursive=True)
    eq.apply(f"file://{clip_folder}", tmp_path / "here", space=space)
    there, here = tree(tmp_path / "fetched"), tree(tmp_path / "here")
    assert set(there) == set(here)
    assert all(there[name] == here[name] for name in here if name != "equipoise-apply.json")
    applying.verify("memory://clip", "memory://out", read_transform(space, None))
    assert eq.apply("memory://clip", "memory://out", space=space, resume=True).shards == 0
    with pytest.raises(eq.EquipoiseError, match="lies in the source"):
        eq.apply(
            "memory://clip", "memory:///clip/inside", space=space
        )  # the same place in other words
    memory.put(str(clip_folder), "/clip [1]", recursive=True)
    assert eq.apply("memory://clip [1]", "memory://out-1", space=space).rows == 204
    for path in memory.find("/clip [1]"):
        memory.rm_file(path)
    for folder in ("/clip", "/out", "/out-1"):
        memory.rm(folder, recursive=True)


def test_a_method(tmp_path, rng):
    """What a method gives is stored; the certificate is of the space that is given beside it."""
    context = _context(rng)
    operator, space = (
        eq.methods.create("orth-proj").fit(context),
        eq.AttributeSpace.from_prototypes(context.prototypes),
    )
    np.save(tmp_path / "e.npy", rows_of(rng, 50))
    operator.save(tmp_path / "op.safetensors")
    eq.apply(
        tmp_path / "e.npy",
        tmp_path / "u.npy",
        operator=tmp_path / "op.safetensors",
        modality="text",
    )
    np.testing.assert_allclose(
        np.load(tmp_path / "u.npy"), operator.text(np.load(tmp_path / "e.npy")), atol=1e-7
    )
    certified = eq.apply(
        tmp_path / "e.npy", tmp_path / "c.npy", operator=operator, space=space, modality="text"
    ).certificate["text"]
    assert certified["leakage"]["mean"] < certified["leakage_before"]["mean"]
    with pytest.raises(eq.EquipoiseError, match="kappa belongs to a space"):
        eq.apply(tmp_path / "e.npy", tmp_path / "d.npy", operator=operator, kappa=1)
    with pytest.raises(eq.EquipoiseError, match="nothing to apply"):
        eq.apply(tmp_path / "e.npy", tmp_path / "d.npy")


def test_a_method_without_a_space_counts_what_it_let_through(tmp_path, rng):
    rows = rows_of(rng, 9)
    rows[2], rows[5, 3] = 0, np.nan
    np.save(tmp_path / "e.npy", rows)
    operator = eq.methods.create("leace").fit(
        _context(rng, images=rows_of(rng, 60), sensitive_features=["male", "female"] * 30)
    )
    with pytest.raises(eq.errors.InvalidRowsError, match="row 2 of"):
        eq.apply(tmp_path / "e.npy", tmp_path / "r.npy", operator=operator)
    report = eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", operator=operator, on_invalid="keep")
    assert report.certificate == {"image": {"n": 7, "invalid": 2}}


def test_an_operator_that_would_change_nothing_is_refused(clip_folder, tmp_path, rng):
    """A copy of the source that is called debiased: orth-proj and adapted change texts unless told otherwise, and rows are images by default."""
    np.save(tmp_path / "e.npy", rows_of(rng, 5))
    for name, told in (
        ("orth-proj", "changes text rows, and the rows are of modality image"),
        ("none", "changes nothing"),
    ):
        with pytest.raises(eq.EquipoiseError, match=told):
            eq.apply(
                tmp_path / "e.npy",
                tmp_path / "u.npy",
                operator=eq.methods.create(name).fit(_context(rng)),
            )
    assert (
        eq.apply(
            clip_folder,
            tmp_path / "out",
            operator=eq.methods.create("orth-proj").fit(_context(rng)),
        ).rows
        == 204
    )  # its texts


def _context(rng, **given):
    attribute = eq.Attribute("gender", ("male", "female"))
    return eq.FitContext(
        attribute,
        prototypes={"male": rng.standard_normal(32), "female": rng.standard_normal(32)},
        **given,
    )


def _npy(folder, rows, name="e.npy"):
    np.save(folder / name, rows)
    return folder / name


def _header(folder, shape):
    with (folder / "e.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )
    return folder / "e.npy"


def _cut(path, count):
    path.write_bytes(path.read_bytes()[:count])
    return path


def _parquet(folder, values, kind=None):
    pq.write_table(
        pa.table({"v": pa.array(values, kind or pa.list_(pa.float32()))}), folder / "e.parquet"
    )
    return folder / "e.parquet"


def _with_nan(rows, i):
    rows[i, 3] = np.nan
    return rows


def _two_columns(folder):
    rows = pa.array([[1.0] * 32], pa.list_(pa.float32()))
    pq.write_table(
        pa.Table.from_arrays([rows, pa.array([1])], names=["v", "v"]), folder / "e.parquet"
    )
    return folder / "e.parquet"


def _broken_link(folder):
    _npy(folder, ONES)
    (folder / "f.npy").symlink_to("not-fetched.npy")
    return folder


def _not_utf8(folder):
    os.rename(bytes(_npy(folder, ONES)), bytes(folder) + b"/\xff.npy")
    return folder


ONES = np.ones((6, 32), np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f / "nowhere", "no stored embeddings at"),
        (
            lambda f: (f / "a.jpg").write_bytes(b"a picture") and f,
            "holds no .npy and no .parquet file; .* equipoise embed makes one",
        ),
        (
            lambda f: _cut(_npy(f, ONES), 300),
            r"e.npy in .* is truncated: its header says 6 rows, 896 bytes, and it has 300",
        ),
        (lambda f: _cut(_npy(f, ONES), 40), "is not a .npy file, or a truncated one"),
        (lambda f: _npy(f, ONES.astype(int)), "holds int64; embeddings are float16"),
        (lambda f: _npy(f, ONES[0]), r"has shape \(32,\)"),
        (lambda f: _header(f, (-6, 32)), r"has shape \(-6, 32\)"),
        (lambda f: _npy(f, np.asfortranarray(ONES)), "saved column by column"),
        (lambda f: _npy(f, np.array([{}] * 3)), "holds object"),
        (lambda f: _npy(f, ONES[:, :31]), "rows are 31 wide and the attribute space is 32 wide"),
        (lambda f: _npy(f, _with_nan(ONES.copy(), 4)), r"row 4 of e.npy in .* has no direction"),
        (
            lambda f: [_npy(f, ONES), _npy(f, ONES[:, :8], "f.npy")] and f,
            "f.npy in .* is 8 wide and e.npy 32",
        ),
        (
            lambda f: [_npy(f, ONES), _npy(f, ONES.astype("f8"), "f.npy")] and f,
            "f.npy in .* holds float64 and e.npy float32",
        ),
        (lambda f: _parquet(f, [None] * 2), "row 0 of e.parquet in .* is null"),
        (_two_columns, "has 2 columns called 'v'"),
        (_broken_link, r"f.npy in .* cannot be read .*fetch what it leads to"),
        pytest.param(
            _not_utf8, r"1 file names in .* are not UTF-8, first '\\udcff.npy'", marks=LINUX
        ),
        (lambda f: _parquet(f, [[1.0] * 32, None]), "row 1 of e.parquet in .* is null"),
        (
            lambda f: _parquet(f, [[1.0] * 32, [1.0] * 31]),
            "row 1 of e.parquet in .* is 31 wide and the first row 32",
        ),
        (
            lambda f: _parquet(f, [[1.0] * 32, [1.0] * 31 + [None]]),
            "row 1 of e.parquet in .* holds a null at 31",
        ),
        (
            lambda f: _parquet(f, [[1.0] * 32] * 5 + [[float("nan")] * 32]),
            "row 5 of e.parquet in .* has no direction",
        ),
        (lambda f: _parquet(f, [1, 2], pa.int64()), "has no columns of embeddings"),
        (
            lambda f: _cut(_parquet(f, [[1.0] * 32]), 200),
            "is not a parquet file, or a truncated one",
        ),
    ],
)
def test_bad_input_is_named_and_loses_nothing(tmp_path, space, make, message):
    (tmp_path / "in").mkdir()
    source = make(tmp_path / "in")
    before = tree(tmp_path / "in")
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.apply(source, tmp_path / "out", space=space)
    assert tree(tmp_path / "in") == before
    assert not [
        name
        for name in (tree(tmp_path / "out") if (tmp_path / "out").exists() else {})
        if name.endswith((".npy", ".parquet"))
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "raw"}, "norm='raw' is not legal"),
        ({"on_invalid": "skip"}, "on_invalid='skip' is not legal"),
        ({"modality": "sound"}, "modality='sound' is not legal"),
        ({"device": "gpu"}, "device 'gpu' cannot be used here"),
        ({"kappa": [1.0, 2.0]}, "pass one number for a whole store"),
    ],
)
def test_bad_arguments_write_nothing(tmp_path, rng, space, options, message):
    component("torch")
    np.save(tmp_path / "e.npy", rows_of(rng, 3))
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.apply(tmp_path / "e.npy", tmp_path / "out", space=space, **options)
    with pytest.raises(eq.EquipoiseError, match="the source is empty"):
        eq.apply("", tmp_path / "out", space=space)
    assert not (tmp_path / "out").exists()


def test_a_source_of_any_size_has_few_pieces(tmp_path, space):
    """Of 5 billion rows no more is noted than fits in memory, and each is in one piece."""
    rows = 1_000_000
    files = [
        SourceFile(
            name=f"{i}.npy",
            kind="npy",
            rows=rows,
            dim=512,
            dtype="float16",
            size=rows * 1024,
            stamp="",
        )
        for i in range(5000)
    ]
    pieces = shard.Job(
        str(tmp_path), str(tmp_path / "out"), files, read_transform(space, None)
    ).pieces()
    assert (
        len(pieces) == 5000 and sum(piece.stop - piece.start for piece in pieces) == 5_000_000_000
    )
    one = [
        SourceFile(
            name="e.npy",
            kind="npy",
            rows=5000 * rows,
            dim=512,
            dtype="float16",
            size=5000 * rows * 1024,
            stamp="",
        )
    ]
    pieces = shard.Job(
        str(tmp_path), str(tmp_path / "out"), one, read_transform(space, None)
    ).pieces()
    assert len(pieces) <= shard.MOST + 1
    assert [piece.start for piece in pieces[1:]] == [
        piece.stop for piece in pieces[:-1]
    ] and pieces[-1].stop == 5000 * rows


def test_a_bad_row_far_inside_and_then_kept(tmp_path, rng, space, monkeypatch):
    """The row is named as its file counts it; what was done before the error is not done again."""
    monkeypatch.setattr(shard, "PIECE_ROWS", 100)
    for i in range(3):
        _npy(tmp_path, rows_of(rng, 250), f"e{i}.npy")
    (tmp_path / "in").mkdir()
    for i in range(3):
        os.rename(tmp_path / f"e{i}.npy", tmp_path / "in" / f"e{i}.npy")
    bad = np.load(tmp_path / "in" / "e1.npy", mmap_mode="r+")
    bad[217, 5] = np.inf
    bad.flush()
    with pytest.raises(eq.errors.InvalidRowsError, match=r"row 217 of e1.npy") as caught:
        eq.apply(tmp_path / "in", tmp_path / "out", space=space)
    assert caught.value.rows == (217,)
    assert not (tmp_path / "out" / "e1.npy").exists()
    report = eq.apply(
        tmp_path / "in", tmp_path / "out", space=space, on_invalid="keep", resume=True
    )
    assert 1 <= report.shards < 9
    assert report.certificate["image"]["invalid"] == 1 and report.certificate["image"]["n"] == 749
    u = np.load(tmp_path / "out" / "e1.npy")
    np.testing.assert_array_equal(u[217], bad[217])


def test_nan_in_row_7_000_001(tmp_path, rng):
    """Named as its file counts it, across many pieces."""
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "e0.npy", rows_of(rng, 1000, "float16", 4))
    rows = np.lib.format.open_memmap(tmp_path / "in" / "e1.npy", "w+", np.float16, (7_500_000, 4))
    rows[:] = rows_of(rng, 1, "float16", 4)
    rows[7_000_001, 2] = np.nan
    rows.flush()
    with pytest.raises(
        eq.errors.InvalidRowsError, match=r"row 7,000,001 of e1.npy in .*in \(counting from 0\)"
    ) as caught:
        eq.apply(tmp_path / "in", tmp_path / "out", space=make_space(rng, 4, 2))
    assert caught.value.rows == (7_000_001,)
    assert not (tmp_path / "out" / "e1.npy").exists()


def test_headers_are_parsed_one_at_a_time(clip_folder, tmp_path, space, monkeypatch):
    """ast, with which numpy parses them, is not safe in threads on CPython 3.11."""
    parse, inside, seen = np.lib.format.read_array_header_1_0, threading.Semaphore(1), []

    def alone(file):
        seen.append(inside.acquire(blocking=False))
        time.sleep(0.002)
        try:
            return parse(file)
        finally:
            inside.release()

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", alone)
    eq.apply(clip_folder, tmp_path / "out", space=space)
    assert len(seen) >= 24 and all(seen)


def test_a_destination_of_another_run(clip_folder, tmp_path, space, rng):
    eq.apply(clip_folder, tmp_path / "out", space=space)
    with pytest.raises(eq.EquipoiseError, match=r"holds another run \(what differs: transform\)"):
        eq.apply(clip_folder, tmp_path / "out", space=space, kappa=3, resume=True)
    with pytest.raises(eq.EquipoiseError, match="finished; pass `verify`"):
        eq.apply(clip_folder, tmp_path / "out", space=space)
    with pytest.raises(eq.EquipoiseError, match="the destination is empty"):
        eq.apply(clip_folder, "", space=space)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.doc").write_text("x")
    with pytest.raises(eq.EquipoiseError, match="holds something else"):
        eq.apply(clip_folder, tmp_path / "mine", space=space)
    with pytest.raises(eq.EquipoiseError, match="lies in the source"):
        eq.apply(clip_folder, clip_folder / "out", space=space)
    np.save(tmp_path / "e.npy", rows_of(rng, 3))
    with pytest.raises(eq.EquipoiseError, match="lies in the source"):
        eq.apply(tmp_path / "e.npy", tmp_path / "e.npy", space=space)
    eq.apply(tmp_path / "e.npy", tmp_path / "beside", space=space)
    assert np.load(tmp_path / "beside" / "e.npy").shape == (3, 32)
    assert eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", space=space).destination == str(
        tmp_path / "u.npy"
    )
    with pytest.raises(eq.EquipoiseError, match=r"u\.npy holds this run already"):
        eq.apply(tmp_path / "e.npy", tmp_path / "u.npy", space=space)
    with pytest.raises(
        eq.EquipoiseError, match=r"metadata_0.parquet in .* matches `rows` and `metadata`"
    ):
        eq.apply(
            clip_folder, tmp_path / "both", space=space, rows="metadata/*", metadata="metadata/*"
        )


@pytest.mark.parametrize("change", ["rows", "metadata", "gone"])
def test_a_source_that_changes_while_it_is_read(clip_folder, tmp_path, space, rng, change):
    def changes(job, pieces):
        yield shard.run_piece(job, pieces[0])
        if change == "rows":
            np.save(clip_folder / "img_emb" / "img_emb_2.npy", rows_of(rng, 70, "float16"))
        if change == "metadata":
            (clip_folder / "metadata" / "metadata_0.parquet").write_bytes(b"other")
        if change == "gone":
            (clip_folder / "text_emb" / "text_emb_3.npy").unlink()
        yield from threads.run(job, pieces[1:])

    with pytest.raises(eq.EquipoiseError, match="was changed or removed while it was read"):
        eq.apply(clip_folder, tmp_path / "out", space=space, engine=changes)
    assert "equipoise-apply.json" not in os.listdir(tmp_path / "out")


def test_an_object_that_is_described_in_other_words_is_the_same(clip_folder, space, monkeypatch):
    """s3fs tells more of an object that it looks up than of one that it has listed; only the size of both is one."""
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(clip_folder), "/worded", recursive=True)
    monkeypatch.setattr(
        type(memory), "ukey", lambda self, path, seen=[]: seen.append(path) or str(len(seen))
    )
    assert eq.apply("memory://worded", "memory://out-worded", space=space).rows == 204
    for place in ("/worded", "/out-worded"):
        memory.rm(place, recursive=True)


def test_an_unfinished_run_is_no_source(tmp_path, space, rng):
    """It lacks files, and would be taken for all there is."""
    (tmp_path / "in").mkdir()
    for i in range(3):
        np.save(tmp_path / "in" / f"{i}.npy", rows_of(rng, 5))
    _stop_after(tmp_path / "in", tmp_path / "half", space, 2)
    with pytest.raises(eq.EquipoiseError, match="holds an unfinished run"):
        eq.apply(tmp_path / "half", tmp_path / "out", space=space)
    eq.apply(tmp_path / "in", tmp_path / "half", space=space, resume=True)
    assert eq.apply(tmp_path / "half", tmp_path / "out", space=space).rows == 15


def test_a_source_that_changed_meanwhile(clip_folder, tmp_path, space, rng):
    _stop_after(clip_folder, tmp_path / "out", space, 2)
    np.save(clip_folder / "img_emb" / "img_emb_2.npy", rows_of(rng, 70, "float16"))
    with pytest.raises(eq.EquipoiseError, match=r"holds another run \(what differs: files\)"):
        eq.apply(clip_folder, tmp_path / "out", space=space, resume=True)


def _stop_after(source, destination, space, count, **options):
    def stops(job, pieces):
        yield from (shard.run_piece(job, piece) for piece in pieces[:count])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        eq.apply(source, destination, space=space, engine=stops, **options)


def test_resume_does_nothing_twice_and_mends_what_is_gone(
    clip_folder, tmp_path, space, monkeypatch
):
    monkeypatch.setattr(shard, "PIECE_ROWS", 20)
    eq.apply(clip_folder, tmp_path / "whole", space=space)
    _stop_after(clip_folder, tmp_path / "out", space, 7)
    with pytest.raises(eq.EquipoiseError, match="a part of this run; pass `resume`"):
        eq.apply(clip_folder, tmp_path / "out", space=space)
    (tmp_path / "out" / "img_emb" / "img_emb_0.npy").unlink()
    with (tmp_path / "out" / "equipoise-apply.journal").open("ab") as file:
        file.write(b'{"file": 3, "sta')  # a line that a kill tore
    pieces = sum(
        1 for _ in json.loads((tmp_path / "whole" / "equipoise-apply.json").read_bytes())["shards"]
    )
    assert eq.apply(clip_folder, tmp_path / "out", space=space, resume=True).shards == pieces - 6
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


@pytest.mark.parametrize("finished", [True, False])
def test_stopped_while_it_writes_again_what_was_gone(tmp_path, rng, space, monkeypatch, finished):
    """What the journal or the manifest said of rows that are gone must not be believed by the run after the next."""
    monkeypatch.setattr(shard, "PIECE_ROWS", 20)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "e.npy", rows_of(rng, 100))
    eq.apply(tmp_path / "in", tmp_path / "whole", space=space)
    if finished:
        eq.apply(tmp_path / "in", tmp_path / "out", space=space)
        (tmp_path / "out" / "e.npy").unlink()
    else:
        _stop_after(tmp_path / "in", tmp_path / "out", space, 3)
        (tmp_path / "out" / ".e.npy.part").unlink()
    _stop_after(tmp_path / "in", tmp_path / "out", space, 2, resume=True)
    with pytest.raises(eq.EquipoiseError, match="is unfinished"):
        applying.verify(tmp_path / "in", tmp_path / "out", read_transform(space, None))
    assert eq.apply(tmp_path / "in", tmp_path / "out", space=space, resume=True).shards == 3
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


@pytest.mark.parametrize("where", ["out", "memory://equipoise-journal/out"])
def test_a_damaged_journal(tmp_path, rng, space, where):
    """Lines that cannot be read, or that name no piece of this run, are not done; the others are."""
    (tmp_path / "in").mkdir()
    for i in range(3):
        np.save(tmp_path / "in" / f"{i}.npy", rows_of(rng, 5))
    destination = where if "://" in where else tmp_path / where
    _stop_after(tmp_path / "in", destination, space, 2)
    place = journal_at(places.place(destination)).where
    lines = b'{"file": 77, "start": 0, "stop": 5, "bytes": 1, "crc32": "0"}\n', b"\x00\xff\n"
    if "://" in where:
        for name, line in zip(("77-0", "1-0"), lines, strict=True):
            with place.writing(f"equipoise-apply.journal/{name}.json") as file:
                file.write(line)
    else:
        path = destination / "equipoise-apply.journal"
        head, first, second, _ = path.read_bytes().split(b"\n")
        path.write_bytes(head + b"\n" + lines[0] + lines[1] + first + b"\n" + second[:-4])
    assert eq.apply(tmp_path / "in", destination, space=space, resume=True).shards == 2
    applying.verify(tmp_path / "in", destination, read_transform(space, None))


def test_resume_of_a_finished_run(clip_folder, tmp_path, space):
    """All is done, and that is no error; a file that is gone is written again."""
    first = eq.apply(clip_folder, tmp_path / "out", space=space)
    before = tree(tmp_path / "out")
    again = eq.apply(clip_folder, tmp_path / "out", space=space, resume=True)
    assert (again.rows, again.bytes, again.shards) == (
        0,
        0,
        0,
    ) and again.certificate == first.certificate
    assert tree(tmp_path / "out") == before
    for name in ("img_emb/img_emb_2.npy", "metadata/metadata_0.parquet"):
        (tmp_path / "out" / name).unlink()
    assert eq.apply(clip_folder, tmp_path / "out", space=space, resume=True).shards == 2
    assert tree(tmp_path / "out") == before


def test_two_runs_into_one_destination(clip_folder, tmp_path, space):
    """The second is refused while the first is at work, and changes nothing of it."""
    refused = []

    def while_at_work(job, pieces):
        for done in threads.run(job, pieces):
            with pytest.raises(eq.EquipoiseError, match="another run is writing to") as caught:
                eq.apply(clip_folder, tmp_path / "out", space=space, resume=True)
            refused.append(caught.value)
            yield done

    eq.apply(clip_folder, tmp_path / "out", space=space, engine=while_at_work)
    eq.apply(clip_folder, tmp_path / "alone", space=space)
    assert refused and tree(tmp_path / "out") == tree(tmp_path / "alone")


def test_somebody_elses_lock_keeps_what_it_says(clip_folder, tmp_path, space):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").write_text("pid 1")
    eq.apply(clip_folder, tmp_path / "out", space=space)
    assert (tmp_path / "out" / ".lock").read_text() == "pid 1"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("e.npy", ["--key", "id"], "`key` would do nothing for files"),
        ("e.npy", ["--address", "auto"], "`address` would do nothing"),
        (
            "t.lance#v",
            ["--key", "id", "--rows", "*"],
            "`rows`, `key` would do nothing for such a database",
        ),
        (
            "postgresql://u@h/d#t.e",
            ["--engine", "ray", "--device", "cuda"],
            "`device`, `engine` would do nothing",
        ),
        (
            "postgresql://u:secret@h/d#t.e",
            ["--dry-run"],
            "`dry_run` would do nothing for such a database",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(source, options, message):
    """A run on a CPU that was to be one on a GPU, or all rows where some were meant, is a surprise that comes late."""
    told = CliRunner().invoke(app, ["apply", source, "--out", "out", "--space", "s", *options])
    assert (
        isinstance(told.exception, eq.EquipoiseError)
        and message in str(told.exception)
        and "secret" not in str(told.exception)
    )


def test_errors_of_a_node_come_back_as_what_they_were(tmp_path, rng, space):
    job = shard.Job(
        str(tmp_path / "nowhere"),
        str(tmp_path / "out"),
        [SourceFile(name="e.npy", kind="npy", size=1, stamp="")],
        read_transform(space, None),
    )
    told = ray_engine._tell(job, {"file": 0, "start": 0, "stop": 1})
    assert isinstance(ray_engine._error(told["error"], told["told"]), eq.errors.ArtefactError)
    for name in ("InvalidRowsError", "MissingExtraError", "EquipoiseError", "of a newer version"):
        error = ray_engine._error(name, "what it said")
        assert isinstance(error, eq.EquipoiseError) and "what it said" in str(error)


def test_a_dry_run_where_nothing_near_can_be_written_to(tmp_path, rng, space, monkeypatch):
    np.save(tmp_path / "e.npy", rows_of(rng, 5))
    monkeypatch.setattr(os, "access", lambda *_: False)  # as it is for others than root
    assert (
        applying.estimate(
            tmp_path / "e.npy", tmp_path / "u.npy", read_transform(space, None)
        ).sampled
        == 5
    )


def test_checksums_are_those_of_zlib(rng):
    """Whoever takes them: a manifest written with ISA-L is verified without."""
    data = rng.bytes(1_000_003)
    for cut in (0, 1, 17, 4096, 999_999):
        assert crc32(data[cut:], crc32(data[:cut])) == zlib.crc32(data)


def test_verify_finds_a_byte(clip_folder, tmp_path, space):
    transform = read_transform(space, None)
    with pytest.raises(eq.EquipoiseError, match="holds no run"):
        applying.verify(clip_folder, tmp_path / "out", transform)
    _stop_after(clip_folder, tmp_path / "half", space, 2)
    with pytest.raises(eq.EquipoiseError, match="is unfinished; go on with `resume`"):
        applying.verify(clip_folder, tmp_path / "half", transform)
    eq.apply(clip_folder, tmp_path / "out", space=space)
    applying.verify(clip_folder, tmp_path / "out", transform)
    path = tmp_path / "out" / "img_emb" / "img_emb_2.npy"
    whole = path.read_bytes()
    for damaged, message in (
        (
            whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:],
            "is not what was written: rows 0 to 70 differ",
        ),
        (whole + b"x", "has 4,609 bytes, and 4,608 were written"),
        (whole[:-1], "has 4,607 bytes, and 4,608 were written"),
        (None, "is not in .* any more"),
    ):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(eq.EquipoiseError, match=f"img_emb_2.npy .*{message}"):
            applying.verify(clip_folder, tmp_path / "out", transform)
    eq.apply(clip_folder, tmp_path / "out", space=space, resume=True)
    applying.verify(clip_folder, tmp_path / "out", transform)


def test_the_command(clip_folder, tmp_path, space):
    space.save(tmp_path / "space")
    dry = run(
        "apply",
        clip_folder,
        "--out",
        tmp_path / "out",
        "--space",
        tmp_path / "space",
        "--dry-run",
        "--json",
    )
    assert dry.returncode == 0, dry.stderr
    stated = json.loads(dry.stdout)
    assert (
        stated["rows"] == 204
        and stated["bytes"] == sum(map(len, tree(clip_folder).values()))
        and stated["seconds"] > 0
    )
    assert not (tmp_path / "out").exists()
    done = run(
        "apply",
        clip_folder,
        "--out",
        tmp_path / "out",
        "--space",
        tmp_path / "space",
        "--json",
        "--verify",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] == 36
    again = run(
        "apply", clip_folder, "--out", tmp_path / "out", "--space", tmp_path / "space", "--verify"
    )
    assert again.returncode == 0 and "36" in again.stdout
    wrong = run("apply", clip_folder, "--out", tmp_path / "out", "--space", tmp_path / "nowhere")
    assert (
        wrong.returncode == 2
        and "there is no file" in wrong.stderr
        and "Traceback" not in wrong.stderr
    )
    spoken = run("apply", clip_folder, "--out", tmp_path / "out2", "--space", tmp_path / "space")
    assert "certificate" in spoken.stdout


CROWDED = """
import os, sys
from pathlib import Path
import numpy as np
import equipoise as eq
from equipoise._engines import shard, threads
from equipoise._space import EncoderRef
from equipoise._stores import StoreWriter
from equipoise._stores import locations as places

source, out, space = map(Path, sys.argv[1:])
shard.PIECE_ROWS = 1000
junk = out / "junk"

def crowded(job, pieces):
    for done in threads.run(job, pieces, 1):
        yield done
        if not junk.exists():  # somebody else fills the disk
            with junk.open("wb", 0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError as error:
                    print(error)

try:
    eq.apply(source, out, space=space, engine=crowded)
except eq.EquipoiseError as error:
    print(error)
print(*out.glob("*.npy"))
junk.unlink()
again = eq.apply(source, out, space=space, resume=True)
print(again.rows, np.load(out / "e.npy").tobytes() == eq.debias(np.load(source), eq.AttributeSpace.load(space)).tobytes())
"""


def test_a_full_disk(tmp_path, rng, space):
    """A file system of 2 MiB that fills up mid-run: an error in words, no final name, and resume once there is room."""
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip(
            "this system lets nobody mount a small file system; a limit on the size of files stands in for it in another test"
        )
    np.save(tmp_path / "e.npy", rows_of(rng, 8000, "float32"))
    space.save(tmp_path / "space")
    (tmp_path / "out").mkdir()
    mounted = ["sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"', tmp_path / "out"]
    command = [
        *inside,
        *mounted,
        sys.executable,
        "-c",
        CROWDED,
        tmp_path / "e.npy",
        tmp_path / "out",
        tmp_path / "space",
    ]
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    filled, told, written, resumed = run.stdout.splitlines()
    assert "No space left on device" in filled
    assert "cannot be written (No space left on device)" in told and "`resume`" in told
    assert written == ""
    rows, same = resumed.split()
    assert 0 < int(rows) < 8000 and same == "True"


def test_a_limit_on_the_size_of_files(tmp_path, rng, space):
    """An error in words, no final name, and resume without the limit."""
    np.save(tmp_path / "e.npy", rows_of(rng, 8000, "float32"))
    space.save(tmp_path / "space")
    limited = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
from equipoise._cli import main
main()
"""
    command = [
        sys.executable,
        "-c",
        limited,
        "apply",
        tmp_path / "e.npy",
        "--out",
        tmp_path / "out" / "u.npy",
        "--space",
        tmp_path / "space",
    ]
    full = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert full.returncode == 2, full.stderr
    assert (
        "u.npy in" in full.stderr
        and "cannot be written" in full.stderr
        and "--resume" in full.stderr
    )
    assert not (tmp_path / "out" / "u.npy").exists()
    eq.apply(tmp_path / "e.npy", tmp_path / "out" / "u.npy", space=space, resume=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "out" / "u.npy"), eq.debias(np.load(tmp_path / "e.npy"), space)
    )


SLOWLY = """
import sys, time
from equipoise._engines import shard as shard
from equipoise._cli import main
shard.PIECE_ROWS = 50
write = shard._Sink.write
def slowly(self, data):
    time.sleep(0.01)
    return write(self, data)
shard._Sink.write = slowly
main()
"""


def killed(source, destination, space, kills):
    """The folder after so many kills at random moments of one run."""
    command = [
        sys.executable,
        "-c",
        SLOWLY,
        "apply",
        source,
        "--out",
        destination,
        "--space",
        space,
        "--resume",
    ]
    moments = random.Random(0)
    stood = []
    for _ in range(kills):
        run = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
        begun = time.monotonic()
        journal = destination / "equipoise-apply.journal"
        size = journal.stat().st_size if journal.exists() else 0
        while (
            run.poll() is None
            and time.monotonic() - begun < 60
            and (journal.stat().st_size if journal.exists() else 0) == size
        ):
            time.sleep(0.005)  # until it has done something
        time.sleep(moments.uniform(0, 0.05))
        run.send_signal(signal.SIGKILL)
        run.wait()
        stood.append(len(journal.read_bytes().splitlines()) if journal.exists() else -1)
    return command, stood


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, rng, space, kills):
    (tmp_path / "in" / "img_emb").mkdir(parents=True)
    (tmp_path / "in" / "metadata").mkdir()
    for i in range(6):
        np.save(tmp_path / "in" / "img_emb" / f"img_emb_{i}.npy", rows_of(rng, 2500, "float16"))
        pq.write_table(
            pa.table({"n": range(2500)}), tmp_path / "in" / "metadata" / f"metadata_{i}.parquet"
        )
    space.save(tmp_path / "space")
    command, stood = killed(tmp_path / "in", tmp_path / "out", tmp_path / "space", kills)
    assert stood[0] > 0 and stood == sorted(stood)  # none came after the end
    for path in (tmp_path / "out").rglob("*.npy"):
        assert np.load(path).shape == (2500, 32)  # whole under its final name
    if "equipoise-apply.json" not in os.listdir(tmp_path / "out"):
        (tmp_path / "out" / "img_emb" / ".img_emb_0.npy.part").write_bytes(
            b"of a worker that came late"
        )
        last = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        assert last.returncode == 0, last.stderr
    whole = [
        sys.executable,
        "-c",
        SLOWLY,
        "apply",
        tmp_path / "in",
        "--out",
        tmp_path / "whole",
        "--space",
        tmp_path / "space",
    ]
    subprocess.run([*map(str, whole)], check=True, capture_output=True)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    for path in (tmp_path / "in" / "img_emb").iterdir():
        np.testing.assert_array_equal(
            np.load(tmp_path / "out" / "img_emb" / path.name), eq.debias(np.load(path), space)
        )


MEMORY = """
import sys
from equipoise._cli import main
try:
    main()
finally:  # not getrusage, whose maximum is inherited from the parent
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


@pytest.mark.slow
def test_two_gibibytes_in_half_of_one(tmp_path, rng, space):
    """One .npy file, far larger than what may be held."""
    rows, block = (
        np.lib.format.open_memmap(tmp_path / "e.npy", "w+", np.float16, (1 << 25, 32)),
        rows_of(rng, 1 << 16, "float16"),
    )
    for start in range(0, len(rows), len(block)):
        rows[start : start + len(block)] = block
    rows.flush()
    del rows
    space.save(tmp_path / "space")
    command = [
        sys.executable,
        "-c",
        MEMORY,
        "apply",
        tmp_path / "e.npy",
        "--out",
        tmp_path / "u.npy",
        "--space",
        tmp_path / "space",
        "--json",
    ]
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    assert int(run.stderr.split()[-1]) < 512 << 10
    assert json.loads(run.stdout)["rows"] == 1 << 25
    u = np.load(tmp_path / "u.npy", mmap_mode="r")
    np.testing.assert_array_equal(u[-len(block) :], eq.debias(block, space))
    for name in ("e.npy", "u.npy"):
        (tmp_path / name).unlink()
