"""The yardstick of a learned policy: the best single action, on the same episodes."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog, action_counts
from tailproof.errors import TailproofError, TailproofWarning
from tailproof.evaluation.evaluate import evaluate
from tailproof.policies.simple import Always

_LEAST = 0.05  # share of the rows that an action needs: of others too little is known


class ConstantAction(NamedTuple):
    """An action by its label, and the value of always taking it."""

    action: str
    value: float


def best_constant(log: AnyLog, *, gamma: float, seed: int = 0) -> ConstantAction | None:
    """Return the action whose value by `evaluate` is the highest; None where none can be evaluated.

    It is chosen by the very rows that value it, so that the value is too high rather than too low.

    Examples
    --------
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(1)
    >>> states, actions = rng.normal(size=500), rng.integers(2, size=500)
    >>> log = Log.from_arrays(states, actions, 1.0 * actions, states, episode=range(500))
    >>> best_constant(log, gamma=0.0).action
    '1'
    """
    space = log.action_space
    if not isinstance(space, Discrete):
        return None
    shares = action_counts(log) / log.n_transitions
    found = []
    for action in np.flatnonzero(shares >= _LEAST).tolist():
        try:
            with warnings.catch_warnings():  # those of the log were given for the learned policy
                warnings.simplefilter("ignore", TailproofWarning)
                value = evaluate(log, Always(action, space.n), gamma=gamma, seed=seed).value
        except TailproofError:  # nothing can be said of a world in which it is always taken
            continue
        found.append(ConstantAction(space.label(action), value))
    return max(found, key=lambda each: each.value, default=None)
