"""Feature maps by name, and the choice of a map for a log.

Each rung of the ladder can represent more functions than the one below it, and needs more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.features.maps import (
    Additive,
    Basis,
    Features,
    FittedMap,
    Fourier,
    Interactions,
    Joint,
    PerAction,
    Standardise,
    Table,
    Trees,
    default_features,
    joined,
)
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.parameters import OneOf, require

#: Valid names for `features=`.
NAMES = ("polynomial", "interactions", "splines", "fourier", "table", "trees")
KNOTS = 6
TREES = 10
LARGEST = 400  # most features of one map, so that its systems are solved in milliseconds
_ROWS = 10  # fewest rows per feature
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


def as_features(given: Features | str | None, log: Log) -> Features:
    """Return the given features, the default ones, or those of a name, fitted to the states of a log.

    ``"polynomial"`` are those of the paper's released code: bias, main effects and pairwise products
    of the state, in one model for each action; ``"interactions"`` those of its text, main effects and
    products of state and action in one model. ``"splines"`` add six
    knots for each variable, ``"fourier"`` up to 100 random Fourier features, ``"table"`` is one feature
    per state, and ``"trees"`` are the leaves of ten randomised trees fitted to reward and state change.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=5, seed=0)
    >>> as_features(None, log).size, as_features("splines", log).size
    (22, 70)
    """
    if given is None:
        return default_features(log)
    if not isinstance(given, str):
        return given
    require(OneOf(*NAMES), features=given)
    if given == "interactions":
        if not isinstance(log.action_space, Discrete):
            return Joint(len(log.state_names), log.action_space.dimension)
        return Interactions(len(log.state_names), log.n_actions)
    if not isinstance(log.action_space, Discrete):
        return JointBasis(_state_map(given, log, joined(log.states, log.actions)))
    if given == "polynomial":
        return default_features(log)
    return PerAction(_state_map(given, log, log.states), len(log.state_names), log.n_actions)


def _state_map(name: str, log: Log, states: FloatArray) -> FittedMap:
    if name == "polynomial":
        return Basis.fit(states, squares=True)
    if name == "splines":
        return Basis.fit(states, knots=KNOTS, squares=not isinstance(log.action_space, Discrete))
    blocks = log.n_actions if isinstance(log.action_space, Discrete) else 1
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
    tried = [(True, knots), (False, knots), (False, min(knots, 2)), (False, 0)]
    if build(Basis(known)).size > limit:  # more features need not be looked at
        del tried[:-1]
    for products, hinges in tried:
        basis = Basis.fit(
            states, products=products, squares=squares, knots=hinges, standardise=known
        )
        features = build(basis)
        if features.size <= limit:
            break
    return features
