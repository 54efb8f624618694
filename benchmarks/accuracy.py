"""Accuracy of evaluation on the paper's CartPole: RMSE of each estimator under each noise.

Targets (METHODS: CartPole, 100 episodes of 100 steps, κ = 1, against the infinite-horizon truth):
ROAM-DM has at most a third of FQE's RMSE at df = 1, ROAM-FQE is no worse than ROAM-DM at every df of
the paper's grid, and pooled weights with adaptive Huber or Catoni lose to neither LSTD nor
ROAM-Variant by more than noise.

    python -m benchmarks.accuracy [--quick] [--json] [--replicates N]
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.parts.options import parser as options_parser
from benchmarks.parts.options import print_json
from tailproof import evaluate, method
from tailproof.noise import Contaminated, Gaussian, LogNormal, Noise, Pareto, StudentT
from tailproof.robust.means import AdaptiveHuber, Catoni, MedianOfMeans
from tailproof.worlds import CartPole

GRID = [StudentT(df=2**power) for power in (0.0, 0.15, 0.3, 0.45, 0.6)]
NOISES: list[Noise] = [
    Gaussian(1.0),
    StudentT(df=1.0),
    StudentT(df=1.2),
    StudentT(df=1.5),
    StudentT(df=2.5),
    Pareto(1.5),
    Pareto(2.5),
    LogNormal(2.0),
    Contaminated(),
]
METHODS = {
    "lstd": method("lstd"),
    "fqe": method("fqe"),
    "roam-variant": method("roam-variant"),
    "roam-dm": method("roam-dm"),
    "roam-fqe": method("roam-fqe"),
    "huber": method("mis", mean=AdaptiveHuber()),
    "catoni": method("mis", mean=Catoni()),
    "mom-200": method("mis", mean=MedianOfMeans(200)),
}


def replicate(job: tuple[Noise, int]) -> dict[str, float]:
    """Return the error of every method on one log."""
    noise, seed = job
    world = CartPole()
    log = world.log(episodes=100, noise=noise, seed=seed)
    truth = world.truth().value
    return {
        name: evaluate(log, world.target(), method=each, gamma=0.99, seed=seed, logged=False).value
        - truth
        for name, each in METHODS.items()
    }


def main() -> int:
    parser = options_parser(__doc__, quick="8 replicates")
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    count = 8 if options.quick else options.replicates
    noises = list({str(noise): noise for noise in GRID + NOISES}.values())
    jobs = [(noise, 1000 + seed) for noise in noises for seed in range(count)]
    with ProcessPoolExecutor(options.jobs) as pool:
        errors = list(pool.map(replicate, jobs, chunksize=4))
    table = {}
    for place, noise in enumerate(noises):
        rows = errors[place * count : (place + 1) * count]
        table[str(noise)] = {
            name: float(np.sqrt(np.mean([row[name] ** 2 for row in rows]))) for name in METHODS
        }
    missed = []
    first = table[str(GRID[0])]
    if first["roam-dm"] > first["fqe"] / 3:
        missed.append(f"ROAM-DM {first['roam-dm']:.1f} against FQE {first['fqe']:.1f} at df = 1")
    for noise in GRID:
        row = table[str(noise)]
        if row["roam-fqe"] > row["roam-dm"]:
            missed.append(f"ROAM-FQE {row['roam-fqe']:.2f}, ROAM-DM {row['roam-dm']:.2f}: {noise}")
    if options.json:
        print_json({"replicates": count, "rmse": table, "missed": missed})
    else:
        print(f"RMSE over {count} logs" + "".join(f"{name:>14}" for name in METHODS))
        for label, row in table.items():
            print(f"{label:20.20}" + "".join(f"{value:14.2f}" for value in row.values()))
        print("\n".join(f"missed: {each}" for each in missed) or "all targets met")
    return 0 if options.quick or not missed else 1


if __name__ == "__main__":
    sys.exit(main())
