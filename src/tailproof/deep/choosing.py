"""The default for continuous actions: a few candidates by the tails, judged on other episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from tailproof.aggregate import Aggregate, Mean, Median
from tailproof.algorithms.ranking import choose_rank
from tailproof.arrays import FloatArray
from tailproof.catalogue import method as named_method
from tailproof.deep.bases import NeuralFQE
from tailproof.deep.settings import Run
from tailproof.engines import Engine
from tailproof.evaluate import evaluate
from tailproof.lazy import AnyLog, in_memory
from tailproof.learn import learn, split_off
from tailproof.learned import Learned
from tailproof.log import Log
from tailproof.method import Method
from tailproof.partition import Split

CLONE = "bc-neural"  # the logged behaviour: what a candidate must beat, and the answer if none does


@dataclass(frozen=True)
class Budget:
    """How long networks are trained where nobody says: minutes of one core, not hours.

    Attributes
    ----------
    rows_a_step, fewest, most
        Steps are rows / `rows_a_step`, within [`fewest`, `most`].
    critics, policies, judges
        Widths of the hidden layers.
    folds
        Members of the judge, which the held-out episodes are split between.
    level
        Confidence that a candidate is better than the clone.
    """

    rows_a_step: int = 6
    fewest: int = 3_000
    most: int = 15_000
    critics: tuple[int, ...] = (128, 128)
    policies: tuple[int, ...] = (256, 256)
    judges: tuple[int, ...] = (64, 64)
    folds: int = 5
    level: float = 0.9

    def steps(self, log: Log) -> int:
        """Return the gradient steps for a log."""
        return int(np.clip(log.n_transitions // self.rows_a_step, self.fewest, self.most))


@dataclass(frozen=True)
class Gain:
    """How much better than the clone a candidate is on held-out episodes, by fold."""

    differences: FloatArray  # (K,)
    aggregate: Aggregate
    level: float

    @property
    def value(self) -> float:
        """The aggregate over folds."""
        return float(self.aggregate(self.differences[:, None])[0])

    @property
    def bound(self) -> float:
        """A lower bound by Student's t over folds."""
        count = len(self.differences)
        if count < 2:
            return -float("inf")
        error = float(self.differences.std(ddof=1)) / np.sqrt(count)
        return self.value - float(stdtrit(count - 1, self.level)) * error


def candidates(log: Log, budget: Budget) -> tuple[dict[str, Method], str]:
    """Return the rows to try by name, cloning among them, and what was seen of the tails.

    Percent cloning and IQL; where tails are heavy, percent cloning ranked robustly and ROOM-VM.
    """
    rank, reason = choose_rank(log)
    steps = budget.steps(log)
    run = Run(progress=False)
    cloning: dict[str, Any] = {"steps": steps, "hidden": budget.policies, "run": run}
    implicit: dict[str, Any] = {
        "steps": steps,
        "policy_steps": steps,
        "hidden": budget.critics,
        "policy_hidden": budget.policies,
        "run": run,
    }
    room = "iql" if rank == "sum" else "room-vm-iql"
    folds = None if rank == "sum" else min(budget.folds, log.n_groups)
    return {
        CLONE: named_method(CLONE, **cloning),
        "percent-bc-neural": named_method("percent-bc-neural", rank=rank, **cloning),
        room: named_method(room, folds=folds, **implicit),
    }, reason


def learn_continuous(
    log: AnyLog,
    *,
    gamma: float | None,
    seed: int,
    holdout: float,
    engine: Engine | None = None,
    budget: Budget | None = None,
) -> Learned:
    """Learn by the candidate that is credibly better than cloning the log, if there is one.

    Each candidate and the clone are judged by neural FQE on the same folds of held-out episodes. What
    FQE says of the clone beyond the log's own value is error, so that candidates are compared with the
    clone, fold by fold. The largest lower bound wins; none above zero keeps the logged behaviour.
    """
    budget = budget or Budget()
    taught, held_out = split_off(in_memory(log, "Networks"), holdout, seed=seed)
    rows, seen = candidates(taught, budget)
    if held_out is None:
        name = "percent-bc-neural"
        learned = learn(taught, method=rows[name], gamma=gamma, seed=seed, engine=engine)
        return replace(learned, reasons=(*learned.reasons, "Nothing was held out to compare with."))
    found = {
        name: learn(taught, method=row, gamma=gamma, seed=seed, engine=engine)
        for name, row in rows.items()
    }
    values = {name: _judged(each, held_out, budget, seed) for name, each in found.items()}
    aggregate: Aggregate = Mean() if "iql" in rows else Median()
    gains = {
        name: Gain(values[name] - values[CLONE], aggregate, budget.level)
        for name in rows
        if name != CLONE
    }
    best = max(gains, key=lambda name: gains[name].bound)
    said = [
        f"{name}: better than cloning by {gain.value:.4g} on held-out episodes, "
        f"above {gain.bound:.4g} with confidence {budget.level:g}."
        for name, gain in gains.items()
    ]
    if gains[best].bound > 0:
        said.append(f"Chosen: {best}.")
    else:
        best = CLONE
        said.append("No candidate is credibly better than the log: this policy imitates it.")
    return replace(found[best], held_out=held_out, reasons=(seen, *said))


def judge(folds: int, budget: Budget) -> Method:
    """Return the neural FQE that judges candidates, a value for each fold."""
    base = NeuralFQE(steps=budget.fewest, hidden=budget.judges, run=Run(progress=False))
    return Method(base=base, partition=Split(folds), at="value")


def _judged(learned: Learned, held_out: Log, budget: Budget, seed: int) -> FloatArray:
    chosen = judge(min(budget.folds, held_out.n_groups), budget)
    estimate = evaluate(held_out, learned.policy, method=chosen, gamma=learned.gamma, seed=seed)
    return estimate.fold_values
