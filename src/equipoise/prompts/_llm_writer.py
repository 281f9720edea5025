"""The language model as a writer: the openai SDK against any server that speaks its protocol, many
requests at a time, each asked once.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from equipoise.errors import ArtefactError, ServiceError
from equipoise.prompts._answer_cache import Answer, AnswerCache, key_of
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import Failure, Outcome, Progress, make_book, pairs_of, today
from equipoise.prompts._llm_client import Client, GaveUp, Service, require_whole, run_anywhere
from equipoise.prompts._llm_conversation import INSTRUCTIONS, Ask, WrittenEntry, converse
from equipoise.prompts._prompt_book import Entry, Source
from equipoise.prompts._stated_groups import names_person
from equipoise.prompts._validation import MIN_VARIANTS

_CHARACTERS_A_TOKEN = 4
_NOBODY = (
    "it names no person that is known; word it with one (a person, a doctor), or pass its noun as a"
    " person noun"
)


class WritingPlan(NamedTuple):
    """What writing would take: pairs, those that the cache already answers, requests and tokens
    (estimates: no answer is asked again).
    """

    pairs: int
    cached_pairs: int
    calls: int
    prompt_tokens: int
    answer_tokens: int


class LLMWriter(Service):
    """Writes with a language model behind an OpenAI-compatible server.

    base_url: the server's address (OpenAI's own by default; Ollama, vLLM, llama.cpp and most
    providers have one). api_key: $OPENAI_API_KEY by default. cache: a sqlite file of answers, so
    that nothing is asked twice; None keeps them for this object only. concurrency: requests at a
    time. tries: how often validation may turn an answer away. retries: how often a request may
    fail. timeout: seconds for one request and its whole answer. allow_partial keeps entries that
    have an anchor and too few variants.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        cache: str | os.PathLike[str] | None = None,
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
        require_whole(tries=(tries, 1), min_variants=(min_variants, 0))
        where = {
            "base_url": base_url,
            "api_key": api_key,
            "concurrency": concurrency,
            "retries": retries,
            "timeout": timeout,
        }
        super().__init__(model, **where, temperature=temperature, seed=seed)
        self.tries = tries
        self.min_variants, self.allow_partial = min_variants, allow_partial
        self.person_nouns = frozenset(noun.lower() for noun in person_nouns)
        self.cache = AnswerCache(cache)

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """Ask for every prompt and group that the cache does not hold; a book of what passed
        validation.
        """
        pairs = pairs_of(prompts, attribute)
        self.require_key()
        return run_anywhere(_Run(self, pairs, attribute, progress).all())

    def plan(self, prompts: Sequence[str], attribute: Attribute) -> WritingPlan:
        """Return what ``write`` would ask, without asking."""
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
            # the second step repeats the first and adds its own request
            told += steps_left * said + (steps_left - 1) * 400
            heard += variants + (steps_left - 1) * (len(prompt) + 20)
        return WritingPlan(
            len(pairs),
            done,
            calls,
            math.ceil(told / _CHARACTERS_A_TOKEN),
            math.ceil(heard / _CHARACTERS_A_TOKEN),
        )

    def can_ask(self, prompt: str, attribute: Attribute) -> bool:
        """Return whether a prompt names a person: a model would make "a male car" of one that does
        not.
        """
        return names_person(prompt, attribute, self.person_nouns)

    def _converse(self, prompt: str, attribute: Attribute, group: str) -> Any:
        return converse(
            prompt,
            attribute,
            group,
            tries=self.tries,
            least=self.min_variants,
            person_nouns=self.person_nouns,
        )

    def known(self, ask: Ask) -> Answer | None:
        """Return the cache's answer to a request, in whichever form it was asked, or None."""
        answers = (self.cache.get(self._key_of(ask, form)) for form in ("json", "plain"))
        return next((answer for answer in answers if answer is not None), None)

    def _key_of(self, ask: Ask, form: str) -> str:
        return key_of(
            url=self.base_url,
            model=self.model,
            messages=ask.worded(form),
            form=form,
            **self.sampling,
        )

    def conversation_key(self, prompt: str, attribute: Attribute, group: str) -> str:
        """Return the key of one prompt and group, with this model and these instructions."""
        facts = {
            "attribute": attribute.name,
            "prompt": prompt,
            "group": group,
            "instructions": INSTRUCTIONS,
        }
        return key_of(url=self.base_url, model=self.model, **facts, **self.sampling)


class _Run:
    """One call of ``write``: its connection and its counts."""

    def __init__(
        self,
        writer: LLMWriter,
        pairs: list[tuple[str, str]],
        attribute: Attribute,
        progress: Progress | None,
    ):
        self.writer, self.pairs, self.attribute, self.progress = writer, pairs, attribute, progress
        self.results: dict[tuple[str, str], WrittenEntry] = {}
        self.cached = 0

    async def all(self) -> Outcome:
        # More conversations than slots, so that one that waits before a retry does not leave a slot
        # idle.
        waiting = asyncio.Semaphore(4 * self.writer.concurrency)
        stopped: Exception | None = None
        async with Client(self.writer) as self.client:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for pair in self.pairs:
                        if not self.writer.can_ask(pair[0], self.attribute):
                            self.results[pair] = WrittenEntry(None, _NOBODY, 0)
                            continue
                        await waiting.acquire()
                        tasks.create_task(self._one(*pair)).add_done_callback(
                            lambda _: waiting.release()
                        )
            except* (
                ServiceError,
                ArtefactError,
            ) as errors:  # ArtefactError: the cache can no longer be written
                stopped = errors.exceptions[0]
        if stopped and not any(result.entry for result in self.results.values()):
            raise stopped
        return self._outcome(str(stopped) if stopped else "")

    def _outcome(self, stopped: str) -> Outcome:
        rows: dict[tuple[str, str], Entry] = {}
        failures = []
        for pair in self.pairs:
            result = self.results.get(pair, WrittenEntry(None, stopped, 0))
            if result.reason:
                failures.append(Failure(*pair, result.reason))
            if result.entry and (not result.reason or self.writer.allow_partial):
                rows[pair] = result.entry
        source = Source(
            writer="llm", model=self.writer.model, date=today(), instructions=INSTRUCTIONS
        )
        rejected = sum(result.rejected for result in self.results.values())
        return Outcome(
            make_book(rows, source), tuple(failures), rejected, self.client.asked, self.cached
        )

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
                # What came to nothing is asked again next time; what was there before stays.
                writer.cache.forget(put)
        except GaveUp as error:
            result = WrittenEntry(None, str(error), 0)
        self.results[prompt, group] = result
        if self.progress:
            self.progress(len(self.results), len(self.pairs))

    async def _answer(
        self, ask: Ask, conversation: str, prompt: str, group: str, put: list[str]
    ) -> Answer:
        writer = self.writer
        if (known := writer.known(ask)) is not None:
            self.cached += 1
            return known
        answer, form = await self.client.request(ask)
        put.append(writer._key_of(ask, form))
        writer.cache.put(
            put[-1], conversation, prompt, group, ask.step, ask.attempt, writer.model, answer
        )
        return answer
