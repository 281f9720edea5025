"""The language model as a writer: through the real SDK, to a real server on loopback that misbehaves."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing

import pytest

import equipoise as eq
from equipoise.errors import ArtefactError, InputError, ServiceError
from equipoise.prompts._answer_cache import Answer, AnswerCache
from equipoise.prompts._llm_conversation import parse
from equipoise.prompts._llm_writer import LLMWriter
from equipoise.prompts._validation import check_book
from tests.helpers.chat_server import CONTENT_FAULTS, TRANSPORT_FAULTS, ChatServer, share_of_faults
from tests.helpers.common import component, run

GENDER = eq.Attribute.load("gender")
PROMPTS = ["a photo of a doctor", "a photo of a nurse", "A photo of an engineer"]


@pytest.fixture(autouse=True)
def _openai(monkeypatch):
    component("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def corrected(body: dict) -> bool:
    return "will not do" in body["messages"][-1]["content"]


def test_two_steps_in_one_conversation():
    with ChatServer(GENDER) as server:
        outcome = LLMWriter("some-model", base_url=server.url, api_key="k").write(PROMPTS, GENDER)
    assert not outcome.failures and (outcome.asked, outcome.cached, outcome.rejected) == (12, 0, 0)
    assert (
        outcome.book.missing(PROMPTS, GENDER) == []
        and check_book(outcome.book, GENDER, min_variants=5) == []
    )
    (source,) = outcome.book.sources
    assert (
        (source.writer, source.model) == ("llm", "some-model")
        and source.date
        and source.instructions
    )
    steps = Counter(len(record["body"]["messages"]) for record in server.requests)
    assert steps == {2: 6, 4: 6}  # the second request carries the first and its answer
    for record in server.requests:
        assert record["body"]["response_format"]["json_schema"]["strict"] is True
    assert all("authorization: bearer k" in head.lower() for head in server.headers)


@pytest.mark.parametrize("fault", TRANSPORT_FAULTS)
def test_failures_that_pass_are_tried_again(fault):
    with ChatServer(GENDER, lambda body, nth: fault if nth == 1 else None) as server:
        outcome = LLMWriter("m", base_url=server.url, timeout=0.5).write(PROMPTS[:1], GENDER)
    assert not outcome.failures and outcome.asked == 8 and outcome.rejected == 0
    assert sum(record["delivered"] for record in server.requests) == 4


@pytest.mark.parametrize("fault", CONTENT_FAULTS)
def test_answers_that_will_not_do_are_asked_again_with_the_reason(fault):
    with ChatServer(GENDER, lambda body, nth: None if corrected(body) else fault) as server:
        outcome = LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)
    assert not outcome.failures and outcome.rejected >= 4
    reasons = [
        record["body"]["messages"][-1]["content"]
        for record in server.requests
        if corrected(record["body"])
    ]
    expected = {
        "truncated": "not whole JSON",
        "chatter": "no",
        "refusal": "refused",
        "wrong group": "should say",
    }[fault]
    assert len(reasons) == 4 and all(
        re.search(rf"- .*: .*{expected}", reason) for reason in reasons
    ), reasons
    assert check_book(outcome.book, GENDER, min_variants=5) == []


def test_what_never_comes_right_is_reported_and_the_rest_is_kept():
    def fault(body, nth):
        return "wrong group" if "a nurse" in body["messages"][1]["content"] else None

    with ChatServer(GENDER, fault) as server:
        writer = LLMWriter("m", base_url=server.url, tries=2)
        outcome = writer.write(PROMPTS, GENDER)
        assert {failure.prompt for failure in outcome.failures} == {"a photo of a nurse"} and len(
            outcome.failures
        ) == 2
        assert all("should say" in failure.reason for failure in outcome.failures)
        assert set(outcome.book.prompts) == {PROMPTS[0], PROMPTS[2]}
        again = writer.write(PROMPTS, GENDER)  # failures are asked anew, nothing else is
        assert again.asked == 4 and again.cached == 8


def test_too_few_variants_are_kept_only_as_partial():
    for allow in (False, True):
        with ChatServer(GENDER) as server:
            outcome = LLMWriter(
                "m", base_url=server.url, tries=1, min_variants=50, allow_partial=allow
            ).write(PROMPTS[:1], GENDER)
        assert (
            len(outcome.failures) == 2
            and "variants of 50" in outcome.failures[0].reason
            and len(outcome.book) == int(allow)
        )


def test_a_server_without_structured_output():
    with ChatServer(GENDER, lambda body, nth: "no structured") as server:
        writer = LLMWriter("m", base_url=server.url, concurrency=1)
        outcome = writer.write(PROMPTS, GENDER)
    assert (
        not outcome.failures and outcome.asked == 13
    )  # one request was refused, and no other asked that way
    assert check_book(outcome.book, GENDER, min_variants=5) == []


@pytest.mark.parametrize("status", [400, 404, 415, 422, 501])
def test_a_server_that_refuses_structured_output_in_other_ways(status):
    with ChatServer(GENDER, lambda body, nth: f"unstructured {status}") as server:
        outcome = LLMWriter("m", base_url=server.url, concurrency=1).write(PROMPTS, GENDER)
    assert (
        not outcome.failures and outcome.asked <= 16
    )  # the four conversations in flight were refused once, and no other


def test_a_prompt_that_a_filter_refuses_fails_alone():
    def fault(body, nth):
        return "filter" if "a doctor" in body["messages"][1]["content"] else None

    with ChatServer(GENDER, fault) as server:
        outcome = LLMWriter("m", base_url=server.url).write(PROMPTS, GENDER)
    assert {failure.prompt for failure in outcome.failures} == {
        PROMPTS[0]
    } and "filtered" in outcome.failures[0].reason
    assert set(outcome.book.prompts) == set(PROMPTS[1:])
    others = [
        record
        for record in server.requests
        if "a doctor" not in record["body"]["messages"][1]["content"]
    ]
    assert all(
        "response_format" in record["body"] for record in others
    )  # the others are asked as before
    with (
        ChatServer(GENDER, lambda body, nth: "filter") as server,
        pytest.raises(ServiceError, match="filtered"),
    ):
        LLMWriter("m", base_url=server.url).write(PROMPTS, GENDER)


def test_a_stricter_run_that_fails_forgets_nothing_of_an_earlier_one(tmp_path):
    with ChatServer(GENDER) as server:
        options = {"base_url": server.url, "cache": tmp_path / "c"}
        first = LLMWriter("m", **options).write(PROMPTS, GENDER)
        assert LLMWriter("m", **options, min_variants=30, tries=2).write(PROMPTS, GENDER).failures
        again = LLMWriter("m", **options).write(PROMPTS, GENDER)
        assert (first.asked, again.asked, again.book) == (12, 0, first.book)


def test_a_cache_that_breaks_midway_is_a_message(tmp_path):
    with ChatServer(GENDER) as server:
        writer = LLMWriter("m", base_url=server.url, cache=tmp_path / "c")
        writer.cache._db.execute("DROP TABLE answers")
        with pytest.raises(ArtefactError, match="cache"):
            writer.write(PROMPTS, GENDER)
    with pytest.raises(ArtefactError, match="cache"):
        LLMWriter("m", cache="/proc/nowhere/c.sqlite")


def test_retry_after_is_respected():
    """The second try of each request comes no sooner than the server asked for."""
    with ChatServer(
        GENDER, lambda body, nth: "429" if nth == 1 else None, retry_after="0.7"
    ) as server:
        LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)
    first: dict = {}
    gaps = []
    for record in server.requests:
        if record["name"] in first:
            gaps.append(record["began"] - first[record["name"]])
        first.setdefault(record["name"], record["began"])
    assert len(gaps) == 4 and min(gaps) >= 0.7


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("nonsense", 0.25, 0.5),
        ("nan", 0.25, 0.5),
        ("7", 7, 7),
    ],
)
def test_retry_after_forms(given, low, high):
    from types import SimpleNamespace

    from equipoise.prompts._llm_client import _wait

    error = Exception()
    error.response = SimpleNamespace(headers={"retry-after": given})
    assert low <= _wait(error, 1) <= high


def test_a_wait_that_is_too_long_is_a_failure_not_a_hang():
    with (
        ChatServer(GENDER, lambda body, nth: "429", retry_after="3600") as server,
        pytest.raises(ServiceError, match="wait 3600 s"),
    ):
        LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)


def test_no_more_requests_at_a_time_than_allowed():
    with ChatServer(GENDER, latency=0.02) as server:
        LLMWriter("m", base_url=server.url, concurrency=3).write(PROMPTS, GENDER)
    assert server.most == 3


def test_nothing_is_asked_twice(tmp_path):
    cache = tmp_path / "deep" / "answers.sqlite"
    with ChatServer(GENDER) as server:
        first = LLMWriter("m", base_url=server.url, cache=cache).write(PROMPTS, GENDER)
        second = LLMWriter("m", base_url=server.url, cache=cache).write(
            [*PROMPTS, PROMPTS[0]], GENDER
        )
        assert (second.asked, second.cached) == (0, 12) and second.book == first.book
        assert LLMWriter("m", base_url=server.url, cache=cache).plan(PROMPTS, GENDER)[:3] == (
            6,
            6,
            0,
        )
        assert (
            LLMWriter("m", base_url=server.url, cache=cache, temperature=0.5)
            .plan(PROMPTS, GENDER)
            .calls
            == 12
        )
        assert (
            LLMWriter("other", base_url=server.url, cache=cache).plan(PROMPTS, GENDER).calls == 12
        )
        assert (
            LLMWriter("m", base_url="http://127.0.0.1:9/v1", cache=cache)
            .plan(PROMPTS, GENDER)
            .calls
            == 12
        )
    rows = (
        sqlite3.connect(cache)
        .execute('SELECT prompt, "group", step, count(*) FROM answers GROUP BY 1, 2, 3')
        .fetchall()
    )
    assert len(rows) == 12 and all(count == 1 for *_, count in rows)


def test_many_faults_at_once(tmp_path):
    prompts = [
        f"a photo of a {noun}"
        for noun in (
            "doctor",
            "nurse",
            "teacher",
            "writer",
            "singer",
            "coach",
            "dentist",
            "clerk",
            "painter",
            "surfer",
        )
    ]
    with ChatServer(GENDER, share_of_faults(0.4, seed=3)) as server:
        outcome = LLMWriter(
            "m", base_url=server.url, cache=tmp_path / "c", timeout=0.5, tries=8, retries=12
        ).write(prompts, GENDER)
    assert not outcome.failures and outcome.book.missing(prompts, GENDER) == []
    assert check_book(outcome.book, GENDER, min_variants=5) == []
    assert (
        max(Counter(record["name"] for record in server.requests if record["delivered"]).values())
        == 1
    )


def test_the_key_is_told_to_nobody(tmp_path, caplog, monkeypatch):
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    caplog.set_level(logging.DEBUG, logger="equipoise")
    with ChatServer(GENDER) as server:
        LLMWriter("m", base_url=server.url, cache=tmp_path / "c.sqlite").write(
            PROMPTS[:1], GENDER
        ).book.save(tmp_path / "b.json")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    with (
        ChatServer(GENDER, lambda body, nth: "401") as server,
        pytest.raises(ServiceError) as raised,
    ):
        LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)
    assert (
        secret not in str(raised.value)
        and "OPENAI_API_KEY" in str(raised.value)
        and secret not in caplog.text
    )
    with (
        ChatServer(GENDER, lambda body, nth: "echo 401") as server,
        pytest.raises(ServiceError) as raised,
    ):
        LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)
    # the key lies across the place where the message is cut
    assert "x you sent" in str(raised.value) and secret[:8] not in str(raised.value)
    with (
        ChatServer(GENDER, lambda body, nth: "echo 401") as server,
        pytest.raises(ServiceError) as raised,
    ):
        LLMWriter("m", base_url=server.url.replace("http://", "http://someone:hidden@")).write(
            PROMPTS[:1], GENDER
        )
    said = str(raised.value)
    assert "x you sent" in said and "hidden" not in said and "someone" not in said
    assert LLMWriter("m", base_url="https://u:p@host/v1?token=t").shown_url == "https://host/v1"


def test_bad_input_and_dead_servers(tmp_path):
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        LLMWriter("gpt-5").write(PROMPTS, GENDER)
    with pytest.raises(InputError, match="name"):
        LLMWriter("")
    with pytest.raises(InputError, match="http"):
        LLMWriter("m", base_url="localhost:8080")
    with pytest.raises(InputError, match="concurrency"):
        LLMWriter("m", concurrency=0)
    with pytest.raises(InputError, match="list"):
        LLMWriter("m", base_url="http://127.0.0.1:9").write("one text", GENDER)
    for option, value in (
        ("timeout", 0),
        ("timeout", float("nan")),
        ("min_variants", -1),
        ("temperature", -1),
        ("retries", 1.5),
    ):
        with pytest.raises(InputError, match=option):
            LLMWriter("m", **{option: value})
    with pytest.raises(
        ServiceError, match=r"127\.0\.0\.1:9.* failed 2 times"
    ):  # of the six that a server that answers gets
        LLMWriter("m", base_url="http://127.0.0.1:9/v1").write(PROMPTS, GENDER)
    with (
        ChatServer(GENDER, lambda body, nth: "404") as server,
        pytest.raises(ServiceError, match="no model 'm'"),
    ):
        LLMWriter("m", base_url=server.url).write(PROMPTS, GENDER)
    (tmp_path / "c").write_bytes(b"not a database" * 100)
    with pytest.raises(ArtefactError, match="cache"):
        LLMWriter("m", cache=tmp_path / "c")


def test_a_server_that_dies_midway_loses_nothing(tmp_path):
    """The first prompts are answered, then the key runs out: what was written is in the outcome, the rest are failures that say why."""
    with ChatServer(
        GENDER, lambda body, nth: "401" if "engineer" in body["messages"][1]["content"] else None
    ) as server:
        writer = LLMWriter("m", base_url=server.url, cache=tmp_path / "c", concurrency=1)
        outcome = writer.write(PROMPTS, GENDER)
    assert (
        set(outcome.book.prompts) >= {PROMPTS[0]}
        and outcome.failures
        and "key" in outcome.failures[-1].reason
    )


def test_a_prompt_without_a_person_is_not_asked_for():
    with ChatServer(GENDER) as server:
        writer = LLMWriter("m", base_url=server.url)
        outcome = writer.write(["a photo of a car", PROMPTS[0]], GENDER)
        assert [(f.prompt, "no person" in f.reason) for f in outcome.failures] == [
            ("a photo of a car", True)
        ] * 2
        assert len(server.requests) == 4 and writer.plan(["a photo of a car"], GENDER).calls == 0


def test_inside_a_running_loop():
    async def main():
        return LLMWriter("m", base_url=server.url).write(PROMPTS[:1], GENDER)

    with ChatServer(GENDER) as server:
        assert not asyncio.run(main()).failures


def answers_in(path):
    with closing(AnswerCache(path)) as cache:
        return [cache.get(f"key {i}") for i in range(20)], cache.damaged


def kept_answers(path):
    with closing(AnswerCache(path)) as cache:
        for i in range(20):
            cache.put(f"key {i}", "c", "p", "g", "anchor", 0, "m", Answer(f"answer {i} é", ""))
    return [Answer(f"answer {i} é", "") for i in range(20)]


@pytest.mark.parametrize(
    "damage",
    [
        "text = 'answer 999'",
        "text = cast(x'ff00fe' as text)",
        "text = 7",
        "trouble = 'refused'",
        "checksum = ''",
        "text = (SELECT text FROM answers ORDER BY key DESC LIMIT 1)",
    ],
)
def test_a_damaged_answer_is_dropped_and_counted(tmp_path, damage):
    whole = kept_answers(tmp_path / "c")
    with closing(sqlite3.connect(tmp_path / "c")) as db, db:
        db.execute(f"UPDATE answers SET {damage} WHERE key IN ('key 3', 'key 5')")
    lost = [None if i in (3, 5) else answer for i, answer in enumerate(whole)]
    assert answers_in(tmp_path / "c") == (lost, 2)
    assert answers_in(tmp_path / "c") == (lost, 0)


def test_answers_of_an_older_file_are_kept_and_sealed(tmp_path):
    whole = kept_answers(tmp_path / "c")
    with closing(sqlite3.connect(tmp_path / "c")) as db, db:
        db.execute("ALTER TABLE answers DROP COLUMN checksum")
        db.execute("PRAGMA user_version=1")
    assert answers_in(tmp_path / "c") == (whole, 0)
    with closing(sqlite3.connect(tmp_path / "c")) as db, db:
        db.execute("UPDATE answers SET text = 'other' WHERE key = 'key 0'")
    assert answers_in(tmp_path / "c") == ([None, *whole[1:]], 1)


def test_newer_cache(tmp_path):
    AnswerCache(tmp_path / "c").close()
    with sqlite3.connect(tmp_path / "c") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(ArtefactError, match="newer"):
        AnswerCache(tmp_path / "c")


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('{"variants": ["a", "b"]}', ["a", "b"]),
        ('```json\n{"variants": ["a"]}\n```', ["a"]),
        ('["a", "b"]', ["a", "b"]),
        ("1. a\n2) b\n- c\n• d\n\n", ["a", "b", "c", "d"]),
        ('Here are some:\n"a"\n“b”.\n"c."', ["a", "b", "c"]),
        ('<think>{"variants": ["no"]} or\n1. no</think>\n{"variants": ["a"]}', ["a"]),
        ("<think>never ends\n1. no", []),
        ('Sure:\n```json\n["a", "b"]\n```\nMore?', ["a", "b"]),
        ('Here you go: {"variants": ["a"]} Enjoy!', ["a"]),
        ('Here you go: {"variants": ["a"', []),
        ('{"variants": ["a"', []),
        ('{"other": 1}', []),
        ('{"variants": [1]}', []),
        ("", []),
        ("[" * 50_000, []),
    ],
)
def test_parsing(text, texts):
    found, reason = parse(Answer(text), "variants", "a photo")
    assert found == texts and bool(reason) == (not texts)


# --- The command ---------------------------------------------------------------------------------------------------------


def prompts(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("prompts", *arguments, **environment)


def test_command_with_a_model(tmp_path):
    book, cache = str(tmp_path / "b.json"), str(tmp_path / "c.sqlite")
    with ChatServer(GENDER) as server:
        options = (
            "--writer",
            "llm",
            "--llm",
            "m",
            "--base-url",
            server.url,
            "--cache",
            cache,
            "-o",
            book,
            "--json",
        )
        dry = json.loads(prompts("write", *PROMPTS, *options, "--dry-run").stdout)
        assert dry["calls"] == 12 and not server.requests
        result = prompts("write", *PROMPTS, *options, OPENAI_API_KEY="k")
        assert (
            result.returncode == 0
            and json.loads(result.stdout)["asked"] == 12
            and result.stderr == ""
        )
        assert json.loads(prompts("write", *PROMPTS, *options).stdout)["asked"] == 0
    assert prompts("check", book).returncode == 0
    with ChatServer(
        GENDER, lambda body, nth: "refusal" if "nurse" in body["messages"][1]["content"] else None
    ) as server:
        options = (
            "--writer",
            "llm",
            "--llm",
            "n",
            "--base-url",
            server.url,
            "--cache",
            cache,
            "--tries",
            "1",
        )
        partial = str(tmp_path / "partial.json")
        result = prompts("write", *PROMPTS, *options, "-o", partial)
        assert (
            result.returncode == 2
            and "--allow-partial" in result.stderr
            and "refused" in result.stdout
        )
        assert len(eq.PromptBook.load(partial)) == 2  # saved all the same
        assert (
            prompts("write", *PROMPTS, *options, "-o", partial, "--allow-partial").returncode == 0
        )
    result = prompts("write", PROMPTS[0], "--writer", "llm", "--llm", "m", "--cache", cache)
    assert (
        result.returncode == 2
        and "OPENAI_API_KEY" in result.stderr
        and "Traceback" not in result.stderr
    )


def test_answers_lie_beside_the_embeddings(tmp_path):
    """One folder for all that is kept: EQUIPOISE_CACHE."""
    with ChatServer(GENDER) as server:
        options = (
            "--writer",
            "llm",
            "--llm",
            "m",
            "--base-url",
            server.url,
            "-o",
            tmp_path / "book.json",
        )
        kept = {"EQUIPOISE_CACHE": str(tmp_path / "kept"), "OPENAI_API_KEY": "k"}
        assert prompts("write", PROMPTS[0], *options, **kept).returncode == 0
    listed = run("cache", "--json", **kept)
    assert json.loads(listed.stdout)["encoders"] == []
    assert {"answers.sqlite", "embeddings.sqlite"} <= {
        path.name for path in (tmp_path / "kept").iterdir()
    }
