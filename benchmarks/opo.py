"""Regret of every learning row on the paper's CartPole, 400 episodes a log, with two kinds of ridge.

Each log is learned from twice: with the paper's absolute ridge 20, which regularises a fold five times
as strongly as the whole log, and with an equal ridge per observation. Targets: with the absolute ridge
ROOM-FQI has at most 0.6 of FQI's mean regret in every cell of the paper's grid (Student t, df from 1 to
2, κ 1 and 2); with the equal ridge at most 0.4 of it at df = 1, κ = 1, and FQI itself is healthy there
without noise, with a regret of at most 2.

    python benchmarks/opo.py [--quick] [--json] [--replicates N] [--jobs J] [--output records.jsonl]

Records go to the output file as they come; a run that finds it goes on where the last one stopped.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tailproof import Absolute, Learned, Log, Mean, Method, Quantile, learn, method
from tailproof.errors import FoldError
from tailproof.noise import Contaminated, Noise, Pareto, StudentT, add_noise
from tailproof.worlds import CartPole

GAMMA, EPISODES = 0.99, 400
RIDGES: dict[str, Any] = {"absolute": Absolute(20.0), "per observation": 2.5e-3}
GRID = {
    f"t, df {df:.2f}, κ {kappa}": StudentT(df=df, kappa=kappa)
    for kappa in (1, 2)
    for df in (2 ** (step / 4) for step in range(5))
}
HARDEST = "t, df 1.00, κ 1"


class Cell(NamedTuple):
    """Noise on the rewards, and on which actions' rewards it falls."""

    noise: Noise | None
    actions: tuple[int, ...] = (0, 1)


CELLS = {
    "no noise": Cell(None),
    **{name: Cell(noise) for name, noise in GRID.items()},
    "contaminated": Cell(Contaminated()),
    "Pareto 1.5": Cell(Pareto(1.5)),
    "−Pareto 1.5": Cell(Pareto(1.5, sign=-1)),
    "t, df 1, left only": Cell(StudentT(df=1.0), actions=(0,)),
    "Pareto 1.5, left only": Cell(Pareto(1.5), actions=(0,)),
    "−Pareto 1.5, left only": Cell(Pareto(1.5, sign=-1), actions=(0,)),
}
CLIPPED = {f"fqi, clipped {clip:g}": clip for clip in (0.002, 0.01, 0.02)}
ALONE = (
    *("fqi", "lstd-q", "room-fqi", "p-room-fqi", "p-room-fqi-released"),
    *("pb", "pb-released", "huber-reward", "huber-fqi"),
)
BLIND = ("bc", "zero-reward", "constant-reward")  # they see no reward, so noise changes nothing


def noisy_log(world: CartPole, cell: Cell, seed: int) -> Log:
    """Return a log whose trajectories depend on the seed alone, whatever the noise."""
    log = world.log(episodes=EPISODES, seed=seed)
    if cell.noise is None:
        return log
    return add_noise(
        log,
        cell.noise,
        seed=np.random.SeedSequence([seed, 1]),
        scale=lambda _, actions: np.isin(actions, cell.actions),
    )


def learned_rows(log: Log, ridge: Any, *, blind: bool, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield each row's name and its policy; None where too many folds diverged."""

    def fit(chosen: Method) -> Learned | None:
        try:
            return learn(log, method=chosen, gamma=GAMMA, seed=seed)
        except FoldError:
            return None

    def policy(learned: Learned | None) -> Any:
        return None if learned is None else learned.policy

    for name in ALONE + (BLIND if blind else ()):
        chosen = method(name) if name == "bc" else method(name, ridge=ridge)
        yield name, policy(fit(chosen))
    other_order = method("room-fqi", ridge=ridge, aggregate_first=False)
    yield "room-fqi, median of max", policy(fit(other_order))
    for name, clip in CLIPPED.items():
        yield name, policy(fit(method("fqi", clip=clip, ridge=ridge)))
    median = fit(method("room-vm", ridge=ridge))
    yield "room-vm", policy(median)
    for name, aggregate in (
        ("ma", Mean()),
        ("p-room-vm", Quantile(0.1)),
        ("p-room-vm-released", Quantile(0.4)),
    ):
        yield name, None if median is None else median.with_aggregate(aggregate).policy


def replicate(job: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Return the regret of every row on one log."""
    name, seed, episodes = job
    world = CartPole()
    best = world.value(world.target(), episodes=episodes, gamma=GAMMA, seed=seed)
    log = noisy_log(world, CELLS[name], seed)
    records = []
    for ridge_name, ridge in RIDGES.items():
        for row, policy in learned_rows(log, ridge, blind=name == "no noise", seed=seed):
            value = (
                np.nan
                if policy is None
                else world.value(policy, episodes=episodes, gamma=GAMMA, seed=seed)
            )
            records.append(
                {
                    "cell": name,
                    "seed": seed,
                    "ridge": ridge_name,
                    "row": row,
                    "regret": None if np.isnan(value) else best - value,
                }
            )
    return records


def table(records: list[dict[str, Any]], ridge: str) -> dict[str, dict[str, tuple[float, float]]]:
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


def missed_targets(tables: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> list[str]:
    """Return the targets that these tables miss."""
    missed = []
    for cell in GRID:
        row = tables["absolute"].get(cell)
        if row is not None and row["room-fqi"][0] > 0.6 * row["fqi"][0]:
            missed.append(f"absolute, {cell}: {row['room-fqi'][0]:.1f} against {row['fqi'][0]:.1f}")
    hardest = tables["per observation"].get(HARDEST)
    if hardest is not None and hardest["room-fqi"][0] > 0.4 * hardest["fqi"][0]:
        missed.append(
            f"per observation, {HARDEST}: {hardest['room-fqi'][0]:.1f} against "
            f"{hardest['fqi'][0]:.1f}"
        )
    clean = tables["per observation"].get("no noise")
    if clean is not None and clean["fqi"][0] > 2:
        missed.append(f"per observation, no noise: FQI {clean['fqi'][0]:.1f}")
    return missed


def show(found: dict[str, dict[str, tuple[float, float]]]) -> None:
    for place, cell in enumerate(found):
        print(f"{place:4}: {cell}")
    print(f"{'':25}" + "".join(f"{place:>12}" for place in range(len(found))))
    for row in sorted({row for cells in found.values() for row in cells}):
        each = (cells.get(row) for cells in found.values())
        print(
            f"{row:25}"
            + "".join(f"{at[0]:6.1f} ±{at[1]:4.1f}" if at else f"{'':12}" for at in each)
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 replicates of 3 cells")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--replicates", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    cells = ["no noise", HARDEST, "Pareto 1.5"] if options.quick else list(CELLS)
    count, episodes = (2, 200) if options.quick else (options.replicates, 1000)
    records: list[dict[str, Any]] = []
    if options.output is not None and options.output.exists():
        records = [json.loads(line) for line in options.output.read_text().splitlines()]
    done = {(each["cell"], each["seed"]) for each in records}
    jobs = [
        (cell, 1000 + seed, episodes)
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
    tables = {ridge: table(records, ridge) for ridge in RIDGES}
    missed = missed_targets(tables)
    if options.json:
        print(json.dumps({"replicates": count, "regret": tables, "missed": missed}, indent=1))
    else:
        for ridge, found in tables.items():
            print(f"\nMean regret over {count} logs, ridge {ridge}")
            show(found)
        print("\n".join(f"missed: {each}" for each in missed) or "\nall targets met")
    return 0 if options.quick or not missed else 1


if __name__ == "__main__":
    sys.exit(main())
