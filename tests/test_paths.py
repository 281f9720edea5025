"""What may be read, written and printed of a path: inside a folder, through links, without secrets."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import _artefact as artefact
from equipoise import _paths as paths
from equipoise._stores import postgres
from equipoise._stores.locations import LocalPlace, RemotePlace, place
from equipoise.errors import ArtefactError, EquipoiseError, InputError
from tests.helpers.common import component, make_space

SECRET = "hunter2zz"


# --- What a file names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../x.png", "/etc/passwd", "a/../../x.png", "", ".", "..", "a\0b", "\ud800.png", "out/x.png"],
)
def test_what_a_file_names_stays_inside_its_folder(tmp_path, name):
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "x.png").write_bytes(b"")
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(InputError, match="not inside"):
        paths.inside(folder, name)


def test_links_that_stay_inside_are_followed_and_the_folder_may_be_one(tmp_path):
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "a.png").write_bytes(b"")
    (folder / "b.png").symlink_to("a.png")
    assert paths.inside(link, "b.png") == folder / "a.png"
    assert paths.inside(link, "new/c.png") == folder / "new" / "c.png"


# --- What is read --------------------------------------------------------------------------------


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            paths.open_regular(path)
    with pytest.raises(OSError, match="FIFO"):
        artefact.sha256(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to("file")
    with paths.open_regular(tmp_path / "link") as file:
        assert file.read() == b"data"


# --- What is written -----------------------------------------------------------------------------


def write_whole(path):
    artefact.write_atomically(path, b"new")


def write_piece(path):
    with LocalPlace(path.parent).writing(path.name) as file:
        file.write(b"new")


WRITERS = {
    "artefact": write_whole,
    "store": write_piece,
    "lines": lambda p: paths.add_to(p, b"new"),
}


def make_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except (OSError, AttributeError) as error:
        pytest.skip(f"a device node cannot be made here: {error}")


def identity(path):
    """Return what a writer would change; following a link changes the time of its last reading."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino, found.st_mode, found.st_mtime_ns


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    "make", [os.mkfifo, make_device, os.mkdir], ids=["FIFO", "device", "folder"]
)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "through a link"])
def test_what_is_no_file_is_not_replaced(tmp_path, writer, make, linked):
    make(tmp_path / "node")
    path = tmp_path / "node"
    if linked:
        path = tmp_path / "link"
        path.symlink_to("node")
    before = identity(path)
    with pytest.raises(ArtefactError, match=r"is a \w+; pass the name of a file"):
        writer(path)
    assert identity(path) == before
    assert sorted(os.listdir(tmp_path)) == (["link", "node"] if linked else ["node"])


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_link_stays_a_link_and_leads_to_what_was_written(tmp_path, writer, there):
    (tmp_path / "far").mkdir()
    if there:
        (tmp_path / "far" / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("far/file")
    writer(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path / "far") == ["file"]


def test_a_link_to_itself_is_an_error_in_words(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ArtefactError, match="cannot be written"):
        write_whole(tmp_path / "loop")


def test_fit_leaves_a_device_node_alone(tmp_path):
    make_device(tmp_path / "null")
    command = [sys.executable, "-m", "equipoise", "fit", "--model", "mini", "--attribute", "gender"]
    command += ["--book", "occupations-gender", "--out", str(tmp_path / "null")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is a device; pass the name of a file" in done.stderr
    assert stat.S_ISCHR(os.stat(tmp_path / "null").st_mode)


def test_apply_replaces_nothing_that_is_no_file_of_its_own(tmp_path, rng):
    import equipoise as eq

    np.save(tmp_path / "in.npy", rng.standard_normal((4, 8)).astype(np.float32))
    os.mkfifo(tmp_path / "fifo.npy")
    (tmp_path / "link.npy").symlink_to("elsewhere.npy")
    for name in ("fifo.npy", "link.npy"):
        with pytest.raises(EquipoiseError, match="exists and holds something else"):
            eq.apply(tmp_path / "in.npy", tmp_path / name, space=make_space(rng, 8))
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo.npy").st_mode)
    assert (tmp_path / "link.npy").is_symlink() and not (tmp_path / "elsewhere.npy").exists()


def test_a_temporary_file_that_somebody_else_made_is_refused(tmp_path, rng):
    import equipoise as eq

    np.save(tmp_path / "in.npy", rng.standard_normal((4, 8)).astype(np.float32))
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / ".out.npy.part").symlink_to("precious")
    with pytest.raises(EquipoiseError, match="cannot be written"):
        eq.apply(tmp_path / "in.npy", tmp_path / "out.npy", space=make_space(rng, 8))
    assert (tmp_path / "precious").read_bytes() == b"precious"


# --- What is printed -----------------------------------------------------------------------------

MALFORMED = {
    "a password alone": f"postgresql://:{SECRET}@h.invalid/d#t.c",
    "an @ in the password": f"postgresql://u:x@{SECRET}@h.invalid/d#t.c",
    "a slash in the password": f"postgresql://u:x/{SECRET}@h.invalid/d#t.c",
    "a hash in the password": f"postgresql://u:x#{SECRET}@h.invalid/d#t.c",
    "a question mark in the password": f"postgresql://u:x?{SECRET}@h.invalid/d#t.c",
    "a query in the password": f"postgresql://u:x?a={SECRET}@h.invalid/d#t.c",
    "a password in the query": f"postgresql://h.invalid/d?password={SECRET}#t.c",
    "an unknown option": f"postgresql://h.invalid/d?pasword={SECRET}#t.c",
    "no host": f"postgresql://u:{SECRET}#t.c",
    "a missing bracket": f"postgresql://u:{SECRET}@[::1/d#t.c",
    "a bad port": f"postgresql://u:{SECRET}@h.invalid:bad/d#t.c",
    "a bad percent sign": f"postgresql://u:{SECRET}%zz@h.invalid/d#t.c",
    "a zero byte": f"postgresql://u:{SECRET}%00@h.invalid/d#t.c",
    "a space": f"postgresql://u:x {SECRET}@h.invalid/d#t.c",
    "a new line": f"postgresql://u:x\n{SECRET}@h.invalid/d#t.c",
    "no column": f"postgresql://u:{SECRET}@h.invalid/d",
    "no server": f"postgresql://u:{SECRET}@h.invalid/d#t.c",
    "an unknown scheme": f"postgresq://u:{SECRET}@h.invalid/d#t.c",
    "one slash": f"postgresql:/u:{SECRET}@h.invalid/d#t.c",
    "no colon": f"postgresql//u:{SECRET}@h.invalid/d#t.c",
    "no scheme": f"u:{SECRET}@h.invalid/d#t.c",
    "keywords": f"host=h.invalid password={SECRET} dbname=d",
    "a secret of S3": f"s3://key:{SECRET}@bucket/rows.npy",
    "a chain of file systems": f"simplecache::s3://key:{SECRET}@bucket/rows.npy",
    "a signature": f"https://h.invalid/rows.npy?sig={SECRET}",
}


@pytest.mark.parametrize("source", MALFORMED.values(), ids=MALFORMED)
def test_no_error_of_apply_holds_a_password(source, tmp_path, rng, monkeypatch):
    import equipoise as eq

    for module in ("psycopg", "pgvector", "fsspec"):
        component(module)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EquipoiseError) as raised:
        eq.apply(source, "debiased", space=make_space(rng, 8))
    assert SECRET not in str(raised.value) and SECRET not in repr(raised.value)
    with pytest.raises(EquipoiseError) as raised:
        eq.apply(tmp_path / "missing.npy", source, space=make_space(rng, 8))
    assert SECRET not in str(raised.value)


@given(st.text("ab:/@?#%&= []", max_size=12), st.text("ab:/@?#%&= []", max_size=12))
def test_no_shape_of_an_address_prints_its_password(before, after):
    for scheme in ("postgresql://", "s3://", "postgresql:/"):
        shown = paths.without_secrets(f"{scheme}u:{before}{SECRET}{after}@host/d")
        assert SECRET not in shown


def test_an_address_without_secrets_is_shown_as_it_is():
    for address in (
        "s3://bucket/a/b.npy",
        "memory://x",
        "/data/a b.npy",
        "postgresql://h:5432/d#t.c",
    ):
        assert paths.without_secrets(address) == address


def test_manifest_journal_and_report_of_a_url_hold_no_secret(tmp_path, rng):
    import equipoise as eq

    fsspec = component("fsspec")
    with fsspec.open("memory://u:hunter2zz@in/rows.npy", "wb") as file:
        np.save(file, rng.standard_normal((4, 8)).astype(np.float32))
    source, out = f"memory://u:{SECRET}@in/rows.npy", tmp_path / "out"
    report = eq.apply(source, out, space=make_space(rng, 8))
    written = "".join(path.read_text("latin-1") for path in out.rglob("*") if path.is_file())
    assert "***@in" in written and SECRET not in written
    back = eq.apply(out, f"memory://u:{SECRET}@back", space=make_space(rng, 8))
    assert SECRET not in str(report.to_json()) and SECRET not in str(back.to_json())
    there = place(source)
    assert isinstance(there, RemotePlace) and SECRET not in str(there)
    assert SECRET not in repr(postgres.Column(source, "s", "t", "c", "k", "int", "vector", 8))
