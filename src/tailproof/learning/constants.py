"""A baseline for learned policies: the best constant action, on the same episodes."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog, action_counts
from tailproof.errors import TailproofError, TailproofWarning
from tailproof.evaluation.evaluate import evaluate
from tailproof.policies.simple import Always

_LEAST = 0.05  # smallest share of the rows for an action to be evaluated


class ConstantAction(NamedTuple):
    """An action by its label, and the value of always taking it."""

    action: str
    value: float


def best_constant(log: AnyLog, *, gamma: float, seed: int = 0) -> ConstantAction | None:
    """Return the action whose value by `evaluate` is the highest; None if none can be evaluated.

    The same rows choose and evaluate it, so its value is biased upwards.

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
            with warnings.catch_warnings():  # already given for the learned policy
                warnings.simplefilter("ignore", TailproofWarning)
                value = evaluate(log, Always(action, space.n), gamma=gamma, seed=seed).value
        except TailproofError:  # always taking this action cannot be evaluated
            continue
        found.append(ConstantAction(space.label(action), value))
    return max(found, key=lambda each: each.value, default=None)
