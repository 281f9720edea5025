"""equipoise.trackers: an audit in MLflow's file store, and in a run of Weights & Biases offline."""

from __future__ import annotations

import json

import pytest

import equipoise as eq
from equipoise._audit import AuditSettings
from equipoise.errors import EquipoiseError
from equipoise.trackers import figures, log_to_mlflow, log_to_wandb
from tests.helpers.common import component, embedded_model

pytestmark = pytest.mark.slow  # mlflow and wandb take their time to start


@pytest.fixture(scope="module")
def audited():
    embedded_model()
    return eq.audit(
        "none",
        prompts=["a photo of a doctor", "a photo of a nurse"],
        methods=["closed-form"],
        settings=AuditSettings(resamples=20),
    )


def test_figures_are_those_of_the_frame(audited):
    found = figures(audited)
    for row in audited.to_frame().itertuples():
        assert found[f"{row.method}/{row.metric}/value"] == row.value
        assert found[f"{row.method}/{row.metric}/low"] == row.low
    assert len(found) == 3 * len(audited.to_frame())


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    mlflow = component("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield mlflow
    while mlflow.active_run():
        mlflow.end_run()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # MLflow's own, of its file store
def test_an_audit_in_the_file_store_of_mlflow(audited, mlflow, tmp_path):
    client = mlflow.MlflowClient()
    run = client.get_run(log_to_mlflow(audited))
    assert run.data.metrics == pytest.approx(figures(audited))
    assert run.data.tags["equipoise.command"].startswith("equipoise.audit(")
    assert run.info.status == "FINISHED" and mlflow.active_run() is None
    listed = {file.path for file in client.list_artifacts(run.info.run_id, "audit")}
    assert listed == {"audit/results.json", "audit/report.html", "audit/model-card.md"}
    (page,) = (tmp_path / "mlruns").rglob("report.html")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_active_run_of_mlflow_is_used_and_stays_open(audited, mlflow):
    with mlflow.start_run() as run:
        assert log_to_mlflow(audited) == run.info.run_id
        assert mlflow.active_run().info.run_id == run.info.run_id
    again = log_to_mlflow(audited, run_id=run.info.run_id)
    assert again == run.info.run_id


def test_an_audit_in_a_run_of_wandb_offline(audited, tmp_path, monkeypatch):
    wandb = component("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="equipoise", mode="offline", dir=str(tmp_path)) as run:
        log_to_wandb(audited)
        summary = {name: run.summary[name] for name in figures(audited)}
        assert summary == pytest.approx(figures(audited))
        assert run.config["equipoise"]["equipoise.command"].startswith("equipoise.audit(")
    (page,) = tmp_path.rglob("media/html/*.html")
    assert page.read_text().startswith("<!doctype html>")


def test_what_is_typed_wrong_first_is_answered(audited, tmp_path):
    component("mlflow")
    component("wandb")
    with pytest.raises(EquipoiseError, match="is a path; pass what"):
        log_to_mlflow(tmp_path)
    with pytest.raises(EquipoiseError, match="dict is no audit"):
        log_to_wandb(json.loads("{}"))
    with pytest.raises(EquipoiseError, match=r"wandb\.init"):
        log_to_wandb(audited)
