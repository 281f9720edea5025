"""``wrap`` for a pipeline of transformers: the same pipeline, whose embeddings are debiased."""

from __future__ import annotations

import copy
import sys
from typing import Any, Protocol, TypeVar

from equipoise.errors import InputError

TASKS = ("zero-shot-image-classification", "image-feature-extraction")


class TaskPipeline(Protocol):
    """What ``transformers.pipeline`` returns."""

    task: str
    model: Any


P = TypeVar("P", bound=TaskPipeline)


def is_pipeline(thing: Any) -> bool:
    """Return whether this is a pipeline of transformers, which need not be installed."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(thing, transformers.Pipeline)


def wrap_pipeline(pipeline: P, operator: Any, gate: Any) -> P:
    """Return a copy of the pipeline whose model debiases; the given one stays as it is."""
    from equipoise.encoders._debiased_model import DebiasedModel

    if pipeline.task not in TASKS:
        raise InputError(
            f"a pipeline for {pipeline.task!r} cannot be wrapped; pass one for"
            f" {' or '.join(map(repr, TASKS))}"
        )
    if gate is not None:
        raise InputError(
            "gate is not legal for a pipeline: its model is given tokens, and a gate reads texts;"
            " leave it out, or wrap what eq.load_encoder returns"
        )
    twin = copy.copy(pipeline)
    twin.model = DebiasedModel(pipeline.model, operator, pipeline.task)
    return twin
