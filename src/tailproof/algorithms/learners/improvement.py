"""One step beyond what the log did, and as many steps as its trees can carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, CriticAlgorithm, Fitted
from tailproof.algorithms.learners.behaviour import behaviour_of
from tailproof.algorithms.learners.state_critics import (
    LinearScores,
    StateCritics,
    Supported,
    fitted_scores,
    supported,
)
from tailproof.algorithms.learners.tree_arrays import TreeValues
from tailproof.algorithms.learners.tree_learning import Lesson, fit_advantages, fit_values
from tailproof.algorithms.rewards import as_rewards, with_rewards
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, require_fraction
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import MethodError
from tailproof.parameters import Configurable

_APART = 1000  # from the seeds of the evaluator's trees, whose errors are to be others


@dataclass(frozen=True, kw_only=True)
class ScoreLearner(Configurable):
    """A base that fits scores of all actions, one member on each fold."""

    capabilities: ClassVar[Capabilities] = LEARNER

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,  # noqa: ARG002 trees are seeded by the task
    ) -> Fitted:
        """Fit scores of all actions on each fold."""
        refuse_evaluation(task, type(self).__name__)
        return fitted_scores(self._member(own) for own in tasks_of(task, folds))

    def _member(self, task: Task) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class TreeLearner(ScoreLearner):
    """What the learners with trees share.

    Parameters
    ----------
    support
        Choose only among actions that the estimated behaviour takes in such a state with at least this
        share of the likeliest action's probability. 0 allows all.
    reward
        What to learn from in place of the logged rewards, as in `FQI`; ``"tamed"`` clips what
        cross-fitted trees leave unexplained.
    """

    support: float = 0.3
    reward: Any = "tamed"

    def __post_init__(self) -> None:
        require_fraction("support", self.support, MethodError, high=1.0)
        as_rewards(self.reward)

    def _member(self, task: Task) -> Any:
        behaviour = behaviour_of(task)
        tamed = rewarded(task, self.reward)
        lesson = Lesson.of(task.log, task.gamma, tamed, seed=task.seed)
        scores = self._scores(task, lesson, behaviour)
        return Supported(scores, behaviour, self.support) if self.support > 0 else scores

    def _scores(self, task: Task, lesson: Lesson, behaviour: TreeValues) -> TreeValues:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class OneStep(TreeLearner):
    """One step of improvement: what is best now, if the log's behaviour goes on afterwards.

    Q is that of the estimated behaviour, fitted by randomised trees as averages, and the policy is
    greedy in it among supported actions (Brandfonbrener et al., 2021). Nothing is maximised inside a
    backup, so that errors do not build up.

    Parameters
    ----------
    support, reward
        As in `TreeLearner`.
    form
        ``"values"`` fits Q(s, a). ``"advantages"`` fits what actions change, r + γ V(s') − V(s).
    pessimism
        Of advantages: so many standard errors are subtracted in each leaf, which keeps to well-known
        actions where evidence is thin.
    """

    form: Literal["values", "advantages"] = "values"
    pessimism: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in ("values", "advantages"):
            raise MethodError(f"form must be values or advantages. Got {self.form!r} instead.")
        if not 0 <= self.pessimism < np.inf or (self.pessimism and self.form == "values"):
            raise MethodError(
                f"pessimism must be 0 or more, and 0 with form='values'. Got {self.pessimism!r}."
            )

    def _scores(self, task: Task, lesson: Lesson, behaviour: TreeValues) -> TreeValues:
        seed = task.seed + _APART
        if self.form == "advantages":
            known = ("advantages", repr(self.reward), self.pessimism)
            if known not in task.known:
                task.known[known] = fit_advantages(
                    task.log, lesson, pessimism=self.pessimism, seed=seed
                )
            advantages: TreeValues = task.known[known]
            return advantages
        following = behaviour(task.log.next_states[lesson.rows])

        def expected(values: FloatArray, rows: Any) -> FloatArray:
            return np.asarray((values * following[rows]).sum(axis=1))

        key = ("values", repr(self.reward))  # what is supported changes nothing in it
        if key not in task.known:
            task.known[key] = fit_values(lesson, expected, seed=seed)
        found: TreeValues = task.known[key]
        return found


@dataclass(frozen=True, kw_only=True)
class ForestFQI(TreeLearner):
    """Fitted Q-iteration with randomised trees as averages, over the actions that the log supports.

    v(s') = max Q(s', a) over the actions with b̂(a|s') ≥ support · max b̂(·|s'). The trees are fixed
    while values iterate, so that these cannot diverge; they are grown twice, the second time on the
    fitted values.
    """

    def _scores(self, task: Task, lesson: Lesson, behaviour: TreeValues) -> TreeValues:
        logged = np.bincount(task.log.actions, minlength=task.log.n_actions) > 0
        allowed = logged & supported(behaviour(task.log.next_states[lesson.rows]), self.support)

        def best(values: FloatArray, rows: Any) -> FloatArray:
            return np.asarray(np.where(allowed[rows], values, -np.inf).max(axis=1))

        return fit_values(lesson, best, seed=task.seed + _APART)


@dataclass(frozen=True, kw_only=True)
class WithinSupport(Configurable):
    """Another learner's critics, kept to actions that the log takes in such states.

    Parameters
    ----------
    base
        A learner with critics, such as `FQI`.
    support
        As in `TreeLearner`.
    """

    base: Any
    support: float = 0.3

    def __post_init__(self) -> None:
        require_fraction("support", self.support, MethodError, high=1.0)
        if not isinstance(self.base, CriticAlgorithm):
            raise MethodError(f"base must be a learner such as FQI(). Got {self.base!r} instead.")

    @property
    def capabilities(self) -> Capabilities:
        """Those of the base; how often actions were taken is counted in memory."""
        own: Capabilities = self.base.capabilities
        return replace(own, needs="memory")

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit the base, and limit its critics."""
        fitted: Fitted = self.base.fit(task, folds, backup=backup, rng=rng)
        critics = fitted.critics
        if not isinstance(critics, LinearCritics):
            raise MethodError(
                f"Only linear critics can be limited here. Got {type(critics).__name__}; OneStep() and "
                f"ForestFQI() have a support of their own."
            )
        behaviour = behaviour_of(task)
        members = tuple(
            Supported(LinearScores(critics.features, theta), behaviour, self.support)
            for theta in critics.theta
        )
        diverged = tuple(np.flatnonzero(~critics.healthy()).tolist())
        return replace(fitted, critics=StateCritics(members, diverged))


def tasks_of(task: Task, folds: Folds) -> list[Task]:
    """Return the task of each fold, the one given where a fold sees every episode once."""
    log: Log = task.log.load()
    if folds.count == 1 and (folds.counts == 1).all():
        return [task]
    return [replace(task, log=folds.log(log, k), initial_states=None) for k in range(folds.count)]


def rewarded(task: Task, reward: Any) -> FloatArray:
    """Return the rewards to learn from, made once for all learners of a task."""
    found: FloatArray = task.once(
        ("rewards", repr(reward)), lambda: with_rewards(task, reward, None).log.rewards
    )
    return found


def refuse_evaluation(task: Task, name: str) -> None:
    """Raise if a learner is asked to evaluate, or to learn from continuous actions."""
    if task.policy is not None:
        raise MethodError(
            f"{name} looks for a policy and cannot evaluate a given one. Evaluate with FQE(), for "
            f"instance method='roam-dm', or call learn."
        )
    log: Log = task.log
    if not log.is_discrete:
        raise MethodError(
            f"{name} chooses between discrete actions. Got {log.action_space}; learn with a neural row "
            f"such as method='iql' (extra 'deep')."
        )
