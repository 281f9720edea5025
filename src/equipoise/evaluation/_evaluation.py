"""``Evaluation``: a task on a dataset with an encoder.

It checks what it can before long work, and gives a run for any methods.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from equipoise._space import EncoderRef
from equipoise._space_document import EncoderFacts
from equipoise._stores import Store
from equipoise._version import __version__
from equipoise.datasets import Dataset
from equipoise.datasets._checks import attribute_of, check_members
from equipoise.errors import InputError
from equipoise.evaluation import _paper as paper
from equipoise.evaluation import _queries as asked
from equipoise.evaluation._classification import measure_predictions, predict_labels
from equipoise.evaluation._estimates import Measured
from equipoise.evaluation._fitting_images import (
    FitOn,
    check_fitting,
    fitted_on,
    fitting_images,
    takes_images,
)
from equipoise.evaluation._labelled_images import LabelledImages
from equipoise.evaluation._leakage import Probe
from equipoise.evaluation._protocol import NO_GROUP, Protocol
from equipoise.evaluation._retrieval import check_groups, measure_lists, rank_deep
from equipoise.evaluation._run_document import (
    FORMAT,
    KIND,
    BookFacts,
    DatasetFacts,
    EvaluationRun,
    ImageCounts,
    MethodFacts,
    MetricRow,
    ProtocolFacts,
    RunFacts,
    SettingFacts,
    Task,
)
from equipoise.evaluation._run_file import digest, versions
from equipoise.evaluation._settings import Settings
from equipoise.methods import FitContext, Operator
from equipoise.methods._specs import BASELINE, MethodSpec, serve
from equipoise.metrics._labels import encode_groups
from equipoise.prompts import _book_choice as books
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._attribute_document import AttributeFacts
from equipoise.prompts._prompt_book import PromptBook

TASKS = ("classification", "retrieval")


class Evaluation:
    """One task, one dataset, one encoder; ``run(specs)`` gives an ``EvaluationRun``.

    encoder: encodes texts, and images where no embeddings are given. embeddings: a store or an
    array (n, d), in place of encoding. attribute: that of the dataset's group columns by default.
    prompts: label -> prompt for classification; for retrieval, queries without right images, in
    place of the dataset's captions. on_unreadable: "skip" counts images that cannot be read,
    "raise" stops at the first. fit_on: the images that methods which need some are fitted on.
    workdir: where methods that train keep what they have so far.
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
        prompts: Any = None,
        template: str | None = None,
        positive: Any = None,
        on_unreadable: str = "skip",
        settings: Settings | None = None,
        fit_on: FitOn | None = None,
        workdir: Path | None = None,
    ):
        if task not in TASKS:
            raise InputError(f"task={task!r} is not legal; pass one of {', '.join(TASKS)}")
        _check_dataset(dataset)
        self.task: Task = cast(Task, task)
        self.dataset: Dataset = dataset
        self.encoder: Any = encoder
        self.settings: Settings = settings or Settings()
        self.given_book: str | PromptBook | None = book
        self.workdir: Path | None = workdir
        self.protocol: Protocol = Protocol.named(self.settings.protocol)
        self.attribute: Attribute = attribute or attribute_of(dataset.groups)
        once = task == "retrieval"
        images = LabelledImages.of(
            dataset,
            self.attribute,
            encoder,
            once=once,
            embeddings=embeddings,
            on_unreadable=on_unreadable,
        )
        self.fitting: LabelledImages | None
        self.measured: LabelledImages
        self.fitting, self.measured = (fit_on or FitOn()).part(
            images, self.attribute, self.settings.seed, once
        )
        self.asked: asked.Classes | asked.Queries
        if task == "classification":
            self.asked = asked.classes(
                self.measured.column("label"),
                dataset.name,
                self.protocol,
                prompts,
                template,
                positive,
            )
        else:
            self.asked = asked.queries(dataset, self.measured.paths, prompts)
        # How long the last fit of each method took; no part of a run, which is the same each time.
        self.fit_seconds: dict[str, float] = {}
        # What ``none`` predicts or ranks, computed once for all cells of a grid.
        self._plain: Any = None

    @cached_property
    def book(self) -> PromptBook:
        """Return the book that methods are fitted with."""
        if isinstance(self.given_book, PromptBook):
            return books.whole(self.given_book, self.attribute)
        return books.book_for(self.asked.prompts, self.attribute, self.given_book)

    def _book_of(self, spec: MethodSpec) -> PromptBook | None:
        """Return the book that a method is fitted with; None for a method that needs none."""
        if spec.is_file or spec.name == BASELINE:
            return None
        if spec.book:
            return books.book_for(self.asked.prompts, self.attribute, spec.book)
        return self.book

    @cached_property
    def texts(self) -> np.ndarray:
        """Return the rows of the class prompts or queries."""
        unique = list(dict.fromkeys(self.asked.prompts))
        rows = dict(zip(unique, np.asarray(self.encoder.encode_text(unique)), strict=True))
        return np.stack([rows[prompt] for prompt in self.asked.prompts])

    @cached_property
    def probe(self) -> Probe:
        """Return the leakage probe on the measured images."""
        rows, there = self.measured.images
        settings = self.settings
        return Probe(
            rows,
            self.measured.groups[there],
            most=settings.probe,
            resamples=settings.resamples,
            seed=settings.seed,
        )

    def check(self, specs: Sequence[MethodSpec]) -> None:
        """Raise for every error that can be found before images are encoded."""
        labels = [spec.label for spec in specs]
        if not labels or len(set(labels)) < len(labels):
            raise InputError(f"the methods are {labels}; pass one or more, each once")
        for spec in specs:
            spec.check(self.protocol.scope, self.task)
            check_fitting(spec, self.fitting)
            book = self._book_of(spec)
            if book is not None and spec.resolved(self.protocol.scope).get("scope") == "per prompt":
                books.require(book, self.asked.prompts, self.attribute, spec.label)

    def run(self, specs: Sequence[MethodSpec], baseline: str = BASELINE) -> EvaluationRun:
        """Return the run of ``none`` and these methods.

        baseline: the label of the method that paired differences are from.
        """
        if isinstance(specs, str) or not all(isinstance(spec, MethodSpec) for spec in specs):
            raise InputError(
                f"specs={specs!r} is not legal; pass eq.evaluation.parse(['closed-form',"
                " 'orth-proj:...'])"
            )
        specs = [MethodSpec(BASELINE), *(spec for spec in specs if spec.name != BASELINE)]
        self.check(specs)
        by_label = {spec.label: spec for spec in specs}
        labels = list(by_label)
        if baseline not in labels:
            raise InputError(f"baseline={baseline!r} is not among the methods {labels}")
        operators = self._fit(specs)
        measured, counts = self._measure(operators)
        settings = self.settings
        rows = measured.rows(baseline, settings.level, settings.interval)
        if settings.probe:
            rows += self.probe.measure(operators, baseline, settings.level, settings.interval)
        methods = {
            label: self._described(spec, operators[label]) for label, spec in by_label.items()
        }
        facts = self.facts()
        return EvaluationRun(
            kind=KIND,
            format=FORMAT,
            versions=versions(),
            **dict(facts),
            counts=counts,
            methods=methods,
            rows=[self._beside_paper(row, facts.model, by_label[row.method]) for row in rows],
        )

    def _beside_paper(self, row: MetricRow, model: str, spec: MethodSpec) -> MetricRow:
        """Return a row with what the paper printed for it, if it did."""
        published = paper.cell(
            model, self.task, self.dataset.name, self.attribute.name, spec, row.metric
        )
        if published is None:
            return row
        return row.model_copy(update={"published": published})

    def key(self, spec: MethodSpec) -> str:
        """Return a digest of all that the result of this method depends on."""
        method: dict[str, Any] = {"name": spec.name}
        if spec.is_file:
            method["params"] = {}
            method["file"] = hashlib.sha256(Path(spec.name).read_bytes()).hexdigest()
        else:
            method["params"] = spec.resolved(self.protocol.scope)
        book = self._book_of(spec)
        book_hash = "" if book is None else book.hash
        words = str(self.attribute.wordings) if self.settings.gate else ""
        return digest([__version__, self.facts().to_plain(), words, method, book_hash])

    def facts(self) -> RunFacts:
        """Return what is evaluated and how, without results."""
        made_by = EncoderRef.of(self._made_by)
        dataset = DatasetFacts(
            **dict(self.measured.facts()),
            rows=self.dataset.kept,
            dropped=self.dataset.dropped,
            prompts=len(self.asked.prompts),
        )
        settings = vars(self.settings) | {
            "m": self._places if self.task == "retrieval" else None,
            "positive": getattr(self.asked, "positive", None),
        }
        return RunFacts(
            task=self.task,
            protocol=ProtocolFacts(**vars(self.protocol)),
            dataset=dataset,
            fitting=None if self.fitting is None else self.fitting.facts(),
            attribute=AttributeFacts(name=self.attribute.name, groups=list(self.attribute.groups)),
            encoder=EncoderFacts(**made_by._asdict()),
            model=paper.model_of(made_by.id),
            prompts=digest(self.asked.facts),
            settings=SettingFacts(**settings),
        )

    @property
    def _made_by(self) -> Any:
        """Return what tells which encoder made the embeddings of the images."""
        stored = self.measured.embeddings
        return stored if isinstance(stored, Store) else self.encoder

    @property
    def _places(self) -> int:
        """Return how many places skew looks at in retrieval."""
        groups = self._ranked_groups(self.measured.groups)
        return self.settings.places(int(encode_groups(groups).known.sum()))

    def _ranked_groups(self, groups: np.ndarray) -> np.ndarray:
        """Return the groups that skew looks at: as released, none is one of its own."""
        if not self.protocol.to_the_letter:
            return groups
        return np.array([NO_GROUP if group is None else group for group in groups], dtype=object)

    def _fit(self, specs: Sequence[MethodSpec]) -> dict[str, Operator]:
        """Return the fitted methods by their labels.

        Methods that need no image are fitted first, so that their mistakes show before images are
        encoded.
        """
        in_turn = sorted(specs, key=lambda spec: takes_images(spec, self.fitting))
        operators = {spec.label: self._fit_one(spec) for spec in in_turn}
        for operator in operators.values():
            operator.require_encoder(self._made_by)
        return {spec.label: operators[spec.label] for spec in specs}

    def _fit_one(self, spec: MethodSpec) -> Operator:
        device = getattr(self.encoder, "device", None)
        images = {}
        if takes_images(spec, self.fitting):
            images = fitting_images(self.fitting, self.measured)
        context = FitContext(
            self.attribute,
            encoder=self.encoder,
            book=self._book_of(spec),
            class_prompts=self.asked.by_label if isinstance(self.asked, asked.Classes) else None,
            seed=self.settings.seed,
            device=None if device is None else str(device),
            workdir=self.workdir,
            **images,
        )
        start = time.perf_counter()
        operator = spec.fit(context, self.protocol.scope, page=self._places)
        self.fit_seconds[spec.label] = time.perf_counter() - start
        return operator

    def _measure(self, operators: Mapping[str, Operator]) -> tuple[Measured, ImageCounts]:
        """Return what the task measures of each method, and how many images it measures."""
        rows, there = self.measured.images
        if self.task == "retrieval":
            for operator in operators.values():
                serve(operator, rows)
        groups = self.measured.groups[there]
        check_members(groups, self.attribute, "whose pictures have embeddings")
        sizes = encode_groups(groups)
        paths = self.measured.paths
        counts = ImageCounts(
            images=int(there.sum()),
            without_embedding=int((~there).sum()),
            groups=dict(zip(sizes.labels, sizes.sizes.tolist(), strict=True)),
            repeated=len(paths) - len(set(paths)),
            first_without=[paths[i] for i in np.flatnonzero(~there)[:5]],
        )
        if isinstance(self.asked, asked.Classes):
            return self._measure_classes(operators, self.asked), counts
        kept, targets = self.asked.answerable(there)
        asked_for = {"queries": len(kept), "blank_captions": self.asked.blank}
        counts = counts.model_copy(update=asked_for)
        return self._measure_queries(operators, self.asked, kept, targets), counts

    def _measure_classes(
        self, operators: Mapping[str, Operator], classes: asked.Classes
    ) -> Measured:
        rows, there = self.measured.images
        settings = self.settings
        gate = settings.gate or None

        def predicted(operator: Operator) -> np.ndarray:
            return predict_labels(operator, rows, self.texts, classes.by_label, gate=gate)

        return measure_predictions(
            self._outputs(operators, predicted),
            labels=np.asarray(self.measured.column("label"))[there],
            sensitive_features=self.measured.groups[there],
            classes=len(classes.by_label),
            protocol=settings.protocol,
            positive=classes.positive,
            resamples=settings.resamples,
            seed=settings.seed,
        )

    def _measure_queries(
        self,
        operators: Mapping[str, Operator],
        queries: asked.Queries,
        kept: np.ndarray,
        targets: np.ndarray | None,
    ) -> Measured:
        """Return what retrieval measures. kept: the queries whose right image has an embedding."""
        rows, there = self.measured.images
        settings = self.settings
        groups = self._ranked_groups(self.measured.groups[there])
        known = check_groups(groups).known
        prompts = [queries.prompts[i] for i in kept]
        texts = self.texts[kept]
        m = self._places
        ks = () if targets is None else settings.ks
        places = max([m, *ks])
        gate = settings.gate or None

        def ranked(operator: Operator) -> np.ndarray:
            return rank_deep(operator, rows, texts, prompts, known, places, gate=gate)

        return measure_lists(
            self._outputs(operators, ranked),
            sensitive_features=groups,
            targets=targets,
            m=m,
            ks=ks,
            over=settings.over,
            resamples=settings.resamples,
            permutations=settings.permutations,
            level=settings.level,
            seed=settings.seed,
        )

    def _outputs(
        self, operators: Mapping[str, Operator], compute: Callable[[Operator], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return what each method predicts or ranks; ``none`` is computed once."""
        if self._plain is None:
            self._plain = compute(operators[BASELINE])
        found = {}
        for label, operator in operators.items():
            found[label] = self._plain if label == BASELINE else compute(operator)
        return found

    def _described(self, spec: MethodSpec, operator: Operator) -> MethodFacts:
        """Return what a run's file says of a method."""
        about = MethodFacts(
            method=operator.name,
            params=operator.params,
            changes=list(operator.changes),
            fingerprint=operator.fingerprint,
            fitted_on=fitted_on(spec, self.fitting, self.measured),
        )
        if spec.is_file:
            return about.model_copy(update={"file": spec.name})
        book = self._book_of(spec)
        if book is None:
            return about
        # the grammar writes for the very prompts of this run, and cannot word them all
        written = (spec.book or self.given_book) in (None, books.GRAMMAR)
        lacking = books.unworded(book, self.asked.prompts, self.attribute) if written else 0
        told = BookFacts(hash=book.hash, prompts=len(book), unworded=lacking)
        return about.model_copy(update={"book": told})


def _check_dataset(dataset: Any) -> None:
    """Raise for a table in place of a dataset, and for a dataset that lacks what each one has."""
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"the dataset is of type {type(dataset).__name__}; pass eq.datasets.Dataset(name,"
            " table, groups=('gender',)) with a column path, or what a reader of eq.datasets gives"
        )
    if isinstance(dataset.groups, str):
        raise InputError(
            f"the groups of {dataset.name} are a string, {dataset.groups!r}; pass a tuple of column"
            f" names: ({dataset.groups!r},)"
        )
    if "path" not in dataset.table:
        raise InputError(
            f"the table of {dataset.name} has no column path, only"
            f" {', '.join(map(str, dataset.table.columns))}; add one with a name per image"
        )
