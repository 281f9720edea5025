"""Print the lowest version of each dependency that pyproject.toml allows, as pins for pip.

python scripts/lowest.py            # the core
python scripts/lowest.py numba onnx # and these extras
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.\[\]-]+)>=(?P<version>[\w.]+)")
OURS = ("equipoise-mini",)


def pin(requirement: str) -> str:
    found = BOUND.fullmatch(requirement)
    if found is None:
        sys.exit(f"{requirement!r} in {PROJECT.name} has no lower bound; write name>=version")
    return f"{found['name']}=={found['version']}"


def main(extras: list[str]) -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    optional = project["optional-dependencies"]
    if unknown := [extra for extra in extras if extra not in optional]:
        sys.exit(f"{unknown[0]!r} is not an extra; there are {', '.join(optional)}")
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += optional[extra]
    pins = {pin(requirement) for requirement in wanted if not requirement.startswith(OURS)}
    print("\n".join(sorted(pins)))


if __name__ == "__main__":
    main(sys.argv[1:])
