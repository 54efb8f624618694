"""The input of an algorithm: a log, a policy, a discount, and what the policy does on the log."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray, RowIndex
from tailproof.features import Standardise
from tailproof.log.columns import CriticColumns
from tailproof.log.folds import split_groups
from tailproof.log.log import Chunk, Log
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.parallel import Engine, Local
from tailproof.policies.forms import BoundPolicy, Policy, bound
from tailproof.robust.tails import effective_rows


@dataclass(frozen=True)
class Task:
    """Evaluate `policy` from `log`; without a policy, learn one."""

    log: Log
    gamma: float
    policy: Policy | BoundPolicy | None
    initial_states: FloatArray | None = None  # (m, p); None for the log's first states
    draws: int = 16  # sampled actions per state of a continuous stochastic policy
    seed: int = 0  # of those draws, and of trees
    engine: Engine = field(default_factory=Local)  # where passes over the log run
    initial_rows: IntArray | None = None  # (m,) rows of the initial states in the log's table

    def next_actions(self, rows: RowIndex) -> tuple[AnyArray, FloatArray]:
        """Return the policy's actions and weights in the next states of these rows, (m, L)."""
        return self._draws(self.log.next_states[rows], self.log.table_rows.next_rows[rows], 0)

    @cached_property
    def action_probabilities(self) -> FloatArray:
        """π(a|s) in the states of the log, (n, A)."""
        return self.acts.probabilities(self.log.states, self.log.table_rows.rows)

    @cached_property
    def acts(self) -> BoundPolicy:
        """The policy, as algorithms ask it."""
        return bound(self.policy, self.log.action_space)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def following(self, piece: Chunk) -> Following:
        """Return the policy's actions in the next states of a chunk of the log."""
        if self.policy is None:
            every = np.arange(self.log.n_actions)
            return Following(None, np.broadcast_to(every, (len(piece), len(every))), None)
        own = slice(piece.first, piece.first + len(piece))
        rows = self.log.table_rows.next_rows[own]
        if self.log.is_discrete and self.acts.deterministic:
            chosen = self.acts.choose(piece.next_states, rows)
            return Following(chosen, chosen[:, None], None)
        return Following(None, *self._draws(piece.next_states, rows, 0, piece.first))

    def starts(self) -> tuple[FloatArray, IntArray | None]:
        """Return the initial states, (m, p), and their rows in the log's table, if known."""
        if self.initial_states is not None:
            return self.initial_states, self.initial_rows
        return self.log.first_states, self.log.first_rows

    def initial_points(self) -> Points:
        """Return weighted state-action pairs for the mean of Q over initial states and policy."""
        states, rows = self.starts()
        if self.log.is_discrete and self.acts.deterministic:
            chosen = self.acts.choose(states, rows)
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
        return self.acts.draws(states, count=self.draws, rng=rng, rows=rows)


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


_MOST = 8  # actions in a sentence


@dataclass(frozen=True, kw_only=True)
class PolicyOnLog:
    """A policy's actions in the states of a log.

    Attributes
    ----------
    shares
        The mean probability of each action, by its label; empty where actions are continuous.
    agreement
        The share of rows in which the policy takes the logged action; NaN where actions are continuous.
    rows
        Number of rows.
    effective_rows
        (Σw)² / Σw² of the rows' weights: the number of equally weighted rows with the same information.
        NaN for methods without row weights.
    """

    shares: dict[str, float] = field(default_factory=dict)
    agreement: float
    rows: int
    effective_rows: float

    def __str__(self) -> str:
        """Return a summary in words, with the most frequent actions."""
        taken = sorted(self.shares.items(), key=lambda each: -each[1])
        shown = [f"{name} {_percent(share)}" for name, share in taken if share > 0]
        if len(shown) > _MOST:
            shown = [*shown[:_MOST], f"{len(shown) - _MOST} others"]
        parts = [", ".join(shown)] if shown else []
        if not np.isnan(self.agreement):
            parts.append(f"agrees with the log in {_percent(self.agreement)} of rows")
        if not np.isnan(self.effective_rows):
            parts.append(f"{self.effective_rows:,.0f} effective rows of {self.rows:,}")
        return "; ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1g} %"


def on_log(
    space: ActionSpace,
    *,
    shares: FloatArray | None,
    agreement: float,
    rows: int,
    weights: FloatArray | None = None,
) -> PolicyOnLog:
    """Build a `PolicyOnLog` from mean probabilities of actions, (A,), and weights of rows, (n,)."""
    named = {}
    if isinstance(space, Discrete) and shares is not None:
        named = {space.label(action): float(share) for action, share in enumerate(shares)}
    return PolicyOnLog(
        shares=named,
        agreement=agreement if named else float("nan"),
        rows=rows,
        effective_rows=float("nan") if weights is None else effective_rows(weights),
    )


def summarise_policy(task: Task, weights: FloatArray | None = None) -> PolicyOnLog:
    """Evaluate the policy in the states of the log, in one pass, and summarise its actions."""
    log, n, shares, agreed = task.log, task.log.n_transitions, None, 0.0
    for part in log.parts if log.is_discrete else ():
        for piece in log.chunks(part):
            own = slice(piece.first, piece.first + len(piece))
            places = log.table_rows.rows[own]
            chances = task.acts.probabilities(piece.states, places)
            logged: IntArray = np.asarray(piece.actions, dtype=np.intp)
            shares = chances.sum(axis=0) / n + (0.0 if shares is None else shares)
            agreed += float(chances[np.arange(len(logged)), logged].sum()) / n
    found = on_log(log.action_space, shares=shares, agreement=agreed, rows=n, weights=weights)
    return without_copies(found, log, weights)


def without_copies(found: PolicyOnLog, log: Log, weights: FloatArray | None) -> PolicyOnLog:
    """Return the rows and effective rows of the table, where sample weights made copies of episodes."""
    if log.once is log:
        return found
    summed = None
    if weights is not None:
        _, place = np.unique(log.table_rows.rows, return_inverse=True)
        summed = np.bincount(place.ravel(), weights).astype(float)
    known = float("nan") if summed is None else effective_rows(summed)
    return replace(found, rows=log.once.n_transitions, effective_rows=known)


_DRAWS = 4  # sampled actions per state, if the policy can only be sampled


class PolicyActions(NamedTuple):
    """Weighted actions of the policy in some states: Σ_l weight_l f(s, a_l) = E_π f(s, ·)."""

    states: FloatArray  # (n, p)
    actions: AnyArray  # (n, L) or (n, L, q)
    weights: FloatArray  # (n, L), zero after a terminal transition
    agreement: FloatArray  # (n, L) probability that the policy takes (nearly) this action

    def take(self, rows: RowIndex) -> PolicyActions:
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
    log: Log  # the task's log, or a copy with columns for critics
    next: PolicyActions  # in the next states, (n, …)
    first: PolicyActions  # where episodes start, (m, …)
    agreement: FloatArray  # (n,) of the logged actions
    shares: FloatArray | None  # (A,) mean probability of each discrete action in the logged states

    @classmethod
    def of(cls, task: Task) -> Target:
        """Compute the policy's actions in the states of the task."""
        log = task.log
        agreement, places = _agreement_with(log), log.table_rows

        def act(states: FloatArray, rows: Any, stream: int) -> tuple[AnyArray, FloatArray]:
            rng = np.random.default_rng([task.seed, stream])
            return task.acts.draws(states, count=min(task.draws, _DRAWS), rng=rng, rows=rows)

        def actions(states: FloatArray, rows: Any, stream: int) -> PolicyActions:
            chosen, weights = act(states, rows, stream)
            return PolicyActions(states, chosen, weights, agreement(chosen, chosen, weights))

        after = actions(log.next_states, places.next_rows, 0)
        if log.terminated.any():
            after = after._replace(weights=after.weights * ~log.terminated[:, None])
        if log.is_discrete:
            shares = task.action_probabilities.mean(axis=0)
            here = task.action_probabilities[np.arange(log.n_transitions), log.actions]
        else:
            shares, here = (
                None,
                agreement(log.actions[:, None], *act(log.states, places.rows, 2))[:, 0],
            )
        return cls(task, log, after, actions(*task.starts(), 1), here, shares)

    def with_columns(self, columns: CriticColumns) -> Target:
        """Return a copy with columns for critics; the policy's actions stay the same."""
        if not columns:
            return self
        log, starts = columns.added_to(self.log), self.first.states
        empty = np.zeros((len(starts), log.states.shape[1] - starts.shape[1]))
        after = self.next._replace(states=log.next_states)
        first = self.first._replace(states=np.column_stack([starts, empty]))
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

    def split(self, seed: int, count: int) -> tuple[IntArray, IntArray]:
        """Split the groups of episodes; return the part of each episode, (E,), and start, (m,)."""
        part = rank_of_group(self.log, seed) % count
        m = len(self.first.states)
        return part, part if self.starts_with_episodes else np.arange(m) % count


def rank_of_group(log: Log, seed: int) -> IntArray:
    """Return the rank of each episode's group in a random order set by labels and seed, (E,)."""
    return split_groups(log, np.arange(log.n_groups), seed)


def some_groups(log: Log, rows: int, *, seed: int) -> Log:
    """Return random whole groups of episodes with about this many rows; the log if it has no more."""
    if log.n_transitions <= rows:
        return log
    place = rank_of_group(log, seed)
    order = np.argsort(place, kind="stable")
    enough = int(np.searchsorted(np.cumsum(log.lengths[order]), rows)) + 1
    last = place[order[min(enough, len(order)) - 1]]
    return log.take(np.flatnonzero(place <= last))


def _agreement_with(log: Log) -> Any:
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
