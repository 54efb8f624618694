"""The evidence of a diagnosis: what each part means, and how it is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tailproof.algorithms.on_log import PolicyOnLog
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.diagnosis.reference import LinearReference, Reference, dealings
from tailproof.files.frames import scalar
from tailproof.statistics.tails import (
    ExtremalIndex,
    Medcouple,
    MomentEvidence,
    ResidualMonitor,
    TailAsymmetry,
    TailIndex,
    TailPath,
    WeightEvidence,
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
from tailproof.statistics.tails.sample import deviation_of

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
        acting = critic.starts.features_at(slice(None, None, every))
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

    episode: Any
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
    orders = dealings(estimate, sum(folds), seed)
    values, errors = [], []
    for k in folds:
        dealt = np.stack([estimate.fold_values(k, order=order) for order in orders])
        values.append(float(np.nanmean(np.nanmedian(dealt, axis=1))))
        # π/2 is the variance of a Gaussian sample's median over that of its mean.
        error = math.sqrt(math.pi / 2 / k) * mad(dealt[np.isfinite(dealt)]) if k > 1 else math.nan
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
    episode: Any  # id of the episode in this fold with the largest effect on the whole estimate


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
