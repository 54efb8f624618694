"""Feature maps by name, and the choice of a map for a log.

Each rung of the ladder can represent more functions than the one below it, and needs more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import MethodError
from tailproof.features.maps import (
    Additive,
    Basis,
    Features,
    FittedMap,
    Fourier,
    Interactions,
    PerAction,
    Standardise,
    Table,
    Trees,
    affords_products,
    joined,
    raw_features,
)
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete

#: Valid names for `features=`.
NAMES = ("polynomial", "raw", "interactions", "splines", "fourier", "table", "trees")
KNOTS = 6
TREES = 10
LARGEST = 400  # most features of one map, so that its systems are solved in milliseconds
_ROWS = 10  # fewest rows per feature
_REPRESENTATIVES = 200_000  # rows to which a polynomial is fitted
_STATES = 200  # most distinct states for a table
_VISITS = 20  # fewest mean visits of each state for a table


@dataclass(frozen=True)
class JointBasis:
    """φ(s, a): a basis of the state and the continuous action, joined."""

    basis: FittedMap

    @property
    def size(self) -> int:
        """Number of features."""
        return self.basis.size(0)

    def constant(self) -> FloatArray:
        """Return θ with φᵀθ = 1 everywhere, (d,)."""
        return self.basis.constant()

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        return self.basis(joined(states, actions))


def as_features(given: Features | str | None, log: Log, *, raw: bool = False) -> Features:
    """Return the given features, those of a name, or the default, which is ``"polynomial"``.

    `raw`: whether polynomials are of the states as they are instead of standardised ones.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=5, seed=0)
    >>> as_features(None, log).size, as_features("splines", log).size
    (22, 70)
    """
    if given is None or isinstance(given, str):
        return named_features(given or "polynomial", log, raw=raw)
    return given


def named_features(name: str, log: Log, *, raw: bool = False) -> Features:
    """Return the features of this name, fitted to the states of a log.

    ``"polynomial"`` are bias, main effects and pairwise products of the state, in one model for each
    action, as in the paper's released code; ``"interactions"`` those of its text, main effects and
    products of state and action in one model. ``"splines"`` add six
    knots for each variable, ``"fourier"`` up to 100 random Fourier features, ``"table"`` is one feature
    per state, and ``"trees"`` are the leaves of ten randomised trees fitted to reward and state change.
    States are standardised; ``"raw"`` are the polynomials of the states as they are, as in the paper,
    whose ridge depends on their units, and so are the first two if `raw`.
    """
    if name not in NAMES:
        raise MethodError(
            f"features must be a feature map or one of {', '.join(map(repr, NAMES))}. "
            f"Got {name!r} instead."
        )
    continuous = not isinstance(log.action_space, Discrete)
    if name == "raw" or (raw and (name == "polynomial" or (continuous and name == "interactions"))):
        return raw_features(log)
    if continuous:
        return JointBasis(_state_map("polynomial" if name == "interactions" else name, log))
    shape = len(log.state_names), log.n_actions
    if name == "interactions":
        return Interactions(*shape, None if raw else Standardise.fit(representatives(log)))
    return PerAction(_state_map(name, log), *shape)


def representatives(log: Log) -> FloatArray:
    """Return the states to which a map is fitted, joined with continuous actions, (m, p).

    These are all states, or evenly spaced ones and those with the extremes of each variable.
    """

    def joint(states: FloatArray, actions: AnyArray) -> FloatArray:
        return states if isinstance(log.action_space, Discrete) else joined(states, actions)

    every = log.n_transitions // _REPRESENTATIVES
    if every < 2:
        return joint(log.states, log.actions)
    rows = []
    for part in log.parts:
        for chunk in log.chunks(part):
            own = joint(chunk.states, chunk.actions)
            rows += [chunk.first + own.argmin(axis=0), chunk.first + own.argmax(axis=0)]
    candidates = np.concatenate(rows)
    found = joint(log.states[candidates], log.actions[candidates])
    extreme = candidates[[*found.argmin(axis=0), *found.argmax(axis=0)]]
    chosen = np.unique([*range(0, log.n_transitions, every), *extreme])
    return joint(log.states[chosen], log.actions[chosen])


def _state_map(name: str, log: Log) -> FittedMap:
    """Return ψ(s), or for continuous actions ψ(s, a)."""
    continuous = not isinstance(log.action_space, Discrete)
    blocks = 1 if continuous else log.n_actions
    if name == "polynomial":
        products = continuous or affords_products(len(log.state_names), blocks)
        return Basis.fit(representatives(log), products=products, squares=continuous)
    states = joined(log.states, log.actions) if continuous else log.states
    if name == "splines":
        return Basis.fit(states, knots=KNOTS, squares=continuous)
    if name == "fourier":
        return Fourier.fit(states, waves=int(np.clip(len(states) // (_ROWS * blocks), 5, 100)))
    if name == "table":
        return Table.fit(np.concatenate([states, log.next_states]))
    targets = np.column_stack([log.rewards, log.next_states - log.states])
    scale = targets.std(axis=0)
    leaves = int(np.clip(len(states) // (_ROWS * blocks * TREES), 3, 24))
    return Trees.fit(states, targets / np.where(scale > 0, scale, 1.0), trees=TREES, leaves=leaves)


def table_for(log: Log) -> Features | None:
    """Return one feature for each state and action, if the log visits few states often.

    A table represents every function of the state, so no other map is richer.
    """
    if not isinstance(log.action_space, Discrete):
        return None
    some = log.states[: 20 * _STATES]
    if len(np.unique(some, axis=0)) > _STATES:
        return None
    states = np.unique(np.concatenate([log.states, log.next_states]), axis=0)
    few = len(states) <= min(_STATES, log.n_transitions / _VISITS)
    if not few or len(states) * log.n_actions > LARGEST:
        return None
    return PerAction(Table(tuple(map(tuple, states.tolist()))), len(log.state_names), log.n_actions)


def basis_for(log: Log, *, knots: int = 0) -> Features:
    """Return the largest standardised basis, with or without knots, that the number of rows allows.

    Products are dropped first, then knots, then separate blocks of features for each action.
    """
    limit = max(min(LARGEST, log.n_transitions // _ROWS), 1)
    if not isinstance(log.action_space, Discrete):
        return _within(limit, joined(log.states, log.actions), JointBasis, knots, squares=True)
    p, blocks = len(log.state_names), log.n_actions
    features = _within(limit, log.states, lambda basis: PerAction(basis, p, blocks), knots)
    if features.size <= limit:
        return features
    return _within(limit, log.states, lambda basis: Additive(basis, p, blocks), knots)


def _within(
    limit: int,
    states: FloatArray,
    build: Callable[[Basis], Features],
    knots: int,
    *,
    squares: bool = False,
) -> Features:
    """Return the largest of several maps with at most `limit` features, or the smallest map."""
    known = Standardise.fit(states)
    for products, hinges in ((True, knots), (False, knots), (False, min(knots, 2)), (False, 0)):
        basis = Basis.fit(
            states, products=products, squares=squares, knots=hinges, standardise=known
        )
        features = build(basis)
        if features.size <= limit:
            break
    return features
