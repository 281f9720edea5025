"""The page's addresses: who may come in, what is refused, what happens to pictures that vanish, and a fuzz. Real servers on loopback."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise._annotate import Project, labels, people, pictures
from equipoise._annotate.server import DECODERS
from equipoise._bench.annotate import AnnotatorClient, measure, started
from equipoise._cli import main
from equipoise._serving import connections
from equipoise.errors import InputError
from tests.helpers.annotating import NAMES, make_folder, opened, served
from tests.helpers.common import component

ADDRESSES = (
    "/",
    "/static/page.js",
    "/api/turn",
    "/api/enter",
    "/api/label",
    "/api/undo",
    "/api/leave",
    "/picture/x",
    "/nowhere",
)


@pytest.fixture(autouse=True, scope="module")
def extra():
    component("starlette")
    component("uvicorn")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A project that is served, and its clients; tests leave it as they like."""
    with opened(tmp_path_factory.mktemp("served") / "run") as project, served(project) as clients:
        yield project, clients


@pytest.fixture
def someone(running):
    """A project that is served, and someone who never answered before."""
    project, clients = running
    name = f"someone {len(people.names(project.database))}"
    client = AnnotatorClient(clients["anna"].address, people.invite(project.database, name))
    assert client.enter()["answered"] == 0
    yield project, client
    client.close()


@pytest.fixture
def anna(tmp_path):
    """A project and a server of their own."""
    with opened(tmp_path / "run") as project, served(project) as clients:
        clients["anna"].enter()
        yield project, clients["anna"]


def answers(project, client):
    """What someone said."""
    name = client.call("/api/turn")["annotator"]
    return [label.answer for label in labels.said(project.database) if label.annotator == name]


def ask(client, method, path, headers=None, body=None):
    """Status, headers and bytes of one request, on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(client.address).netloc, timeout=30)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    found = response.status, response.headers, response.read()
    connection.close()
    return found


def send(client, path, fields, **headers):
    headers = {
        "Content-Type": "application/json",
        "Cookie": client.cookie,
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    return ask(client, "POST", path, headers, json.dumps(fields))


# --- Coming in ----------------------------------------------------------------------------------------------------------------


def test_a_link_gives_a_cookie_that_no_script_and_no_other_site_gets(running):
    _, clients = running
    client = clients["anna"]
    status, headers, body = send(client, "/api/enter", {"token": client.token})
    cookie = headers["Set-Cookie"]
    assert (
        status == 200
        and "HttpOnly" in cookie
        and "SameSite=strict" in cookie.replace("Strict", "strict")
        and "Path=/" in cookie
    )
    assert client.token not in body.decode() and json.loads(body)["annotator"] == "anna"
    for wrong in ("", "x", client.token + "x", None, 3, ["x"], {"a": 1}, "\ud800"):
        status, headers, _ = send(client, "/api/enter", {"token": wrong})
        assert status == 403 and "Set-Cookie" not in headers


@pytest.mark.parametrize("path", ["/api/turn", "/picture/x"])
def test_without_a_cookie_nothing_is_told(running, path):
    _, clients = running
    for cookie in ("", "equipoise-0=x", "x" * 1000):
        status, _, body = ask(clients["anna"], "GET", path, {"Cookie": cookie})
        assert status == 401 and b"link" in body and b"gender" not in body
    for path in ("/api/label", "/api/undo"):
        assert (
            send(
                AnnotatorClient(clients["anna"].address, ""),
                path,
                {"picture": "x", "answer": "male", "request": "12345678"},
            )[0]
            == 401
        )


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_forbids_what_the_page_does_not_need(running, path):
    _, clients = running
    status, headers, _ = ask(clients["anna"], "GET", path)
    assert status < 500
    policy = headers["Content-Security-Policy"]
    assert (
        "default-src 'none'" in policy
        and "frame-ancestors 'none'" in policy
        and "unsafe" not in policy
    )
    assert (
        headers["X-Content-Type-Options"] == "nosniff"
        and headers["Referrer-Policy"] == "no-referrer"
        and "server" not in headers
    )
    assert (
        headers["Cross-Origin-Resource-Policy"] == "same-origin"
        and "Access-Control-Allow-Origin" not in headers
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this machine
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "example.org"},  # a name that someone made lead here
        {"Host": "127.0.0.1.example.org"},
        {"Host": "["},
    ],
)
def test_requests_from_other_sites_are_refused(someone, headers):
    project, client = someone
    picture = client.call("/api/turn")["picture"]
    answer = {"picture": picture, "answer": "male", "request": "12345678"}
    assert send(client, "/api/label", answer, **headers)[0] == 403
    for path in ("/api/turn", f"/picture/{picture}"):
        assert ask(client, "GET", path, {"Cookie": client.cookie, **headers})[0] == 403
    assert answers(project, client) == []
    ours = urlsplit(client.address).netloc
    assert (
        send(client, "/api/label", answer, Origin=f"http://{ours}", Sec_Fetch_Site="same-origin")[0]
        == 200
    )


def test_a_link_in_a_letter_opens_the_page_and_a_form_elsewhere_does_not(someone):
    project, client = someone
    assert (
        ask(client, "GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0]
        == 200
    )
    picture = client.call("/api/turn")["picture"]
    body = json.dumps({"picture": picture, "answer": "male", "request": "12345678"})
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ):
        assert (
            ask(
                client, "POST", "/api/label", {"Cookie": client.cookie, "Content-Type": kind}, body
            )[0]
            == 415
        )
    assert answers(project, client) == []


def test_other_names_are_answered_to_where_the_page_is_exposed(tmp_path):
    with opened(tmp_path / "run") as project, served(project, loopback=False) as clients:
        client = clients["anna"]
        assert ask(client, "GET", "/", {"Host": "labels.example.org"})[0] == 200
        enter = (
            {"Content-Type": "application/json", "Host": "labels.example.org"},
            json.dumps({"token": client.token}),
        )
        assert (
            ask(
                client,
                "POST",
                "/api/enter",
                enter[0] | {"Origin": "https://labels.example.org"},
                enter[1],
            )[0]
            == 200
        )
        assert (
            ask(
                client, "POST", "/api/enter", enter[0] | {"Origin": "https://example.org"}, enter[1]
            )[0]
            == 403
        )
        status, headers, _ = ask(
            client, "POST", "/api/enter", enter[0] | {"X-Forwarded-Proto": "https"}, enter[1]
        )
        assert status == 200 and "Secure" in headers["Set-Cookie"]  # behind a server with TLS


def test_leaving_ends_the_session_and_not_the_link(someone):
    _, client = someone
    elsewhere = AnnotatorClient(client.address, client.token)
    elsewhere.enter()
    kept = client.cookie
    client.call("/api/leave", {})
    client.cookie = kept  # as whoever copied it would
    client.call("/api/turn")
    assert client.statuses[401] == 1
    elsewhere.call("/api/turn")
    assert elsewhere.statuses[200] == 2  # another browser stays
    assert "picture" in client.enter()  # and the link opens the page again
    elsewhere.close()


def test_a_cookie_is_not_the_link(someone):
    _, client = someone
    assert client.token not in client.cookie
    stolen = client.cookie.partition("=")[2]
    assert send(client, "/api/enter", {"token": stolen})[0] == 403
    cookie = f"{client.cookie.partition('=')[0]}={client.token}"
    assert ask(client, "GET", "/api/turn", {"Cookie": cookie})[0] == 401


def test_a_renewed_link_ends_the_sessions_of_the_old_one(someone):
    project, client = someone
    people.invite(project.database, client.call("/api/turn")["annotator"], renew=True)
    client.call("/api/turn")
    assert client.statuses[401] == 1


def test_old_sessions_end(someone, monkeypatch):
    project, client = someone
    for _ in range(people.MOST_SESSIONS - 1):
        people.begin_session(project.database, client.call("/api/turn")["annotator"])
    assert client.statuses[401] == 0
    name = client.call("/api/turn")["annotator"]
    monkeypatch.setattr(people, "REMEMBERED", -1)
    session = people.begin_session(project.database, name)
    assert people.whose_session(project.database, session) is None
    client.call("/api/turn")
    assert client.statuses[401] == 1


# --- Answering ----------------------------------------------------------------------------------------------------------------


def test_answers_undo_and_the_end(someone):
    project, client = someone
    seen = []
    turn = client.call("/api/turn")
    assert turn["answers"][-1] == {"answer": "unsure", "keys": ["0", "u"]} and "prompt" not in turn
    while turn["picture"]:
        assert set(turn) == {
            "annotator",
            "question",
            "answers",
            "picture",
            "following",
            "answered",
            "left",
        }
        assert client.call(f"/picture/{turn['picture']}").startswith(b"\xff\xd8")
        seen.append(turn["picture"])
        following = turn["following"]
        turn = client.call(
            "/api/label",
            {"picture": turn["picture"], "answer": "male", "request": f"request-{len(seen)}"},
        )
        assert turn["picture"] == following
    assert turn["answered"] == 6 and turn["left"] == 0 and len(set(seen)) == 6
    for back in reversed(seen[-2:]):
        turn = client.call("/api/undo", {"request": f"undo-{back}".replace("_", "-")[:60]})
        assert turn["picture"] == back
    assert (turn["answered"], turn["left"]) == (4, 2) and answers(project, client) == ["male"] * 4
    assert set(client.statuses) == {200}


def test_the_prompt_is_shown_only_where_the_project_is_not_blind(tmp_path):
    with opened(tmp_path / "run", show_prompt=True) as project, served(project) as clients:
        assert clients["anna"].enter()["prompt"].startswith("a photo of a")


def test_a_request_that_comes_twice_counts_once(someone):
    project, client = someone
    first = client.call("/api/turn")["picture"]
    answer = {"picture": first, "answer": "male", "request": "request-1"}
    second = client.call("/api/label", answer)
    assert client.call("/api/label", answer) == second
    client.call(
        "/api/label", {"picture": second["picture"], "answer": "female", "request": "request-2"}
    )
    assert client.call("/api/undo", {"request": "request-3"}) == client.call(
        "/api/undo", {"request": "request-3"}
    )
    assert answers(project, client) == ["male"]
    client.call("/api/label", answer | {"answer": "female"})
    assert client.statuses[409] == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"answer": "blue"}, 400),
        ({"answer": ["male"]}, 400),
        ({"answer": "male"}, 404),
        ({"answer": "male", "picture": 3}, 404),
        ({"answer": "male", "picture": "nothing"}, 404),
        ({"answer": "male", "picture": "HERE"}, 400),
        ({"answer": "male", "picture": "HERE", "request": "short"}, 400),
        ({"answer": "male", "picture": "HERE", "request": "x" * 65}, 400),
        ({"answer": "male", "picture": "HERE", "request": "a b c d e f"}, 400),
        ({"answer": "male", "picture": "HERE", "request": 12345678}, 400),
        ({"answer": "male" * 5000}, 413),
    ],
)
def test_answers_that_are_none(someone, fields, status):
    project, client = someone
    if fields.get("picture") == "HERE":
        fields = fields | {"picture": client.call("/api/turn")["picture"]}
    found, _, body = send(client, "/api/label", fields)
    assert (
        found == status
        and (status == 413 or "error" in json.loads(body))
        and answers(project, client) == []
    )


@pytest.mark.parametrize("body", ["", "[]", "null", "{", "\xff", "[" * 3000, '{"a":' * 500])
def test_bodies_that_are_none(someone, body):
    _, client = someone
    for path in ("/api/enter", "/api/label", "/api/undo", "/api/leave"):
        status, _, _ = ask(
            client,
            "POST",
            path,
            {"Cookie": client.cookie, "Content-Type": "application/json"},
            body.encode("latin-1"),
        )
        assert status == 400


def test_the_same_annotator_in_two_tabs_and_two_annotators_at_once(running):
    project, clients = running
    tabs = [
        AnnotatorClient(client.address, client.token)
        for client in clients.values()
        for _ in range(3)
    ]
    pictures = [tab.enter()["picture"] for tab in tabs]
    assert len(set(pictures)) <= 3  # tabs of one annotator show the same picture
    barrier = threading.Barrier(len(tabs))

    def work(n):
        barrier.wait()
        for i in range(4):
            fields = {
                "picture": pictures[n],
                "answer": random.choice(("male", "female")),
                "request": f"at-once-{n}-{i}",
            }
            tabs[n].call("/api/label", fields)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(tabs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(tab.statuses) == {200} for tab in tabs)
    with project.database.reading() as db:
        counts = db.execute(
            "select count(*), count(distinct annotator) from labels where annotator in ('anna', 'ben', 'chris')"
        ).fetchone()
        lines = db.execute("select count(*) from history where request like 'at-once-%'").fetchone()
    assert counts == (3, 3) and lines == (36,)


# --- Pictures -----------------------------------------------------------------------------------------------------------------


def test_names_of_pictures_tell_nothing(someone):
    project, client = someone
    turn = client.call("/api/turn")
    status, headers, body = ask(
        client, "GET", f"/picture/{turn['picture']}", {"Cookie": client.cookie}
    )
    told = json.dumps(turn) + str(headers) + body.decode("latin-1")
    assert status == 200 and headers["Content-Type"] == "image/jpeg"
    for secret in ("doctor", "nurse", "closed-form", "sfid", ".png", str(project.folder)):
        assert secret not in told


@pytest.mark.parametrize(
    "path",
    [
        "/picture/none-0.png", "/picture/../none-0.png", "/picture/..%2fnone-0.png", "/picture/%2e%2e/annotate.sqlite", "/static/../server.py",
        "/static/%2e%2e/server.py", "/static/..%5cserver.py", "/static//etc/passwd", "/static/%2fetc/passwd", "/picture/%00", "/picture/" + "x" * 5000,
        "/annotate.sqlite", "/manifest.jsonl", "/static/", "/static",
    ],
)  # fmt: skip
def test_nothing_else_is_served(someone, path):
    _, client = someone
    status, _, body = ask(client, "GET", path, {"Cookie": client.cookie})
    assert (
        status in (307, 404)
        and b"root:" not in body
        and b"import" not in body
        and b"SQLite" not in body
    )


def test_a_picture_that_vanished_is_gone_for_everyone_and_asked_of_nobody(anna):
    project, client = anna
    turn = client.call("/api/turn")
    with project.database.reading() as db:
        (path,) = db.execute(
            "select path from pictures where id = ?", (turn["picture"],)
        ).fetchone()
    data = (project.folder / path).read_bytes()
    (project.folder / path).unlink()
    status, _, body = ask(client, "GET", f"/picture/{turn['picture']}", {"Cookie": client.cookie})
    assert status == 410 and "not there any more" in json.loads(body)["error"]
    after = client.call("/api/turn")
    assert after["picture"] == turn["following"] and after["left"] == 5
    (project.folder / path).write_bytes(data)
    project.scan()
    assert client.call("/api/turn")["left"] == 6


def test_pictures_that_cannot_be_shown(tmp_path):
    """Damaged; replaced while the server runs; made into a link that leads out. Each says so, is skipped, and is no error of the server."""
    folder = make_folder(tmp_path / "run")
    (folder / "none-0.png").write_bytes(b"no picture at all")
    Image.new("RGB", (5, 5)).save(tmp_path / "outside.png")
    with Project.open(folder) as project, served(project) as clients:
        client = clients["anna"]
        client.enter()
        with project.database.reading() as db:
            ids = dict(db.execute("select path, id from pictures").fetchall())
        Image.new("RGB", (5, 5), "red").save(folder / "closed-form-1.png")
        (folder / "sfid-2.png").unlink()
        (folder / "sfid-2.png").symlink_to(tmp_path / "outside.png")
        for path in ("none-0.png", "closed-form-1.png", "sfid-2.png"):
            for _ in range(2):
                status, _, body = ask(
                    client, "GET", f"/picture/{ids[path]}", {"Cookie": client.cookie}
                )
                assert status == 410 and json.loads(body)["error"].endswith(".")
        assert client.call("/api/turn")["left"] == 3


def test_the_server_finds_new_pictures_by_itself(tmp_path):
    folder = make_folder(tmp_path / "run", manifest=False)
    with Project.open(folder) as project, served(project, scan_every=0.05) as clients:
        assert clients["anna"].enter()["left"] == 6
        Image.new("RGB", (5, 5), "red").save(folder / "new.png")
        deadline = time.monotonic() + 20
        while clients["anna"].call("/api/turn")["left"] != 7:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# --- Fuzz ---------------------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(("token", "picture", "answer", "request", "other"))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(("male", "unsure", "REAL", "12345678")),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)
BODIES = st.one_of(
    st.binary(max_size=50),
    st.dictionaries(KEYS, VALUES).map(lambda d: json.dumps(d).encode()),
    VALUES.map(lambda v: json.dumps(v).encode()),
)
PATHS = st.one_of(
    st.sampled_from(ADDRESSES),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20).map(
        lambda text: "/" + text
    ),
    st.binary(max_size=12).map(lambda raw: "/picture/" + "".join(f"%{byte:02x}" for byte in raw)),
)
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
HEADERS = st.dictionaries(
    st.sampled_from(
        (
            "Origin",
            "Sec-Fetch-Site",
            "Host",
            "Cookie",
            "Content-Type",
            "Range",
            "If-None-Match",
            "Accept",
            "X-Forwarded-Proto",
        )
    ),
    st.one_of(TEXTS, st.sampled_from(("application/json", "same-origin", "bytes=0-", "bytes=9-1"))),
)


@given(
    st.sampled_from(("GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "X")),
    PATHS,
    st.one_of(st.just({}), HEADERS),
    BODIES,
    st.booleans(),
)
def test_no_request_breaks_the_server(running, method, path, headers, body, known):
    """As a stranger and as an annotator, who has a real picture to name."""
    project, clients = running
    client = clients["ben"]
    if known:
        if not client.cookie:
            client.enter()
        headers = {"Content-Type": "application/json"} | headers | {"Cookie": client.cookie}
        body = body.replace(b"REAL", (client.call("/api/turn")["picture"] or "").encode())
    status, _, _ = ask(
        client,
        method,
        path,
        {name: value.strip().encode("latin-1") for name, value in headers.items()},
        body,
    )
    assert status < 500
    with project.database.reading() as db:
        answers = {answer for (answer,) in db.execute("select answer from labels")}
    assert answers <= {"male", "female", "unsure"}


def test_bytes_that_are_no_request_do_not_break_it_either(running):
    _, clients = running
    host, port = urlsplit(clients["anna"].address).netloc.split(":")
    chance = random.Random(0)
    for n in range(40):
        with socket.create_connection((host, int(port)), timeout=30) as stream:
            start = chance.choice(
                [
                    b"",
                    b"GET / HTTP/1.1\r\n",
                    b"POST /api/label HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
                    b"\x16\x03\x01",
                ]
            )
            stream.sendall(start + chance.randbytes(n * 7))
            stream.shutdown(socket.SHUT_WR)
            reply = stream.recv(100)
            assert not reply.startswith(b"HTTP/1.1 5")
    clients["anna"].enter()


# --- The command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    """``equipoise annotate`` with these arguments, in this process: its exit status, and what it wrote."""

    def annotate(*arguments):
        monkeypatch.setattr(sys, "argv", ["equipoise", "annotate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return annotate


def test_the_command_from_serving_to_a_list_to_make_again(tmp_path, run):
    """As people use it: serve, label, stop; agreement, export, and a second day on which the links still open."""
    folder = make_folder(tmp_path / "run", 4)
    with started(folder, NAMES) as (server, ready):
        assert ready["images"] == 4 and list(ready["links"]) == list(NAMES)
        status, _, err = run(folder, "--port", "0")
        assert status == 2 and "another run" in err
        clients = [
            AnnotatorClient(ready["address"], ready["links"][name].split("token=")[1])
            for name in NAMES
        ]
        for n, client in enumerate(clients):
            turn = client.enter()
            for i in range(4):
                answer = "female" if n == 0 and i == 0 else "male"
                turn = client.call(
                    "/api/label",
                    {"picture": turn["picture"], "answer": answer, "request": f"request-{i}"},
                )
        live = json.loads(run("agreement", folder, "--json")[1])  # while people label
        assert live["disagreed"] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0
    with started(folder, ()) as (_, again):
        assert again["links"] == dict.fromkeys(NAMES)
        client = AnnotatorClient(again["address"], clients[1].token)
        assert client.enter()["answered"] == 4
    table = run("agreement", folder, "--regenerate", tmp_path / "again.csv")[1]
    assert "Fleiss' kappa" in table and "1 images to make again" in table
    header, line = (tmp_path / "again.csv").read_text().splitlines()
    assert header == "image,why,prompt,method" and ",disagreed," in line
    assert "12 labels" in run("export", folder, "-o", tmp_path / "labels.csv")[1]
    assert "12 labels" in run("export", folder, "-o", tmp_path / "tasks.json")[1]
    code, _, error = run("export", folder, "-o", tmp_path / "labels.csv")
    assert code == 2 and "exists already" in error and "--force" in error
    assert "12 labels" in run("export", folder, "-o", tmp_path / "labels.csv", "--force")[1]
    other = make_folder(tmp_path / "other", 4)
    assert "12 of them new" in run("import", other, tmp_path / "labels.csv")[1]
    assert json.loads(run("agreement", other, "--json")[1])["kappa"] == live["kappa"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("FOLDER", "--port", "0"), "nobody is named"),
        (("FOLDER", "--annotators", "anna", "--host", "0.0.0.0"), "--expose"),
        (("FOLDER", "--port", "0", "--annotators", "<b>"), "is not a name"),
        (("FOLDER", "--port", "0", "--annotators", "anna", "--renew", "zoe"), "no annotator"),
        (
            ("FOLDER", "--annotators", "anna", "--host", "nowhere.invalid", "--expose"),
            "cannot be listened on",
        ),
        (("FOLDER", "--answer", "yes"), "without a question"),
        (("nowhere", "--annotators", "anna"), "not a folder"),
        (("agreement", "FOLDER"), "there are no labels"),
        (("export", "FOLDER"), "there are no labels"),
        (("import", "FOLDER", "nothing.csv"), "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_a_message(tmp_path, run, arguments, message):
    folder = make_folder(tmp_path / "run", 1)
    status, _, err = run(*(folder if word == "FOLDER" else word for word in arguments))
    assert status == 2 and message in err


def test_a_port_that_is_taken_costs_nobody_their_link(tmp_path, run):
    folder = make_folder(tmp_path / "run", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = run(folder, "--annotators", "anna", "--port", taken.getsockname()[1])
    assert status == 2 and "another --port" in err
    with Project.open(folder) as project:
        assert people.names(project.database) == []


def test_without_the_extra_the_pip_line_is_told(tmp_path, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, _, err = run(make_folder(tmp_path / "run", 1), "--annotators", "anna")
    assert status == 2 and 'pip install "equipoise[annotate]"' in err


def test_no_token_is_ever_logged(tmp_path):
    """Whatever goes wrong, also where someone puts it into an address."""
    folder = make_folder(tmp_path / "run", 1)
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "annotate",
        str(folder),
        "--annotators",
        "anna",
        "--json",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        ready = json.loads(server.stdout.readline())
        token = ready["links"]["anna"].split("token=")[1]
        client = AnnotatorClient(ready["address"], token)
        client.enter()
        for path in (
            f"/?token={token}",
            f"/{token}",
            f"/picture/{token}",
            f"/api/turn?token={token}",
        ):
            assert ask(client, "GET", path, {"Cookie": client.cookie})[0] < 500
        with socket.create_connection(tuple(urlsplit(client.address).netloc.split(":"))) as stream:
            stream.sendall(f"{token} {token}\r\n\r\n".encode())
            stream.recv(100)
        server.terminate()
        out, err = server.communicate(timeout=30)
    assert token not in out + err


# --- Load and kills -----------------------------------------------------------------------------------------------------------


def test_a_small_load_loses_nothing(monkeypatch, capsys):
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "equipoise",
            "bench",
            "annotate",
            "--people",
            "4",
            "--seconds",
            "1",
            "--count",
            "12",
            "--pause",
            "0",
        ],
    )
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().out
    assert "/api/label" in told and "0 errors, 0 labels lost, 0 doubled" in told
    with pytest.raises(InputError, match="not legal"):
        measure(0, 1.0, 12)


@pytest.mark.slow
def test_fifty_annotators_at_once_for_a_minute(capsys):
    found = measure(50, 60.0, 2500)
    with capsys.disabled():
        print(*found.rows, sep="\n")
    assert (found.errors, found.lost, found.doubled) == (0, 0, 0) and found.seconds >= 55


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.mark.slow
def test_killed_while_people_label_nothing_is_lost_or_doubled(tmp_path):
    """Ten kills at moments of no choice; clients do as the page does: the same request until it is confirmed."""
    folder, port = make_folder(tmp_path / "run", 400), free_port()
    stop, confirmed, tokens = threading.Event(), {name: {} for name in NAMES}, {}

    def insist(name, state, path, fields):
        while not stop.is_set():
            try:
                state["client"] = state.get("client") or AnnotatorClient(
                    f"http://127.0.0.1:{port}/", tokens[name]
                )
                if not state["client"].cookie:
                    state["client"].enter()
                return state["client"].call(path, fields)
            except (OSError, http.client.HTTPException):
                state.pop("client", None)
                time.sleep(0.01)
        return None

    def work(name):
        chance, state, n = random.Random(name), {}, 0
        turn = insist(name, state, "/api/turn", None)
        while turn and turn["picture"] and not stop.is_set():
            n += 1
            answer = chance.choice(("male", "female", "unsure"))
            picture, turn = (
                turn["picture"],
                insist(
                    name,
                    state,
                    "/api/label",
                    {"picture": turn["picture"], "answer": answer, "request": f"label-{n:06}"},
                ),
            )
            if turn:
                confirmed[name][picture] = answer
            if turn and chance.random() < 0.1:
                back = insist(name, state, "/api/undo", {"request": f"undo--{n:06}"})
                if back:
                    turn = back
                    del confirmed[name][picture]
                else:
                    confirmed[name].pop(picture)  # not confirmed: it may be taken back or not

    threads, chance = [], random.Random(0)
    for kill in range(10):
        with started(folder, NAMES, "--port", str(port)) as (server, ready):
            if not kill:
                tokens |= {name: link.split("token=")[1] for name, link in ready["links"].items()}
                threads = [threading.Thread(target=work, args=(name,)) for name in NAMES]
                for thread in threads:
                    thread.start()
            time.sleep(chance.uniform(0.05, 0.7))
            server.send_signal(signal.SIGKILL)
            server.wait()
    with started(folder, NAMES, "--port", str(port)):
        time.sleep(1)
        stop.set()
        for thread in threads:
            thread.join()
    with Project.open(folder) as project, project.database.reading() as db:
        said = {
            (name, picture): answer
            for name, picture, answer in db.execute("select annotator, picture, answer from labels")
        }
        requests = [
            request for (request,) in db.execute("select annotator || request from history")
        ]
    expected = {
        (name, picture): answer for name, of in confirmed.items() for picture, answer in of.items()
    }
    assert len(expected) > 100 and expected.items() <= said.items()
    assert len(said) - len(expected) <= 3  # each may have one that was kept and not yet confirmed
    assert len(requests) == len(set(requests))


# --- Connections that lead to nothing ---------------------------------------------------------------------------------------


@pytest.fixture
def impatient(tmp_path, monkeypatch):
    """A server that waits for half a second, and someone who labels."""
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    monkeypatch.setattr(connections, "READING", 0.5)
    with opened(tmp_path / "run") as project, served(project) as clients:
        clients["anna"].enter()
        yield clients["anna"]


def connected(client):
    host, _, port = urlsplit(client.address).netloc.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_cut_off(connection, trickle=b""):
    """Whether the server closes a connection that goes on sending a little for ten seconds."""
    connection.settimeout(0.1)
    for _ in range(100):
        try:
            connection.sendall(trickle)
            if connection.recv(2**16) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


BEGUN = b"POST /api/enter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WAITS = {
    "one that sends nothing": (b"", b""),
    "one that sends a letter at a time": (b"GET /", b"x"),
    "one that sends a header at a time": (BEGUN, b"x: y\r\n"),
    "one that sends a body a letter at a time": (BEGUN + b"Content-Length: 900\r\n\r\n", b"x"),
    "one that goes on after its answer": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /",
        b"x",
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_connection_that_sends_no_whole_request_is_cut_off(impatient, name, caplog):
    start, trickle = WAITS[name]
    with connected(impatient) as connection:
        connection.sendall(start)
        assert is_cut_off(connection, trickle)
    assert ask(impatient, "GET", "/")[0] == 200
    assert not caplog.records  # and nobody has to read of it


def test_a_body_that_turns_out_to_be_none_after_the_answer_is_cut_off(impatient, caplog):
    begun = b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(impatient) as connection:
        connection.sendall(begun)
        assert connection.recv(2**16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"5\r\nxxxxx5\r\n")  # no end of a chunk
        assert is_cut_off(connection)
    assert not caplog.records


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_cut_off(impatient):
    asked_for = b"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(impatient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(asked_for * 1000)  # answers of more than the kernel keeps for a reader
        with pytest.raises(ConnectionError):
            for _ in range(100):
                time.sleep(0.1)
                connection.sendall(b"x")


@pytest.mark.slow
def test_those_who_wait_longest_make_room_for_those_who_ask(tmp_path):
    resource = pytest.importorskip("resource")
    make_folder(tmp_path / "run")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))  # the server's, which inherits it
    try:
        with started(tmp_path / "run", ["anna"]) as (_, said):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1024), hard))
            anna = AnnotatorClient(said["address"], said["links"]["anna"].partition("=")[2])
            idle = [connected(anna) for _ in range(700)]
            assert "picture" in anna.enter()
            for connection in idle:
                connection.close()
            anna.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_more_than_a_few_pictures_are_decoded_at_a_time(tmp_path, monkeypatch):
    now, most, lock = 0, 0, threading.Lock()
    shown = pictures.shown

    def counted(data):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        return shown(data)

    monkeypatch.setattr(pictures, "shown", counted)
    with opened(tmp_path / "run") as project, served(project) as clients:
        anna = clients["anna"]
        path = f"/picture/{anna.enter()['picture']}"
        looks = [
            threading.Thread(target=ask, args=(anna, "GET", path, {"Cookie": anna.cookie}))
            for _ in range(8)
        ]
        for look in looks:
            look.start()
        for look in looks:
            look.join()
    assert most == DECODERS
