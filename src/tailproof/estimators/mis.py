"""Marginal importance sampling: reweight logged rewards to the policy's visits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.base import Capabilities, Numbers
from tailproof.critics.linear import (
    Design,
    Unit,
    check_mean,
    side_by_side,
    solve,
    unit_mean,
    weighted_samples,
    weights_of_part,
)
from tailproof.critics.lstd import LSTD
from tailproof.critics.penalties import EVALUATING, RidgeChoice
from tailproof.critics.task import Task
from tailproof.errors import MethodError
from tailproof.features import Features
from tailproof.log.folds import Folds
from tailproof.parameters import Configurable
from tailproof.robust.means import Mean, SampleMean
from tailproof.robust.pooling import TailPooled

_FEW = 1 << 16  # first states whose features are computed at a time


@dataclass(frozen=True, kw_only=True)
class MIS(Configurable):
    """Linear marginal importance sampling (section 3.1, algorithm 3).

    With A as in `LSTD` and g = E_{s₀, π} φ, the weights w_i = n·φ_iᵀA⁻ᵀg estimate
    d^π(s, a) / ((1 − γ) d^D(s, a)), and Ĵ = mean(w_i r_i). (The paper's display omits 1/(1 − γ).)

    A does not depend on rewards, so on the whole log only the scalar mean has heavy tails and any
    robust mean can replace it. That is the *pooled-weight* estimator, ``method("mis", mean=Catoni())``.
    It uses all n rows, while a fold of ROAM uses 1/K of them.

    Parameters
    ----------
    mean
        The mean of the samples w_i r_i; `TailPooled` pools the sizes of extreme rewards first.
    unit
        What a sample is: a ``"step"``, or the sum over an ``"episode"`` or ``"group"``. Where extreme
        rewards come in clusters only sums are safe; where they are isolated, steps are far better.
    self_normalised
        Divide by the mean of (1 − γ) w, which should be one. Only for γ < 1 on logs without terminal
        transitions, where that mean is one in expectation.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(needs="chunks")

    features: Features | str | None = None
    ridge: RidgeChoice = EVALUATING
    mean: Mean | TailPooled = SampleMean()
    unit: Unit = "step"
    self_normalised: bool = False

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit, pools=True)
        LSTD(ridge=self.ridge)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        if self.self_normalised and (task.gamma == 1 or task.log.ends.any()):
            raise MethodError(
                "self_normalised=True needs γ < 1 and a log without terminal transitions, because "
                "only then is the mean weight known to be one. Use self_normalised=False."
            )
        lstd = LSTD(features=self.features, ridge=self.ridge)
        system = lstd.system(lstd.design(task, folds, keep=True), rng)
        weights = marginal_weights(system.design, system.bellman)
        values, samples = np.empty(folds.count), []
        for k, weight in enumerate(weights):
            own = folds.episodes(k)
            rewards = task.log.rewards[task.log.rows(own)]
            product, mean = weighted_samples(rewards, weight, task.log, own, mean=self.mean)
            values[k] = unit_mean(product, task.log, own, mean=mean, unit=self.unit, rng=rng)
            if self.self_normalised:
                values[k] /= (1 - task.gamma) * weight.mean()
            samples.append(product)
        return Numbers(values, tuple(samples), tuple(weights))


def start_features(design: Design) -> FloatArray:
    """Return g = E_{s₀, π} φ, (d,)."""
    points = design.task.initial_points()
    start = np.zeros(design.features.size)
    for first in range(0, len(points.weights), _FEW):  # the features of all may not fit in memory
        rows = slice(first, first + _FEW)
        start += points.weights[rows] @ design.features(points.states[rows], points.actions[rows])
    return start


def marginal_direction(design: Design, matrix: FloatArray) -> FloatArray:
    """Return A⁻ᵀg for each member, (K, d): the marginal weights are w_i = n φ_iᵀA⁻ᵀg."""
    right = np.broadcast_to(start_features(design)[:, None], (*matrix.shape[:2], 1))
    return solve(np.swapaxes(matrix, 1, 2), right)[..., 0]


def marginal_weights(
    design: Design, matrix: FloatArray, *, trained_on: FloatArray | None = None
) -> list[FloatArray]:
    """Return w_i = n_k φ_iᵀA_k⁻ᵀg for the rows of each member, in the order of its rows.

    `trained_on` is n_k, if A_k was fitted to other rows than the design's.
    """
    part = partial(weights_of_part, marginal_direction(design, matrix))
    log, folds = design.task.log, design.folds
    weights = design.reduce(part, side_by_side)
    result = []
    for k in range(folds.count):
        own = weights[k if design.shares_rows else 0][log.rows(folds.episodes(k))]
        result.append(own * (len(own) if trained_on is None else trained_on[k]))
    return result
