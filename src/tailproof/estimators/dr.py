"""Doubly robust evaluation: a critic, corrected by reweighted Bellman residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import (
    Capabilities,
    CriticAlgorithm,
    Numbers,
    require_evaluating_critic,
)
from tailproof.critics.ensembles import Critics
from tailproof.critics.linear import (
    Unit,
    bellman_residuals,
    check_mean,
    unit_mean,
)
from tailproof.critics.lstd import LSTD
from tailproof.critics.penalties import EVALUATING, RidgeChoice
from tailproof.critics.task import Task
from tailproof.errors import PartitionError
from tailproof.estimators.mis import marginal_weights
from tailproof.features import Features
from tailproof.log.folds import Folds, shuffled_groups
from tailproof.log.log import Log
from tailproof.parameters import COUNT, Configurable
from tailproof.robust.means import Mean, SampleMean


@dataclass(frozen=True, kw_only=True)
class DR(Configurable):
    """Double reinforcement learning: Ĵ = E Q(s₀, π) + mean(w_i δ_i).

    δ is the Bellman residual of a critic and w the marginal weight of `MIS`, both fitted on other
    episodes than those they are applied to. Consistent if either the critic or the weights are; useful
    when they come from different function classes.

    Parameters
    ----------
    critic
        The base that fits Q: `LSTD`, `FQE` with any regressor, …
    features, ridge
        For the weights.
    mean, unit
        How the mean of w_i δ_i is taken; see `MIS`.
    parts
        Number of parts of a fold for cross-fitting: each is scored with models fitted to the others.
        1 means no cross-fitting; then, with one feature map and no ridge, DR equals MIS and LSTD.
    """

    constraints: ClassVar = {"parts": COUNT}

    critic: CriticAlgorithm = field(default_factory=LSTD)
    features: Features | str | None = None
    ridge: RidgeChoice = EVALUATING
    mean: Mean = SampleMean()
    unit: Unit = "step"
    parts: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mean(self.mean, self.unit)
        LSTD(ridge=self.ridge)
        require_evaluating_critic(self.critic)

    @property
    def capabilities(self) -> Capabilities:
        """Needs of a log what its critic needs."""
        return Capabilities(needs=self.critic.capabilities.needs)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        parts, training = cross_fit(task.log, folds, self.parts, rng)
        lstd = LSTD(features=self.features, ridge=self.ridge)
        design = lstd.design(task, training)
        if isinstance(self.critic, LSTD) and self.critic.features == self.features:
            critics: Critics = self.critic.solved(design, rng).critics  # from the same statistics
        else:
            critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        system = lstd.system(design, rng)
        points = task.initial_points()
        direct = critics.values(points.states, points.actions) @ points.weights  # (K · parts,)
        weights = marginal_weights(
            replace(system.design, folds=parts), system.bellman, trained_on=system.stats.count
        )
        average = partial(unit_mean, mean=self.mean, unit=self.unit, rng=rng)
        return corrected(task, critics, folds, parts, weights, direct, average)


def corrected(
    task: Task,
    critics: Critics,
    folds: Folds,
    parts: Folds,
    weights: Sequence[FloatArray],
    direct: FloatArray,
    average: Callable[[FloatArray, Log, IntArray], float],
) -> Numbers:
    """Return the critics' values plus the average of w δ in each fold.

    Each part of a fold has a critic, weights of its rows, and the critic's value E Q(s₀, π).
    """
    count = parts.count // folds.count
    values, samples, kept = np.empty(folds.count), [], []
    for k in range(folds.count):
        own = range(k * count, (k + 1) * count)
        episodes = [parts.episodes(j) for j in own]
        residuals = [
            bellman_residuals(critics.subset(np.array([j])), task, task.log.rows(each))
            for j, each in zip(own, episodes, strict=True)
        ]
        weight = np.concatenate([weights[j] for j in own])
        correction = weight * np.concatenate(residuals)
        share = np.array([len(weights[j]) for j in own]) / len(weight)
        values[k] = direct[own] @ share + average(correction, task.log, np.concatenate(episodes))
        samples.append(correction)
        kept.append(weight)
    return Numbers(values, tuple(samples), tuple(kept))


def cross_fit(log: Log, folds: Folds, parts: int, rng: np.random.Generator) -> tuple[Folds, Folds]:
    """Split each fold into parts of whole groups; return the parts and, for each, the other parts."""
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
        order = shuffled_groups(log, rng)
        part_of_group[order[np.isin(order, groups)]] = np.arange(len(groups)) % parts
        part: IntArray = part_of_group[log.group_of_episode]
        for number in range(parts):
            scored.append(np.where(part == number, counts, 0))
            training.append(np.where(part == number, 0, counts))
    return Folds(np.stack(scored)), Folds(np.stack(training))
