"""A log laid out for learning: Q at every next state from θ, and Σφv from v, as fast as memory allows.

Learning passes over the data in every iteration, because max_a Q(s', a) is not linear in θ. A sweep
therefore keeps the rows of one member and one action together: with one block of features for each
action, Q(s', ·) is then one matrix product and Σφv one product for each block, without the zeros.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, reduce
from typing import Any, Protocol, TypeVar

import numpy as np

from tailproof.algorithms.linear.statistics import Statistics
from tailproof.algorithms.rows import Dealing
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.partition import Folds
from tailproof.data.view import Chunk
from tailproof.features import Features, PerAction, at_actions

T = TypeVar("T")
_KEPT = 1 << 29  # bytes of feature rows worth keeping between passes

#: A member and its rows.
Span = tuple[int, slice]
#: A member, an action and their rows.
Block = tuple[int, int, slice]


class Sweep(Protocol):
    """Some transitions of K members in feature space.

    What belongs to the rows is (m,) where every row has one member, and (K, m) where members share
    rows; a row that a member does not see then weighs nothing in `moments`, `gram` and `cross`.
    """

    @property
    def rewards(self) -> FloatArray:
        """The logged rewards, (m,)."""

    @property
    def alive(self) -> FloatArray | None:
        """Zero where terminated and one elsewhere, (m,); None where nothing is terminated."""

    @property
    def spans(self) -> tuple[Span, ...] | None:
        """The rows of each member; None where members share rows."""

    def counts(self) -> FloatArray:
        """Return the number of rows of every member, (K,)."""

    def ahead(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return Q(s', a) at some rows for each θ, (K, A, m)."""

    def fitted(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) of the rows' own members, (m,) or (K, m)."""

    def moments(self, values: FloatArray) -> FloatArray:
        """Return Σφv of every member, (K, d)."""

    def gram(self) -> FloatArray:
        """Return Σφφᵀ of every member, (K, d, d)."""

    def cross(self, chosen: IntArray) -> FloatArray:
        """Return Σφ(s, a)φ(s', chosen)ᵀ of every member, zero where terminated, (K, d, d)."""


@dataclass(frozen=True)
class BlockSweep:
    """Rows under `PerAction` features, held as ψ(s) and ψ(s') and ordered by member and action."""

    psi: FloatArray  # (p, m)
    after: FloatArray  # (p, m)
    rewards: FloatArray
    alive: FloatArray | None
    n_actions: int
    members: int
    blocks: tuple[Block, ...]  # where members share rows, the member is 0
    weights: FloatArray | None  # (K, m), how often each member sees each row, where they share rows

    @cached_property
    def spans(self) -> tuple[Span, ...] | None:
        """The rows of each member; None where members share rows."""
        if self.weights is not None:
            return None
        found: dict[int, slice] = {}
        for member, _, rows in self.blocks:
            first = found[member].start if member in found else rows.start
            found[member] = slice(first, rows.stop)
        return tuple(found.items())

    def counts(self) -> FloatArray:
        """Return the number of rows of every member, (K,)."""
        return _counts(self.members, self.spans, self.weights)

    def ahead(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return Q(s', a) at some rows for each θ, (K, A, m)."""
        values: FloatArray = theta.reshape(-1, len(self.after)) @ self.after[:, rows]
        return values.reshape(len(theta), self.n_actions, -1)

    def fitted(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) of the rows' own members, (m,) or (K, m)."""
        blocks = theta.reshape(len(theta), self.n_actions, -1)  # (K, A, p)
        if self.weights is None:
            values = np.empty(self.psi.shape[1])
            for member, action, rows in self.blocks:
                np.matmul(blocks[member, action], self.psi[:, rows], out=values[rows])
            return values
        shared = np.empty((len(theta), self.psi.shape[1]))
        for _, action, rows in self.blocks:
            shared[:, rows] = blocks[:, action] @ self.psi[:, rows]
        return shared

    def moments(self, values: FloatArray) -> FloatArray:
        """Return Σφv of every member, (K, d)."""
        total = np.zeros((self.members, self.n_actions, len(self.psi)))
        for member, action, rows in self.blocks:
            if self.weights is None:
                np.matmul(self.psi[:, rows], values[rows], out=total[member, action])
            else:
                total[:, action] = (values[..., rows] * self.weights[:, rows]) @ self.psi[:, rows].T
        return total.reshape(self.members, -1)

    def gram(self) -> FloatArray:
        """Return Σφφᵀ of every member, (K, d, d)."""
        p = len(self.psi)
        total = np.zeros((self.members, self.n_actions, p, self.n_actions, p))
        for k, action, rows, weight in self._weighted():
            psi = self.psi[:, rows]
            total[k, action, :, action] = (psi if weight is None else psi * weight) @ psi.T
        return total.reshape(self.members, self.n_actions * p, self.n_actions * p)

    def cross(self, chosen: IntArray) -> FloatArray:
        """Return Σφ(s, a)φ(s', chosen)ᵀ of every member, zero where terminated, (K, d, d)."""
        p = len(self.psi)
        total = np.zeros((self.members, self.n_actions, p, self.n_actions, p))
        for k, action, rows, weight in self._weighted():
            taken = chosen[rows] if self.weights is None else chosen[k, rows]
            living = 1.0 if self.alive is None else self.alive[rows]
            for following in np.unique(taken):
                kept = (taken == following) * living * (1.0 if weight is None else weight)
                total[k, action, :, following] = (self.psi[:, rows] * kept) @ self.after[:, rows].T
        return total.reshape(self.members, self.n_actions * p, self.n_actions * p)

    def _weighted(self) -> Iterator[tuple[int, int, slice, FloatArray | None]]:
        for member, action, rows in self.blocks:
            if self.weights is None:
                yield member, action, rows, None
            else:
                for k in range(self.members):
                    yield k, action, rows, self.weights[k, rows]


@dataclass(frozen=True)
class DenseSweep:
    """Rows under any other features, held in full and ordered by member."""

    phi: FloatArray  # (m, d)
    after: FloatArray  # (m, A, d)
    rewards: FloatArray
    alive: FloatArray | None
    members: int
    spans: tuple[Span, ...] | None
    weights: FloatArray | None  # (K, m), where members share rows

    def counts(self) -> FloatArray:
        """Return the number of rows of every member, (K,)."""
        return _counts(self.members, self.spans, self.weights)

    def ahead(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return Q(s', a) at some rows for each θ, (K, A, m)."""
        after = self.after[rows]
        m, count, d = after.shape
        values: FloatArray = theta @ after.reshape(m * count, d).T  # (K, m·A)
        return values.reshape(len(theta), m, count).swapaxes(1, 2)

    def fitted(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) of the rows' own members, (m,) or (K, m)."""
        if self.spans is None:
            shared: FloatArray = theta @ self.phi.T
            return shared
        values = np.empty(len(self.phi))
        for member, rows in self.spans:
            np.matmul(self.phi[rows], theta[member], out=values[rows])
        return values

    def moments(self, values: FloatArray) -> FloatArray:
        """Return Σφv of every member, (K, d)."""
        if self.weights is not None:
            shared: FloatArray = (values * self.weights) @ self.phi
            return shared
        total = np.zeros((self.members, self.phi.shape[1]))
        for member, rows in self.spans or ():
            total[member] = values[rows] @ self.phi[rows]
        return total

    def gram(self) -> FloatArray:
        """Return Σφφᵀ of every member, (K, d, d)."""
        total = np.zeros((self.members, self.phi.shape[1], self.phi.shape[1]))
        for k, rows, before in self._weighted():
            total[k] = before.T @ self.phi[rows]
        return total

    def cross(self, chosen: IntArray) -> FloatArray:
        """Return Σφ(s, a)φ(s', chosen)ᵀ of every member, zero where terminated, (K, d, d)."""
        total = np.zeros((self.members, self.phi.shape[1], self.phi.shape[1]))
        for k, rows, before in self._weighted():
            taken = chosen[rows] if self.spans is not None else chosen[k]
            following = self.after[rows][np.arange(len(taken)), taken]  # (m, d)
            living = 1.0 if self.alive is None else self.alive[rows, None]
            total[k] = before.T @ (following * living)
        return total

    def _weighted(self) -> Iterator[tuple[int, slice, FloatArray]]:
        if self.weights is None:
            for member, rows in self.spans or ():
                yield member, rows, self.phi[rows]
        else:
            for k in range(self.members):
                yield k, slice(None), self.phi * self.weights[k, :, None]


@dataclass(frozen=True)
class Sweeps:
    """All transitions of a task: one sweep that is kept, or many that are made anew in each pass."""

    task: Task
    features: Features
    folds: Folds

    def __iter__(self) -> Iterator[Sweep]:
        if self._fits:
            return iter((self._whole,))
        return (sweep for part in self.task.log.parts for sweep in self.made(part))

    def made(self, part: Any) -> Iterator[Sweep]:
        """Yield the sweeps of one part of the log."""
        log = self.task.log
        for chunk in log.chunks(part):
            yield sweep_of(chunk, self.features, self._dealing, log.n_actions)

    def total(self, function: Callable[[Sweep], T]) -> T:
        """Return the sum of what a function finds in all sweeps.

        The task's engine decides where that runs, so the function must carry all it needs with it.
        """
        if self._fits:
            return function(self._whole)
        found: T = self.task.engine.map_reduce(
            partial(_found, function), self.task.log.parts, operator.add, shared=self._portable
        )
        return found

    def statistics(self) -> Statistics:
        """Return Σφφᵀ, Σφr and the number of rows of every member; Σφφ'ᵀ waits for a policy."""
        found = self.total(_statistics)
        return replace(found, cross=np.zeros_like(found.gram))

    @property
    def _fits(self) -> bool:
        log = self.task.log
        size = 8 * log.n_transitions * self.features.size * (1 + log.n_actions)
        if log.stays_on_disk and size + log.bytes_in_memory > log.memory_budget:
            return False
        return bool(size <= _KEPT)

    @cached_property
    def _whole(self) -> Sweep:
        log = self.task.log.load()
        chunk = next(log.chunks(range(log.n_transitions), log.n_transitions))
        return sweep_of(chunk, self.features, self._dealing, log.n_actions)

    @cached_property
    def _dealing(self) -> Dealing:
        return Dealing.of(self.folds)

    @cached_property
    def _portable(self) -> Sweeps:
        """The same without the parts, which workers are sent one by one."""
        log = self.task.log.without_parts()
        return self if log is self.task.log else replace(self, task=replace(self.task, log=log))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _found(function: Callable[[Sweep], T], sweeps: Sweeps, part: Any) -> T:
    found: T = reduce(operator.add, map(function, sweeps.made(part)))
    return found


def _statistics(sweep: Sweep) -> Statistics:
    moment = sweep.moments(sweep.rewards)
    return Statistics(sweep.gram(), np.zeros(()), moment, sweep.counts())


def sweep_of(chunk: Chunk, features: Features, dealing: Dealing, n_actions: int) -> Sweep:
    """Lay out some rows of a log, ordered by member and action."""
    shared = dealing.counts is not None
    code = chunk.actions
    if dealing.fold_of_episode is not None:
        member = dealing.fold_of_episode[chunk.episode].astype(np.intp)
        code = np.where(member < 0, -1, member * n_actions + chunk.actions)
    # Short integers are sorted in linear time.
    short = code.astype(np.int16) if dealing.members * n_actions < 1 << 15 else code
    order = np.argsort(short, kind="stable")[int((code < 0).sum()) :]
    code = code[order]
    dead = chunk.terminated[order]
    common: dict[str, Any] = {
        "rewards": chunk.rewards[order].astype(float, copy=False),
        "alive": (~dead).astype(float) if dead.any() else None,
        "members": dealing.members,
        "weights": None
        if dealing.counts is None
        else dealing.counts[:, chunk.episode[order]] * 1.0,
    }
    states, next_states = chunk.states[order], chunk.next_states[order]
    if isinstance(features, PerAction):
        return BlockSweep(
            psi=np.ascontiguousarray(features.state_features(states).T),
            after=np.ascontiguousarray(features.state_features(next_states).T),
            n_actions=n_actions,
            blocks=tuple((at // n_actions, at % n_actions, place) for at, place in _runs(code)),
            **common,
        )
    every: AnyArray = np.broadcast_to(np.arange(n_actions), (len(order), n_actions))
    after: Any = at_actions(features, next_states, every)
    return DenseSweep(
        phi=features(states, chunk.actions[order]),
        after=after.phi,
        spans=None if shared else tuple(_runs(code // n_actions)),
        **common,
    )


def _runs(code: IntArray) -> Iterator[Span]:
    """Return each value of an ordered array, and where it stands."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(code)) + 1, [len(code)]])
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if first < last:
            yield int(code[first]), slice(first, last)


def _counts(members: int, spans: tuple[Span, ...] | None, weights: FloatArray | None) -> FloatArray:
    if weights is not None:
        return np.asarray(weights.sum(axis=1))
    total = np.zeros(members)
    for member, rows in spans or ():
        total[member] = rows.stop - rows.start
    return total
