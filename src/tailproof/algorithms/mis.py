"""Marginal importance sampling: reweight logged rewards to the policy's visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.linear import Design, solve
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.errors import MethodError
from tailproof.features import Features
from tailproof.log import Log
from tailproof.means import Mean, SampleMean
from tailproof.partition import Folds

Unit = Literal["step", "episode", "group"]
UNITS: tuple[Unit, ...] = ("step", "episode", "group")


@dataclass(frozen=True, kw_only=True)
class MIS:
    """Linear marginal importance sampling (section 3.1, algorithm 3).

    With A as in `LSTD` and g = E_{s₀, π} φ, the weights w_i = n·φ_iᵀA⁻ᵀg estimate
    d^π(s, a) / ((1 − γ) d^D(s, a)), and Ĵ = mean(w_i r_i). (The paper's display omits 1/(1 − γ).)

    A holds no reward, so on the whole log only that scalar mean meets the tail: any robust mean may
    take it. That is the *pooled-weight* estimator, ``method("mis", mean=Catoni())``. Its variance is
    that of all n rows, where a fold of ROAM has 1/K of them.

    Parameters
    ----------
    mean
        The mean of the samples w_i r_i.
    unit
        What a sample is: a ``"step"``, or the sum over an ``"episode"`` or ``"group"``. Where extreme
        rewards come in clusters only sums are safe; where they come alone, steps are far better.
    self_normalised
        Divide by the mean of (1 − γ) w, which should be one. Only for γ < 1 on logs without terminal
        transitions, where that mean is one in expectation.
    """

    features: Features | None = None
    ridge: Any = 1e-6
    mean: Mean = SampleMean()
    unit: Unit = "step"
    self_normalised: bool = False

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit)
        LSTD(ridge=self.ridge)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        if self.self_normalised and (task.gamma == 1 or task.log.terminated.any()):
            raise MethodError(
                "self_normalised=True needs γ < 1 and a log without terminal transitions, because "
                "only then is the mean weight known to be one. Use self_normalised=False."
            )
        lstd = LSTD(features=self.features, ridge=self.ridge)
        design = lstd.design(task, folds, keep=True)
        matrix, _ = lstd.system(design, rng=rng)
        weights = marginal_weights(design, matrix)
        values = np.empty(folds.count)
        samples = []
        for k, weight in enumerate(weights):
            log = folds.log(task.log, k) if folds.count > 1 else task.log
            product = weight * log.rewards
            values[k] = unit_mean(product, log, mean=self.mean, unit=self.unit, rng=rng)
            if self.self_normalised:
                values[k] /= (1 - task.gamma) * weight.mean()
            samples.append(product)
        return Numbers(values, tuple(samples), tuple(weights))


def marginal_weights(
    design: Design, matrix: FloatArray, *, trained_on: FloatArray | None = None
) -> list[FloatArray]:
    """Return w_i = n_k φ_iᵀA_k⁻ᵀg for the rows of each member, in the order of its own log.

    `trained_on` is n_k where A_k comes from other rows than the design's.
    """
    points = design.task.initial_points()
    start = points.weights @ design.features(points.states, points.actions)  # g, (d,)
    right = np.broadcast_to(start[:, None], (*matrix.shape[:2], 1))
    direction = solve(np.swapaxes(matrix, 1, 2), right)[..., 0]  # A⁻ᵀg, (K, d)
    log, folds = design.task.log, design.folds
    shared = folds.are_disjoint  # then every row has one member, and one column holds them all
    weights = np.empty((1 if shared else folds.count, log.n_transitions))
    for rows in design:
        places = np.arange(log.n_transitions)[rows.index]
        for segment in rows.segments:
            member, chosen = segment.member, places[segment.rows]
            weights[0 if shared else member, chosen] = rows.values(segment, direction[member])
    result = []
    for k in range(folds.count):
        own = weights[0 if shared else k][log.rows(folds.episodes(k))]
        result.append(own * (len(own) if trained_on is None else trained_on[k]))
    return result


def unit_mean(
    samples: FloatArray, log: Log, *, mean: Mean, unit: Unit, rng: np.random.Generator
) -> float:
    """Return the robust mean of per-step samples, taken over steps or sums of episodes or groups.

    With E units, mean(samples) = (E / n) · mean(sums), so the robust mean of the sums is scaled back.
    Samples that are not finite (of a fold whose system is singular) have the mean NaN.
    """
    if not np.isfinite(samples).all():
        return float("nan")
    if unit == "step":  # steps stand alone unless the log says that they do not
        named = log.group_ids is not None
        groups = log.group_of_episode[log.episode_of_row] if named else None
        return float(mean(samples, groups=groups, rng=rng))
    sums = np.add.reduceat(samples, log.starts[:-1])
    groups = log.group_of_episode
    if unit == "group":
        sums, groups = np.bincount(groups, weights=sums), np.arange(groups.max() + 1)
    return float(mean(sums, groups=groups, rng=rng)) * len(sums) / len(samples)


def check_mean(mean: Any, unit: Any) -> None:
    """Refuse a mean that cannot be called and a unit that does not exist."""
    if not callable(mean):
        raise MethodError(
            f"mean must be one of tailproof.means, for instance AdaptiveHuber(). Got {mean!r}."
        )
    if unit not in UNITS:
        raise MethodError(f"unit must be one of {', '.join(UNITS)}. Got {unit!r} instead.")
