"""An HTTP client for servers that are not trusted: each answer has a deadline and a largest size,
redirects are not followed, cookies are not kept.
"""

from __future__ import annotations

import asyncio
import zlib
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

LARGEST = 4 * 2**20
"""Bytes of an answer, decompressed. One of 128,000 tokens is about half a megabyte."""
_KEPT = ("retry-after", "retry-after-ms", "location")  # the headers that are read later on
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_ANY_HEADER = zlib.MAX_WBITS | 32  # zlib's word for: of gzip or of zlib, find out which
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class UnboundedAnswerError(ConnectionError):
    """A server sent more than it may, or took longer than it may."""


def bounded_client(openai: Any, base_url: str, seconds: float, largest: int = LARGEST) -> Any:
    """Return an HTTP client for the SDK that gives each request ``seconds`` from end to end.

    largest: bytes of an answer, decompressed. The SDK's own timeout is for each read: a server
    that sends a byte at a time outlives it.
    """

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **options: Any) -> Any:
            options["stream"] = True
            try:
                async with asyncio.timeout(seconds):
                    answer = await super().send(request, **options)
                    try:
                        body = await _body(answer, largest)
                    finally:
                        await answer.aclose()
            except TimeoutError:
                raise UnboundedAnswerError(
                    f"the answer was not complete after {seconds:g} s"
                ) from None
            return _plain(answer, body, request)

    return Bounded(
        timeout=seconds,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        mounts=_past_proxies(base_url),
        headers={"Accept-Encoding": "gzip"},
    )


def _past_proxies(base_url: str) -> dict[str, None]:
    """Return what keeps requests to this machine from a proxy that the environment names."""
    host = urlsplit(base_url).hostname or ""
    if host not in LOOPBACK:
        return {}
    name = f"[{host}]" if ":" in host else host
    return {f"all://{name}": None}


async def _body(answer: Any, largest: int) -> bytes:
    """Return the decompressed body of an answer; raise as soon as it is too large."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_COMPRESSED):
        raise UnboundedAnswerError(f"the answer is compressed as {encoding[:40]!r}; gzip is legal")
    decompressor = zlib.decompressobj(_ANY_HEADER)
    body = bytearray()
    async for chunk in answer.aiter_raw():
        if encoding == "identity":
            body += chunk
        else:
            body += _inflate(decompressor, chunk, largest + 1 - len(body))
        if len(body) > largest:
            raise UnboundedAnswerError(f"the answer is larger than {largest:,} bytes")
    return bytes(body)


def _inflate(decompressor: Any, chunk: bytes, most: int) -> bytes:
    try:
        return decompressor.decompress(chunk, most)
    except zlib.error as error:
        raise UnboundedAnswerError(f"the answer cannot be decompressed ({error})") from None


def _plain(answer: Any, body: bytes, request: Any) -> Any:
    """Return an answer that holds these bytes and nothing else of what the server said.

    Its type and character set are ours: Python knows "zlib" as a character set, which would
    decompress once more.
    """
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    headers["content-type"] = "application/json; charset=utf-8"
    return type(answer)(answer.status_code, headers=headers, content=body, request=request)
