"""Print each lower bound of pyproject.toml beside the versions that environments hold.

python scripts/lowest.py .venv-lowest .venv-lowest-frameworks .venv-lowest-open-clip

The environments are those of ``make test-lowest`` and ``make test-lowest-frameworks``. The table is
the one in docs/stability.md. The script fails where no environment has the bound itself: nobody has
tested that version then.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?>=(?P<version>[\w.]+)")
OURS = ("equipoise-mini", "equipoise[")


def bounds() -> list[tuple[str, str]]:
    """Return the packages that the core and the extras ask for, each with its lower bound."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    found: set[tuple[str, str]] = set()
    for requirement in requirements(project):
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            sys.exit(f"{requirement!r} in {PROJECT.name} has no lower bound; write name>=version")
        found.add((bound["name"], bound["version"]))
    return sorted(found, key=lambda one: (plain(one[0]), parts(one[1])))


def requirements(project: dict) -> Iterator[str]:
    """Yield what others publish and the package or one of its extras asks for."""
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in group:
            if not requirement.startswith(OURS):
                yield requirement


def parts(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without zeros at its end: 2.6 and 2.6.0 are one."""
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+", maxsplit=1)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def installed(environment: Path) -> dict[str, str]:
    """Return the versions of the packages in an environment, by name."""
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    if not folders:
        sys.exit(f"{environment} is no environment; make test-lowest makes it")
    return {plain(one.name): one.version for one in distributions(path=folders)}


def plain(name: str) -> str:
    """Return the name of a package in the one spelling that all others stand for."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(environments: list[str]) -> None:
    held = {Path(name).name: installed(Path(name)) for name in environments}
    print("| package | bound | " + " | ".join(held) + " |")
    print("|---|---|" + "---|" * len(held))
    untested = []
    for name, bound in bounds():
        versions = [packages.get(plain(name), "") for packages in held.values()]
        print(f"| {name} | {bound} | " + " | ".join(versions) + " |")
        if all(parts(version) != parts(bound) for version in versions):
            untested.append(f"{name} {bound}")
    if untested:
        sys.exit(f"no environment has {', '.join(untested)}; test it, or raise the bound")


if __name__ == "__main__":
    main(sys.argv[1:])
