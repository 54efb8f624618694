"""The input of an algorithm: a log, a policy to evaluate, a discount, and initial states."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.view import Chunk
from tailproof.engines import Engine, Local
from tailproof.policies.simple import action_draws, action_probabilities, chosen_actions


@dataclass(frozen=True)
class Task:
    """Evaluate `policy` from `log`; without a policy, learn one."""

    log: Any  # a `LazyLog` only for algorithms that read it in chunks
    gamma: float
    policy: Any
    initial_states: FloatArray | None = None  # (m, p); None for the log's first states
    draws: int = 16  # sampled actions per state of a continuous stochastic policy
    seed: int = 0  # of those draws, and of trees
    engine: Engine = field(default_factory=Local)  # where passes over the log run
    initial_rows: IntArray | None = None  # (m,) rows of the initial states in the log's table
    #: First states of a log on disk, stored in the first pass over it so that they are read once.
    first_met: list[FloatArray] = field(default_factory=list, repr=False, compare=False)
    known_next: tuple[AnyArray, FloatArray] | None = None  # `next_actions` of all rows

    def next_actions(self, rows: Any) -> tuple[AnyArray, FloatArray]:
        """Return the policy's actions and weights in the next states of these rows, (m, L)."""
        if self.known_next is not None:
            actions, weights = self.known_next
            return actions[rows], weights[rows]
        return self._draws(self.log.next_states[rows], self.log.table_rows.next_rows[rows], 0)

    def with_next_actions(self) -> Task:
        """Return the task with the policy's actions in all next states of a log in memory.

        The draws of a sampled policy then do not depend on the requested rows.
        """
        return replace(self, known_next=self.next_actions(slice(None)))

    @cached_property
    def action_probabilities(self) -> FloatArray:
        """π(a|s) in the states of a log in memory, (n, A)."""
        log, places = self.log, self.log.table_rows.rows
        return action_probabilities(self.policy, log.states, log.n_actions, rows=places)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"first_met": []}

    def following(self, piece: Chunk) -> Following:
        """Return the policy's actions in the next states of a chunk of the log."""
        if self.policy is None:
            every = np.arange(self.log.n_actions)
            return Following(None, np.broadcast_to(every, (len(piece), len(every))), None)
        own = slice(piece.first, piece.first + len(piece))
        rows = self.log.table_rows.next_rows[own] if isinstance(self.log, Log) else None
        known = None if self.known_next is None else self.next_actions(own)
        if self.log.is_discrete and not hasattr(self.policy, "probabilities"):
            if known is not None:
                chosen = known[1].argmax(axis=1)
            else:
                space = self.log.n_actions
                chosen = chosen_actions(self.policy, piece.next_states, space, rows=rows)
            return Following(chosen, chosen[:, None], None)
        return Following(None, *(known or self._draws(piece.next_states, rows, 0, piece.first)))

    def starts(self) -> tuple[FloatArray, IntArray | None]:
        """Return the initial states, (m, p), and their rows in the log's table, if known."""
        if self.initial_states is not None:
            return self.initial_states, self.initial_rows
        if isinstance(self.log, Log):
            return self.log.first_states, self.log.first_rows
        if not self.first_met:
            self.first_met.append(self.log.first_states)
        return self.first_met[0], None

    def initial_points(self) -> Points:
        """Return weighted state-action pairs for the mean of Q over initial states and policy."""
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


class Following(NamedTuple):
    """A policy's actions in the next states of some rows."""

    chosen: IntArray | None  # (m,) the discrete actions of a deterministic policy
    actions: AnyArray  # (m, L) or (m, L, q) the actions to average over; all without a policy
    weights: FloatArray | None  # (m, L) of a stochastic policy


@dataclass(frozen=True)
class Points:
    """Weighted state-action pairs: Σ_i weight_i Q(s_i, a_i) = E_{s, a ~ π} Q(s, a)."""

    states: FloatArray  # (P, p)
    actions: AnyArray  # (P,) or (P, q)
    weights: FloatArray  # (P,), summing to one
    start: IntArray  # (P,), the index of the initial state
