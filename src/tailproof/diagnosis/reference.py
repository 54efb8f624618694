"""The plain estimate with its weights, residuals, fold values, and the effect of each episode.

Nothing here is robust: this is the plain average, in a form that shows which episodes dominate it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.bandit import IPS, BanditDR, importance_weights
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
from tailproof.arrays import AnyArray, FloatArray, IntArray, require_fraction
from tailproof.data.log import Log, discounted_returns
from tailproof.data.partition import Folds
from tailproof.data.spaces import Continuous
from tailproof.data.view import CHUNK
from tailproof.errors import SingularError, TailproofError
from tailproof.features import Features, Joint, at_actions, default_features
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import check_gamma, prepare
from tailproof.methods.method import Method
from tailproof.policies.naming import for_log
from tailproof.policies.simple import action_draws

#: Number of blocks of whole groups that folds consist of; the fold numbers of a K-path divide it.
BLOCKS = 60
_DEALINGS = 10
_OPERATIONS = 2e9  # about a second of solving


@dataclass(frozen=True, eq=False, kw_only=True)
class Reference(ABC):
    """Ĵ = gᵀθ, θ = A⁻¹b, where A, b and g are sums over episodes, so that a refit is cheap."""

    log: Log
    name: str
    stats: Statistics  # of each block
    block_of_episode: IntArray  # (E,)
    theta: FloatArray  # (d,)
    start: FloatArray  # g, (d,)
    gamma: float
    ridge: Ridge
    weights: FloatArray | None = None  # (n,)

    @property
    @abstractmethod
    def effects(self) -> FloatArray:
        """The first-order effect of each episode, Ĵ − Ĵ₍₋ₑ₎, (E,)."""

    @abstractmethod
    def _parts(self, episodes: IntArray) -> tuple[Statistics, FloatArray]:
        """Return the statistics of some episodes, and g without them."""

    @cached_property
    def value(self) -> float:
        """The estimate gᵀθ."""
        return float(self.start @ self.theta)

    @cached_property
    def whole(self) -> Statistics:
        """The statistics of the whole log, as one fold."""
        return self._merge(1)

    def fold_values(self, folds: int, *, order: IntArray | None = None) -> FloatArray:
        """Return gᵀθ_k with θ_k fitted on fold k, (K,); `order` permutes the blocks."""
        return self._theta(self._merge(folds, order)) @ self.start

    def without(self, episodes: IntArray) -> FloatArray:
        """Return Ĵ refitted without each of these episodes and its copies, (m,).

        Exact, except that a policy that can only be sampled is sampled again.
        """
        return np.array([self.without_all(episodes[[i]]) for i in range(len(episodes))])

    def without_all(self, episodes: IntArray) -> float:
        """Return Ĵ refitted without all of these episodes and their copies."""
        own, start = self._parts(self._with_copies(episodes))
        return float(self._theta(_difference(self.whole, 0, own))[0] @ start)

    def _with_copies(self, episodes: IntArray) -> IntArray:
        if self.log.once is self.log:
            return episodes
        return np.flatnonzero(np.isin(self.log.copy_of, self.log.copy_of[episodes]))

    def folds_without(self, episodes: IntArray, *, folds: int, order: IntArray) -> FloatArray:
        """Return the values of the folds refitted without each of these episodes, (m, K)."""
        parts = self._merge(folds, order)
        theta = self._theta(parts)  # (K, d)
        place = np.argsort(order)
        each = np.empty((len(episodes), folds))
        for i, values in enumerate(each):
            own, start = self._parts(self._with_copies(episodes[[i]]))
            fold = int(place[self.block_of_episode[episodes[i]]]) % folds
            values[:] = theta @ start
            values[fold] = self._theta(_difference(parts, fold, own))[0] @ start
        return each

    def _merge(self, folds: int, order: IntArray | None = None) -> Statistics:
        """Return the statistics of K folds; fold k has every K-th block in the given order."""
        dealt = np.arange(len(self.stats.count)) if order is None else order
        every = [dealt[k::folds] for k in range(folds)]
        stacked = (
            np.stack([a[own].sum(axis=0) for own in every]) for a in vars(self.stats).values()
        )
        return Statistics(*stacked)

    def _theta(self, stats: Statistics) -> FloatArray:
        ridge = self.ridge.penalty(stats.count)[:, None, None] * np.eye(len(self.start))
        matrix = stats.gram - self.gamma * stats.cross + ridge
        return solve(matrix, stats.moment[..., None])[..., 0]  # (K, d)


def _difference(stats: Statistics, member: int, part: Statistics) -> Statistics:
    """Return one member's statistics without a part of them."""
    pairs = zip(vars(stats).values(), vars(part).values(), strict=True)
    return Statistics(*(whole[member : member + 1] - own for whole, own in pairs))


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanReference(Reference):
    """Ĵ = Σ_e x_e / E: the mean return of the logged policy, or inverse propensity scoring."""

    terms: FloatArray  # (E,)

    @classmethod
    def of(
        cls, log: Log, name: str, terms: FloatArray, seed: int, weights: FloatArray | None = None
    ) -> MeanReference:
        """Return the mean of these terms, one per episode."""
        blocks = _deal(log, seed)
        return cls(
            log=log,
            name=name,
            stats=_sums(np.bincount(blocks), np.bincount(blocks, terms).astype(float)),
            block_of_episode=blocks,
            theta=np.array([terms.mean()]),
            start=np.ones(1),
            gamma=0.0,
            ridge=as_ridge(0.0),
            weights=weights,
            terms=terms,
        )

    @cached_property
    def effects(self) -> FloatArray:
        """Ĵ − Ĵ₍₋ₑ₎ = (x_e − Ĵ)/(E − 1), exactly, (E,)."""
        return (self.terms - self.value) / max(len(self.terms) - 1, 1)

    def _parts(self, episodes: IntArray) -> tuple[Statistics, FloatArray]:
        left_out = np.array([len(episodes)]), self.terms[episodes].sum(keepdims=True)
        return _sums(*left_out), self.start


def _sums(counts: IntArray, sums: FloatArray) -> Statistics:
    """Return the statistics of a single feature, 1, with these sums of rewards."""
    gram = counts[:, None, None].astype(float)
    return Statistics(gram, np.zeros_like(gram), sums[:, None], counts.astype(float))


@dataclass(frozen=True, eq=False)
class Starts:
    """The first states of the episodes, and the policy's actions there."""

    features: Features
    states: FloatArray  # (E, p)
    actions: AnyArray  # (E, L) or (E, L, q)
    weights: FloatArray  # (E, L)

    def features_at(self, episodes: slice) -> FloatArray:
        """Return g_e = Σ_a π(a|s₀) φ(s₀, a) of some episodes, (m, d)."""
        phi = at_actions(self.features, self.states[episodes], self.actions[episodes])
        return phi.mix(self.weights[episodes])


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearReference(Reference):
    """LSTD, which equals linear MIS: Ĵ = gᵀA⁻¹b = mean(w_i r_i), w_i = n·φ_iᵀA⁻ᵀg.

    A = Σφ(φ − γφ')ᵀ + λI, b = Σφr and g, the mean of φ over starts and policy, are sums over
    episodes, so that leaving one out needs only a small system: with A_e, b_e, g_e its parts,

        Ĵ₍₋ₑ₎ = (E·g − g_e)ᵀ (A − A_e)⁻¹ (b − b_e) / (E − 1),

    where A − A_e has the ridge of the remaining rows. To first order, with δ the Bellman residuals
    and V_e = g_eᵀθ the value at the start of the episode,

        Ĵ − Ĵ₍₋ₑ₎ ≈ Σ_{i∈e} w_i δ_i / n − (λ − λ₍₋ₑ₎)·gᵀA⁻¹θ + (V_e − Ĵ) / (E − 1).
    """

    task: Task
    features: Features
    starts: Starts
    start_values: FloatArray  # V_e, (E,)
    direction: FloatArray  # A⁻ᵀg, (d,)
    weights: FloatArray  # (n,)
    residuals: FloatArray  # (n,)

    @cached_property
    def effects(self) -> FloatArray:
        """The first-order effect of each episode, (E,)."""
        log = self.log
        rows = np.array([float(log.n_transitions)])
        own = np.add.reduceat(self.weights * self.residuals, log.starts[:-1]) / rows
        spared = self.ridge.penalty(rows) - self.ridge.penalty(rows - log.lengths)
        moved = (self.start_values - self.value) / max(log.n_episodes - 1, 1)
        return np.asarray(own - spared * float(self.direction @ self.theta) + moved)

    def target_features(self, rows: Any) -> FloatArray:
        """Return Σ_a π(a|s') φ(s', a) at the next states of these rows, (m, d)."""
        actions, weights = self.task.next_actions(rows)
        return at_actions(self.features, self.log.next_states[rows], actions).mix(weights)

    def _parts(self, episodes: IntArray) -> tuple[Statistics, FloatArray]:
        log = self.log
        stats = Statistics.zeros(1, len(self.theta))
        total = log.n_episodes * self.start
        for episode in map(int, episodes):
            rows = slice(int(log.starts[episode]), int(log.starts[episode + 1]))
            phi = self.features(log.states[rows], log.actions[rows])
            after = self.target_features(rows) * ~log.terminated[rows, None]
            moment, count = phi.T @ log.rewards[rows], np.array([float(len(phi))])
            stats += Statistics((phi.T @ phi)[None], (phi.T @ after)[None], moment[None], count)
            total = total - self.starts.features_at(slice(episode, episode + 1))[0]
        return stats, total / (log.n_episodes - len(episodes))


def linear_reference(
    log: Log, policy: Any, *, gamma: float, method: Method | None = None, seed: int = 0
) -> LinearReference:
    """Return LSTD with the features and the ridge of a method, or the default ones."""
    policy, base = for_log(policy, log), None if method is None else method.base
    features = getattr(base, "features", None) or _default_features(log)
    task = Task(log, gamma, policy, log.first_states, seed=seed, initial_rows=log.first_rows)
    task = task.with_next_actions()
    blocks = _deal(log, seed)
    members = np.arange(blocks.max() + 1)[:, None]
    design = Design(task, features, Folds((blocks == members).astype(np.int8)))
    ridge: Any = getattr(base, "ridge", 1e-6)
    ridge = (
        choose_ridge(design, rng=np.random.default_rng(seed)) if ridge == "cv" else as_ridge(ridge)
    )
    stats = design.statistics
    whole = Statistics(*(each.sum(axis=0, keepdims=True) for each in vars(stats).values()))
    matrix = regularised(design, whole, ridge.penalty(whole.count)) - gamma * whole.cross
    first = action_draws(  # the draws of `Task.initial_points`, one row per episode
        task.policy,
        log.first_states,
        log.action_space,
        draws=task.draws,
        rng=np.random.default_rng([seed, 1]),
        rows=task.initial_rows,
    )
    starts = Starts(features, log.first_states, *first)
    chunks = [slice(i, i + CHUNK) for i in range(0, log.n_episodes, CHUNK)]
    start = sum(starts.features_at(some).sum(axis=0) for some in chunks) / log.n_episodes
    theta = solve(matrix, whole.moment[..., None])[0, :, 0]
    direction = solve(np.swapaxes(matrix, 1, 2), start[None, :, None])[0, :, 0]
    if not (np.isfinite(theta).all() and np.isfinite(direction).all()):
        raise SingularError(
            "The policy's linear system has no solution on this log. Use a larger ridge, fewer "
            "features or a smaller gamma: method=method('lstd', ridge=1e-3, features=...)."
        )
    weights, residuals = _by_row(task, features, theta, direction)
    return LinearReference(
        log=log,
        name="LSTD",
        stats=stats,
        block_of_episode=blocks,
        theta=theta,
        start=start,
        gamma=gamma,
        ridge=ridge,
        weights=weights,
        task=task,
        features=features,
        starts=starts,
        start_values=np.concatenate([starts.features_at(some) @ theta for some in chunks]),
        direction=direction,
        residuals=residuals,
    )


def _by_row(
    task: Task, features: Features, theta: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weight and the Bellman residual of each row, (n,) each."""
    log: Log = task.log
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
    return weights, residuals


def _default_features(log: Log) -> Features:
    space = log.action_space
    if isinstance(space, Continuous):
        return Joint(log.states.shape[1], space.dimension)
    return default_features(log)


def reference(
    log: Log, policy: Any, *, gamma: float, method: Method | None = None, seed: int = 0
) -> Reference:
    """Return the plain estimate for a log, a policy and the settings of a method.

    Without a policy it is the mean return of the logged episodes. For one-step logs with propensities
    it is inverse propensity scoring, unless `method` is another; otherwise LSTD.
    """
    policy = for_log(policy, log)
    if policy is None:
        return MeanReference.of(log, "mean return", discounted_returns(log, gamma), seed)
    weighable = log.is_discrete or hasattr(policy, "log_prob")
    scored = method is None or isinstance(method.base, IPS | BanditDR)
    if log.is_bandit and log.propensity is not None and weighable and scored:
        weights = importance_weights(Task(log, gamma, policy, log.first_states, seed=seed))
        name = "inverse propensity scoring"
        return MeanReference.of(log, name, weights * log.rewards, seed, weights)
    return linear_reference(log, policy, gamma=gamma, method=method, seed=seed)


def resolve(
    log: Log, policy: Any, *, gamma: float | None, method: str | Method | None
) -> tuple[float, Method | None]:
    """Check and return the discount and the method.

    Without a policy only logged returns are needed, which are finite sums: any discount is valid, and
    1 is the default, and 0 for one-step logs.
    """
    chosen = None if method is None else as_method(method)
    prepare(log, chosen or as_method("lstd"))
    if policy is not None:
        return check_gamma(gamma, log), chosen
    if gamma is not None:
        require_fraction("gamma", gamma, TailproofError)
    if log.is_bandit:
        return 0.0, chosen
    return 1.0 if gamma is None else float(gamma), chosen


def dealings(estimate: Reference, folds: int, seed: int) -> list[IntArray]:
    """Return random orders of the blocks: ten, or fewer if folds are slow to solve."""
    cost = folds * len(estimate.theta) ** 3
    count = int(np.clip(_OPERATIONS / cost, 1, _DEALINGS))
    rng = np.random.default_rng(seed)
    return [rng.permutation(min(BLOCKS, estimate.log.n_groups)) for _ in range(count)]


def _deal(log: Log, seed: int) -> IntArray:
    """Return the random block of each episode, (E,); groups stay whole."""
    groups = log.n_groups
    block_of_group = np.empty(groups, dtype=np.intp)
    block_of_group[np.random.default_rng(seed).permutation(groups)] = np.arange(groups) % BLOCKS
    return block_of_group[log.group_of_episode]
