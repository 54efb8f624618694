"""What a learner may put in place of the logged rewards: a robust regression, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.algorithms.learners.taming import TamedRewards
from tailproof.algorithms.linear.huber import huber_regression
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.errors import MethodError
from tailproof.features import Features, as_features
from tailproof.parameters import Configurable

#: A log and features to rewards, (n,).
Rewards = Callable[[Log, Features], FloatArray]


@dataclass(frozen=True)
class HuberRewards(Configurable):
    """r̃ = φ(s, a)ᵀβ with β the Huber regression of the logged rewards on the features.

    Symmetric outliers lose their influence before learning starts. Skewed ones do not cancel: the
    regression then aims at another centre than the mean, and what is learned may be far from the
    best. Test for skew first.

    Parameters
    ----------
    threshold
        In robust standard deviations (1.4826 × median |residual|) of the residuals.
    """

    threshold: float = 1.345

    def __post_init__(self) -> None:
        if not 0 < self.threshold < np.inf:
            raise MethodError(f"threshold must be above 0 and finite. Got {self.threshold!r}.")

    def __call__(self, log: Log, features: Features) -> FloatArray:
        """Return the regression's rewards, (n,)."""
        phi = features(log.states, log.actions)
        fit = huber_regression(phi, log.rewards, threshold=self.threshold, tolerance=1e-8)
        return np.asarray(phi @ fit.beta)


@dataclass(frozen=True)
class ConstantRewards(Configurable):
    """Rewards that say nothing: the same number at every step.

    What is learned from them comes from where the log went, not from what it earned. A robust score
    that does not beat it proves nothing.
    """

    value: float = 0.0

    def __call__(self, log: Log, features: Features) -> FloatArray:  # noqa: ARG002
        """Return the constant, (n,)."""
        return np.full(log.n_transitions, float(self.value))


NAMED: dict[str, Rewards] = {
    "huber": HuberRewards(),
    "zero": ConstantRewards(0.0),
    "one": ConstantRewards(1.0),
    "tamed": TamedRewards(),
}


def as_rewards(given: Any) -> Rewards | None:
    """Return the reward model that was named or given; None for the logged rewards."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if given is None or (callable(given) and not isinstance(given, str)):
        return given
    raise MethodError(
        f"reward must be None (as logged), {', '.join(map(repr, NAMED))}, or a callable of a log and "
        f"features that returns (n,) rewards. Got {given!r} instead."
    )


def with_rewards(task: Task, given: Any, features: Features | str | None) -> Task:
    """Return the task with the rewards that a reward model makes of its log."""
    rewards = as_rewards(given)
    if rewards is None:
        return task
    log: Log = task.log.load()
    return replace(task, log=log.with_rewards(rewards(log, as_features(features, log))))
