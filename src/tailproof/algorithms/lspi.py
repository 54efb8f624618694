"""LSTD-Q, also called LSPI: policy iteration whose every step is LSTD in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.greedy_backup import GreedyBackup, logged_actions, require_actions
from tailproof.algorithms.linear.ridge import choose_ridge
from tailproof.algorithms.linear.statistics import Design, as_ridge, regularised, solve
from tailproof.algorithms.linear.sweeps import Sweep, Sweeps
from tailproof.algorithms.rewards import as_rewards, with_rewards
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import MethodError
from tailproof.features import Features, as_features
from tailproof.parameters import Configurable


@dataclass(frozen=True, kw_only=True)
class LSPI(Configurable):
    """Least-squares policy iteration on Q (Lagoudakis & Parr, 2003); LSTD-Q in the paper.

    Each iteration evaluates the greedy policy of the last θ: θ ← A⁻¹Σφr with
    A = Σφ(s, a)(φ(s, a) − γφ(s', argmax_a φ(s', a)ᵀθ))ᵀ + λI, the argmax over logged actions. It stops
    when no member's policy changes at any next state.

    Parameters
    ----------
    features, ridge, reward
        As in `FQI`.
    iterations
        At most so many; a policy that has not settled by then may be going in circles.
    """

    features: Features | str | None = None
    ridge: Any = 2.5e-3
    iterations: int = 50
    reward: Any = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise MethodError(f"iterations must be at least 1. Got {self.iterations!r} instead.")
        if self.ridge != "cv":
            as_ridge(self.ridge)
        as_rewards(self.reward)

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; rewards of its own need all rows at once."""
        return replace(LEARNER, needs="chunks" if self.reward is None else "memory")

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,
    ) -> Fitted:
        """Iterate policies on each fold."""
        task = with_rewards(task, self.reward, self.features)
        features = as_features(self.features, task.log)
        require_actions(task.log, folds, features)
        design, sweeps = Design(task, features, folds), Sweeps(task, features, folds)
        ridge = choose_ridge(design, rng=rng) if self.ridge == "cv" else as_ridge(self.ridge)
        stats = sweeps.statistics()
        matrix = regularised(design, stats, ridge.penalty(stats.count))
        greedy = GreedyBackup(logged_actions(task.log))
        right = stats.moment[..., None]
        theta = solve(matrix, right)[..., 0]  # the greedy policy of the reward alone
        history = np.zeros((self.iterations, folds.count))
        cross = np.full_like(matrix, np.nan)
        for moved in history:
            before, cross = cross, sweeps.total(partial(_crossed, greedy, theta))
            if np.array_equal(before, cross):  # nobody changed an action
                break
            previous, theta = theta, solve(matrix - task.gamma * cross, right)[..., 0]
            np.abs(theta - previous).max(axis=1, out=moved)
        nobody = np.zeros(folds.count, dtype=bool)  # what is singular is not finite either
        return Fitted(LinearCritics(features, theta, diverged=nobody), history)


def _crossed(greedy: GreedyBackup, theta: FloatArray, sweep: Sweep) -> FloatArray:
    """Return Σφ(s, a)φ(s', greedy)ᵀ of every member, (K, d, d)."""
    return sweep.cross(greedy.choice(sweep, theta))
