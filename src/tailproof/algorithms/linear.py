"""The linear algorithms' common ground: a log as chunks of feature rows, and additive statistics.

`accumulate` turns a chunk into `Statistics` for each fold, statistics add up, and every linear
algorithm is a small solve with them. The data are passed once; memory grows with d², not with n.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.errors import MethodError, SingularError, SingularWarning
from tailproof.features import Blocks, Dense, Features, at_actions
from tailproof.partition import Folds

CHUNK = 16_384  # rows: small enough for the feature matrix to stay in cache, large enough for BLAS
_KEPT = 1 << 29  # bytes of feature rows worth keeping between passes


@dataclass(frozen=True)
class Absolute:
    """A ridge penalty λ whatever the number of rows: the paper's own."""

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return np.full(len(count), float(self.value))


@dataclass(frozen=True)
class PerObservation:
    """A ridge penalty λ = value · n: a fold and the whole log are regularised alike."""

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return self.value * np.asarray(count, dtype=float)


Ridge = Absolute | PerObservation


def as_ridge(ridge: Any) -> Ridge:
    """Return a number as a penalty per observation; refuse anything that is not a penalty."""
    penalty = ridge if isinstance(ridge, Absolute | PerObservation) else None
    if isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool):
        penalty = PerObservation(float(ridge))
    if penalty is None or not (np.isfinite(penalty.value) and penalty.value >= 0):
        raise MethodError(
            f"ridge must be a number of at least 0 (per observation), Absolute(number) or 'cv'. "
            f"Got {ridge!r} instead."
        )
    return penalty


@dataclass(frozen=True)
class Rows:
    """A chunk of transitions in feature space; rows of one fold stand together."""

    index: Any  # the rows' places in the log: a slice or (m,) integers
    phi: FloatArray  # (m, d) φ(s, a)
    after: Blocks | Dense  # φ(s', ·)
    after_weights: FloatArray | None  # (m, L) π at s', zero where terminated; None without a policy
    alive: FloatArray  # (m,) zero where terminated
    rewards: FloatArray  # (m,)
    segments: tuple[tuple[int, Any, FloatArray | None], ...]  # member, its rows, their counts

    @cached_property
    def next_phi(self) -> FloatArray:
        """φ'_i = Σ_a π(a|s'_i) φ(s'_i, a), zero where terminated, (m, d)."""
        assert self.after_weights is not None
        return self.after.mix(self.after_weights)


@dataclass(frozen=True)
class Design:
    """A task in feature space, dealt to K members, as an iterable of chunks.

    Algorithms that pass over the data more than once ask to `keep` the chunks; large ones are made
    anew all the same.
    """

    task: Task
    features: Features
    folds: Folds
    keep: bool = False

    @cached_property
    def _fold_of_episode(self) -> IntArray | None:
        return self.folds.fold_of_episode().astype(np.int16) if self.folds.are_disjoint else None

    @cached_property
    def _kept(self) -> list[Rows]:
        return list(self._make())

    def __iter__(self) -> Iterator[Rows]:
        if self.keep and 32 * self.task.log.n_transitions * self.features.size <= _KEPT:
            return iter(self._kept)
        return self._make()

    def _make(self) -> Iterator[Rows]:
        for first in range(0, self.task.log.n_transitions, CHUNK):
            yield self._rows(first, min(first + CHUNK, self.task.log.n_transitions))

    def _rows(self, first: int, last: int) -> Rows:
        log = self.task.log
        index: Any = slice(first, last)
        segments: list[tuple[int, Any, FloatArray | None]]
        episode = log.episode_of_row[index]
        if self.folds.count == 1 and (self.folds.counts == 1).all():
            segments = [(0, slice(None), None)]
        elif self._fold_of_episode is not None:
            fold = self._fold_of_episode[episode]
            order = np.argsort(fold, kind="stable")
            borders = np.searchsorted(fold, np.arange(self.folds.count + 1), sorter=order)
            index = first + order
            segments = [
                (k, slice(borders[k], borders[k + 1]), None) for k in range(self.folds.count)
            ]
        else:
            counts = self.folds.counts[:, episode]  # (K, m)
            segments = []
            for k, seen in enumerate(counts):
                rows = np.flatnonzero(seen)
                segments.append((k, rows, seen[rows].astype(float)))
        states, actions = log.states[index], log.actions[index]
        alive = (~log.terminated[index]).astype(float)
        weights: FloatArray | None = None
        if self.task.policy is None:
            every: AnyArray = np.broadcast_to(np.arange(log.n_actions), (len(alive), log.n_actions))
        else:
            every, weights = self.task.next_actions(index)
            weights = weights * alive[:, None]
        return Rows(
            index=index,
            phi=self.features(states, actions),
            after=at_actions(self.features, log.next_states[index], every),
            after_weights=weights,
            alive=alive,
            rewards=log.rewards[index].astype(float, copy=False),
            segments=tuple(segments),
        )


@dataclass(frozen=True)
class Statistics:
    """Σφφᵀ, Σφφ'ᵀ, Σφr and the number of rows, for each member; they add up over chunks."""

    gram: FloatArray  # (K, d, d)
    cross: FloatArray  # (K, d, d)
    moment: FloatArray  # (K, d)
    count: FloatArray  # (K,)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.moment + other.moment,
            self.count + other.count,
        )


def accumulate(rows: Rows, members: int) -> Statistics:
    """Return the statistics of one chunk; without a policy there is no φ' and `cross` is zero."""
    d = rows.phi.shape[1]
    gram, cross = np.zeros((members, d, d)), np.zeros((members, d, d))
    moment, count = np.zeros((members, d)), np.zeros(members)
    for k, chosen, weight in rows.segments:
        phi = rows.phi[chosen]
        weighted = phi if weight is None else phi * weight[:, None]
        gram[k] = weighted.T @ phi
        if rows.after_weights is not None:
            cross[k] = weighted.T @ rows.next_phi[chosen]
        moment[k] = weighted.T @ rows.rewards[chosen]
        count[k] = len(phi) if weight is None else weight.sum()
    return Statistics(gram, cross, moment, count)


def statistics(design: Design) -> Statistics:
    """Return the statistics of all chunks, in one pass."""
    chunks = iter(design)
    total = accumulate(next(chunks), design.folds.count)
    for rows in chunks:
        total = total + accumulate(rows, design.folds.count)
    return total


def regularised(design: Design, stats: Statistics, penalty: FloatArray) -> FloatArray:
    """Return Σφφᵀ + λI, (K, d, d), or say that it cannot be inverted.

    A rank-deficient Gram matrix without a ridge is a `SingularError`; with one, it is a
    `SingularWarning` if the policy goes where features are missing, because the ridge alone then
    decides about it.
    """
    gram, d = stats.gram, stats.gram.shape[-1]
    spectrum = np.linalg.eigvalsh(gram)  # (K, d) ascending
    ranks = (spectrum > 1e-13 * np.maximum(spectrum[:, -1:], 1e-300)).sum(axis=1)
    if (ranks < d).any():
        worst = int(ranks.argmin())
        found = (
            f"The feature matrix of fold {worst} has rank {ranks[worst]} of {d}: some features are "
            f"constant, repeated, or belong to an action that the fold never takes."
        )
        if penalty[worst] == 0:
            raise SingularError(f"{found} Use a positive ridge, or drop those features.")
        if _goes_beyond(design, stats, worst, d - int(ranks[worst])):
            warnings.warn(
                f"{found} The ridge decides about them: it sets their weights to zero.",
                SingularWarning,
                stacklevel=2,
            )
    return gram + penalty[:, None, None] * np.eye(d)


def _goes_beyond(design: Design, stats: Statistics, fold: int, missing: int) -> bool:
    """Return whether the policy's features have a part that the fold's own features lack."""
    if design.task.policy is None:  # a greedy policy may go anywhere
        return True
    null = np.linalg.eigh(stats.gram[fold])[1][:, :missing]  # (d, missing)
    points = design.task.initial_points()
    start = design.features(points.states, points.actions)
    later = stats.cross[fold].T @ null / stats.count[fold]
    return bool(max(np.abs(start @ null).max(), np.abs(later).max()) > 1e-6)


def solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return matrix⁻¹ right for each member, NaN for a member whose system is singular."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        solution = np.full(right.shape, np.nan)
        for k, (one, vector) in enumerate(zip(matrix, right, strict=True)):
            if np.linalg.matrix_rank(one) == len(one):
                solution[k] = np.linalg.solve(one, vector)
        return solution
