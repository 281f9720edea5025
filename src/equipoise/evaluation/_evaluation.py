"""``Evaluation``: a task on a dataset with an encoder.

It checks what it can before long work, and gives a run for any methods.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equipoise._space import EncoderRef
from equipoise._stores import Store
from equipoise._version import __version__
from equipoise.datasets import Dataset
from equipoise.datasets._checks import attribute_of, check_members
from equipoise.errors import InputError
from equipoise.evaluation import _paper as paper
from equipoise.evaluation import _questions as asked
from equipoise.evaluation._classification import measure_predictions, predict_labels
from equipoise.evaluation._document import digest, document
from equipoise.evaluation._estimates import Measured
from equipoise.evaluation._fitting_images import (
    FitOn,
    check_fitting,
    fitted_on,
    fitting_images,
    takes_images,
)
from equipoise.evaluation._labelled import Labelled
from equipoise.evaluation._leakage import Probe
from equipoise.evaluation._protocol import Protocol
from equipoise.evaluation._retrieval import check_groups, measure_lists, rank_deep
from equipoise.evaluation._settings import Settings
from equipoise.methods import FitContext, Operator
from equipoise.methods._specs import BASELINE, MethodSpec, serve
from equipoise.metrics._labels import encode_groups
from equipoise.prompts import _choosing as books
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook

Task = Literal["classification", "retrieval"]
TASKS = ("classification", "retrieval")


class Evaluation:
    """One task, one dataset, one encoder; ``run(specs)`` gives a run's document.

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
        self.task, self.dataset, self.encoder, self.settings = (
            task,
            dataset,
            encoder,
            settings or Settings(),
        )
        self.given_book, self.workdir = book, workdir
        self.protocol = Protocol.named(self.settings.protocol)
        self.attribute = attribute or attribute_of(dataset.groups)
        once = task == "retrieval"
        images = Labelled.of(
            dataset,
            self.attribute,
            encoder,
            once=once,
            embeddings=embeddings,
            on_unreadable=on_unreadable,
        )
        self.fitting, self.measured = (fit_on or FitOn()).part(
            images, self.attribute, self.settings.seed, once
        )
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
        self._plain: Any = None  # what ``none`` predicts or ranks, once for all cells of a grid

    @cached_property
    def book(self) -> PromptBook:
        if isinstance(self.given_book, PromptBook):
            return books.whole(self.given_book, self.attribute)
        return books.book_for(self.asked.prompts, self.attribute, self.given_book)

    def _book_of(self, spec: MethodSpec) -> PromptBook | None:
        """None for what needs no book."""
        if spec.is_file or spec.name == BASELINE:
            return None
        return (
            books.book_for(self.asked.prompts, self.attribute, spec.book)
            if spec.book
            else self.book
        )

    @cached_property
    def texts(self) -> np.ndarray:
        """Rows of the class prompts or queries."""
        unique = list(dict.fromkeys(self.asked.prompts))
        rows = dict(zip(unique, np.asarray(self.encoder.encode_text(unique)), strict=True))
        return np.stack([rows[prompt] for prompt in self.asked.prompts])

    @cached_property
    def probe(self) -> Probe:
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
        """Every error that can be found before images are encoded."""
        if len({spec.label for spec in specs}) < len(specs) or not specs:
            raise InputError(
                f"the methods are {[spec.label for spec in specs]}; pass one or more, each once"
            )
        for spec in specs:
            spec.check(self.protocol.scope, self.task)
            check_fitting(spec, self.fitting)
            book = self._book_of(spec)
            if book is not None and spec.resolved(self.protocol.scope).get("scope") == "per prompt":
                books.require(book, self.asked.prompts, self.attribute, spec.label)

    def run(self, specs: Sequence[MethodSpec], baseline: str = BASELINE) -> dict[str, Any]:
        """The document of a run: ``none`` and these methods; baseline: the label of the one that
        paired differences are from.
        """
        specs = [MethodSpec(BASELINE), *(spec for spec in specs if spec.name != BASELINE)]
        self.check(specs)
        if baseline not in (labels := [spec.label for spec in specs]):
            raise InputError(f"baseline={baseline!r} is not among the methods {labels}")
        operators = self._fit(specs)
        measured, counts = self._measure(operators)
        settings = self.settings
        rows = measured.rows(baseline, settings.level, settings.interval)
        rows += (
            self.probe.measure(operators, baseline, settings.level, settings.interval)
            if settings.probe
            else []
        )
        described = {spec.label: self._described(spec, operators[spec.label]) for spec in specs}
        facts = self.facts() | {"counts": counts, "methods": described}
        names = {spec.label: spec for spec in specs}
        for row in rows:
            names_of_cell = (
                self.task,
                self.dataset.name,
                self.attribute.name,
                names[row["method"]],
                row["metric"],
            )
            if found := paper.cell(facts["model"], *names_of_cell):
                row["published"] = found
        return document(facts, rows)

    def key(self, spec: MethodSpec) -> str:
        """Tells this cell of a grid from every other."""
        method = {
            "name": spec.name,
            "params": {} if spec.is_file else spec.resolved(self.protocol.scope),
        }
        if spec.is_file:
            with open(spec.name, "rb") as file:
                method["file"] = hashlib.sha256(file.read()).hexdigest()
        book = self._book_of(spec)
        words = str(self.attribute.wordings) if self.settings.gate else ""
        return digest([__version__, self.facts(), words, method, "" if book is None else book.hash])

    def facts(self) -> dict[str, Any]:
        """What was evaluated and how, without results."""
        made_by = EncoderRef.of(self._made_by)
        about = self.measured.facts() | {
            "rows": self.dataset.kept,
            "dropped": self.dataset.dropped,
            "prompts": len(self.asked.prompts),
        }
        settings = {
            **vars(self.settings),
            "m": self._places,
            "positive": getattr(self.asked, "positive", None),
        }
        return {
            "task": self.task,
            "protocol": vars(self.protocol),
            "dataset": about,
            "fitting": None if self.fitting is None else self.fitting.facts(),
            "attribute": {"name": self.attribute.name, "groups": list(self.attribute.groups)},
            "encoder": made_by._asdict(),
            "model": paper.model_of(made_by.id),
            "prompts": digest(self.asked.facts),
            "settings": settings,
        }

    @property
    def _made_by(self) -> Any:
        stored = self.measured.embeddings
        return stored if isinstance(stored, Store) else self.encoder

    @property
    def _places(self) -> int | None:
        known = int(encode_groups(self.measured.groups).known.sum())
        return self.settings.places(known) if self.task == "retrieval" else None

    def _fit(self, specs: Sequence[MethodSpec]) -> dict[str, Operator]:
        """Those that need no image first: their mistakes show before images are encoded."""
        in_turn = sorted(specs, key=lambda spec: takes_images(spec, self.fitting))
        operators = {spec.label: self._fit_one(spec) for spec in in_turn}
        for operator in operators.values():
            operator.require_encoder(self._made_by)
        return {spec.label: operators[spec.label] for spec in specs}

    def _fit_one(self, spec: MethodSpec) -> Operator:
        device = getattr(self.encoder, "device", None)
        context = FitContext(
            self.attribute,
            encoder=self.encoder,
            book=self._book_of(spec),
            class_prompts=self.asked.by_label if isinstance(self.asked, asked.Classes) else None,
            seed=self.settings.seed,
            device=None if device is None else str(device),
            workdir=self.workdir,
            **(
                fitting_images(self.fitting, self.measured)
                if takes_images(spec, self.fitting)
                else {}
            ),
        )
        start = time.perf_counter()
        operator = spec.fit(context, self.protocol.scope, page=self._places)
        self.fit_seconds[spec.label] = time.perf_counter() - start
        return operator

    def _measure(self, operators: Mapping[str, Operator]) -> tuple[Measured, dict[str, Any]]:
        rows, there = self.measured.images
        if self.task == "retrieval":
            for operator in operators.values():
                serve(operator, rows)
        groups, settings = self.measured.groups[there], self.settings
        check_members(groups, self.attribute, "whose pictures have embeddings")
        sizes = encode_groups(groups)
        counts: dict[str, Any] = {
            "images": int(there.sum()),
            "without_embedding": int((~there).sum()),
        }
        counts["groups"] = dict(zip(sizes.labels, sizes.sizes.tolist(), strict=True))
        counts["repeated"] = len(self.measured.paths) - len(set(self.measured.paths))
        counts["first_without"] = [self.measured.paths[i] for i in np.flatnonzero(~there)[:5]]
        gate, common = (
            settings.gate or None,
            {"sensitive_features": groups, "resamples": settings.resamples, "seed": settings.seed},
        )
        if isinstance(self.asked, asked.Classes):
            classes, labels = self.asked.by_label, self.measured.column("label")
            found = self._outputs(
                operators,
                lambda operator: predict_labels(operator, rows, self.texts, classes, gate=gate),
            )
            options: dict[str, Any] = {
                "labels": np.asarray(labels)[there],
                "protocol": settings.protocol,
                "positive": self.asked.positive,
            }
            return measure_predictions(found, **options, **common), counts
        kept, targets = self.asked.answerable(there)
        counts |= {"queries": len(kept), "blank_captions": self.asked.blank}
        prompts, texts = [self.asked.prompts[i] for i in kept], self.texts[kept]
        depths: dict[str, Any] = {"m": self._places, "ks": [] if targets is None else settings.ks}
        known, places = check_groups(groups).known, max([depths["m"], *depths["ks"]])
        found = self._outputs(
            operators,
            lambda operator: rank_deep(operator, rows, texts, prompts, known, places, gate=gate),
        )
        options = {
            "targets": targets,
            "over": settings.over,
            "permutations": settings.permutations,
            "level": settings.level,
        }
        return measure_lists(found, **options, **depths, **common), counts

    def _outputs(self, operators: Mapping[str, Operator], compute: Any) -> dict[str, np.ndarray]:
        if self._plain is None:
            self._plain = compute(operators[BASELINE])
        return {
            label: self._plain if label == BASELINE else compute(operator)
            for label, operator in operators.items()
        }

    def _described(self, spec: MethodSpec, operator: Operator) -> dict[str, Any]:
        about: dict[str, Any] = {
            "method": operator.name,
            "params": operator.params,
            "changes": list(operator.changes),
        }
        about |= {
            "fingerprint": operator.fingerprint,
            "fitted_on": fitted_on(spec, self.fitting, self.measured),
        }
        if spec.is_file:
            return about | {"file": spec.name}
        book = self._book_of(spec)
        if book is None:
            return about
        written = (spec.book or self.given_book) in (
            None,
            books.GRAMMAR,
        )  # for the very prompts of this run
        lacking = books.unworded(book, self.asked.prompts, self.attribute) if written else 0
        return about | {"book": {"hash": book.hash, "prompts": len(book), "unworded": lacking}}
