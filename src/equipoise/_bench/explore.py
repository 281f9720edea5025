"""The explore page under a clock: from a key to both rows, and with many browsers at once.

The server is real and runs in a process of its own. What a browser does is asked over loopback.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any, cast
from urllib.parse import parse_qs, urlsplit

import numpy as np

from equipoise._audit.embedded_gallery import find_gallery
from equipoise._verbs.explore import explore
from equipoise.encoders import load_encoder
from equipoise.errors import InputError, ServiceError

JOBS = ("doctor", "nurse", "engineer", "teacher", "chef", "pilot", "judge", "clerk", "singer")
LOOKS = ("smiling", "young", "tired", "kind", "famous", "tall", "serious", "cheerful", "busy")
PICTURES = 10  # of each row, that a browser shows without scrolling
SHADES = 24  # by which copies of the gallery's pictures differ from them
NOISE = 0.5  # of the length of a vector, by which copies differ from the gallery's
BLOCK = 65_536


@dataclass(frozen=True)
class KeyTiming:
    """From a key to the rows, in milliseconds: medians and 95th percentiles over texts.

    first: until the plain row is here. both: until the balanced one is, too.
    """

    images: int
    dim: int
    texts: int
    first: float
    first_p95: float
    both: float
    both_p95: float
    seconds_to_start: float


@dataclass(frozen=True)
class CrowdResult:
    """Many browsers at once. errors: answers of 500 and above, and broken connections."""

    browsers: int
    seconds: float
    searches: int
    pictures: int
    errors: int
    both: float
    both_p95: float
    megabytes_before: float
    megabytes_after: float


@dataclass
class KeyClient:
    """One browser, without one: searches as it does, and reads parts as they come."""

    link: str
    statuses: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        parts = urlsplit(self.link)
        self.key = parse_qs(parts.fragment)["key"][0]
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=120)

    def search(self, text: str, **controls: Any) -> tuple[float, float, list[int]]:
        """Return seconds to the first row and to both, and the pictures that are shown."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        began = time.perf_counter()
        self._connection.request(
            "POST", "/api/search", json.dumps({"text": text, **controls}), headers
        )
        response = self._connection.getresponse()
        self.statuses[response.status] += 1
        first = json.loads(response.readline())
        first_after = time.perf_counter() - began
        second = json.loads(response.readline())
        both_after = time.perf_counter() - began
        response.read()
        shown = []
        for row in (first, second):
            shown += [image["id"] for image in row.get("images", [])[:PICTURES]]
        return first_after, both_after, shown

    def picture(self, place: int) -> None:
        """Fetch a small picture."""
        self._connection.request("GET", f"/picture/{place}?key={self.key}")
        response = self._connection.getresponse()
        response.read()
        self.statuses[response.status] += 1

    def close(self) -> None:
        self._connection.close()


@contextmanager
def started(source: Path | None, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start a server in a process of its own; yield it and its link."""
    named = [] if source is None else [str(source)]
    command = [sys.executable, "-m", "equipoise", "explore", *named, "--json", "--port", "0"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            line = cast(IO[str], process.stdout).readline()
            if not line:
                raise ServiceError(f"the server did not start; type: {' '.join(command)}")
            yield process, json.loads(line)["link"]
        finally:
            process.terminate()


def measure_photographs(count: int, texts: int, seed: int = 0) -> KeyTiming:
    """Measure searches of new texts in a folder of photographs, which mini encodes first."""
    _check(count, texts)
    with tempfile.TemporaryDirectory() as place:
        folder = _photographs(Path(place), count, seed)
        began = time.perf_counter()
        with started(folder, "-a", "gender") as (_, link):
            ready = time.perf_counter() - began
            return _timed(link, count, load_encoder("mini").dim, texts, seed, ready)


def measure_vectors(count: int, dim: int, texts: int, seed: int = 0) -> KeyTiming:
    """Measure searches of new texts in stored vectors, with mini as the text encoder.

    The server runs in a thread of this process, whose client only waits meanwhile.
    """
    _check(count, texts)
    encoder = WideText(load_encoder("mini"), dim)
    rows = _vectors(encoder, count, seed)
    began = time.perf_counter()
    with explore(rows, encoder=encoder, attribute="gender") as page:
        ready = time.perf_counter() - began
        return _timed(page.url, count, dim, texts, seed, ready)


class WideText:
    """A text encoder as wide as stored vectors: mini's rows side by side."""

    def __init__(self, encoder: Any, dim: int):
        if dim < encoder.dim or dim % encoder.dim:
            raise InputError(f"dim={dim!r} is not legal; pass a multiple of {encoder.dim}")
        self.encoder, self.dim = encoder, dim
        self.id = f"{encoder.id}, {dim} wide"

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit rows (n, dim)."""
        return self.widened(self.encoder.encode_text(list(texts)))

    def widened(self, rows: np.ndarray) -> np.ndarray:
        """Return rows side by side, of unit length again."""
        times = self.dim // self.encoder.dim
        return np.tile(rows, times) / np.float32(np.sqrt(times))


def _check(count: int, texts: int) -> None:
    if min(count, texts) < 1:
        raise InputError(f"{count} images and {texts} texts are not legal; pass one or more")


def _timed(link: str, count: int, dim: int, texts: int, seed: int, ready: float) -> KeyTiming:
    client = KeyClient(link)
    asked = _texts(texts, seed)
    client.search(asked[0])
    times = np.array([client.search(text)[:2] for text in asked[1:]]) * 1e3
    client.close()
    (first, both), (first_p95, both_p95) = np.quantile(times, [0.5, 0.95], axis=0).tolist()
    return KeyTiming(count, dim, len(times), first, first_p95, both, both_p95, ready)


def measure_crowd(browsers: int, seconds: float, pause: float = 1.0, seed: int = 0) -> CrowdResult:
    """Measure many browsers at once on the gallery: each types, looks, and types again."""
    if browsers < 1 or seconds <= 0:
        raise InputError(f"{browsers} browsers, {seconds} s are not legal; pass one or more")
    with started(None, "-a", "gender") as (process, link):
        before = _megabytes(process.pid)
        stop = threading.Event()
        timer = threading.Timer(seconds, stop.set)
        timer.start()
        with ThreadPoolExecutor(browsers) as pool:
            work = [
                pool.submit(_browse, link, Random(f"{seed} {i}"), pause, stop)
                for i in range(browsers)
            ]
            found = [one.result() for one in work]
        timer.cancel()
        after = _megabytes(process.pid)
    took: list[float] = []
    statuses: Counter[int] = Counter()
    broken = 0
    for times, seen, lost in found:
        took += times
        statuses += seen
        broken += lost
    errors = broken + sum(n for status, n in statuses.items() if status >= 500)
    middle, late = np.quantile(np.array(took or [0.0]) * 1e3, [0.5, 0.95])
    pictures = sum(statuses.values()) - len(took)
    return CrowdResult(
        browsers,
        seconds,
        len(took),
        pictures,
        errors,
        float(middle),
        float(late),
        before,
        after,
    )


def _browse(
    link: str, random: Random, pause: float, stop: threading.Event
) -> tuple[list[float], Counter[int], int]:
    """Return the seconds of each search, all statuses, and how many connections broke."""
    client, times, broken = KeyClient(link), [], 0
    while not stop.is_set():
        text = f"a photo of a {random.choice(LOOKS)} {random.choice(JOBS)}"
        try:
            strength = random.choice((0.25, 0.5, 1.0))
            _, both, shown = client.search(text, k=random.choice((10, 20, 40)), strength=strength)
            times.append(both)
            for place in shown:
                client.picture(place)
        except (OSError, http.client.HTTPException, ValueError):
            broken += 1
            client.close()
            client = KeyClient(link, client.statuses)
        stop.wait(pause * random.uniform(0.5, 1.5))
    client.close()
    return times, client.statuses, broken


def _texts(count: int, seed: int) -> list[str]:
    """Return one text more than asked for, all different, about people."""
    random = Random(seed)
    found: dict[str, None] = {}
    while len(found) <= count:
        look, job = random.choice(LOOKS), random.choice(JOBS)
        found[f"a photo of a {look} {job} number {len(found)}"] = None
    return list(found)


def _photographs(folder: Path, count: int, seed: int) -> Path:
    """Write a folder of pictures: those of the gallery, and then those with noise on them."""
    import io

    import pandas as pd
    from PIL import Image

    given = pd.read_parquet(_gallery().table)["image"].tolist()
    rng = np.random.default_rng(seed)
    for i in range(count):
        data = given[i % len(given)]
        path = folder / f"{i:06}.jpg"
        if i < len(given):
            path.write_bytes(data)
            continue
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)
        noisy = pixels + rng.integers(-SHADES, SHADES, pixels.shape)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return folder


def _vectors(encoder: WideText, count: int, seed: int) -> np.ndarray:
    """Return unit rows (count, dim): the gallery's, each with noise of its own."""
    import pandas as pd

    pictures = pd.read_parquet(_gallery().table)["image"].tolist()
    known = encoder.widened(encoder.encoder.encode_images(pictures))
    rng = np.random.default_rng(seed)
    rows = np.empty((count, encoder.dim), np.float32)
    for start in range(0, count, BLOCK):
        block = rows[start : start + BLOCK]
        rng.standard_normal(out=block, dtype=np.float32)
        block *= NOISE / np.sqrt(encoder.dim)
        block += known[rng.integers(0, len(known), len(block))]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def _gallery() -> Any:
    found = find_gallery()
    if found is None:
        raise InputError('there is no gallery here; type: pip install -U "equipoise[mini]"')
    return found


def _megabytes(process: int) -> float:
    """Return what a process holds in memory; 0 where the system does not say."""
    path = f"/proc/{process}/status"
    if not os.path.exists(path):
        return 0.0
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0
