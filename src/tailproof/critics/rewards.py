"""Replacements of the logged rewards for learning: robust fits of them, or constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.linear import huber_regression
from tailproof.critics.task import Task
from tailproof.critics.trees import (
    averages,
    grown,
    training_rows,
    with_action,
)
from tailproof.errors import MethodError
from tailproof.features import Features, Standardise, as_features
from tailproof.log.folds import split_groups
from tailproof.log.log import Log
from tailproof.parameters import POSITIVE, Configurable
from tailproof.robust.huber_path import asymmetry_by_action
from tailproof.rules import RULES

_TREES = 20
_SMALLEST = 10
_KEPT = 0.99  # share of the residuals that is not clipped, if they are symmetric
_REACH = 4.0  # residuals within this many robust standard deviations are never clipped
_CLIPPED = 2.0  # times log n residuals are clipped if they are skewed

#: Maps a log and features to rewards, (n,).
Rewards = Callable[[Log, Features], FloatArray]


@dataclass(frozen=True)
class HuberRewards(Configurable):
    """r̃ = φ(s, a)ᵀβ with β the Huber regression of the logged rewards on the features.

    This limits the influence of symmetric outliers. With skewed residuals the regression estimates
    another centre than the mean, and the learned policy may be far from the best. Test for skew first.

    Parameters
    ----------
    threshold
        In robust standard deviations (1.4826 × median |residual|) of the residuals.
    """

    constraints: ClassVar = {"threshold": POSITIVE}

    threshold: float = 1.345

    def __call__(self, log: Log, features: Features) -> FloatArray:
        """Return the regression's rewards, (n,)."""
        phi = features(log.states, log.actions)
        fit = huber_regression(phi, log.rewards, threshold=self.threshold, tolerance=1e-8)
        return np.asarray(phi @ fit.beta)


@dataclass(frozen=True)
class ConstantRewards(Configurable):
    """Rewards without information: the same number at every step.

    A policy learned from them depends on the logged states and actions only. Use it as a baseline: a
    robust method that does not beat it has learned nothing from the rewards.
    """

    value: float = 0.0

    def __call__(self, log: Log, features: Features) -> FloatArray:  # noqa: ARG002
        """Return the constant, (n,)."""
        return np.full(log.n_transitions, float(self.value))


@dataclass(frozen=True)
class TamedRewards:
    """Clip the residuals of cross-fitted trees on state and action.

    Trees are used because a linear fit would treat real catastrophes as noise. If no action's residuals
    are significantly skewed they are clipped at their 99 % quantile, but never within four robust
    standard deviations; otherwise only the 2 log n largest are clipped, so that the bias vanishes as
    the log grows. Skew is tested for each action, because opposite skews of two actions would cancel in
    pooled residuals but bias a comparison of the actions.
    """

    def __call__(self, log: Log, features: Features) -> FloatArray:  # noqa: ARG002
        """Return the tamed rewards, (n,)."""
        fitted = cross_fitted(log)
        residuals = log.rewards - fitted
        size = np.abs(residuals)
        taken = log.actions if log.is_discrete else None
        skewed = asymmetry_by_action(residuals, taken) > RULES.skewed
        limit = float(np.quantile(size, 1 - _few(len(size)) if skewed else _KEPT))
        limit = max(limit, _REACH * 1.4826 * float(np.median(size)))
        return np.asarray(fitted + np.clip(residuals, -limit, limit))


def _few(n: int) -> float:
    """Return the share of n rows to clip for any distribution: 2 log n / n, at most 1 %."""
    return min(_CLIPPED * float(np.log(n)) / n, 1 - _KEPT)


def cross_fitted(log: Log) -> FloatArray:
    """Return rewards predicted by trees that were fitted to the other half of the groups, (n,).

    The 2 log n largest and smallest rewards are clipped before fitting, because one outlier would
    dominate every leaf that contains it.
    """
    few = _few(log.n_transitions)
    rewards = np.clip(log.rewards, *np.quantile(log.rewards, [few, 1 - few]))
    rng = np.random.default_rng(9)
    own = split_groups(log, np.arange(log.n_groups) % 2, rng)
    z = Standardise.fit(log.states, tame=True)(log.states)
    inputs = with_action(z, log.actions, log.n_actions)
    fitted = np.empty(log.n_transitions)
    for k in (0, 1):
        asked = np.flatnonzero(own == k)
        if len(asked) == 0:
            continue
        train = np.flatnonzero(own != k) if log.n_groups > 1 else asked
        rows = training_rows(log, train, rng)
        trees = grown(
            inputs[rows],
            rewards[rows],
            trees=_TREES,
            smallest=_SMALLEST,
            seed=900 + k,
            always=log.n_actions,
        )
        values = averages(trees.leaves(inputs[rows]), trees.nodes) @ rewards[rows]
        asked_rows = log.rows(asked)
        fitted[asked_rows] = trees.means(values, inputs[asked_rows])
    return fitted


NAMED: dict[str, Rewards] = {
    "huber": HuberRewards(),
    "zero": ConstantRewards(0.0),
    "one": ConstantRewards(1.0),
    "tamed": TamedRewards(),
}


def as_rewards(given: Rewards | str | None) -> Rewards | None:
    """Return the reward model for a name or callable; None for the logged rewards."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if given is None or (callable(given) and not isinstance(given, str)):
        return given
    raise MethodError(
        f"reward must be None (as logged), {', '.join(map(repr, NAMED))}, or a callable of a log and "
        f"features that returns (n,) rewards. Got {given!r} instead."
    )


def with_rewards(task: Task, given: Rewards | str | None, features: Features | str | None) -> Task:
    """Return the task with its rewards replaced by a reward model."""
    rewards = as_rewards(given)
    if rewards is None:
        return task
    log: Log = task.log
    return replace(task, log=log.with_rewards(rewards(log, as_features(features, log))))
