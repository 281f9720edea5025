"""The page's addresses: who may come in, what is refused, what is saved, a fuzz, and a kill. Real servers on loopback."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import equipoise as eq
from equipoise._explore.question import MOST_PLACES
from equipoise._explore.thumbnails import Thumbnails
from equipoise.errors import InputError
from tests.helpers.common import component, embedded_model, tree, typed
from tests.helpers.exploring import ExploreClient, exploring, write_people

SEARCH = {"text": "a photo of a doctor", "attribute": "gender"}
POSTS = ("/api/search", "/api/texts", "/api/classes", "/api/page", "/api/table", "/api/prompt")
GETS = ("/api/about", "/picture/0")


@pytest.fixture(autouse=True, scope="module")
def extra():
    component("starlette")
    component("uvicorn")
    embedded_model()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("people") / "photos"
    write_people(place)
    return place


@pytest.fixture(scope="module")
def client(folder):
    with exploring(folder) as (_, found):
        yield found


# --- Coming in ------------------------------------------------------------------------------------


def test_without_the_key_nothing_is_told(client):
    for key in ("", "x", client.key + "x", "\xff"):
        for path in GETS:
            assert client.send("GET", path, Authorization=f"Bearer {key}")[0] == 401
        for path in POSTS:
            status, _, data = client.send(
                "POST", path, json.dumps(SEARCH), Authorization=f"Bearer {key}"
            )
            assert status == 401 and b"link" in data
        assert client.picture(0, key=f"{key}x".encode("latin-1").hex())[0] == 401
    assert client.send("GET", "/")[0] == 200  # the page itself holds nothing of the collection


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "example.org"},
        {"Host": "127.0.0.1.example.org"},
    ],
)
def test_requests_from_other_sites_are_refused(client, headers):
    assert client.send("POST", "/api/search", json.dumps(SEARCH), **headers)[0] == 403
    assert client.send("GET", "/api/about", **headers)[0] == 403
    assert client.send("GET", f"/picture/0?key={client.key}", **headers)[0] == 403


@pytest.mark.parametrize("path", ["/", "/static/page.js", "/api/about", "/picture/0", "/nowhere"])
def test_every_answer_forbids_what_the_page_does_not_need(client, path):
    status, headers, _ = client.send("GET", path)
    assert status < 500
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer" and "server" not in headers
    assert "Access-Control-Allow-Origin" not in headers


def test_a_notebook_may_frame_the_page_and_a_web_site_may_not(client):
    policy = client.send("GET", "/")[1]["Content-Security-Policy"]
    framed = policy.partition("frame-ancestors ")[2].split()
    assert framed == ["http://127.0.0.1:*", "http://localhost:*", "vscode-webview:"]


def test_uploads_are_not_taken(client):
    assert client.send("POST", "/api/search", b"x" * 100_000)[0] == 413
    assert client.send("POST", "/picture/0", b"{}")[0] == 405
    assert client.send("PUT", "/static/page.js", b"{}")[0] == 405
    form = {"Content_Type": "multipart/form-data; boundary=x"}
    assert client.send("POST", "/api/search", b"--x", **form)[0] == 415


# --- Pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "-1",
        "300",
        "9" * 12,
        "9" * 40,
        "0x1",
        "..%2f..%2fetc%2fpasswd",
        "..",
        "%00",
        "1.0",
        "%EF%BC%90",
    ],
)
def test_pictures_are_asked_for_by_their_place_alone(client, place):
    assert client.picture(place)[0] == 404


def test_a_picture_is_a_new_jpeg_of_the_pixels_alone(client):
    status, headers, small = client.picture(7)
    assert status == 200 and headers["Content-Type"] == "image/jpeg"
    image = Image.open(io.BytesIO(small))
    assert image.format == "JPEG" and max(image.size) <= 240
    status, _, large = client.picture(7, size="large")
    assert status == 200 and Image.open(io.BytesIO(large)).size >= image.size


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path):
    place = tmp_path / "photos"
    write_people(place, 40)
    outside = tmp_path / "outside.png"
    Image.new("RGB", (300, 300), "red").save(outside)
    with exploring(place, attribute="gender") as (_, client):
        about = json.loads(client.send("GET", "/api/about")[2])
        first = client.parts("/api/search", SEARCH | {"k": 40})[0]["images"][0]
        file = place / first["name"]
        file.unlink()
        file.symlink_to(outside)  # after the page was started
        assert about["images"] == 40
        assert client.picture(first["id"])[0] == 410
        file.unlink()
        assert client.picture(first["id"], size="large")[0] == 410


def _png(colour):
    data = io.BytesIO()
    Image.new("RGB", (64, 64), colour).save(data, "PNG")
    return data.getvalue()


def test_small_pictures_are_made_once_and_kept_within_bounds(tmp_path, monkeypatch):
    data = io.BytesIO()
    Image.new("RGB", (900, 600), "navy").save(data, "PNG")
    kept = Thumbnails(tmp_path / "kept")
    first = kept.small(data.getvalue())
    monkeypatch.setattr("equipoise._explore.thumbnails.jpeg", lambda *_: pytest.fail("made twice"))
    assert kept.small(data.getvalue()) == first
    monkeypatch.undo()
    for shade in range(40):
        other = io.BytesIO()
        Image.new("RGB", (64, 64), (shade, 0, 0)).save(other, "PNG")
        kept.small(other.getvalue())
    size = sum(len(file) for file in tree(tmp_path / "kept").values())
    torn = tmp_path / "kept" / "ab" / f".x.jpg.{'0' * 16}"
    torn.parent.mkdir(exist_ok=True)
    torn.write_bytes(b"half")
    Thumbnails(tmp_path / "kept", limit=size // 2)
    left = sum(len(file) for file in tree(tmp_path / "kept").values())
    assert 0 < left <= size // 2


def test_the_cache_lists_small_pictures_and_clears_them(tmp_path, monkeypatch, capsys):
    """Alone, with all else, or not at all where one encoder's embeddings are meant."""
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path))

    def cache(*arguments):
        assert typed("cache", *arguments) == 0
        return capsys.readouterr().out

    kept = Thumbnails()
    for part in (["--thumbnails"], []):
        made = len(kept.small(_png("navy"))) + len(kept.small(_png("white")))
        told = json.loads(cache("--json"))["thumbnails"]
        assert told == {"path": str(tmp_path / "thumbnails"), "pictures": 2, "bytes": made}
        assert "2 small pictures of explore" in cache()
        cache("clear", "--encoder", "mini")
        assert "2 small pictures removed" in cache("clear", *part)
        assert json.loads(cache("--json"))["thumbnails"]["pictures"] == 0
    assert typed("cache", "clear", "--thumbnails", "--encoder", "mini")
    assert "pass one of the two" in capsys.readouterr().err


def test_a_file_that_changed_gets_a_new_small_picture(tmp_path):
    kept = Thumbnails(tmp_path / "kept")
    path = tmp_path / "a.png"
    Image.new("RGB", (64, 64), "white").save(path)
    before = kept.small(path)
    Image.new("RGB", (64, 64), "black").save(path)
    os.utime(path, ns=(1, 1))
    assert kept.small(path) != before


# --- Answers --------------------------------------------------------------------------------------


def test_the_first_row_comes_before_the_second_is_computed(folder):
    """The second row waits until the first has been read by the client."""
    with exploring(folder, attribute="gender") as (_, client):
        searcher = _explorer_of(client).searcher
        seen = threading.Event()
        after = searcher.after
        searcher.after = lambda question: seen.wait(60) and after(question)
        import http.client

        connection = http.client.HTTPConnection(client.netloc, timeout=60)
        headers = {"Authorization": f"Bearer {client.key}", "Content-Type": "application/json"}
        connection.request("POST", "/api/search", json.dumps(SEARCH), headers)
        response = connection.getresponse()
        first = json.loads(response.readline())
        assert first["part"] == "before" and first["images"] and not seen.is_set()
        seen.set()
        assert json.loads(response.readline())["part"] == "after"
        connection.close()


def _explorer_of(client):
    """The explorer that a server of this process answers from."""
    import gc

    from equipoise._explore.site import _ExploreSite

    key = client.key.encode()
    return next(
        o for o in gc.get_objects() if isinstance(o, _ExploreSite) and o._key == key
    ).explorer


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": ""},
        {"text": " "},
        {"text": 3},
        {"text": "x" * 301},
        {"text": "a\x00b"},
        {"text": "\ud800"},
        SEARCH | {"attribute": "height"},
        SEARCH | {"method": "leace"},
        SEARCH | {"k": 0},
        SEARCH | {"k": MOST_PLACES + 1},
        SEARCH | {"k": True},
        SEARCH | {"strength": 1.1},
        SEARCH | {"strength": float("nan")},
        SEARCH | {"target": {"male": 1}},
        SEARCH | {"target": {"male": 0.9, "female": 0.9}},
        SEARCH | {"target": "everything"},
    ],
)
def test_what_is_not_legal_is_said(client, fields):
    status, _, data = client.post("/api/search", fields)
    assert status == 400 and len(json.loads(data)["error"]) > 10


SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
ANY = st.recursive(
    SIMPLE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner)
)
NAMES = st.sampled_from(("text", "texts", "attribute", "method", "target", "strength", "k", "x"))
LIKELY = st.fixed_dictionaries(
    {
        "text": st.text(min_size=1, max_size=40) | st.just("a photo of a nurse"),
        "texts": st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4),
        "k": st.integers(-1, 120),
        "strength": st.floats(0, 1) | SIMPLE,
        "attribute": st.sampled_from(("gender", "age", "nothing")),
        "method": st.sampled_from(("balanced", "closed-form", "orth-proj")),
        "target": st.sampled_from(("collection", "equal"))
        | st.floats(0, 1).map(lambda share: {"male": share, "female": 1 - share}),
    }
)


@given(path=st.sampled_from(POSTS), fields=LIKELY | st.dictionaries(NAMES, ANY, max_size=6) | ANY)
@settings(max_examples=150)
def test_a_fuzz_of_the_api(client, path, fields):
    status, _, data = client.post(path, fields)
    assert status in (200, 400, 409)
    if status == 200 and path in ("/api/search", "/api/classes"):
        for line in data.splitlines():
            json.loads(line)


@given(data=st.binary(max_size=200), path=st.sampled_from(POSTS))
@settings(max_examples=40)
def test_a_fuzz_of_bodies(client, data, path):
    assert client.send("POST", path, data)[0] in (200, 400)


@given(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40))
@settings(max_examples=60)
def test_a_fuzz_of_paths(client, path):
    for start in ("/", "/picture/", "/static/"):
        assert client.send("GET", start + path)[0] < 500


# --- What is saved --------------------------------------------------------------------------------


def test_the_table_is_both_rows_and_no_formula(client):
    before, after = client.parts("/api/search", SEARCH)
    status, headers, data = client.post("/api/table", SEARCH)
    assert status == 200 and headers["Content-Disposition"] == "attachment"
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert [row["row"] for row in rows] == ["before"] * 20 + ["after"] * 20
    names = [image["name"] for image in before["images"] + after["images"]]
    assert [row["image"] for row in rows] == names
    moved = [row["image"] for row in rows if row["moved"] == "in"]
    assert len(moved) == len(after["moved_in"])
    from equipoise._explore.saving import _plain

    assert _plain("=HYPERLINK(1)") == "'=HYPERLINK(1)" and _plain("a=b") == "a=b"


def test_add_to_audit_writes_only_where_the_user_said(client, folder, tmp_path):
    assert client.post("/api/prompt", SEARCH)[0] == 409
    file = tmp_path / "prompts.txt"
    file.write_text("# mine\na photo of a cook")
    with exploring(folder, attribute="gender", prompts_file=file) as (_, other):
        for text, count in (("a photo of a doctor", 2), ("a photo of a doctor", 2), ("a nurse", 3)):
            status, _, data = other.post("/api/prompt", {"text": text})
            assert status == 200 and json.loads(data) == {"count": count, "file": "prompts.txt"}
        assert other.post("/api/prompt", {"text": "# a comment"})[0] == 400
    assert file.read_text() == "# mine\na photo of a cook\na photo of a doctor\na nurse\n"
    results = eq.audit("none", prompts=str(file), settings=_quick()).results
    assert [prompt["prompt"] for prompt in results["prompts"]] == [
        "a photo of a cook",
        "a photo of a doctor",
        "a nurse",
    ]
    with pytest.raises(InputError, match="prompt book"):
        eq.explore(folder, prompts_file=tmp_path / "book.json")


def _quick():
    from equipoise._audit import AuditSettings

    return AuditSettings(resamples=20, permutations=5)


# --- Kills ----------------------------------------------------------------------------------------


def test_a_kill_while_serving_leaves_nothing_half_written(folder, tmp_path):
    """Pictures are whole or absent, the folder is as it was, and the prompts are whole lines."""
    cache, file = tmp_path / "cache", tmp_path / "prompts.txt"
    before = tree(folder)
    command = [sys.executable, "-m", "equipoise", "explore", str(folder), "--json", "--port", "0"]
    environment = os.environ | {"EQUIPOISE_CACHE": str(cache)}
    with subprocess.Popen(
        [*command, "--prompts-file", str(file), "-a", "gender"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        client = ExploreClient(json.loads(process.stdout.readline())["link"])
        stop = threading.Event()

        def ask(start):
            for i in range(start, 300, 4):
                if stop.is_set():
                    return
                try:
                    client.picture(i)
                    client.post("/api/prompt", {"text": f"a photo of person {i}"})
                except OSError:
                    return

        threads = [threading.Thread(target=ask, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        while not list(cache.rglob("*.jpg"))[10:]:
            stop.wait(0.02)
        process.send_signal(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
    assert tree(folder) == before
    made = list((cache / "thumbnails").rglob("*.jpg"))
    assert len(made) > 10
    for path in made:
        if not path.name.startswith("."):
            Image.open(path).load()
    if file.exists():
        lines = file.read_text().splitlines()
        assert len(lines) == len(set(lines)) > 0
        assert all(line.startswith("a photo of person ") for line in lines)
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "prompts.txt", *_torn(tmp_path)}
    Thumbnails(cache / "thumbnails")  # the next start sweeps what the kill left
    assert not [path for path in (cache / "thumbnails").rglob(".*") if path.is_file()]


def _torn(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith(".prompts.txt.")}


# --- Many at once ---------------------------------------------------------------------------------


def test_a_crowd_gets_answers_and_no_errors(client):
    texts = [f"a photo of a {job}" for job in ("doctor", "nurse", "cook", "pilot", "clerk")]
    statuses, rng = [], np.random.default_rng(0)

    def ask(i):
        for text in rng.permutation(texts)[:3]:
            statuses.append(client.post("/api/search", {"text": str(text), "k": 5 + i % 7})[0])
            statuses.append(client.picture(i)[0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 24 * 6 and set(statuses) == {200}
