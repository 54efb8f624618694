"""One-step logs with known propensities: importance sampling and its relatives, γ = 0."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailproof.algorithms.base import CriticAlgorithm, Numbers
from tailproof.algorithms.dr import cross_fit
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import Unit, check_mean, unit_mean
from tailproof.algorithms.residuals import bellman_residuals
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.errors import LogError, MethodError, PolicyError, WeightWarning
from tailproof.log import Log
from tailproof.means import Mean, SampleMean
from tailproof.partition import Folds
from tailproof.policies import action_probabilities, log_densities

_OFF = 0.2  # how far from one the mean weight may be without a word


@dataclass(frozen=True)
class Clip:
    """w ↦ min(w, largest): less variance, and a bias where the policy leaves the log."""

    largest: float

    def __post_init__(self) -> None:
        if not self.largest > 0:
            raise MethodError(f"largest must be positive. Got {self.largest!r} instead.")

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the weights, none above `largest`."""
        return np.minimum(weights, self.largest)


@dataclass(frozen=True)
class Shrink:
    """w ↦ λw / (w² + λ): optimistic shrinkage (Su et al. 2020). λ = ∞ leaves w, λ = 0 gives 0."""

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise MethodError(f"strength must be at least 0. Got {self.strength!r} instead.")

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the shrunk weights."""
        if np.isinf(self.strength):
            return weights
        if self.strength == 0:
            return np.zeros_like(weights)
        shrunk: FloatArray = self.strength * weights / (weights**2 + self.strength)
        return shrunk


@dataclass(frozen=True, kw_only=True)
class IPS:
    """Inverse propensity scoring: mean(w_i r_i), w = π(a|s) / μ(a|s).

    Parameters
    ----------
    mean, unit
        How the mean is taken; see `MIS`.
    reweight
        What is done to the weights first: `Clip`, `Shrink`, or nothing.
    self_normalised
        Divide by the mean weight (SNIPS): less variance when the weights vary, a bias of order 1/n.
    """

    mean: Mean = SampleMean()
    unit: Unit = "step"
    reweight: Clip | Shrink | None = None
    self_normalised: bool = False

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        all_weights = importance_weights(task, self.reweight)
        values, samples, weights = np.empty(folds.count), [], []
        for k in range(folds.count):
            log, own = folds.log(task.log, k), all_weights[task.log.rows(folds.episodes(k))]
            product = own * log.rewards
            values[k] = unit_mean(product, log, mean=self.mean, unit=self.unit, rng=rng)
            if self.self_normalised:
                values[k] = values[k] / own.mean() if own.any() else np.nan
            samples.append(product)
            weights.append(own)
        return Numbers(values, tuple(samples), tuple(weights))


@dataclass(frozen=True, kw_only=True)
class BanditDR:
    """Doubly robust for one step: E_π q(s, ·) + mean(w_i (r_i − q(s_i, a_i))), q cross-fitted.

    Parameters
    ----------
    critic
        The base that fits q, for instance `LSTD()` or `FQE(model=…)`.
    mean, unit, reweight
        As in `IPS`.
    parts
        Number of parts for cross-fitting; see `DR`.
    """

    critic: CriticAlgorithm = field(default_factory=LSTD)
    mean: Mean = SampleMean()
    unit: Unit = "step"
    reweight: Clip | Shrink | None = None
    parts: int = 2

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        all_weights = importance_weights(task, self.reweight)
        parts, training = cross_fit(task.log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        points = task.initial_points()
        direct = critics.values(points.states, points.actions) @ points.weights
        values, samples, weights = np.empty(folds.count), [], []
        for k in range(folds.count):
            own = [k * self.parts + part for part in range(self.parts)]
            rows = [task.log.rows(parts.episodes(j)) for j in own]
            residuals = [
                bellman_residuals(critics.subset(np.array([j])), task, chosen)
                for j, chosen in zip(own, rows, strict=True)
            ]
            log = task.log.take(np.concatenate([parts.episodes(j) for j in own]))
            weight = all_weights[np.concatenate(rows)]
            correction = weight * np.concatenate(residuals)
            share = np.array([len(chosen) for chosen in rows]) / len(correction)
            values[k] = direct[own] @ share + unit_mean(
                correction, log, mean=self.mean, unit=self.unit, rng=rng
            )
            samples.append(correction)
            weights.append(weight)
        return Numbers(values, tuple(samples), tuple(weights))


def importance_weights(task: Task, reweight: Clip | Shrink | None = None) -> FloatArray:
    """Return π(a|s) / μ(a|s) of a one-step log, (n,), clipped or shrunk on request."""
    log = task.log
    if not log.is_bandit:
        raise LogError(
            f"Bandit estimators need episodes of one step. The log has up to {log.lengths.max()} "
            f"steps an episode; use 'mis' or 'dr', or cut it into one-step episodes."
        )
    if log.propensity is None:
        raise LogError(
            "Bandit estimators need the propensity with which each action was logged. The log has "
            "none; pass propensity=, or use 'lstd' (the direct method), which needs none."
        )
    weights: FloatArray = target_density(task.policy, log) / log.propensity
    _warn_of_their_mean(weights)
    return weights if reweight is None else reweight(weights)


def _warn_of_their_mean(weights: FloatArray) -> None:
    """Warn when the weights do not average one, as they must if propensities are what they were."""
    mean = float(weights.mean())
    error = float(weights.std()) / np.sqrt(len(weights))
    if abs(mean - 1) > max(_OFF, 5 * error):
        warnings.warn(
            f"The importance weights average {mean:.3g} and should average 1: propensities are not "
            f"those with which the actions were taken, or the policy does what was never tried. The "
            f"plain weighted mean is off by about as much; check the propensity column, or use 'lstd'.",
            WeightWarning,
            stacklevel=3,
        )


def target_density(policy: Any, log: Log) -> FloatArray:
    """Return π(a|s), or its density, at the logged actions, (n,)."""
    if log.is_discrete:
        probabilities = action_probabilities(policy, log.states, log.n_actions)
        taken: FloatArray = probabilities[np.arange(log.n_transitions), log.actions]
        return taken
    if not hasattr(policy, "log_prob"):
        raise PolicyError(
            "Importance weights over continuous actions need policy.log_prob(states, actions). "
            f"{type(policy).__name__} has none; add it, or use 'lstd'."
        )
    density: FloatArray = np.exp(log_densities(policy, log.states, log.actions))
    return density
