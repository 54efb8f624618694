"""What experimenters ask: quantiles, tail means, ratios, relative lifts, and bounds for growing logs.

    python -m benchmarks.experimenter [--quick] [--json] [--part NAME ...] [--data FOLDER] [--seed S]
                                      [--logs N] [--record FILE]

Parts: intervals (quantiles, CVaR, ratios and relative lifts on logs of 500, 2,000 and 10,000 rows),
looks (confidence sequences on logs that grow from 500 to 10,000 rows). --data names a folder with the
real files, which are not part of the project (hillstrom.parquet, randhie.parquet, bemtpl97.parquet,
limeqo_ceb.parquet); those that are missing are left out. With --record a stopped run goes on where it
stopped. A cell whose 90 % intervals hold clearly less often than in 88 % of logs gives exit code 1.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import sys

from benchmarks.parts import experiment
from benchmarks.parts.running import Part, run_parts

PARTS: dict[str, Part] = {
    "intervals": (experiment.measure, experiment.show),
    "looks": (experiment.looks, experiment.show),
}


if __name__ == "__main__":
    sys.exit(
        run_parts(__doc__, PARTS, quick="10 logs a cell of up to 2,000 rows", seed=2024, logs=400)
    )
