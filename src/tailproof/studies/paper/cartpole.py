"""What the CartPole experiments share: the logs, the truths, every estimator on one log."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tailproof.algorithms.linear.statistics import Absolute
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import Split
from tailproof.ensemble.aggregate import Mean, TrimmedMean
from tailproof.errors import TailproofWarning
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.evaluate import evaluate
from tailproof.methods.catalogue import method
from tailproof.noise import StudentT
from tailproof.studies.paper.experiment import Cell, Job, Row, Settings
from tailproof.worlds.cartpole import TARGET_TRUTH, CartPole
from tailproof.worlds.rollout import simulated_returns

GAMMA = 0.99
#: J of the target over an infinite horizon, which FQE estimates.
TRUTH = TARGET_TRUTH.value
#: What the paper took for it: ``CartPole().paper_truth(episodes=20_000, seed=2024)``.
PAPER_TRUTH = 85.981
#: The target's value over 100 steps, from which regrets are counted:
#: ``CartPole().value(CartPole().target(), episodes=20_000, seed=2024)``.
BEST_VALUE = 62.910
#: Of evaluation and of learning, 2^0 to 2^0.6 and 2^0 to 2^1.
EVALUATION_DFS = (1.0, 1.11, 1.23, 1.37, 1.52)
LEARNING_DFS = (1.0, 1.19, 1.41, 1.68, 2.0)

#: Settings of section 5 and appendix A3.1; ε, ridge, K and iterations as printed there.
EVALUATION: Settings = {
    "episodes": 100,
    "steps": 100,
    "epsilon": 0.05,
    "gamma": GAMMA,
    "folds": 5,
    "ridge": 0.01,
    "iterations": 100,
    "truth": TRUTH,
    "paper_truth": PAPER_TRUTH,
}


def grid(settings: Settings) -> list[Cell]:
    """Return a cell for each κ and df."""
    return [{"kappa": kappa, "df": df} for kappa in settings["kappas"] for df in settings["dfs"]]


def noisy_log(job: Job) -> Log:
    """Return the log of a cell's noise (κ = 0: none), with new trajectories in every replicate."""
    settings, cell = job.settings, job.cell
    noise = StudentT(df=cell["df"], kappa=cell["kappa"]) if cell["kappa"] else None
    return CartPole().log(
        settings["episodes"],
        settings["steps"],
        epsilon=settings["epsilon"],
        noise=noise,
        seed=job.rng(0),
    )


@contextmanager
def unheard() -> Iterator[None]:
    """Give a context without our warnings: a replicate counts its bad folds instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        yield


class Estimators:
    """Every estimator of the paper on one log, fitting no critic twice.

    ROAM-DM, ROAM-Variant and MA-DM are three aggregates of the same K critics, and so are ROAM-MIS
    and MA-MIS of the same K numbers; a test says that they equal separate calls of `evaluate`.
    """

    def __init__(self, log: Log, job: Job) -> None:
        self.log, self.job = log, job
        self.policy = CartPole().target()
        self.settings = job.settings

    def fit(self, name: str, *, stream: int = 1, **changes: Any) -> Estimate:
        """Evaluate the target by a named method with the paper's settings.

        Methods of one `stream` share their folds.
        """
        known: dict[str, Any] = {"ridge": Absolute(self.settings["ridge"])}
        if "fqe" in name or name.endswith("-dm"):
            known["iterations"] = self.settings["iterations"]
        chosen = method(name, **known, **changes)
        with unheard():
            return evaluate(
                self.log, self.policy, method=chosen, gamma=GAMMA, seed=self.job.integer(stream)
            )

    def split(self, folds: int) -> list[Row]:
        """Return the rows of all methods that split the log in K."""
        direct, weighted = self.fit("roam-dm", folds=folds), self.fit("roam-mis", folds=folds)
        return [
            self.row("roam-dm", direct.value, direct),
            self.row("roam-variant", float(np.median(direct.fold_values)), direct),
            self.row("ma-dm", direct.with_aggregate(Mean()).value, direct),
            self.row("roam-mis", weighted.value, weighted),
            self.row("ma-mis", weighted.with_aggregate(Mean()).value, weighted),
            self.row("tm-mis-released", weighted.with_aggregate(TrimmedMean(0.2)).value, weighted),
        ]

    def whole(self) -> list[Row]:
        """Return the rows of the methods that see the log as one."""
        return [
            self.row(name, (found := self.fit(name)).value, found)
            for name in ("fqe", "mis", "tm-mis")
        ]

    def constant_ratio(self, folds: int) -> list[Row]:
        """Return what the released MIS computes: its ratio is one everywhere, Ĵ = mean(r)/(1 − γ)."""
        parts = Split(folds).assign(self.log, self.job.rng(2))
        means = [self.log.rewards[self.log.rows(parts.episodes(k))].mean() for k in range(folds)]
        return [
            self.row("mis-constant", float(self.log.rewards.mean()) / (1 - GAMMA)),
            self.row("roam-mis-constant", float(np.median(means)) / (1 - GAMMA)),
        ]

    def row(self, name: str, value: float, estimate: Estimate | None = None) -> Row:
        """Return a row with the errors against both truths."""
        return {
            "method": name,
            "value": value,
            "error": value - self.settings["truth"],
            "paper_error": value - self.settings["paper_truth"],
            "bad_folds": len(estimate.bad_folds) if estimate else 0,
        }


def values_of(
    policies: Sequence[Callable[[FloatArray], IntArray]],
    *,
    episodes: int,
    steps: int,
    seed: np.random.Generator,
) -> FloatArray:
    """Return the mean discounted return of each policy, all simulated side by side, (P,)."""

    def acting(states: FloatArray) -> IntArray:
        blocks = states.reshape(len(policies), episodes, -1)
        return np.concatenate(
            [np.asarray(policy(block)) for policy, block in zip(policies, blocks, strict=True)]
        )

    total = len(policies) * episodes
    returns = simulated_returns(
        CartPole(), acting, episodes=total, steps=steps, gamma=GAMMA, seed=seed
    )
    return np.asarray(returns.reshape(len(policies), episodes).mean(axis=1))
