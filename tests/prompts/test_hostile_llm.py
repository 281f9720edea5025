"""A language model's server that is an enemy: what it sends is bounded, and no key comes back."""

from __future__ import annotations

import json
import logging
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import equipoise as eq
from equipoise.errors import ServiceError
from equipoise.generation._annotators.vision_llm import VisionLLM
from equipoise.prompts._answer_cache import Answer
from equipoise.prompts._bounded_http import LARGEST
from equipoise.prompts._llm_client import _answer_of, redacted
from equipoise.prompts._llm_conversation import parse
from equipoise.prompts._llm_writer import LLMWriter
from tests.helpers.chat_server import ChatServer
from tests.helpers.common import component
from tests.helpers.hostile_server import HostileServer, completes, gzip_bomb, says, sends

GENDER = eq.Attribute.load("gender")
PROMPT = "a photo of a doctor"
KEY = "sk-very-secret-0123456789"
OK = b"HTTP/1.1 200 x\r\n"
MOST_MEMORY = 16 * LARGEST  # an answer, its copies on the way, and its JSON: 64 MiB


@pytest.fixture(autouse=True)
def _openai(monkeypatch):
    component("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def asked(server, **options):
    """What a writer makes of the server, with one try of each thing."""
    options = {"retries": 0, "tries": 1, "timeout": 30.0} | options
    return LLMWriter("m", base_url=server.url, **options).write([PROMPT], GENDER)


BOMB = gzip_bomb(1024)
NESTED = zlib.compress(BOMB)
UNBOUNDED = {
    "a small gzip answer that holds a gigabyte": (
        says(BOMB, content_encoding="gzip"),
        "larger than",
    ),
    "an error whose small gzip body holds a gigabyte": (
        says(BOMB, status=400, content_encoding="gzip"),
        "larger than",
    ),
    "gzip inside of gzip": (says(NESTED, content_encoding="gzip, gzip"), "gzip is legal"),
    "a compression that was not asked for": (says(b"x", content_encoding="br"), "gzip is legal"),
    "gzip that is none": (says(b"xxxx", content_encoding="gzip"), "cannot be decompressed"),
    "an error in a character set that decompresses": (
        says(zlib.compress(bytes(2**29)), status=500, content_type="text/plain; charset=zlib"),
        "failed",
    ),
    "a body without end": (sends(OK + b"\r\n", b"x" * 2**16), "larger than"),
    "a chunked body without end": (
        sends(OK + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 2**16 + b"\r\n"),
        "larger than",
    ),
    "headers without end": (sends(OK, b"x: " + b"y" * 2**16 + b"\r\n"), "failed"),
}
SLOW = {
    "a byte at a time": sends(OK + b"content-length: 100000\r\n\r\n", b" ", 0.05, 100),
    "a header at a time": sends(OK, b"x: y\r\n", 0.05, 100),
    "one interim answer after the other": sends(b"", b"HTTP/1.1 100 x\r\n\r\n", 0.05, 100),
    "nothing at all": sends(b"", b"", 0.05, 100),
    "gzip that comes to nothing": sends(
        OK + b"content-encoding: gzip\r\n\r\n" + BOMB[:10], b"\0\0\0\xff\xff", 0.05, 100
    ),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_an_answer_takes_bounded_memory(name):
    behaviour, reason = UNBOUNDED[name]
    with HostileServer(behaviour) as server:
        tracemalloc.start()
        try:
            with pytest.raises(ServiceError, match=reason):
                asked(server)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < MOST_MEMORY


@pytest.mark.parametrize("name", SLOW)
def test_the_timeout_is_for_the_whole_answer(name):
    # each byte comes well within the half second, and all of them within five
    with HostileServer(SLOW[name]) as server, pytest.raises(ServiceError, match=r"after 0\.5 s"):
        asked(server, timeout=0.5)


def test_a_redirect_is_an_error_that_says_where_it_leads():
    with HostileServer(says(completes("x"))) as other:
        to_other = says(b"", status=307, location=f"{other.url}/chat/completions")
        first, leads = HostileServer(to_other), pytest.raises(ServiceError, match="base_url")
        with first as server, leads as told:
            asked(server)
        assert f":{other.port}/" in str(told.value) and not other.heads
    assert len(server.heads) <= len(GENDER.groups)  # one for each, at the same time


def test_a_redirect_to_itself_is_followed_by_nobody():
    with HostileServer(says(b"", status=308, location="/v1/chat/completions")) as server:
        with pytest.raises(ServiceError, match="redirects"):
            asked(server)
        assert len(server.heads) <= len(GENDER.groups)


def test_cookies_of_a_server_are_not_sent_back():
    with HostileServer(says(b"{}", set_cookie="a=b")) as server:
        with pytest.raises(ServiceError):
            asked(server, retries=1)
        assert len(server.heads) > len(GENDER.groups)  # some came after an answer
        assert not any("cookie:" in head.lower() for head in server.heads)


def test_a_server_on_this_machine_is_asked_past_the_proxy(monkeypatch):
    with HostileServer(says(b"", status=500)) as proxy, ChatServer(GENDER) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        outcome = LLMWriter("m", base_url=server.url).write([PROMPT], GENDER)
        assert not outcome.failures and not proxy.heads


# --- Answers of every shape ------------------------------------------------------------------------

DEEP = 200_000
SHAPES = {
    "no JSON": b"<html>",
    "nothing": b"",
    "no text at all": b"\xff\xfe\xff",
    "a number": b"1",
    "a list": b"[1]",
    "null": b"null",
    "a number of five thousand digits": b"1" * 5000,
    "lists within lists": b"[" * DEEP + b"]" * DEEP,
    "objects within objects": b'{"choices":' * DEEP + b"1" + b"}" * DEEP,
    "choices that are null": b'{"choices": null}',
    "choices that are an object": b'{"choices": {"0": 1}}',
    "no choice": b'{"choices": []}',
    "a choice that is a string": b'{"choices": ["x"]}',
    "a choice that is null": b'{"choices": [null]}',
    "no message": b'{"choices": [{}]}',
    "a message that is a string": b'{"choices": [{"message": "hello"}]}',
    "a message that is a list": b'{"choices": [{"message": ["content"]}]}',
    "content that is an integer": completes(5),
    "content that is a list": completes(["a"]),
    "content that is an object": completes({"text": "a"}),
    "content that is true": completes(True),
    "a refusal that is an integer": completes(None, refusal=7),
}
TEXTS = {
    "no content": None,
    "empty content": "",
    "half a character": "a photo of a male doctor \ud800",
    "JSON with half a character": '{"anchor": "a photo of a male doctor \\udfff"}',
    "JSON nested deeply": '{"anchor":' * DEEP,
    "an answer nested deeply": '{"answer":' + "[" * DEEP + "]" * DEEP + "}",
    "an answer that is a number": '{"answer": 5, "anchor": 5}',
    "a hundred thousand braces": "{" * 100_000,
    "a hundred thousand lines": "a photo of a male doctor\n" * 100_000,
    "zero bytes and escape sequences": "\0\x1b[31m",
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_answer_that_is_no_chat_completion_is_a_message(name, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "picture.png")
    with HostileServer(says(SHAPES[name])) as server:
        with pytest.raises(ServiceError, match="failed 1 times"):
            asked(server, cache=tmp_path / "c.sqlite")
        look = VisionLLM("m", GENDER, base_url=server.url, retries=0)
        (answer,) = look.answers([tmp_path / "picture.png"])
        assert isinstance(answer, ServiceError)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_will_not_do_is_a_failure_of_its_prompt(name, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "picture.png")
    with HostileServer(says(completes(TEXTS[name]))) as server:
        outcome = asked(server, cache=tmp_path / "c.sqlite")
        look = VisionLLM("m", GENDER, base_url=server.url, retries=0)
        (answer,) = look.answers([tmp_path / "picture.png"])
    assert {failure.group for failure in outcome.failures} == {"male", "female"}
    assert answer in (*GENDER.groups, "unsure")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda some: st.lists(some) | st.dictionaries(st.sampled_from(["message", "content"]), some),
    max_leaves=8,
)


@given(st.one_of(st.binary(), JSON.map(lambda value: json.dumps({"choices": [value]}).encode())))
@settings(max_examples=100, deadline=None)
def test_a_body_is_an_answer_or_no_chat_completion(body):
    try:
        answer = _answer_of(body, [KEY])
    except ValueError:
        return
    answer.text.encode()  # can be written anywhere
    for step in ("anchor", "variants"):
        texts, reason = parse(answer, step, PROMPT)
        assert bool(texts) != bool(reason)


# --- The key ---------------------------------------------------------------------------------------

ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
ECHOES = {
    "in an answer": says(completes(f"a photo of a male doctor {KEY}")),
    "in an answer's JSON": says(completes(json.dumps({"anchor": f"a male doctor {KEY}"}))),
    "in an answer's JSON, escaped": says(completes(f'{{"anchor": "a male doctor {ESCAPED}"}}')),
    "in a refusal": says(completes(None, refusal=f"not with {KEY}")),
    "in an error": says(json.dumps({"error": {"message": KEY}}).encode(), status=400),
    "in an error's text": says(f"<p>{KEY}</p>".encode(), status=500),
    "in an error's text, escaped": says(f"<p>{ESCAPED}</p>".encode(), status=500),
    "in a redirect": says(b"", status=302, location=f"http://elsewhere/{KEY}"),
    "in a number of seconds to wait": says(b"", status=429, retry_after=KEY),
    "in the name of a compression": says(b"", content_encoding=KEY),
}


@pytest.mark.parametrize("where", ECHOES)
def test_a_key_that_a_server_repeats_is_told_to_nobody(where, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, logger="equipoise")
    with HostileServer(ECHOES[where]) as server:
        try:
            outcome = asked(server, cache=tmp_path / "c.sqlite", tries=2)
            told = str(outcome.failures)
            outcome.book.save(tmp_path / "b.json")
        except ServiceError as error:
            told = str(error)
    assert KEY not in told and ESCAPED not in told
    assert KEY not in caplog.text
    for path in tmp_path.iterdir():
        kept = path.read_bytes()
        assert KEY.encode() not in kept and ESCAPED.encode() not in kept, path


def test_a_word_that_serves_as_a_key_stays_in_answers(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "doctor")
    with ChatServer(GENDER) as server:
        outcome = LLMWriter("m", base_url=server.url).write([PROMPT], GENDER)
    assert not outcome.failures


def test_what_a_terminal_would_obey_stays_out_of_messages():
    told = json.dumps({"error": {"message": "\x1b]0;owned\x07 \x9b31m \u202e"}}).encode()
    with HostileServer(says(told, status=401)) as server, pytest.raises(ServiceError) as raised:
        asked(server)
    assert str(raised.value).isprintable() and "owned" in str(raised.value)


def test_a_secret_is_replaced_wherever_it_stands():
    assert redacted(f"{KEY} and {ESCAPED}", [KEY]) == "*** and ***"
    assert redacted("nothing here \\u0041", [KEY]) == "nothing here \\u0041"
    assert Answer("") == _answer_of(b'{"choices": [{"message": {}}]}', [KEY])
