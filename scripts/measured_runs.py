"""``MeasuredRun``: a run of docs/measurements, with what the scripts add to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from equipoise._artefact import write_atomically
from equipoise._documents import Document, Number, file_text, plain, read_document
from equipoise.evaluation import EvaluationRun

Value = TypeVar("Value")


class ProbedMethod(Document):
    """How well a probe reads the groups after a method."""

    method: str
    value: Number
    low: Number
    high: Number
    n: int


class MeasuredRun(EvaluationRun):
    """A run, or several of one grid merged: then fit_seconds has the time of each method."""

    fit_seconds: Any = None
    fits: dict[str, dict[str, Any]] = Field(default={})
    machine: dict[str, Any] = Field(default={})
    fitted_on: int | None = None
    class_sizes: dict[str, int] = Field(default={})
    probe: list[ProbedMethod] = Field(default=[])


def read(path: Path) -> MeasuredRun:
    """Return the run that a file of docs/measurements holds."""
    return read_document(MeasuredRun, path.read_bytes(), path, "a measured run", "measure it again")


def write_plain(path: Path, document: dict[str, Any]) -> None:
    """Write a measurement that is no run."""
    write_atomically(path, file_text(plain(document)).encode())


def given(value: Value | None) -> Value:
    """Return a value that these runs always have."""
    if value is None:
        raise ValueError("a value is missing; measure it again")
    return value
