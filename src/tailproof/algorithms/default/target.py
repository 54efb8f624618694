"""The target policy's actions on a log in memory, computed once and shared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.horizon import with_step
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.features import Standardise
from tailproof.policies.simple import action_draws

_DRAWS = 4  # sampled actions per state, if the policy can only be sampled


class PolicyActions(NamedTuple):
    """Weighted actions of the policy in some states: Σ_l weight_l f(s, a_l) = E_π f(s, ·)."""

    states: FloatArray  # (n, p)
    actions: AnyArray  # (n, L) or (n, L, q)
    weights: FloatArray  # (n, L), zero after a terminal transition
    agreement: FloatArray  # (n, L) probability that the policy takes (nearly) this action

    def take(self, rows: Any) -> PolicyActions:
        """Return some of the states."""
        return PolicyActions(*(each[rows] for each in self))

    def pairs(self) -> Pairs:
        """Return the state-action pairs with positive weight as one flat list."""
        row, place = np.nonzero(self.weights > 0)
        own = (each[row, place] for each in (self.actions, self.agreement, self.weights))
        return Pairs(row, self.states[row], *own)


class Pairs(NamedTuple):
    """State-action pairs, the row that each belongs to and its weight there."""

    row: IntArray  # (P,)
    states: FloatArray  # (P, p)
    actions: AnyArray  # (P,) or (P, q)
    agreement: FloatArray  # (P,)
    weights: FloatArray  # (P,)


@dataclass(frozen=True, eq=False)
class Target:
    """A log, and the policy's actions in its next states and where episodes start.

    The agreement of an action with the policy is π(a|s) if actions are discrete, and a Gaussian kernel
    of the distance to the policy's actions if they are continuous.
    """

    task: Task
    log: Log  # the task's log, or a copy with the step added to its states
    next: PolicyActions  # in the next states, (n, …)
    first: PolicyActions  # where episodes start, (m, …)
    agreement: FloatArray  # (n,) of the logged actions
    shares: FloatArray | None  # (A,) mean probability of each discrete action in the logged states

    @classmethod
    def of(cls, task: Task) -> Target:
        """Compute the policy's actions in the states of the task."""
        log = task.log
        alike, places = _alikeness(log), log.table_rows

        def act(states: FloatArray, rows: Any, stream: int) -> tuple[AnyArray, FloatArray]:
            rng = np.random.default_rng([task.seed, stream])
            draws, space = min(task.draws, _DRAWS), log.action_space
            return action_draws(task.policy, states, space, draws=draws, rng=rng, rows=rows)

        def actions(states: FloatArray, rows: Any, stream: int) -> PolicyActions:
            chosen, weights = act(states, rows, stream)
            return PolicyActions(states, chosen, weights, alike(chosen, chosen, weights))

        after = actions(log.next_states, places.next_rows, 0)
        if log.terminated.any():
            after = after._replace(weights=after.weights * ~log.terminated[:, None])
        if log.is_discrete:
            shares = task.action_probabilities.mean(axis=0)
            here = task.action_probabilities[np.arange(log.n_transitions), log.actions]
        else:
            shares, here = None, alike(log.actions[:, None], *act(log.states, places.rows, 2))[:, 0]
        return cls(task, log, after, actions(*task.starts(), 1), here, shares)

    def with_step(self) -> Target:
        """Return a copy with the step added to the states; the policy's actions stay the same."""
        log, starts = with_step(self.log), self.first.states
        after = self.next._replace(states=log.next_states)
        first = self.first._replace(states=np.column_stack([starts, np.zeros(len(starts))]))
        return replace(self, log=log, next=after, first=first)

    @property
    def gamma(self) -> float:
        """The discount."""
        return self.task.gamma

    @property
    def starts_with_episodes(self) -> bool:
        """Whether the starts are those of the log's episodes."""
        return len(self.first.states) == self.log.n_episodes

    @cached_property
    def endless(self) -> bool:
        """Whether no transition is terminal and γ < 1, so that Σ γᵗ = 1 / (1 − γ)."""
        return self.gamma < 1 and not self.log.terminated.any()

    def dealt(self, seed: int, count: int) -> tuple[IntArray, IntArray]:
        """Split the groups of episodes; return the part of each episode, (E,), and start, (m,)."""
        part = place_of_group(self.log, seed) % count
        m = len(self.first.states)
        return part, part if self.starts_with_episodes else np.arange(m) % count


def place_of_group(log: Log, seed: int) -> IntArray:
    """Return the rank of each episode's group in a random order set by labels and seed, (E,)."""
    return np.asarray(np.argsort(shuffled_groups(log, seed))[log.group_of_episode])


def _alikeness(log: Log) -> Any:
    """Return a function: actions (n, M), policy actions (n, L), weights (n, L) → agreement (n, M)."""
    if log.is_discrete:
        return lambda actions, _, weights: np.take_along_axis(weights, actions, axis=1)
    scale = Standardise.fit(np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1))
    width = 0.5 * np.sqrt(max(len(scale.columns), 1))

    def scaled(actions: AnyArray) -> FloatArray:
        n, length = actions.shape[:2]
        flat = np.asarray(actions, dtype=float).reshape(n * length, -1)
        return scale(flat).reshape(n, length, -1)

    def near(actions: AnyArray, own: AnyArray, weights: FloatArray) -> FloatArray:
        first, second = scaled(actions), scaled(own)
        agreement = np.zeros(first.shape[:2])
        for place in range(second.shape[1]):
            squares = ((first - second[:, place : place + 1]) ** 2).sum(axis=2)
            agreement += weights[:, place : place + 1] * np.exp(-0.5 * squares / width**2)
        return agreement

    return near
