"""What an algorithm is asked: a log, a policy to evaluate, a discount, and where episodes start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.view import Chunk
from tailproof.engines import Engine, Local
from tailproof.policies.simple import action_draws, action_probabilities, chosen_actions

#: What a task remembers under these names: what its policy does, and where episodes start.
_NEXT, _HERE, FIRST_STATES = "next actions", "action probabilities", "first states"


@dataclass(frozen=True)
class Task:
    """Evaluate `policy` from `log`; with no policy, look for the best one.

    Parameters
    ----------
    log
        A `Log`; or a `LazyLog`, which algorithms that want all of it at once are never given.
    initial_states
        Where episodes start, (m, p); None for where those of the log do.
    draws
        How many actions a state are drawn from a continuous stochastic policy to integrate over it.
    seed
        Seeds those draws, and nothing else.
    engine
        Where passes over the log run.
    initial_rows
        The rows of the log's table in which the `initial_states` stand, where they do, (m,).
    """

    log: Any
    gamma: float
    policy: Any
    initial_states: FloatArray | None = None
    draws: int = 16
    seed: int = 0
    engine: Engine = field(default_factory=Local)
    initial_rows: IntArray | None = None
    known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def next_actions(self, rows: Any) -> tuple[AnyArray, FloatArray]:
        """Return the policy's actions and weights in the next states of these rows, (m, L)."""
        if _NEXT in self.known:
            actions, weights = self.known[_NEXT]
            return actions[rows], weights[rows]
        return self._draws(self.log.next_states[rows], self.log.table_rows.next_rows[rows], 0)

    def remember_next_actions(self) -> None:
        """Evaluate the policy in all next states of a log in memory, once for all that need it.

        Who asks for some of the rows later gets the same draws of a policy that is sampled.
        """
        self.known[_NEXT] = self._draws(self.log.next_states, self.log.table_rows.next_rows, 0)

    def action_probabilities(self) -> FloatArray:
        """Return π(a|s) in the states of a log in memory, evaluated once, (n, A)."""
        if _HERE not in self.known:
            log: Log = self.log
            places = log.table_rows.rows
            law = action_probabilities(self.policy, log.states, log.n_actions, rows=places)
            self.known[_HERE] = law
        found: FloatArray = self.known[_HERE]
        return found

    def following(self, piece: Chunk) -> Following:
        """Return what the policy does in the next states of a piece of the log."""
        if self.policy is None:
            every = np.arange(self.log.n_actions)
            return Following(None, np.broadcast_to(every, (len(piece), len(every))), None)
        rows = None
        if isinstance(self.log, Log):
            rows = self.log.table_rows.next_rows[_rows(piece)]
        if self.log.is_discrete and not hasattr(self.policy, "probabilities"):
            if _NEXT in self.known:
                chosen = self.next_actions(_rows(piece))[1].argmax(axis=1)
            else:
                space = self.log.n_actions
                chosen = chosen_actions(self.policy, piece.next_states, space, rows=rows)
            return Following(chosen, chosen[:, None], None)
        if _NEXT in self.known:
            return Following(None, *self.next_actions(_rows(piece)))
        return Following(None, *self._draws(piece.next_states, rows, 0, piece.first))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "known": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def starts(self) -> tuple[FloatArray, IntArray | None]:
        """Return where the policy starts, (m, p), and the rows of the log's table, where known."""
        if self.initial_states is not None:
            return self.initial_states, self.initial_rows
        if isinstance(self.log, Log):
            return self.log.first_states, self.log.first_rows
        if FIRST_STATES not in self.known:  # unless a pass over the log has met them
            self.known[FIRST_STATES] = self.log.first_states
        return self.known[FIRST_STATES], None

    def initial_points(self) -> Points:
        """Return the state-action pairs and weights that integrate Q over starts and policy."""
        states, rows = self.starts()
        if self.log.is_discrete and not hasattr(self.policy, "probabilities"):
            chosen = chosen_actions(self.policy, states, self.log.n_actions, rows=rows)
            even = np.full(len(states), 1 / len(states))
            return Points(states, chosen, even, np.arange(len(states)))
        actions, weights = self._draws(states, rows, 1)
        n, length = weights.shape
        flat_weights = (weights / n).ravel()
        kept = flat_weights > 0
        return Points(
            np.repeat(states, length, axis=0)[kept],
            actions.reshape(n * length, *actions.shape[2:])[kept],
            flat_weights[kept],
            np.repeat(np.arange(n), length)[kept],
        )

    def _draws(
        self, states: FloatArray, rows: IntArray | None, *stream: int
    ) -> tuple[AnyArray, FloatArray]:
        rng = np.random.default_rng([self.seed, *stream])
        space = self.log.action_space
        return action_draws(self.policy, states, space, draws=self.draws, rng=rng, rows=rows)


def _rows(piece: Chunk) -> slice:
    return slice(piece.first, piece.first + len(piece))


class Following(NamedTuple):
    """What a policy does in the next states of some rows."""

    chosen: IntArray | None  # (m,) the discrete actions of a deterministic policy
    actions: AnyArray  # (m, L) or (m, L, q) the actions to integrate over; all without a policy
    weights: FloatArray | None  # (m, L) of a stochastic policy


@dataclass(frozen=True)
class Points:
    """Weighted state-action pairs: Σ_i weight_i Q(s_i, a_i) = E_{s, a ~ π} Q(s, a)."""

    states: FloatArray  # (P, p)
    actions: AnyArray  # (P,) or (P, q)
    weights: FloatArray  # (P,), summing to one
    start: IntArray  # (P,), the start that each belongs to
