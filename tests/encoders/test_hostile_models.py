"""A model folder that brings Python code, or a pickle that runs some, gets nothing run: it loads without, or is an error."""

from __future__ import annotations

import ast
import json
import pickle

import pytest

import equipoise as eq
from equipoise.errors import MissingExtraError
from tests.helpers import models
from tests.helpers.common import ROOT, component
from tests.helpers.traps import Payload, set_trap

NAMED = {"auto_map": dict.fromkeys(("AutoConfig", "AutoModel"), "trap.Trap")}


@pytest.fixture
def marker(tmp_path):
    """What the code of a folder would write."""
    return tmp_path / "ran"


def edit(path, **changed):
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def rename_first_module(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "trap.Trap"
    (folder / "modules.json").write_text(json.dumps(modules))


def tried(load, marker):
    """Load; whatever comes of it, an error is of our family and nothing ran."""
    try:
        load()
    except eq.EquipoiseError as error:
        assert not isinstance(error, MissingExtraError), error
        refused = True
    else:
        refused = False
    assert not marker.exists()
    return refused


# st:


def test_st_refuses_a_module_of_the_folder(tmp_path, marker, monkeypatch):
    component("sentence_transformers")
    folder = models.sentence_texts(tmp_path)
    set_trap(folder, marker)
    rename_first_module(folder)
    monkeypatch.chdir(folder)  # where the module could be imported from, too
    assert tried(lambda: eq.load_encoder(f"st:{folder}"), marker)


def test_st_refuses_an_activation_of_the_folder(tmp_path, marker, monkeypatch):
    component("sentence_transformers")
    folder = models.sentence_texts(tmp_path)
    set_trap(folder, marker)
    modules = json.loads((folder / "modules.json").read_text())
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    (folder / "2_Dense").mkdir()
    settings = {"in_features": 32, "out_features": 32, "activation_function": "trap.Trap"}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(settings))
    monkeypatch.syspath_prepend(str(folder))
    tried(lambda: eq.load_encoder(f"st:{folder}"), marker)


def test_st_loads_a_known_model_without_the_code_that_its_config_names(tmp_path, marker):
    component("sentence_transformers")
    folder = models.sentence_texts(tmp_path)
    set_trap(folder, marker)
    edit(folder / "config.json", **NAMED)
    assert not tried(lambda: eq.load_encoder(f"st:{folder}"), marker)


def test_a_sentence_transformers_that_runs_code_of_folders_is_refused(tmp_path, monkeypatch):
    library = component("sentence_transformers")
    monkeypatch.setattr(library, "__version__", "5.2.0")
    with pytest.raises(MissingExtraError, match=r"sentence-transformers 6\.0 or newer"):
        eq.load_encoder(f"st:{tmp_path}")


# hf:


@pytest.mark.parametrize(
    ("file", "auto"),
    [
        ("config.json", ("AutoConfig", "AutoModel")),
        ("tokenizer_config.json", ("AutoTokenizer",)),
        ("preprocessor_config.json", ("AutoImageProcessor",)),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_hf_runs_no_code_of_the_folder(file, auto, known, tmp_path, marker):
    """A kind that transformers knows loads without the folder's code; another one does not load."""
    component("transformers")
    folder = models.clip(tmp_path / "clip")
    set_trap(folder, marker)
    named = ["trap.Trap", None] if auto == ("AutoTokenizer",) else "trap.Trap"
    changed = {"auto_map": dict.fromkeys(auto, named)}
    if not known:
        kind = {
            "config.json": "model_type",
            "tokenizer_config.json": "tokenizer_class",
            "preprocessor_config.json": "image_processor_type",
        }
        changed[kind[file]] = "Trap"
    edit(folder / file, **changed)
    refused = tried(lambda: eq.load_encoder(f"hf:{folder}"), marker)
    assert refused or known or file != "config.json"


def test_hf_runs_no_pickle(tmp_path, marker):
    component("transformers")
    folder = models.clip(tmp_path / "clip")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(marker)))
    assert tried(lambda: eq.load_encoder(f"hf:{folder}"), marker)


# Pipelines and annotators


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    component("diffusers")
    from tests.helpers import pipelines

    folder = tmp_path_factory.mktemp("pipeline") / "sd1"
    pipelines.sd1().save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", ["pipeline", "part", "pipeline.py", "text encoder"])
def test_a_pipeline_runs_no_code_of_the_folder(case, pipeline, tmp_path, marker):
    import shutil

    from equipoise.generation._painters import load_painter

    folder = shutil.copytree(pipeline, tmp_path / "sd1")
    set_trap(folder, marker)
    if case == "pipeline":
        edit(folder / "model_index.json", _class_name=["trap", "Trap"])
    elif case == "part":
        set_trap(folder / "unet", marker)
        edit(folder / "model_index.json", unet=["trap", "Trap"])
    elif case == "pipeline.py":
        (folder / "trap.py").rename(folder / "pipeline.py")
        edit(folder / "model_index.json", _class_name="Trap")
    else:
        set_trap(folder / "text_encoder", marker)
        edit(folder / "text_encoder" / "config.json", **NAMED)
    refused = tried(lambda: load_painter(str(folder), device="cpu", offline=True), marker)
    assert refused == (case != "text encoder")


@pytest.mark.slow
def test_an_annotator_runs_no_code_of_the_folder(tmp_path, marker):
    component("transformers")
    from equipoise.generation._annotators.blip2 import Blip2

    folder = models.blip2_vqa(tmp_path / "blip2")
    set_trap(folder, marker)
    edit(folder / "config.json", **NAMED)
    tried(lambda: Blip2(str(folder), eq.Attribute.load("gender"), "cpu", offline=True), marker)


def loads(tree):
    """Calls of ``from_pretrained`` of a library, ours being methods of a space."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".from_pretrained"):
            yield node


def test_every_load_says_that_code_of_a_model_is_not_trusted():
    """The default of some loaders is to ask at the terminal."""
    for path in (ROOT / "src").rglob("*.py"):
        for call in loads(ast.parse(path.read_text())):
            said = {word.arg: ast.unparse(word.value) for word in call.keywords}
            assert said.get("trust_remote_code") == "False", f"{path.name}:{call.lineno}"
