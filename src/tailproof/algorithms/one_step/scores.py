"""Doubly robust scores of one-step logs: choice of the outcome model and of the point estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from tailproof.algorithms.one_step.outcomes import Prediction, winsorised
from tailproof.algorithms.one_step.rows import OneStepRows
from tailproof.arrays import FloatArray, IntArray

_WORTH = 0.85  # a robust point must reduce the variance to at most this share
_DOUBT = 2.0  # standard errors beyond which two tails count as different
_FEW = 60  # rows that do not tell their tails


class RowScores(NamedTuple):
    """A value, and the influence of each row on it."""

    value: float  # mean(q̂(s, π)) + Σ w (r − q̂) / Σ w
    influence: FloatArray  # (n,) centred at 0: the value's error is their mean
    residuals: FloatArray  # (n,) r − q̂(s, a)


def doubly_robust(outcome: Prediction, weights: FloatArray, rewards: FloatArray) -> RowScores:
    """Return the self-normalised doubly robust value; weights have the mean 1."""
    residuals = rewards - outcome.logged
    mean = float((weights * residuals).mean())
    direct = float(outcome.policy.mean())
    influence = outcome.policy - direct + weights * (residuals - mean)
    return RowScores(direct + mean, influence, residuals)


def choose_outcome(outcomes: dict[str, Prediction], weights: FloatArray, rows: OneStepRows) -> str:
    """Return the model whose scores vary least on clipped rewards, or "none".

    It must beat "none" by one standard error of the difference between the squared scores.
    """
    clipped = winsorised(rows.rewards)
    return _least(
        {name: doubly_robust(each, weights, clipped).influence for name, each in outcomes.items()},
        rows,
    )


def best_fit(outcomes: dict[str, Prediction], rows: OneStepRows) -> str:
    """Return the model that predicts clipped rewards best, whatever the policy, or "none"."""
    clipped = winsorised(rows.rewards)
    errors = {name: clipped - each.logged for name, each in outcomes.items()}
    return _least({name: each - each.mean() for name, each in errors.items()}, rows)


def _least(samples: dict[str, FloatArray], rows: OneStepRows) -> str:
    squares = {name: rows.observations.sums(each) ** 2 for name, each in samples.items()}
    best = min(squares, key=lambda name: float(squares[name].mean()))
    lead = squares["none"] - squares[best]
    return best if lead.mean() > lead.std() / np.sqrt(len(lead)) else "none"


def huber_threshold(residuals: FloatArray, actions: IntArray) -> float | None:
    """Return the threshold of the Huber mean of least variance, if both tails are heavy and similar.

    Similar means that the numbers beyond the threshold on the two sides, and the clipped amounts,
    differ by at most two standard errors; in the rows of each action by as many as all actions
    together exceed in one of ten logs. The variance must also fall by 15 %. Rewards with an atom,
    such as binary ones, keep their plain mean.
    """
    even = np.ones(len(residuals))
    if len(residuals) < _FEW or np.unique(residuals, return_counts=True)[1].max() > 0.1 * len(even):
        return None
    plain = float(residuals.var()) / len(residuals)
    best: tuple[float, float] | None = None
    size = np.abs(residuals - np.median(residuals))
    for threshold in np.quantile(size, [0.75, 0.85, 0.9, 0.95, 0.98]).tolist():
        if not _balanced(residuals, threshold, _DOUBT):
            return None
        off = np.abs(residuals - weighted_huber(residuals, even, threshold))
        slope = float((off <= threshold).sum())
        variance = float((np.minimum(off, threshold) ** 2).sum()) / slope**2
        if best is None or variance < best[0]:
            best = variance, threshold
    if best is None or best[0] > _WORTH * plain:
        return None
    own = [residuals[actions == action] for action in np.unique(actions)]
    doubt = float(ndtri(1 - 0.05 / len(own)))
    return best[1] if all(_balanced(each, best[1], doubt) for each in own) else None


def _balanced(residuals: FloatArray, threshold: float, doubt: float) -> bool:
    """Return whether the tails beyond the threshold are alike; so are tails of few rows."""
    off: FloatArray = residuals - float(np.median(residuals))
    right, left = int((off > threshold).sum()), int((off < -threshold).sum())
    if right + left < 10:
        return True
    off = residuals - weighted_huber(residuals, np.ones(len(residuals)), threshold)
    excess = off - np.clip(off, -threshold, threshold)
    return bool(
        abs(right - left) <= doubt * np.sqrt(right + left)
        and abs(excess.sum()) <= doubt * np.sqrt((excess**2).sum())
    )


def weighted_huber(residuals: FloatArray, weights: FloatArray, threshold: float) -> float:
    """Return the weighted Huber mean of residuals."""
    y, v = residuals[weights > 0], weights[weights > 0]
    location = float(np.median(y))
    for _ in range(50):
        near = np.minimum(1, threshold / np.maximum(np.abs(y - location), 1e-300)) * v
        moved = float((near * y).sum() / near.sum())
        if abs(moved - location) < 1e-9 * threshold:
            return moved
        location = moved
    return location


def action_weights(rows: OneStepRows) -> FloatArray:
    """Return π̄(a) / P̂(a), the weights for actions independent of states, with mean 1, (n,)."""
    share = np.bincount(rows.actions, minlength=rows.n_actions) / rows.count
    ratio = rows.policy.mean(axis=0) / np.maximum(share, 1 / rows.count)
    weights: FloatArray = ratio[rows.actions]
    mean = weights.mean()
    return weights / mean if mean > 0 else np.ones(rows.count)


def shrunk(scores: RowScores, target: RowScores, rows: OneStepRows) -> float:
    """Return the value shrunk towards a less variable one, b: b + d³ / (d² + var d), d = value − b.

    The share d²/(d² + var d) of the difference is kept: nearly all if the two differ clearly.
    """
    difference = scores.value - target.value
    moved = rows.observations.sums(scores.influence - target.influence)
    variance = float((moved**2).sum()) / rows.count**2
    if variance == 0 or difference == 0:
        return scores.value
    return target.value + difference / (1 + variance / difference / difference)
