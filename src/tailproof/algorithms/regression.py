"""Cloning of continuous actions with a linear model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.learners.ranking import Rank, imitated_episodes, require_rank, require_top
from tailproof.algorithms.linear.statistics import as_ridge
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, one_or_many, require_finite
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.data.spaces import Continuous
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import MethodError, PolicyError
from tailproof.features import Joint, Polynomial
from tailproof.parameters import Configurable


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(s) = ψ((s − mean) / scale)ᵀW within the bounds of the actions.

    ψ are a constant, main effects and pairwise products. Calling it with states (n, p) gives actions
    (n, q); with one state (p,), one action (q,).
    """

    weights: FloatArray  # (d, q)
    mean: FloatArray  # (p,)
    scale: FloatArray  # (p,)
    low: FloatArray  # (q,)
    high: FloatArray  # (q,)

    @one_or_many
    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the action in each state, (n, q)."""
        given = np.asarray(states, dtype=float)
        if given.ndim != 2 or given.shape[1] != len(self.mean):
            raise PolicyError(
                f"states must have the shape (n, {len(self.mean)}). Got {given.shape} instead."
            )
        require_finite("states", given, PolicyError)
        actions = Polynomial()((given - self.mean) / self.scale) @ self.weights
        return np.asarray(np.clip(actions, self.low, self.high))


class Extraction(NamedTuple):
    """A policy, and what its training measured: nothing, for a linear one."""

    policy: LinearPolicy
    training: None = None


@dataclass(frozen=True)
class RegressionFitted(Fitted):
    """Critics that say zero, and the policy."""

    policy: LinearPolicy | None = None


@dataclass(frozen=True, kw_only=True)
class RegressionCloning(Configurable):
    """Imitate continuous actions by ridge regression on the state: what `Cloning` is to discrete ones.

    Parameters
    ----------
    ridge
        As in `FQI`.
    top, rank
        As in `Cloning`.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise",))

    ridge: Any = 1e-6
    top: float = 1.0
    rank: Rank = "auto"

    def __post_init__(self) -> None:
        as_ridge(self.ridge)
        require_top(self.top)
        require_rank(self.rank)

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,  # noqa: ARG002 nothing is drawn
    ) -> RegressionFitted:
        """Fit one policy to the imitated episodes of the whole log."""
        log: Log = task.log.load()
        if not isinstance(log.action_space, Continuous):
            raise MethodError("RegressionCloning is for continuous actions. Use Cloning().")
        (chosen,), notes = imitated_episodes([log], top=self.top, rank=self.rank)
        features = Joint(log.states.shape[1], log.action_space.dimension)
        zero = LinearCritics(
            features, np.zeros((folds.count, features.size)), np.zeros(folds.count, dtype=bool)
        )
        policy = self._policy(log if self.top == 1 else log.take(chosen), log.action_space)
        return RegressionFitted(zero, notes=notes, policy=policy)

    def extract(
        self,
        task: Task,  # noqa: ARG002
        fitted: Fitted,
        *,
        aggregate: Aggregate,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Extraction:
        """Return the policy that was fitted."""
        if not isinstance(fitted, RegressionFitted) or fitted.policy is None:
            raise MethodError("RegressionCloning takes its policy from its own fit.")
        return Extraction(fitted.policy)

    def _policy(self, log: Log, space: Continuous) -> LinearPolicy:
        mean, scale = log.states.mean(axis=0, dtype=float), log.states.std(axis=0, dtype=float)
        scale = np.where(scale > 1e-6 * np.maximum(1, np.abs(mean)), scale, 1.0)
        psi = Polynomial()((log.states - mean) / scale)
        actions = np.asarray(log.actions, dtype=float).reshape(len(psi), -1)
        penalty = float(as_ridge(self.ridge).penalty(np.array([len(psi)]))[0])
        weights = np.linalg.solve(
            psi.T @ psi + max(penalty, 1e-12 * len(psi)) * np.eye(psi.shape[1]), psi.T @ actions
        )
        low = actions.min(axis=0) if space.low is None else np.asarray(space.low)
        high = actions.max(axis=0) if space.high is None else np.asarray(space.high)
        return LinearPolicy(weights, mean, scale, low, high)
