"""Behaviour cloning with a linear model: what the log did, whatever it earned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from tailproof.aggregate import Aggregate
from tailproof.algorithms.base import At, Fitted
from tailproof.algorithms.greedy_backup import logged_actions, require_actions
from tailproof.algorithms.linear import as_ridge
from tailproof.algorithms.sweeps import in_memory
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.critics import LinearCritics
from tailproof.errors import MethodError
from tailproof.features import Features, as_features, at_actions
from tailproof.log import Log
from tailproof.partition import Folds


@dataclass(frozen=True, kw_only=True)
class Cloning:
    """Imitate the log: π(a|s) ∝ exp φ(s, a)ᵀθ, by maximum likelihood with a ridge.

    θ minimises −Σ log π(a|s) + λ‖θ‖²/2 over the logged actions. Its "critics" are the scores φᵀθ, so
    that the greedy policy is the likeliest action. Rewards do not matter; what does not beat this has
    learned nothing from them.

    Parameters
    ----------
    features, ridge
        As in `FQI`.
    iterations
        At most so many steps of L-BFGS.
    """

    supports: ClassVar[tuple[At, ...]] = ("value", "pointwise")
    learns: ClassVar[bool] = True

    features: Features | str | None = None
    ridge: Any = 1e-6
    iterations: int = 200

    def __post_init__(self) -> None:
        as_ridge(self.ridge)
        if self.iterations < 1:
            raise MethodError(f"iterations must be at least 1. Got {self.iterations!r} instead.")

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `supports` keeps it None
        rng: np.random.Generator,  # noqa: ARG002 nothing is drawn
    ) -> Fitted:
        """Fit the scores on each fold."""
        if task.policy is not None:
            raise MethodError(
                "Cloning imitates the log and cannot evaluate a given policy. Evaluate with FQE(), "
                "for instance method='roam-dm', or call learn."
            )
        log = in_memory(task.log)
        features = as_features(self.features, log)
        require_actions(log, folds, features)
        found = [self._fit(folds.log(log, k), features) for k in range(folds.count)]
        theta = np.stack([each for each, _ in found])
        history = np.array([[steps for _, steps in found]], dtype=float)
        nobody = np.zeros(folds.count, dtype=bool)
        return Fitted(LinearCritics(features, theta, diverged=nobody), history)

    def _fit(self, log: Log, features: Features) -> tuple[FloatArray, int]:
        actions = logged_actions(log)
        every = np.broadcast_to(np.arange(log.n_actions), (log.n_transitions, log.n_actions))
        there = at_actions(features, log.states, every)
        taken = features(log.states, log.actions).mean(axis=0)  # (d,)
        penalty = float(as_ridge(self.ridge).penalty(np.array([log.n_transitions]))[0])
        penalty /= log.n_transitions
        weights = np.zeros((log.n_transitions, log.n_actions))

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            scores = there.values(theta[None])[0][actions]  # (A, n)
            total = scipy.special.logsumexp(scores, axis=0)
            weights[:, actions] = np.exp(scores - total).T
            gradient = there.mix(weights).mean(axis=0) - taken + penalty * theta
            value = float(total.mean() - taken @ theta + penalty * (theta @ theta) / 2)
            return value, gradient

        start = np.zeros(features.size)
        found = scipy.optimize.minimize(
            loss, start, jac=True, method="L-BFGS-B", options={"maxiter": self.iterations}
        )
        return np.asarray(found.x), int(found.nit)
