"""Which actions were logged in exactly the same state, for logs with few distinct states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import BoolArray, FloatArray
from tailproof.data.log import Log
from tailproof.policies.simple import action_probabilities

_VALUES = 60  # most distinct values per column for states to count as discrete
_REPEATED = 0.5  # most distinct states, as a share of the rows
_WORST = 0.01  # quantile of the rewards that represents a catastrophe


@dataclass(frozen=True, eq=False)
class SeenPairs:
    """The state-action pairs of some rows."""

    known: dict[bytes, BoolArray]
    n_actions: int

    @classmethod
    def of(cls, log: Log) -> SeenPairs | None:
        """Return the pairs of a log; None if states hardly repeat."""
        few = all(len(np.unique(column)) <= _VALUES for column in log.states.T)
        if not few or log.n_transitions == 0:
            return None
        states, place = np.unique(log.states + 0.0, axis=0, return_inverse=True)
        if len(states) > _REPEATED * log.n_transitions:
            return None
        taken = np.zeros((len(states), log.n_actions), dtype=bool)
        taken[place.ravel(), log.actions] = True
        known = {state.tobytes(): row for state, row in zip(states, taken, strict=True)}
        return cls(known, log.n_actions)

    def unseen(self, states: FloatArray, probabilities: FloatArray) -> FloatArray:
        """Return the probability, in each state, of actions that were never logged there, (n,)."""
        distinct, place = np.unique(states + 0.0, axis=0, return_inverse=True)
        nothing = np.zeros(self.n_actions, dtype=bool)
        taken = np.array([self.known.get(state.tobytes(), nothing) for state in distinct])
        return np.asarray((probabilities * ~taken[place.ravel()]).sum(axis=1))

    def cost(
        self, policy: Any, log: Log, weights: FloatArray | None, value: float, gamma: float
    ) -> float:
        """Return the possible loss by unseen actions: P(ever taking one) times the worst loss.

        `weights` are proportional to the policy's visits of each row, (n,); None for equal visits.
        """
        visits = np.ones(log.n_transitions) if weights is None else np.maximum(weights, 0.0)
        if not visits.sum() > 0:
            visits = np.ones(log.n_transitions)
        unseen = self.unseen(log.states, action_probabilities(policy, log.states, log.n_actions))
        share = float(np.average(unseen, weights=visits))
        return unseen_cost(share, log, value, gamma)


def unseen_cost(share: float, log: Log, value: float, gamma: float) -> float:
    """Return P(ever taking an unseen action), from their share of the steps, times the worst loss."""
    horizon = 1 / (1 - gamma) if gamma < 1 else float(log.lengths.mean())
    worst = float(np.quantile(log.rewards, _WORST)) * horizon
    return min(1.0, share * horizon) * max(0.0, value - worst)
