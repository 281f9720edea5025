"""The contract that every encoder keeps: order, unit rows, bad input, decoding in processes, the cache, the registry."""

from __future__ import annotations

import io
import os
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.encoders import EmbeddingCache, Encoder
from equipoise.encoders import _decoding as decoding
from equipoise.encoders._batching import ShrinkingBatches
from equipoise.encoders._preprocess import Preprocess
from equipoise.encoders._registry import schemes
from tests.helpers.averages import Averages
from tests.helpers.common import ROOT, unit
from tests.helpers.crashing import Crashing
from tests.helpers.loaded_modules import LoadedModules


def rows_of(pictures):
    return unit(
        np.array([Averages().image_features(Preprocess((8, 8))(p)[None])[0] for p in pictures])
    )


@pytest.fixture
def pictures(rng):
    return [
        Image.fromarray(rng.integers(0, 256, (20, 10 + i % 7, 3), dtype=np.uint8))
        for i in range(150)
    ]


@pytest.fixture
def files(tmp_path, pictures):
    paths = [tmp_path / f"{i:04d}.png" for i in range(len(pictures))]
    for path, picture in zip(paths, pictures, strict=True):
        picture.save(path)
    return paths


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_order_is_kept_and_the_unreadable_are_named(files, pictures, workers):
    for i in (0, 77, 149):
        files[i].write_bytes(b"broken")
    encoder = Encoder(Averages(), workers=workers)
    with pytest.warns(
        UserWarning,
        match=r"3 of 150 images could not be read; their rows are NaN \(.*0000.png: not an image",
    ):
        rows = encoder.encode_images(files)
    good = np.isfinite(rows).all(1)
    assert np.flatnonzero(~good).tolist() == [0, 77, 149]
    np.testing.assert_allclose(rows[good], rows_of(pictures)[good], atol=1e-6)
    assert [item.index for item in encoder.report.unreadable] == [0, 77, 149]
    assert encoder.report.unreadable[1].name == str(files[77])
    assert encoder.report.items == 150


@pytest.mark.slow
def test_ten_thousand_files_with_twenty_broken_ones_in_bounded_memory(tmp_path, rng):
    """Order kept, the twenty listed; and four times the files take no more memory but for their rows."""
    broken = set(rng.choice(10_000, 20, replace=False).tolist())
    for i in range(10_000):
        path = tmp_path / f"{i:05d}.jpg"
        Image.new("RGB", (72, 72), (i % 256, i // 256, 128)).save(path, quality=95)
        if i in broken:
            path.write_bytes(path.read_bytes()[:300])
    script = textwrap.dedent("""
        import resource, sys, warnings
        from pathlib import Path
        import numpy as np
        from equipoise.encoders import Encoder
        from tests.helpers.averages import Averages
        warnings.simplefilter("ignore")
        encoder = Encoder(Averages(), workers=2)
        rows = encoder.encode_images(sorted(Path(sys.argv[1]).glob("*.jpg"))[: int(sys.argv[2])])
        np.save(sys.argv[3], rows)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *(item.index for item in encoder.report.unreadable))
    """)
    peaks = {}
    for count in (2500, 10_000):
        command = [sys.executable, "-c", script, tmp_path, str(count), tmp_path / "rows.npy"]
        out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        peak, *unreadable = map(int, out.stdout.split())
        peaks[count] = peak
    assert set(unreadable) == broken
    rows = np.load(tmp_path / "rows.npy")
    assert set(np.flatnonzero(np.isnan(rows[:, 0]))) == broken
    colours = np.array([[i % 256, i // 256, 128] for i in range(10_000)]) + 1.0
    good = [i for i in range(10_000) if i not in broken]
    np.testing.assert_allclose(
        rows[good], unit(np.tile(colours, 4))[good], atol=0.03
    )  # JPEG keeps a plain colour to a few steps
    assert (
        peaks[10_000] - peaks[2500] < 20_000
    )  # KiB; 7,500 decoded pictures alone would be 117,000


def test_every_kind_of_source_in_one_iterator(files, pictures):
    sources = (str(files[0]), files[1], files[2].read_bytes(), pictures[3], np.asarray(pictures[4]))
    rows = Encoder(Averages()).encode_images(iter(sources))
    np.testing.assert_allclose(rows, rows_of(pictures[:5]), atol=1e-6)


def test_an_array_of_images(rng):
    batch = rng.integers(0, 256, (3, 9, 9, 3), dtype=np.uint8)
    np.testing.assert_allclose(
        Encoder(Averages()).encode_images(batch),
        rows_of([Image.fromarray(a) for a in batch]),
        atol=1e-6,
    )


def test_an_iterator_is_read_only_a_little_ahead(pictures):
    taken = []

    def endless():
        i = 0
        while True:
            taken.append(i)
            yield pictures[i % len(pictures)]
            i += 1

    rows = Encoder(Averages(), workers=2, batch_size=8).iter_images(endless())
    for _ in range(40):
        next(rows)
    assert len(taken) < 40 + 8 + (2 * decoding.AHEAD + 2) * decoding.CHUNK


def test_the_first_unreadable_can_be_an_error(files):
    files[3].write_bytes(b"")
    with pytest.raises(eq.EquipoiseError, match=r"0003.png: not an image"):
        Encoder(Averages()).encode_images(files[:5], on_unreadable="raise")


def test_nothing_readable_is_nan_rows_too(tmp_path):
    with pytest.warns(
        UserWarning, match=r"2 of 2 images could not be read.*a.jpg: there is no such file"
    ):
        assert np.isnan(
            Encoder(Averages()).encode_images([tmp_path / "a.jpg", tmp_path / "b.jpg"])
        ).all()


def test_a_truncated_image_that_was_opened_by_the_caller(files, pictures):
    pictures[0].resize((300, 300)).save(files[1].with_suffix(".jpg"))
    data = files[1].with_suffix(".jpg").read_bytes()
    with pytest.warns(UserWarning, match="1 of 2 images could not be read.*image 1: damaged"):
        rows = Encoder(Averages()).encode_images(
            [pictures[0], Image.open(io.BytesIO(data[: len(data) // 2]))]
        )
    assert np.isnan(rows[1]).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_starts_its_own_workers(tmp_path, files):
    script = tmp_path / "fork.py"
    script.write_text(
        textwrap.dedent(f"""
        import os
        import numpy as np
        from pathlib import Path
        from equipoise.encoders._decoding import decode
        files = sorted(Path({str(tmp_path)!r}).glob("*.png"))
        assert len(list(decode(files, np.asarray, 1))) == {len(files)}
        child = os.fork()
        if child == 0:
            assert len(list(decode(files, np.asarray, 1))) == {len(files)}
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """)
    )
    subprocess.run([sys.executable, "-W", "ignore", script], check=True, timeout=120)


def test_what_is_cached_starts_no_workers_and_is_given_at_once(tmp_path, files, monkeypatch):
    cache = EmbeddingCache(tmp_path / "c.sqlite")
    rows = Encoder(Averages(), workers=0, cache=cache).encode_images(files)
    monkeypatch.setattr(decoding, "_pool", lambda workers: pytest.fail("workers were started"))
    taken = []
    again = Encoder(Averages(), workers=2, cache=cache).iter_images(
        taken.append(path) or path for path in files
    )
    np.testing.assert_array_equal(next(again), rows[0])
    assert len(taken) < len(files)
    assert len(list(again)) == len(files) - 1


def test_a_decoder_that_crashes_costs_one_picture(files):
    """The worker that meets the file dies, as a fault in a C library would kill it."""
    prepare = Crashing(str(files[100]))
    results = list(decoding.decode(files, prepare, 2))
    crashed = [i for i, result in enumerate(results) if isinstance(result, Exception)]
    assert crashed == [100]
    assert "crashed the decoder" in str(results[100])
    assert all(isinstance(result, np.ndarray) for i, result in enumerate(results) if i != 100)


def test_a_script_without_a_main_guard_may_use_workers(tmp_path, files):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import numpy as np
        from pathlib import Path
        from equipoise.encoders._decoding import decode
        print("started")
        files = sorted(Path({str(tmp_path)!r}).glob("*.png"))
        print(sum(r.shape[2] for r in decode(files, np.asarray, 2)))
        """)
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["started", str(3 * len(files))]


def test_texts_are_batched_by_length_and_come_back_in_order(rng):
    texts = [" ".join(["word"] * int(n)) + f" {i}" for i, n in enumerate(rng.integers(1, 5, 100))]
    encoder = Encoder(Averages(), batch_size=10)
    np.testing.assert_allclose(
        encoder.encode_text(texts), unit(Averages().text_features(texts)), atol=1e-6
    )
    assert encoder.report.truncated == 0
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 6 tokens"):
        encoder.encode_text(["one two three four five six seven", "one"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a doctor", "pass a list of texts"),
        (["a", 3], "text 1 is int"),
        (["a", ""], "text 1 is empty"),
        ([" \n"], "text 0 is empty"),
    ],
)
def test_texts_that_are_none(texts, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        Encoder(Averages()).encode_text(texts)


def test_a_text_the_model_knows_nothing_of():
    class Deaf(Averages):
        def text_features(self, texts):
            return np.array([np.zeros(12) if "🙂" in text else np.ones(12) for text in texts])

    with pytest.raises(
        eq.EquipoiseError,
        match=r"text 1 .*has no embedding: test:averages knows none of its words",
    ):
        Encoder(Deaf()).encode_text(["a", "🙂"])


def test_nothing_in_nothing_out():
    encoder = Encoder(Averages())
    assert encoder.encode_text([]).shape == (0, 12)
    assert encoder.encode_images([]).shape == (0, 12)


@pytest.mark.parametrize("images", ["a.jpg", b"abc", Image.new("RGB", (2, 2)), np.zeros((4, 4, 3))])
def test_one_image_is_not_a_list(images):
    with pytest.raises(eq.EquipoiseError, match="pass a list of images"):
        Encoder(Averages()).encode_images(images)


def test_text_only():
    class TextOnly(Averages):
        modalities = ("text",)

    with pytest.raises(
        eq.EquipoiseError, match="test:averages has no image tower; it encodes text only"
    ):
        Encoder(TextOnly()).encode_images([])


def test_batches_shrink_when_memory_ends():
    seen = []

    def small_device(items):
        if len(items) > 20:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        seen.append(len(items))
        return np.zeros((len(items), 1))

    batches = ShrinkingBatches()
    assert len(batches.run(small_device, list(range(64)))) == 64
    assert batches.size == 16
    assert seen == [16] * 4
    assert ShrinkingBatches(5).size == 5
    with pytest.raises(eq.EquipoiseError, match="batch_size=0 is not legal"):
        ShrinkingBatches(0)
    with pytest.raises(RuntimeError, match="something else"):
        ShrinkingBatches(4).run(
            lambda items: (_ for _ in ()).throw(RuntimeError("something else")), [1, 2]
        )


def test_cache_gives_the_same_rows_without_the_model(tmp_path, files, pictures):
    files[5].write_bytes(b"broken")
    towers = Averages()
    encoder = Encoder(towers, cache=EmbeddingCache(tmp_path / "c.sqlite"))
    texts = [f"text {i}" for i in range(30)]
    first = encoder.encode_text(texts)
    with pytest.warns(UserWarning, match="1 of 150"):
        image_rows = encoder.encode_images(files)
    towers.batches.clear()
    again = Encoder(towers, cache=EmbeddingCache(tmp_path / "c.sqlite"))
    np.testing.assert_array_equal(again.encode_text(texts), first)
    assert again.report.from_cache == 30
    with pytest.warns(UserWarning, match="1 of 150"):
        np.testing.assert_array_equal(again.encode_images(files), image_rows)
    assert again.report.from_cache == 149
    assert towers.batches == []
    # by content and not by name
    files[6].write_bytes(files[7].read_bytes())
    np.testing.assert_array_equal(again.encode_images([files[6]])[0], image_rows[7])
    assert again.report.from_cache == 1


def test_cache_keeps_encoders_apart(tmp_path):
    class Other(Averages):
        def digest(self):
            return "other"

        def text_features(self, texts):
            return -super().text_features(texts)

    cache = EmbeddingCache(tmp_path / "c.sqlite")
    one, other = (
        Encoder(towers, cache=cache).encode_text(["a"]) for towers in (Averages(), Other())
    )
    np.testing.assert_allclose(one, -other)
    assert {usage.rows for usage in cache.usage()} == {1}
    with pytest.raises(eq.EquipoiseError, match="the fingerprint is empty"):
        cache.clear("")
    assert cache.clear("other") == 1
    assert [usage.encoder for usage in cache.usage()] == ["averages float32 cpu in batches "]


def test_cache_stays_under_its_limit_and_drops_the_longest_unused(tmp_path, rng):
    cache = EmbeddingCache(tmp_path / "c.sqlite", limit=1 << 20)
    for start in range(0, 2000, 100):
        cache.put(
            "e",
            {
                f"{i:016d}".encode(): rng.standard_normal(256).astype(np.float32)
                for i in range(start, start + 100)
            },
        )
        assert cache.size() <= 1 << 20
    assert len(cache.get("e", [f"{i:016d}".encode() for i in range(1900, 2000)], 256)) == 100
    assert not cache.get("e", [f"{i:016d}".encode() for i in range(100)], 256)
    assert (tmp_path / "c.sqlite").stat().st_size <= 2 << 20


def test_cache_under_concurrent_runs(tmp_path):
    """Four processes write and read overlapping rows of one new file."""
    script = textwrap.dedent("""
        import sys, numpy as np
        from equipoise.encoders import EmbeddingCache
        cache, seed = EmbeddingCache(sys.argv[1]), int(sys.argv[2])
        for start in range(0, 400, 20):
            rows = {f"{i:04d}".encode(): np.full(8, i, np.float32) for i in range(start + 100 * seed, start + 100 * seed + 20)}
            cache.put("e", rows)
            found = cache.get("e", list(rows), 8)
            assert all((found[key] == rows[key]).all() for key in rows)
    """)
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "c.sqlite"), str(seed)])
        for seed in range(4)
    ]
    assert [run.wait() for run in runs] == [0] * 4
    assert EmbeddingCache(tmp_path / "c.sqlite").usage()[0].rows == 700


TEXTS_KEPT = [f"text {i}" for i in range(60)]


def kept_texts(path):
    """A cache that holds the rows of some texts, closed."""
    rows = Encoder(Averages(), cache=EmbeddingCache(path)).encode_text(TEXTS_KEPT)
    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return rows


@pytest.mark.parametrize(
    "damage",
    [
        "row = randomblob(length(row))",
        "row = zeroblob(length(row))",
        "row = substr(row, 1, 20)",
        "row = cast(row || x'00' as blob)",
        "row = null",
        "row = 7",
        "row = 'text'",
        "row = (select row from embeddings order by key desc limit 1)",
    ],
)
def test_a_damaged_row_is_dropped_counted_and_computed_again(tmp_path, damage):
    path = tmp_path / "c.sqlite"
    rows = kept_texts(path)
    with sqlite3.connect(path) as database:
        database.execute(
            f"update embeddings set {damage} where key in (select key from embeddings limit 9)"
        )
    encoder = Encoder(Averages(), cache=EmbeddingCache(path))
    with pytest.warns(UserWarning, match="9 rows in .*c.sqlite were damaged; they are computed"):
        np.testing.assert_array_equal(encoder.encode_text(TEXTS_KEPT), rows)
    assert (encoder.report.damaged, encoder.report.from_cache) == (9, 51)
    np.testing.assert_array_equal(encoder.encode_text(TEXTS_KEPT), rows)
    assert (encoder.report.damaged, encoder.report.from_cache) == (0, 60)


def test_a_row_with_a_strange_time_of_use_is_a_row(tmp_path):
    path = tmp_path / "c.sqlite"
    rows = kept_texts(path)
    with sqlite3.connect(path) as database:
        database.execute("update embeddings set used = 'never'")
    np.testing.assert_array_equal(
        Encoder(Averages(), cache=EmbeddingCache(path)).encode_text(TEXTS_KEPT), rows
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_byte_that_flips_in_the_cache_changes_a_row(tmp_path, rng):
    """Wherever the file is damaged, rows are right: out of it, computed again, or without it."""
    rows = kept_texts(tmp_path / "whole.sqlite")
    whole = (tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "c.sqlite"
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 40):
            damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        encoder = Encoder(Averages(), cache=EmbeddingCache(path))
        np.testing.assert_array_equal(encoder.encode_text(TEXTS_KEPT), rows)
        for name in ("c.sqlite-wal", "c.sqlite-shm"):
            (tmp_path / name).unlink(missing_ok=True)


def test_a_cache_without_checksums_still_opens(tmp_path):
    """Rows of an older equipoise are not trusted: they are computed again."""
    path = tmp_path / "c.sqlite"
    rows = kept_texts(path)
    with sqlite3.connect(path) as database:
        database.execute("update embeddings set row = substr(row, 1, length(row) - 8)")
    encoder = Encoder(Averages(), cache=EmbeddingCache(path))
    with pytest.warns(UserWarning, match="60 rows"):
        np.testing.assert_array_equal(encoder.encode_text(TEXTS_KEPT), rows)


def test_a_file_that_is_no_cache_is_done_without(tmp_path):
    (tmp_path / "c.sqlite").write_bytes(b"something else entirely" * 100)
    with pytest.warns(
        UserWarning,
        match="going on without a cache: .*cannot be used .*remove it, set EQUIPOISE_CACHE",
    ):
        rows = Encoder(Averages(), cache=EmbeddingCache(tmp_path / "c.sqlite")).encode_text(["a"])
    np.testing.assert_array_equal(rows, Encoder(Averages()).encode_text(["a"]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "hff:openai/clip",
            r"'hff:openai/clip' starts with no known scheme; legal are hf:, open_clip:, st:, onnx:, heads:, mini.*did you mean hf\?",
        ),
        ("openai/clip-vit-base-patch32", "did you mean hf:openai/clip-vit-base-patch32"),
        ("hf:", "names no model; write hf:NAME or hf:FOLDER"),
        (7, "pass a str, such as"),
        ("onnx:/nowhere", "is not a folder with encoder.json"),
    ],
)
def test_specs_that_name_nothing(spec, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.load_encoder(spec)


def test_mini_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "equipoise_mini", None)
    with pytest.raises(eq.EquipoiseError, match=r'pip install "equipoise\[mini\]"'):
        eq.load_encoder("mini")


def test_a_missing_extra_prints_the_pip_line():
    code = "import sys; sys.modules['transformers'] = None\nimport equipoise as eq\neq.load_encoder('hf:x')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        'MissingExtraError: an hf: encoder needs transformers with torch, which is not installed. Type: pip install "equipoise[transformers]"'
        in out.stderr
    )


def test_another_package_joins_through_an_entry_point(tmp_path, monkeypatch):
    package = tmp_path / "colours"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from tests.helpers.averages import Averages\n\n\ndef load(name, **options):\n    towers = Averages()\n    towers.id = f'colours:{name}'\n    return towers\n"
    )
    info = tmp_path / "colours-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[equipoise.encoders]\ncolours = colours:load\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    encoder = eq.load_encoder("colours:bright", batch_size=4)
    assert encoder.id == "colours:bright"
    assert encoder.encode_text(["a"]).shape == (1, 12)
    assert "colours" in schemes()


def test_progress_is_silent_off_a_terminal_and_counts_on_one(capsys, monkeypatch):
    from equipoise import _progress as module

    monkeypatch.setattr(module, "DELAY", 0.0)
    Encoder(Averages()).encode_text(["a"] * 50)
    assert capsys.readouterr().err == ""
    Encoder(Averages(), show_progress=True).encode_text(["a"] * 50)
    shown = capsys.readouterr().err
    assert "50/50" in shown
    assert "/s" in shown


def test_workers_import_no_framework(files):
    """What a worker process loads is Pillow and numpy."""
    decoding._pool.cache_clear()  # a worker kept from another test has what that test sent it
    results = list(decoding.decode(files, LoadedModules(), 1))
    loaded = results[-1].tobytes().decode().split()
    assert "numpy" in loaded
    assert not {"torch", "transformers", "pandas", "sklearn"} & set(loaded)


def test_a_jpeg_of_every_mode_in_one_go(rng, tmp_path):
    pixels = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    sources = []
    for mode, kind in (
        ("RGB", "JPEG"),
        ("L", "JPEG"),
        ("CMYK", "JPEG"),
        ("P", "GIF"),
        ("RGBA", "PNG"),
        ("I;16", "PNG"),
        ("1", "PNG"),
    ):
        file = io.BytesIO()
        (
            pixels.convert("L").convert("I").point(lambda v: v * 257).convert("I;16")
            if mode == "I;16"
            else pixels.convert(mode)
        ).save(file, kind)
        sources.append(file.getvalue())
    rows = Encoder(Averages()).encode_images(sources)
    assert rows.shape == (7, 12)
    np.testing.assert_allclose(rows[1], rows[5], atol=0.01)  # grey in 8 bits and in 16
