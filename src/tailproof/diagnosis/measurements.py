"""How the evidence of a diagnosis is measured on a log and on the plain estimate."""

from __future__ import annotations

import math

import numpy as np

from tailproof.algorithms.on_log import PolicyOnLog
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.diagnosis.evidence import (
    BellmanMonitor,
    Clustering,
    FoldDisagreement,
    KPath,
    Overlap,
    TailReport,
    WorstStep,
)
from tailproof.diagnosis.linear_reference import LinearReference
from tailproof.diagnosis.reference import Reference, dealings
from tailproof.files.frames import scalar
from tailproof.statistics.tails import (
    ExtremalIndex,
    TailIndex,
    TailPath,
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
from tailproof.statistics.tails.estimators import Estimator
from tailproof.statistics.tails.ordered import Side
from tailproof.statistics.tails.sample import deviation_of

_SIDES: tuple[Side, ...] = ("left", "right")
_OTHERS: tuple[Estimator, ...] = ("moment", "pickands")
_PATH = (1, 3, 5, 6, 10, 15, 20, 30)  # numbers of folds; all divide the blocks
_POINTS = 100  # of a plot against the number of extremes
_PROBED = 20_000  # states at which the leverage of the policy's actions is asked


def tail_report(name: str, values: FloatArray, *, theta: float = 1.0) -> TailReport:
    """Return everything about the tails of one sample; θ is its extremal index.

    >>> report = tail_report("x", np.random.default_rng(1).standard_t(1.5, 20_000))
    >>> report.variance.exists, report.skew
    ('no', 'symmetric')
    """
    ordered = np.sort(values)  # once: every statistic below selects from it
    left, right = (tail_index(ordered, side=side, theta=theta) for side in _SIDES)
    return TailReport(
        name=name,
        n=len(values),
        left=left,
        right=right,
        others=tuple(
            tail_index(ordered, side=side, method=estimator, theta=theta)
            for estimator in _OTHERS
            for side in _SIDES
        ),
        left_path=_path(ordered, left, theta),
        right_path=_path(ordered, right, theta),
        mean=moment_evidence(ordered, 1, tails=(left, right)),
        variance=moment_evidence(ordered, 2, tails=(left, right)),
        asymmetry=tail_asymmetry(ordered, theta=theta),
        medcouple=medcouple(ordered),
    )


def _path(ordered: FloatArray, tail: TailIndex, theta: float) -> TailPath | None:
    if not tail.estimable:
        return None
    return tail_path(ordered, side=tail.side, points=_POINTS, theta=theta)


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
    if not indices:
        return None
    return min(indices, key=lambda each: each.high if each.estimable else math.inf)


def overlap(weights: FloatArray, critic: LinearReference, acts: PolicyOnLog) -> Overlap:
    """Measure the weights of an estimate, (n,), and how far from the log its policy acts."""
    log, gamma = critic.log, critic.task.gamma
    # Weights sum up discounted visits: 1/(1 − γ) of them if nothing ever terminates.
    known = gamma < 1 and not (gamma > 0 and log.terminated.any())
    scale = 1 - gamma if known else 1 / (abs(float(weights.mean())) or 1.0)
    every = (
        max(1, log.n_episodes // _PROBED) if gamma == 0 else max(1, log.n_transitions // _PROBED)
    )
    if gamma == 0:
        acting = critic.starts.features_at(slice(None, None, every))
    else:
        acting = critic.target_features(slice(None, None, every))
        acting = acting[~log.terminated[::every]]
    gram = critic.gram
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


def bellman_monitor(log: Log, residuals: FloatArray) -> BellmanMonitor:
    """Watch the Bellman residuals, and name the worst transitions by episode and step."""
    monitor = residual_monitor(residuals)
    episodes = log.episode_of_row[monitor.worst]
    return BellmanMonitor(
        monitor=monitor,
        worst=tuple(
            WorstStep(
                episode=scalar(log.episode_ids[episode]),
                step=int(row - log.starts[episode]),
                residual=float(value),
            )
            for row, episode, value in zip(
                monitor.worst, episodes, monitor.worst_values, strict=True
            )
        ),
    )


def fold_path(estimate: Reference, seed: int) -> KPath:
    """Return the median of K folds against K, averaged over several dealings of the blocks."""
    folds = [k for k in _PATH if k == 1 or 2 * k <= estimate.log.n_groups]
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


def fold_disagreement(estimate: Reference, folds: int) -> FoldDisagreement:
    """Return the values of K folds, and who sits in the one that stands apart."""
    log = estimate.log
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
        episode=scalar(log.episode_ids[episode]),
    )
