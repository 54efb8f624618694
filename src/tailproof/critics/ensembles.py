"""Critics: Q(s, a) of K members in one call, and an ensemble of them as one critic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.features import Features, PerAction, at_every_action
from tailproof.features.maps import joined
from tailproof.robust.aggregates import Aggregate


class Critics(Protocol):
    """K critics, evaluated in one vectorised call for speed."""

    @property
    def count(self) -> int:
        """Number of members, K."""

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""

    def healthy(self) -> BoolArray:
        """Return which members have finite parameters and did not diverge, (K,)."""

    def subset(self, members: IntArray) -> Critics:
        """Return only these members."""


_FEW = 1 << 16  # state-action pairs whose features are computed at a time


@dataclass(frozen=True)
class LinearCritics:
    """Q_k(s, a) = φ(s, a)ᵀθ_k."""

    features: Features
    theta: FloatArray  # (K, d)
    diverged: BoolArray = None  # type: ignore[assignment]  # (K,); by default none

    def __post_init__(self) -> None:
        if self.diverged is None:
            object.__setattr__(self, "diverged", np.zeros(len(self.theta), dtype=bool))
        if self.theta.shape != (len(self.diverged), self.features.size):
            raise MethodError(
                f"theta must have the shape ({len(self.diverged)}, {self.features.size}), as members "
                f"and features do. Got {self.theta.shape} instead."
            )

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.theta)

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""
        values = np.empty((self.count, len(states)))
        for first in range(0, len(states), _FEW):  # the features of all may not fit in memory
            rows = slice(first, first + _FEW)
            values[:, rows] = self._values(states[rows], actions[rows])
        return values

    def _values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        if not isinstance(self.features, PerAction):
            return np.asarray(self.theta @ self.features(states, actions).T)
        psi = self.features.state_features(states)  # one model per action, without the zero blocks
        values = np.empty((self.count, len(states)))
        for action, theta in enumerate(
            self.theta.reshape(self.count, -1, psi.shape[1]).swapaxes(0, 1)
        ):
            own = np.flatnonzero(actions == action)
            values[:, own] = theta @ psi.T.take(own, axis=1)
        return values

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""
        return at_every_action(self.features, states, n_actions).values(self.theta)

    def healthy(self) -> BoolArray:
        """Return which members have finite parameters and did not diverge, (K,)."""
        return np.isfinite(self.theta).all(axis=1) & ~self.diverged

    def subset(self, members: IntArray) -> LinearCritics:
        """Return only these members."""
        return LinearCritics(self.features, self.theta[members], self.diverged[members])


@dataclass(frozen=True, eq=False)
class ListedCritics(ABC):
    """K critics, each of which is an object of its own."""

    members: tuple[Any, ...]
    n_actions: int | None = None  # None for continuous actions
    usable: BoolArray | None = None  # (K,) members that may be used; None for all

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.members)

    @abstractmethod
    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""

    @abstractmethod
    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""

    def healthy(self) -> BoolArray:
        """Return which members may be used, (K,)."""
        return np.ones(self.count, dtype=bool) if self.usable is None else self.usable

    def subset(self, members: IntArray) -> Self:
        """Return only these members."""
        chosen = tuple(self.members[k] for k in members)
        return replace(self, members=chosen, usable=self.healthy()[members])


class RegressorCritics(ListedCritics):
    """Q_k(s, a) by scikit-learn regressors on [s, a], discrete actions one-hot."""

    def inputs(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return the inputs of the regressors, (n, p + A) or (n, p + q)."""
        if self.n_actions is None:
            return joined(states, actions)
        return np.column_stack([states, np.eye(self.n_actions)[actions]])

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""
        inputs = self.inputs(states, actions)
        return np.stack([np.asarray(model.predict(inputs), dtype=float) for model in self.members])

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""
        every = (np.full(len(states), action) for action in range(n_actions))
        return np.stack([self.values(states, actions) for actions in every], axis=1)


@dataclass(frozen=True)
class Ensemble:
    """K critics and an aggregate: one critic, Q(s, a) = aggregate_k Q_k(s, a)."""

    members: Critics
    aggregate: Aggregate

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q at n state-action pairs, (n,)."""
        return self.aggregate(self.members.values(states, actions))

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q(s, a) at every discrete action, (n, A)."""
        return self.aggregate(self.members.action_values(states, n_actions)).T
