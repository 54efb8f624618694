"""The evidence of a diagnosis, piece by piece: what each piece says, and how it is measured."""

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
_LEAN = 1.5  # tails are alike while one holds less than this many times the extremes of the other
_FOLDS = (1, 3, 5, 6, 10, 15, 20, 30)  # on a K-path; all divide the blocks
_POINTS = 100  # of a plot against the number of extremes
_PROBED = 20_000  # states at which the leverage of the policy's actions is asked


@dataclass(frozen=True, kw_only=True)
class TailReport:
    """How heavy both tails of one sample are, and which way it leans."""

    name: str
    n: int
    left: TailIndex  # Hill's index of either tail
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
        """Which tail is longer: beyond doubt and by half as many extremes again, or neither.

        "symmetric" when the interval of the ratio holds 1 and stays within ⅔ and 1½; "unclear" when
        the sample is too small to tell, or leans a little beyond doubt.
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
    """Do extremes come alone? Extremal indices: 1 for alone, ½ for pairs on average."""

    within: ExtremalIndex | None  # of the steps inside an episode
    across: ExtremalIndex  # of neighbouring episodes in the log's order, by their largest step
    groups: ExtremalIndex | None  # of the episodes inside a group, where the log names groups

    @property
    def in_episodes(self) -> bool:
        """Whether extremes of an episode come together."""
        return _clustered(self.within)

    @property
    def in_groups(self) -> bool:
        """Whether extreme episodes come together, as neighbours or within groups."""
        return _clustered(self.across) or _clustered(self.groups)


def _clustered(index: ExtremalIndex | None) -> bool:
    return index is not None and index.high < CLUSTERED  # NaN is no evidence


def clustering(log: Log, steps: FloatArray) -> Clustering:
    """Measure clusters in the rewards and in the weighted rewards; keep the clearer answer."""
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
    """How well the log covers what the policy does.

    The density ratios ω average 1 in theory (`mean_known`) with γ < 1 and without terminal transitions,
    or in bandits; otherwise they were scaled to average 1. The leverage φᵀ(Σφφᵀ + λI)⁻¹φ at the
    policy's actions, in units of its mean at the logged ones, says how far the policy acts from where
    the log has data: 1 is the log itself. An eigenvalue near 0 of the features' Gram matrix, scaled to
    ones on its diagonal, means that some direction of the critic is hardly observed.
    """

    weights: WeightEvidence  # of ω
    mean_known: bool
    leverage: float  # the mean
    largest_leverage: float
    smallest_eigenvalue: float
    unlogged: float  # the policy's share of actions that the log never took


def overlap(weights: FloatArray, critic: LinearReference, acts: PolicyOnLog) -> Overlap:
    """Measure the weights of an estimate, (n,), and how far from the log its policy acts."""
    log, gamma = critic.log, critic.gamma
    # Weights sum up discounted visits: 1/(1 − γ) of them if nothing ever terminates.
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
    """A transition far from what the critic expects."""

    episode: Any
    step: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class BellmanMonitor:
    """Bellman residuals of the plain critic: their scale over time, and the worst transitions."""

    monitor: ResidualMonitor
    worst: tuple[WorstStep, ...]


def bellman_monitor(log: Log, residuals: FloatArray) -> BellmanMonitor:
    """Watch the Bellman residuals, and name the worst transitions by episode and step."""
    monitor = residual_monitor(residuals)
    worst = []
    for row, value in zip(monitor.worst, monitor.worst_values, strict=True):
        episode = log.episode_of_row[row]
        name, step = scalar(log.episode_ids[episode]), int(row - log.starts[episode])
        worst.append(WorstStep(episode=name, step=step, residual=float(value)))
    return BellmanMonitor(monitor=monitor, worst=tuple(worst))


@dataclass(frozen=True, kw_only=True)
class KPath:
    """The median of K folds against K: flat for symmetric tails, drifting where skew biases it."""

    folds: tuple[int, ...]
    values: tuple[float, ...]  # medians over K folds, averaged over `dealings` random partitions
    errors: tuple[float, ...]  # of such a median, from the MAD of its fold values; NaN for K = 1
    dealings: int

    @property
    def drift(self) -> float:
        """Return how far the path moves from K = 5 (or the first above) to its end."""
        later = [value for k, value in zip(self.folds, self.values, strict=True) if k >= 5]
        return later[-1] - later[0] if len(later) > 1 else 0.0

    @property
    def drifts(self) -> bool:
        """Whether the path moves by more than two standard errors of its end."""
        return abs(self.drift) > 2 * self.errors[-1]  # NaN is no evidence


def fold_path(estimate: Reference, seed: int) -> KPath:
    """Return the median of K folds against K, averaged over several dealings of the blocks."""
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
    """The values of K folds, and the one that stands apart."""

    values: tuple[float, ...]
    median: float
    std: float
    mad: float  # scaled like a standard deviation
    farthest: int  # the fold farthest from the median
    distance: float  # of it, in MADs
    episode: Any  # the id of the episode in it that moves the whole estimate most


def fold_disagreement(estimate: Reference, folds: int) -> FoldDisagreement:
    """Return the values of K folds, and who sits in the one that stands apart."""
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
