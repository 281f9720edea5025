"""``equipoise generate``: from names and files to pictures drawn, labelled, scored and reported."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise._annotate.labels import Label
from equipoise._artefact import write_atomically
from equipoise.encoders import load_encoder
from equipoise.errors import InputError
from equipoise.generation import _paper_preset as preset
from equipoise.generation import _results as documents
from equipoise.generation import _table as table
from equipoise.generation._annotators import load_annotator
from equipoise.generation._annotators.annotator import Annotator
from equipoise.generation._drawing import draw
from equipoise.generation._labels import read_labels, unanimous
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._measures import Resamples
from equipoise.generation._painters import MINI, Painter, load_painter
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.generation._results import PictureFacts, results
from equipoise.generation._results_document import (
    AnnotatorFacts,
    GenerationResults,
    PeopleFacts,
    ScorerFacts,
)
from equipoise.generation._scores import clip_scores, require_independent
from equipoise.generation._shares import EQUAL
from equipoise.generation._treatments import pilot_rounds
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import read_prompts
from equipoise.prompts._prompt_book import PromptBook
from equipoise.report._generation import page

REPORT = "report.html"
BALANCED = "balanced"
BUDGET = 96  # pictures per prompt of a pilot, where no budget was given


def generate(request: GenerationRequest) -> tuple[Manifest, GenerationResults]:
    """Run a request and write its files, the report among them, whatever was measured."""
    manifest, results = request.perform()
    documents.write(request.out, results)
    table.write(request.out, results)
    write_atomically(request.out / REPORT, page(results, manifest).encode())
    return manifest, results


@dataclass
class GenerationRequest:
    """What to draw and measure, by names and files.

    target: the shares that are aimed at; with an annotator and without methods, a closed loop looks
    for them. budget: pictures per prompt of its pilot, for each ``balanced`` that has none of its
    own. loading: device, dtype and offline. server: base_url of a language model.
    """

    out: Path
    model: str
    attribute: str = "gender"
    prompts: str | None = None
    methods: tuple[str, ...] = ()
    per_prompt: int | None = None
    preset: str | None = None
    seed: int = 0
    gate: bool | None = None
    tokens: str = "after-sos"
    book: str | None = None
    steps: int | None = None
    guidance: float | None = None
    size: int | None = None
    target: str | None = None
    budget: int | None = None
    batch_size: int | None = None
    annotator: str | None = None
    labels: Path | None = None
    redraw: bool = False
    people: int | None = None
    clip_score: str | None = None
    same_encoder: bool = False
    resamples: int = 1000
    loading: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)

    def perform(self) -> tuple[Manifest, GenerationResults]:
        """Draw the pictures, and measure what was asked of them.

        What can be wrong is found before long work.
        """
        asked = self._read()
        tools = self._load(asked.attribute)
        asked.plan = asked.plan.model_copy(update={"revision": tools.painter.revision})
        manifest = self._draw(asked, tools)
        return manifest, results(self._measure(asked, tools, manifest))

    def _read(self) -> _Asked:
        """Read what the request names, and check it."""
        attribute = Attribute.load(self.attribute)
        plan = self.plan(attribute)
        labels = None
        if self.labels is not None:
            labels = read_labels(self.labels, attribute.groups)
        if self.redraw and labels is None:
            raise InputError(
                "`redraw` draws again what people disagree on or are unsure of; pass their answers"
                " as `labels`"
            )
        steered = [label for label, spec in plan.specs().items() if pilot_rounds(spec)]
        if steered and self.annotator is None:
            raise InputError(
                f"{steered[0]} is adjusted by what an annotator sees, and none was given; pass"
                " `annotator`, or leave its budget out"
            )
        return _Asked(attribute, plan, labels)

    def _load(self, attribute: Attribute) -> _Tools:
        """Load the models that draw, label and score."""
        device, offline = self.loading.get("device"), self.loading.get("offline")
        annotator = scorer = None
        if self.annotator is not None:
            annotator = load_annotator(
                self.annotator, attribute, device=device, offline=offline, **self.server
            )
        if self.clip_score is not None:
            scorer = load_encoder(self.clip_score, cache=True, device=device, offline=offline)
        painter = load_painter(
            self.model, steps=self.steps, guidance=self.guidance, size=self.size, **self.loading
        )
        if scorer is not None and not self.same_encoder:
            require_independent(scorer, painter)
        return _Tools(painter, annotator, scorer)

    def _draw(self, asked: _Asked, tools: _Tools) -> Manifest:
        """Draw what the folder lacks, and again what people cannot agree on."""
        again = None
        if self.redraw and asked.labels is not None:
            again = _unsettled(asked.labels, self._least())
        return draw(
            asked.plan,
            tools.painter,
            asked.attribute,
            self.out,
            batch_size=self.batch_size,
            replace=again,
            annotator=tools.annotator,
        )

    def _measure(self, asked: _Asked, tools: _Tools, manifest: Manifest) -> PictureFacts:
        """Label and score the pictures, and add what people said of them."""
        resamples = Resamples(self.resamples, seed=self.seed)
        measured = PictureFacts(asked.plan, manifest, asked.attribute, resamples=resamples)
        painter, annotator, scorer = tools.painter, tools.annotator, tools.scorer
        if annotator is not None:
            measured.answers = annotator.annotate(manifest)
            encoder = getattr(annotator, "encoder", None)
            measured.annotator = AnnotatorFacts(
                name=annotator.name,
                question=annotator.question,
                same=painter.conditioned_by(encoder),
            )
        if scorer is not None:
            measured.scores = clip_scores(scorer, manifest)
            measured.clip = ScorerFacts(encoder=scorer.id, same=painter.conditioned_by(scorer))
        if asked.labels is not None:
            _judge(measured, asked.labels, self._least())
        return measured

    def _least(self) -> int:
        """Return how many answers a picture needs."""
        if self.people:
            return self.people
        return preset.ANNOTATORS if self.preset else 1

    def plan(self, attribute: Attribute) -> DrawingPlan:
        """Return the plan of what was asked for, or of the preset, which options add to."""
        if self.preset is None:
            prompts, images, gate = _prompts(self.prompts), 8, True
        else:
            self._check_preset(attribute)
            prompts, images, gate = preset.prompts(), preset.IMAGES, False
        if self.gate is not None:
            gate = self.gate
        return make_plan(
            self.model,
            attribute,
            prompts,
            self._methods(),
            self.per_prompt or images,
            seed=self.seed,
            gate=gate,
            tokens=self.tokens,
            book=self.book or "",
            steps=self.steps,
            guidance=self.guidance,
            size=self.size,
            preset=self.preset or "",
            target=EQUAL if self.target is None else self.target,
        )

    def _check_preset(self, attribute: Attribute) -> None:
        """Raise for a preset that does not exist, and for what it decides by itself."""
        if self.preset != preset.NAME:
            raise InputError(f"preset={self.preset!r} is not legal; pass `preset` {preset.NAME}")
        if self.prompts is not None or self.gate or attribute.name != "gender":
            raise InputError(
                f"`preset` {preset.NAME} has its own prompts, of gender, and no gate; leave"
                " `prompts`, `attribute` and `gate` out"
            )

    def _methods(self) -> tuple[str, ...]:
        """Return the methods as they would be typed, with the budget of each ``balanced``."""
        methods, budget = self.methods or self._default_methods(), self.budget
        if budget is None and not self.methods:
            budget = BUDGET
        if budget is None:
            return methods
        found = tuple(_with_budget(method, budget) for method in methods)
        if self.budget is not None and found == methods and "budget=" not in "".join(found):
            raise InputError(
                f"`budget` {budget} is for balanced, which is not among the methods; add it, or"
                " leave `budget` out"
            )
        return found

    def _default_methods(self) -> tuple[str, ...]:
        if self.preset is not None:
            return preset.MINI_METHODS if self.model == MINI else preset.METHODS
        aims = self.target is not None and self.annotator is not None
        if aims or self.budget is not None:
            return (BALANCED,)
        return ("closed-form",)


@dataclass
class _Asked:
    """What a request names, read and checked."""

    attribute: Attribute
    plan: DrawingPlan
    labels: list[Label] | None


@dataclass(frozen=True)
class _Tools:
    """The models of a run; the annotator and the scorer only where they were asked for."""

    painter: Painter
    annotator: Annotator | None
    scorer: Any


def _with_budget(method: str, budget: int) -> str:
    """Return a method as it would be typed with a budget, where it is ``balanced`` without one."""
    name, _, params = method.partition(":")
    if name.strip() != BALANCED or "budget=" in params:
        return method
    return f"{name}:{params},budget={budget}" if params else f"{name}:budget={budget}"


def _prompts(given: str | None) -> list[str]:
    """Return the prompts of a text file (one per line) or of a prompt book; or the one given."""
    if given is None:
        raise InputError(
            "no prompts were given; pass `prompts`: a text file with one per line, a prompt book,"
            ' or a prompt in words ("a photo of a doctor")'
        )
    if given in PromptBook.curated_names() or given.endswith(".json"):
        return list(PromptBook.load(given).prompts)
    # os.path, unlike Path, takes a prompt that is too long for a file name
    if os.path.isfile(given) or given.endswith(".txt"):
        return read_prompts(Path(given))
    if os.path.isdir(given) or (Path(given).suffix and " " not in given):
        raise InputError(
            f"{given} is not a text file with one prompt per line; pass such a file, a prompt book,"
            " or a prompt in words"
        )
    return [given]


def _unsettled(labels: list[Label], least: int) -> Any:
    """Return a function that tells whether people could not agree on a picture."""
    verdicts = unanimous(labels, least)

    def replaced(picture: DrawnPicture) -> bool:
        return picture.image in verdicts and not verdicts[picture.image].settled

    return replaced


def _judge(measured: PictureFacts, labels: list[Label], least: int) -> None:
    """Add what people say of the run's pictures.

    Labels of pictures that were replaced since are only counted.
    """
    current = {picture.image for picture in measured.manifest.pictures.values()}
    mine = [label for label in labels if label.image in current]
    if labels and not mine:
        raise InputError(
            "no label is of a picture of this run; pass labels that name pictures by"
            " their path in the run's folder"
        )
    verdicts = unanimous(mine, least)
    settled = sum(verdict.settled for verdict in verdicts.values())
    measured.verdicts = verdicts
    measured.people = PeopleFacts(
        annotators=len({label.annotator for label in mine}),
        least=least,
        settled=settled,
        unsettled=len(verdicts) - settled,
        unseen=len(current) - len(verdicts),
        of_replaced=len({label.image for label in labels} - current),
    )
