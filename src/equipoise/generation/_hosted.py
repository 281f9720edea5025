"""A generator behind an HTTP API that speaks OpenAI's images protocol.

The server is not trusted: answers have a deadline and a largest size, a picture comes in the answer
itself and has the size that was asked for, and nothing is fetched from an address that the server
names. Each picture has a key of its own (Idempotency-Key), the same at every try, by which a server
can tell a picture asked for twice from two pictures.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from equipoise.encoders._images import UnreadableImageError, open_image
from equipoise.errors import InputError, ServiceError
from equipoise.generation._painters import HOSTED, Painter, PartlyPaintedError
from equipoise.prompts._bounded_http import LOOPBACK
from equipoise.prompts._llm_client import Client, GaveUp, Refused, Service, run_anywhere

PATH = "/images/generations"
SIDE = 1024
LARGEST = 64 * 2**20
"""Bytes of an answer: a picture of 4096 x 4096 in base64."""
OPTIONAL = ("seed", "response_format")
"""Fields that some servers do not know; one that a server refuses by name is not sent again."""


class ImageService(Service):
    """Where pictures are asked for; its answers are larger than a language model's."""

    largest: int = LARGEST


class HostedPainter(Painter):
    """A model behind a server. A picture is its prompt's and seed's only if the server keeps to it.

    size: of a picture's side.
    """

    def __init__(self, service: Service, size: int = SIDE):
        self.service: Service = service
        self.size: int = size
        self.pipe: Any = None
        self.id: str = f"{HOSTED}{service.model} at {service.shown_url}"
        self.precision: str = "not known, on a server"
        self._sent: list[str] = list(OPTIONAL)

    def require_pipe(self, method: str) -> Any:
        raise InputError(
            f"{method} edits what prompts condition, and {self.id} takes prompts alone; pass"
            " balanced (how=prompt) or prompt-intervention, or a pipeline on this machine"
        )

    def require(self, prompts: Sequence[str]) -> None:
        self.service.require_key()

    def conditioned_by(self, encoder: Any) -> bool:
        return False

    def paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        found = run_anywhere(self._ask_all(prompts, seeds))
        painted = {i: one for i, one in enumerate(found) if isinstance(one, np.ndarray)}
        if len(painted) == len(found):
            return np.stack(found)
        failures = [one for one in found if isinstance(one, Exception)]
        fatal = [one for one in failures if not isinstance(one, GaveUp)]
        first = (fatal or failures)[0]
        if fatal and not isinstance(first, ServiceError):
            raise first
        raise PartlyPaintedError(str(first), painted, passing=not fatal)

    async def _ask_all(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[Any]:
        """Return a picture, or the error in its place, for each prompt and seed."""
        async with Client(self.service) as client:
            pairs = zip(prompts, seeds, strict=True)
            asked = [self._ask(client, prompt, seed) for prompt, seed in pairs]
            return await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, client: Client, prompt: str, seed: int) -> np.ndarray:
        while True:
            body = self._body(prompt, seed)
            try:
                key = _key(body, seed)
                return await client.post(PATH, body, self._read, {"Idempotency-Key": key})
            except (Refused, ServiceError) as error:
                if not self._without(str(error), body):
                    raise

    def _body(self, prompt: str, seed: int) -> dict[str, object]:
        size = f"{self.size}x{self.size}"
        body: dict[str, object] = {
            "model": self.service.model,
            "prompt": prompt,
            "n": 1,
            "size": size,
        }
        extras = {"seed": seed, "response_format": "b64_json"}
        return body | {name: extras[name] for name in self._sent}

    def _without(self, reason: str, body: Mapping[str, object]) -> bool:
        """Return whether a refusal names an optional field of the request; it is not sent again."""
        named = [name for name in OPTIONAL if name in body and name in reason]
        self._sent = [name for name in self._sent if name not in named]
        return bool(named)

    def _read(self, answer: bytes) -> np.ndarray:
        """Return the picture of an answer; raise a ValueError where it holds none as asked."""
        try:
            image = open_image(_picture_bytes(answer))
        except UnreadableImageError as error:
            raise ValueError(f"the answer holds no picture ({error})") from None
        pixels = np.asarray(image)
        if pixels.shape != (self.size, self.size, 3):
            height, width = pixels.shape[:2]
            raise ValueError(
                f"the picture is {width} x {height}, and {self.size} x {self.size} was asked for"
            )
        return pixels


def hosted_painter(
    model: str,
    base_url: str | None,
    size: int | None,
    unused: Mapping[str, Any],
    offline: bool,
) -> HostedPainter:
    """Return a painter on a server; raise for options that only a local model has."""
    for option, given in unused.items():
        if given is not None:
            raise InputError(f"a hosted generator takes no {option}; leave `{option}` out")
    service = ImageService(model, base_url=base_url, concurrency=4, timeout=180.0)
    host = urlsplit(service.base_url).hostname
    if offline and host not in LOOPBACK:
        raise InputError(f"`offline` was given, and {host} is not this machine; leave one out")
    return HostedPainter(service, size or SIDE)


def _picture_bytes(answer: bytes) -> bytes:
    try:
        document = json.loads(answer)
    except RecursionError:
        raise ValueError("the answer is JSON that is nested too deeply") from None
    data = document.get("data") if isinstance(document, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    encoded = first.get("b64_json") if isinstance(first, dict) else None
    if not isinstance(encoded, str):
        raise ValueError(
            "the answer holds no picture in base64 (b64_json); an address to fetch one from is not"
            " followed"
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the answer's picture is not base64 ({error})") from None


def _key(body: Mapping[str, object], seed: int) -> str:
    """Return the same key for the same picture at every try.

    The seed is in it also where the server knows none: pictures of one prompt are many.
    """
    text = json.dumps([seed, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
