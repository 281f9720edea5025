"""A server that speaks OpenAI's chat protocol: many requests at a time, each tried again where that
may help; no key in any message or answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

from equipoise.errors import InputError, MissingExtraError, ServiceError
from equipoise.prompts._answer_cache import Answer
from equipoise.prompts._bounded_http import LARGEST, UnboundedAnswerError, bounded_client

Made = TypeVar("Made")

KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI = "https://api.openai.com/v1"
_LONGEST_WAIT = 300.0
_SHORTEST_SECRET = 8  # a shorter key is a placeholder (none, EMPTY, ollama), and may be a word
_REFUSALS = 4  # by a server that never answered anything, before it is believed to refuse all
# what servers without structured output answer to a request for it
_STRUCTURED = (400, 404, 415, 422, 501)
_MAY_PASS = (408, 409, 425, 429)  # client errors that another try may not meet


class Request(Protocol):
    """A request: what is said, in "json" or "plain" form, and the JSON schema of the answer, named
    by the step.
    """

    @property
    def step(self) -> str: ...

    @property
    def schema(self) -> dict[str, object]: ...

    def worded(self, form: str) -> list[dict[str, Any]]: ...


class GaveUp(Exception):
    """A request failed as often as it may; the message says how."""


class Refused(GaveUp):
    """The server will not answer this request: a content filter, it may be."""


class Service:
    """Where a model is asked, and how.

    What a server turns out to be able to do is remembered for all connections to it.

    base_url: the server's address (OpenAI's own by default). api_key: $OPENAI_API_KEY by default.
    concurrency: requests at a time. retries: how often a request may fail. timeout: seconds for one
    request and its whole answer. temperature, seed: the server's own by default. largest: bytes of
    an answer.
    """

    largest: int = LARGEST

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        concurrency: int = 16,
        retries: int = 6,
        timeout: float = 120.0,
        temperature: float | None = None,
        seed: int | None = None,
    ):
        if not model or not isinstance(model, str):
            raise InputError(
                "no language model was named; pass the name that its server lists (gpt-5, llama3.2,"
                " ...) as `model`"
            )
        require_whole(concurrency=(concurrency, 1), retries=(retries, 0))
        _require_seconds(timeout)
        _require_temperature(temperature)
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")
        self._require_address()
        self.key = api_key or os.environ.get(KEY_VARIABLE) or ""
        self.model = model
        self.concurrency = concurrency
        self.retries = retries
        self.timeout = timeout
        self.sampling: dict[str, float] = {}
        if temperature is not None:
            self.sampling["temperature"] = temperature
        if seed is not None:
            self.sampling["seed"] = seed
        self.form = "json"
        self.answered = self.structured = False

    def _require_address(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError(
                f"base_url={self.shown_url!r} is no address; pass one that begins with http:// or"
                " https:// and usually ends in /v1"
            )

    @property
    def shown_url(self) -> str:
        """Return the server's address without user, password and query."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def secrets(self) -> list[str]:
        """Return what no message and no answer may hold: the key, and the user and password of the
        address, as they are and as they are sent.
        """
        user = urlsplit(self.base_url).netloc.rpartition("@")[0]
        sent = b64encode(user.encode()).decode()
        return [secret for secret in (self.key, user, sent) if secret]

    def require_key(self) -> None:
        """Raise where OpenAI's own server would be asked without one."""
        if not self.key and self.base_url == OPENAI:
            raise InputError(
                f"there is no key for {OPENAI}; set {KEY_VARIABLE}, or pass the base_url of a"
                " server of your own"
            )


class Client:
    """One connection to a service, and the requests through it; an async context manager."""

    def __init__(self, service: Service):
        self.service = service
        self.openai = _openai()
        self.slots = asyncio.Semaphore(service.concurrency)
        self.asked = self.refused = 0

    async def __aenter__(self) -> Self:
        service = self.service
        self.client = self.openai.AsyncOpenAI(
            base_url=service.base_url,
            api_key=service.key or "none",
            timeout=service.timeout,
            max_retries=0,
            http_client=bounded_client(
                self.openai, service.base_url, service.timeout, service.largest
            ),
        )
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.__aexit__(*error)

    async def request(self, ask: Request) -> tuple[Answer, str]:
        """Return an answer, and the form that it was asked for in.

        Failures that may pass are tried again; a slot is held only while asking.
        """
        service, openai = self.service, self.openai
        failed, only_plain = 0, False
        while True:
            form = ""
            try:
                async with self.slots:
                    form = "plain" if only_plain else service.form
                    self.asked += 1
                    # Less than chat.completions.create does: no walk through the types of every
                    # message, and an answer that is not made into the SDK's objects.
                    body = await self.client.post(
                        "/chat/completions", body=self._body(ask, form), cast_to=bytes
                    )
                answer = _answer_of(body, service.secrets)
                service.answered = True
                service.structured |= form == "json"
                if only_plain and not service.structured:
                    service.form = "plain"
                return answer, form
            except openai.APIStatusError as error:
                if form == "json" and error.status_code in _STRUCTURED:
                    only_plain = True
                    if re.search("response_format|json_schema", str(error)):
                        service.form = "plain"  # a server without structured output
                    continue
                wait = self._after(error, failed := failed + 1)
            except (openai.APIError, UnboundedAnswerError, ValueError, TypeError) as error:
                wait = self._after(error, failed := failed + 1)  # ValueError: no chat completion
            await asyncio.sleep(wait)

    async def post(
        self,
        path: str,
        body: Mapping[str, object],
        read: Callable[[bytes], Made],
        headers: Mapping[str, str],
    ) -> Made:
        """Return what ``read`` makes of an answer; it raises a ValueError for one that is none.

        Failures that may pass are tried again with the same body and headers.
        """
        failed = 0
        while True:
            try:
                async with self.slots:
                    self.asked += 1
                    answer = await self.client.post(
                        path, body=dict(body), cast_to=bytes, options={"headers": dict(headers)}
                    )
                found = read(answer)
                self.service.answered = True
                return found
            except (self.openai.APIError, UnboundedAnswerError, ValueError, TypeError) as error:
                wait = self._after(error, failed := failed + 1)
            await asyncio.sleep(wait)

    def _after(self, error: Exception, failed: int) -> float:
        """Return the seconds to wait before the next try, after ``failed`` tries; raise where no
        other try would help.
        """
        status = getattr(error, "status_code", None)
        if status is not None:
            self._require_may_pass(error, status)
        wait = _wait(error, failed)
        if wait > _LONGEST_WAIT:
            raise self._end(self._say(f"asks to wait {wait:.0f} s", error))
        no_quota = getattr(error, "code", "") == "insufficient_quota"
        if failed > self.service.retries or no_quota or self._nobody_is_there(error, failed):
            raise self._end(self._say(f"failed {failed} times", error))
        return wait

    def _require_may_pass(self, error: Exception, status: int) -> None:
        """Raise for an answer that another try would not change."""
        if 300 <= status < 400:
            raise ServiceError(self._say(f"redirects {self._where(error)}", error)) from None
        if status in (401, 403):
            raise ServiceError(
                self._say(f"does not accept the key; set {KEY_VARIABLE}", error)
            ) from None
        if status == 404:
            model = self.service.model
            raise ServiceError(
                self._say(f"knows no such address or no model {model!r}; check both", error)
            ) from None
        if status < 500 and status not in _MAY_PASS:
            raise self._refusal(self._say("refuses the request", error))

    def _refusal(self, reason: str) -> ServiceError | Refused:
        """Return the error of a refused request: of this prompt alone, as a content filter
        refuses, or of the server, where it has refused all that was asked.
        """
        self.refused += 1
        if self.service.answered or self.refused < _REFUSALS:
            return Refused(reason)
        return ServiceError(reason)

    def _nobody_is_there(self, error: Exception, failed: int) -> bool:
        """Return whether a server that never answered cannot be reached a second time."""
        unreachable = type(error.__cause__).__name__ == "ConnectError"
        return failed > 1 and unreachable and not self.service.answered

    def _end(self, reason: str) -> ServiceError | GaveUp:
        """Return the error after the last try: of this prompt where the server has answered."""
        return GaveUp(reason) if self.service.answered else ServiceError(reason)

    def _body(self, ask: Request, form: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.service.model,
            "messages": ask.worded(form),
            **self.service.sampling,
        }
        if form == "json":
            schema = {"name": ask.step, "strict": True, "schema": ask.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _where(self, error: Exception) -> str:
        """Return where a redirect leads, in words: requests with a key go to the address given
        alone.
        """
        headers = getattr(getattr(error, "response", None), "headers", {})
        place = redacted(_printable(headers.get("location", "")), self.service.secrets)
        return f"to {place[:100] or 'nowhere'!r}; pass the address that it should go to as base_url"

    def _say(self, what: str, error: Exception) -> str:
        """Return one line about a failure, without the key and without codes for a terminal."""
        cause = str(error.__cause__ or "")
        detail = str(error)
        if cause and cause not in detail:
            detail = f"{detail} ({cause})"
        detail = redacted(_printable(detail), self.service.secrets)
        return (
            f"the server at {self.service.shown_url} {what}: {detail[:200]}; what was answered is"
            " kept, so run it again to go on"
        )


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text with *** in place of each secret, also of one that is written in JSON's
    escapes.
    """
    for secret in secrets:
        text = text.replace(secret, "***")
        unescaped = _unescaped(text)
        if secret in unescaped:
            text = unescaped.replace(secret, "***")
    return text


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)


def _printable(text: str) -> str:
    """Return a text on one line, with ? for what is no letter: escape sequences, surrogates."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def run_anywhere(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, inside a notebook's loop too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _require_seconds(timeout: float) -> None:
    if not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        raise InputError(f"timeout={timeout} is not legal; it is a number of seconds above 0")


def _require_temperature(temperature: float | None) -> None:
    if temperature is None:
        return
    if not (isinstance(temperature, int | float) and 0 <= temperature < math.inf):
        raise InputError(
            f"temperature={temperature} is not legal; it is a number from 0, or None for the"
            " server's own"
        )


def require_whole(**options: tuple[Any, int]) -> None:
    """Raise unless each option, (value, least), is a whole number from its least on."""
    for name, (value, least) in options.items():
        if not isinstance(value, int) or value < least:
            raise InputError(f"{name}={value} is not legal; it is a whole number, {least} or more")


def _answer_of(body: bytes, secrets: Sequence[str]) -> Answer:
    """Return what a chat completion says; raise ValueError where the body is none."""
    choice = _choice_of(body)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError("the answer is no chat completion: its choice has no message")
    refusal = _text_of(message, "refusal", secrets)
    content = _text_of(message, "content", secrets)
    reason = choice.get("finish_reason")
    if refusal or reason == "content_filter":
        return Answer(refusal or content, "refused")
    return Answer(content, "cut off" if reason == "length" else "")


def _choice_of(body: bytes) -> dict[str, Any]:
    try:
        completion = json.loads(body)
    except RecursionError:
        raise ValueError("the answer is JSON that is nested too deeply") from None
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ValueError("the answer is no chat completion: it has no choices")
    return choices[0]


def _text_of(message: dict[str, Any], field: str, secrets: Sequence[str]) -> str:
    """Return a text of a message that can be written anywhere: without secrets, and without
    halves of characters, which JSON may hold and UTF-8 may not.
    """
    text = message.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ValueError(f"the answer is no chat completion: its {field} is of type {kind}")
    whole = text.encode("utf-8", "replace").decode()
    return redacted(whole, [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET])


def _wait(error: Exception, failed: int) -> float:
    """Return the seconds before the next try: what the server asks for, else half a second doubled
    each time, with jitter.
    """
    headers = getattr(getattr(error, "response", None), "headers", {})
    backoff = min(60.0, 0.5 * 2 ** (failed - 1)) * random.uniform(0.5, 1.0)
    if milliseconds := headers.get("retry-after-ms"):
        return _number(milliseconds, backoff * 1000) / 1000
    after = headers.get("retry-after")
    if after is None:
        return backoff
    if (seconds := _number(after, -1.0)) >= 0:
        return seconds
    try:
        return max(parsedate_to_datetime(after).timestamp() - time(), 0.0)
    except (TypeError, ValueError):
        return backoff


def _number(text: str, default: float) -> float:
    """Return what a header says, if it is a number: nan is none."""
    try:
        return default if math.isnan(float(text)) else max(float(text), 0.0)
    except ValueError:
        return default


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtraError("asking a language model", "openai", "openai") from None
    return openai
