"""LSTD taken apart: weights, residuals, values of folds, and refits without an episode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.linear.ridge import choose_ridge
from tailproof.algorithms.linear.statistics import (
    Design,
    Ridge,
    Statistics,
    as_ridge,
    regularised,
    solve,
)
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.data.spaces import Continuous
from tailproof.data.view import CHUNK
from tailproof.errors import SingularError
from tailproof.features import Features, Joint, at_actions, default_features
from tailproof.policies.simple import action_draws


@dataclass(frozen=True, eq=False)
class Starts:
    """Where episodes start, and what the policy does there."""

    features: Features
    states: FloatArray  # (E, p)
    actions: AnyArray  # (E, L) or (E, L, q)
    weights: FloatArray  # (E, L)

    def features_at(self, episodes: slice) -> FloatArray:
        """Return g_e = Σ_a π(a|s₀) φ(s₀, a) of some episodes, (m, d)."""
        phi = at_actions(self.features, self.states[episodes], self.actions[episodes])
        return phi.mix(self.weights[episodes])

    def mean(self) -> FloatArray:
        """Return g, the mean of g_e, (d,)."""
        total = np.zeros(self.features.size)
        for chunk in self._chunks():
            total += self.features_at(chunk).sum(axis=0)
        return total / len(self.states)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return V_e = g_eᵀθ, (E,)."""
        return np.concatenate([self.features_at(chunk) @ theta for chunk in self._chunks()])

    def _chunks(self) -> list[slice]:
        return [slice(i, i + CHUNK) for i in range(0, len(self.states), CHUNK)]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearReference:
    """LSTD, which equals linear MIS: Ĵ = gᵀA⁻¹b = mean(w_i r_i), w_i = n·φ_iᵀA⁻ᵀg.

    A = Σφ(φ − γφ')ᵀ + λI, b = Σφr and g, the mean of φ over starts and policy, are sums over
    episodes, so that leaving one out is a small solve: with A_e, b_e, g_e its parts,

        Ĵ₍₋ₑ₎ = (E·g − g_e)ᵀ (A − A_e)⁻¹ (b − b_e) / (E − 1),

    where A − A_e has the ridge of the rows that stay. To first order, with δ the Bellman residuals
    and V_e = g_eᵀθ the value of where the episode starts,

        Ĵ − Ĵ₍₋ₑ₎ ≈ Σ_{i∈e} w_i δ_i / n − (λ − λ₍₋ₑ₎)·gᵀA⁻¹θ + (V_e − Ĵ) / (E − 1).
    """

    log: Log
    task: Task
    features: Features
    ridge: Ridge
    stats: Statistics  # of each block
    block_of_episode: IntArray  # (E,)
    starts: Starts
    start: FloatArray  # g, (d,)
    start_values: FloatArray  # V_e, (E,)
    theta: FloatArray  # (d,)
    direction: FloatArray  # A⁻ᵀg, (d,)
    weights: FloatArray  # (n,)
    residuals: FloatArray  # (n,)
    name: str = "LSTD"

    @cached_property
    def value(self) -> float:
        """The estimate gᵀθ."""
        return float(self.start @ self.theta)

    @cached_property
    def gram(self) -> FloatArray:
        """Σφφᵀ over the whole log, (d, d)."""
        return np.asarray(self.stats.gram.sum(axis=0))

    @cached_property
    def effects(self) -> FloatArray:
        """The first-order effect of each episode, (E,)."""
        log = self.log
        rows = np.array([float(log.n_transitions)])
        own = np.add.reduceat(self.weights * self.residuals, log.starts[:-1]) / rows
        spared = self.ridge.penalty(rows) - self.ridge.penalty(rows - log.lengths)
        moved = (self.start_values - self.value) / max(log.n_episodes - 1, 1)
        return np.asarray(own - spared * float(self.direction @ self.theta) + moved)

    def fold_values(self, folds: int, *, order: IntArray | None = None) -> FloatArray:
        """Return gᵀθ_k, θ_k being fitted on fold k, (K,); `order` deals the blocks anew."""
        return self._theta(_merge(self.stats, folds, order=order)) @ self.start

    def without(self, episodes: IntArray) -> FloatArray:
        """Return Ĵ refitted without each of these episodes, (m,).

        Exact, but for the fresh draws of a policy that can only be sampled.
        """
        whole = _merge(self.stats, 1)
        values = np.empty(len(episodes))
        for i in range(len(episodes)):
            own, start = self._parts(episodes[i : i + 1])
            values[i] = self._theta(_difference(whole, 0, own))[0] @ start
        return values

    def folds_without(self, episodes: IntArray, *, folds: int, order: IntArray) -> FloatArray:
        """Return the values of the folds refitted without each of these episodes, (m, K)."""
        parts = _merge(self.stats, folds, order=order)
        theta = self._theta(parts)  # (K, d)
        place = np.argsort(order)
        each = np.empty((len(episodes), folds))
        for i, values in enumerate(each):
            own, start = self._parts(episodes[i : i + 1])
            fold = int(place[self.block_of_episode[episodes[i]]]) % folds
            values[:] = theta @ start
            values[fold] = self._theta(_difference(parts, fold, own))[0] @ start
        return each

    def without_all(self, episodes: IntArray) -> float:
        """Return Ĵ refitted without all of these episodes."""
        own, start = self._parts(episodes)
        return float(self._theta(_difference(_merge(self.stats, 1), 0, own))[0] @ start)

    def target_features(self, rows: Any) -> FloatArray:
        """Return Σ_a π(a|s') φ(s', a) at the next states of these rows, (m, d)."""
        actions, weights = self.task.next_actions(rows)
        return at_actions(self.features, self.log.next_states[rows], actions).mix(weights)

    def _theta(self, stats: Statistics) -> FloatArray:
        return _solve_lstd(stats, self.task.gamma, self.ridge)

    def _parts(self, episodes: IntArray) -> tuple[Statistics, FloatArray]:
        """Return what some episodes add to the statistics, and g without them."""
        log, d = self.log, len(self.theta)
        stats = Statistics(*(np.zeros((1, *shape)) for shape in ((d, d), (d, d), (d,), ())))
        total = log.n_episodes * self.start
        for episode in map(int, episodes):
            rows = slice(int(log.starts[episode]), int(log.starts[episode + 1]))
            phi = self.features(log.states[rows], log.actions[rows])
            after = self.target_features(rows) * ~log.terminated[rows, None]
            moment, count = phi.T @ log.rewards[rows], np.array([float(len(phi))])
            stats += Statistics((phi.T @ phi)[None], (phi.T @ after)[None], moment[None], count)
            total = total - self.starts.features_at(slice(episode, episode + 1))[0]
        return stats, total / (log.n_episodes - len(episodes))


def features_for(log: Log) -> Features:
    """Return the default features, for continuous actions those of state and action joined."""
    space = log.action_space
    if isinstance(space, Continuous):
        return Joint(log.states.shape[1], space.dimension)
    return default_features(log)


def fit_linear(
    log: Log,
    policy: Any,
    *,
    gamma: float,
    features: Features,
    ridge: Any,
    blocks: IntArray,
    seed: int,
) -> LinearReference:
    """Take LSTD apart; `blocks` is the block of each episode, (E,)."""
    task = Task(log, gamma, policy, log.first_states, seed=seed, initial_rows=log.first_rows)
    task = task.with_next_actions()
    members = np.arange(blocks.max() + 1)[:, None]
    design = Design(task, features, Folds((blocks == members).astype(np.int8)))
    rng = np.random.default_rng(task.seed)
    penalty = choose_ridge(design, rng=rng) if ridge == "cv" else as_ridge(ridge)
    stats = design.statistics
    whole = _merge(stats, 1)
    gram = regularised(design, whole, penalty.penalty(whole.count))
    matrix = gram - task.gamma * whole.cross
    first_actions, first_weights = action_draws(  # those of `Task.initial_points`, an episode each
        task.policy,
        log.first_states,
        log.action_space,
        draws=task.draws,
        rng=np.random.default_rng([task.seed, 1]),
        rows=task.initial_rows,
    )
    starts = Starts(features, log.first_states, first_actions, first_weights)
    start = starts.mean()
    theta = solve(matrix, whole.moment[..., None])[0, :, 0]
    direction = solve(np.swapaxes(matrix, 1, 2), start[None, :, None])[0, :, 0]
    if not (np.isfinite(theta).all() and np.isfinite(direction).all()):
        raise SingularError(
            "The policy's linear system has no solution on this log. Use a larger ridge, fewer "
            "features or a smaller gamma: method=method('lstd', ridge=1e-3, features=...)."
        )
    weights, residuals = np.empty(log.n_transitions), np.empty(log.n_transitions)
    for first in range(0, log.n_transitions, CHUNK):
        rows = slice(first, min(first + CHUNK, log.n_transitions))
        phi = features(log.states[rows], log.actions[rows])
        weights[rows] = log.n_transitions * (phi @ direction)
        residuals[rows] = log.rewards[rows] - phi @ theta
        if task.gamma > 0:
            following, chances = task.next_actions(rows)
            after = at_actions(features, log.next_states[rows], following).values(theta[None])[0]
            alive = task.gamma * ~log.terminated[rows]
            residuals[rows] += alive * (after * chances.T).sum(axis=0)
    return LinearReference(
        log=log,
        task=task,
        features=features,
        ridge=penalty,
        stats=stats,
        block_of_episode=blocks,
        starts=starts,
        start=start,
        start_values=starts.values(theta),
        theta=theta,
        direction=direction,
        weights=weights,
        residuals=residuals,
    )


def _solve_lstd(stats: Statistics, gamma: float, ridge: Ridge) -> FloatArray:
    identity = np.eye(stats.gram.shape[-1])
    matrix = stats.gram - gamma * stats.cross + ridge.penalty(stats.count)[:, None, None] * identity
    return solve(matrix, stats.moment[..., None])[..., 0]  # (K, d)


def _merge(stats: Statistics, folds: int, *, order: IntArray | None = None) -> Statistics:
    """Return the statistics of K folds: every K-th block, in their order or another."""
    dealt = np.arange(len(stats.count)) if order is None else order
    return Statistics(
        *(
            np.stack([each[dealt[k::folds]].sum(axis=0) for k in range(folds)])
            for each in (stats.gram, stats.cross, stats.moment, stats.count)
        )
    )


def _difference(stats: Statistics, member: int, part: Statistics) -> Statistics:
    """Return one member's statistics without a part of them."""
    own = slice(member, member + 1)
    return Statistics(
        stats.gram[own] - part.gram,
        stats.cross[own] - part.cross,
        stats.moment[own] - part.moment,
        stats.count[own] - part.count,
    )
