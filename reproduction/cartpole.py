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
from tailproof.critics.penalties import Absolute
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
from tailproof.profile.profile import LogProfile
from tailproof.robust.aggregates import Aggregate, Mean, TrimmedMean
from tailproof.worlds.cartpole import TARGET_TRUTH, CartPole
from tailproof.worlds.rollout import simulated_returns

GAMMA = 0.99
#: J of the target over an infinite horizon, which FQE estimates.
TRUTH = TARGET_TRUTH.value
#: The paper's reference value: ``paper_truth(episodes=20_000, seed=2024)``.
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
    "tolerance": 0.005,
    "truth": TRUTH,
    "paper_truth": PAPER_TRUTH,
}
#: Section 5 and appendix A3.2; ridge and tolerance are those of the released code, the paper states
#: neither.
LEARNING: Settings = {
    "episodes": 400,
    "steps": 100,
    "epsilon": 0.05,
    "gamma": GAMMA,
    "folds": 5,
    "ridge": 20.0,
    "iterations": 100,
    "tolerance": 0.005,
    "evaluation_episodes": 100,
    "best_value": BEST_VALUE,
}
#: The cell without noise.
CLEAN: Cell = {"kappa": 0.0, "df": 0.0}
#: Suffix of methods whose ridge per observation is that of a fold, for any size of data.
EQUAL = "-equal"
#: How iterations end, by the value of the column "stopping"; methods without iterations have "".
STOPPING = {
    "rule": "as released: until the targets change by less than 0.5 %",
    "all": "100 iterations",
}
#: The same for titles of panels.
SHORT = {"rule": "released rule", "all": "100 iterations"}
#: Suffix of methods with the features of the paper's text: state and action in one model.
TEXT = "-text"
#: Suffix of methods that refit all folds at once. The paper's boxes and code refit them in turn.
AT_ONCE = "-at-once"
#: ROAM-FQE as figure 3a's program runs it: its settings arrive under a name that is ignored, so that
#: the class's own tolerance of 0.1 % holds instead of the 0.5 % of all other methods.
STRICTER, STRICTER_TOLERANCE = "roam-fqe-stricter", 0.001


def paper_truth(*, episodes: int, seed: int) -> float:
    """Return the paper's value of the target policy: 201 rewarded steps, clipped returns.

    Its Monte Carlo ran 300 steps in a simulator that stops after 201, and clipped the returns at their
    2 % and 98 % quantiles. It is about γ^201 = 13 % lower than the value over an infinite horizon.
    """
    world = CartPole()
    returns = simulated_returns(
        world, world.target(), episodes=episodes, steps=201, gamma=0.99, seed=seed
    )
    return float(np.clip(returns, *np.quantile(returns, [0.02, 0.98])).mean())


def critic_settings(settings: Settings, name: str, stopping: str) -> tuple[str, dict[str, Any]]:
    """Return the row of the catalogue and the settings of its base for a method of the figures."""
    row = "roam-fqe" if name == STRICTER else name
    row = row.removesuffix(AT_ONCE).removesuffix(EQUAL).removesuffix(TEXT)
    known: dict[str, Any] = {"ridge": Absolute(settings["ridge"])}
    if EQUAL in name:
        rows_a_fold = settings["episodes"] * settings["steps"] / settings["folds"]
        known["ridge"] = settings["ridge"] / rows_a_fold
    if TEXT in name:
        known["features"] = "interactions"
    if stopping:
        known["iterations"] = settings["iterations"]
        tolerance = STRICTER_TOLERANCE if name == STRICTER else settings["tolerance"]
        known["tolerance"] = tolerance if stopping == "rule" else None
        known["in_turn"] = not name.endswith(AT_ONCE)
    return row, known


def grid(settings: Settings) -> list[Cell]:
    """Return a cell for each κ and df."""
    return [{"kappa": kappa, "df": df} for kappa in settings["kappas"] for df in settings["dfs"]]


def with_clean(settings: Settings) -> list[Cell]:
    """Return a cell for each κ and df, and one without noise."""
    return [*grid(settings), CLEAN]


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
        self.profile = LogProfile(self.log)  # one for all methods
        self.rows: list[Row] = []

    def fit(self, name: str, stopping: str = "", **changes: Any) -> Estimate:
        """Evaluate the target by a named method with the paper's settings."""
        row, known = critic_settings(self.settings, name, stopping)
        chosen, seed = method(row, **known, **changes), self.job.integer(1)
        with unheard():
            return evaluate(
                self.profile,
                CartPole().target(),
                method=chosen,
                gamma=GAMMA,
                seed=seed,
                logged=False,
            )

    def add(self, name: str, stopping: str = "", **changes: Any) -> None:
        """Add the row of a method with its own fit."""
        found = self.fit(name, stopping, **changes)
        self.keep(name, found.value, found, stopping)

    def add_weighted(self, folds: int) -> None:
        """Add the methods that split the log in K and have no iterations."""
        weighted = self.fit("roam-mis", folds=folds)
        self.keep("roam-mis", weighted.value, weighted)
        self.keep("ma-mis", weighted.with_aggregate(Mean()).value, weighted)
        trimmed = weighted.with_aggregate(TrimmedMean(0.2)).value
        self.keep("tm-mis-released", trimmed, weighted)

    def add_direct(self, folds: int, stopping: str) -> None:
        """Add the methods that aggregate K critics after fitting."""
        direct = self.fit("roam-dm", stopping, folds=folds)
        self.keep("roam-dm", direct.value, direct, stopping)
        self.keep("roam-variant", float(np.median(direct.fold_values)), direct, stopping)
        self.keep("ma-dm", direct.with_aggregate(Mean()).value, direct, stopping)

    def add_constant_ratio(self, folds: int) -> None:
        """Add the released code's MIS, whose ratio is 1 everywhere: Ĵ = mean(r)/(1 − γ)."""
        parts = Split(folds).assign(self.log, self.job.rng(2))
        means = [self.log.rewards[self.log.rows(parts.episodes(k))].mean() for k in range(folds)]
        self.keep("mis-constant", float(self.log.rewards.mean()) / (1 - GAMMA))
        self.keep("roam-mis-constant", float(np.median(means)) / (1 - GAMMA))

    def add_iterations(self, name: str, **changes: Any) -> None:
        """Note in a method's row after how many iterations its folds stopped, on average."""
        named, known = critic_settings(self.settings, name, "rule")
        chosen = method(named, **known, **changes)
        task = Task(self.log, GAMMA, CartPole().target(), self.log.first_states)
        members = fit_members(task, chosen, np.random.default_rng(self.job.integer(1)))
        assert members.fitted is not None
        (row,) = [row for row in self.rows if (row["method"], row["stopping"]) == (name, "rule")]
        row["iterations"] = float((members.fitted.history > 0).sum(axis=0).mean())

    def keep(
        self, name: str, value: float, estimate: Estimate | None = None, stopping: str = ""
    ) -> None:
        """Add a row."""
        bad = len(estimate.bad_folds) if estimate else 0
        self.rows.append({"method": name, "stopping": stopping, "value": value, "bad_folds": bad})


class Learners:
    """Policies learned from one log, by method and stopping; `rows` simulates all of them at once.

    A ridge of 20 on the 8,000 rows of a fold is one of 1/400 for each observation; on the 40,000 rows
    of the whole log it is a fifth of that. Names that end in ``-equal`` have 1/400 for each
    observation everywhere. For the methods that split the log the two are the same.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.log = job, noisy_log(job)
        self.profile = LogProfile(self.log)  # one for all methods
        self.policies: dict[tuple[str, str], GreedyPolicy] = {}
        self.notes: dict[tuple[str, str], Row] = {}

    def fit(
        self, name: str, stopping: str, *, as_name: str | None = None, **changes: Any
    ) -> GreedyPolicy:
        """Learn by a named method with the paper's settings, and keep the policy."""
        row, known = critic_settings(self.job.settings, name, stopping)
        if row == "ma-fqi":  # a mean in every target: what folds do without a median
            row, changes = "room-fqi", {**changes, "aggregate": Mean()}
        chosen, seed = method(row, **known, **changes), self.job.integer(1)
        policy: GreedyPolicy
        with unheard():
            try:
                learned = learn(self.profile, method=chosen, gamma=GAMMA, seed=seed)
                assert isinstance(learned.policy, GreedyPolicy)
                policy, bad, history = learned.policy, len(learned.bad_folds), learned.history
            except FoldError:
                policy, bad, history = self._unchecked(chosen, seed)
        key = (as_name or name, stopping)
        steps = float((np.asarray(history) > 0).sum(axis=0).mean())
        self.policies[key] = policy
        self.notes[key] = {"bad_folds": bad, "iterations": steps}
        return policy

    def again(self, name: str, stopping: str, policy: GreedyPolicy, aggregate: Aggregate) -> None:
        """Keep the policy of another aggregate of the same critics."""
        critic = Ensemble(policy.critic.members, aggregate)
        self.policies[name, stopping] = GreedyPolicy(critic, policy.n_actions, policy.actions)
        self.notes[name, stopping] = {"bad_folds": 0, "iterations": None}

    def rows(self) -> list[Row]:
        """Return the value of every policy, over as many steps as the log's episodes have."""
        settings = self.job.settings
        values = values_of(
            list(self.policies.values()),
            episodes=settings["evaluation_episodes"],
            steps=settings["steps"],
            seed=self.job.rng(2),
        )
        return [
            {"method": name, "stopping": stopping, "value": float(value), **note}
            for ((name, stopping), note), value in zip(self.notes.items(), values, strict=True)
        ]

    def _unchecked(self, chosen: Method, seed: int) -> tuple[GreedyPolicy, int, FloatArray]:
        """Return the policy of critics that `learn` rejects, as the paper's code does."""
        task = Task(self.log, GAMMA, None, self.log.first_states, seed=seed)
        members = fit_members(task, chosen, np.random.default_rng(seed))
        assert members.fitted is not None
        critics = members.fitted.critics
        policy = GreedyPolicy(Ensemble(critics, chosen.aggregate), self.log.n_actions)
        return policy, int((~critics.healthy()).sum()), members.fitted.history


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
