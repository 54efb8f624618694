"""What follows an answer, on populations with known truth: segments, guardrails, hidden reasons, plans.

    python -m benchmarks.decisions [--quick] [--json] [--part NAME ...] [--seed S] [--logs N]
                                   [--record FILE]

Parts: segments (do the intervals of all segments hold together?), guardrails (is every statement on
two candidates and three outcomes right?), hidden (is the tipping Γ at most that of a hidden reason
that makes all of the gain?), plans (does a test of the planned size decide as often as promised?).
With --record a stopped run goes on where it stopped. A cell that clearly misses 88 % (plans: 80 %)
gives exit code 1.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys

from benchmarks.parts import decisions
from benchmarks.parts.running import Part, run_parts

PARTS: dict[str, Part] = {
    "segments": (decisions.segments, decisions.show),
    "guardrails": (decisions.guardrails, decisions.show),
    "hidden": (decisions.hidden, decisions.show),
    "plans": (decisions.plans, decisions.show),
}


if __name__ == "__main__":
    sys.exit(
        run_parts(__doc__, PARTS, quick="10 logs a cell, small ones only", seed=2030, logs=200)
    )
