"""Regret of every learning row, on the paper's CartPole and on tabular MDPs where rewards decide.

CartPole: 400 episodes a log, each learned from twice: with the paper's absolute ridge 20, which
regularises a fold five times as strongly as the whole log, and with an equal ridge per observation.
Regret is V* less the value of the learned policy, both by simulation over 100 steps.

Tabular: random MDPs of 10 states and 3 actions, 100 episodes of 40 uniform actions. Regret is exact, as
a share of what the best policy has over the logged one.

Targets: on CartPole with the absolute ridge ROOM-FQI has at most 0.6 of FQI's mean regret in every cell
of the paper's grid (Student t, df from 1 to 2, κ 1 and 2); with the equal ridge at most 0.4 of it at
df = 1, κ = 1, and FQI itself is healthy there without noise, with a regret of at most 2. On tabular
MDPs at most 0.4 of it at df = 1, κ = 1.

    python -m benchmarks.opo [--world cartpole|tabular] [--quick] [--json] [--replicates N] [--jobs J]
                             [--output records.jsonl]

Records go to the output file as they come; a run that finds it goes on where the last one stopped.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import json
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.parts.options import parser as options_parser
from benchmarks.parts.options import print_json
from tailproof import (
    Absolute,
    Learned,
    Log,
    Mean,
    Method,
    PerAction,
    Polynomial,
    Quantile,
    learn,
    method,
)
from tailproof.errors import FoldError, FoldWarning
from tailproof.noise import Contaminated, Noise, Pareto, StudentT, add_noise
from tailproof.policies.forms import Uniform
from tailproof.worlds import CartPole, TabularMDP

Table = dict[str, dict[str, tuple[float, float]]]


class Cell(NamedTuple):
    """Noise on the rewards, and on which actions' rewards it falls."""

    noise: Noise | None
    actions: tuple[int, ...] = (0, 1, 2)


GRID = {
    f"t, df {df:.2f}, κ {kappa}": Cell(StudentT(df=df, kappa=kappa))
    for kappa in (1, 2)
    for df in (2 ** (step / 4) for step in range(5))
}
OTHER = {
    "contaminated": Cell(Contaminated()),
    "Pareto 1.5": Cell(Pareto(1.5)),
    "−Pareto 1.5": Cell(Pareto(1.5, sign=-1)),
    "t, df 1, one action": Cell(StudentT(df=1.0), actions=(0,)),
    "Pareto 1.5, one action": Cell(Pareto(1.5), actions=(0,)),
    "−Pareto 1.5, one action": Cell(Pareto(1.5, sign=-1), actions=(0,)),
}
EQUAL_ONLY = [name for name in OTHER if name != "Pareto 1.5"]  # not learned with the absolute ridge
HARDEST = "t, df 1.00, κ 1"
CELLS = {"no noise": Cell(None), **GRID, **OTHER}
RIDGES: dict[str, dict[str, Any]] = {
    "cartpole": {"absolute": Absolute(20.0), "per observation": 2.5e-3},
    "tabular": {"per observation": 1e-3},
}
CLIPPED = {f"fqi, clipped {clip:g}": clip for clip in (0.002, 0.01, 0.02)}
ALONE = (
    *("fqi", "lstd-q", "room-fqi", "p-room-fqi", "p-room-fqi-released"),
    *("pb", "pb-released", "huber-reward", "huber-fqi"),
)
BLIND = ("bc", "zero-reward", "constant-reward")  # they see no reward, so noise changes nothing


def with_noise(log: Log, cell: Cell, seed: int) -> Log:
    """Return the log with noise; its trajectories are the same whatever the noise."""
    if cell.noise is None:
        return log
    return add_noise(
        log,
        cell.noise,
        seed=np.random.SeedSequence([seed, 1]),
        scale=lambda _, actions: np.isin(actions, cell.actions),
    )


def attempt(log: Log, chosen: Method | str, gamma: float, seed: int) -> Learned | None:
    """Learn; None where too many folds diverged."""
    try:
        return learn(log, method=chosen, gamma=gamma, seed=seed)
    except FoldError:
        return None


def policy(learned: Learned | None) -> Any:
    return None if learned is None else learned.policy


def learned_rows(
    log: Log, gamma: float, settings: dict[str, Any], *, blind: bool, seed: int
) -> Iterator[tuple[str, Any]]:
    """Yield each row's name and its policy; None where too many folds diverged."""

    def fit(chosen: Method) -> Learned | None:
        return attempt(log, chosen, gamma, seed)

    for name in ALONE + (BLIND if blind else ()):
        kept = {key: each for key, each in settings.items() if (name, key) != ("bc", "ridge")}
        yield name, policy(fit(method(name, **kept)))
    other_order = method("room-fqi", aggregate_first=False, **settings)
    yield "room-fqi, median of max", policy(fit(other_order))
    for name, clip in CLIPPED.items():
        yield name, policy(fit(method("fqi", clip=clip, **settings)))
    median = fit(method("room-vm", **settings))
    yield "room-vm", policy(median)
    for name, aggregate in (
        ("ma", Mean()),
        ("p-room-vm", Quantile(0.1)),
        ("p-room-vm-released", Quantile(0.4)),
    ):
        yield name, None if median is None else median.with_aggregate(aggregate).policy


def cartpole_regrets(
    name: str, ridge: Any, seed: int, episodes: int
) -> Iterator[tuple[str, float | None]]:
    world = CartPole()
    log = with_noise(world.log(episodes=400, seed=seed), CELLS[name], seed)
    best = world.value(world.target(), episodes=episodes, seed=seed)
    rows = learned_rows(log, 0.99, {"ridge": ridge}, blind=name == "no noise", seed=seed)
    if not isinstance(ridge, Absolute):
        rows = chain(rows, [("auto", policy(attempt(log, "auto", 0.99, seed)))])
    for row, acting in rows:
        value = None if acting is None else world.value(acting, episodes=episodes, seed=seed)
        yield row, None if value is None else best - value


def tabular_regrets(
    name: str, ridge: Any, seed: int, episodes: int
) -> Iterator[tuple[str, float | None]]:
    del episodes  # values are exact
    world = TabularMDP.random(states=10, actions=3, seed=seed)
    log = with_noise(world.log(episodes=100, steps=40, seed=seed), CELLS[name], seed)
    best = world.value(world.optimal(gamma=0.9), gamma=0.9)
    span = best - world.value(Uniform(3), gamma=0.9)
    features = PerAction(Polynomial(degree=1, bias=False), 10, 3)
    settings = {"ridge": ridge, "features": features}
    for row, acting in learned_rows(log, 0.9, settings, blind=name == "no noise", seed=seed):
        value = None if acting is None else world.value(acting, gamma=0.9)
        yield row, None if value is None else (best - value) / span


def replicate(job: tuple[str, str, int, int]) -> list[dict[str, Any]]:
    """Return the regret of every row on one log."""
    world, cell, seed, episodes = job
    regrets = cartpole_regrets if world == "cartpole" else tabular_regrets
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FoldWarning)  # one fold in many diverges now and then
        return [
            {"cell": cell, "seed": seed, "ridge": ridge_name, "row": row, "regret": regret}
            for ridge_name, ridge in RIDGES[world].items()
            if ridge_name != "absolute" or cell not in EQUAL_ONLY
            for row, regret in regrets(cell, ridge, seed, episodes)
        ]


def table(records: list[dict[str, Any]], ridge: str) -> Table:
    """Return mean regret and its standard error by cell and row; a failure counts as the worst."""
    worst = max((each["regret"] for each in records if each["regret"] is not None), default=np.nan)
    found: dict[str, dict[str, list[float]]] = {}
    for each in records:
        if each["ridge"] == ridge:
            regret = worst if each["regret"] is None else each["regret"]
            found.setdefault(each["cell"], {}).setdefault(each["row"], []).append(regret)
    return {
        cell: {
            row: (
                float(np.mean(regrets)),
                float(np.std(regrets, ddof=1) / len(regrets) ** 0.5) if len(regrets) > 1 else 0.0,
            )
            for row, regrets in found[cell].items()
        }
        for cell in CELLS
        if cell in found
    }


def missed_targets(world: str, tables: dict[str, Table]) -> list[str]:
    """Return the targets that these tables miss."""
    bounds = [("per observation", HARDEST, 0.4)]
    if world == "cartpole":
        bounds += [("absolute", cell, 0.6) for cell in GRID]
    missed = []
    for ridge, cell, bound in bounds:
        row = tables[ridge].get(cell)
        if row is not None and row["room-fqi"][0] > bound * row["fqi"][0]:
            missed.append(f"{ridge}, {cell}: {row['room-fqi'][0]:.2f} against {row['fqi'][0]:.2f}")
    clean = tables["per observation"].get("no noise")
    if clean is not None and clean["fqi"][0] > 2:
        missed.append(f"per observation, no noise: FQI {clean['fqi'][0]:.1f}")
    return missed


def show(found: Table, digits: int) -> None:
    for place, cell in enumerate(found):
        print(f"{place:4}: {cell}")
    print(f"{'':25}" + "".join(f"{place:>12}" for place in range(len(found))))
    for row in sorted({row for cells in found.values() for row in cells}):
        each = (cells.get(row) for cells in found.values())
        numbers = (f"{at[0]:.{digits}f} ±{at[1]:.{digits}f}" if at else "" for at in each)
        print(f"{row:25}" + "".join(f"{number:>12}" for number in numbers))


def main() -> int:
    parser = options_parser(__doc__, quick="2 replicates of 2 cells")
    parser.add_argument("--world", choices=("cartpole", "tabular"), default="cartpole")
    parser.add_argument("--replicates", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    cells = ["no noise", HARDEST] if options.quick else list(CELLS)
    count, episodes = (2, 200) if options.quick else (options.replicates, 1000)
    records: list[dict[str, Any]] = []
    if options.output is not None and options.output.exists():
        records = [json.loads(line) for line in options.output.read_text().splitlines()]
    done = {(each["cell"], each["seed"]) for each in records}
    jobs = [
        (options.world, cell, 1000 + seed, episodes)
        for seed in range(count)
        for cell in cells
        if (cell, 1000 + seed) not in done
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        for new in pool.map(replicate, jobs):
            records += new
            if options.output is not None:
                with options.output.open("a") as file:
                    file.writelines(json.dumps(each) + "\n" for each in new)
    tables = {ridge: table(records, ridge) for ridge in RIDGES[options.world]}
    missed = missed_targets(options.world, tables)
    if options.json:
        print_json({"replicates": count, "regret": tables, "missed": missed})
    else:
        for ridge, found in tables.items():
            print(f"\nMean regret over {count} logs of {options.world}, ridge {ridge}")
            show(found, 1 if options.world == "cartpole" else 2)
        print("\n".join(f"missed: {each}" for each in missed) or "\nall targets met")
    return 0 if options.quick or not missed else 1


if __name__ == "__main__":
    sys.exit(main())
