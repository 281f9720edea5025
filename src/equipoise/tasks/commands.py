"""From what was typed to an ``Evaluation``: files read, names looked up, cheap mistakes found first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.fitting import text_encoder
from equipoise.methods import find, names
from equipoise.methods.registry import NEEDS
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.writing import read_prompts
from equipoise.stores import Store
from equipoise.tasks.evaluation import Evaluation, Settings
from equipoise.tasks.sources import open_embeddings, read_dataset

LABELS = {"sensitive_features": "groups", "labels": "classes"}


@dataclass(frozen=True)
class Request:
    """What to evaluate, as typed; see ``equipoise evaluate --help``."""

    task: str
    dataset: str | None = None
    root: Path | None = None
    images: Path | None = None
    label_column: str | None = None
    group_columns: Sequence[str] = ()
    caption_column: str | None = None
    one_person: Path | None = None
    on_missing: str = "raise"
    on_unreadable: str = "skip"
    model: str | None = None
    vectors: Path | None = None
    embeddings: Path | None = None
    attribute: str | None = None
    book: str | None = None
    prompts: Path | None = None
    template: str | None = None
    positive: str | None = None

    def evaluation(self, settings: Settings, **encoder_options: Any) -> Evaluation:
        """Dataset and embeddings first, the model last, because it takes longest to load."""
        stored = None if self.embeddings is None else open_embeddings(self.embeddings)
        columns = {"label_column": self.label_column, "group_columns": self.group_columns, "caption_column": self.caption_column}
        where: dict[str, Any] = {"images": self.images, "embeddings": self.embeddings if isinstance(stored, Store) else None}
        keep = {"on_missing": "keep" if stored is not None else self.on_missing, "one_person": self.one_person}
        dataset = read_dataset(self.dataset, self.root, **where, **columns, **keep)
        attribute = None if self.attribute is None else Attribute.load(self.attribute)
        encoder = self._encoder(encoder_options)
        return Evaluation(
            self.task,
            dataset,
            encoder,
            attribute=attribute,
            book=self.book,
            embeddings=stored,
            prompts=None if self.prompts is None else _prompts(self.prompts, self.task),
            template=self.template,
            positive=self.positive,
            on_unreadable=self.on_unreadable,
            settings=settings,
        )

    def _encoder(self, options: dict[str, Any]) -> Any:
        if self.model is None or self.vectors is not None:
            if self.model is None and self.vectors is None:
                raise InputError("pass the encoder (--model), or stored embeddings with a file of text vectors (--embeddings, --vectors)")
            return text_encoder(self.model, self.vectors)
        from equipoise.encoders import load_encoder

        return load_encoder(self.model, cache=True, **options)


def _prompts(path: Path, task: str) -> Any:
    """label -> prompt from a JSON object; queries from a text file, one a line."""
    if task == "retrieval":
        return read_prompts(path)
    try:
        prompts = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
            raise ValueError("it is no object of texts")
    except (OSError, ValueError) as error:
        raise InputError(f'{path} does not hold class prompts ({error}); write a JSON object: {{"label": "a photo of ...", ...}}') from None
    return prompts


def describe_methods() -> list[dict[str, Any]]:
    """Each method: what it is, what it needs and trains, what it changes, its authors' tasks, its strength and its parameters."""
    from dataclasses import fields

    found = []
    for name in names():
        method = find(name)
        params = {f.name: str(f.default) for f in fields(method)}  # pyright: ignore[reportArgumentType]
        about = {"name": name, "summary": method.summary, "source": method.source}
        about |= {
            "needs": [NEEDS.get(need, need) for need in method.needs],
            "labels": [word for need, word in LABELS.items() if need in method.needs],
        }
        about |= {"text_only": "images" not in method.needs, "training": method.training, "gradients": method.gradients}
        about |= {"changes": list(method.changes), "tasks": list(method.tasks), "code": method.code}
        strength = None if method.strength is None else method.strength._asdict() | {"values": [str(v) for v in method.strength.values]}
        found.append(about | {"strength": strength, "params": params})
    return found
