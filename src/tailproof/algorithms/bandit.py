"""One-step logs with known propensities: importance sampling and its relatives, γ = 0."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tailproof.algorithms.base import (
    Capabilities,
    CriticAlgorithm,
    Numbers,
    require_evaluating_critic,
)
from tailproof.algorithms.default.units import Unit, check_mean, unit_mean
from tailproof.algorithms.dr import corrected, cross_fit
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.one_step.simple import (
    BIASED,
    OF_THE_PLAIN_MEAN,
    scored_choice,
    weighted_choice,
)
from tailproof.algorithms.task import Task
from tailproof.algorithms.weighting import Reweight
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.errors import LogError, PolicyError, WeightWarning
from tailproof.parameters import Configurable
from tailproof.policies.simple import action_probabilities, log_densities
from tailproof.statistics.means import Mean, SampleMean

_OFF = 0.2  # how far from 1 the mean weight may be without a warning


@dataclass(frozen=True, kw_only=True)
class IPS(Configurable):
    """Inverse propensity scoring: mean(w_i r_i), w = π(a|s) / μ(a|s).

    Parameters
    ----------
    mean, unit
        How the mean is taken; see `MIS`.
    reweight
        How the weights are changed before the mean: `Clip`, `Shrink`, `ImplicitExploration`,
        `PowerMean`, `ExponentialSmoothing`; None leaves them as they are.
    self_normalised
        Divide by the mean weight (SNIPS): less variance when the weights vary, a bias of order 1/n.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()

    mean: Mean = SampleMean()
    unit: Unit = "step"
    reweight: Reweight | None = None
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
        numbers = Numbers(values, tuple(samples), tuple(weights))
        if folds.count > 1:
            return numbers
        choice = weighted_choice(
            task.log,
            task.log.rewards,
            all_weights,
            self_normalised=self.self_normalised,
            estimator="self-normalised weighted mean" if self.self_normalised else "weighted mean",
            guaranteed=self.reweight is None,
            cautions=_cautions(self.mean, self.reweight),
            point=values[0],
        )
        return replace(numbers, choice=choice)


@dataclass(frozen=True, kw_only=True)
class BanditDR(Configurable):
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

    capabilities: ClassVar[Capabilities] = Capabilities()

    critic: CriticAlgorithm = field(default_factory=LSTD)
    mean: Mean = SampleMean()
    unit: Unit = "step"
    reweight: Reweight | None = None
    parts: int = 2

    def __post_init__(self) -> None:
        require_evaluating_critic(self.critic)
        check_mean(self.mean, self.unit)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        log, weights = task.log, importance_weights(task, self.reweight)
        parts, training = cross_fit(log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        points = task.initial_points()
        every = critics.values(points.states, points.actions)  # (K · parts, P)
        rows = [log.rows(parts.episodes(j)) for j in range(parts.count)]
        own, direct = [weights[each] for each in rows], every @ points.weights
        average = partial(unit_mean, mean=self.mean, unit=self.unit, rng=rng)
        numbers = corrected(task, critics, folds, parts, own, direct, average)
        starts = task.initial_states
        if folds.count > 1 or not (starts is None or np.array_equal(starts, log.states)):
            return numbers  # not every row has a score
        share = np.array([len(each) for each in rows]) / sum(map(len, rows))
        model = share @ every * points.weights * log.n_transitions  # (P,)
        scores = np.bincount(points.start, weights=model).astype(float)
        scores[np.concatenate(rows)] += numbers.samples[0]
        choice = scored_choice(
            log,
            scores,
            weights=weights,
            estimator="doubly robust mean",
            cautions=_cautions(self.mean, self.reweight),
            point=numbers.values[0],
        )
        return replace(numbers, choice=choice)


def _cautions(mean: Mean, reweight: Reweight | None) -> tuple[str, ...]:
    """Return the errors that the interval of such an estimate does not include, in words."""
    changed = () if reweight is None else (BIASED,)
    return changed if isinstance(mean, SampleMean) else (*changed, OF_THE_PLAIN_MEAN)


def importance_weights(task: Task, reweight: Reweight | None = None) -> FloatArray:
    """Return π(a|s) / μ(a|s) of a one-step log, (n,), changed by `reweight` if given."""
    log = task.log
    if not log.is_bandit:
        raise LogError(
            f"Bandit estimators need episodes of one step. The log has up to {log.lengths.max()} "
            f"steps an episode; use 'mis' or 'dr', or cut it into one-step episodes."
        )
    if log.propensity is None:
        raise LogError(
            "Bandit estimators need the propensity with which each action was logged. The log has "
            "none; pass propensity=..., estimate it with tailproof.sources.propensities, or use 'lstd' "
            "(the direct method), which needs none."
        )
    weights: FloatArray = target_density(task.policy, log) / log.propensity
    mean, error = float(weights.mean()), float(weights.std()) / np.sqrt(len(weights))
    if abs(mean - 1) > max(_OFF, 5 * error):
        warnings.warn(
            f"The importance weights average {mean:.3g} and should average 1: propensities are not "
            f"those with which the actions were taken, or the policy does what was never tried. The "
            f"plain weighted mean is off by about as much; check the propensity column, or use 'lstd'.",
            WeightWarning,
            stacklevel=2,
        )
    return weights if reweight is None else reweight(weights, log.propensity)


def target_density(policy: Any, log: Log) -> FloatArray:
    """Return π(a|s), or its density, at the logged actions, (n,)."""
    if log.is_discrete:
        places = log.table_rows.rows
        probabilities = action_probabilities(policy, log.states, log.n_actions, rows=places)
        taken: FloatArray = probabilities[np.arange(log.n_transitions), log.actions]
        return taken
    if not hasattr(policy, "log_prob"):
        raise PolicyError(
            "Importance weights over continuous actions need policy.log_prob(states, actions). "
            f"{type(policy).__name__} has none; add it, or use 'lstd'."
        )
    density: FloatArray = np.exp(log_densities(policy, log.states, log.actions))
    return density
