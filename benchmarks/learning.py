"""Learning without a method: does it do harm, does it help, and how long does it take?

    python benchmarks/learning.py [--quick] [--json] [--part NAME ...] [--data FOLDER] [--seed S]
                                  [--record FILE]

Parts: worlds (ten worlds with a known truth), nulls (logs in which no action changes anything), real
(one-step populations), speed (rows by name against the obvious implementation). --data names a
folder with the real files of `outside.py`; those that are missing are left out. With --record a stopped
run goes on where it stopped. Any missed target gives exit code 1; --quick has too few logs to judge
but what is beyond chance.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parts import harm, learning_speed
from parts.options import parser, print_json
from parts.records import Records

Part = tuple[Callable[..., tuple[dict[str, Any], list[str]]], Callable[[dict[str, Any]], None]]

PARTS: dict[str, Part] = {
    "worlds": (harm.worlds, harm.show),
    "nulls": (harm.nulls, harm.show),
    "real": (harm.real, harm.show),
    "speed": (learning_speed.measure, learning_speed.show),
}


def main() -> int:
    options = parser(__doc__, quick="one log a world")
    options.add_argument("--part", action="append", choices=PARTS, help="all by default")
    options.add_argument("--data", type=Path, help="a folder with the real files")
    options.add_argument("--seed", type=int, default=7000, help="of the first log")
    options.add_argument("--record", type=Path, help="a file from which a stopped run goes on")
    given = options.parse_args()
    records = Records(given.record)
    found: dict[str, Any] = {"seed": given.seed}
    missed: list[str] = []
    for name in given.part or PARTS:
        run, show = PARTS[name]
        found[name], short = run(given.data, records, quick=given.quick, seed=given.seed)
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
