"""What an import costs, and which way imports point."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.helpers.common import ROOT

SOURCE = ROOT / "src" / "equipoise"
HEAVY = {
    "torch",
    "jax",
    "triton",
    "transformers",
    "diffusers",
    "onnxruntime",
    "PIL",
    "pydantic",
    "joblib",
    "numba",
    "llvmlite",
    "scipy",
    "sklearn",
    "pandas",
    "pyarrow",
    "safetensors",
    "huggingface_hub",
    "openai",
    "rich",
    "typer",
    "faiss",
    "jinja2",
    "fsspec",
    "ray",
    "psycopg",
    "lance",
    "lancedb",
    "starlette",
    "uvicorn",
    "matplotlib",
    "sentence_transformers",
}

# Lower may not import higher. Rooms of one floor do not import each other unless listed.
FLOORS = {
    "errors": 0,
    "version": 0,
    "paths": 0.5,
    "telemetry": 0,
    "clock": 1,
    "display": 0,
    "near_names": 0,
    "array_types": 0,
    "geometry": 1,
    "artefact": 1,
    "documents": 1.5,
    "progress": 1,
    "published": 1,
    "kernels": 2,
    "hub": 1.5,
    "prompts": 2,
    "datasets": 7,
    "balance": 2,
    "search": 3,
    "tensor_search": 4,
    "space_document": 2,
    "space": 3,
    "metrics": 3,
    "row_check": 1,
    "debiasing": 4,
    "spaceset": 4,
    "certificate": 5,
    "methods": 5,
    "encoders": 6,
    "stores": 6,
    "engines": 7,
    "embedding": 7,
    "doctor": 7,
    "serving": 7,
    "annotate": 8,
    "evaluation": 8,
    "rows": 2,
    "applying": 8,
    "audit": 9,
    "generation": 10,
    "report": 11,
    "explore": 11,
    "bench": 13,
    "verbs": 12,
    "cli": 14,
    "sklearn": 6,
    "sentence_transformers": 6,
    "langchain": 7,
    "llama_index": 7,
    "spark": 6,
    "fiftyone": 6,
    "trackers": 13,
    "plots": 2,
    "__main__": 15,
    "__init__": 15,
}


def test_import_loads_no_framework():
    code = "import equipoise, sys; print(' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(loaded)


def test_the_command_line_loads_no_numpy_before_a_verb_asks_for_it():
    code = "import equipoise._cli, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_listing_of_methods_imports_none_of_them():
    code = (
        "import sys; from equipoise._cli import app; app(['methods'], standalone_mode=False);"
        "assert not {'numpy', 'equipoise.methods'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_rooms_that_are_heavy_load_when_asked_for():
    code = "import equipoise as eq; eq.metrics.max_skew, eq.datasets.celeba, eq.search; assert not hasattr(eq, 'nothing'); assert 'metrics' in eq.__all__"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_debias_of_numpy_loads_no_framework_but_numba():
    code = (
        "import equipoise as eq, numpy as np, sys; s = eq.AttributeSpace.from_prototypes({'a': np.eye(4)[0], 'b': np.eye(4)[1]});"
        "eq.debias(np.ones((2, 4)), s); print(' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "jax", "triton"} & set(loaded)


@pytest.mark.slow
def test_works_without_a_place_to_keep_compiled_code(tmp_path):
    """A read-only installation and no home: numba must compile each time rather than fail."""
    for path in SOURCE.rglob("*.py"):
        copy = tmp_path / "equipoise" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (tmp_path / "equipoise" / "kernels" / "__pycache__").write_text("not a folder")
    code = (
        "import equipoise as eq, numpy as np; s = eq.AttributeSpace.from_prototypes({'a': np.eye(4)[0], 'b': np.eye(4)[1]});"
        "print(eq.__file__, eq.kernels.which(np.ones(4)), eq.debias(np.ones((2, 4)), s).shape)"
    )
    environment = {
        "PYTHONPATH": str(tmp_path),
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null",
        "PATH": "/usr/bin:/bin",
        "NUMBA_OPT": "0",  # what is tested is that it compiles at all
    }
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert str(tmp_path) in result.stdout and "numba (2, 4)" in result.stdout


def plain(name: str) -> str:
    """A room's name without the underscore that marks it as private."""
    return name if name.startswith("__") else name.removeprefix("_")


def room(module: str) -> str:
    return plain(module.split(".")[1]) if "." in module else "__init__"


def runtime_imports(path):
    """Modules of this package that a file imports, those under TYPE_CHECKING left out."""
    tree = ast.parse(path.read_text())
    hidden = {
        n
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for n in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "equipoise"
        ):
            yield from (
                [f"equipoise.{alias.name}" for alias in node.names]
                if node.module == "equipoise"
                else [node.module]
            )


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        here = plain(parts[0])
        assert here in FLOORS, f"{here} has no floor: add it to FLOORS and to ARCHITECTURE.md"
        for module in runtime_imports(path):
            there = room(module)
            assert there == here or FLOORS[there] < FLOORS[here] or here == "__init__", (
                f"{path.name} imports {module}, which is above it"
            )


def test_every_file_says_what_it_is():
    for path in SOURCE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_architecture_page_is_one_screen_and_names_every_room():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(page.splitlines()) <= 60
    for room in FLOORS:
        if not room.startswith("_") and room != "version":
            shown = re.search(rf" _?{room}(/|\.py) ", page)
            assert shown, f"{room} is not in the picture"


def test_tests_lie_as_the_code_does():
    rooms = {plain(path.name) for path in SOURCE.iterdir() if path.is_dir()}
    around = {"helpers", "offline", "project"}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert folders <= rooms | around


def test_no_test_imports_another():
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(r"from (tests\.\S+) import", path.read_text())
        others = [module for module in found if not module.startswith("tests.helpers")]
        assert not others, f"{path.name} imports {others}: move what they share to tests/helpers"


def test_every_class_has_a_name_of_its_own():
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
