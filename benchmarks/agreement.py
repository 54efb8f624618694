"""Do `evaluate`, `compare`, `diagnose` and `learn` say the same about a log?

    python -m benchmarks.agreement [--quick] [--json] [--logs N]

Draws small logs of seven kinds (light, heavy, skewed, clustered, zero-inflated, one-step, sequential)
and asks every door about each: tails, skew, unit, estimator, method, value, logged value, gain and
bounds must be the same, value = logged + gain exactly, and no bound above its value. Any disagreement
gives exit code 1.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys
import time
from pathlib import Path

from benchmarks.parts.options import parser, print_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import doors

FIRST = 100  # seed, beyond those of the tests


def main() -> int:
    """Draw the logs, and return 1 if any two doors disagree."""
    options = parser(__doc__, quick="5 logs of each kind")
    options.add_argument("--logs", type=int, default=45, help="of each kind")
    given = options.parse_args()
    logs = 5 if given.quick else given.logs
    began, found = time.process_time(), {}
    for kind in doors.KINDS:
        wrong = {}
        for seed in range(FIRST, FIRST + logs):
            if said := doors.disagreements(*doors.draw(kind, seed)):
                wrong[seed] = said
        found[kind] = wrong
        if not given.json:
            print(f"{kind:14} {len(wrong)} of {logs} logs with a disagreement")
            for seed, said in wrong.items():
                print(f"  seed {seed}: {'; '.join(said)}")
    seconds = time.process_time() - began
    if given.json:
        print_json({"logs": logs * len(doors.KINDS), "disagreements": found, "seconds": seconds})
    else:
        print(f"{logs * len(doors.KINDS)} logs, {seconds:.0f} s")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
