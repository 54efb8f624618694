"""`diagnose`: how far a log can be trusted, and what decides the answer."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray, RowIndex
from tailproof.critics.ensembles import LinearCritics
from tailproof.critics.linear import (
    Design,
    Ridge,
    Statistics,
    as_ridge,
    bellman_residuals,
    choose_ridge,
    regularised,
    side_by_side,
    solve,
    weights_of_part,
)
from tailproof.critics.task import PolicyOnLog, Task
from tailproof.doors.decisive import episode_name
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.source import LogSource, as_profile
from tailproof.doors.verdict import Answered
from tailproof.errors import (
    Caution,
    FoldError,
    LogError,
    SingularError,
    TailproofError,
    TailproofWarning,
)
from tailproof.estimators.importance import IPS, BanditDR, importance_weights
from tailproof.estimators.mis import start_features
from tailproof.features import Features, default_features, mixed_features
from tailproof.files import as_frame, plain, scalar
from tailproof.log.budget import sample_to_budget
from tailproof.log.folds import Folds
from tailproof.log.log import CHUNK, Log, discounted_returns
from tailproof.methods.catalogue import as_method
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import check_gamma, prepare, warn_of_a_hidden_horizon
from tailproof.methods.method import Method
from tailproof.parameters import SHARE, require, seed_of
from tailproof.policies.binding import Policy, for_log
from tailproof.policies.text import policy_columns
from tailproof.profile.profile import LogProfile
from tailproof.profile.shape import RewardShape, Tails
from tailproof.progress import staged
from tailproof.robust.pooling import PooledPath
from tailproof.robust.tails import (
    ExtremalIndex,
    Medcouple,
    MomentEvidence,
    ResidualMonitor,
    TailAsymmetry,
    TailIndex,
    TailPath,
    WeightEvidence,
    deviation_of,
    extremal_index,
    extremal_index_across,
    mad,
    medcouple,
    moment_evidence,
    residual_monitor,
    tail_asymmetry,
    tail_index,
    tail_path,
    weight_evidence,
)
from tailproof.rules import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.files import Frame
    from tailproof.report.blocks import Answer


#: Number of blocks of whole groups that folds consist of; the fold numbers of a K-path divide it.
BLOCKS = 60
_MOST_ORDERS = 10
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
        blocks = np.arange(len(self.stats.count)) if order is None else order
        every = [blocks[k::folds] for k in range(folds)]
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
        blocks = _block_of_episode(log, seed)
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
    first_actions: tuple[AnyArray, FloatArray]  # of the policy where episodes start, and weights
    direction: FloatArray  # A⁻ᵀg, (d,)
    weights: FloatArray  # (n,)
    residuals: FloatArray  # (n,)

    def start_features(self, episodes: slice) -> FloatArray:
        """Return g_e = Σ_a π(a|s₀) φ(s₀, a) of some episodes, (m, d)."""
        first, (actions, weights) = self.log.first_states, self.first_actions
        return mixed_features(self.features, first[episodes], actions[episodes], weights[episodes])

    @cached_property
    def effects(self) -> FloatArray:
        """The first-order effect of each episode, (E,)."""
        log = self.log
        rows = np.array([float(log.n_transitions)])
        own = np.add.reduceat(self.weights * self.residuals, log.starts[:-1]) / rows
        less_ridge = self.ridge.penalty(rows) - self.ridge.penalty(rows - log.lengths)
        values = [self.start_features(some) @ self.theta for some in _chunks(log.n_episodes)]
        moved = (np.concatenate(values) - self.value) / max(log.n_episodes - 1, 1)
        return np.asarray(own - less_ridge * float(self.direction @ self.theta) + moved)

    def target_features(self, rows: RowIndex) -> FloatArray:
        """Return Σ_a π(a|s') φ(s', a) at the next states of these rows, (m, d)."""
        after = self.log.next_states[rows], *self.task.next_actions(rows)
        return mixed_features(self.features, *after)

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
            total = total - self.start_features(slice(episode, episode + 1))[0]
        return stats, total / (log.n_episodes - len(episodes))


def linear_reference(
    log: Log, policy: Policy | None, *, gamma: float, method: Method | None = None, seed: int = 0
) -> LinearReference:
    """Return LSTD with the features and the ridge of a method, or the default ones."""
    acts, base = for_log(policy, log), None if method is None else method.base
    features = getattr(base, "features", None) or default_features(log)
    task = Task(log, gamma, acts, log.first_states, seed=seed, initial_rows=log.first_rows)
    task = task.with_next_actions()
    blocks = _block_of_episode(log, seed)
    members = np.arange(blocks.max() + 1)[:, None]
    design = Design(task, features, Folds((blocks == members).astype(np.int8)))
    ridge: Any = getattr(base, "ridge", 1e-6)
    ridge = (
        choose_ridge(design, rng=np.random.default_rng(seed)) if ridge == "cv" else as_ridge(ridge)
    )
    stats = design.statistics
    whole = stats.map(lambda each: each.sum(axis=0, keepdims=True))
    matrix = regularised(design, whole, ridge.penalty(whole.count)) - gamma * whole.cross
    first = task.acts.draws(  # those of `Task.initial_points`, one row per episode
        log.first_states,
        count=task.draws,
        rng=np.random.default_rng([seed, 1]),
        rows=task.initial_rows,
    )
    start = start_features(design)
    theta = solve(matrix, whole.moment[..., None])[0, :, 0]
    direction = solve(np.swapaxes(matrix, 1, 2), start[None, :, None])[0, :, 0]
    if not (np.isfinite(theta).all() and np.isfinite(direction).all()):
        raise SingularError(
            "The policy's linear system has no solution on this log. Use a larger ridge, fewer "
            "features or a smaller gamma: method=method('lstd', ridge=1e-3, features=...)."
        )
    every = np.broadcast_to(direction, (len(members), len(direction)))
    rows = design.reduce(partial(weights_of_part, every), side_by_side)[0]
    critic = LinearCritics(features, theta[None])
    return LinearReference(
        log=log,
        name="LSTD",
        stats=stats,
        block_of_episode=blocks,
        theta=theta,
        start=start,
        gamma=gamma,
        ridge=ridge,
        weights=log.n_transitions * rows,
        task=task,
        features=features,
        first_actions=first,
        direction=direction,
        residuals=bellman_residuals(critic, task, np.arange(log.n_transitions)),
    )


def _chunks(count: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


def reference(
    log: Log, policy: Policy | None, *, gamma: float, method: Method | None = None, seed: int = 0
) -> Reference:
    """Return the plain estimate for a log, a policy and the settings of a method.

    Without a policy it is the mean return of the logged episodes. For one-step logs with propensities
    it is inverse propensity scoring, unless `method` is another; otherwise LSTD.
    """
    acts = for_log(policy, log)
    if acts is None:
        return MeanReference.of(log, "mean return", discounted_returns(log, gamma), seed)
    weighable = log.is_discrete or acts.has_density
    scored = method is None or isinstance(method.base, IPS | BanditDR)
    if log.is_bandit and log.propensity is not None and weighable and scored:
        weights = importance_weights(Task(log, gamma, acts, log.first_states, seed=seed))
        name = "inverse propensity scoring"
        return MeanReference.of(log, name, weights * log.rewards, seed, weights)
    return linear_reference(log, acts, gamma=gamma, method=method, seed=seed)


def resolve(
    log: Log, policy: Policy | None, *, gamma: float | None, method: str | Method | None
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
        require(SHARE, TailproofError, gamma=gamma)
    if log.is_bandit:
        return 0.0, chosen
    return 1.0 if gamma is None else float(gamma), chosen


def block_orders(estimate: Reference, folds: int, seed: int) -> list[IntArray]:
    """Return random orders of the blocks: ten, or fewer if folds are slow to solve."""
    cost = folds * len(estimate.theta) ** 3
    count = int(np.clip(_OPERATIONS / cost, 1, _MOST_ORDERS))
    rng = np.random.default_rng(seed)
    return [rng.permutation(min(BLOCKS, estimate.log.n_groups)) for _ in range(count)]


def _block_of_episode(log: Log, seed: int) -> IntArray:
    """Return the random block of each episode, (E,); groups stay whole."""
    groups = log.n_groups
    block_of_group = np.empty(groups, dtype=np.intp)
    block_of_group[np.random.default_rng(seed).permutation(groups)] = np.arange(groups) % BLOCKS
    return block_of_group[log.group_of_episode]


Lean = Literal["symmetric", "left", "right", "unclear"]

#: Extremes cluster when the interval of their extremal index ends below this.
CLUSTERED = 0.9
_LEAN = 1.5  # tails are similar if one has less than this many times the extremes of the other
_FOLDS = (1, 3, 5, 6, 10, 15, 20, 30)  # on a K-path; all divide the blocks
_POINTS = 100  # number of points of a plot against the number of extremes
_PROBED = 20_000  # most states at which the leverage of the policy's actions is computed


@dataclass(frozen=True, kw_only=True)
class TailReport:
    """The weight of both tails of one sample, and its skew."""

    name: str
    n: int
    left: TailIndex  # Hill's index of each tail
    right: TailIndex
    others: tuple[TailIndex, ...]  # the moment and Pickands estimates of both
    left_path: TailPath | None  # Hill's estimate by number of extremes; None for a short tail
    right_path: TailPath | None
    mean: MomentEvidence  # whether it plausibly exists
    variance: MomentEvidence
    asymmetry: TailAsymmetry
    medcouple: Medcouple

    @property
    def heavier(self) -> TailIndex | None:
        """The tail with the smaller index; None when neither is estimable."""
        known = [tail for tail in (self.left, self.right) if tail.estimable]
        return min(known, key=lambda tail: tail.alpha, default=None)

    @property
    def skew(self) -> Lean:
        """The longer tail: significantly, and with at least 1½ times as many extremes; or neither.

        "symmetric" if the interval of the ratio contains 1 and lies within ⅔ and 1½; "unclear" if the
        sample is too small to decide, or the difference is significant but small.
        """
        tails = self.asymmetry
        if tails.low > 1 and tails.ratio >= _LEAN:
            return "right"
        if tails.high < 1 and tails.ratio <= 1 / _LEAN:
            return "left"
        return "symmetric" if 1 / _LEAN <= tails.low <= 1 <= tails.high <= _LEAN else "unclear"


def tail_report(name: str, values: FloatArray, *, theta: float = 1.0) -> TailReport:
    """Return everything about the tails of one sample; θ is its extremal index.

    >>> report = tail_report("x", np.random.default_rng(1).standard_t(1.5, 20_000))
    >>> report.variance.exists, report.skew
    ('no', 'symmetric')
    """
    ordered = np.sort(values)  # once: every statistic below selects from it
    left, right, *others = (
        tail_index(ordered, side=side, method=estimator, theta=theta)
        for estimator in ("hill", "moment", "pickands")
        for side in ("left", "right")
    )
    paths = (
        tail_path(ordered, side=tail.side, points=_POINTS, theta=theta) if tail.estimable else None
        for tail in (left, right)
    )
    return TailReport(
        name=name,
        n=len(values),
        left=left,
        right=right,
        others=tuple(others),
        left_path=next(paths),
        right_path=next(paths),
        mean=moment_evidence(ordered, 1, tails=(left, right)),
        variance=moment_evidence(ordered, 2, tails=(left, right)),
        asymmetry=tail_asymmetry(ordered, theta=theta),
        medcouple=medcouple(ordered),
    )


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Clustering of extremes, as extremal indices: 1 if isolated, ½ if in pairs on average."""

    within: ExtremalIndex | None  # of the steps inside an episode
    across: ExtremalIndex  # of neighbouring episodes in the log's order, by their largest step
    groups: ExtremalIndex | None  # of the episodes inside a group, if the log has groups

    @property
    def in_episodes(self) -> bool:
        """Whether extremes within an episode are clustered."""
        return _clustered(self.within)

    @property
    def in_groups(self) -> bool:
        """Whether extreme episodes are clustered, as neighbours or within groups."""
        return _clustered(self.across) or _clustered(self.groups)


def _clustered(index: ExtremalIndex | None) -> bool:
    return index is not None and index.high < CLUSTERED  # NaN is no evidence


def clustering(log: Log, steps: FloatArray) -> Clustering:
    """Measure clusters in the rewards and the weighted rewards; keep the stronger evidence."""
    series = (log.rewards,) if steps is log.rewards else (log.rewards, steps)
    episode = log.episode_of_row
    within, across, groups = [], [], []
    for values in series:
        if not log.is_bandit:
            within.append(extremal_index(values, episode=episode))
        across.append(extremal_index_across(values, episode=episode))
        if log.group_ids is not None:
            order = np.argsort(log.group_of_episode, kind="stable")
            distance = np.abs(values - np.median(values))
            largest = np.maximum.reduceat(distance, log.starts[:-1])[order]
            group = log.group_of_episode[order]
            groups.append(extremal_index(largest, episode=group, side="right"))
    return Clustering(
        within=_clearest(within), across=_clearest(across) or across[0], groups=_clearest(groups)
    )


def _clearest(indices: list[ExtremalIndex]) -> ExtremalIndex | None:
    """Return the index whose interval ends lowest."""
    return min(indices, key=lambda each: each.high if each.estimable else math.inf, default=None)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How well the log covers the policy's actions.

    The density ratios ω have mean 1 in theory (`mean_known`) with γ < 1 and without terminal
    transitions, or in bandits; otherwise they were scaled to mean 1. The leverage φᵀ(Σφφᵀ + λI)⁻¹φ at
    the policy's actions, divided by its mean at the logged ones, measures the distance of the policy's
    actions from the data: 1 is the log itself. An eigenvalue near 0 of the features' Gram matrix,
    scaled to a unit diagonal, means that some direction of the critic is hardly observed.
    """

    weights: WeightEvidence  # of ω
    mean_known: bool
    leverage: float  # the mean
    largest_leverage: float
    smallest_eigenvalue: float
    unlogged: float  # share of the policy's actions that were never logged


def overlap(weights: FloatArray, critic: LinearReference, acts: PolicyOnLog) -> Overlap:
    """Measure the weights of an estimate, (n,), and the distance of its policy from the log."""
    log, gamma = critic.log, critic.gamma
    # the mean weight is the sum of discounts: 1/(1 − γ) if nothing terminates
    known = gamma < 1 and not (gamma > 0 and log.terminated.any())
    scale = 1 - gamma if known else 1 / (abs(float(weights.mean())) or 1.0)
    if gamma == 0:
        every = max(1, log.n_episodes // _PROBED)
        acting = critic.start_features(slice(None, None, every))
    else:
        every = max(1, log.n_transitions // _PROBED)
        acting = critic.target_features(slice(None, None, every))[~log.terminated[::every]]
    gram = critic.whole.gram[0]
    penalty = float(critic.ridge.penalty(np.array([float(log.n_transitions)]))[0])
    inverse = np.linalg.pinv(gram + penalty * np.eye(len(gram)), hermitian=True)
    usual = float(np.sum(inverse * gram)) / log.n_transitions  # mean leverage of logged actions
    leverage = np.einsum("nd,de,ne->n", acting, inverse, acting, optimize=True) / usual
    scale_of = np.sqrt(np.diag(gram))
    correlation = gram / np.maximum(np.outer(scale_of, scale_of), np.finfo(float).tiny)
    unlogged = 0.0
    if log.is_discrete:
        never = np.bincount(log.actions, minlength=log.n_actions) == 0
        unlogged = float(np.array(list(acts.shares.values()))[never].sum())
    return Overlap(
        weights=weight_evidence(scale * weights),
        mean_known=known,
        leverage=float(leverage.mean()) if len(leverage) else math.nan,
        largest_leverage=float(leverage.max()) if len(leverage) else math.nan,
        smallest_eigenvalue=max(float(np.linalg.eigvalsh(correlation)[0]), 0.0),
        unlogged=unlogged,
    )


@dataclass(frozen=True, kw_only=True)
class WorstStep:
    """A transition with a large Bellman residual."""

    episode: object  # its id
    step: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class BellmanMonitor:
    """Bellman residuals of the plain critic: their scale over time, and the worst transitions."""

    monitor: ResidualMonitor
    worst: tuple[WorstStep, ...]


def bellman_monitor(log: Log, residuals: FloatArray) -> BellmanMonitor:
    """Summarise the Bellman residuals, and name the worst transitions by episode and step."""
    monitor = residual_monitor(residuals)
    worst = []
    for row, value in zip(monitor.worst, monitor.worst_values, strict=True):
        episode = log.episode_of_row[row]
        name, step = scalar(log.episode_ids[episode]), int(row - log.starts[episode])
        worst.append(WorstStep(episode=name, step=step, residual=float(value)))
    return BellmanMonitor(monitor=monitor, worst=tuple(worst))


@dataclass(frozen=True, kw_only=True)
class KPath:
    """The median of K folds against K: flat for symmetric tails, drifting if skew biases it."""

    folds: tuple[int, ...]
    values: tuple[float, ...]  # medians over K folds, averaged over `dealings` random partitions
    errors: tuple[float, ...]  # of such a median, from the MAD of its fold values; NaN for K = 1
    dealings: int

    @property
    def drift(self) -> float:
        """The change of the path from K = 5 (or the first K above) to its end."""
        later = [value for k, value in zip(self.folds, self.values, strict=True) if k >= 5]
        return later[-1] - later[0] if len(later) > 1 else 0.0

    @property
    def drifts(self) -> bool:
        """Whether the path moves by more than two standard errors of its end."""
        return abs(self.drift) > 2 * self.errors[-1]  # NaN is no evidence


def fold_path(estimate: Reference, seed: int) -> KPath:
    """Return the median of K folds against K, averaged over several random partitions."""
    folds = [k for k in _FOLDS if k == 1 or 2 * k <= estimate.log.n_groups]
    orders = block_orders(estimate, sum(folds), seed)
    values, errors = [], []
    for k in folds:
        by_order = np.stack([estimate.fold_values(k, order=order) for order in orders])
        values.append(float(np.nanmean(np.nanmedian(by_order, axis=1))))
        # π/2 is the variance of a Gaussian sample's median over that of its mean.
        error = (
            math.sqrt(math.pi / 2 / k) * mad(by_order[np.isfinite(by_order)]) if k > 1 else math.nan
        )
        errors.append(error)
    return KPath(
        folds=tuple(folds), values=tuple(values), errors=tuple(errors), dealings=len(orders)
    )


@dataclass(frozen=True, kw_only=True)
class FoldDisagreement:
    """The values of K folds, and the fold farthest from their median."""

    values: tuple[float, ...]
    median: float
    std: float
    mad: float  # scaled like a standard deviation
    farthest: int  # the fold farthest from the median
    distance: float  # from the median, in MADs
    episode: object  # id of the episode in this fold with the largest effect on the whole estimate


def fold_disagreement(estimate: Reference, folds: int) -> FoldDisagreement:
    """Return the values of K folds, and the most influential episode of the farthest fold."""
    values = estimate.fold_values(folds)
    finite = values[np.isfinite(values)]
    median, scale = float(np.median(finite)), mad(finite)
    distance = np.where(np.isfinite(values), np.abs(values - median), np.inf)
    farthest = int(distance.argmax())
    own = np.flatnonzero(estimate.block_of_episode % folds == farthest)
    episode = int(own[np.abs(estimate.effects[own]).argmax()])
    return FoldDisagreement(
        values=tuple(map(float, values)),
        median=median,
        std=deviation_of(finite),
        mad=scale,
        farthest=farthest,
        distance=float(distance[farthest]) / scale if scale > 0 else math.nan,
        episode=scalar(estimate.log.episode_ids[episode]),
    )


#: Additional candidates whose exact effect is computed before the largest are chosen.
_SPARE = 40


@dataclass(frozen=True, kw_only=True)
class EpisodeInfluence:
    """The effect of one episode on the estimate."""

    episode: object  # its id
    name: str  # what to call it: the row of the file, if it has one only, and its id
    group: object  # the id of its group; None without groups
    steps: int
    effect: float  # Ĵ − Ĵ₍₋ₑ₎: the estimate, minus the one refitted without this episode
    value_without: float  # Ĵ₍₋ₑ₎
    median_effect: float  # on the median of the values of K folds, averaged over a few partitions


@dataclass(frozen=True, kw_only=True)
class Influence:
    """The episodes with the largest effect on an estimate, largest first.

    Attributes
    ----------
    estimator, value
        The plain estimate: LSTD, inverse propensity scoring, or the mean return of the log.
    folds, median_value
        K, and the median of the values of K folds, averaged over a few random partitions.
    episodes
        The most influential ones.
    value_without_all
        The estimate refitted without all of them; NaN if no episode would be left.
    share
        Their part of Σ_e |effect of e|, to first order: 0.5 if it equals that of all others together.
    standard_error
        √Σ effect², over groups if the log has them: the jackknife's, to first order. Meaningless if the
        variance does not exist.
    """

    estimator: str
    value: float
    folds: int
    median_value: float
    episodes: tuple[EpisodeInfluence, ...]
    value_without_all: float
    share: float
    standard_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return dict(plain(self))

    def to_frame(self) -> Frame:
        """Return one row per episode: a pandas frame, or a pyarrow table where pandas is missing."""
        return as_frame([plain(each) for each in self.episodes])

    def __str__(self) -> str:
        lines = [
            f"{self.estimator}: {self.value:.4g}; median of {self.folds} folds: "
            f"{self.median_value:.4g}"
        ]
        lines += [
            f"  {each.episode!s:>12}  moves the estimate by {each.effect:+.4g}, the median of "
            f"folds by {each.median_effect:+.4g}"
            for each in self.episodes
        ]
        return "\n".join(lines)


def most_influential(estimate: Reference, *, top: int, folds: int, seed: int = 0) -> Influence:
    """Return the `top` episodes with the largest effect on a reference estimate.

    Candidates are chosen by first-order effects; the estimate without each of them is then computed
    exactly, by solving a small system, without a new pass over the log (equations in
    `LinearReference`). The effect equals that of `evaluate` on the log without the episode and its
    first state. `folds` is the K of the median that is reported with the plain estimate.
    """
    log = estimate.log
    effects = estimate.effects
    together = np.bincount(log.copy_of, effects, minlength=log.n_episodes)  # at the first copy
    sizes = np.abs(together)
    chosen: IntArray = np.empty(0, dtype=np.intp)
    count = log.once.n_episodes
    groups = None if log.once.group_ids is None else log.group_ids
    if count > 1:
        candidates = _largest(sizes, top + _SPARE)
        if isinstance(estimate, LinearReference):
            # an episode that dominates the fit has small residuals but large weights
            reach = np.add.reduceat(estimate.weights**2, log.starts[:-1])
            candidates = np.union1d(candidates, _largest(reach, top + _SPARE // 2))
        candidates = log.copy_of[candidates]
        candidates = candidates[np.sort(np.unique(candidates, return_index=True)[1])]
        exact = estimate.value - estimate.without(candidates)
        chosen = candidates[_largest(np.abs(exact), top)]
    values = estimate.without(chosen)
    orders = block_orders(estimate, folds * max(len(chosen), 1), seed)
    by_order = [estimate.fold_values(folds, order=order) for order in orders]
    median = float(np.mean(np.nanmedian(by_order, axis=1)))
    left = [estimate.folds_without(chosen, folds=folds, order=order) for order in orders]
    medians = np.mean(np.nanmedian(left, axis=2), axis=0)
    group_effects = np.bincount(log.group_of_episode, effects).astype(float)
    scale, total = float(np.abs(group_effects).max()) or 1.0, float(sizes.sum())
    return Influence(
        estimator=estimate.name,
        value=estimate.value,
        folds=folds,
        median_value=median,
        episodes=tuple(
            EpisodeInfluence(
                episode=scalar(log.episode_ids[episode]),
                name=episode_name(log, int(episode)),
                group=None if groups is None else scalar(groups[episode]),
                steps=int(log.lengths[episode]),
                effect=estimate.value - float(value),
                value_without=float(value),
                median_effect=median - float(without),
            )
            for episode, value, without in zip(chosen, values, medians, strict=True)
        ),
        value_without_all=(estimate.without_all(chosen) if len(chosen) < count else float("nan")),
        share=float(sizes[chosen].sum()) / total if total > 0 else 0.0,
        standard_error=scale * float(np.linalg.norm(group_effects / scale)),  # never overflows
    )


def _largest(values: FloatArray, count: int) -> IntArray:
    """Return the indices of the largest values, largest first; ties by index."""
    places = np.arange(len(values))
    if count < len(values):
        places = np.argpartition(-values, count)[:count]
    return places[np.lexsort((places, -values[places]))]


_FAR = 10.0  # leverage, relative to logged actions, from which it is reported
_RUN = 4  # influential neighbours that suggest a shared event, …
_RARE = 25  # … in logs of so many times more episodes: then P < 0.01 by chance
_SLOW = 5.0  # growth of the log that halves the error, from which it is reported; 4 is normal


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The properties of the log and the resulting method, which `evaluate` uses.

    Attributes
    ----------
    method, settings
        The method that `evaluate` uses, and its features if they were given.
    shape
        Tails, skew and clustering of the rewards, independent of the policy; `learn` uses the same.
    estimator, unit, units
        The mean that `evaluate` uses, its unit, and their number; the estimator is None without a
        policy.
    skewed
        Whether a more robust mean would be biased.
    declined, limits
        Why `evaluate` gives no interval, or None; and what determines the interval's width.
    reasons, improvements
        Sentences: the reasons, and how to improve the estimate.
    cautions
        Those of the reasons that say why the log may mislead.
    """

    method: str
    settings: dict[str, Any]
    shape: RewardShape = field(repr=False)
    estimator: str | None
    unit: str
    units: int
    skewed: bool
    declined: str | None
    limits: str
    reasons: tuple[str, ...]
    improvements: tuple[str, ...]
    cautions: tuple[str, ...] = ()

    @property
    def tails(self) -> Tails:
        """Tails of the rewards: "light", "heavy", or "sparse" if few differ from the common one."""
        return self.shape.tails

    @property
    def call(self) -> str:
        """The recommended method as Python."""
        arguments = [f"{name}={value!r}" for name, value in self.settings.items()]
        return f"method({', '.join([repr(self.method), *arguments])})"

    def point(self) -> Method:
        """Return the method."""
        return named_method(self.method, **self.settings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        more = {"call": self.call, "tails": self.tails, "summary": self.summary}
        converted: dict[str, Any] = plain({**vars(self), **more, "shape": self.shape.to_dict()})
        del converted["settings"]  # in `call`
        return converted

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        shape = self.shape
        lead = {
            "light": "Rewards have light tails",
            "heavy": f"Rewards have heavy{', skewed' if shape.skewed else ''} tails",
            "sparse": shape.kinds,
        }[shape.tails]
        if shape.tails == "heavy" and shape.unit not in ("row", "step"):
            lead += ", and extremes come in clusters"
        said = f"{lead}: use {self.call if self.settings else 'the default method'}"
        if self.declined is not None:
            said += f", which {'gives no interval' if self.estimator else 'cannot answer'} here"
        return f"{said}."


def decide(
    log: Log,
    shape: RewardShape,
    estimate: Estimate | None,
    *,
    settings: dict[str, Any],
    overlap: Overlap | None,
    influence: Influence,
    heaviest: float | None,
    cautions: Sequence[Caution] = (),
    failed: str | None = None,
) -> Verdict:
    """Explain the choices of a default estimate; without an estimate, describe the rewards only.

    `heaviest` is the smallest estimated tail index, `cautions` why the log may mislead, and `failed`
    is the reason why `evaluate` failed.
    """
    choice = None if estimate is None else estimate.choice
    reasons = list(shape.sentences if choice is None else choice.reasons)
    improvements = []
    if failed is not None:
        reasons.append(f"No estimate can be given. {failed}")
    elif choice is None:
        improvements.append("Pass the policy: without it nothing is known of weights and overlap.")
    elif choice.declined is not None:
        reasons.append(f"No interval is given: {str(choice.declined).rstrip('.')}.")
    elif choice.limits:
        reasons.append(f"What limits the interval: {choice.limits}.")
    reasons += map(str, cautions)
    if overlap is not None:
        problems, advice = _about_overlap(log, overlap)
        reasons += problems
        improvements += advice
    improvements += _about_size(log, shape, heaviest, influence)
    return Verdict(
        method="auto",
        settings=settings,
        shape=shape,
        estimator=None if choice is None else choice.estimator,
        unit=shape.unit if choice is None else choice.unit,
        units=shape.units if choice is None else choice.units,
        skewed=shape.skewed if choice is None else bool(getattr(choice, "skewed", False)),
        declined=failed if choice is None or choice.declined is None else str(choice.declined),
        limits="" if choice is None else choice.limits,
        reasons=tuple(reasons),
        improvements=tuple(improvements),
        cautions=tuple(map(str, cautions)),
    )


def _about_overlap(log: Log, overlap: Overlap) -> tuple[list[str], list[str]]:
    """Return problems of the weights, and how to solve them."""
    weights, problems, advice = overlap.weights, [], []
    if weights.effective < RULES.poor * weights.n:
        problems.append(
            f"The weights leave {weights.effective:,.0f} effective samples of {weights.n:,}; the "
            f"largest carries {weights.largest_share:.1%}."
        )
    if weights.pareto.k >= weights.reliable_k:
        problems.append(
            f"The largest weights have a Pareto shape of {weights.pareto.k:.2f}, where "
            f"{weights.reliable_k:.2f} is the limit for {weights.n:,} of them."
        )
    if overlap.leverage > _FAR:
        problems.append(
            f"The policy acts where the log has little data: its leverage is "
            f"{overlap.leverage:,.0f} times that of the logged actions."
        )
    if overlap.unlogged > 0:
        problems.append(f"{overlap.unlogged:.1%} of the policy's actions were never logged.")
    if problems:
        advice.append(
            "Log more of what the policy does, or judge a policy closer to the log: no interval "
            "covers what was never tried."
        )
    if overlap.mean_known and weights.mean_error > max(4 * weights.standard_error, 0.05):
        problems.append(
            f"The weights average {weights.mean:.3g} where they should average 1, by more than "
            f"chance explains."
        )
        if log.is_bandit and log.propensity is not None:
            advice.append("Check the propensities.")
    if log.is_bandit and log.propensity is None:
        advice.append("Log propensities: those that the answer now rests on are estimated.")
    return problems, advice


def _neighbours(log: Log, influence: Influence) -> str:
    """Return the longest run of neighbours among the influential episodes; empty if chance has such.

    The order of one-step rows has no meaning.
    """
    if log.is_bandit or log.group_ids is not None or log.n_episodes < _RARE * _RUN:
        return ""
    ids = [each.episode for each in influence.episodes]
    places = np.sort(np.concatenate([np.flatnonzero(log.episode_ids == each) for each in ids]))
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    longest = max(runs, key=len)
    if len(longest) < _RUN:
        return ""
    first, last = (log.episode_ids[place] for place in longest[[0, -1]])
    return f"Episodes {first} to {last} follow each other, and each is among the most influential. "


def _about_size(
    log: Log, shape: RewardShape, heaviest: float | None, influence: Influence
) -> list[str]:
    """Return how more data, or group labels, would improve the estimate."""
    advice = []
    beside = _neighbours(log, influence)
    if shape.unit == "block" or beside:
        advice.append(
            f"{beside}Name what episodes with shared events have in common (week, user, site) with "
            f"--group, or Log.with_groups in Python, so that they are kept together."
        )
    if log.n_groups < RULES.fewest:
        unit = "episodes" if log.group_ids is None else "groups"
        advice.append(
            f"Intervals need {RULES.fewest} independent {unit} or more; the log has {log.n_groups}."
        )
    if shape.tails == "heavy" and heaviest is not None and 1 < heaviest < 2:
        # the error of a mean of n values is of order n^(1/α − 1)
        exponent = heaviest / (heaviest - 1)
        factor = 2.0 ** min(exponent, 60.0)
        if factor > _SLOW:
            times = f"{factor:,.0f}" if factor < 1e3 else "more than a thousand"
            advice.append(
                f"More data help the plain average little: half its error takes {times} times the "
                f"log, where light tails take 4."
            )
    return advice


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answered):
    """The evidence that `diagnose` collects, and its `Verdict`.

    Attributes
    ----------
    transitions, episodes, groups
        The size of the log; `groups` is None if it has none.
    gamma, with_policy
        The discount, and whether a policy was given.
    tails
        By name: "rewards"; with a policy "weighted rewards", their "weighted sums" over the unit
        and "Bellman residuals"; without one "returns".
    clustering, overlap, residuals, k_path, folds, influence
        The evidence; `overlap` and `residuals` only with a policy.
    verdict
        Which method is safe for this log, and why.
    notes
        Warnings and assumptions.
    weights
        The row weights of `evaluate`, (n,); None without a policy.
    pooling
        The policy's gains by the size at which pooling begins; None if nothing is pooled.
    reward
        The name of the reward.
    """

    transitions: int
    episodes: int
    groups: int | None
    gamma: float
    with_policy: bool
    tails: dict[str, TailReport]
    clustering: Clustering
    overlap: Overlap | None
    residuals: BellmanMonitor | None
    k_path: KPath
    folds: FoldDisagreement | None
    influence: Influence
    verdict: Verdict
    notes: tuple[str, ...]
    weights: FloatArray | None = field(default=None, repr=False)
    pooling: PooledPath | None = field(default=None, repr=False)
    reward: str = "reward"

    @property
    def noun(self) -> str:
        """What an episode is called: a "row" of a one-step log, counted from 0."""
        return "row" if self.transitions == self.episodes else "episode"

    def plot(self, *, of: str = "rewards", ax: Axes | None = None) -> Axes:
        """Draw the index of both tails against the number of extremes used, and return the Axes.

        `of` is a name in `tails`.
        """
        from tailproof.report.plots import plot_diagnosis  # matplotlib is slow to import

        return plot_diagnosis(self, of=of, ax=ax)

    def __str__(self) -> str:
        from tailproof.report.text import as_text

        return as_text(self.blocks())

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import diagnosis_answer

        return diagnosis_answer(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        kept = {name: value for name, value in vars(self).items() if name != "weights"}
        path = None if self.pooling is None else self.pooling.to_dict()
        converted: dict[str, Any] = plain(
            {**kept, "verdict": self.verdict.to_dict(), "pooling": path}
        )
        for name, report in self.tails.items():
            converted["tails"][name]["skew"] = report.skew
        converted["k_path"] |= {"drift": plain(self.k_path.drift), "drifts": self.k_path.drifts}
        return converted

    def to_frame(self) -> Frame:
        """Return one row per measured quantity: a pandas frame, or a pyarrow table without pandas.

        Columns: the subject, the quantity, its value and its interval if there is one.
        """
        columns = ("about", "quantity", "value", "low", "high")
        return as_frame([dict(zip(columns, row, strict=True)) for row in self._rows()])

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.transitions:,} rows: {self.verdict.summary}>"

    def _rows(self) -> list[tuple[str, str, float, float, float]]:
        nan = math.nan
        rows: list[tuple[str, str, float, float, float]] = []
        for name, report in self.tails.items():
            rows += [
                (name, f"{tail.side} tail index ({tail.method})", tail.alpha, tail.low, tail.high)
                for tail in (report.left, report.right, *report.others)
            ]
            lean = report.asymmetry
            rows += [
                (name, "largest share of Σ|x|", report.mean.ratio, nan, nan),
                (name, "largest share of Σx²", report.variance.ratio, nan, nan),
                (name, "right to left extremes", lean.ratio, lean.low, lean.high),
                (name, "medcouple", report.medcouple.value, nan, nan),
            ]
        for where in ("within", "across", "groups"):
            index: ExtremalIndex | None = getattr(self.clustering, where)
            if index is not None:
                rows.append(("clustering", where, index.theta, index.low, index.high))
        if self.overlap is not None:
            weights = self.overlap.weights
            found = {
                "effective sample size": weights.effective,
                "largest share": weights.largest_share,
                "|mean − 1|": weights.mean_error if self.overlap.mean_known else nan,
                "Pareto k": weights.pareto.k,
                "leverage": self.overlap.leverage,
                "largest leverage": self.overlap.largest_leverage,
                "smallest eigenvalue": self.overlap.smallest_eigenvalue,
                "unlogged actions": self.overlap.unlogged,
            }
            rows += [("overlap", name, value, nan, nan) for name, value in found.items()]
        if self.residuals is not None:
            monitor = self.residuals.monitor
            found = {"std / MAD": monitor.ratio, "swing": monitor.swing}
            rows += [("Bellman residuals", name, value, nan, nan) for name, value in found.items()]
        path = self.k_path
        for folds, value, error in zip(path.folds, path.values, path.errors, strict=True):
            low, high = value - 2 * error, value + 2 * error
            rows.append(("K-path", f"K = {folds}", value, low, high))
        if self.folds is not None:
            rows += [
                ("folds", f"fold {k}", value, nan, nan) for k, value in enumerate(self.folds.values)
            ]
        return rows


@staged("Diagnosing")
def diagnose(
    log: LogSource,
    policy: Policy | None = None,
    *,
    gamma: float | None = None,
    method: str | Method | None = None,
    estimate: Estimate | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    **columns: Any,
) -> Diagnosis:
    """Explain the decisions of `evaluate` on a log, with evidence and the most influential episodes.

    The verdict is that of `evaluate` with the default method, on the same evidence: tails, skew and
    unit, the chosen estimator, and the interval or why there is none. Further evidence: indices of both
    tails with intervals, whether mean and variance exist, the K-path, clustering of extremes; with a
    policy also weights, overlap and Bellman residuals; the disagreement of folds, and the ten episodes
    with the largest influence on the plain estimate. That is LSTD, inverse propensity scoring in
    one-step logs with propensities, or without a policy the mean return of the log.

    Parameters
    ----------
    log
        The logged transitions, with episodes in time order, because neighbours are compared. A log on
        disk is loaded if its budget allows; otherwise runs of neighbouring episodes (or groups) are
        sampled with the seed, and a warning and a note say how many.
    policy
        The policy to evaluate, as in `evaluate`; without one, the logged returns are diagnosed.
    gamma
        The discount. Required with a policy, except for one-step episodes; 1 by default without one.
    method
        The method whose features are used for verdict and plain estimate, and its ridge for the latter.
    estimate
        The result of `evaluate` for the same log and policy, if it exists already; it is used if it
        is by the default method, with this discount and seed.
    seed
        Seeds the partitions into folds.
    random_state
        Another name for `seed`, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof.doors.diagnose import diagnose
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=60, noise=StudentT(df=1.5), seed=1)
    >>> diagnosis = diagnose(log, world.target(), gamma=0.99)
    >>> diagnosis.tails["rewards"].variance.exists
    'no'
    >>> diagnosis.verdict.tails, diagnosis.verdict.estimator, diagnosis.verdict.unit
    ('heavy', 'Huber mean', 'step')
    """
    given = as_profile(log, columns, diagnose, beside=policy_columns([policy]))
    seed = seed_of(seed, random_state)
    with _collect_warnings() as sampling:
        profile = given.of(sample_to_budget(given.log, "The diagnosis", seed=seed))
    discount, chosen = resolve(profile.log, policy, gamma=gamma, method=method)
    with _collect_warnings() as horizon:
        warn_of_a_hidden_horizon(profile, discount)
    for each in (*sampling, *horizon):
        warnings.warn(each.message, stacklevel=2)
    diagnosis = _diagnosis(profile, policy, chosen, discount, seed, estimate)
    said = dict.fromkeys(str(each.message) for each in (*sampling, *horizon))
    return replace(diagnosis, notes=tuple(dict.fromkeys((*said, *diagnosis.notes))))


def _diagnosis(
    profile: LogProfile,
    policy: Policy | None,
    chosen: Method | None,
    discount: float,
    seed: int,
    estimate: Estimate | None,
) -> Diagnosis:
    log = profile.log
    features = getattr(None if chosen is None else chosen.base, "features", None)
    settings = {} if features is None else {"features": features}
    with _collect_warnings() as found:
        estimate, failed = _evaluated(profile, policy, estimate, settings, discount, seed)
        plain = reference(log, policy, gamma=discount, method=chosen, seed=seed)
        critic = plain if isinstance(plain, LinearReference) else None
        if critic is None and policy is not None:
            critic = linear_reference(log, policy, gamma=discount, method=chosen, seed=seed)
    choice = None if estimate is None else estimate.choice
    once, first = log.once, np.unique(log.copy_of)  # weights repeat episodes, which makes no tails
    rows = np.flatnonzero(np.isin(log.episode_of_row, first))
    shape = choice.shape if choice is not None and once is log else None
    shape = shape or profile.of(once).reward_shape
    weights = plain.weights
    if (
        choice is not None
        and choice.weights is not None
        and len(choice.weights) == log.n_transitions
    ):
        weights = choice.weights
    covered = None
    if critic is not None and estimate is not None and weights is not None:
        covered = overlap(weights, critic, estimate.on_log)
    steps = once.rewards if weights is None else weights[rows] * once.rewards
    clusters = clustering(once, steps)
    residuals = None if critic is None else critic.residuals[rows]
    sums = plain.terms[first] if isinstance(plain, MeanReference) else None
    tails = _tails(_samples(once, sums, residuals, plain.weights, steps, shape), clusters)
    folds = max(min(10, log.n_groups // 2), 1)
    influence = most_influential(plain, top=10, folds=folds, seed=seed)
    heavier = [each.heavier.alpha for each in tails.values() if each.heavier is not None]
    verdict = decide(
        once,
        shape,
        estimate,
        settings=settings,
        overlap=covered,
        influence=influence,
        heaviest=min(heavier, default=None),
        cautions=(*profile.cautions, *profile.hidden_state())
        if estimate is None
        else estimate.cautions,
        failed=failed,
    )
    return Diagnosis(
        transitions=once.n_transitions,
        episodes=once.n_episodes,
        groups=None if once.group_ids is None else once.n_groups,
        gamma=discount,
        with_policy=policy is not None,
        tails=tails,
        clustering=clusters,
        overlap=covered,
        residuals=None if residuals is None else bellman_monitor(once, residuals),
        k_path=fold_path(plain, seed),
        folds=fold_disagreement(plain, folds) if folds > 1 else None,
        influence=influence,
        verdict=verdict,
        notes=tuple(dict.fromkeys(str(each.message) for each in found)),
        weights=weights,
        pooling=None if choice is None else choice.pooling,
        reward=once.reward_name,
    )


def _tails(samples: dict[str, FloatArray], clusters: Clustering) -> dict[str, TailReport]:
    """Return the tails of each sample; those of single rows may come in clusters."""
    theta = clusters.within.theta if clusters.within and clusters.in_episodes else 1.0
    rows = len(samples["rewards"])
    return {
        name: tail_report(name, values, theta=theta if len(values) == rows else 1.0)
        for name, values in samples.items()
    }


def _evaluated(
    profile: LogProfile,
    policy: Policy | None,
    known: Estimate | None,
    settings: dict[str, Any],
    gamma: float,
    seed: int,
) -> tuple[Estimate | None, str | None]:
    """Return the default method's estimate, or the reason why there is none.

    One that is known already is used if it is of the same log by the same method.
    """
    if policy is None:
        return known, None
    default, rows = named_method("auto", **settings), profile.log.once.n_transitions
    asked = (default, gamma, seed, rows)
    if known and (known.method, known.gamma, known.seed, known.n_transitions) == asked:
        return known, None
    try:
        return evaluate(profile, policy, method=default, gamma=gamma, seed=seed), None
    except (FoldError, LogError, SingularError) as error:
        return None, str(error)


@contextmanager
def _collect_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect tailproof's warnings, which become notes of the diagnosis; pass on all others."""
    notes: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for each in caught:
        if issubclass(each.category, TailproofWarning):
            notes.append(each)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _samples(
    log: Log,
    terms: FloatArray | None,
    residuals: FloatArray | None,
    weights: FloatArray | None,
    steps: FloatArray,
    shape: RewardShape,
) -> dict[str, FloatArray]:
    """Return samples by name: rewards, weighted rewards, sums over units, Bellman residuals.

    `terms` are the returns of the episodes of a plain mean, (E,).
    """
    samples = {"rewards": log.rewards}
    if terms is not None and weights is None:
        sums = terms
        if not log.is_bandit:
            samples["returns"] = sums
    else:
        samples["weighted rewards"], sums = steps, np.add.reduceat(steps, log.starts[:-1])
        if shape.unit == "episode":
            samples["weighted sums by episode"] = sums
    if shape.unit == "group":
        samples["sums by group"] = np.bincount(log.group_of_episode, sums).astype(float)
    if residuals is not None:
        samples["residuals" if log.is_bandit else "Bellman residuals"] = residuals
    return samples
