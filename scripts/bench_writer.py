"""How much of 64 slots the language-model writer uses: 1,000 prompts x 2 groups against a loopback
server that holds each request for half a
second and spoils a fifth of them. Prints wall time over (all the time the server held requests) /
64; 1 would be perfect.

PYTHONPATH=src:. python scripts/bench_writer.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._llm_writer import LLMWriter
from equipoise.prompts._prompt_book import PromptBook

SLOTS, LATENCY, FAULTS, TIMEOUT = 64, 0.5, 0.2, 3.0


def prompts(count: int = 1000) -> list[str]:
    people = PromptBook.curated("people-gender").prompts
    activities = [prompt.removeprefix("a photo of a person") for prompt in people]
    return [
        f"{prompt}{activity}"
        for prompt in PromptBook.curated("occupations-gender").prompts
        for activity in activities
    ][:count]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            sys.executable,
            "-m",
            "tests.helpers.chat_server",
            "--latency",
            str(LATENCY),
            "--faults",
            str(FAULTS),
            "--log",
            str(log),
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        writer = LLMWriter(
            "m",
            base_url=url,
            cache=Path(folder) / "cache",
            min_variants=3,
            concurrency=SLOTS,
            timeout=TIMEOUT,
            tries=6,
        )
        began, cpu = time.perf_counter(), time.process_time()
        outcome = writer.write(prompts(), Attribute.load("gender"))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        server.terminate()
        server.wait()
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    held = sum(row["held"] for row in rows)
    spoilt = sum(row["fault"] is not None for row in rows)
    print(
        f"{len(rows)} requests, {spoilt} spoilt, {len(outcome.failures)} failures,"
        f" {len(outcome.book)} prompts"
    )
    print(
        f"wall {wall:.1f} s, server held {held:.1f} s, / {SLOTS} = {held / SLOTS:.1f} s, ratio"
        f" {wall * SLOTS / held:.3f}"
    )
    print(
        f"client CPU {cpu:.1f} s; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
