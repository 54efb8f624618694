"""Learning without a method: does it do harm, does it help, and how long does it take?

    python -m benchmarks.learning [--quick] [--json] [--part NAME ...] [--data FOLDER] [--seed S]
                                  [--record FILE]

Parts: worlds (ten worlds with a known truth), outside (25 worlds for which the default was not made,
eight with hidden state), nulls (logs in which no action changes anything), offers
(shops in which few rows have a heavy-tailed reward), real (one-step populations), speed (rows by name
against the obvious implementation). --data names a folder with the real files of `outside.py`; those
that are missing are left out. With --record a stopped run goes on where it stopped. Any missed target
gives exit code 1; --quick has too few logs to judge but what is beyond chance.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys

from benchmarks.parts import harm, learning_speed, offers
from benchmarks.parts.running import Part, run_parts

PARTS: dict[str, Part] = {
    "worlds": (harm.worlds, harm.show),
    "outside": (harm.outside, harm.show),
    "nulls": (harm.nulls, harm.show),
    "offers": (offers.offers, harm.show),
    "real": (harm.real, harm.show),
    "speed": (learning_speed.measure, learning_speed.show),
}


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS, quick="one log a world", seed=7000))
