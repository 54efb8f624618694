"""The default on worlds and data that it was not made for.

    python -m benchmarks.outside [--quick] [--json] [--part NAME ...] [--data FOLDER] [--seed S]
                                 [--logs N] [--record FILE]

Parts: worlds (accuracy and intervals in ten sequential worlds), tenfold (the same on logs ten times as
long), hard (values and gains in ten worlds in which the default was wrong), foreign (the same in
eight worlds, half of them not Markov in what is logged), more (eight others of this kind, on which
settings were chosen), recorded (prototypes of which the record alone knows),
nearly-fixed (policies without effect where logging hardly varies), one-step (accuracy and
intervals on one-step logs), gate (`compare` on policies without effect), ranking (how often `compare`
ranks the better of two arms first).
--data names a folder with the real files, which are not part of the project (hillstrom.parquet,
randhie.parquet, bemtpl97.parquet, limeqo_ceb.parquet); those that are missing are left out, and so are
their targets. With --record a stopped run goes on where it stopped. Any missed target gives exit code
1; --quick has too few logs to judge but what is beyond chance.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys
from functools import partial

from benchmarks.parts import foreign, hard, nearly_fixed, one_step, sequential
from benchmarks.parts.foreign_worlds import FOREIGN_HIDDEN, FOREIGN_MARKOV
from benchmarks.parts.more_worlds import MORE_HIDDEN, MORE_MARKOV
from benchmarks.parts.running import Part, run_parts

PARTS: dict[str, Part] = {
    "worlds": (sequential.measure, sequential.show),
    "tenfold": (sequential.measure_tenfold, sequential.show),
    "hard": (hard.measure, hard.show),
    "foreign": (partial(foreign.measure, FOREIGN_HIDDEN, FOREIGN_MARKOV), foreign.show),
    "more": (partial(foreign.measure, MORE_HIDDEN, MORE_MARKOV), foreign.show),
    "recorded": (foreign.recorded, foreign.show),
    "nearly-fixed": (nearly_fixed.measure, hard.show),
    "one-step": (one_step.measure, one_step.show),
    "gate": (one_step.gate, one_step.show_gate),
    "ranking": (one_step.ranking, one_step.show_ranking),
}


if __name__ == "__main__":
    sys.exit(
        run_parts(__doc__, PARTS, quick="10 logs a cell of up to 2,000 rows", seed=1212, logs=100)
    )
