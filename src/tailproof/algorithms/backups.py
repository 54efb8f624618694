"""Bellman backups v(s') on rows of features, and fitted-Q iterations that use them.

θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γ v(s')) needs one pass over the data per iteration if v is not linear
in θ: with a maximum over actions, or an aggregate of the members.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailproof.algorithms.linear.huber import robust_scale
from tailproof.algorithms.linear.statistics import Design
from tailproof.algorithms.rows import Rows, Segment
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.partition import Folds
from tailproof.data.stored import AnyLog, action_counts
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import PartitionError
from tailproof.features import Features, PerAction

_TILE = 8192  # next states at a time, so that their K·A values fit in the cache

#: Maps rows and θ, (K, d), to pairs of a segment and v(s') in its rows, (m,).
Backup = Callable[[Rows, FloatArray], Iterator[tuple[Segment, FloatArray]]]


def logged_actions(log: AnyLog) -> IntArray:
    """Return the discrete actions that occur in the log: only these are ever backed up or chosen."""
    return np.flatnonzero(action_counts(log))


def require_actions(log: AnyLog, folds: Folds, features: Features) -> None:
    """Raise if actions have separate models and some fold lacks a logged action."""
    if not isinstance(features, PerAction):
        return
    taken = np.zeros((log.n_episodes, log.n_actions), dtype=bool)
    for part in log.parts:
        for chunk in log.chunks(part, with_next_states=False):
            taken[chunk.episode, chunk.actions] = True
    for action in logged_actions(log):
        seen = (folds.counts[:, taken[:, action]] > 0).any(axis=1)  # (K,)
        if not seen.all():
            label = log.action_space.label(int(action))  # type: ignore[union-attr]
            raise PartitionError(
                f"Fold {int(np.flatnonzero(~seen)[0])} of {folds.count} never takes action {label}, so "
                f"its critic knows nothing of it ({int(taken[:, action].sum())} of {log.n_episodes} "
                f"episodes take it). Use fewer folds, or features that the actions share."
            )


@dataclass(frozen=True)
class ExpectedBackup:
    """v(s') = E_π Q(s', ·), aggregated over the members before or after the expectation."""

    aggregate: Aggregate
    aggregate_first: bool = False

    def __call__(self, rows: Rows, theta: FloatArray) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield each segment and v(s') in its rows, (m,)."""
        finite = theta[np.isfinite(theta).all(axis=1)]
        if len(finite) == 0:
            shared = np.full(len(rows.rewards), np.nan)
        elif self.aggregate_first and rows.next_weights is not None:
            combined = self.aggregate(rows.after.values(finite))  # (L, m)
            shared = (combined * rows.next_weights).sum(axis=0)
        else:  # a deterministic policy needs the values of one action only
            shared = self.aggregate(rows.next_values(finite))
        return ((segment, shared[segment.rows]) for segment in rows.segments)


@dataclass(frozen=True)
class GreedyBackup:
    """v(s') = max_a Q(s', a) over `actions`, from the row's own member or the members' aggregate."""

    actions: IntArray
    aggregate: Aggregate | None = None  # None: each member backs up its own Q
    aggregate_first: bool = True  # before the maximum (the paper's box) or after it (its text)

    def __call__(self, rows: Rows, theta: FloatArray) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield each segment and v(s') in its rows, (m,)."""
        if self.aggregate is None:
            for segment in rows.segments:
                own = theta[segment.member : segment.member + 1]
                yield segment, self._values(rows, segment.rows, own)
        else:
            finite = theta[np.isfinite(theta).all(axis=1)]
            shared = self._values(rows, slice(0, len(rows.rewards)), finite)
            for segment in rows.segments:
                yield segment, shared[segment.rows]

    def choice(self, rows: Rows, segment: Segment, theta: FloatArray) -> IntArray:
        """Return the greedy action of the segment's member in each s', (m,)."""
        own = theta[segment.member : segment.member + 1]
        values = rows.after.take(segment.rows).values(own)[0, self.actions]
        return np.asarray(self.actions[values.argmax(axis=0)])

    def _values(self, rows: Rows, span: slice, theta: FloatArray) -> FloatArray:
        best = np.full(span.stop - span.start, np.nan)
        for first in range(0, len(best) if len(theta) else 0, _TILE):
            tile = slice(span.start + first, min(span.start + first + _TILE, span.stop))
            values = rows.after.take(tile).values(theta)  # (K, A, m)
            if self.aggregate is None:
                found = self._best(values[0])
            elif self.aggregate_first:
                found = self._best(self.aggregate(values))
            else:
                found = self.aggregate(self._best(values))
            best[first : first + _TILE] = found
        return best

    def _best(self, values: FloatArray) -> FloatArray:
        """Return the largest of the actions' values, from (…, A, m) to (…, m)."""
        best = values[..., self.actions[0], :]
        for action in self.actions[1:]:
            best = np.maximum(best, values[..., action, :])
        return best


def _backed_up(backup: Backup, theta: FloatArray, design: Design, part: Any) -> FloatArray:
    """Return Σφ v(s') of one part for each member, (K, d)."""
    total = np.zeros((design.folds.count, design.features.size))
    for rows in design.rows(part):
        for segment, values in backup(rows, theta):
            rows.add_moment(total, segment, values)
    return total


def iterate(
    design: Design,
    theta: FloatArray,
    *,
    matrix: FloatArray,
    moment: FloatArray,
    iterations: int,
    backup: Backup,
    huber: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return θ after the iterations, (K, d), and max|Δθ| of each member and iteration, (iterations, K).

    `matrix` and `moment` are Σφφᵀ + λI, (K, d, d), and Σφr, (K, d). The loss is squared, or Huber's
    with the threshold `huber` in robust standard deviations of the residuals.
    """
    inverse, gamma = np.linalg.inv(matrix), design.task.gamma
    history = np.zeros((iterations, len(theta)))
    excess: list[FloatArray] = []  # part of the residuals beyond the threshold, by segment
    for moved in history:
        if huber is None:
            passed = design.reduce(partial(_backed_up, backup, theta), operator.add)
            right = moment + gamma * passed
        else:
            right, targets = _huber_moments(design, theta, excess, backup)
        previous, theta = theta, (inverse @ right[..., None])[..., 0]
        if huber is not None:
            excess = _excess(design, theta, targets, huber)
        np.abs(theta - previous).max(axis=1, out=moved)
        if not moved.any():  # a fixed point: further iterations change nothing
            break
    return theta, history


def _huber_moments(
    design: Design, theta: FloatArray, excess: list[FloatArray], backup: Backup
) -> tuple[FloatArray, list[FloatArray]]:
    """Return Σφ(y − c) with Bellman targets y and shifts c, (K, d), and y of each segment.

    Σ Huber_τ(y − φᵀθ) is the smallest Σ (y − φᵀθ − c)²/2 + τΣ|c| over shifts c, one for each row. The
    best θ is the least-squares fit of y − c; the best c is the part of y − φᵀθ beyond ±τ. Every
    iteration updates both once; τ is `huber` times the `robust_scale` of the member's residuals.
    """
    targets: list[FloatArray] = []
    right = np.zeros_like(theta)
    for rows in design:
        for segment, values in backup(rows, theta):
            target = rows.rewards[segment.rows] + design.task.gamma * values
            shift = excess[len(targets)] if excess else 0.0
            rows.add_moment(right, segment, target - shift)
            targets.append(target)
    return right, targets


def _excess(
    design: Design, theta: FloatArray, targets: list[FloatArray], huber: float
) -> list[FloatArray]:
    """Return by how much each residual exceeds its threshold, by segment."""
    errors: list[tuple[int, FloatArray]] = []
    for rows in design:
        for segment in rows.segments:
            fitted = rows.values(segment, theta[segment.member])
            errors.append((segment.member, targets[len(errors)] - fitted))
    for k in range(len(theta)):
        own = [each for member, each in errors if member == k]
        limit = huber * robust_scale(np.concatenate(own))
        for each in own:
            each -= np.clip(each, -limit, limit)
    return [each for _, each in errors]
