"""A server that speaks OpenAI's chat protocol: many requests at a time, each tried again where that
may help; no key in any message.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
from base64 import b64encode
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

from equipoise.errors import InputError, MissingExtraError, ServiceError
from equipoise.prompts.cache import Answer

KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI = "https://api.openai.com/v1"
_LONGEST_WAIT = 300.0
_REFUSALS = 4  # by a server that never answered anything, before it is believed to refuse all
_STRUCTURED = (
    400,
    404,
    415,
    422,
    501,
)  # what servers without structured output answer to a request for it


class Ask(Protocol):
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
    request. temperature, seed: the server's own by default.
    """

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
                "a language model needs a name, as its server lists it (gpt-5, llama3.2, ...)"
            )
        require_whole(concurrency=(concurrency, 1), retries=(retries, 0))
        if not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
            raise InputError(f"timeout={timeout} is not legal; it is a number of seconds above 0")
        if temperature is not None and not (
            isinstance(temperature, int | float) and 0 <= temperature < math.inf
        ):
            raise InputError(
                f"temperature={temperature} is not legal; it is a number from 0, or None for the"
                " server's own"
            )
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")
        if (
            urlsplit(self.base_url).scheme not in ("http", "https")
            or not urlsplit(self.base_url).netloc
        ):
            raise InputError(
                f"base_url={self.shown_url!r} is no address; it begins with http:// or https:// and"
                " mostly ends in /v1"
            )
        self.key = api_key or os.environ.get(KEY_VARIABLE) or ""
        self.model, self.concurrency, self.retries, self.timeout = (
            model,
            concurrency,
            retries,
            timeout,
        )
        self.sampling = {
            name: value
            for name, value in (("temperature", temperature), ("seed", seed))
            if value is not None
        }
        self.form = "json"
        self.answered = self.structured = False

    @property
    def shown_url(self) -> str:
        """The server's address without user, password and query."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

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
        self.completion: type = self.openai.types.chat.ChatCompletion
        self.slots = asyncio.Semaphore(service.concurrency)
        self.asked = self.refused = 0

    async def __aenter__(self) -> Self:
        options = {
            "base_url": self.service.base_url,
            "api_key": self.service.key or "none",
            "timeout": self.service.timeout,
        }
        self.client = await self.openai.AsyncOpenAI(max_retries=0, **options).__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.__aexit__(*error)

    async def request(self, ask: Ask) -> tuple[Answer, str]:
        """An answer, and the form that it was asked for in.

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
                    # As chat.completions.create does, less its walk through the types of every
                    # message, a third of the client's time.
                    completion = await self.client.post(
                        "/chat/completions", body=self._body(ask, form), cast_to=self.completion
                    )
                answer = _answer_of(completion)
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
            except (
                openai.APIError,
                ValueError,
                TypeError,
            ) as error:  # ValueError: a body that is no JSON
                wait = self._after(error, failed := failed + 1)
            await asyncio.sleep(wait)

    def _after(self, error: Exception, failed: int) -> float:
        """Seconds before the next try of a request that failed so often; raises where there is
        none.
        """
        service, openai = self.service, self.openai
        status = getattr(error, "status_code", None)
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            raise ServiceError(
                self._say(f"does not accept the key; set {KEY_VARIABLE}", error)
            ) from None
        if status == 404:
            raise ServiceError(
                self._say(f"knows no such address or no model {service.model!r}; check both", error)
            ) from None
        if (
            status is not None and status < 500 and status not in (408, 409, 425, 429)
        ):  # of this prompt, it may be: a content filter
            self.refused += 1
            reason = self._say("refuses the request", error)
            raise (
                Refused(reason)
                if service.answered or self.refused < _REFUSALS
                else ServiceError(reason)
            )
        wait = _wait(error, failed)
        nobody = (
            failed > 1 and not service.answered and type(error.__cause__).__name__ == "ConnectError"
        )
        if (
            nobody
            or failed > service.retries
            or wait > _LONGEST_WAIT
            or getattr(error, "code", "") == "insufficient_quota"
        ):
            reason = self._say(
                f"failed {failed} times" if wait <= _LONGEST_WAIT else f"asks to wait {wait:.0f} s",
                error,
            )
            raise GaveUp(reason) if service.answered else ServiceError(reason)
        return wait

    def _body(self, ask: Ask, form: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.service.model,
            "messages": ask.worded(form),
            **self.service.sampling,
        }
        if form == "json":
            schema = {"name": ask.step, "strict": True, "schema": ask.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _say(self, what: str, error: Exception) -> str:
        """One line about a failure, without the key."""
        cause = str(error.__cause__ or "")
        detail = " ".join(str(error).split())
        detail = f"{detail} ({cause})" if cause and cause not in detail else detail
        user = urlsplit(self.service.base_url).netloc.rpartition("@")[0]
        for secret in filter(None, (self.service.key, user, b64encode(user.encode()).decode())):
            detail = detail.replace(secret, "***")
        return (
            f"the server at {self.service.shown_url} {what}: {detail[:200]}; what was answered is"
            " kept, so run it again to go on"
        )


def run_anywhere(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, inside a notebook's loop too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def require_whole(**options: tuple[Any, int]) -> None:
    """Raise unless each option, (value, least), is a whole number from its least on."""
    for name, (value, least) in options.items():
        if not isinstance(value, int) or value < least:
            raise InputError(f"{name}={value} is not legal; it is a whole number, {least} or more")


def _answer_of(completion: Any) -> Answer:
    """What a completion says; ValueError where it is none."""
    choices = getattr(completion, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise ValueError("the answer is no chat completion")
    choice = choices[0]
    refusal = getattr(choice.message, "refusal", None)
    if refusal or choice.finish_reason == "content_filter":
        return Answer(refusal or choice.message.content or "", "refused")
    return Answer(
        choice.message.content or "", "cut off" if choice.finish_reason == "length" else ""
    )


def _wait(error: Exception, failed: int) -> float:
    """Seconds before the next try: what the server asks for, else half a second doubled each time,
    with jitter.
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
    """What a header says, if it is a number: nan is none."""
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
