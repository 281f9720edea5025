"""A long run of the language-model writer, with a fifth of the requests spoilt, killed twice on the way."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter

import pytest

import equipoise as eq
from equipoise.prompts._answer_cache import key_of
from equipoise.prompts._validation import check_book
from tests.helpers.common import ROOT, component

pytestmark = pytest.mark.slow

SLOTS = 64
VARIANTS = 3  # what the server, which answers by the grammar, knows for every one of these prompts


def prompts(count: int) -> list[str]:
    people = [
        prompt.removeprefix("a photo of a person")
        for prompt in eq.PromptBook.curated("people-gender").prompts
    ]
    return [
        f"{prompt}{doing}"
        for prompt in eq.PromptBook.curated("occupations-gender").prompts
        for doing in people
    ][:count]


def answered(cache) -> set[str]:
    """The keys in a cache that is being written; none while it has no table yet."""
    with sqlite3.connect(cache) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = db.execute("SELECT name FROM sqlite_master WHERE name = 'answers'").fetchall()
        return {key for (key,) in db.execute("SELECT key FROM answers")} if tables else set()


def test_a_thousand_prompts_a_fifth_spoilt_and_killed_on_the_way(tmp_path):
    """Complete; no good answer is ever asked for again, but for what was in flight at a kill; cache and book are whole at every moment."""
    component("openai")
    log, cache, book, texts = (
        tmp_path / "log",
        tmp_path / "answers.sqlite",
        tmp_path / "book.json",
        tmp_path / "prompts.txt",
    )
    texts.write_text("\n".join(prompts(1000)))
    command = [
        sys.executable,
        "-m",
        "tests.helpers.chat_server",
        "--latency",
        "0.05",
        "--faults",
        "0.2",
        "--retry-after",
        "0.2",
        "--log",
        str(log),
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    options = [
        "--writer",
        "llm",
        "--llm",
        "m",
        "--base-url",
        url,
        "--cache",
        str(cache),
        "--concurrency",
        str(SLOTS),
        "--timeout",
        "2",
        "--tries",
        "8",
        "--min-variants",
        str(VARIANTS),
    ]
    write = [
        sys.executable,
        "-m",
        "equipoise",
        "prompts",
        "write",
        "--from",
        str(texts),
        "-o",
        str(book),
        "--json",
        *options,
    ]

    def asked() -> list[dict]:
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        for row in rows:
            body = row["body"]
            row["key"] = key_of(
                url=url,
                model="m",
                messages=body["messages"],
                form="json" if "response_format" in body else "plain",
            )
        return rows

    try:
        before: set[str] = set()
        for seed in range(2):
            seen = len(asked())
            process = subprocess.Popen(write, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while len(before) + 600 > len(answered(cache) if cache.exists() else ()):
                assert process.poll() is None
                time.sleep(random.Random(seed).uniform(0.05, 0.2))
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(2.5)  # until the server has noticed, and logged what it held
            kept, rows = answered(cache), asked()
            assert not before & {
                row["key"] for row in rows[seen:]
            }  # what the cache had was not asked again
            lost = {row["key"] for row in rows if row["delivered"]} - kept
            assert len(lost) <= SLOTS and before <= kept
            before = kept
        seen = len(asked())
        result = subprocess.run(write, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert not before & {row["key"] for row in asked()[seen:]}
    finally:
        server.terminate()
        server.wait()

    gender = eq.Attribute.load("gender")
    written = eq.PromptBook.load(book)
    assert written.missing(prompts(1000), gender) == [] and len(written) == 1000
    assert check_book(written, gender, min_variants=VARIANTS) == []
    assert json.loads(result.stdout)["failures"] == []
    rows = asked()
    faults = Counter(row["fault"] for row in rows)
    assert (
        0.15 < 1 - faults[None] / len(rows) < 0.25 and len(faults) == 10
    )  # every kind of fault came
    delivered = Counter(row["key"] for row in rows if row["delivered"])
    twice = sum(count - 1 for count in delivered.values())
    assert twice <= 2 * SLOTS  # in flight at one of the two kills
    with sqlite3.connect(cache) as db:
        counts = db.execute(
            'SELECT prompt, "group", step, attempt, count(*) FROM answers GROUP BY 1, 2, 3, 4'
        ).fetchall()
        assert len({row[:2] for row in counts}) == 2000 and all(row[-1] == 1 for row in counts)
