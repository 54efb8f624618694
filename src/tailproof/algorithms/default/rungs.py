"""Rungs of the ladder: LSTD on one feature map, weighted by the policy's visits or not.

Every rung is linear in the rewards, Ĵ = constant + mean(w·r), with weights w that hold no reward; so
rungs can be averaged by averaging their weights, and compared on the same episodes by leaving groups
of them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tailproof.algorithms.default.forest import CrossFitted
from tailproof.algorithms.default.maps import Map, OfStates
from tailproof.algorithms.default.target import Actions, Target, shuffled_groups
from tailproof.algorithms.linear.statistics import Ridge
from tailproof.arrays import FloatArray, IntArray
from tailproof.features import Basis
from tailproof.features.ladder import KNOTS

GROUPS = 20
_PLAIN_RIDGE = 1e-5
_WEIGHTED_RIDGE = 1e-4
_FLOOR = 0.1  # of the mean occupancy, for every row: no part of the log is ignored altogether
_CHUNK = 4_096
_NEGLIGIBLE = 1e-3  # γ^T of what a truncated episode left out
_KEPT = 1 << 24  # numbers of a feature matrix worth keeping between passes


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group of whole episodes each row and start belongs to, for leaving groups out."""

    count: int
    of_row: IntArray  # (n,)
    of_first: IntArray  # (m,)

    @classmethod
    def deal(cls, target: Target, *, seed: int = 0) -> Groups:
        """Deal the log's groups (or episodes) at random into at most 20."""
        log = target.log
        count = min(GROUPS, log.n_groups)
        of_episode = shuffled_groups(log, seed) % count
        m = len(target.first.states)
        of_first = of_episode if target.starts_with_episodes else np.arange(m) % count
        return cls(count, of_episode[log.episode_of_row], of_first)

    @cached_property
    def order(self) -> IntArray:
        """The rows, one group after the other, (n,)."""
        return np.argsort(self.of_row, kind="stable")

    def spans(self, rows: IntArray) -> Iterator[tuple[int, slice]]:
        """Yield the groups of some rows in that order, and where each stands among them."""
        own = self.of_row[rows]
        edges = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(rows)]
        for first, last in pairwise(edges):
            yield int(own[first]), slice(first, last)


@dataclass(frozen=True, eq=False)
class System:
    """LSTD's equations Σωφ(φ − γφ')ᵀθ = Σωφr in one feature map, by groups of episodes."""

    map: Map
    target: Target
    groups: Groups
    occupancy: FloatArray | None = None  # (n,) of mean one; None for all rows alike
    ridge: Ridge | None = None  # on all features alike; None for one in their own units

    def chunks(self) -> Iterator[tuple[Any, FloatArray, FloatArray]]:
        """Yield rows in the order of their groups, φ and φ − γφ', made before or made anew."""
        yield from self._make() if self._kept is None else self._kept

    def logged(self) -> Iterator[tuple[Any, FloatArray]]:
        """Yield rows in the order of their groups, and φ: half of the work, where it is not kept."""
        if self._kept is not None:
            yield from ((rows, phi) for rows, phi, _ in self._kept)
        else:
            yield from ((rows, self._at(rows)) for rows in self._spans_of_rows())

    @cached_property
    def _kept(self) -> list[tuple[Any, FloatArray, FloatArray]] | None:
        width = self._at(np.zeros(1, dtype=np.intp)).shape[1]
        return list(self._make()) if width * self.target.log.n_transitions <= _KEPT else None

    def _make(self) -> Iterator[tuple[Any, FloatArray, FloatArray]]:
        gamma = self.target.gamma
        for rows in self._spans_of_rows():
            diff = phi = self._at(rows)
            if gamma > 0:
                diff = phi - gamma * self.map.under(self.target.next.take(rows))
            yield rows, phi, diff

    def _spans_of_rows(self) -> Iterator[IntArray]:
        for start in range(0, self.target.log.n_transitions, _CHUNK):
            yield self.groups.order[start : start + _CHUNK]

    def _at(self, rows: IntArray) -> FloatArray:
        log = self.target.log
        return self.map.at(log.states[rows], log.actions[rows], self.target.agreement[rows])

    def weighted(self, rows: Any, phi: FloatArray) -> FloatArray:
        """Return ωφ of some rows."""
        return phi if self.occupancy is None else phi * self.occupancy[rows, None]

    @cached_property
    def first(self) -> FloatArray:
        """E_π φ(s₀, ·), (m, d)."""
        return self.map.under(self.target.first)

    @cached_property
    def matrices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σωφ(φ − γφ')ᵀ of each group, (G, d, d), Σωφ² , (d,), and the groups' rows, (G,)."""
        d = self.first.shape[1]
        total = np.zeros((self.groups.count, d, d))
        squares, count = np.zeros(d), np.zeros(self.groups.count)
        for rows, phi, diff in self.chunks():
            weighted = self.weighted(rows, phi)
            squares += np.einsum("nd,nd->d", weighted, phi)
            for group, span in self.groups.spans(rows):
                total[group] += weighted[span].T @ diff[span]
                count[group] += span.stop - span.start
        return total, squares, count

    @cached_property
    def penalty(self) -> FloatArray:
        """The ridge per row in units of each feature's mean square, without the constant, (d, d)."""
        n = self.target.log.n_transitions
        if self.ridge is not None:
            own = float(self.ridge.penalty(np.array([float(n)]))[0]) / n
            return own * np.eye(self.first.shape[1])
        squares = self.matrices[1] / n
        largest = max(float(squares.max(initial=0.0)), 1e-300)
        scale = np.sqrt(np.maximum(squares, 1e-14 * largest))
        penalty = np.eye(len(scale))
        constant = self.map.constant
        if constant is not None:
            direction = constant * scale
            direction = direction / np.linalg.norm(direction)
            penalty -= np.outer(direction, direction)
        ridge = _PLAIN_RIDGE if self.occupancy is None else _WEIGHTED_RIDGE
        return np.asarray(ridge * penalty * np.outer(scale, scale))

    def moments(self, rewards: FloatArray) -> FloatArray:
        """Return Σωφr of each group, (G, d)."""
        total = np.zeros((self.groups.count, self.first.shape[1]))
        for rows, phi in self.logged():
            own = rewards[rows] if self.occupancy is None else rewards[rows] * self.occupancy[rows]
            for group, span in self.groups.spans(rows):
                total[group] += own[span] @ phi[span]
        return total

    def _solved(self, right: FloatArray, transposed: bool = False) -> FloatArray:
        total, _, count = self.matrices
        matrix = total.sum(axis=0) + count.sum() * self.penalty
        return np.asarray(np.linalg.solve(matrix.T if transposed else matrix, right))

    @cached_property
    def weights(self) -> FloatArray:
        """The weights w with Ĵ = mean(w·r), (n,)."""
        direction = self._solved(self.first.mean(axis=0), transposed=True)
        n = self.target.log.n_transitions
        weights = np.empty(n)
        for rows, phi in self.logged():
            weights[rows] = n * (phi @ direction)
        return weights if self.occupancy is None else weights * self.occupancy

    def value(self, moments: FloatArray) -> float:
        """Return Ĵ from Σωφr of the groups."""
        return float(self.first.mean(axis=0) @ self._solved(moments.sum(axis=0)))

    def left_out(self, moments: FloatArray) -> FloatArray:
        """Return Ĵ refitted without each group, (G,)."""
        total, _, count = self.matrices
        rest = total.sum(axis=0) - total + (count.sum() - count)[:, None, None] * self.penalty
        theta = np.linalg.solve(rest, (moments.sum(axis=0) - moments)[..., None])[..., 0]  # (G, d)
        own = np.stack(
            [self.first[self.groups.of_first == k].sum(axis=0) for k in range(self.groups.count)]
        )
        starts = np.bincount(self.groups.of_first, minlength=self.groups.count)
        mean = (own.sum(axis=0) - own) / np.maximum(starts.sum() - starts, 1)[:, None]
        return np.asarray((mean * theta).sum(axis=1))

    def critic(self, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Bellman residuals r − (φ − γφ')ᵀθ, (n,), and the values of starts, (m,)."""
        theta = self._solved(self.moments(rewards).sum(axis=0))
        residuals = np.empty(len(rewards))
        for rows, _, diff in self.chunks():
            residuals[rows] = rewards[rows] - diff @ theta
        return residuals, self.first @ theta


@dataclass(frozen=True, eq=False)
class Rung:
    """An estimator Ĵ = constant + mean(w·r), and what it would say without each group.

    Attributes
    ----------
    name
        In words.
    value, left_out
        On tamed rewards, and the same without each group of episodes, (G,).
    system
        Its equations.
    forest
        A critic whose error the rung corrects, or None.
    """

    name: str
    value: float
    left_out: FloatArray
    system: System
    forest: CrossFitted | None = None

    @property
    def weights(self) -> FloatArray:
        """The weights w, (n,)."""
        return self.system.weights

    @cached_property
    def error(self) -> float:
        """The standard error, by leaving groups out."""
        return jackknife_error(self.left_out)

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, w·δ of each row, (n,), and V of each start, (m,)."""
        gamma = self.system.target.gamma
        first = 0.0 if self.forest is None else self.forest.first_values
        if self.forest is not None:
            rewards = rewards + gamma * self.forest.next_values - self.forest.values
        residuals, starts = self.system.critic(rewards)
        starts = starts + first
        value = float(np.mean(first)) + float(np.mean(self.weights * rewards))
        return value, self.weights * residuals, starts


def fit_rung(
    name: str, system: System, rewards: FloatArray, *, forest: CrossFitted | None = None
) -> Rung | None:
    """Fit a rung on (tamed) rewards; None where its equations have no finite solution."""
    gamma, groups = system.target.gamma, system.groups
    shift: Any = 0.0
    first = 0.0
    if forest is not None:
        rewards = rewards + gamma * forest.next_values - forest.values
        first = float(forest.first_values.mean())
        starts = np.bincount(groups.of_first, minlength=groups.count)
        own = np.bincount(groups.of_first, forest.first_values, minlength=groups.count)
        shift = (own.sum() - own) / np.maximum(starts.sum() - starts, 1)
    moments = system.moments(rewards)
    try:
        value = first + system.value(moments)
        left_out = system.left_out(moments) + shift
    except np.linalg.LinAlgError:
        return None
    if not (np.isfinite(value) and np.isfinite(left_out).all()):
        return None
    return Rung(name, value, np.asarray(left_out), system, forest)


@dataclass(frozen=True, eq=False)
class Returns:
    """The value of what was done, as the mean of discounted returns: Ĵ = mean(w·r), w = γᵗ n/E."""

    weights: FloatArray  # (n,)
    episodes: int

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, w·r of each row, (n,), and zero for each start."""
        product = self.weights * rewards
        return float(product.mean()), product, np.zeros(self.episodes)


def logged_rung(target: Target, groups: Groups) -> Rung | Returns:
    """Return an estimator of the logged policy's value.

    Where every episode runs to its end, or so far that the rest no longer counts, returns are facts.
    Otherwise what was cut off is continued by V(s), LSTD of what was done.
    """
    log, gamma = target.log, target.gamma
    open_ended = log.lengths[~log.terminated[log.starts[1:] - 1]]
    if gamma == 0 or (gamma**open_ended <= _NEGLIGIBLE).all():
        step = np.arange(log.n_transitions) - log.starts[log.episode_of_row]
        weights = np.power(gamma, step) * log.n_transitions / log.n_episodes
        return Returns(weights, log.n_episodes)
    done = replace(
        target,
        task=replace(target.task, initial_states=None),
        first=_alive(log.first_states),
        next=_alive(log.next_states, ~log.terminated),
    )
    knots = KNOTS if log.n_transitions >= 50 * len(log.state_names) * KNOTS else 0
    system = System(OfStates(Basis.fit(log.states, knots=knots)), done, groups)
    return Rung("what was done", 0.0, np.zeros(groups.count), system)


def _alive(states: FloatArray, alive: Any = True) -> Actions:
    """Return states in which something follows, or not, without any action."""
    weights = np.ones((len(states), 1)) * np.reshape(alive, (-1, 1))
    return Actions(states, np.zeros((len(states), 1), dtype=np.intp), weights, weights)


def forest_rung(system: System, rewards: FloatArray, forest: CrossFitted) -> Rung:
    """Return the doubly robust value of the forest and its own occupancy: a witness of other rungs."""
    groups, gamma = system.groups, system.target.gamma
    residuals = rewards + gamma * forest.next_values - forest.values
    own = np.bincount(groups.of_row, forest.occupancy * residuals, minlength=groups.count)
    rows = np.bincount(groups.of_row, minlength=groups.count)
    first = np.bincount(groups.of_first, forest.first_values, minlength=groups.count)
    starts = np.bincount(groups.of_first, minlength=groups.count)

    def value(own: Any, rows: Any, first: Any, starts: Any) -> Any:
        return own / np.maximum(rows, 1) + first / np.maximum(starts, 1)

    totals = [each.sum() for each in (own, rows, first, starts)]
    left_out = value(*(each.sum() - each for each in (own, rows, first, starts)))
    return Rung("trees", float(value(*totals)), np.asarray(left_out), system, forest)


def jackknife_error(left_out: FloatArray) -> float:
    """Return the standard error from values without each of G groups."""
    count = len(left_out)
    return float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))


def with_floor(occupancy: FloatArray) -> FloatArray:
    """Return ω plus a tenth of its mean, scaled to mean one, (n,)."""
    mean = float(occupancy.mean())
    if not mean > 0:
        return np.ones_like(occupancy)
    raised = occupancy / mean + _FLOOR
    return np.asarray(raised / raised.mean())
