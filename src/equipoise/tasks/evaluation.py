"""``Evaluation``: a task on a dataset with an encoder. It checks what it can before long work, and gives a run for any methods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from equipoise.datasets import Dataset
from equipoise.encoders import UnreadableImageError
from equipoise.errors import InputError
from equipoise.methods import FitContext, Operator
from equipoise.metrics.labels import encode, encode_groups
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import PromptBook
from equipoise.space import EncoderRef
from equipoise.stores import Store
from equipoise.tasks import books, paper
from equipoise.tasks.blocks import directed
from equipoise.tasks.checks import attribute_of, check_encoder, check_members, groups_of
from equipoise.tasks.classification import check_classes, classify
from equipoise.tasks.document import digest, document
from equipoise.tasks.measured import Measured
from equipoise.tasks.protocol import CELEBA, TEMPLATE, Protocol, class_prompts
from equipoise.tasks.retrieval import retrieve
from equipoise.tasks.sources import rows_of
from equipoise.tasks.specs import BASELINE, MethodSpec

Task = Literal["classification", "retrieval"]
TASKS = ("classification", "retrieval")
LARGE = 2000  # images from which on the paper's M = 1000 says something; below, a tenth of them


@dataclass(frozen=True)
class Settings:
    """How to measure. m: None is 1000, or a tenth of the images where there are fewer than 2,000."""

    protocol: str = "released"
    m: int | None = None
    ks: tuple[int, ...] = (5, 10)
    gate: bool = False
    over: str = "images"
    resamples: int = 1000
    permutations: int = 200
    level: float = 0.95
    interval: str = "percentile"
    seed: int = 0


class Evaluation:
    """One task, one dataset, one encoder; ``run(specs)`` gives a run's document.

    encoder: encodes texts, and images where no embeddings are given. embeddings: a store or an array (n, d), in place of encoding.
    attribute: that of the dataset's group columns by default. prompts: label -> prompt for classification; for retrieval, queries without
    right images, in place of the dataset's captions. on_unreadable: "skip" counts images that cannot be read, "raise" stops at the first.
    """

    def __init__(
        self,
        task: str,
        dataset: Dataset,
        encoder: Any,
        *,
        attribute: Attribute | None = None,
        book: str | PromptBook | None = None,
        embeddings: Any = None,
        prompts: Mapping[Any, str] | Sequence[str] | None = None,
        template: str | None = None,
        positive: Any = None,
        on_unreadable: str = "skip",
        settings: Settings | None = None,
    ):
        if task not in TASKS:
            raise InputError(f"task={task!r} is not legal; pass one of {', '.join(TASKS)}")
        if on_unreadable not in ("skip", "raise"):
            raise InputError(f'on_unreadable={on_unreadable!r} is not legal; pass "skip" or "raise"')
        self.task, self.dataset, self.encoder, self.settings = task, dataset, encoder, settings or Settings()
        self.embeddings, self.given_book, self.on_unreadable = embeddings, book, on_unreadable
        self.protocol = Protocol.named(self.settings.protocol)
        check_encoder(encoder, embeddings)
        table = dataset.table
        if task == "retrieval":
            table = table.drop_duplicates("path", ignore_index=True)
        self.paths = [str(path) for path in table["path"]]
        self.attribute = attribute or attribute_of(dataset.groups)
        self.groups = groups_of(table, dataset, self.attribute)
        self.positive = positive
        if task == "classification":
            self._prepare_classes(table, prompts, template)
        else:
            self._prepare_queries(prompts)

    def _prepare_classes(self, table: Any, prompts: Any, template: str | None) -> None:
        if "label" not in table:
            raise InputError(f"{self.dataset.name} has no labels, which classification needs; pass the label column")
        self.labels = table["label"].to_numpy(dtype=object)
        celeba = set(table["label"].dropna()) <= set(CELEBA)
        if celeba and self.positive is None and self.protocol.one_class:
            self.positive = "blond"
        default = self.protocol.template if self.dataset.name == "FACET" else TEMPLATE
        known = encode(self.labels, "labels").labels
        self.classes = (
            dict(prompts) if prompts is not None else CELEBA if celeba and template is None else class_prompts(known, template or default)
        )
        check_classes(self.labels, self.classes, self.positive)
        self.prompts = list(self.classes.values())

    def _prepare_queries(self, prompts: Any) -> None:
        table = self.dataset.table
        self.targets: np.ndarray | None = None
        if prompts is not None:
            self.prompts = list(prompts)
        else:
            column = next((name for name in ("query", "caption") if name in table), None)
            if column is None:
                raise InputError(f"{self.dataset.name} has no captions to search with; pass the caption column, or queries of your own")
            place = {path: i for i, path in enumerate(self.paths)}
            self.prompts = [str(text) for text in table[column]]
            self.targets = np.array([place[str(path)] for path in table["path"]])
        if not self.prompts:
            raise InputError("there is no query; pass one or more")

    @cached_property
    def book(self) -> PromptBook:
        if isinstance(self.given_book, PromptBook):
            return books.whole(self.given_book, self.attribute)
        return books.book_for(self.prompts, self.attribute, self.given_book)

    def _book_of(self, spec: MethodSpec) -> PromptBook:
        return books.book_for(self.prompts, self.attribute, spec.book) if spec.book else self.book

    @cached_property
    def texts(self) -> np.ndarray:
        """Rows of the class prompts or queries."""
        unique = list(dict.fromkeys(self.prompts))
        rows = dict(zip(unique, np.asarray(self.encoder.encode_text(unique)), strict=True))
        return np.stack([rows[prompt] for prompt in self.prompts])

    @cached_property
    def images(self) -> tuple[Any, np.ndarray]:
        """Rows of the images that have one, and which those are."""
        if self.embeddings is not None:
            rows, there = rows_of(self.embeddings, self.paths)
            if isinstance(rows, Store):
                return rows, there
        else:
            rows, there = self.encoder.encode_images(self.paths), np.ones(len(self.paths), bool)
        good = directed(np.asarray(rows))
        there[np.flatnonzero(there)[~good]] = False
        if not there.all() and self.on_unreadable == "raise":
            first = self.paths[int((~there).argmax())]
            raise UnreadableImageError(f"{int((~there).sum())} of {len(there)} images have no embedding, first {first}")
        if not there.any():
            raise UnreadableImageError(f"none of the {len(there)} images has an embedding, first {self.paths[0]}")
        return (rows if good.all() else np.asarray(rows)[good]), there

    def check(self, specs: Sequence[MethodSpec]) -> None:
        """Every error that can be found before images are encoded."""
        if len({spec.label for spec in specs}) < len(specs) or not specs:
            raise InputError(f"the methods are {[spec.label for spec in specs]}; pass one or more, each once")
        for spec in specs:
            spec.check(self.protocol.scope, self.task)
            if not spec.is_file and spec.name != BASELINE:
                book = self._book_of(spec)
                if spec.resolved(self.protocol.scope).get("scope") == "per prompt":
                    books.require(book, self.prompts, self.attribute, spec.label)

    def run(self, specs: Sequence[MethodSpec], baseline: str = BASELINE) -> dict[str, Any]:
        """The document of a run: ``none`` and these methods; baseline: the label of the one that paired differences are from."""
        specs = [MethodSpec(BASELINE), *(spec for spec in specs if spec.name != BASELINE)]
        self.check(specs)
        if baseline not in (labels := [spec.label for spec in specs]):
            raise InputError(f"baseline={baseline!r} is not among the methods {labels}")
        operators = {spec.label: self._fit(spec) for spec in specs if not spec.needs_images}
        operators |= {spec.label: self._fit(spec) for spec in specs if spec.needs_images}
        operators = {spec.label: operators[spec.label] for spec in specs}
        for operator in operators.values():
            operator.require_encoder(self.embeddings if isinstance(self.embeddings, Store) else self.encoder)
        measured, counts = self._measure(operators)
        rows = measured.rows(baseline, self.settings.level, self.settings.interval)
        described = {spec.label: _described(spec, operators[spec.label], self._book_of(spec)) for spec in specs}
        facts = self.facts() | {"counts": counts, "methods": described}
        names = {spec.label: spec for spec in specs}
        model = facts["model"]
        for row in rows:
            found = paper.cell(model, self.task, self.dataset.name, self.attribute.name, names[row["method"]], row["metric"])
            if found:
                row["published"] = found
        return document(facts, rows)

    def key(self, spec: MethodSpec) -> str:
        """Tells this cell of a grid from every other."""
        method = {"name": spec.name, "params": {} if spec.is_file else spec.resolved(self.protocol.scope)}
        if spec.is_file:
            with open(spec.name, "rb") as file:
                method["file"] = hashlib.sha256(file.read()).hexdigest()
        book = "" if spec.is_file or spec.name == BASELINE else self._book_of(spec).hash
        return digest([self.facts(), method, book])

    def facts(self) -> dict[str, Any]:
        """What was evaluated and how, without results."""
        made_by = EncoderRef.of(self.embeddings if isinstance(self.embeddings, Store) else self.encoder)
        table = hashlib.sha256(self.dataset.table.to_csv(index=False).encode()).hexdigest()
        about = {"name": self.dataset.name, "rows": self.dataset.kept, "dropped": self.dataset.dropped, "sha256": table}
        about |= {"images": len(self.paths), "prompts": len(self.prompts), "embeddings": self._embeddings_digest}
        sizes = encode_groups(self.groups)
        about["groups"] = dict(zip(sizes.labels, sizes.sizes.tolist(), strict=True))
        settings = {**vars(self.settings), "m": self._m if self.task == "retrieval" else None, "positive": self.positive}
        return {
            "task": self.task,
            "protocol": vars(self.protocol),
            "dataset": about,
            "attribute": {"name": self.attribute.name, "groups": list(self.attribute.groups)},
            "encoder": made_by._asdict(),
            "model": paper.model_of(made_by.id),
            "prompts": hashlib.sha256("\n".join(self.prompts).encode()).hexdigest(),
            "settings": settings,
        }

    @cached_property
    def _embeddings_digest(self) -> str:
        if isinstance(self.embeddings, Store):
            return digest([shard.sha256 for shard in self.embeddings.manifest.shards])
        return "" if self.embeddings is None else hashlib.sha256(np.ascontiguousarray(self.embeddings).data).hexdigest()

    @property
    def _m(self) -> int:
        known = int(encode_groups(self.groups).known.sum())
        return self.settings.m or (1000 if known >= LARGE else max(1, known // 10))

    def _fit(self, spec: MethodSpec) -> Operator:
        images = self.images[0] if spec.needs_images else None
        has_book = not spec.is_file and spec.name != BASELINE
        context = FitContext(
            self.attribute,
            encoder=self.encoder,
            book=self._book_of(spec) if has_book else None,
            images=images,
            class_prompts=self.classes if self.task == "classification" else None,
            seed=self.settings.seed,
        )
        return spec.fit(context, self.protocol.scope)

    def _measure(self, operators: Mapping[str, Operator]) -> tuple[Measured, dict[str, Any]]:
        texts = self.texts
        rows, there = self.images
        groups, settings = self.groups[there], self.settings
        check_members(groups, self.attribute, "whose pictures have embeddings")
        measured = encode_groups(groups)
        counts: dict[str, Any] = {"images": int(there.sum()), "without_embedding": int((~there).sum())}
        counts["groups"] = dict(zip(measured.labels, measured.sizes.tolist(), strict=True))
        counts["first_without"] = [self.paths[i] for i in np.flatnonzero(~there)[:5]]
        common = {
            "sensitive_features": groups,
            "texts": texts,
            "gate": settings.gate or None,
            "resamples": settings.resamples,
            "seed": settings.seed,
        }
        if self.task == "classification":
            labels = self.labels[there]
            found = classify(
                operators, rows, dict(self.classes), labels=labels, protocol=settings.protocol, positive=self.positive, **common
            )
            return found, counts
        queries, targets = self._answerable(there)
        counts["queries"] = len(queries)
        common["texts"] = texts[queries]
        options = {"m": self._m, "ks": settings.ks, "over": settings.over, "permutations": settings.permutations}
        return retrieve(operators, rows, [self.prompts[i] for i in queries], targets=targets, **options, **common), counts

    def _answerable(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The queries whose right image is there, and its place among those that are."""
        if self.targets is None:
            return np.arange(len(self.prompts)), None
        kept = np.flatnonzero(there[self.targets])
        if not kept.size:
            raise InputError("no query has its right image among those with an embedding; there is nothing to measure")
        return kept, (np.cumsum(there) - 1)[self.targets[kept]]


def _described(spec: MethodSpec, operator: Operator, book: PromptBook | None) -> dict[str, Any]:
    about: dict[str, Any] = {"method": operator.name, "params": operator.params, "changes": list(operator.changes)}
    about |= {"fingerprint": operator.fingerprint, "fitted_with_images": spec.needs_images}
    if spec.is_file:
        return about | {"file": spec.name}
    return about if spec.name == BASELINE or book is None else about | {"book": {"hash": book.hash, "prompts": len(book)}}
