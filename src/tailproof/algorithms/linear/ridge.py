"""Choosing the ridge by cross-validation over episodes."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from tailproof.algorithms.linear.statistics import (
    Design,
    PerObservation,
    Statistics,
    as_ridge,
    regularised,
    solve,
)
from tailproof.arrays import FloatArray
from tailproof.data.partition import Split

CANDIDATES = tuple(10.0**power for power in range(-8, 1))


def require_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is a penalty, or ``"cv"`` to choose it by `choose_ridge`."""
    if ridge != "cv":
        as_ridge(ridge)


def regularised_statistics(
    design: Design, ridge: Any, rng: np.random.Generator
) -> tuple[FloatArray, Statistics]:
    """Return Σφφᵀ + λI for each fold, (K, d, d), and the statistics it came from."""
    penalty = choose_ridge(design, rng=rng) if ridge == "cv" else as_ridge(ridge)
    stats = design.statistics
    return regularised(design, stats, penalty.penalty(stats.count)), stats


def choose_ridge(design: Design, *, rng: np.random.Generator, parts: int = 5) -> PerObservation:
    """Return the penalty per observation whose critics predict held-out episodes best.

    Episodes (or groups) are split in `parts`; for each candidate a critic is fitted without one part
    and scored by the mean absolute Bellman error Σ|r + γφ'ᵀθ − φᵀθ| on it. The absolute error is
    used because a few heavy-tailed rewards would dominate a squared one. Without a policy the critic
    is the ridge regression of the reward.

    The penalty is chosen once on the whole log and used for all folds.
    """
    log = design.task.log
    if log.n_groups < 2:
        return PerObservation(1e-6)
    folds = Split(min(parts, log.n_groups)).assign(log, rng)
    held_out = Design(design.task, design.features, folds)
    rest = held_out.statistics.map(total_without)
    theta = np.stack([_fit(rest, value, design.task.gamma) for value in CANDIDATES])
    errors = held_out.reduce(partial(_held_out_errors, theta), operator.add)
    errors[~np.isfinite(errors)] = np.inf
    return PerObservation(CANDIDATES[int(errors.argmin())])


def _held_out_errors(theta: FloatArray, design: Design, part: Any) -> FloatArray:
    """Return Σ|r + γφ'ᵀθ − φᵀθ| of each candidate over one part of the log, (C,)."""
    errors = np.zeros(len(theta))
    for rows in design.rows(part):
        for segment in rows.segments:
            own = theta[:, segment.member]
            residual = rows.rewards[segment.rows] - rows.values(segment, own)
            if design.task.policy is not None:
                residual += design.task.gamma * rows.next_values(own, segment.rows)
            errors += np.abs(residual).sum(axis=1)
    return errors


def total_without(per_part: FloatArray) -> FloatArray:
    """Return, for each part, the sum of all the others."""
    return np.asarray(per_part.sum(axis=0) - per_part)


def _fit(stats: Statistics, ridge: float, gamma: float) -> FloatArray:
    penalty = PerObservation(ridge).penalty(stats.count)
    matrix = (
        stats.gram - gamma * stats.cross + penalty[:, None, None] * np.eye(stats.gram.shape[-1])
    )
    return solve(matrix, stats.moment[..., None])[..., 0]
