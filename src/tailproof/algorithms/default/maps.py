"""Features of state, action and the policy's agreement, as the rungs of the ladder see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailproof.algorithms.default.target import Actions
from tailproof.arrays import AnyArray, FloatArray
from tailproof.features import Features, mixed_features


class Map(Protocol):
    """Features of state, action and agreement with the policy."""

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:
        """Return φ at n pairs, (n, d)."""

    def under(self, actions: Actions) -> FloatArray:
        """Return E_π φ(s, ·), (n, d)."""

    @property
    def constant(self) -> FloatArray | None:
        """The θ with φᵀθ = 1 everywhere, (d,); None if there is none that is known."""


@dataclass(frozen=True)
class Plain:
    """A feature map that knows nothing of the policy."""

    features: Features

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return φ at n pairs, (n, d)."""
        return self.features(states, actions)

    def under(self, actions: Actions) -> FloatArray:
        """Return E_π φ(s, ·), (n, d)."""
        return mixed_features(self.features, actions.states, actions.actions, actions.weights)

    @property
    def constant(self) -> FloatArray | None:
        """The θ with φᵀθ = 1 everywhere, (d,)."""
        known = getattr(self.features, "constant", None)
        return None if known is None else known()


@dataclass(frozen=True)
class PolicyAware:
    """[φ(s, a), agreement(s, a)·ψ(s)]: what is different where the log acts as the policy would."""

    features: Features
    state_features: Any

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:
        """Return φ at n pairs, (n, d)."""
        psi = self.state_features(states) * agreement[:, None]
        return np.hstack([self.features(states, actions), psi])

    def under(self, actions: Actions) -> FloatArray:
        """Return E_π φ(s, ·), (n, d)."""
        low = mixed_features(self.features, actions.states, actions.actions, actions.weights)
        share = (actions.weights * actions.agreement).sum(axis=1, keepdims=True)
        return np.hstack([low, self.state_features(actions.states) * share])

    @property
    def constant(self) -> FloatArray | None:
        """The θ with φᵀθ = 1 everywhere, (d,)."""
        low = Plain(self.features).constant
        width = int(self.state_features.size(0))
        return None if low is None else np.concatenate([low, np.zeros(width)])


@dataclass(frozen=True)
class OfStates:
    """Functions of the state alone: the critic V(s) of what was done."""

    state_features: Any

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return ψ at n states, (n, d)."""
        return np.asarray(self.state_features(states))

    def under(self, actions: Actions) -> FloatArray:
        """Return ψ at n states, zero where nothing follows, (n, d)."""
        alive = actions.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.state_features(actions.states) * alive)

    @property
    def constant(self) -> FloatArray | None:
        """The θ with ψᵀθ = 1 everywhere, (d,)."""
        return np.asarray(self.state_features.constant())
