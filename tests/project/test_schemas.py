"""The schemas of files: they are the models', files of 0.1.0 can be read, and errors name the field."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel
from safetensors import safe_open
from safetensors.numpy import save_file
from scripts import schemas

import equipoise as eq
from equipoise._annotate.documents import Agreement
from equipoise._applying.documents import ApplyManifest
from equipoise._documents import Document, read_document
from equipoise._stores.folder import StoreManifest, read_manifest
from equipoise.evaluation import EvaluationRun, SweepResults
from equipoise.evaluation._run_file import read
from equipoise.generation import DrawingPlan
from equipoise.generation._manifest import Manifest
from equipoise.generation._results_document import ChosenPrompts, GenerationResults
from tests.helpers.common import ROOT

FILES = ROOT / "tests" / "project" / "files"  # written by 0.1.0, before there were models
RESULTS = {
    "run.json": EvaluationRun,
    "cell.json": EvaluationRun,
    "sweep.json": SweepResults,
    "generation.json": GenerationResults,
    "subsets.json": ChosenPrompts,
    "agreement.json": Agreement,
}
ARTEFACTS = {
    "space.safetensors": eq.AttributeSpace.load,
    "union.safetensors": eq.AttributeSpace.load,
    "space-set.safetensors": eq.SpaceSet.load,
    "operator.safetensors": eq.methods.load,
}
MANIFESTS = {
    "store.json": (StoreManifest, 1),
    "generation-plan.json": (DrawingPlan, 1),
    "equipoise-apply.json": (ApplyManifest, None),
}


def test_published_schemas_and_their_page_are_the_models():
    for path, text in schemas.files().items():
        assert (ROOT / path).read_text() == text, f"{path} is old: type python -m scripts.schemas"
    names = {f"{kind.name}.schema.json" for kind in schemas.KINDS}
    assert names <= {path.name for path in (ROOT / schemas.FOLDER).iterdir()}


def test_every_field_of_a_published_model_is_of_a_known_form():
    """A field of any form would be a dictionary in disguise; parameters of methods are."""
    free = {
        ("MethodFacts", "params"),
        ("AuditedMethod", "params"),
        ("SettingFacts", "positive"),
        ("SweepPoint", "value"),
    }
    free |= {("ImageGraph", "preprocess")}
    for kind in schemas.KINDS:
        document = kind.model.model_json_schema()
        for name, part in {kind.model.__name__: document, **document.get("$defs", {})}.items():
            for field, form in part.get("properties", {}).items():
                known = {"type", "$ref", "anyOf", "const", "enum"} & set(form)
                open_object = form.get("additionalProperties") is True
                assert (known and not open_object) or (name, field) in free, (name, field)


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_0_1_0_wrote_are_read_and_written_again_to_the_byte(name):
    text = (FILES / name).read_text()
    found = RESULTS[name].model_validate_json(text)
    assert json.loads(found.to_text()) == json.loads(text)
    if name != "agreement.json":  # printed with other escapes
        assert found.to_text() == text


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_0_1_0_wrote_are_read_and_written_again_to_the_byte(name):
    model, indent = MANIFESTS[name]
    text = (FILES / name).read_text()
    assert model.model_validate_json(text).model_dump_json(indent=indent) == text.rstrip("\n")


def test_readers_take_files_of_0_1_0(tmp_path):
    assert read(FILES / "run.json").task == "retrieval"
    assert read_manifest(FILES / "store.json").done
    (tmp_path / "manifest.jsonl").write_text((FILES / "manifest.jsonl").read_text())
    drawn = Manifest(tmp_path)
    assert len(drawn.pictures) == 8
    drawn.compact()
    assert (tmp_path / "manifest.jsonl").read_text() == (FILES / "manifest.jsonl").read_text()
    (tmp_path / "run.json").write_text((FILES / "generation-plan.json").read_text())
    assert DrawingPlan.load(tmp_path).methods == ["none", "closed-form"]


@pytest.mark.parametrize("name", ARTEFACTS)
def test_artefacts_that_0_1_0_wrote_are_read_and_written_again_to_the_byte(name, tmp_path):
    loaded = ARTEFACTS[name](FILES / name)
    loaded.save(tmp_path / name)
    written, _ = metadata_of(tmp_path / name)
    before, _ = metadata_of(FILES / name)
    if name == "operator.safetensors":  # it names the equipoise that wrote it
        assert json.loads(before) | {"version": eq.__version__} == json.loads(written)
    if json.loads(before)["version"] == json.loads(written)["version"]:
        assert (tmp_path / name).read_bytes() == (FILES / name).read_bytes()


def metadata_of(path):
    """The JSON that a safetensors file carries, and its arrays."""
    with safe_open(path, "np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return file.metadata()["equipoise"], arrays


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("space.safetensors", lambda d: d.pop("kappa"), "the field kappa is missing"),
        ("space.safetensors", lambda d: d.update(kappa="much"), "the field kappa.* is 'much'"),
        ("space.safetensors", lambda d: d.update(parts=[3]), r"the field parts\.0 is 3"),
        ("space-set.safetensors", lambda d: d.update(ranks="one"), "the field ranks is 'one'"),
        ("operator.safetensors", lambda d: d.update(method=3), "the field method is 3"),
        ("operator.safetensors", lambda d: d.update(attribute=[]), r"the field attribute is \[\]"),
        (
            "operator.safetensors",
            lambda d: d["settings"].pop("space"),
            "the field space is missing",
        ),
    ],
)
def test_the_error_of_an_artefact_names_the_field(name, change, message, tmp_path):
    said, arrays = metadata_of(FILES / name)
    document = json.loads(said)
    change(document)
    save_file(arrays, tmp_path / name, {"equipoise": json.dumps(document)})
    with pytest.raises(eq.EquipoiseError, match=f"does not hold a whole .*{message}"):
        ARTEFACTS[name](tmp_path / name)


def test_metadata_keeps_infinity_and_documents_cannot_be_changed():
    space = eq.AttributeSpace.load(FILES / "space.safetensors")
    assert space.kappa == float("inf") and space.metadata().kappa == "inf"
    operator = eq.methods.load(FILES / "operator.safetensors")
    assert operator.metadata().to_plain()["params"]["kappa"] == operator.params["kappa"]
    with pytest.raises(ValueError, match="frozen"):
        operator.metadata().method = "none"


def test_an_unknown_field_is_ignored(tmp_path):
    document = json.loads((FILES / "run.json").read_text())
    document["rows"][0]["colour"] = "blue"
    (tmp_path / "run.json").write_text(json.dumps(document | {"more": 1}))
    assert read(tmp_path / "run.json") == read(FILES / "run.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["rows"][1].update(value="low"), "the field rows.1.value is 'low': .*number"),
        (lambda d: d["rows"][0].pop("n"), "the field rows.0.n is missing"),
        (lambda d: d.update(kind="else"), "the field kind is 'else': .*'equipoise evaluation'"),
        (lambda d: d.update(format=99, rows="others"), "has format 99 .* reads up to 1"),
    ],
)
def test_errors_name_the_file_the_field_and_what_is_legal(change, message, tmp_path):
    document = json.loads((FILES / "run.json").read_text())
    change(document)
    (tmp_path / "run.json").write_text(json.dumps(document))
    with pytest.raises(eq.EquipoiseError, match=message) as raised:
        read(tmp_path / "run.json")
    assert str(tmp_path / "run.json") in str(raised.value)


@pytest.mark.parametrize("text", ["[]", "null", "{", '"\\ud800"', "[" * 10_000, "NaN"])
def test_what_is_no_document_is_refused_in_words(text):
    with pytest.raises(eq.EquipoiseError, match=r"x\.json is not a document, or damaged"):
        read_document(EvaluationRun, text, "x.json", "a document", "pass another")


def test_documents_cannot_be_changed():
    run = read(FILES / "run.json")
    with pytest.raises(ValueError, match="frozen"):
        run.task = "classification"
    assert isinstance(run, Document) and isinstance(run, BaseModel)
