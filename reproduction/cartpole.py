"""Common parts of the CartPole experiments: logs, true values, estimators and learners."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from reproduction.experiment import Cell, Job, Results, Row, Settings
from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.ensembles import Ensemble
from tailproof.critics.greedy import GreedyPolicy
from tailproof.critics.linear import Absolute
from tailproof.critics.task import Task
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import learn
from tailproof.errors import FoldError, TailproofWarning
from tailproof.log.folds import Split
from tailproof.log.log import Log
from tailproof.methods.catalogue import method
from tailproof.methods.fit import fit_members
from tailproof.methods.method import Method
from tailproof.noise import StudentT
from tailproof.robust.aggregates import Aggregate, Mean, TrimmedMean
from tailproof.worlds.cartpole import TARGET_TRUTH, CartPole
from tailproof.worlds.rollout import simulated_returns

GAMMA = 0.99
#: J of the target over an infinite horizon, which FQE estimates.
TRUTH = TARGET_TRUTH.value
#: The paper's reference value: ``CartPole().paper_truth(episodes=20_000, seed=2024)``.
PAPER_TRUTH = 85.981
#: The target's value over 100 steps, from which regrets are counted:
#: ``CartPole().value(CartPole().target(), episodes=20_000, seed=2024)``.
BEST_VALUE = 62.910

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
#: Section 5 and appendix A3.2; the ridge is that of the released code, the paper does not state it.
LEARNING: Settings = {
    "episodes": 400,
    "steps": 100,
    "epsilon": 0.05,
    "gamma": GAMMA,
    "folds": 5,
    "ridge": 20.0,
    "iterations": 100,
    "evaluation_episodes": 100,
    "best_value": BEST_VALUE,
}
#: Suffix of methods whose ridge per observation is that of a fold, for any size of data.
EQUAL = "-equal"


def grid(settings: Settings) -> list[Cell]:
    """Return a cell for each κ and df."""
    return [{"kappa": kappa, "df": df} for kappa in settings["kappas"] for df in settings["dfs"]]


def budget(results: Results) -> str:
    """Return the settings of the run, for the caption of a figure."""
    settings = results.settings
    return (
        f"CartPole, {settings['episodes']} episodes × {settings['steps']} steps, "
        f"{results.replicates} replicates, bars: 95 % bootstrap intervals. "
        f"At df = 1 the noise has no mean: its centre is estimated."
    )


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
    """Suppress tailproof's warnings: replicates count their bad folds instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        yield


class Estimators:
    """All estimators of the paper on one log, without fitting a critic twice.

    ROAM-DM, ROAM-Variant and MA-DM are three aggregates of the same K critics, and so are ROAM-MIS
    and MA-MIS of the same K numbers; a test checks that they equal separate calls of `evaluate`.
    """

    def __init__(self, job: Job, log: Log | None = None) -> None:
        self.job, self.settings = job, job.settings
        self.log = noisy_log(job) if log is None else log

    def fit(self, name: str, *, stream: int = 1, **changes: Any) -> Estimate:
        """Evaluate the target by a named method with the paper's settings.

        Methods of one `stream` share their folds.
        """
        known: dict[str, Any] = {"ridge": Absolute(self.settings["ridge"])}
        if "fqe" in name or name.endswith("-dm"):
            known["iterations"] = self.settings["iterations"]
        chosen, seed = method(name, **known, **changes), self.job.integer(stream)
        with unheard():
            return evaluate(self.log, CartPole().target(), method=chosen, gamma=GAMMA, seed=seed)

    def fitted(self, name: str, *, as_name: str | None = None, **changes: Any) -> Row:
        """Return the row of a method with its own fit."""
        found = self.fit(name, **changes)
        return self.row(as_name or name, found.value, found)

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
        """Return the rows of the methods that use the whole log."""
        return [self.fitted(name) for name in ("fqe", "mis", "tm-mis")]

    def constant_ratio(self, folds: int) -> list[Row]:
        """Return the released code's MIS, whose ratio is 1 everywhere: Ĵ = mean(r)/(1 − γ)."""
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


class Learners:
    """Policies learned from one log, by name; `rows` simulates all of them in parallel.

    A ridge of 20 on the 8,000 rows of a fold is one of 1/400 for each observation; on the 40,000 rows
    of the whole log it is a fifth of that. Names that end in ``-equal`` have 1/400 for each
    observation everywhere. For the methods that split the log the two are the same.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.log = job, noisy_log(job)
        self.policies: dict[str, GreedyPolicy] = {}
        self.bad_folds: dict[str, int] = {}

    def fit(self, name: str, *, as_name: str | None = None, **changes: Any) -> GreedyPolicy:
        """Learn by a named method with the paper's settings, and keep the policy."""
        settings = self.job.settings
        row = name.removesuffix(EQUAL)
        rows_a_fold = settings["episodes"] * settings["steps"] / settings["folds"]
        ridge = settings["ridge"] / rows_a_fold if name != row else Absolute(settings["ridge"])
        chosen = method(row, ridge=ridge, iterations=settings["iterations"], **changes)
        seed = self.job.integer(1)
        policy: GreedyPolicy
        with unheard():
            try:
                learned = learn(self.log, method=chosen, gamma=GAMMA, seed=seed)
                policy, bad = learned.policy, len(learned.bad_folds)
            except FoldError:
                policy, bad = self._unchecked(chosen, seed)
        self.policies[as_name or name], self.bad_folds[as_name or name] = policy, bad
        return policy

    def again(self, name: str, policy: GreedyPolicy, aggregate: Aggregate) -> None:
        """Keep the policy of another aggregate of the same critics."""
        critic = Ensemble(policy.critic.members, aggregate)
        self.policies[name] = GreedyPolicy(critic, policy.n_actions, policy.actions)
        self.bad_folds[name] = 0

    def rows(self) -> list[Row]:
        """Return the regret of every policy, over as many steps as the log's episodes have."""
        settings = self.job.settings
        values = values_of(
            list(self.policies.values()),
            episodes=settings["evaluation_episodes"],
            steps=settings["steps"],
            seed=self.job.rng(2),
        )
        return [
            {
                "method": name,
                "value": float(value),
                "regret": settings["best_value"] - float(value),
                "bad_folds": self.bad_folds[name],
            }
            for name, value in zip(self.policies, values, strict=True)
        ]

    def _unchecked(self, chosen: Method, seed: int) -> tuple[GreedyPolicy, int]:
        """Return the policy of critics that `learn` rejects, as the paper's code does."""
        task = Task(self.log, GAMMA, None, self.log.first_states, seed=seed)
        members = fit_members(task, chosen, np.random.default_rng(seed))
        assert members.fitted is not None
        critics = members.fitted.critics
        bad = int((~critics.healthy()).sum())
        return GreedyPolicy(Ensemble(critics, chosen.aggregate), self.log.n_actions), bad


def values_of(
    policies: Sequence[Callable[[FloatArray], IntArray]],
    *,
    episodes: int,
    steps: int,
    seed: np.random.Generator,
) -> FloatArray:
    """Return the mean discounted return of each policy, all simulated in parallel, (P,)."""

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
