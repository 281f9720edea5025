"""What is said to a language model for one prompt and group, and what is taken from its answers.

No I/O: whoever runs it does the asking.

Section 4.1 and appendix B of the paper: the group is stated first, then reworded, in one
conversation. What validation turns away is asked again with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from equipoise.prompts._answer_cache import Answer
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import Entry
from equipoise.prompts._validation import LIST_MARK, Rejected, check, check_answer

INSTRUCTIONS = "llm 1"
"""Version of the words below, for a book's provenance."""
_MOST_TEXTS = 100  # of one answer; English has fewer wordings, and each takes time to check

Message = dict[str, str]

_SYSTEM = (
    "You rewrite short descriptions of pictures so that they state a group of people. You change"
    " only the words that say which group a person belongs to, keep every other word as it is, and"
    " write correct, respectful English. For example, 'a photo of a cook in a kitchen' for the hair"
    " colour blond becomes 'a photo of a blond cook in a kitchen'; other wordings of that are 'a"
    " photo of a fair-haired cook in a kitchen' and 'a photo of a cook with blond hair in a"
    " kitchen'."
)
_ANCHOR = (
    "Rewrite this prompt so that it states that the {attribute} of the person is {group}. Keep all"
    " other words unchanged. If it names another {attribute}, put {group} in its place.\n\nPrompt:"
    " {prompt}"
)
_VARIANTS = (
    "Now write other wordings of it, as many as English has and {least} at least: each states that"
    " the {attribute} is {group} in another way (other adjectives, nouns or phrases), is"
    " grammatical, and leaves everything else in the prompt strictly unchanged."
)
_AGAIN = "That will not do:\n{reasons}\nTry again."
_FORMATS = {
    (
        "anchor",
        "json",
    ): (
        '\n\nAnswer with a JSON object that has one field, "anchor": the rewritten prompt, a'
        " string."
    ),
    ("anchor", "plain"): "\n\nAnswer with the rewritten prompt alone, on one line.",
    (
        "variants",
        "json",
    ): (
        '\n\nAnswer with a JSON object that has one field, "variants": the wordings, a list of'
        " strings."
    ),
    ("variants", "plain"): "\n\nAnswer with the wordings alone, one a line.",
}


class Ask(NamedTuple):
    """A request: the conversation so far, which step it is at, and the how-many-th try."""

    messages: tuple[Message, ...]
    step: str
    attempt: int

    def worded(self, form: str) -> list[Message]:
        """Return the messages, with the wish for an answer in "json" or "plain" form."""
        *before, last = self.messages
        return [*before, {"role": "user", "content": last["content"] + _FORMATS[self.step, form]}]

    @property
    def schema(self) -> dict[str, object]:
        """Return the JSON schema of the answer."""
        text = {"type": "string"}
        kind = text if self.step == "anchor" else {"type": "array", "items": text}
        return {
            "type": "object",
            "properties": {self.step: kind},
            "required": [self.step],
            "additionalProperties": False,
        }


class WrittenEntry(NamedTuple):
    """The entry, whole or with too few variants or None; why it is not whole; and how many texts
    were turned away.
    """

    entry: Entry | None
    reason: str
    rejected: int


def converse(
    prompt: str,
    attribute: Attribute,
    group: str,
    *,
    tries: int,
    least: int,
    person_nouns: frozenset[str],
) -> Generator[Ask, Answer, WrittenEntry]:
    """Hold the conversation for one prompt and group: yield what to ask, be sent the answers,
    return what came of it.
    """
    facts = {
        "attribute": attribute.name.replace(" & ", " and "),
        "group": group,
        "prompt": prompt,
        "least": max(2 * least, 8),
    }
    messages: list[Message] = [_say("system", _SYSTEM), _say("user", _ANCHOR.format(**facts))]

    def wrong_with(anchor: str) -> str:
        return check(prompt, anchor, attribute, group, person_nouns)

    anchor, reason, rejected = yield from _ask_anchor(messages, prompt, tries, wrong_with)
    if reason:
        return WrittenEntry(
            None, f"no anchor after {tries} tries; last {anchor!r}: {reason}", rejected
        )
    messages.append(_say("user", _VARIANTS.format(**facts)))
    kept: list[str] = []
    for attempt in range(tries):
        answer = yield Ask(tuple(messages), "variants", attempt)
        texts, reason = parse(answer, "variants", prompt)
        checked = check_answer(prompt, anchor, [*kept, *texts], attribute, group, person_nouns)
        kept = list(checked.variants)
        bad = [one for one in checked.rejected if one.reason != "it repeats another"]
        rejected += len(bad) + bool(reason)
        if len(kept) >= least:
            return WrittenEntry(Entry(anchor=anchor, variants=tuple(kept)), "", rejected)
        messages += [
            _say("assistant", answer.text),
            _say("user", _AGAIN.format(reasons=_reasons(reason, bad, len(kept), least))),
        ]
    return WrittenEntry(
        Entry(anchor=anchor, variants=tuple(kept)),
        f"{len(kept)} variants of {least} after {tries} tries",
        rejected,
    )


def _ask_anchor(
    messages: list[Message], prompt: str, tries: int, wrong_with: Callable[[str], str]
) -> Generator[Ask, Answer, tuple[str, str, int]]:
    """Ask for an anchor until nothing is wrong with it. What was said is added to ``messages``.

    Return the last anchor, what is wrong with it or "", and how many were turned away.
    """
    rejected, reason, anchor = 0, "", ""
    for attempt in range(tries):
        answer = yield Ask(tuple(messages), "anchor", attempt)
        texts, reason = parse(answer, "anchor", prompt)
        anchor = texts[0] if texts else ""
        reason = reason or wrong_with(anchor)
        messages.append(_say("assistant", answer.text))
        if not reason:
            break
        rejected += 1
        again = f"- {anchor or 'the answer'}: {reason}"
        messages.append(_say("user", _AGAIN.format(reasons=again)))
    return anchor, reason, rejected


def parse(answer: Answer, step: str, prompt: str) -> tuple[list[str], str]:
    """Return the texts of an answer, JSON or lines, and what is wrong with it as a whole."""
    if answer.trouble:
        return [], f"the answer was {answer.trouble}"
    text = re.sub(r"<think>.*?(?:</think>|\Z)", "", answer.text, flags=re.DOTALL).strip()
    found = _json(text)
    if found is not None:
        lines = _listed(found, step)
        if lines is None:
            return [], f"the JSON had no {step!r}"
    elif text[:1] in ("{", "[") or f'"{step}"' in text:
        return [], "the answer was not whole JSON"
    else:
        lines = [line for line in text.splitlines() if not _introduces(line)]
    texts = [cleaned for one in lines[:_MOST_TEXTS] if (cleaned := _clean(one, prompt))]
    if not texts:
        return [], "the answer was empty"
    return texts, ""


def _listed(found: Any, step: str) -> list[str] | None:
    """Return the texts in JSON: a list, one text, or an object that holds either under ``step``."""
    if isinstance(found, dict):
        found = found.get(step)
    if isinstance(found, str):
        return [found]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return None
    return found


def _introduces(line: str) -> bool:
    """Return whether a line is no text of its own: "Here they are:", or the fence of a block."""
    return line.rstrip().endswith(":") or line.startswith("```")


def _json(text: str) -> Any:
    """Return the first whole JSON object in a text, or the list that the text or its fenced block
    is; None where there is none.
    """
    fence = re.search(r"```\w*\s*", text)
    braces = (match.start() for match in re.finditer(r"\{", text))
    starts = [fence.end() if fence else 0, *islice(braces, 7)]
    for start in starts:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict | list):
            return found
    return None


def _clean(text: str, prompt: str) -> str:
    """Return a text without list marker, quotation marks and a full stop that the prompt does not
    have.
    """

    def stopless(said: str) -> str:
        return said.removesuffix(".") if not prompt.endswith(".") else said

    text = stopless(LIST_MARK.sub("", text.strip()).strip())
    if len(text) > 1 and text[0] in "\"'“‘`" and text[-1] in "\"'”’`":
        text = stopless(text[1:-1].strip())
    return text


def _reasons(whole: str, bad: Sequence[Rejected], have: int, least: int) -> str:
    lines = [f"- the answer: {whole}"] if whole else []
    lines += [f"- {text[:200]}: {reason}" for text, reason in bad[:8]]
    return "\n".join([*lines, f"- {have} of them can be used, and {least} are needed; give others"])


def _say(role: str, content: str) -> Message:
    return {"role": role, "content": content}
