"""The annotation page under load: a real server in a process of its own, and many annotators.

They look, answer, take back and repeat.
"""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any, cast
from urllib.parse import urlsplit

import numpy as np

from equipoise._annotate.project import DATABASE
from equipoise.errors import InputError, ServiceError

ANSWERS = ("male", "female", "unsure")
DIFFERENT = 16  # pictures; the others are copies of them
UNDONE = 0.05  # share of answers that are taken back
REPEATED = 0.05  # share of requests that are sent twice, as after a lost reply


@dataclass(frozen=True)
class LoadTiming:
    """One address under load. Milliseconds are of a whole request, as its client sees it."""

    request: str
    count: int
    median: float
    p99: float
    slowest: float


@dataclass(frozen=True)
class LoadResult:
    """What was measured, and what must be zero.

    Zero must be answers of 500 and above, and confirmed labels that are missing or stored twice.
    """

    annotators: int
    images: int
    pause: float
    seconds: float
    rows: list[LoadTiming]
    errors: int
    lost: int
    doubled: int


@dataclass
class AnnotatorClient:
    """One annotator: what a browser does, without one.

    Statuses and times of all requests are kept.
    """

    address: str
    token: str
    cookie: str = ""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=60)

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the document or the bytes that come back."""
        headers = {"Cookie": self.cookie} | (
            {"Content-Type": "application/json"} if body is not None else {}
        )
        started = time.perf_counter()
        self._connection.request(
            "GET" if body is None else "POST",
            path,
            None if body is None else json.dumps(body),
            headers,
        )
        response = self._connection.getresponse()
        data = response.read()
        self.seconds["/picture" if path.startswith("/picture") else path].append(
            time.perf_counter() - started
        )
        self.statuses[response.status] += 1
        if cookie := response.headers.get("Set-Cookie"):
            self.cookie = cookie.split(";")[0]
        return (
            json.loads(data) if response.headers.get_content_type() == "application/json" else data
        )

    def enter(self) -> dict[str, Any]:
        """Return the first turn."""
        return self.call("/api/enter", {"token": self.token})

    def close(self) -> None:
        self._connection.close()


@contextmanager
def started(
    folder: Path, annotators: Sequence[str], *options: str
) -> Iterator[tuple[subprocess.Popen, dict[str, Any]]]:
    """Start a server in a process of its own; yield it and what it said when it was ready.

    It says its address, and a link for each annotator.
    """
    named = ["--annotators", ",".join(annotators)] if annotators else []
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "annotate",
        str(folder),
        *named,
        "--json",
        *(options or ("--port", "0")),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if not (line := cast(IO[str], process.stdout).readline()):
                raise ServiceError(f"the server did not start; type: {' '.join(command)}")
            yield process, json.loads(line)
        finally:
            process.terminate()


def measure(
    annotators: int,
    seconds: float,
    images: int,
    pause: float = 0.0,
    pixels: int = 512,
    seed: int = 0,
) -> LoadResult:
    """Measure for some seconds, or until all is answered.

    pause: seconds that each annotator looks at a picture, give or take half; 0: none.
    """
    from PIL import Image

    if min(annotators, images, pixels) < 1 or seconds <= 0 or pause < 0:
        given = (
            f"{annotators} annotators, {images} images, {pixels} pixels, {seconds} s, pauses of"
            f" {pause} s"
        )
        raise InputError(
            f"{given} are not legal; pass one or more of each, and a pause of 0 or more"
        )
    names = [f"annotator {i}" for i in range(annotators)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rng = np.random.default_rng(seed)
        for i in range(images):
            if i < DIFFERENT:
                rough = Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8))
                rough.resize((pixels, pixels), Image.Resampling.BICUBIC).save(
                    folder / f"{i:05}.png"
                )
            else:
                shutil.copy(folder / f"{i % DIFFERENT:05}.png", folder / f"{i:05}.png")
        with started(folder, names) as (_, ready):
            clients = [
                AnnotatorClient(ready["address"], ready["links"][name].split("token=")[1])
                for name in names
            ]
            begun, stop = time.perf_counter(), threading.Event()
            timer = threading.Timer(seconds, stop.set)
            timer.start()
            with ThreadPoolExecutor(annotators) as pool:
                confirmed = list(
                    pool.map(
                        lambda i: _work(clients[i], Random(f"{seed} {i}"), pause, stop),
                        range(annotators),
                    )
                )
            took = time.perf_counter() - begun
            timer.cancel()
        lost, doubled = _compare(folder / DATABASE, dict(zip(names, confirmed, strict=True)))
    rows = []
    for path in ("/picture", "/api/label", "/api/undo"):
        seconds_of_path: list[float] = []
        for client in clients:
            seconds_of_path += client.seconds[path]
        rows.append(_row(path, seconds_of_path))
    errors = sum(n for client in clients for status, n in client.statuses.items() if status >= 500)
    return LoadResult(
        annotators, images, pause, took, [row for row in rows if row.count], errors, lost, doubled
    )


def _work(
    client: AnnotatorClient, random: Random, pause: float, stop: threading.Event
) -> dict[str, str]:
    """Return the answers that were confirmed and not taken back, by picture."""
    said: dict[str, str] = {}
    turn = client.enter()
    while turn["picture"] and not stop.is_set():
        picture, answer = turn["picture"], random.choice(ANSWERS)
        client.call(f"/picture/{picture}")
        stop.wait(pause * random.uniform(0.5, 1.5))
        turn = _insist(client, "/api/label", {"picture": picture, "answer": answer}, random)
        said[picture] = answer
        if random.random() < UNDONE:
            turn = _insist(client, "/api/undo", {}, random)
            del said[picture]
    client.close()
    return said


def _insist(
    client: AnnotatorClient, path: str, fields: dict[str, str], random: Random
) -> dict[str, Any]:
    body = fields | {"request": secrets.token_hex(8)}
    if random.random() < REPEATED:
        client.call(path, body)
    return client.call(path, body)


def _compare(database: Path, confirmed: dict[str, dict[str, str]]) -> tuple[int, int]:
    """Count confirmed answers that are missing, and stored ones that nobody gave, or twice."""
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute("select annotator, picture, answer from labels").fetchall()
    given = {
        (name, picture, answer)
        for name, said in confirmed.items()
        for picture, answer in said.items()
    }
    return len(given - set(rows)), len(rows) - len(given & set(rows))


def _row(path: str, seconds: list[float]) -> LoadTiming:
    times = np.array(seconds or [0.0]) * 1e3
    return LoadTiming(
        path,
        len(seconds),
        float(np.median(times)),
        float(np.quantile(times, 0.99)),
        float(times.max()),
    )
