"""What the policy to evaluate does in a log in memory, asked once for all that need it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.horizon import with_step
from tailproof.data.log import Log
from tailproof.data.partition import label_hash
from tailproof.features import Standardise
from tailproof.policies.simple import action_draws

_DRAWS = 4  # actions for each state of a policy that can only be sampled


@dataclass(frozen=True, eq=False)
class Actions:
    """Weighted actions of the policy in some states: Σ_l weight_l f(s, a_l) = E_π f(s, ·)."""

    states: FloatArray  # (n, p)
    actions: AnyArray  # (n, L) or (n, L, q)
    weights: FloatArray  # (n, L), zero where nothing follows
    agreement: FloatArray  # (n, L) how likely the policy is to act (nearly) like this

    def take(self, rows: Any) -> Actions:
        """Return some of the states."""
        return Actions(
            self.states[rows], self.actions[rows], self.weights[rows], self.agreement[rows]
        )

    def pairs(self) -> Pairs:
        """Return the state-action pairs that have weight, one after the other."""
        row, place = np.nonzero(self.weights > 0)
        return Pairs(
            row,
            self.states[row],
            self.actions[row, place],
            self.agreement[row, place],
            self.weights[row, place],
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """State-action pairs, the row that each belongs to and its weight there."""

    row: IntArray  # (P,)
    states: FloatArray  # (P, p)
    actions: AnyArray  # (P,) or (P, q)
    agreement: FloatArray  # (P,)
    weights: FloatArray  # (P,)


@dataclass(frozen=True, eq=False)
class Target:
    """A log, a discount, and what the policy does where the log went and where episodes start.

    The agreement of an action with the policy is π(a|s) if actions are discrete, and a Gaussian kernel
    of the distance to the policy's actions if they are continuous.
    """

    task: Task
    log: Log  # the task's, or the same with the step among its states
    next: Actions  # in the next states, (n, …)
    first: Actions  # where episodes start, (m, …)
    agreement: FloatArray  # (n,) of the logged actions
    shares: FloatArray | None  # (A,) mean probability of each discrete action in the logged states

    @classmethod
    def of(cls, task: Task) -> Target:
        """Ask the policy."""
        log = task.log
        alike, places = _alikeness(log), log.table_rows

        def act(states: FloatArray, rows: Any, stream: int) -> tuple[AnyArray, FloatArray]:
            rng = np.random.default_rng([task.seed, stream])
            draws, space = min(task.draws, _DRAWS), log.action_space
            return action_draws(task.policy, states, space, draws=draws, rng=rng, rows=rows)

        def actions(states: FloatArray, rows: Any, stream: int) -> Actions:
            chosen, weights = act(states, rows, stream)
            return Actions(states, chosen, weights, alike(chosen, chosen, weights))

        after = actions(log.next_states, places.next_rows, 0)
        if log.terminated.any():
            alive = ~log.terminated[:, None]
            after = Actions(after.states, after.actions, after.weights * alive, after.agreement)
        chosen, chances = act(log.states, places.rows, 2)
        here = alike(log.actions[:, None], chosen, chances)[:, 0]
        shares = chances.mean(axis=0) if log.is_discrete else None
        return cls(task, log, after, actions(*task.starts(), 1), here, shares)

    def with_step(self) -> Target:
        """Return the same with the step among the states; the policy was asked without it."""
        log = with_step(self.log)
        starts = np.column_stack([self.first.states, np.zeros(len(self.first.states))])
        return replace(
            self,
            log=log,
            next=replace(self.next, states=log.next_states),
            first=replace(self.first, states=starts),
        )

    @property
    def gamma(self) -> float:
        """The discount."""
        return self.task.gamma

    @property
    def starts_with_episodes(self) -> bool:
        """Whether each start is that of an episode of the log."""
        return len(self.first.states) == self.log.n_episodes

    @cached_property
    def endless(self) -> bool:
        """Whether no transition ends for good, so that Σ γᵗ = 1 / (1 − γ)."""
        return self.gamma < 1 and not self.log.terminated.any()


def shuffled_groups(log: Log, seed: int) -> IntArray:
    """Return the place of each episode's group in an order that labels and seed decide, (E,)."""
    labels = log.episode_ids if log.group_ids is None else np.unique(log.group_ids)
    place = np.argsort(np.argsort(label_hash(labels, seed), kind="stable"))
    return np.asarray(place[log.group_of_episode])


def _alikeness(log: Log) -> Any:
    """Return a function of actions (n, M), and (n, L) with weights (n, L), to agreement (n, M)."""
    if log.is_discrete:

        def exact(actions: Any, _: Any, weights: FloatArray) -> FloatArray:
            return np.take_along_axis(weights, np.asarray(actions), axis=1)

        return exact
    scale = Standardise.fit(np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1))
    width = 0.5 * np.sqrt(max(len(scale.columns), 1))

    def near(actions: Any, own: Any, weights: FloatArray) -> FloatArray:
        first, second = (_scaled(each, scale) for each in (actions, own))
        agreement = np.zeros(first.shape[:2])
        for place in range(second.shape[1]):
            squares = ((first - second[:, place : place + 1]) ** 2).sum(axis=2)
            agreement += weights[:, place : place + 1] * np.exp(-0.5 * squares / width**2)
        return agreement

    return near


def _scaled(actions: Any, scale: Standardise) -> FloatArray:
    """Return continuous actions in robust standard deviations, (n, L, q)."""
    n, length = actions.shape[:2]
    flat = np.asarray(actions, dtype=float).reshape(n * length, -1)
    return scale(flat).reshape(n, length, -1)
