"""Say which measurements are older than the code that made them: python -m scripts.ages.

Ages are those of commits. Code that changed since need not have changed a number; whoever releases decides what to measure again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEASUREMENTS = ROOT / "docs" / "measurements"
METHODS = ("src/equipoise/methods", "src/equipoise/evaluation", "src/equipoise/metrics")
BALANCE = ("src/equipoise/_balance", "src/equipoise/methods", "src/equipoise/metrics")
KERNELS = ("src/equipoise/kernels", "src/equipoise/geometry.py")

# measurements -> what made them: a script or a bench first, then the rooms that it measures
MADE_BY: dict[str, tuple[str, ...]] = {
    "adapted_*.json": ("scripts/adapted.py", *METHODS),
    "balanced_*.json": ("scripts/balanced_results.py", *BALANCE),
    "generation_mini*.json": ("scripts/generation_table.py", "src/equipoise/generation"),
    "bench_balance_*.json": ("src/equipoise/_bench/balance.py", *BALANCE),
    "bench_bootstrap_*.json": ("src/equipoise/_bench/bootstrap.py", "src/equipoise/metrics"),
    "bench_encode_*.json": ("src/equipoise/_bench/encode.py", "src/equipoise/encoders"),
    "bench_explore_*.json": ("src/equipoise/_bench/explore.py", "src/equipoise/_explore"),
    "bench_kernel_*.json": ("src/equipoise/_bench/kernel.py", *KERNELS),
    "bench_methods_*.json": ("src/equipoise/_bench/methods.py", "src/equipoise/methods"),
    "bench_retrieval_*.json": ("src/equipoise/_bench/retrieval.py", *KERNELS),
    "beside.json": ("scripts/beside.py", "src/equipoise/methods"),
    "check_gpu_*.txt": ("scripts/check_gpu.py", *KERNELS),
    "cost_*.json": ("scripts/cost_over_rows.py", *KERNELS),
    "coverage.json": ("scripts/interval_coverage.py", "src/equipoise/metrics"),
    "extras.json": ("scripts/extras.py", "pyproject.toml", "constraints.txt"),
    "fairer_clip_seeds.json": ("scripts/fairer_clip_seeds.py", "src/equipoise/methods"),
    "leaderboard/*.json": ("scripts/leaderboard.py", *METHODS),
    "learned_on_clip_*.json": ("scripts/learned_on_clip.py", *METHODS),
    "methods_clip_*.json": ("scripts/methods_on_clip.py", *METHODS),
    "methods_mini_*.json": ("scripts/methods_on_mini.py", *METHODS),
    "small_people.json": ("scripts/small_people.py", *BALANCE),
    "released_on_gpu.json": ("scripts/released_on_gpu.py", "src/equipoise/methods"),
    "retrieval_by_gender_*.json": ("scripts/retrieval_by_gender.py", *METHODS),
}


def committed(path: str | Path) -> str:
    """Return when a path last changed, as git's ISO date; empty where git does not know it."""
    command = ["git", "log", "-1", "--format=%cI", "--", str(path)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def older() -> list[str]:
    """Return one line per kind of measurement that some of its code has outlived."""
    lines = []
    for pattern, code in MADE_BY.items():
        measured = min(map(committed, MEASUREMENTS.glob(pattern)), default="")
        changed = [part for part in code if committed(part) > measured]
        if changed:
            lines.append(f"{pattern}: of {measured[:16]}; changed since: {', '.join(changed)}")
    return lines


if __name__ == "__main__":
    print("\n".join(older()) or "No measurement is older than its code.")
