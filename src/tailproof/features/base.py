"""Feature maps φ(s, a), and φ at all actions of a state in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog
from tailproof.errors import MethodError
from tailproof.features.state_maps import Polynomial
from tailproof.parameters import Configurable

MOST_FEATURES = 1_000  # most features of the default map with products


@runtime_checkable
class Features(Protocol):
    """φ(s, a) in R^d. Any object with these two members is a feature map."""

    @property
    def size(self) -> int:
        """Number of features, d."""

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""


@dataclass(frozen=True)
class PerAction(Configurable):
    """One block of state features for each discrete action: φ(s, a) = e_a ⊗ ψ(s).

    A linear critic on these features is one linear model of ψ(s) for each action.
    """

    state_features: Any
    state_dimension: int
    n_actions: int

    @property
    def size(self) -> int:
        """Number of features, A times that of ψ."""
        return self.n_actions * int(self.state_features.size(self.state_dimension))

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        psi = self.state_features(states)
        phi = np.zeros((len(psi), self.n_actions, psi.shape[1]))
        phi[np.arange(len(psi)), actions] = psi
        return phi.reshape(len(psi), -1)

    def constant(self) -> FloatArray | None:
        """Return θ with φᵀθ = 1 everywhere, (d,), or None if ψ has no `constant`."""
        known = getattr(self.state_features, "constant", None)
        return None if known is None else np.tile(known(), self.n_actions)

    def mixed(self, states: FloatArray, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d), for weights of shape (n, A)."""
        return Blocks(self.state_features(states)).mix(weights)


@dataclass(frozen=True)
class Additive:
    """φ(s, a) = [e_a, ψ(s) without its bias]: one intercept per action, and shared effects.

    For logs with too few rows for one block of features per action.
    """

    state_features: Any
    state_dimension: int
    n_actions: int

    @property
    def size(self) -> int:
        """Number of features: one per action, and those of ψ without the bias."""
        return self.n_actions + int(self.state_features.size(self.state_dimension)) - 1

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        weights = np.zeros((len(states), self.n_actions))
        weights[np.arange(len(states)), actions] = 1.0
        return self.mixed(states, weights)

    def constant(self) -> FloatArray:
        """Return θ with φᵀθ = 1 everywhere, (d,)."""
        return np.concatenate([np.ones(self.n_actions), np.zeros(self.size - self.n_actions)])

    def mixed(self, states: FloatArray, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d), for weights of shape (n, A)."""
        share = weights.sum(axis=1, keepdims=True)
        return np.hstack([weights, self.state_features(states)[:, 1:] * share])


@dataclass(frozen=True)
class Blocks:
    """φ(s, ·) of `PerAction` features, stored as ψ(s)."""

    psi: FloatArray  # (n, p)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) = φ(s, a)ᵀθ_k at every action, (K, A, n), for θ of shape (K, d)."""
        stacked = theta.reshape(-1, self.psi.shape[1])
        return np.asarray(stacked @ self.psi.T).reshape(len(theta), -1, len(self.psi))

    def take(self, rows: Any) -> Blocks:
        """Return φ at some of the states."""
        return Blocks(self.psi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d)."""
        return (weights[:, :, None] * self.psi[:, None, :]).reshape(len(weights), -1)


@dataclass(frozen=True)
class Dense:
    """φ at L actions of each state, stored in full."""

    phi: FloatArray  # (n, L, d)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a_l) = φ(s, a_l)ᵀθ_k, (K, L, n), for θ of shape (K, d)."""
        n, length, d = self.phi.shape
        flat = np.asarray(theta @ self.phi.reshape(n * length, d).T)
        return flat.reshape(len(theta), n, length).transpose(0, 2, 1)

    def take(self, rows: Any) -> Dense:
        """Return φ at some of the states."""
        return Dense(self.phi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_l weights(s, l) φ(s, a_l), (n, d)."""
        return np.asarray(np.einsum("nl,nld->nd", weights, self.phi))


def at_actions(features: Features, states: FloatArray, actions: AnyArray) -> Blocks | Dense:
    """Return φ at L actions of each state; `actions` is (n, L) or (n, L, q)."""
    if isinstance(features, PerAction):
        return Blocks(features.state_features(states))
    n, length = actions.shape[:2]
    flat = actions.reshape(n * length, *actions.shape[2:])
    return Dense(features(np.repeat(states, length, axis=0), flat).reshape(n, length, -1))


def at_every_action(features: Features, states: FloatArray, n_actions: int) -> Blocks | Dense:
    """Return φ at every discrete action of each state."""
    every = np.broadcast_to(np.arange(n_actions), (len(states), n_actions))
    return at_actions(features, states, every)


def mixed_features(
    features: Features, states: FloatArray, actions: AnyArray, weights: FloatArray
) -> FloatArray:
    """Return Σ_l weights(s, l) φ(s, a_l), (n, d); `actions` is (n, L) or (n, L, q).

    Features of discrete actions with a faster way for all actions have a method `mixed`.
    """
    if isinstance(features, PerAction | Additive) and weights.shape[1] == features.n_actions:
        return features.mixed(states, weights)
    if actions.shape[1] == 1:
        return np.asarray(features(states, actions[:, 0]) * weights)
    return at_actions(features, states, actions).mix(weights)


def default_features(log: AnyLog) -> Features:
    """Return the paper's features; raise for continuous actions, which have no default.

    States with many variables, for instance from categories, get no products: there would be thousands.
    """
    if isinstance(log.action_space, Discrete):
        p, blocks = len(log.state_names), log.n_actions
        degree = 2 if Polynomial().size(p) * blocks <= MOST_FEATURES else 1
        return PerAction(Polynomial(degree), p, blocks)
    raise MethodError(
        f"Continuous actions ({log.action_space}) need features= of states and actions: pass a "
        f"feature map with `size` and `__call__(states, actions) -> (n, size)`, for instance "
        f"Joint(state_dimension={len(log.state_names)}, "
        f"action_dimension={log.action_space.dimension})."
    )


@dataclass(frozen=True)
class Joint(Configurable):
    """Bias, main effects, pairwise products and squares of the joined vector (s, a).

    The squares let a linear critic have a best action inside the action space.
    """

    state_dimension: int
    action_dimension: int

    @property
    def size(self) -> int:
        """Number of features."""
        p = self.state_dimension + self.action_dimension
        return Polynomial().size(p) + p

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        both = joined(states, actions)
        return np.hstack([Polynomial()(both), both**2])


def joined(states: FloatArray, actions: AnyArray) -> FloatArray:
    """Return states and continuous actions side by side, (n, p + q)."""
    return np.column_stack([states, np.asarray(actions, dtype=float).reshape(len(states), -1)])
