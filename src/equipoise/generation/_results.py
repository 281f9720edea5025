"""The results of a run as one document of plain numbers.

It holds the paper's Table 4 with intervals, every prompt, and what Figure 4 shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise._artefact import write_atomically
from equipoise._audit.intervals import KIND as INTERVAL
from equipoise._documents import read_document
from equipoise._version import __version__
from equipoise.errors import ArtefactError
from equipoise.evaluation._run_document import Better
from equipoise.generation._gallery import gallery
from equipoise.generation._labels import Verdict
from equipoise.generation._loop_results import loops
from equipoise.generation._manifest import Manifest
from equipoise.generation._measures import PictureGrid, Resamples, mean_parity_floor, parity
from equipoise.generation._paper_preset import SUBSET
from equipoise.generation._plan import Asked, DrawingPlan
from equipoise.generation._results_document import (
    KIND,
    AnnotatorFacts,
    ChosenPrompts,
    DrawnMethod,
    GenerationResults,
    PeopleFacts,
    PromptOfMethod,
    PromptResults,
    ResampleFacts,
    ScorerFacts,
    ShownGroups,
    TableCell,
    TableColumn,
)
from equipoise.generation._steering_document import read_steering
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._attribute_document import AttributeFacts

RESULTS, SUBSETS = "results.json", "subsets.json"
PEOPLE = "people"


@dataclass
class PictureFacts:
    """What is known of a run's pictures.

    answers: by a model, image -> group or "unsure"; verdicts: by people; scores: CLIP's.
    """

    plan: DrawingPlan
    manifest: Manifest
    attribute: Attribute
    answers: Mapping[str, str] | None = None
    annotator: AnnotatorFacts | None = None
    verdicts: Mapping[str, Verdict] | None = None
    people: PeopleFacts | None = None
    scores: Mapping[str, float] | None = None
    clip: ScorerFacts | None = None
    resamples: Resamples = field(default_factory=Resamples)


class _Column(NamedTuple):
    """A column of the table, and its cell of each method."""

    head: TableColumn
    cells: list[TableCell]


def results(measured: PictureFacts) -> GenerationResults:
    """Return what was measured.

    The subsets of five prompts are those that were chosen when the folder was first measured.
    """
    cells = PictureGrid(measured.plan, measured.manifest)
    codes, human = _codes(measured, cells)
    clip = None if measured.scores is None else cells.of(measured.scores)
    subsets = _subsets(measured, codes, clip)
    columns, floors = _columns(measured, codes, human, clip, subsets)
    shown = human if human is not None else codes
    figures = []
    if shown is not None:
        groups = measured.attribute.groups
        figures = gallery(measured.plan, cells, shown, groups, subsets.neutral)
    closed = loops(
        measured.plan,
        cells,
        codes,
        read_steering(measured.manifest.folder),
        measured.annotator.name if measured.annotator else "",
    )
    prompts = range(len(cells.prompts))
    attribute, draw = measured.attribute, measured.resamples
    return GenerationResults(
        kind=KIND,
        version=__version__,
        plan=measured.plan,
        attribute=AttributeFacts(name=attribute.name, groups=list(attribute.groups)),
        annotator=measured.annotator,
        people=measured.people,
        clip=measured.clip,
        settings=ResampleFacts(resamples=draw.resamples, level=draw.level, interval=INTERVAL),
        subsets=subsets,
        columns=[column.head for column in columns],
        floors=floors,
        methods=[_method(cells, columns, i) for i in range(len(cells.methods))],
        prompts=[_prompt(measured, cells, codes, human, clip, j) for j in prompts],
        gallery=figures,
        **({"loops": closed} if closed else {}),  # what there is not is not in the file
    )


def _method(cells: PictureGrid, columns: list[_Column], i: int) -> DrawnMethod:
    attempts = cells.attempts[i]
    return DrawnMethod(
        label=cells.methods[i],
        pictures=cells.images[i].size,
        regenerated=int((attempts > 0).sum()),
        attempts=int(attempts.sum()),
        cells={column.head.key: column.cells[i] for column in columns},
    )


def write(folder: Path, results: GenerationResults) -> None:
    """Write results.json."""
    write_atomically(folder / RESULTS, results.to_text().encode())


def _codes(
    measured: PictureFacts, cells: PictureGrid
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return groups by the model and by people; None where nobody was asked."""
    groups = measured.attribute.groups
    model = None if measured.answers is None else cells.codes(measured.answers, groups)
    if measured.verdicts is None:
        return model, None
    judged = {image: verdict.group for image, verdict in measured.verdicts.items()}
    return model, cells.codes(judged, groups)


def _columns(
    measured: PictureFacts, codes: Any, human: Any, clip: Any, subsets: ChosenPrompts
) -> tuple[list[_Column], dict[str, float | None]]:
    """Return Table 4's columns, each with an entry per method, and the floors of SP."""
    prompts, groups = [asked.prompt for asked in measured.plan.prompts], measured.attribute.groups
    five = [prompts.index(prompt) for prompt in subsets.neutral]
    five_explicit = [prompts.index(prompt) for prompt in subsets.explicit]
    by_model = measured.annotator.name if measured.annotator else ""
    judged, by = codes, by_model
    if human is not None:
        judged, by = human, PEOPLE
    found, floors = [], {}
    for key, name, shown, who, which in (
        ("sp", "SP_all", codes, by_model, measured.plan.neutral),
        ("sp_5", f"SP_{len(five)}", judged, by, five),
    ):
        if shown is not None and which:
            entries = measured.resamples.parity(shown[:, which], len(groups))
            found.append(_column(key, name, "lower", who, which, entries))
            floors[key] = mean_parity_floor(shown[0, which], len(groups))
    found += _explicit_columns(measured, judged, by, clip, five_explicit)
    return found, floors


def _explicit_columns(
    measured: PictureFacts, judged: Any, by: str, clip: Any, five: list[int]
) -> list[_Column]:
    """Return the columns of explicit prompts.

    Without the gate, the same columns follow as the gate would leave them.
    """
    plan, groups, draw = measured.plan, measured.attribute.groups, measured.resamples
    explicit = plan.explicit
    stated = np.full(len(plan.prompts), -1)
    for i in explicit:
        stated[i] = groups.index(plan.prompts[i].explicit_group)
    variants = [("", "", None), ("_gated", ", gated", _kept(measured))]
    if plan.gate:
        variants = [("", ", gated", None)]
    found = []
    for suffix, note, kept in variants:
        if clip is not None and explicit:
            encoder = measured.clip.encoder if measured.clip else ""
            entries = draw.mean(_behind(clip, kept)[:, explicit])
            key, name = f"clip{suffix}", f"CLIP score{note}"
            found.append(_column(key, name, "higher", encoder, explicit, entries))
        if judged is not None and five:
            entries = draw.accuracy(_behind(judged, kept)[:, five], stated[five])
            key, name = f"accuracy{suffix}", f"Acc^G{note}"
            found.append(_column(key, name, "higher", by, five, entries))
    return found


def _column(
    key: str, name: str, better: Better, by: str, which: list[int], cells: list[TableCell]
) -> _Column:
    return _Column(TableColumn(key=key, name=name, better=better, by=by, prompts=len(which)), cells)


def _kept(measured: PictureFacts) -> np.ndarray:
    """Return which prompts (prompts,) a gate would leave as they are."""
    return np.array([bool(asked.groups) for asked in measured.plan.prompts])


def _behind(array: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
    """Return numbers as they would be with the gate.

    A prompt that the gate leaves alone gives the very pictures of the original model, which is the
    first method.
    """
    return array if kept is None else np.where(kept[None, :, None], array[:1], array)


def _subsets(measured: PictureFacts, codes: Any, clip: Any) -> ChosenPrompts:
    """Return neutral prompts with the largest SP and explicit ones with the lowest CLIP score.

    Both are under the original model, and chosen once.
    """
    path = measured.manifest.folder / SUBSETS
    if path.is_file():
        return _read_subsets(path, measured.plan)
    plan = measured.plan
    prompts, neutral, explicit = plan.prompts, plan.neutral, plan.explicit
    skews = None
    if codes is not None:
        skews = -np.nan_to_num(parity(codes[:1], len(measured.attribute.groups))[0])
    scores = None if clip is None else clip[0].mean(-1)
    chosen = ChosenPrompts(
        neutral=_lowest(prompts, neutral, skews), explicit=_lowest(prompts, explicit, scores)
    )
    if (skews is not None or not neutral) and (scores is not None or not explicit):
        write_atomically(path, chosen.to_text().encode())
    return chosen


def _read_subsets(path: Path, plan: DrawingPlan) -> ChosenPrompts:
    """Return the subsets that were chosen before; raise for a prompt that the plan lacks."""
    what, remedy = "the chosen prompts of a run", "delete it to have the prompts chosen again"
    chosen = read_document(ChosenPrompts, path.read_bytes(), path, what, remedy)
    known = {asked.prompt for asked in plan.prompts}
    for prompt in (*chosen.neutral, *chosen.explicit):
        if prompt not in known:
            raise ArtefactError(f"{path} names {prompt!r}, which is not in the plan; {remedy}")
    return chosen


def _lowest(prompts: Sequence[Asked], which: list[int], by: np.ndarray | None) -> list[str]:
    """Return the five lowest of the prompts; all of them where nothing orders them."""
    ordered = which if by is None else sorted(which, key=lambda i: by[i])[:SUBSET]
    return [prompts[i].prompt for i in ordered]


def _prompt(
    measured: PictureFacts, cells: PictureGrid, codes: Any, human: Any, clip: Any, j: int
) -> PromptResults:
    groups, asked = measured.attribute.groups, measured.plan.prompts[j]
    methods = []
    for i in range(len(cells.methods)):
        known: dict[str, Any] = {}  # what is not known is not in the file
        for by, given in (("model", codes), (PEOPLE, human)):
            if given is not None:
                known[by] = _shown(given[i, j], groups)
        if clip is not None:
            known["clip"] = float(np.nanmean(clip[i, j]))
        methods.append(PromptOfMethod(**known))
    return PromptResults(**asked.model_dump(), explicit_group=asked.explicit_group, methods=methods)


def _shown(codes: np.ndarray, groups: Sequence[str]) -> ShownGroups:
    """Return how many pictures (numbers,) of a method and prompt show each group, and the SP."""
    counts = {group: int((codes == place).sum()) for place, group in enumerate(groups)}
    skew = parity(codes[None, None], len(groups))[0, 0]
    return ShownGroups(counts=counts, sp=float(skew))
