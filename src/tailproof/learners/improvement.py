"""Learners that score actions: best constant action, one-step improvement, fitted Q by trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.base import (
    LEARNER,
    Capabilities,
    CriticAlgorithm,
    Fitted,
    WithoutBackup,
)
from tailproof.critics.ensembles import LinearCritics
from tailproof.critics.rewards import Rewards, as_rewards
from tailproof.critics.task import Task
from tailproof.critics.tree_values import LearningTask, TrainingSet, fit_values
from tailproof.critics.trees import (
    Fixed,
    LinearScores,
    StateCritics,
    Supported,
    TreeValues,
    supported,
)
from tailproof.errors import MethodError, TailproofError
from tailproof.estimators.sequential import Auto
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.parameters import SHARE, Configurable, OneOf, Within
from tailproof.policies.forms import Always
from tailproof.profile.profile import LogProfile
from tailproof.robust.aggregates import Aggregate


@dataclass(frozen=True, kw_only=True)
class ScoreLearner(WithoutBackup):
    """Base of learners that score every discrete action of a state, fitted on each fold separately."""

    capabilities: ClassVar[Capabilities] = LEARNER

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        if not task.log.is_discrete:
            raise MethodError(
                f"{type(self).__name__} chooses between discrete actions. Got {task.log.action_space}; "
                f"learn with a neural row such as method='iql' (extra 'deep')."
            )
        tasks = [LearningTask.of(task)]
        if folds.count > 1 or (folds.counts != 1).any():
            own = (folds.log(task.log, k) for k in range(folds.count))
            task = replace(tasks[0], initial_states=None, known_unlogged=None)
            tasks = [replace(task, log=each) for each in own]
        members, notes = self._members(tasks, rng)
        return Fitted(StateCritics(tuple(members)), np.empty((0, len(members))), notes)

    def _members(
        self,
        tasks: Sequence[LearningTask],
        rng: np.random.Generator,  # noqa: ARG002 trees are seeded by the task
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the scores learned from each task, and notes for the report."""
        return [self._member(each) for each in tasks], ()

    def _member(self, task: LearningTask) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Constant(ScoreLearner):
    """Always take one action: the one with the highest estimated value less its standard error.

    Values come from the default method of `evaluate`. Rarely logged actions are left out, because the
    log does not show the effect of always taking them.

    Parameters
    ----------
    least
        Smallest share of the rows with which an action is considered.
    action
        Always take this action, whatever its value.
    """

    constraints: ClassVar = {"least": SHARE}

    least: float = 0.05
    action: int | None = None

    def _members(
        self, tasks: Sequence[LearningTask], rng: np.random.Generator
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        key = int(rng.integers(2**63))
        return [Fixed(self._values(each, key)) for each in tasks], ()

    def _values(self, task: Task, key: int) -> FloatArray:
        values = np.full(task.log.n_actions, -np.inf)
        if self.action is not None:
            values[self.action] = 0.0
            return values
        profile = LogProfile(task.log)
        for action in common_actions(task.log, self.least):
            asked = replace(task, policy=Always(action), initial_states=None)
            try:
                found = Auto().score(asked, profile, rng=np.random.default_rng(key))
            except TailproofError:  # no critic can be fitted for this action
                continue
            values[action] = found.value - found.standard_error
        return values


def common_actions(log: Log, least: float = 0.05) -> list[int]:
    """Return the actions with at least this share of the rows, or the most frequent one."""
    shares = np.bincount(log.actions, minlength=log.n_actions) / log.n_transitions
    return np.flatnonzero(shares >= min(least, float(shares.max()))).tolist()


@dataclass(frozen=True, kw_only=True)
class TreeLearner(ScoreLearner):
    """Base of the learners with trees.

    Parameters
    ----------
    support
        Choose only among actions with b̂(a|s) of at least this share of the likeliest action's. 0 allows
        all actions.
    reward
        Rewards to learn from instead of the logged ones, as in `FQI`; ``"tamed"`` clips the residuals
        of cross-fitted trees.
    """

    constraints: ClassVar = {"support": SHARE}

    support: float = 0.3
    reward: Rewards | str | None = "tamed"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_rewards(self.reward)

    def _member(self, task: LearningTask) -> Any:
        tamed = self.reward == "tamed"
        scores = self._scores(
            task.training if tamed else TrainingSet.of(task, task.rewards(self.reward))
        )
        return Supported(scores, task.behaviour, self.support) if self.support > 0 else scores

    def _scores(self, training: TrainingSet) -> TreeValues:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class OneStep(TreeLearner):
    """One-step improvement: the best action now if the logged behaviour continues afterwards.

    Q of the estimated behaviour is fitted by averages in randomised trees, and the policy is greedy
    among supported actions (Brandfonbrener et al., 2021). Backups contain no maximum, so errors do
    not accumulate.

    Parameters
    ----------
    support, reward
        As in `TreeLearner`.
    form
        ``"values"`` fits Q(s, a). ``"advantages"`` fits r + γ V(s') − V(s).
    pessimism
        For advantages: number of standard errors to subtract in each leaf, which prefers actions with
        more data.
    """

    constraints: ClassVar = {
        "form": OneOf("values", "advantages"),
        "pessimism": Within("[0, inf)"),
    }

    form: Literal["values", "advantages"] = "values"
    pessimism: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pessimism and self.form == "values":
            raise MethodError(f"pessimism must be 0 with form='values'. Got {self.pessimism!r}.")

    def _scores(self, training: TrainingSet) -> TreeValues:
        if self.form == "values":
            return training.values
        trees, means, errors = training.advantages
        values = means - self.pessimism * errors
        return TreeValues(training.standardise, trees, values, training.task.log.n_actions)


@dataclass(frozen=True, kw_only=True)
class ForestFQI(TreeLearner):
    """Fitted Q-iteration by averages in randomised trees, over supported actions.

    v(s') = max Q(s', a) over the actions with b̂(a|s') ≥ support · max b̂(·|s'). The trees are fixed
    during the iterations, so that values cannot diverge; they are grown twice, the second time on
    the fitted values.
    """

    def _scores(self, training: TrainingSet) -> TreeValues:
        log, behaviour = training.task.log, training.task.behaviour
        logged = np.bincount(log.actions, minlength=log.n_actions) > 0
        allowed = logged & supported(behaviour(log.next_states[training.rows]), self.support)

        def best(values: FloatArray, rows: Any) -> FloatArray:
            return np.asarray(np.where(allowed[rows], values, -np.inf).max(axis=1))

        return fit_values(training, best)


@dataclass(frozen=True, kw_only=True)
class WithinSupport(Configurable):
    """Another learner's critics, restricted to actions that the log supports in each state.

    Parameters
    ----------
    base
        A learner with critics, such as `FQI`.
    support
        As in `TreeLearner`.
    """

    constraints: ClassVar = {"support": SHARE}

    base: CriticAlgorithm
    support: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, CriticAlgorithm):
            raise MethodError(f"base must be a learner such as FQI(). Got {self.base!r} instead.")

    @property
    def capabilities(self) -> Capabilities:
        """Those of the base, but the log must be in memory to estimate the behaviour."""
        own: Capabilities = self.base.capabilities
        return replace(own, needs="memory")

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit the base, and restrict its critics to supported actions."""
        fitted: Fitted = self.base.fit(task, folds, backup=backup, rng=rng)
        critics = fitted.critics
        if not isinstance(critics, LinearCritics):
            raise MethodError(
                f"Only linear critics can be limited here. Got {type(critics).__name__}; OneStep() and "
                f"ForestFQI() have a support of their own."
            )
        behaviour = LearningTask.of(task).behaviour
        members = tuple(
            Supported(LinearScores(critics.features, theta), behaviour, self.support)
            for theta in critics.theta
        )
        return replace(fitted, critics=StateCritics(members, usable=critics.healthy()))
