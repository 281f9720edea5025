"""``equipoise embed``, ``cache`` and ``doctor``, as a user types them; and stores, which know their encoder."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise import _embedding as embedding
from equipoise._stores.lock import alone_in
from equipoise.encoders import Encoder
from tests.helpers import models
from tests.helpers.averages import Averages
from tests.helpers.common import component, run

component("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return f"hf:{models.clip(tmp_path_factory.mktemp('model') / 'clip')}"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Sixty pictures in two folders, three of them broken, and files that are no pictures."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(60):
        path = folder / ("a" if i % 2 else "b") / f"{i:03d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(path)
    for name in ("a/005.jpg", "b/010.jpg", "b/058.jpg"):
        (folder / name).write_bytes(b"broken")
    (folder / "notes.txt").write_text("no picture")
    return folder


def equipoise(*arguments, cache):
    return run(*arguments, EQUIPOISE_CACHE=str(cache))


@pytest.mark.filterwarnings("always:.*could not be read")
def test_a_folder_of_pictures(photos, model, tmp_path):
    out = equipoise(
        "embed",
        photos,
        "--out",
        tmp_path / "store",
        "--model",
        model,
        "--shard",
        25,
        "--json",
        cache=tmp_path / "c",
    )
    assert out.returncode == 0, out.stderr
    document = json.loads(out.stdout)
    assert document["rows"] == 57
    told = "equipoise: 3 of 60 items could not be read and are left out (a/005.jpg: not an image"
    assert told in out.stderr and "store/equipoise.json lists them" in out.stderr
    assert [item["name"] for item in document["skipped"]] == ["a/005.jpg", "b/010.jpg", "b/058.jpg"]
    assert sorted(path.name for path in (tmp_path / "store" / "img_emb").iterdir()) == [
        f"img_emb_{i:05d}.npy" for i in range(3)
    ]
    store = eq.open_store(tmp_path / "store")
    encoder = eq.load_encoder(model)
    paths = store.metadata()["path"]
    assert "a/005.jpg" not in set(paths)
    np.testing.assert_allclose(
        store.load(), encoder.encode_images([photos / path for path in paths]), atol=2e-6
    )
    assert store.encoder.fingerprint == encoder.fingerprint
    assert len(store) == 57
    listed = equipoise("cache", "--json", cache=tmp_path / "c")
    assert json.loads(listed.stdout)["encoders"][0]["rows"] == 57
    cleared = equipoise("cache", "clear", cache=tmp_path / "c").stdout
    assert cleared == "57 embeddings removed\n0 small pictures removed\n"
    assert "0 embeddings removed" in equipoise("cache", "prune", 1, cache=tmp_path / "c").stdout
    assert "encoder" in equipoise("cache", cache=tmp_path / "c").stdout


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_carry_their_other_columns(photos, model, tmp_path, suffix):
    names = [str(path.relative_to(photos)) for path in sorted(photos.glob("a/*.jpg"))]
    table = pd.DataFrame(
        {
            "path": names,
            "gender": ["f", "m"] * (len(names) // 2),
            "age": [f"{i}" for i in range(len(names))],
        }
    )
    table.to_csv(photos / "t.csv", index=False) if suffix == ".csv" else table.to_parquet(
        photos / "t.parquet"
    )
    source = embedding.read_source(photos / f"t{suffix}")
    store = embedding.embed(source, tmp_path / "store", eq.load_encoder(model), dtype="float16")
    pd.testing.assert_frame_equal(
        store.metadata(), table[table.path != "a/005.jpg"].reset_index(drop=True)
    )
    assert store.load().dtype == np.float16


def test_webdataset_tars(photos, tmp_path):
    """Pictures by key with what is said of them; broken ones listed; the rows are those of the same files in a folder."""
    names = sorted(str(path.relative_to(photos)) for path in photos.glob("*/*.jpg"))
    (tmp_path / "tars").mkdir()
    for t, part in enumerate((names[:40], names[40:])):
        with tarfile.open(tmp_path / "tars" / f"{t:05d}.tar", "w") as tar:
            for name in part:
                tar.add(photos / name, name)
                _add(tar, name.replace(".jpg", ".txt"), f"caption of {name}")
                _add(tar, name.replace(".jpg", ".json"), '{"n": 1}')
    source = embedding.read_source(tmp_path / "tars")
    store = embedding.embed(
        source, tmp_path / "store", Encoder(Averages(), workers=0), shard_items=25
    )
    folder = embedding.embed(
        embedding.read_source(photos), tmp_path / "folder", Encoder(Averages(), workers=0)
    )
    np.testing.assert_array_equal(store.load(), folder.load())
    lines = store.metadata()
    assert [path.split("/", 1)[1] for path in lines["path"]] == folder.metadata()["path"].tolist()
    assert (
        lines["caption"] == ["caption of " + path.split("/", 1)[1] for path in lines["path"]]
    ).all()
    assert set(lines["json"]) == {'{"n": 1}'}
    assert [item.name.split("/", 1)[1] for item in store.skipped] == [
        "a/005.jpg",
        "b/010.jpg",
        "b/058.jpg",
    ]
    broken = tmp_path / "tars" / "00001.tar"
    broken.write_bytes(broken.read_bytes()[:1300])
    with pytest.raises(
        eq.EquipoiseError, match=r"00001.tar is (not a tar file, or )?a? ?truncated"
    ):
        embedding.read_source(broken)


def test_links_that_lead_nowhere_are_listed(photos, tmp_path):
    """As git-annex leaves what was not fetched."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").symlink_to(min((photos / "a").glob("*.jpg")))
    (tmp_path / "in" / "b.jpg").symlink_to("not-fetched.jpg")
    store = embedding.embed(
        embedding.read_source(tmp_path / "in"), tmp_path / "store", Encoder(Averages(), workers=0)
    )
    assert len(store) == 1 and [item.name for item in store.skipped] == ["b.jpg"]


def test_a_tar_file_that_ends_too_early(photos, tmp_path):
    """tarfile ends at whatever is no header, so that the pictures behind it would be lost without a word."""
    names = sorted(path.name for path in (photos / "a").glob("*.jpg"))[:3]
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.add(photos / "a" / name, name)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        second, third = tar.getmembers()[1:]
    end = third.offset_data + -(-third.size // 512) * 512
    assert len(embedding.read_source(path).table) == 3
    for data in (
        whole[: third.offset + 100],
        whole[: second.offset] + b"x" * 512 + whole[second.offset + 512 :],
    ):
        path.write_bytes(data)
        with pytest.raises(
            eq.EquipoiseError,
            match=r"a.tar is not a tar file, or a truncated one \(the block at byte [\d,]+ is no header",
        ):
            embedding.read_source(path)
    for data, pictures in ((whole[: third.offset], 2), (whole[:end], 3)):
        path.write_bytes(data)
        with pytest.warns(UserWarning, match="lacks the empty blocks that end a tar file"):
            assert len(embedding.read_source(path).table) == pictures
    path.write_bytes(whole)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(eq.EquipoiseError, match=r"holds 1 .tar files and 1 pictures beside them"):
        embedding.read_source(tmp_path)


def _add(tar, name, text):
    info = tarfile.TarInfo(name)
    info.size = len(text)
    tar.addfile(info, io.BytesIO(text.encode()))


def test_texts(model, tmp_path):
    (tmp_path / "texts.txt").write_text("a photo of a doctor\n\na nurse\n")
    store = embedding.embed(
        embedding.read_source(tmp_path / "texts.txt"), tmp_path / "store", eq.load_encoder(model)
    )
    assert store.metadata()["text"].tolist() == ["a photo of a doctor", "a nurse"]
    (tmp_path / "lines.txt").write_bytes("a\u2028b\x0bc\r\nd".encode())
    assert embedding.read_source(tmp_path / "lines.txt").table["text"].tolist() == [
        "a\u2028b\x0bc",
        "d",
    ]  # lines as wc counts them
    np.testing.assert_allclose(
        store.load(),
        eq.load_encoder(model).encode_text(["a photo of a doctor", "a nurse"]),
        atol=2e-6,
    )
    assert (tmp_path / "store" / "text_emb" / "text_emb_00000.npy").is_file()


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_files(photos, tmp_path):
    """A killed run leaves whole shards only; resumed, the store is byte for byte that of an undisturbed run."""
    slow = f"""
import sys, time
from equipoise import _embedding as embedding
from equipoise.encoders import Encoder
from tests.helpers.averages import Averages
class Slow(Averages):
    def image_features(self, pixels):
        time.sleep(0.05)
        return super().image_features(pixels)
embedding.embed(embedding.read_source({str(photos)!r}), sys.argv[1], Encoder(Slow(), batch_size=2), shard_items=5, resume=True)
"""
    rng, shards = np.random.default_rng(0), []
    embedding.embed(
        embedding.read_source(photos),
        tmp_path / "whole",
        Encoder(Averages(), batch_size=2),
        shard_items=5,
    )
    for _ in range(8):
        run = subprocess.Popen([sys.executable, "-c", slow, str(tmp_path / "killed")])
        while (
            not shards
            and run.poll() is None
            and not list((tmp_path / "killed").glob("img_emb/*.npy"))
        ):
            time.sleep(
                0.01
            )  # the first kill comes in the middle of the work, however long it takes to begin
        time.sleep(rng.uniform(0, 0.6) + (1.2 if shards else 0))
        run.send_signal(signal.SIGKILL)
        run.wait()
        shards.append(len(list((tmp_path / "killed").glob("img_emb/*.npy"))))
    assert 0 < shards[0] < 12
    embedding.embed(
        embedding.read_source(photos),
        tmp_path / "killed",
        Encoder(Averages(), batch_size=2),
        shard_items=5,
        resume=True,
    )
    for path in sorted((tmp_path / "whole").rglob("*.npy")) + sorted(
        (tmp_path / "whole").rglob("*.json")
    ):
        assert (
            tmp_path / "killed" / path.relative_to(tmp_path / "whole")
        ).read_bytes() == path.read_bytes()


def test_resume_does_nothing_twice(photos, tmp_path):
    source, towers = embedding.read_source(photos), Averages()
    embedding.embed(source, tmp_path / "store", Encoder(towers), shard_items=20)
    towers.batches.clear()
    with pytest.raises(
        eq.EquipoiseError, match="holds 57 embeddings of this very run; pass `resume` to keep"
    ):
        embedding.embed(source, tmp_path / "store", Encoder(towers), shard_items=20)
    assert (
        len(
            embedding.embed(
                source, tmp_path / "store", Encoder(towers), shard_items=20, resume=True
            )
        )
        == 57
    )
    assert towers.batches == []


def test_resume_makes_damaged_shards_again(photos, tmp_path):
    source = embedding.read_source(photos)
    whole = embedding.embed(source, tmp_path / "store", Encoder(Averages()), shard_items=20).load()
    shard = tmp_path / "store" / "img_emb" / "img_emb_00001.npy"
    data = bytearray(shard.read_bytes())
    data[-3] ^= 255
    shard.write_bytes(data)
    assert eq.open_store(tmp_path / "store").damaged() == 1
    again = embedding.embed(
        source, tmp_path / "store", Encoder(Averages()), shard_items=20, resume=True
    )
    np.testing.assert_array_equal(again.load(), whole)
    torn = [
        tmp_path / "store" / name
        for name in (
            "img_emb/.img_emb_00002.npy.0123456789abcdef",
            "metadata/.metadata_00002.parquet.0123456789abcdef",
        )
    ]
    lines = tmp_path / "store" / "metadata" / "metadata_00002.parquet"
    for path in torn:
        path.write_bytes(b"half")
    for damage in (
        lines.unlink,
        lambda: lines.write_bytes(lines.read_bytes()[:99]),
        lambda: lines.write_bytes(lines.with_stem("metadata_00000").read_bytes()),
    ):
        damage()
        again = embedding.embed(
            source, tmp_path / "store", Encoder(Averages()), shard_items=20, resume=True
        )
        assert len(again.metadata()) == len(whole)
    assert not [path for path in torn if path.exists()]


def test_an_unfinished_store_says_so(photos, tmp_path):
    class Dies(Averages):
        def image_features(self, pixels):
            if len(self.batches) == 5:
                raise KeyboardInterrupt
            return super().image_features(pixels)

    with pytest.raises(KeyboardInterrupt):
        embedding.embed(
            embedding.read_source(photos),
            tmp_path / "store",
            Encoder(Dies(), batch_size=5),
            shard_items=10,
        )
    store = eq.open_store(tmp_path / "store")
    assert "unfinished" in repr(store)
    with pytest.raises(
        eq.EquipoiseError, match="is unfinished: 20 of 60 items; go on with `resume`"
    ):
        store.load()
    assert len(store.load(partial=True)) == len(store)


def test_one_run_at_a_time_in_a_folder(photos, tmp_path):
    with (
        alone_in(tmp_path / "store"),
        pytest.raises(eq.EquipoiseError, match="another run is writing to"),
    ):
        embedding.embed(embedding.read_source(photos), tmp_path / "store", Encoder(Averages()))


def test_nothing_readable(tmp_path):
    (tmp_path / "t.csv").write_text("path\nno.jpg\nnowhere.jpg\n")
    with pytest.raises(
        eq.EquipoiseError,
        match=r"none of the 2 items could be read; the first, no.jpg: there is no such file",
    ):
        embedding.embed(
            embedding.read_source(tmp_path / "t.csv"), tmp_path / "store", Encoder(Averages())
        )


def test_python_is_told_of_what_could_not_be_read(photos, model, tmp_path):
    with pytest.warns(
        UserWarning, match=r"3 of 60 items could not be read and are left out .a/005.jpg"
    ):
        store = eq.embed(photos, tmp_path / "store", model=model)
    assert len(store.skipped) == 3


def test_tables_are_carried_as_they_are(photos, tmp_path):
    (photos / "marks.csv").write_bytes(b"\xef\xbb\xbfpath,code\na/001.jpg,007\na/003.jpg,NA\n")
    store = embedding.embed(
        embedding.read_source(photos / "marks.csv"), tmp_path / "store", Encoder(Averages())
    )
    assert store.metadata()["code"].tolist() == ["007", "NA"]


def test_a_destination_that_holds_something_else(photos, tmp_path):
    source = embedding.read_source(photos)
    embedding.embed(source, tmp_path / "store", Encoder(Averages()))
    other = Averages()
    other.digest = lambda: "other"
    with pytest.raises(
        eq.EquipoiseError,
        match="holds rows of test:averages averages, and test:averages other was given",
    ):
        embedding.embed(source, tmp_path / "store", Encoder(other), resume=True)
    with pytest.raises(eq.EquipoiseError, match=r"holds another run \(what differs: dtype"):
        embedding.embed(
            source, tmp_path / "store", Encoder(Averages()), dtype="float16", resume=True
        )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("")
    with pytest.raises(eq.EquipoiseError, match="holds no store; pass a new folder"):
        embedding.embed(source, tmp_path / "full", Encoder(Averages()))


def test_a_space_refuses_a_store_of_another_encoder(photos, tmp_path, rng):
    store = embedding.embed(embedding.read_source(photos), tmp_path / "store", Encoder(Averages()))
    prototypes = {"a": rng.standard_normal(12), "b": rng.standard_normal(12)}
    mine = eq.AttributeSpace.from_prototypes(prototypes, encoder=Encoder(Averages()))
    mine.require_encoder(store)
    assert (
        eq.certify(store.load(), mine, encoder=store).summary()["embeddings_encoder"]
        == "test:averages averages"
    )
    other = Averages()
    other.id, other.digest = "test:other", lambda: "other"
    theirs = eq.AttributeSpace.from_prototypes(prototypes, encoder=Encoder(other))
    for refuse in (
        lambda: theirs.require_encoder(store),
        lambda: eq.certify(store.load(), theirs, encoder=store),
    ):
        with pytest.raises(
            eq.errors.EncoderMismatchError,
            match="fitted with test:other other, and test:averages averages was given",
        ):
            refuse()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "there is no file or folder"),
        (lambda folder: folder, "holds no pictures"),
        (
            lambda folder: _write(folder / "a.doc", "x"),
            "neither a folder nor a .tar, .txt, .csv or .parquet file",
        ),
        (
            lambda folder: _write(folder / "a.csv", "x,y\n1,2\n"),
            "no column of .* is called path or image_path",
        ),
        (lambda folder: _write(folder / "a.csv", "path,y\n,2\n"), "line 0 of .* has no path"),
        (
            lambda folder: _write(folder / "a.csv", "path,y\na.jpg,2,\n"),
            "rows with more fields than its header names",
        ),
        (lambda folder: _write(folder / "a.parquet", "x"), "cannot be read as .parquet"),
        (lambda folder: _write(folder / "a.txt", "\n"), "holds no texts"),
    ],
)
def test_sources_that_are_none(tmp_path, make, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        embedding.read_source(make(tmp_path))


def _write(path, text):
    path.write_text(text)
    return path


def test_a_damaged_store(photos, tmp_path):
    embedding.embed(embedding.read_source(photos), tmp_path / "store", Encoder(Averages()))
    shard = tmp_path / "store" / "img_emb" / "img_emb_00000.npy"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(eq.EquipoiseError, match=r"is not a whole .npy file"):
        eq.open_store(tmp_path / "store").load()
    (tmp_path / "store" / "equipoise.json").write_text("{}")
    with pytest.raises(eq.EquipoiseError, match="is not a store's manifest"):
        eq.open_store(tmp_path / "store")
    with pytest.raises(eq.EquipoiseError, match="holds no store"):
        eq.open_store(tmp_path)


def test_errors_of_the_command_line_are_messages(photos, tmp_path):
    out = equipoise(
        "embed", photos, "--out", tmp_path / "store", "--model", "hff:x", cache=tmp_path / "c"
    )
    assert out.returncode == 2
    assert "did you mean hf?" in out.stderr
    assert "Traceback" not in out.stderr


@pytest.mark.slow
def test_doctor(model, tmp_path):
    out = equipoise("doctor", "--model", model, "--json", cache=tmp_path / "c")
    assert out.returncode == 0, out.stderr
    document = json.loads(out.stdout)
    assert document["versions"]["equipoise"] == eq.__version__
    assert document["devices"][-1] == "cpu"
    assert document["encoder"]["dim"] == 16
    assert document["extras"]["transformers"] is None
    spoken = equipoise("doctor", "--model", model, cache=tmp_path / "c").stdout
    assert "16 dimensions" in " ".join(spoken.split())
    assert ('pip install "equipoise[generation]"' in spoken) == (
        document["versions"]["diffusers"] is None
    )
    assert "no encoder was tried" in equipoise("doctor", cache=tmp_path / "c").stdout
