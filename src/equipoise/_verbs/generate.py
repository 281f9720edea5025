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
from equipoise.generation import _preset as preset
from equipoise.generation import _results as documents
from equipoise.generation import _table as table
from equipoise.generation._annotators import load_annotator
from equipoise.generation._drawing import draw
from equipoise.generation._labels import read_labels, unanimous
from equipoise.generation._manifest import Manifest, Picture
from equipoise.generation._measures import Resamples
from equipoise.generation._painters import MINI, load_painter
from equipoise.generation._plan import Plan, make_plan
from equipoise.generation._results import Measured, results
from equipoise.generation._scores import clip_scores, require_independent
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._writing import read_prompts
from equipoise.report._generation import page

REPORT = "report.html"


def generate(request: GenerationRequest) -> tuple[Manifest, dict[str, Any] | None]:
    """Run a request and write its files; the results are None where nothing was measured."""
    manifest, results = request.perform()
    if results is not None:
        documents.write(request.out, results)
        table.write(request.out, results)
        write_atomically(request.out / REPORT, page(results, manifest).encode())
    return manifest, results


@dataclass
class GenerationRequest:
    """What to draw and measure, by names and files.

    loading: device, dtype and offline. server: base_url of a language model.
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

    def perform(self) -> tuple[Manifest, dict[str, Any] | None]:
        """Draw, label, score; the document, where anything was asked of the pictures.

        What can be wrong is found before long work.
        """
        attribute = Attribute.load(self.attribute)
        plan = self.plan(attribute)
        given = None if self.labels is None else read_labels(self.labels, attribute.groups)
        if self.redraw and given is None:
            raise InputError(
                "`redraw` draws again what people disagree on or are unsure of; pass their answers"
                " as `labels`"
            )
        local: dict[str, Any] = {name: self.loading.get(name) for name in ("device", "offline")}
        annotator = (
            None
            if self.annotator is None
            else load_annotator(self.annotator, attribute, **local, **self.server)
        )
        scorer = (
            None if self.clip_score is None else load_encoder(self.clip_score, cache=True, **local)
        )
        painter = load_painter(
            self.model, steps=self.steps, guidance=self.guidance, size=self.size, **self.loading
        )
        plan = plan.model_copy(update={"revision": painter.revision})
        if scorer is not None and not self.same_encoder:
            require_independent(scorer, painter)
        least = self.people or (preset.ANNOTATORS if self.preset else 1)
        again = _unsettled(given, least) if self.redraw and given is not None else None
        manifest = draw(
            plan, painter, attribute, self.out, batch_size=self.batch_size, replace=again
        )
        if annotator is None and scorer is None and given is None:
            return manifest, None
        measured = Measured(
            plan, manifest, attribute, resamples=Resamples(self.resamples, seed=self.seed)
        )
        if annotator is not None:
            measured.answers = annotator.annotate(manifest)
            same = painter.conditioned_by(getattr(annotator, "encoder", None))
            measured.annotator = {
                "name": annotator.name,
                "question": annotator.question,
                "same": same,
            }
        if scorer is not None:
            measured.scores = clip_scores(scorer, manifest)
            measured.clip = {"encoder": scorer.id, "same": painter.conditioned_by(scorer)}
        if given is not None:
            _judge(measured, given, least)
        return manifest, results(measured)

    def plan(self, attribute: Attribute) -> Plan:
        """Of what was asked for, or of the preset, which options add to."""
        if self.preset not in (None, preset.NAME):
            raise InputError(f"preset={self.preset!r} is not legal; pass `preset` {preset.NAME}")
        paper = self.preset is not None
        if paper and (self.prompts is not None or self.gate or attribute.name != "gender"):
            raise InputError(
                f"`preset` {preset.NAME} has its own prompts, of gender, and no gate; leave"
                " `prompts`, `attribute` and `gate` out"
            )
        default = (
            (preset.MINI_METHODS if self.model == MINI else preset.METHODS)
            if paper
            else ("closed-form",)
        )
        options = {
            "seed": self.seed,
            "gate": not paper if self.gate is None else self.gate,
            "tokens": self.tokens,
            "book": self.book or "",
        }
        options |= {
            "steps": self.steps,
            "guidance": self.guidance,
            "size": self.size,
            "preset": self.preset or "",
        }
        images = self.per_prompt or (preset.IMAGES if paper else 8)
        prompts = preset.prompts() if paper else _prompts(self.prompts)
        return make_plan(self.model, attribute, prompts, self.methods or default, images, **options)


def _prompts(given: str | None) -> list[str]:
    """Of a text file, one a line, or of a prompt book; or the prompt itself."""
    if given is None:
        raise InputError(
            "no prompts were given; pass `prompts`: a text file with one per line, a prompt book,"
            ' or a prompt in words ("a photo of a doctor")'
        )
    if given in PromptBook.curated_names() or given.endswith(".json"):
        return list(PromptBook.load(given).prompts)
    if os.path.isfile(given) or given.endswith(".txt"):  # which takes a prompt too long for a name
        return read_prompts(Path(given))
    if os.path.isdir(given) or (Path(given).suffix and " " not in given):
        raise InputError(
            f"{given} is not a text file with one prompt per line; pass such a file, a prompt book,"
            " or a prompt in words"
        )
    return [given]


def _unsettled(labels: list[Label], least: int) -> Any:
    verdicts = unanimous(labels, least)

    def replaced(picture: Picture) -> bool:
        return picture.image in verdicts and not verdicts[picture.image].settled

    return replaced


def _judge(measured: Measured, labels: list[Label], least: int) -> None:
    """What people say of the run's pictures; labels of pictures that were replaced since are
    counted and no more.
    """
    current = {picture.image for picture in measured.manifest.pictures.values()}
    mine = [label for label in labels if label.image in current]
    if labels and not mine:
        raise InputError(
            "no label is of a picture of this run; pass those of its own folder, where images are"
            " named by their path in it"
        )
    verdicts = unanimous(mine, least)
    settled = sum(verdict.settled for verdict in verdicts.values())
    measured.verdicts = verdicts
    measured.people = {
        "annotators": len({label.annotator for label in mine}),
        "least": least,
        "settled": settled,
        "unsettled": len(verdicts) - settled,
        "unseen": len(current) - len(verdicts),
        "of_replaced": len({label.image for label in labels} - current),
    }
