"""What an algorithm is asked: a log, a policy to evaluate, a discount, and where episodes start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.log import Log
from tailproof.policies import action_draws


@dataclass(frozen=True)
class Task:
    """Evaluate `policy` from `log`; with no policy, look for the best one.

    Parameters
    ----------
    draws
        How many actions a state are drawn from a continuous stochastic policy to integrate over it.
    seed
        Seeds those draws, and nothing else.
    """

    log: Log
    gamma: float
    policy: Any
    initial_states: FloatArray
    draws: int = 16
    seed: int = 0

    def next_actions(self, rows: Any) -> tuple[AnyArray, FloatArray]:
        """Return the policy's actions and weights in the next states of these rows, (m, L)."""
        return self._draws(self.log.next_states[rows], stream=0)

    def initial_points(self) -> Points:
        """Return the state-action pairs and weights that integrate Q over starts and policy."""
        actions, weights = self._draws(self.initial_states, stream=1)
        n, length = weights.shape
        flat_weights = (weights / n).ravel()
        kept = flat_weights > 0
        return Points(
            np.repeat(self.initial_states, length, axis=0)[kept],
            actions.reshape(n * length, *actions.shape[2:])[kept],
            flat_weights[kept],
        )

    def _draws(self, states: FloatArray, *, stream: int) -> tuple[AnyArray, FloatArray]:
        rng = np.random.default_rng([self.seed, stream])
        return action_draws(self.policy, states, self.log.action_space, draws=self.draws, rng=rng)


@dataclass(frozen=True)
class Points:
    """Weighted state-action pairs: Σ_i weight_i Q(s_i, a_i) = E_{s, a ~ π} Q(s, a)."""

    states: FloatArray  # (P, p)
    actions: AnyArray  # (P,) or (P, q)
    weights: FloatArray  # (P,), summing to one
