"""Rules and budgets, measured: policy trees beside EconML's, and the band of targeting curves.

    python -m benchmarks.rules curve --logs 20
    python -m benchmarks.rules trees --data FOLDER --rival PYTHON

`curve` draws logs from populations whose outcomes under every action are known, and counts how often
the band of `Learned.curve` holds the true gain at five shares. `trees` learns policy trees of depth 2
and writes their true values and CPU seconds; --rival names a Python that has EconML, in an environment
of its own, and --data a folder with hillstrom.parquet and bemtpl97.parquet, which are not part of the
project. Both print one JSON line for each log.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.parts.populations import claims, hillstrom
from tailproof import Log, learn
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.critics.greedy import GreedyPolicy
from tailproof.learners.limits import price_of, priced

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
RIVAL = """
import sys, time, warnings
import numpy as np
from econml.policy import DRPolicyTree
warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
start = time.process_time()
tree = DRPolicyTree(max_depth=2, min_samples_leaf=int(given["smallest"]), random_state=0)
tree.fit(given["rewards"], given["actions"], X=given["states"])
seconds = time.process_time() - start
np.savez(sys.argv[2], actions=tree.predict(given["asked"]).ravel(), seconds=seconds)
"""


@dataclass(frozen=True, eq=False)
class Population:
    """States of everybody, and the value of any actions for them."""

    name: str
    states: FloatArray  # (N, p)
    draw: Callable[[IntArray, np.random.Generator], tuple[IntArray, FloatArray]]  # of rows
    value: Callable[[AnyArray], float]  # of the actions of everybody, (N,)
    n_actions: int

    def log(self, n: int, seed: int) -> Log:
        """Return a log of n random rows."""
        rng = np.random.default_rng([seed, 3])
        rows = rng.integers(0, len(self.states), n)
        actions, rewards = self.draw(rows, rng)
        return Log.from_arrays(
            self.states[rows],
            actions,
            rewards,
            self.states[rows],
            episode=np.arange(n),
            terminated=np.ones(n, dtype=bool),
            propensity=np.full(n, 1 / self.n_actions),
            action_space=self.n_actions,
        )


def known(name: str, states: FloatArray, outcomes: FloatArray) -> Population:
    """Return a population whose outcomes under every action are known, (N, A)."""
    count = outcomes.shape[1]

    def draw(rows: IntArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        actions = rng.integers(0, count, len(rows))
        return actions, outcomes[rows, actions]

    def value(actions: AnyArray) -> float:
        return float(outcomes[np.arange(len(outcomes)), actions].mean())

    return Population(name, states, draw, value, count)


def made(size: int = 200_000) -> Iterator[Population]:
    """Yield three populations of our own."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(size, 4))
    shock = rng.standard_t(2.5, size)
    steps = np.where((x[:, 0] > 0.5) & (x[:, 1] < 0), 2.0, -0.5)
    yield known("steps, t 2.5", x, np.stack([shock, shock + steps, shock + 0.2], axis=1))
    spend = (rng.random(size) < 0.2) * (1 + rng.pareto(1.8, size))
    more = (rng.random(size) < 0.12) * (x[:, 0] > 0) * (1 + rng.pareto(1.8, size))
    yield known("rare spend, Pareto 1.8", x, np.stack([spend, spend + more - 0.1], axis=1))
    noise = rng.lognormal(0, 1.2, size)
    smooth = noise * (1 + 0.4 * np.tanh(x[:, 0] + 0.5 * x[:, 2]))
    yield known("lognormal, smooth", x, np.stack([noise, smooth], axis=1))


def real(folder: Path) -> Iterator[Population]:
    """Yield Hillstrom's e-mails, judged by importance weights, and claims with deductibles."""
    states, arms, spend = hillstrom(folder)

    def draw(rows: IntArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:  # noqa: ARG001
        return arms[rows], spend[rows]

    yield Population(
        "Hillstrom", states, draw, lambda actions: float(3 * (spend * (arms == actions)).mean()), 3
    )
    states, amount = claims(folder)
    kept = [np.maximum(amount - deductible, 0) for deductible in (0, 200, 500)]
    yield known("claims", states, np.array([260.0, 235.0, 210.0]) - np.stack(kept, axis=1))


def curve(logs: int, rows: int) -> Iterator[dict[str, object]]:
    """Yield, for each log and share, whether the band holds the truth."""
    for population in made():
        for seed in range(logs):
            log = population.log(rows, seed)
            learned = learn(log, method="policy-scores", gamma=0.0, holdout=0.5, seed=seed)
            assert isinstance(learned.policy, GreedyPolicy)
            assert learned.held_out is not None
            found = learned.curve("1", shares=SHARES)
            judging = learned.held_out.states

            def value(share: float, policy: GreedyPolicy = learned.policy, at: FloatArray = judging,
                      of: Population = population) -> float:  # fmt: skip
                price = price_of(policy, 1, at, np.ones(len(at)), share)
                return of.value(priced(policy, 1, price)(of.states))

            nobody = value(0.0)
            for share, point in zip(SHARES, found.points, strict=True):
                truth, ends = value(share) - nobody, point.interval
                yield {
                    "task": "curve",
                    "population": population.name,
                    "seed": seed,
                    "share": share,
                    "truth": truth,
                    "gain": point.gain.value,
                    "low": None if ends is None else ends.low,
                    "high": None if ends is None else ends.high,
                    "holds": ends is not None and ends.low <= truth <= ends.high,
                }


def trees(
    logs: int, rows: int, folder: Path | None, rival: str | None
) -> Iterator[dict[str, object]]:
    """Yield the value and the CPU seconds of policy trees of depth 2."""
    for population in (*made(), *(() if folder is None else real(folder))):
        for seed in range(logs):
            log = population.log(rows, seed)
            start = time.process_time()
            learned = learn(log, method="policy-tree", gamma=0.0, seed=seed)
            line = {
                "task": "trees",
                "population": population.name,
                "seed": seed,
                "rows": rows,
                "value": population.value(learned.policy(population.states)),
                "seconds": time.process_time() - start,
                "best_constant": max(
                    population.value(np.full(len(population.states), action))
                    for action in range(population.n_actions)
                ),
            }
            if rival is not None:
                with TemporaryDirectory() as place:
                    given, answer = f"{place}/given.npz", f"{place}/answer.npz"
                    np.savez(
                        given,
                        states=log.states,
                        actions=log.actions,
                        rewards=log.rewards,
                        asked=population.states,
                        smallest=max(10, rows // 20),
                    )
                    subprocess.run([rival, "-c", RIVAL, given, answer], check=True)
                    with np.load(answer) as said:
                        line["rival_value"] = population.value(said["actions"].astype(int))
                        line["rival_seconds"] = float(said["seconds"])
            yield line


def main() -> None:
    """Print one line of JSON for each log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("task", choices=["curve", "trees"])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rival")
    asked = parser.parse_args()
    lines = (
        curve(asked.logs, asked.rows)
        if asked.task == "curve"
        else trees(asked.logs, asked.rows, asked.data, asked.rival)
    )
    for line in lines:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
