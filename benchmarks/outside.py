"""The default on worlds and data that it was not made for.

    python benchmarks/outside.py [--quick] [--json] [--part NAME ...] [--data FOLDER] [--seed S]
                                 [--logs N] [--record FILE]

Parts: worlds (accuracy and intervals in ten sequential worlds), tenfold (the same on logs ten times as
long), one-step (accuracy and intervals on one-step logs), gate (`compare` on policies without effect).
--data names a folder with the real files, which are not part of the project (hillstrom.parquet,
randhie.parquet, bemtpl97.parquet, limeqo_ceb.parquet); those that are missing are left out, and so are
their targets. With --record a stopped run goes on where it stopped. Any missed target gives exit code
1; --quick has too few logs to judge but what is beyond chance.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parts import one_step, sequential
from parts.options import parser, print_json
from parts.records import Records

Part = tuple[Callable[..., tuple[dict[str, Any], list[str]]], Callable[[dict[str, Any]], None]]

PARTS: dict[str, Part] = {
    "worlds": (sequential.measure, sequential.show),
    "tenfold": (sequential.measure_tenfold, sequential.show),
    "one-step": (one_step.measure, one_step.show),
    "gate": (one_step.gate, one_step.show_gate),
}


def main() -> int:
    options = parser(__doc__, quick="10 logs a cell of up to 2,000 rows")
    options.add_argument("--part", action="append", choices=PARTS, help="all by default")
    options.add_argument("--data", type=Path, help="a folder with the real files")
    options.add_argument("--logs", type=int, default=100, help="in every cell")
    options.add_argument("--seed", type=int, default=1212, help="of every log")
    options.add_argument("--record", type=Path, help="a file from which a stopped run goes on")
    given = options.parse_args()
    records = Records(given.record)
    found: dict[str, Any] = {"seed": given.seed}
    missed: list[str] = []
    for name in given.part or PARTS:
        run, show = PARTS[name]
        logs = 10 if given.quick else given.logs
        found[name], short = run(given.data, records, logs=logs, quick=given.quick, seed=given.seed)
        missed += short
        if not given.json:
            show(found[name])
    found["missed"] = missed
    if given.json:
        print_json(found)
    else:
        print("\n".join(f"missed {each}" for each in missed) or "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
