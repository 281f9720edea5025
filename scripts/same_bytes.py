"""Run each verb many times beside a busy loop, and kill it many times: is there one hash?

Type: python -m scripts.same_bytes --runs 10 --kills 20
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.helpers.verbs import VERBS, busy_loop, kill_and_resume, make_inputs, run_again


def main() -> None:
    """Print a line per verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--verb", action="append", choices=list(VERBS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, busy_loop():
        given, folder = Path(place) / "given", Path(place) / "made"
        make_inputs(given)
        for verb in asked.verb or VERBS:
            begun = time.perf_counter()
            hashes = Counter(run_again(verb, given, folder, asked.runs))
            seconds = (time.perf_counter() - begun) / asked.runs
            print(f"{verb}: {asked.runs} runs of {seconds:.1f} s: {dict(hashes)}", flush=True)
            killed, landed = kill_and_resume(verb, given, folder, asked.kills, seconds)
            same = "the same" if [killed] == list(hashes) else "ANOTHER"
            print(f"{verb}: {landed} of {asked.kills} kills: {killed}, {same}", flush=True)


if __name__ == "__main__":
    main()
