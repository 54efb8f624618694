"""The plainest policy of all: one action, whatever the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.default.auto import Auto
from tailproof.algorithms.learners.improvement import refuse_evaluation, tasks_of
from tailproof.algorithms.learners.state_critics import Fixed, fitted_scores
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, require_fraction
from tailproof.data.log import Log
from tailproof.data.partition import Folds, Whole
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import MethodError, TailproofError
from tailproof.parameters import Configurable
from tailproof.policies.simple import Always


@dataclass(frozen=True, kw_only=True)
class Constant(Configurable):
    """Always the same action: the one whose estimated value, less its standard error, is the highest.

    Values are those of `evaluate`'s default. An action that the log takes rarely is left out, because
    nothing is known of a world in which it is always taken.

    Parameters
    ----------
    least
        Share of the rows that an action must have.
    action
        This one, whatever its value.
    """

    capabilities: ClassVar[Capabilities] = LEARNER

    least: float = 0.05
    action: int | None = None

    def __post_init__(self) -> None:
        require_fraction("least", self.least, MethodError)

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,
    ) -> Fitted:
        """Value every action on each fold."""
        refuse_evaluation(task, type(self).__name__)
        key = int(rng.integers(2**63))
        return fitted_scores(Fixed(self._values(each, key)) for each in tasks_of(task, folds))

    def _values(self, task: Task, key: int) -> FloatArray:
        values = np.full(task.log.n_actions, -np.inf)
        known = common_actions(task.log, self.least) if self.action is None else [self.action]
        for action in known:
            values[action] = self._value(task, action, key) if self.action is None else 0.0
        return values

    def _value(self, task: Task, action: int, key: int) -> float:
        rng = np.random.default_rng(key)
        asked = replace(task, policy=Always(action), initial_states=None)
        try:
            numbers = Auto().estimate(asked, Whole().assign(task.log, rng), rng=rng)
        except TailproofError:  # no critic of this action exists: nothing is known of it
            return -np.inf
        assert numbers.choice is not None
        return float(numbers.values[0]) - numbers.choice.standard_error


def common_actions(log: Log, least: float = 0.05) -> list[int]:
    """Return the actions with at least this share of the rows, or the most frequent one."""
    shares = np.bincount(log.actions, minlength=log.n_actions) / log.n_transitions
    return np.flatnonzero(shares >= min(least, float(shares.max()))).tolist()
