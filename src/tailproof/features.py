"""Feature maps φ(s, a), and φ over all actions of a state at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import MethodError
from tailproof.lazy import AnyLog
from tailproof.spaces import Discrete


@runtime_checkable
class Features(Protocol):
    """φ(s, a) in R^d. Any object with these two members is a feature map."""

    @property
    def size(self) -> int:
        """Number of features, d."""

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""


@dataclass(frozen=True)
class Polynomial:
    """ψ(s): bias, main effects and pairwise products of the state; no squares (section 5.1).

    Parameters
    ----------
    degree
        2 with pairwise products, 1 without.
    bias
        Whether the first feature is the constant 1. States that are one-hot already hold it.

    Examples
    --------
    >>> Polynomial()([[2.0, 3.0]])
    array([[1., 2., 3., 6.]])
    """

    degree: int = 2
    bias: bool = True

    def size(self, dimension: int) -> int:
        """Return the number of features of a state with `dimension` variables."""
        products = dimension * (dimension - 1) // 2 if self.degree > 1 else 0
        return self.bias + dimension + products

    def __call__(self, states: Any) -> FloatArray:
        """Return ψ(s), (n, size)."""
        states = np.asarray(states)
        n, p = states.shape
        psi = np.empty((self.size(p), n))  # a feature's values side by side: faster to fill
        self.states_in(psi, p)[:] = states.T
        self.complete(psi, p)
        return psi.T

    def states_in(self, psi: FloatArray, dimension: int) -> FloatArray:
        """Return where the states themselves stand in features of shape (size, n): (p, n)."""
        return psi[int(self.bias) : int(self.bias) + dimension]

    def complete(self, psi: FloatArray, dimension: int) -> None:
        """Fill in the other features, (size, n), when the states are in place."""
        states = self.states_in(psi, dimension)
        psi[: int(self.bias)] = 1.0
        if self.degree > 1:
            pairs = combinations(range(dimension), 2)
            for row, (i, j) in enumerate(pairs, start=int(self.bias) + dimension):
                np.multiply(states[i], states[j], out=psi[row])


@dataclass(frozen=True)
class PerAction:
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


@dataclass(frozen=True)
class Blocks:
    """φ(s, ·) of `PerAction` features, held as ψ(s) alone."""

    psi: FloatArray  # (n, p)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) = φ(s, a)ᵀθ_k at every action, (K, A, n), for θ of shape (K, d)."""
        stacked = theta.reshape(-1, self.psi.shape[1])
        values: FloatArray = stacked @ self.psi.T
        return values.reshape(len(theta), -1, len(self.psi))

    def take(self, rows: Any) -> Blocks:
        """Return φ at some of the states."""
        return Blocks(self.psi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d)."""
        return (weights[:, :, None] * self.psi[:, None, :]).reshape(len(weights), -1)


@dataclass(frozen=True)
class Dense:
    """φ at L actions of each state, held in full."""

    phi: FloatArray  # (n, L, d)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a_l) = φ(s, a_l)ᵀθ_k, (K, L, n), for θ of shape (K, d)."""
        n, length, d = self.phi.shape
        flat: FloatArray = theta @ self.phi.reshape(n * length, d).T
        return flat.reshape(len(theta), n, length).transpose(0, 2, 1)

    def take(self, rows: Any) -> Dense:
        """Return φ at some of the states."""
        return Dense(self.phi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_l weights(s, l) φ(s, a_l), (n, d)."""
        mixed: FloatArray = np.einsum("nl,nld->nd", weights, self.phi)
        return mixed


def at_actions(features: Features, states: FloatArray, actions: AnyArray) -> Blocks | Dense:
    """Return φ at L actions of each state; `actions` is (n, L) or (n, L, q)."""
    if isinstance(features, PerAction):
        return Blocks(features.state_features(states))
    n, length = actions.shape[:2]
    flat = actions.reshape(n * length, *actions.shape[2:])
    return Dense(features(np.repeat(states, length, axis=0), flat).reshape(n, length, -1))


def default_features(log: AnyLog) -> Features:
    """Return the paper's features; continuous actions need a choice and are refused."""
    if isinstance(log.action_space, Discrete):
        return PerAction(Polynomial(), len(log.state_names), log.n_actions)
    raise MethodError(
        f"Continuous actions ({log.action_space}) need features= of states and actions: pass a "
        f"feature map with `size` and `__call__(states, actions) -> (n, size)`, for instance "
        f"Joint(state_dimension={len(log.state_names)}, "
        f"action_dimension={log.action_space.dimension})."
    )


@dataclass(frozen=True)
class Joint:
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
        joined = np.column_stack([states, np.asarray(actions).reshape(len(states), -1)])
        return np.hstack([Polynomial()(joined), joined**2])
