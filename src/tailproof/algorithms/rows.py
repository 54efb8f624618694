"""Transitions in feature space, sorted so that sums over them are few small matrix products.

With one block of features for each action, φ(s, a) = e_a ⊗ ψ(s) is zero outside one block. Rows are
therefore sorted by member and action, and only ψ is computed: their Σφφᵀ is Σψψᵀ in one block.
Features without blocks are treated as a single block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.partition import Folds
from tailproof.data.view import Chunk
from tailproof.features import Blocks, Dense, Features, PerAction, at_actions


class Segment(NamedTuple):
    """Rows of one member whose features lie in one block."""

    member: int
    block: int
    rows: slice
    counts: FloatArray | None  # (m,) multiplicity of each row for the member; None for 1
    following: tuple[tuple[int, slice], ...]  # blocks of φ', and their rows in the segment

    def within(self, span: slice) -> slice:
        """Convert a slice within the segment to one of all rows."""
        return slice(self.rows.start + span.start, self.rows.start + span.stop)

    def weighed(self, values: FloatArray) -> FloatArray:
        """Return values of the segment's rows, (…, m), times their multiplicity."""
        return values if self.counts is None else values * self.counts


@dataclass(frozen=True)
class Rows:
    """A chunk of a log in feature space."""

    chunk: Chunk
    order: IntArray | None  # (m,) the chunk's row of each row here; None for the same order
    rewards: FloatArray  # (m,)
    inner: FloatArray  # (w, m) the block of φ(s, a) that is not zero
    n_blocks: int
    segments: tuple[Segment, ...]
    after: Any  # φ(s', ·) as Blocks or Dense, 0 where terminated; None without `with_next_states`
    chosen: IntArray | None  # (m,) a deterministic policy's action in s'
    next_weights: FloatArray | None  # (L, m) π(·|s') of a stochastic one; None without a policy

    def block(self, number: int) -> slice:
        """Return the positions of a block's features."""
        return slice(number * len(self.inner), (number + 1) * len(self.inner))

    @cached_property
    def next_inner(self) -> FloatArray:
        """ψ(s') for features in blocks, else φ' = Σ_a π(a|s') φ(s', a), (w, m)."""
        if isinstance(self.after, Blocks):
            return np.asarray(self.after.psi.T)
        if self.next_weights is not None:
            return np.asarray(self.after.mix(self.next_weights.T).T)
        return np.asarray(self.after.phi[:, 0].T)

    def following(self, block: int, rows: Any) -> FloatArray:
        """Return the part of φ' in one block, for rows where it may lie there, (w, m)."""
        inner: FloatArray = self.next_inner[:, rows]
        if self.n_blocks > 1 and self.next_weights is not None:
            return np.asarray(inner * self.next_weights[block, rows])
        return inner

    def values(self, segment: Segment, theta: FloatArray) -> FloatArray:
        """Return φᵀθ in the rows of a segment, (…, m), for θ of shape (…, d)."""
        return np.asarray(theta[..., self.block(segment.block)] @ self.inner[:, segment.rows])

    def add_moment(self, total: FloatArray, segment: Segment, values: FloatArray) -> None:
        """Add Σφv over the rows of a segment to the total of its member, (K, d)."""
        weighed = self.inner[:, segment.rows] @ segment.weighed(values)
        total[segment.member, self.block(segment.block)] += weighed

    def next_values(self, theta: FloatArray, rows: Any = slice(None)) -> FloatArray:
        """Return φ'ᵀθ in some rows, (…, m), for θ of shape (…, d)."""
        inner = self.next_inner[:, rows]
        if self.n_blocks == 1:
            return np.asarray(theta @ inner)
        values = np.zeros((*theta.shape[:-1], inner.shape[1]))
        for number in range(self.n_blocks):
            own = theta[..., self.block(number)] @ inner
            if self.next_weights is not None:
                values += own * self.next_weights[number, rows]
            elif self.chosen is not None:
                np.copyto(values, own, where=self.chosen[rows] == number)
        return values


@dataclass(frozen=True)
class Dealing:
    """The members of each episode, in the form that `arrange` needs."""

    members: int
    fold_of_episode: IntArray | None  # (E,) −1 for none; None if one member has all episodes
    counts: IntArray | None  # (K, E), where members share episodes

    @classmethod
    def of(cls, folds: Folds) -> Dealing:
        """Convert folds to this form."""
        if folds.count == 1 and (folds.counts == 1).all():
            return cls(1, None, None)
        if folds.are_disjoint:
            return cls(folds.count, folds.fold_of_episode().astype(np.int16), None)
        return cls(folds.count, None, folds.counts)


def arrange(
    chunk: Chunk, task: Task, features: Features, dealing: Dealing, *, with_next_states: bool = True
) -> Rows:
    """Return a chunk of a log in feature space, with next states if `with_next_states`."""
    n_blocks = features.n_actions if isinstance(features, PerAction) else 1
    following, every, weights = task.following(chunk) if with_next_states else (None, None, None)
    keys: list[tuple[AnyArray, int]] = []
    groups = 1
    if dealing.fold_of_episode is not None:
        groups = dealing.members
        keys.append((dealing.fold_of_episode.take(chunk.episode), groups))
    if chunk.kept is not None:  # rows that are no transitions belong to no member
        member = keys[0][0] if keys else np.zeros(len(chunk), dtype=np.int16)
        nobody = np.full(len(chunk), -1, dtype=np.int16)
        nobody[chunk.kept] = member[chunk.kept]
        keys[:1] = [(nobody, groups)]
    if n_blocks > 1:
        keys.append((chunk.actions, n_blocks))
        if following is not None:
            keys.append((following, n_blocks))
    order, borders = _sorted(keys, len(chunk))
    borders = borders.reshape(groups, n_blocks, -1, 2)
    towards = range(n_blocks if with_next_states and task.policy is not None else 0)
    if dealing.counts is None:
        segments = _dealt(borders, towards)
    else:
        segments = _shared(borders, towards, dealing.counts[:, _take(chunk.episode, order)])
    ends = chunk.terminated if with_next_states and chunk.terminated.any() else None
    terminated = None if ends is None else _take(ends, order)
    states = _take(chunk.states, order)
    if isinstance(features, PerAction):
        inner = features.state_features(states)
    else:
        inner = features(states, _take(chunk.actions, order))
    after: Blocks | Dense | None = None
    if with_next_states:
        after = at_actions(features, _take(chunk.next_states, order), _take(every, order))
        after = _without(after, terminated)
    return Rows(
        chunk=chunk,
        order=order,
        rewards=_take(chunk.rewards, order).astype(float, copy=False),
        inner=inner.T,
        n_blocks=n_blocks,
        segments=tuple(segments),
        after=after,
        chosen=None if following is None else _take(following, order),
        next_weights=None if weights is None else _take(weights, order).T,
    )


def _sorted(keys: list[tuple[AnyArray, int]], m: int) -> tuple[IntArray | None, IntArray]:
    """Return the sorting order by keys in 0..size−1, and the range of each combination in it.

    Rows with a negative first key come before all combinations. Without keys the order is None.
    """
    if not keys:
        return None, np.array([[0, m]])
    combinations = int(np.prod([size for _, size in keys]))
    # small integers, because numpy sorts those in linear time
    kind: Any = np.int8 if combinations < 2**7 else np.int16 if combinations < 2**15 else np.int64
    code: Any = keys[0][0].astype(kind)
    for values, size in keys[1:]:
        code = code * kind(size) + values.astype(kind)
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code, np.arange(combinations + 1, dtype=kind), sorter=order)
    return order, np.column_stack([edges[:-1], edges[1:]])


def _take(values: Any, order: IntArray | None) -> Any:
    """Return rows in another order, fast for either memory layout."""
    if order is None:
        return values
    if values.ndim == 2 and not values.flags.c_contiguous:
        return values.T.take(order, axis=1).T
    return values.take(order, axis=0)


def _without(after: Blocks | Dense, terminated: BoolArray | None) -> Blocks | Dense:
    """Return φ(s', ·) with zeros after terminal transitions."""
    if terminated is None:
        return after
    if isinstance(after, Blocks):
        return Blocks(np.where(terminated, 0.0, after.psi.T).T)
    return Dense(np.where(terminated[:, None, None], 0.0, after.phi))


def _dealt(borders: IntArray, towards: range) -> Iterator[Segment]:
    """Yield the segments if every row has one member; borders are (K, blocks, next blocks, 2)."""
    for member, of_member in enumerate(borders.tolist()):
        for block, spans in enumerate(of_member):
            first, last = spans[0][0], spans[-1][1]
            if first == last:
                continue
            if len(spans) == 1:
                spans = [(first, last) for _ in towards]
            following = tuple(
                (number, slice(start - first, stop - first))
                for number, (start, stop) in enumerate(spans)
                if start < stop
            )
            yield Segment(member, block, slice(first, last), None, following)


def _shared(borders: IntArray, towards: range, counts: IntArray) -> Iterator[Segment]:
    """Yield the segments if members share rows; `counts`, (K, m), are the multiplicities."""
    for segment in _dealt(borders, towards):
        for member, times in enumerate(counts[:, segment.rows]):
            yield segment._replace(member=member, counts=times.astype(float))
