"""Rewards without their outliers: what trees cannot explain is clipped, less so if it is skewed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.learners.tree_arrays import (
    averages,
    grown,
    halves,
    teaching_rows,
    with_action,
)
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.features import Features, Standardise
from tailproof.judgement.rules import RULES
from tailproof.judgement.shape import asymmetry_by_action

_TREES = 20
_SMALLEST = 10
_KEPT = 0.99  # of the residuals that are not clipped, where they are symmetric
_REACH = 4.0  # robust standard deviations that are never clipped
_CLIPPED = 2.0  # times log n residuals are clipped where they are skewed


@dataclass(frozen=True)
class TamedRewards:
    """Clip what cross-fitted trees of state and action leave unexplained.

    Trees, because a linear fit would take real catastrophes for noise. Residuals that look symmetric
    for every action are clipped at their 99 % quantile, but never within four robust standard
    deviations; if those of one action are skewed, only the 2 log n largest are, so that the bias goes
    away as the log grows. Opposite skews of two actions cancel in pooled residuals, and are what a
    comparison of the actions would be wrong about.
    """

    def __call__(self, log: Log, features: Features) -> FloatArray:  # noqa: ARG002
        """Return the tamed rewards, (n,)."""
        fitted = cross_fitted(log)
        residuals = log.rewards - fitted
        size = np.abs(residuals)
        skewed = asymmetry_by_action(log, residuals) > RULES.skewed
        limit = float(np.quantile(size, 1 - _few(len(size)) if skewed else _KEPT))
        limit = max(limit, _REACH * 1.4826 * float(np.median(size)))
        return np.asarray(fitted + np.clip(residuals, -limit, limit))


def _few(n: int) -> float:
    """Return the share of n rows that may be outliers, whatever the law."""
    return min(_CLIPPED * float(np.log(n)) / n, 1 - _KEPT)


def cross_fitted(log: Log) -> FloatArray:
    """Return rewards as trees predict them that never saw their half of the groups, (n,).

    The trees are taught with the 2 log n largest and smallest rewards clipped, because one outlier
    would spoil every leaf that it falls into.
    """
    few = _few(log.n_transitions)
    rewards = np.clip(log.rewards, *np.quantile(log.rewards, [few, 1 - few]))
    rng = np.random.default_rng(9)
    own = halves(log, rng)
    z = Standardise.fit(log.states, tame=True)(log.states)
    inputs = with_action(z, log.actions, log.n_actions)
    fitted = np.empty(log.n_transitions)
    for k in (0, 1):
        asked = np.flatnonzero(own == k)
        if len(asked) == 0:
            continue
        taught = np.flatnonzero(own != k) if log.n_groups > 1 else asked
        rows = teaching_rows(log, taught, rng)
        trees = grown(inputs[rows], rewards[rows], trees=_TREES, smallest=_SMALLEST, seed=900 + k)
        values = averages(trees.leaves(inputs[rows]), trees.nodes) @ rewards[rows]
        asked_rows = log.rows(asked)
        fitted[asked_rows] = trees.means(values, inputs[asked_rows])
    return fitted
