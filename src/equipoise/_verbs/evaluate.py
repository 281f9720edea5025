"""``equipoise evaluate`` and ``compare``: from names and files to an ``Evaluation``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._artefact import parse_json
from equipoise._stores import Store
from equipoise._verbs.models import open_encoder
from equipoise.datasets import Dataset
from equipoise.datasets._named import open_embeddings, read_dataset
from equipoise.errors import InputError
from equipoise.evaluation import Evaluation, FitOn, Settings
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import read_prompts
from equipoise.prompts._prompt_book import PromptBook


@dataclass(frozen=True)
class LabelledSource:
    """Where labelled images come from, by names and files; all None for nowhere."""

    dataset: str | None = None
    root: Path | None = None
    embeddings: Path | None = None
    path_column: str | None = None
    label_column: str | None = None
    group_columns: Sequence[str] = ()
    caption_column: str | None = None
    on_missing: str = "raise"
    one_person: Path | None = None

    def read(self) -> tuple[Dataset, Any]:
        """Return the dataset, and its stored embeddings or None."""
        stored = None if self.embeddings is None else open_embeddings(self.embeddings)
        dataset = read_dataset(
            self.dataset,
            self.root,
            embeddings=self.embeddings if isinstance(stored, Store) else None,
            path_column=self.path_column,
            label_column=self.label_column,
            group_columns=self.group_columns,
            caption_column=self.caption_column,
            on_missing=self.on_missing if stored is None else "keep",
            one_person=self.one_person,
        )
        return dataset, stored

    def __bool__(self) -> bool:
        return self.dataset is not None or self.embeddings is not None


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate, by names and files; ``equipoise evaluate --help`` says what each means."""

    task: str
    measured: LabelledSource
    fitting: LabelledSource
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
        """Read datasets and embeddings, then load the model, because it takes longest."""
        dataset, stored = self.measured.read()
        fitting = self.fitting.read() if self.fitting else ()
        attribute = None if self.attribute is None else Attribute.load(self.attribute)
        prompts = None if self.prompts is None else _read_prompts(self.prompts, self.task)
        encoder = open_encoder(self.model, self.vectors, **encoder_options)
        return Evaluation(
            self.task,
            dataset,
            encoder,
            attribute=attribute,
            book=self.book,
            embeddings=stored,
            prompts=prompts,
            template=self.template,
            positive=self.positive,
            on_unreadable=self.on_unreadable,
            settings=settings,
            fit_on=FitOn(self.fit_share, *fitting),
            workdir=workdir,
        )


def _read_prompts(name: str, task: str) -> list[str] | dict[str, str]:
    """Return class prompts by label from a JSON object, or queries from a text file or a book."""
    path = Path(name)
    if task == "classification":
        return _class_prompts(path)
    if name in PromptBook.curated_names() or path.suffix == ".json":
        return list(PromptBook.load(name).prompts)
    return read_prompts(path)


def _class_prompts(path: Path) -> dict[str, str]:
    try:
        prompts = parse_json(path.read_text(encoding="utf-8"))
        texts = prompts.values() if isinstance(prompts, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("it is no object of texts")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} does not hold class prompts ({error}); write a JSON object:"
            ' {"label": "a photo of ...", ...}'
        ) from None
    return prompts
