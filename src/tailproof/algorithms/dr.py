"""Doubly robust evaluation: a critic, corrected by reweighted Bellman residuals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailproof.algorithms.base import CriticAlgorithm, Numbers
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import Unit, check_mean, marginal_weights, unit_mean
from tailproof.algorithms.residuals import bellman_residuals
from tailproof.algorithms.task import Task
from tailproof.arrays import IntArray
from tailproof.errors import MethodError, PartitionError
from tailproof.features import Features
from tailproof.log import Log
from tailproof.means import Mean, SampleMean
from tailproof.partition import Folds


@dataclass(frozen=True, kw_only=True)
class DR:
    """Double reinforcement learning: Ĵ = E Q(s₀, π) + mean(w_i δ_i).

    δ is the Bellman residual of a critic and w the marginal weight of `MIS`, both fitted on other
    episodes than those they are applied to. Right if either the critic or the weights are; worth its
    cost when they come from different function classes.

    Parameters
    ----------
    critic
        The base that fits Q: `LSTD`, `FQE` with any regressor, …
    features, ridge
        For the weights.
    mean, unit
        How the mean of w_i δ_i is taken; see `MIS`.
    parts
        Number of parts a fold is cut in: each is scored with what the others taught. One part means
        no cross-fitting; then, with one feature map and no ridge, DR, MIS and LSTD are one number.
    """

    critic: CriticAlgorithm = field(default_factory=LSTD)
    features: Features | None = None
    ridge: Any = 1e-6
    mean: Mean = SampleMean()
    unit: Unit = "step"
    parts: int = 2

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit)
        LSTD(ridge=self.ridge)
        if not isinstance(self.critic, CriticAlgorithm):
            raise MethodError(
                f"critic must be a base that fits critics, such as LSTD() or FQE(). "
                f"Got {self.critic!r} instead."
            )
        if self.parts < 1:
            raise MethodError(f"parts must be at least 1. Got {self.parts!r} instead.")

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        parts, training = cross_fit(task.log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        lstd = LSTD(features=self.features, ridge=self.ridge)
        matrix, stats = lstd.system(lstd.design(task, training), rng=rng)
        weights = marginal_weights(lstd.design(task, parts), matrix, trained_on=stats.count)
        points = task.initial_points()
        direct = critics.values(points.states, points.actions) @ points.weights  # (K · parts,)
        values, samples, kept_weights = np.empty(folds.count), [], []
        for k in range(folds.count):
            own = [k * self.parts + part for part in range(self.parts)]
            corrections = [
                weights[j]
                * bellman_residuals(
                    critics.subset(np.array([j])), task, task.log.rows(parts.episodes(j))
                )
                for j in own
            ]
            log = task.log.take(np.concatenate([parts.episodes(j) for j in own]))
            correction = np.concatenate(corrections)
            share = np.array([len(part) for part in corrections]) / len(correction)
            values[k] = direct[own] @ share + unit_mean(
                correction, log, mean=self.mean, unit=self.unit, rng=rng
            )
            samples.append(correction)
            kept_weights.append(np.concatenate([weights[j] for j in own]))
        return Numbers(values, tuple(samples), tuple(kept_weights))


def cross_fit(log: Log, folds: Folds, parts: int, rng: np.random.Generator) -> tuple[Folds, Folds]:
    """Cut each fold in parts of whole groups; return the parts and, for each, the rest of its fold."""
    if parts == 1:
        return folds, folds
    scored, training = [], []
    for k, counts in enumerate(folds.counts):
        groups = np.unique(log.group_of_episode[counts > 0])
        if len(groups) < parts:
            raise PartitionError(
                f"Cross-fitting in {parts} parts needs {parts} groups of episodes in every fold. "
                f"Fold {k} has {len(groups)}; use fewer folds or a longer log."
            )
        part_of_group = np.full(log.n_groups, -1)
        part_of_group[rng.permutation(groups)] = np.arange(len(groups)) % parts
        part: IntArray = part_of_group[log.group_of_episode]
        for number in range(parts):
            scored.append(np.where(part == number, counts, 0))
            training.append(np.where(part == number, 0, counts))
    return Folds(np.stack(scored)), Folds(np.stack(training))
