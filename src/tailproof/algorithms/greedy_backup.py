"""Fitted Q-iteration's loop: θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γ max_a Q(s', a)), for K members at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tailproof.algorithms.linear.huber import robust_scale
from tailproof.algorithms.linear.sweeps import Span, Sweep, Sweeps
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.partition import Folds
from tailproof.data.stored import AnyLog, action_counts
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import PartitionError
from tailproof.features import Features, PerAction

_TILE = 8192  # next states whose K·A values stay in the cache while they are sorted


def logged_actions(log: AnyLog) -> IntArray:
    """Return the discrete actions that occur in the log: only these are ever backed up or chosen."""
    return np.flatnonzero(action_counts(log))


def require_actions(log: AnyLog, folds: Folds, features: Features) -> None:
    """Refuse a fold that never takes a logged action, if each action has a model of its own."""
    if not isinstance(features, PerAction):
        return
    taken = np.zeros((log.n_episodes, log.n_actions), dtype=bool)
    for part in log.parts:
        for chunk in log.chunks(part, ahead=False):
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
class GreedyBackup:
    """v(s') = max_a Q(s', a) over some actions, of the row's own member or of all members' aggregate.

    Parameters
    ----------
    actions
        The actions over which the maximum is taken.
    aggregate
        What combines the members in the target; None leaves each to itself.
    aggregate_first
        Whether the aggregate comes before the maximum (the paper's box) or after it (its text).
    """

    actions: IntArray
    aggregate: Aggregate | None = None
    aggregate_first: bool = True

    def __call__(self, sweep: Sweep, theta: FloatArray) -> FloatArray:
        """Return v(s'), zero where terminated, (m,); (K, m) for lone members that share rows."""
        if self.aggregate is None:
            best: FloatArray = np.empty(_shape(sweep, theta))
            for rows, values in _own_values(sweep, theta):
                best[..., rows] = self._best(values)
        else:
            best = self._combined(sweep, theta[np.isfinite(theta).all(axis=1)])
        if sweep.alive is not None:
            best *= sweep.alive
        return best

    def choice(self, sweep: Sweep, theta: FloatArray) -> IntArray:
        """Return the action that each row's own member would take in s', (m,) or (K, m)."""
        chosen = np.empty(_shape(sweep, theta), dtype=np.intp)
        for rows, values in _own_values(sweep, theta):
            chosen[..., rows] = self.actions[values[..., self.actions, :].argmax(axis=-2)]
        return chosen

    def _combined(self, sweep: Sweep, theta: FloatArray) -> FloatArray:
        assert self.aggregate is not None
        best = np.full(len(sweep.rewards), np.nan)
        if len(theta):
            for _, rows in _tiles([(0, slice(0, len(best)))]):
                values = sweep.ahead(theta, rows)  # (K, A, m)
                best[rows] = (
                    self._best(self.aggregate(values))
                    if self.aggregate_first
                    else self.aggregate(self._best(values))
                )
        return best

    def _best(self, values: FloatArray) -> FloatArray:
        """Return the largest of the actions' values, from (…, A, m) to (…, m)."""
        best = values[..., self.actions[0], :]
        for action in self.actions[1:]:
            best = np.maximum(best, values[..., action, :])
        return best


def _backed_up(backup: GreedyBackup, theta: FloatArray, sweep: Sweep) -> FloatArray:
    """Return Σφ v(s') of every member, (K, d)."""
    return sweep.moments(backup(sweep, theta))


def iterate_greedy(
    sweeps: Sweeps,
    theta: FloatArray,
    *,
    inverse: FloatArray,
    moment: FloatArray,
    gamma: float,
    iterations: int,
    backup: GreedyBackup,
    huber: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return θ after some iterations, (K, d), and how far each member moved in each, (iterations, K).

    Parameters
    ----------
    theta
        Where to start.
    inverse, moment
        (Σφφᵀ + λI)⁻¹, (K, d, d), and Σφr, (K, d).
    huber
        Threshold of Huber's loss, in robust standard deviations of the residuals; none: squared loss.
    """
    history = np.zeros((iterations, len(theta)))
    excess: list[FloatArray] = []  # of outliers, by sweep
    for moved in history:
        previous = theta
        if huber is None:
            right = moment + gamma * sweeps.total(partial(_backed_up, backup, theta))
            theta = (inverse @ right[..., None])[..., 0]
        else:
            theta, excess = _huber_step(sweeps, theta, excess, inverse, gamma, backup, huber)
        np.abs(theta - previous).max(axis=1, out=moved)
        if not moved.any():  # a fixed point: further iterations change nothing
            break
    return theta, history


def _shape(sweep: Sweep, theta: FloatArray) -> tuple[int, ...]:
    m = len(sweep.rewards)
    return (len(theta), m) if sweep.spans is None else (m,)


def _own_values(sweep: Sweep, theta: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Return some rows and Q_k(s', ·) of their own members there, (A, m) or (K, A, m), in turn."""
    if sweep.spans is None:
        for _, rows in _tiles([(0, slice(0, len(sweep.rewards)))]):
            yield rows, sweep.ahead(theta, rows)
    else:
        for member, rows in _tiles(sweep.spans):
            yield rows, sweep.ahead(theta[member : member + 1], rows)[0]


def _tiles(spans: Iterable[Span]) -> Iterator[Span]:
    for member, rows in spans:
        for first in range(rows.start, rows.stop, _TILE):
            yield member, slice(first, min(first + _TILE, rows.stop))


def _huber_step(
    sweeps: Iterable[Sweep],
    theta: FloatArray,
    excess: list[FloatArray],
    inverse: FloatArray,
    gamma: float,
    backup: GreedyBackup,
    huber: float,
) -> tuple[FloatArray, list[FloatArray]]:
    """Return the next θ by Huber's loss, and by how much each residual exceeds its threshold.

    Σ Huber_τ(y − φᵀθ) is the smallest Σ (y − φᵀθ − c)²/2 + τΣ|c| over shifts c, one for each row. The
    best θ is the least-squares fit of y − c, the best c what of y − φᵀθ exceeds ±τ. Every iteration
    takes one turn of both; τ is `huber` times the `robust_scale` of the member's residuals.
    """
    targets = []
    right = np.zeros_like(theta)
    for place, sweep in enumerate(sweeps):
        targets.append(sweep.rewards + gamma * backup(sweep, theta))
        right += sweep.moments(targets[-1] - excess[place] if excess else targets[-1])
    theta = (inverse @ right[..., None])[..., 0]
    errors = [target - sweep.fitted(theta) for sweep, target in zip(sweeps, targets, strict=True)]
    for k in range(len(theta)):
        own = [
            rows
            for sweep, error in zip(sweeps, errors, strict=True)
            for rows in _rows_of(sweep, k, error)
        ]
        limit = huber * robust_scale(np.concatenate(own))
        for rows in own:
            rows -= np.clip(rows, -limit, limit)
    return theta, errors


def _rows_of(sweep: Sweep, member: int, values: FloatArray) -> Iterator[FloatArray]:
    """Return views of the values that belong to one member."""
    if sweep.spans is None:
        yield values[member]
    else:
        for owner, rows in sweep.spans:
            if owner == member:
                yield values[rows]
