"""The language model as a writer: the openai SDK against any server that speaks its protocol, many requests at a time, each asked once."""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from equipoise.errors import ArtefactError, InputError, MissingExtraError, ServiceError
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import Entry, Source
from equipoise.prompts.cache import Answer, AnswerCache, key_of
from equipoise.prompts.conversation import INSTRUCTIONS, Ask, Result, converse
from equipoise.prompts.marks import names_person
from equipoise.prompts.validation import MIN_VARIANTS
from equipoise.prompts.writing import Failure, Outcome, Progress, make_book, pairs_of, today

KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI = "https://api.openai.com/v1"
_LONGEST_WAIT = 300.0
_REFUSALS = 4  # by a server that never answered anything, before it is believed to refuse all
_STRUCTURED = (400, 404, 415, 422, 501)  # what servers without structured output answer to a request for it
_CHARACTERS_A_TOKEN = 4
_NOBODY = "it names no person that is known; word it with one (a person, a doctor), or pass its noun as a person noun"


class Plan(NamedTuple):
    """What writing would take: pairs, those that the cache already answers, requests and tokens (estimates: no answer is asked again)."""

    pairs: int
    cached_pairs: int
    calls: int
    prompt_tokens: int
    answer_tokens: int


class _GaveUp(Exception):
    """A request failed as often as it may; the message says how."""


class LLMWriter:
    """Writes with a language model behind an OpenAI-compatible server.

    base_url: the server's address (OpenAI's own by default; Ollama, vLLM, llama.cpp and most providers have one). api_key: $OPENAI_API_KEY
    by default. cache: a sqlite file of answers, so that nothing is asked twice; None keeps them for this object only. concurrency: requests
    at a time. tries: how often validation may turn an answer away. retries: how often a request may fail. timeout: seconds for one request.
    allow_partial keeps entries that have an anchor and too few variants.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: str | os.PathLike | None = None,
        concurrency: int = 16,
        tries: int = 4,
        retries: int = 6,
        timeout: float = 120.0,
        min_variants: int = MIN_VARIANTS,
        temperature: float | None = None,
        seed: int | None = None,
        person_nouns: Sequence[str] = (),
        allow_partial: bool = False,
    ):
        if not model or not isinstance(model, str):
            raise InputError("a language model needs a name, as its server lists it (gpt-5, llama3.2, ...)")
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("tries", tries, 1),
            ("retries", retries, 0),
            ("min_variants", min_variants, 0),
        ):
            if not isinstance(value, int) or value < least:
                raise InputError(f"{name}={value} is not legal; it is a whole number, {least} or more")
        if not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
            raise InputError(f"timeout={timeout} is not legal; it is a number of seconds above 0")
        if temperature is not None and not (isinstance(temperature, int | float) and 0 <= temperature < math.inf):
            raise InputError(f"temperature={temperature} is not legal; it is a number from 0, or None for the server's own")
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")
        if urlsplit(self.base_url).scheme not in ("http", "https") or not urlsplit(self.base_url).netloc:
            raise InputError(f"base_url={self.shown_url!r} is no address; it begins with http:// or https:// and mostly ends in /v1")
        self._key = api_key or os.environ.get(KEY_VARIABLE) or ""
        self.model, self.concurrency, self.tries, self.retries, self.timeout = model, concurrency, tries, retries, timeout
        self.min_variants, self.allow_partial = min_variants, allow_partial
        self.sampling = {name: value for name, value in (("temperature", temperature), ("seed", seed)) if value is not None}
        self.person_nouns = frozenset(noun.lower() for noun in person_nouns)
        self.cache = AnswerCache(cache)
        self._form = "json"
        self._answered = self._structured = False

    @property
    def shown_url(self) -> str:
        """The server's address without user, password and query."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def write(self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None) -> Outcome:
        """Ask for every prompt and group that the cache does not hold; a book of what passed validation."""
        pairs = pairs_of(prompts, attribute)
        if not self._key and self.base_url == OPENAI:
            raise InputError(f"there is no key for {OPENAI}; set {KEY_VARIABLE}, or pass the base_url of a server of your own")
        run = _Run(self, pairs, attribute, progress)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run.all())
        with ThreadPoolExecutor(1) as pool:  # inside a notebook's loop
            return pool.submit(asyncio.run, run.all()).result()

    def plan(self, prompts: Sequence[str], attribute: Attribute) -> Plan:
        """What ``write`` would ask, without asking."""
        pairs = pairs_of(prompts, attribute)
        done = calls = told = heard = 0
        for prompt, group in pairs:
            if not self.can_ask(prompt, attribute):
                continue
            steps = self._converse(prompt, attribute, group)
            ask = next(steps)
            try:
                while (answer := self.known(ask)) is not None:
                    ask = steps.send(answer)
            except StopIteration:
                done += 1
                continue
            said = sum(len(message["content"]) for message in ask.worded("json"))
            variants = 2 * max(self.min_variants, 4) * (len(prompt) + 20)
            steps_left = 2 if ask.step == "anchor" else 1
            calls += steps_left
            told += steps_left * said + (steps_left - 1) * 400  # the second step repeats the first and adds its own request
            heard += variants + (steps_left - 1) * (len(prompt) + 20)
        return Plan(len(pairs), done, calls, math.ceil(told / _CHARACTERS_A_TOKEN), math.ceil(heard / _CHARACTERS_A_TOKEN))

    def can_ask(self, prompt: str, attribute: Attribute) -> bool:
        """Whether a prompt names a person: a model would make "a male car" of one that does not."""
        return names_person(prompt, attribute, self.person_nouns)

    def _converse(self, prompt: str, attribute: Attribute, group: str) -> Any:
        return converse(prompt, attribute, group, tries=self.tries, least=self.min_variants, person_nouns=self.person_nouns)

    def known(self, ask: Ask) -> Answer | None:
        """The cache's answer to a request, in whichever form it was asked, or None."""
        answers = (self.cache.get(self._key_of(ask, form)) for form in ("json", "plain"))
        return next((answer for answer in answers if answer is not None), None)

    def _key_of(self, ask: Ask, form: str) -> str:
        return key_of(url=self.base_url, model=self.model, messages=ask.worded(form), form=form, **self.sampling)

    def conversation_key(self, prompt: str, attribute: Attribute, group: str) -> str:
        """One prompt and group, with this model and these instructions."""
        facts = {"attribute": attribute.name, "prompt": prompt, "group": group, "instructions": INSTRUCTIONS}
        return key_of(url=self.base_url, model=self.model, **facts, **self.sampling)


class _Run:
    """One call of ``write``: its connection, its slots, its counts."""

    def __init__(self, writer: LLMWriter, pairs: list[tuple[str, str]], attribute: Attribute, progress: Progress | None):
        self.writer, self.pairs, self.attribute, self.progress = writer, pairs, attribute, progress
        self.results: dict[tuple[str, str], Result] = {}
        self.asked = self.cached = self.refused = 0

    async def all(self) -> Outcome:
        self.openai = _openai()
        self.completion: type = self.openai.types.chat.ChatCompletion
        self.slots = asyncio.Semaphore(self.writer.concurrency)
        # More conversations than slots, so that one that waits before a retry does not leave a slot idle.
        waiting = asyncio.Semaphore(4 * self.writer.concurrency)
        options = {
            "base_url": self.writer.base_url,
            "api_key": self.writer._key or "none",
            "max_retries": 0,
            "timeout": self.writer.timeout,
        }
        stopped: Exception | None = None
        async with self.openai.AsyncOpenAI(**options) as self.client:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for pair in self.pairs:
                        if not self.writer.can_ask(pair[0], self.attribute):
                            self.results[pair] = Result(None, _NOBODY, 0)
                            continue
                        await waiting.acquire()
                        tasks.create_task(self._one(*pair)).add_done_callback(lambda _: waiting.release())
            except* (ServiceError, ArtefactError) as errors:  # ArtefactError: the cache can no longer be written
                stopped = errors.exceptions[0]
        if stopped and not any(result.entry for result in self.results.values()):
            raise stopped
        return self._outcome(str(stopped) if stopped else "")

    def _outcome(self, stopped: str) -> Outcome:
        rows: dict[tuple[str, str], Entry] = {}
        failures = []
        for pair in self.pairs:
            result = self.results.get(pair, Result(None, stopped, 0))
            if result.reason:
                failures.append(Failure(*pair, result.reason))
            if result.entry and (not result.reason or self.writer.allow_partial):
                rows[pair] = result.entry
        source = Source(writer="llm", model=self.writer.model, date=today(), instructions=INSTRUCTIONS)
        rejected = sum(result.rejected for result in self.results.values())
        return Outcome(make_book(rows, source), tuple(failures), rejected, self.asked, self.cached)

    async def _one(self, prompt: str, group: str) -> None:
        writer = self.writer
        conversation = writer.conversation_key(prompt, self.attribute, group)
        steps = writer._converse(prompt, self.attribute, group)
        put: list[str] = []
        try:
            ask = next(steps)
            while True:
                ask = steps.send(await self._answer(ask, conversation, prompt, group, put))
        except StopIteration as done:
            result = done.value
            if result.reason:
                writer.cache.forget(put)  # what came to nothing is asked again next time; what was there before stays
        except _GaveUp as error:
            result = Result(None, str(error), 0)
        self.results[prompt, group] = result
        if self.progress:
            self.progress(len(self.results), len(self.pairs))

    async def _answer(self, ask: Ask, conversation: str, prompt: str, group: str, put: list[str]) -> Answer:
        writer = self.writer
        if (known := writer.known(ask)) is not None:
            self.cached += 1
            return known
        answer, form = await self._request(ask)
        put.append(writer._key_of(ask, form))
        writer.cache.put(put[-1], conversation, prompt, group, ask.step, ask.attempt, writer.model, answer)
        return answer

    async def _request(self, ask: Ask) -> tuple[Answer, str]:
        """An answer, and the form that it was asked for in. Failures that may pass are tried again; a slot is held only while asking."""
        writer, openai = self.writer, self.openai
        failed, only_plain = 0, False
        while True:
            form = ""
            try:
                async with self.slots:
                    form = "plain" if only_plain else writer._form
                    self.asked += 1
                    # As chat.completions.create does, less its walk through the types of every message, a third of the client's time.
                    completion = await self.client.post("/chat/completions", body=self._body(ask, form), cast_to=self.completion)
                answer = _answer_of(completion)
                writer._answered = True
                writer._structured |= form == "json"
                if only_plain and not writer._structured:
                    writer._form = "plain"
                return answer, form
            except openai.APIStatusError as error:
                if form == "json" and error.status_code in _STRUCTURED:
                    only_plain = True
                    if re.search("response_format|json_schema", str(error)):
                        writer._form = "plain"  # a server without structured output
                    continue
                wait = self._after(error, failed := failed + 1)
            except (openai.APIError, ValueError, TypeError) as error:  # ValueError: a body that is no JSON
                wait = self._after(error, failed := failed + 1)
            await asyncio.sleep(wait)

    def _after(self, error: Exception, failed: int) -> float:
        """Seconds before the next try of a request that failed so often; raises where there is none."""
        writer, openai = self.writer, self.openai
        status = getattr(error, "status_code", None)
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            raise ServiceError(self._say(f"does not accept the key; set {KEY_VARIABLE}", error)) from None
        if status == 404:
            raise ServiceError(self._say(f"knows no such address or no model {writer.model!r}; check both", error)) from None
        if status is not None and status < 500 and status not in (408, 409, 425, 429):  # of this prompt, it may be: a content filter
            self.refused += 1
            reason = self._say("refuses the request", error)
            raise _GaveUp(reason) if writer._answered or self.refused < _REFUSALS else ServiceError(reason)
        wait = _wait(error, failed)
        nobody = failed > 1 and not writer._answered and type(error.__cause__).__name__ == "ConnectError"
        if nobody or failed > writer.retries or wait > _LONGEST_WAIT or getattr(error, "code", "") == "insufficient_quota":
            reason = self._say(f"failed {failed} times" if wait <= _LONGEST_WAIT else f"asks to wait {wait:.0f} s", error)
            raise _GaveUp(reason) if writer._answered else ServiceError(reason)
        return wait

    def _body(self, ask: Ask, form: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.writer.model, "messages": ask.worded(form), **self.writer.sampling}
        if form == "json":
            schema = {"name": ask.step, "strict": True, "schema": ask.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _say(self, what: str, error: Exception) -> str:
        """One line about a failure, without the key."""
        cause = str(error.__cause__ or "")
        detail = " ".join(str(error).split())
        detail = f"{detail} ({cause})" if cause and cause not in detail else detail
        user = urlsplit(self.writer.base_url).netloc.rpartition("@")[0]
        for secret in filter(None, (self.writer._key, user, b64encode(user.encode()).decode())):
            detail = detail.replace(secret, "***")
        return f"the server at {self.writer.shown_url} {what}: {detail[:200]}; what was answered is kept, so run it again to go on"


def _answer_of(completion: Any) -> Answer:
    """What a completion says; ValueError where it is none."""
    choices = getattr(completion, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise ValueError("the answer is no chat completion")
    choice = choices[0]
    refusal = getattr(choice.message, "refusal", None)
    if refusal or choice.finish_reason == "content_filter":
        return Answer(refusal or choice.message.content or "", "refused")
    return Answer(choice.message.content or "", "cut off" if choice.finish_reason == "length" else "")


def _wait(error: Exception, failed: int) -> float:
    """Seconds before the next try: what the server asks for, else half a second doubled each time, with jitter."""
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
        raise MissingExtraError("writing with a language model", "openai", "openai") from None
    return openai
