"""Doubly robust scores of one-step logs: choice of the outcome model and of the point estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tailproof.algorithms.one_step.outcomes import Prediction, winsorised
from tailproof.algorithms.one_step.rows import OneStepRows
from tailproof.arrays import FloatArray

_WORTH = 0.85  # a robust point must reduce the variance to at most this share
_DOUBT = 1.64  # standard errors beyond which two tails count as different


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
    squares = {
        name: rows.observations.sums(doubly_robust(each, weights, clipped).influence) ** 2
        for name, each in outcomes.items()
    }
    best = min(squares, key=lambda name: float(squares[name].mean()))
    lead = squares["none"] - squares[best]
    return best if lead.mean() > lead.std() / np.sqrt(len(lead)) else "none"


def huber_location(residuals: FloatArray, weights: FloatArray) -> float | None:
    """Return the weighted Huber mean of residuals, if both tails are heavy and similar, else None.

    Similar means that the numbers beyond the threshold on the two sides, and the clipped amounts,
    differ by at most 1.64 standard errors. The variance must also fall by 15 %. Rewards with an atom,
    such as binary ones, keep their plain mean.
    """
    chosen = weights > 0
    y, v = residuals[chosen], weights[chosen]
    if len(y) < 60 or np.unique(y, return_counts=True)[1].max() > 0.1 * len(y):
        return None
    centre = float(np.median(y))
    mean = float(np.average(y, weights=v))
    plain = float(((v * (y - mean)) ** 2).sum() / v.sum() ** 2)
    best: tuple[float, float] | None = None
    for threshold in np.quantile(np.abs(y - centre), [0.75, 0.85, 0.9, 0.95, 0.98]):
        right, left = int((y - centre > threshold).sum()), int((centre - y > threshold).sum())
        if right + left < 10:
            continue
        if abs(right - left) > _DOUBT * np.sqrt(right + left):
            return None
        location = _huber(y, v, threshold, centre)
        clipped = np.clip(y - location, -threshold, threshold)
        excess = v * (y - location - clipped)
        if abs(excess.sum()) > _DOUBT * np.sqrt((excess**2).sum()):
            return None
        slope = float((v * (np.abs(y - location) <= threshold)).sum())
        variance = float(((v * clipped) ** 2).sum()) / slope**2
        if best is None or variance < best[0]:
            best = variance, location
    return None if best is None or best[0] > _WORTH * plain else best[1]


def _huber(y: FloatArray, v: FloatArray, threshold: float, start: float) -> float:
    location = start
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
