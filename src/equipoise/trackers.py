"""What an audit found, sent to a tracker of experiments: MLflow, or Weights & Biases."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from equipoise._audit.documents import RESULTS
from equipoise._verbs.audit import CARD, REPORT, AuditResults
from equipoise.errors import InputError, MissingExtraError

__all__ = ["log_to_mlflow", "log_to_wandb"]

FILES = (RESULTS, REPORT, CARD)
PARTS = ("value", "low", "high")


def log_to_mlflow(results: AuditResults, *, run_id: str | None = None) -> str:
    """Log an audit to the active run of MLflow, or to a new one; return the run's id.

    Figures become metrics named ``method/metric/value``, ``.../low`` and ``.../high``; the page,
    the results and the model card become artefacts in the folder ``audit``.
    """
    _require_results(results)
    try:
        import mlflow
    except ImportError:
        raise MissingExtraError("log_to_mlflow", "mlflow", "mlflow") from None
    active = mlflow.active_run()
    if run_id is not None:
        wanted = run_id
    elif active is not None:
        wanted = active.info.run_id
    else:
        with mlflow.start_run() as run:
            return log_to_mlflow(results, run_id=run.info.run_id)
    client = mlflow.MlflowClient()
    for name, value in figures(results).items():
        client.log_metric(wanted, name, value)
    for name, value in facts(results).items():
        client.set_tag(wanted, name, value)
    with tempfile.TemporaryDirectory() as folder:
        results.save(folder)
        for name in FILES:
            client.log_artifact(wanted, str(Path(folder) / name), "audit")
    return wanted


def log_to_wandb(results: AuditResults, run: Any = None) -> None:
    """Log an audit to a run of Weights & Biases: ``wandb.init(mode="offline")`` needs no account.

    Figures go into the run's summary under ``method/metric/value``, ``.../low`` and ``.../high``,
    the page is shown as ``audit``, and the files become an artifact of the type ``audit``. run: the
    active one by default.
    """
    _require_results(results)
    try:
        import wandb
    except ImportError:
        raise MissingExtraError("log_to_wandb", "wandb", "wandb") from None
    run = run or wandb.run
    if run is None:
        raise InputError(
            'there is no run; type wandb.init(project="...") first, with mode="offline" where'
            " nothing may be sent"
        )
    run.config.update({"equipoise": facts(results)})
    run.summary.update(figures(results))
    artifact = wandb.Artifact("equipoise-audit", type="audit")
    with tempfile.TemporaryDirectory() as folder:
        results.save(folder)
        run.log({"audit": wandb.Html(str(Path(folder) / REPORT), inject=False)})
        for name in FILES:
            artifact.add_file(str(Path(folder) / name), name=name)
        run.log_artifact(artifact)


def figures(results: AuditResults) -> dict[str, float]:
    """Return every figure of the summary and its interval, by method and metric."""
    labels = [method.label for method in results.document.methods]
    found = {}
    for metric in results.document.summary:
        for label, measured in zip(labels, metric.values, strict=True):
            for part in PARTS:
                value = getattr(measured, part)
                if value is not None:
                    found[f"{_name(label)}/{metric.key}/{part}"] = float(value)
    return found


def facts(results: AuditResults) -> dict[str, str | None]:
    """Return what was measured, in words: the headline, and the call that measures it again."""
    from equipoise.report import headline

    document = results.document
    return {
        "equipoise.headline": headline(document),
        "equipoise.command": document.record.command,
        "equipoise.model": document.record.model,
        "equipoise.created": document.created,
    }


def _name(label: str) -> str:
    """Return a label as trackers take it: letters, digits, and a few signs."""
    legal = "".join(letter if letter.isalnum() or letter in "-_. " else "_" for letter in label)
    return legal.strip()


def _require_results(results: Any) -> None:
    if isinstance(results, str | os.PathLike):
        raise InputError(f"{os.fspath(results)!r} is a path; pass what eq.audit returned")
    if not isinstance(results, AuditResults):
        raise InputError(f"{type(results).__name__} is no audit; pass what eq.audit returned")
