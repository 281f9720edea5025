"""From what was typed to an ``Evaluation``: files read, names looked up, cheap mistakes found
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._artefact import parse_json
from equipoise._fitting import text_encoder
from equipoise._stores import Store
from equipoise.datasets import Dataset
from equipoise.datasets._named import open_embeddings, read_dataset
from equipoise.errors import InputError
from equipoise.evaluation._evaluation import Evaluation
from equipoise.evaluation._fitting_images import FitOn
from equipoise.evaluation._settings import Settings
from equipoise.methods import defaults, find, names
from equipoise.methods._registry import NEEDS
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._writing import read_prompts

LABELS = {"sensitive_features": "groups", "labels": "classes"}


@dataclass(frozen=True)
class Source:
    """Where labelled images come from, as typed; all None for nowhere."""

    dataset: str | None = None
    root: Path | None = None
    images: Path | None = None
    embeddings: Path | None = None
    path_column: str | None = None
    label_column: str | None = None
    group_columns: Sequence[str] = ()
    caption_column: str | None = None
    on_missing: str = "raise"
    one_person: Path | None = None

    def read(self) -> tuple[Dataset, Any]:
        """The dataset, and stored embeddings or None."""
        stored = None if self.embeddings is None else open_embeddings(self.embeddings)
        names = ("path_column", "label_column", "group_columns", "caption_column")
        columns: dict[str, Any] = {name: getattr(self, name) for name in names}
        where: dict[str, Any] = {
            "images": self.images,
            "embeddings": self.embeddings if isinstance(stored, Store) else None,
        }
        keep = {
            "on_missing": "keep" if stored is not None else self.on_missing,
            "one_person": self.one_person,
        }
        return read_dataset(self.dataset, self.root, **where, **columns, **keep), stored


@dataclass(frozen=True)
class Request:
    """What to evaluate, as typed; see ``equipoise evaluate --help``."""

    task: str
    measured: Source
    fitting: Source
    fit_share: float | None = None
    on_unreadable: str = "skip"
    model: str | None = None
    vectors: Path | None = None
    attribute: str | None = None
    book: str | None = None
    prompts: str | None = None
    template: str | None = None
    positive: str | None = None

    def evaluation(
        self, settings: Settings, workdir: Path | None = None, **encoder_options: Any
    ) -> Evaluation:
        """Datasets and embeddings first, the model last, because it takes longest to load."""
        dataset, stored = self.measured.read()
        elsewhere = self.fitting.dataset is not None or self.fitting.embeddings is not None
        fit_on = FitOn(self.fit_share, *(self.fitting.read() if elsewhere else ()))
        attribute = None if self.attribute is None else Attribute.load(self.attribute)
        prompts = None if self.prompts is None else _prompts(self.prompts, self.task)
        return Evaluation(
            self.task,
            dataset,
            self._encoder(encoder_options),
            attribute=attribute,
            book=self.book,
            embeddings=stored,
            prompts=prompts,
            template=self.template,
            positive=self.positive,
            on_unreadable=self.on_unreadable,
            settings=settings,
            fit_on=fit_on,
            workdir=workdir,
        )

    def _encoder(self, options: dict[str, Any]) -> Any:
        if self.model is None or self.vectors is not None:
            if self.model is None and self.vectors is None:
                raise InputError(
                    "pass the encoder (--model), or stored embeddings with a file of text vectors"
                    " (--embeddings, --vectors)"
                )
            return text_encoder(self.model, self.vectors)
        from equipoise.encoders import load_encoder

        return load_encoder(self.model, cache=True, **options)


def _prompts(name: str, task: str) -> Any:
    """label -> prompt from a JSON object; queries from a text file, one a line, or from a book."""
    path = Path(name)
    if task == "retrieval":
        is_book = name in PromptBook.curated_names() or path.suffix == ".json"
        return list(PromptBook.load(name).prompts) if is_book else read_prompts(path)
    try:
        prompts = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(prompts, dict) or not all(
            isinstance(prompt, str) for prompt in prompts.values()
        ):
            raise ValueError("it is no object of texts")
    except (OSError, ValueError) as error:
        raise InputError(
            f'{path} does not hold class prompts ({error}); write a JSON object: {{"label": "a'
            ' photo of ...", ...}'
        ) from None
    return prompts


def describe_methods() -> list[dict[str, Any]]:
    """Each method: what it is, what it needs and trains, what it changes, its authors' tasks, its
    strength and its parameters.
    """
    found = []
    for name in names():
        method = find(name)
        params = {param: str(value) for param, value in defaults(name).items()}
        about = {"name": name, "summary": method.summary, "source": method.source}
        about |= {
            "needs": [NEEDS.get(need, need) for need in method.needs],
            "labels": [word for need, word in LABELS.items() if need in method.needs],
        }
        about |= {
            "text_only": "images" not in method.needs,
            "training": method.training,
            "gradients": method.gradients,
        }
        about |= {"changes": list(method.changes), "tasks": list(method.tasks), "code": method.code}
        strength = (
            None
            if method.sweep is None
            else method.sweep._asdict() | {"values": [str(v) for v in method.sweep.values]}
        )
        found.append(about | {"strength": strength, "params": params})
    return found
