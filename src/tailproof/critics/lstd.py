"""LSTD, the fixed point of fitted Q-evaluation in closed form, and policy iteration on it (LSPI)."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.base import LEARNER, Capabilities, Fitted, WithoutBackup
from tailproof.critics.fitted_q import GreedyBackup, logged_actions, require_actions
from tailproof.critics.linear import (
    Design,
    Regularised,
    fixed_point,
    regularise,
)
from tailproof.critics.penalties import EVALUATING, RidgeChoice, require_ridge
from tailproof.critics.rewards import Rewards, as_rewards, with_rewards
from tailproof.critics.task import Task
from tailproof.features import Dense, Features, as_features
from tailproof.log.folds import Folds
from tailproof.parameters import COUNT


@dataclass(frozen=True, kw_only=True)
class LSTD(WithoutBackup):
    """Least-squares temporal differences: θ = A⁻¹b, A = Σφ(φ − γφ')ᵀ + λI, b = Σφr.

    The paper's estimating equation (section 4) omits γ and π; both are needed.

    Parameters
    ----------
    features, ridge
        As in `FQE`.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(("value", "pointwise"), needs="chunks")

    features: Features | str | None = None
    ridge: RidgeChoice = EVALUATING

    def __post_init__(self) -> None:
        require_ridge(self.ridge)

    def design(self, task: Task, folds: Folds, *, keep: bool = False) -> Design:
        """Return the task in this base's features."""
        return Design(task, as_features(self.features, task.log), folds, keep)

    def system(self, design: Design, rng: np.random.Generator) -> Regularised:
        """Return Σφφᵀ + λI for each fold, and what it came from."""
        return regularise(design, self.ridge, rng)

    def solved(self, design: Design, rng: np.random.Generator) -> Fitted:
        """Solve for θ on each fold."""
        found = self.system(design, rng)
        return Fitted(found.critics(fixed_point(found.matrix, found.stats, design.task.gamma)))

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        return self.solved(self.design(task, folds), rng)


@dataclass(frozen=True, kw_only=True)
class LSPI(WithoutBackup):
    """Least-squares policy iteration on Q (Lagoudakis & Parr, 2003); LSTD-Q in the paper.

    Each iteration evaluates the greedy policy of the last θ: θ ← A⁻¹Σφr with
    A = Σφ(s, a)(φ(s, a) − γφ(s', argmax_a φ(s', a)ᵀθ))ᵀ + λI, the argmax over logged actions. It stops
    when no member's policy changes at any next state.

    Parameters
    ----------
    features, ridge, reward
        As in `FQI`.
    iterations
        Maximum number; a policy that still changes then may be cycling.
    """

    constraints: ClassVar = {"iterations": COUNT}

    features: Features | str | None = None
    ridge: RidgeChoice = 2.5e-3
    iterations: int = 50
    reward: Rewards | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_ridge(self.ridge)
        as_rewards(self.reward)

    @property
    def capabilities(self) -> Capabilities:
        """Replaced rewards need all rows in memory."""
        return replace(LEARNER, needs="chunks" if self.reward is None else "memory")

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        task = with_rewards(task, self.reward, self.features)
        features = as_features(self.features, task.log)
        require_actions(task.log, folds, features)
        system = regularise(Design(task, features, folds, keep=True), self.ridge, rng)
        design, stats = system.design, system.stats
        greedy = GreedyBackup(actions=logged_actions(task.log))
        theta = fixed_point(system.matrix, stats, 0.0)  # the greedy policy of the reward alone
        history = np.zeros((self.iterations, folds.count))
        cross = np.full_like(system.matrix, np.nan)
        for moved in history:
            before, cross = cross, design.reduce(partial(_crossed, greedy, theta), operator.add)
            if np.array_equal(before, cross):  # no greedy action changed
                break
            matrix = system.stable(cross).matrix
            previous, theta = theta, fixed_point(matrix, stats, task.gamma, cross)
            np.abs(theta - previous).max(axis=1, out=moved)
        return Fitted(system.critics(theta), history)  # θ of a singular system is NaN


def _crossed(greedy: GreedyBackup, theta: FloatArray, design: Design, part: range) -> FloatArray:
    """Return Σφ(s, a)φ(s', greedy)ᵀ of one part for each member, (K, d, d)."""
    total = np.zeros((design.folds.count, design.features.size, design.features.size))
    for rows in design.rows(part):
        for segment in rows.segments:
            inner = segment.weighed(rows.inner[:, segment.rows])
            own = total[segment.member, rows.block(segment.block)]
            taken = greedy.choice(rows, segment, theta)
            after = rows.after.take(segment.rows)
            if isinstance(after, Dense):
                own += inner @ after.phi[np.arange(len(taken)), taken]
                continue
            for action in np.unique(taken):
                own[:, rows.block(action)] += (inner * (taken == action)) @ after.psi
    return total
