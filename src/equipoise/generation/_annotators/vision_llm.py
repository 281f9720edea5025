"""A vision language model behind an OpenAI-compatible server as an annotator."""

from __future__ import annotations

import asyncio
import io
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise._annotate.question import UNSURE
from equipoise.encoders._images import open_file
from equipoise.errors import ServiceError
from equipoise.generation._annotators.annotator import Annotator, group_in
from equipoise.prompts._answer_cache import Answer
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._llm_client import Client, GaveUp, Refused, Service, run_anywhere

LONGEST = 20_000  # letters of an answer that is read: it should be one word


class Look(NamedTuple):
    """A question about a picture, as a request."""

    question: str
    choices: tuple[str, ...]
    picture: str  # a data URL
    step: str = "answer"

    def worded(self, form: str) -> list[dict[str, Any]]:
        """Return the message: the picture, the question and its answers."""
        how = "one of these words alone"
        if form == "json":
            how = 'a JSON object with one field, "answer"'
        *most, last = self.choices
        text = f"{self.question} Answer with {how}: {', '.join(most)} or {last}."
        return [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": self.picture}},
                    {"type": "text", "text": text},
                ],
            }
        ]

    @property
    def schema(self) -> dict[str, object]:
        """Return the schema of an answer: one of the choices."""
        answer = {"type": "string", "enum": list(self.choices)}
        return {
            "type": "object",
            "properties": {self.step: answer},
            "required": [self.step],
            "additionalProperties": False,
        }


class VisionLLM(Annotator):
    """A vision language model, asked about many pictures at a time.

    It is unsure of a picture that it refuses, or gives no whole answer to.
    """

    batch = 32

    def __init__(self, model: str, attribute: Attribute, **service: Any):
        super().__init__(attribute)
        self.service = Service(model, **service)
        self.service.require_key()
        self.name = f"llm:{model}"

    def answers(self, images: Sequence[Path]) -> list[str | ServiceError]:
        return run_anywhere(self._all(images))

    async def _all(self, images: Sequence[Path]) -> list[str | ServiceError]:
        async with Client(self.service) as client:
            return list(await asyncio.gather(*(self._one(client, path) for path in images)))

    async def _one(self, client: Client, path: Path) -> str | ServiceError:
        try:
            answer, _ = await client.request(
                Look(self.question, (*self.attribute.groups, UNSURE), _data_url(path))
            )
        except Refused:
            return UNSURE
        except (GaveUp, ServiceError) as error:
            return ServiceError(str(error))
        return self._read(answer)

    def _read(self, answer: Answer) -> str:
        if answer.trouble or len(answer.text) > LONGEST:
            return UNSURE
        return group_in(_said(answer.text), self.attribute)


def _said(text: str) -> str:
    """Return what an answer says: its field where it is JSON, else all of it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    answer = found.get("answer")
    return answer if isinstance(answer, str) else ""


def _data_url(path: Path) -> str:
    out = io.BytesIO()
    open_file(path).save(out, "PNG")  # without the provenance, which names method and prompt
    return f"data:image/png;base64,{b64encode(out.getvalue()).decode()}"
