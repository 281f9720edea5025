"""The results of a run as one document of plain numbers: the paper's Table 4 with intervals, every
prompt, and what Figure 4 shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._artefact import NOT_WHOLE, parse_json, write_atomically
from equipoise._audit.intervals import KIND
from equipoise._version import __version__
from equipoise.errors import ArtefactError
from equipoise.generation._gallery import gallery
from equipoise.generation._labels import Verdict
from equipoise.generation._manifest import Manifest
from equipoise.generation._measures import Cells, Resamples, mean_parity_floor, parity
from equipoise.generation._plan import Plan
from equipoise.generation._preset import SUBSET
from equipoise.prompts._attribute import Attribute

RESULTS, SUBSETS = "results.json", "subsets.json"
PEOPLE = "people"


@dataclass
class Measured:
    """What is known of a run's pictures.

    answers: by a model, image -> group or "unsure"; verdicts: by people; scores: CLIP's.
    """

    plan: Plan
    manifest: Manifest
    attribute: Attribute
    answers: Mapping[str, str] | None = None
    annotator: dict[str, Any] | None = None
    verdicts: Mapping[str, Verdict] | None = None
    people: dict[str, Any] | None = None
    scores: Mapping[str, float] | None = None
    clip: dict[str, Any] | None = None
    resamples: Resamples = field(default_factory=Resamples)


def results(measured: Measured) -> dict[str, Any]:
    """The document; the five-prompt subsets are those that were chosen when the folder was first
    measured.
    """
    cells = Cells(measured.plan, measured.manifest)
    codes, human = _codes(measured, cells)
    clip = None if measured.scores is None else cells.of(measured.scores)
    subsets = _subsets(measured, codes, clip)
    columns, floors = _columns(measured, codes, human, clip, subsets)
    shown = human if human is not None else codes
    return {
        "kind": "equipoise generation",
        "version": __version__,
        "plan": measured.plan.model_dump(),
        "attribute": {"name": measured.attribute.name, "groups": list(measured.attribute.groups)},
        "annotator": measured.annotator,
        "people": measured.people,
        "clip": measured.clip,
        "settings": {
            "resamples": measured.resamples.resamples,
            "level": measured.resamples.level,
            "interval": KIND,
        },
        "subsets": subsets,
        "columns": [
            {key: value for key, value in column.items() if key != "entries"} for column in columns
        ],
        "floors": floors,
        "methods": [
            {
                "label": method,
                "pictures": cells.images[i].size,
                "regenerated": int((cells.attempts[i] > 0).sum()),
                "attempts": int(cells.attempts[i].sum()),
                "cells": {column["key"]: column["entries"][i] for column in columns},
            }
            for i, method in enumerate(cells.methods)
        ],
        "prompts": [
            _prompt(measured, cells, codes, human, clip, j) for j in range(len(cells.prompts))
        ],
        "gallery": (
            []
            if shown is None
            else gallery(measured.plan, cells, shown, measured.attribute.groups, subsets["neutral"])
        ),
    }


def write(folder: Path, document: dict[str, Any]) -> None:
    """results.json."""
    write_atomically(
        folder / RESULTS,
        (json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(),
    )


def _codes(measured: Measured, cells: Cells) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return groups by the model and by people; None where nobody was asked."""
    groups = measured.attribute.groups
    model = None if measured.answers is None else cells.codes(measured.answers, groups)
    if measured.verdicts is None:
        return model, None
    return model, cells.codes(
        {image: verdict.group for image, verdict in measured.verdicts.items()}, groups
    )


def _columns(
    measured: Measured, codes: Any, human: Any, clip: Any, subsets: dict[str, list[str]]
) -> tuple[list[dict[str, Any]], dict]:
    """Table 4's columns, each with an entry a method; then those of explicit prompts that the gate
    leaves alone.
    """
    prompts, groups = [asked.prompt for asked in measured.plan.prompts], measured.attribute.groups
    neutral, explicit = measured.plan.neutral, measured.plan.explicit
    five, five_explicit = (
        [prompts.index(prompt) for prompt in subsets[kind]] for kind in ("neutral", "explicit")
    )
    stated = np.array(
        [
            groups.index(asked.explicit_group) if asked.explicit_group else -1
            for asked in measured.plan.prompts
        ]
    )
    by_model = (measured.annotator or {}).get("name", "")
    judged, by = (human, PEOPLE) if human is not None else (codes, by_model)
    draw, found, floors = measured.resamples, [], {}

    def add(
        key: str, name: str, better: str, by: str, which: list[int], entries: list[dict[str, Any]]
    ) -> None:
        found.append(
            {
                "key": key,
                "name": name,
                "better": better,
                "by": by,
                "prompts": len(which),
                "entries": entries,
            }
        )

    if codes is not None and neutral:
        add("sp", "SP_all", "lower", by_model, neutral, draw.parity(codes[:, neutral], len(groups)))
        floors["sp"] = mean_parity_floor(codes[0, neutral], len(groups))
    if judged is not None and five:
        add("sp_5", f"SP_{len(five)}", "lower", by, five, draw.parity(judged[:, five], len(groups)))
        floors["sp_5"] = mean_parity_floor(judged[0, five], len(groups))
    gated = [("", None)] if measured.plan.gate else [("", None), ("_gated", _kept(measured))]
    for suffix, kept in gated:
        note = ", gated" if suffix or measured.plan.gate else ""
        if clip is not None and explicit:
            entries = draw.mean(_behind(clip, kept)[:, explicit])
            add(
                f"clip{suffix}",
                f"CLIP score{note}",
                "higher",
                (measured.clip or {}).get("encoder", ""),
                explicit,
                entries,
            )
        if judged is not None and five_explicit:
            entries = draw.accuracy(_behind(judged, kept)[:, five_explicit], stated[five_explicit])
            add(f"accuracy{suffix}", f"Acc^G{note}", "higher", by, five_explicit, entries)
    return found, floors


def _kept(measured: Measured) -> np.ndarray:
    """(prompts,): which of them a gate would leave as they are."""
    return np.array([bool(asked.groups) for asked in measured.plan.prompts])


def _behind(array: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
    """With the gate: a prompt that it leaves alone gives the very pictures of the original model,
    which is the first method.
    """
    return array if kept is None else np.where(kept[None, :, None], array[:1], array)


def _subsets(measured: Measured, codes: Any, clip: Any) -> dict[str, list[str]]:
    """The neutral prompts with the largest SP, the explicit ones with the lowest CLIP score, under
    the original model; chosen once.
    """
    path = measured.manifest.folder / SUBSETS
    if path.is_file():
        try:
            chosen = parse_json(path.read_text(encoding="utf-8"))
            known = {asked.prompt: asked.prompt for asked in measured.plan.prompts}
            return {
                kind: [known[prompt] for prompt in chosen[kind]] for kind in ("neutral", "explicit")
            }
        except NOT_WHOLE as error:
            raise ArtefactError(
                f"{path} is damaged ({error!r}); delete it to have the prompts chosen again"
            ) from None
    prompts, neutral, explicit = (
        measured.plan.prompts,
        measured.plan.neutral,
        measured.plan.explicit,
    )
    skews = (
        None
        if codes is None
        else -np.nan_to_num(parity(codes[:1], len(measured.attribute.groups))[0])
    )
    scores = None if clip is None else clip[0].mean(-1)
    chosen = {
        "neutral": _lowest(prompts, neutral, skews),
        "explicit": _lowest(prompts, explicit, scores),
    }
    if (skews is not None or not neutral) and (scores is not None or not explicit):
        write_atomically(path, (json.dumps(chosen, ensure_ascii=False, indent=1) + "\n").encode())
    return chosen


def _lowest(prompts: Sequence[Any], which: list[int], by: np.ndarray | None) -> list[str]:
    """Five of the prompts; all of them where nothing says which."""
    ordered = which if by is None else sorted(which, key=lambda i: by[i])[:SUBSET]
    return [prompts[i].prompt for i in ordered]


def _prompt(
    measured: Measured, cells: Cells, codes: Any, human: Any, clip: Any, j: int
) -> dict[str, Any]:
    groups, asked = measured.attribute.groups, measured.plan.prompts[j]
    found = asked.model_dump() | {"explicit_group": asked.explicit_group, "methods": []}
    for i in range(len(cells.methods)):
        entry: dict[str, Any] = {}
        for by, given in (("model", codes), (PEOPLE, human)):
            if given is not None:
                counts = {
                    group: int((given[i, j] == place).sum()) for place, group in enumerate(groups)
                }
                skew = parity(given[i : i + 1, j : j + 1], len(groups))[0, 0]
                entry[by] = {"counts": counts, "sp": None if np.isnan(skew) else float(skew)}
        if clip is not None:
            entry["clip"] = float(np.nanmean(clip[i, j]))
        found["methods"].append(entry)
    return found
