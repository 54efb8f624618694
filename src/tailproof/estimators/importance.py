"""Importance sampling over rows and whole episodes, for logs with propensities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tailproof.arrays import FloatArray
from tailproof.critics.base import Capabilities, CriticAlgorithm, Numbers, require_evaluating_critic
from tailproof.critics.linear import (
    Unit,
    bellman_residuals,
    check_mean,
    unit_mean,
    weighted_samples,
)
from tailproof.critics.lstd import LSTD
from tailproof.critics.task import Task
from tailproof.errors import (
    Caution,
    HorizonWarning,
    LogError,
    MethodError,
    PolicyError,
    WeightWarning,
)
from tailproof.estimators.choice import OneStepChoice, guarantee, limits_of, standard_error
from tailproof.estimators.dr import corrected, cross_fit
from tailproof.estimators.ladder import is_settled
from tailproof.log.folds import Folds, Whole
from tailproof.log.log import CHUNK, Log
from tailproof.parameters import COUNT, SHARE, Configurable, Within
from tailproof.policies.forms import BoundPolicy, Policy, bound, name_of
from tailproof.profile.observations import (
    Observations,
    common_rewards,
    common_value,
    logged_scores,
    rare_spread,
)
from tailproof.profile.profile import LogProfile
from tailproof.robust.means import Labels, Mean, Rng, SampleMean
from tailproof.robust.pooling import TailPooled
from tailproof.robust.spreads import Rare, Spread, hall_spread
from tailproof.rules import RULES


class Reweight(Protocol):
    """A change of the weights w = π/μ that trades variance for bias."""

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the changed weights, (n,), given w and μ."""


@dataclass(frozen=True)
class Clip(Configurable):
    """w ↦ min(w, largest): less variance, and a bias where the policy differs much from the log."""

    constraints: ClassVar = {"largest": Within("(0, inf]")}

    largest: float

    def __call__(self, weights: FloatArray, propensity: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        """Return the weights, none above `largest`."""
        return np.minimum(weights, self.largest)


@dataclass(frozen=True)
class Shrink(Configurable):
    """w ↦ λw / (w² + λ): optimistic shrinkage (Su et al. 2020). λ = ∞ leaves w, λ = 0 gives 0."""

    constraints: ClassVar = {"strength": Within("[0, inf]")}

    strength: float

    def __call__(self, weights: FloatArray, propensity: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        """Return the shrunk weights."""
        if np.isinf(self.strength):
            return weights
        if self.strength == 0:
            return np.zeros_like(weights)
        return np.asarray(self.strength * weights / (weights**2 + self.strength))


@dataclass(frozen=True)
class ImplicitExploration(Configurable):
    """π / (μ + γ), IX (Neu 2015; Gabbianelli et al. 2024): never above 1/γ, and γ = 0 leaves w."""

    constraints: ClassVar = {"offset": Within("[0, inf]")}

    offset: float

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return w μ / (μ + γ)."""
        return np.asarray(weights * (propensity / (propensity + self.offset)))


@dataclass(frozen=True)
class PowerMean(Configurable):
    """w / (1 − λ + λw), the harmonic mean of w and 1 (Metelli et al. 2021): never above 1/λ.

    λ = 0 leaves w, λ = 1 gives 1.
    """

    constraints: ClassVar = {"strength": SHARE}

    strength: float

    def __call__(self, weights: FloatArray, propensity: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        """Return the smoothed weights."""
        if self.strength == 1:
            return np.where(weights > 0, 1.0, 0.0)
        return np.asarray(weights / (1 - self.strength + self.strength * weights))


@dataclass(frozen=True)
class ExponentialSmoothing(Configurable):
    """π / μ^β (Aouali et al. 2023): β = 1 leaves w, β = 0 gives π."""

    constraints: ClassVar = {"power": SHARE}

    power: float

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return w μ^(1 − β)."""
        return np.asarray(weights * propensity ** (1 - self.power))


@dataclass(frozen=True)
class LogSumExp(Configurable):
    """The LSE mean −(1/λ) log mean exp(−λx) (Behnamnia et al. 2025): large samples are damped.

    λ = strength / (√n · root mean square), so that it adapts to the unit of x and vanishes as n
    grows; strength 0 is the plain mean. Gains and losses are averaged separately. Unlike the means of
    `tailproof.robust.means` it is not shift-equivariant.
    """

    constraints: ClassVar = {"strength": Within("[0, inf]")}

    strength: float = 1.0

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:  # noqa: ARG002
        """Return the mean of samples, (n,)."""
        x = np.asarray(samples, dtype=float)
        scale = float(np.sqrt(np.mean(x**2)))
        if self.strength == 0 or scale == 0:
            return float(x.mean())
        rate = self.strength / (np.sqrt(len(x)) * scale)
        gains, losses = (
            -float(np.log1p(np.expm1(-rate * np.maximum(side, 0)).mean())) / rate
            for side in (x, -x)
        )
        return float(gains - losses)


#: Caution for intervals with changed weights.
BIASED = "it does not know the bias of the changed weights"
#: Caution for estimates that are robust means.
OF_THE_PLAIN_MEAN = "it is the interval of the plain mean, and holds the robust one"


def weighted_choice(
    log: Log,
    returns: FloatArray,
    weights: FloatArray,
    *,
    self_normalised: bool,
    guaranteed: bool = True,
    rare_below: int = RULES.rare_events,
    **said: Any,
) -> OneStepChoice | None:
    """Return mean(w G), over mean(w) if self-normalised, with its spread; None if all weights are 0.

    `returns` and `weights` are those of episodes, (E,); `guaranteed` says that the weights are the
    unchanged π/μ. With fewer than `rare_below` events under the policy the interval is one of rare
    events. `said` holds the name of the `estimator`, its `point` if that is not the plain mean, and
    `cautions`.
    """
    mean = float(weights.mean())
    if self_normalised and mean == 0:
        return None
    w = weights / mean if self_normalised else weights
    observations, common, scores = Observations.of(log), _common(log, returns), w * returns
    bound: FloatArray | str = "it needs the weights π/μ as they are."
    if guaranteed:
        bound = guarantee(observations, weights, returns, known=True)
    influence = w * (returns - float(scores.mean())) if self_normalised else None
    spread: Rare | None = None
    # the weighted mean of a non-zero common reward varies unless weights are normalised
    if common is not None and (self_normalised or not common.any()):
        differ = returns - common
        events = observations.events((differ != 0) & (weights > 0))
        if events < rare_below and differ.any() and w.any():
            usual = float((w * common).mean())
            error = standard_error(observations.influence(w * (common - usual)))
            spread = rare_spread(observations, usual, differ, w, common_error=error)
    return _choice(log, scores, influence, weights, returns, common, bound, spread, **said)


def scored_choice(
    log: Log,
    scores: FloatArray,
    *,
    weights: FloatArray,
    returns: FloatArray | None = None,
    influence: FloatArray | None = None,
    **said: Any,
) -> OneStepChoice:
    """Return the mean of scores, one for each episode, (E,), with its spread.

    The weights measure the overlap; `returns` are the logged returns, by default the rewards of a
    one-step log. If scores depend on each other, pass the `influence` of each episode, centred at 0.
    `said` is as in `weighted_choice`.
    """
    logged = log.rewards if returns is None else returns
    bound = "it is one of weighted rewards; ask 'ips' or 'tis' for it."
    return _choice(log, scores, influence, weights, logged, _common(log, logged), bound, **said)


def _common(log: Log, returns: FloatArray) -> FloatArray | None:
    """Return the most common return (of the action, if it differs) per episode, (E,), or None."""
    if log.is_bandit and log.is_discrete:
        table = common_rewards(returns, log.actions, log.n_actions)
        if table is not None:
            return table[log.actions]
    usual = common_value(returns)
    return None if usual is None else np.full(len(returns), usual)


def _choice(
    log: Log,
    scores: FloatArray,
    influence: FloatArray | None,
    weights: FloatArray,
    returns: FloatArray,
    common: FloatArray | None,
    bound: FloatArray | str,
    rare: Rare | None = None,
    *,
    estimator: str,
    cautions: tuple[str, ...] = (),
    point: float | None = None,
) -> OneStepChoice:
    value, observations = float(scores.mean()), Observations.of(log)
    moved = observations.influence(scores - value if influence is None else influence)
    active = (observations.sums(weights) > 0) | (moved != 0)
    spread: Spread = hall_spread(value, moved, active) if rare is None else rare
    logged = logged_scores(observations, returns, common=common, policy_is_rare=rare is not None)
    return OneStepChoice(
        value=value if point is None else point,
        spread=spread,
        influence=moved,
        limits="; ".join([*limits_of(observations, spread, moved, weights), *cautions]),
        possible=logged.possible,
        logged=logged,
        unit=observations.name,
        units=observations.count,
        estimator=estimator,
        plain_error=standard_error(moved),
        alternatives={},
        guarantee=bound,
    )


class WeightedByPropensities(Configurable):
    """Base of the estimators that weigh rows or episodes by the logged propensities."""

    def score(
        self,
        task: Task,
        profile: LogProfile,  # noqa: ARG002 the propensities are the logged ones
        *,
        rng: np.random.Generator,
    ) -> OneStepChoice | None:
        """Return the policy's value with the scores of the rows or episodes; None if there are none."""
        return self._score(task, rng)

    def _score(self, task: Task, rng: np.random.Generator) -> OneStepChoice | None:
        raise NotImplementedError


_OFF = 0.2  # how far from 1 the mean weight may be without a warning


@dataclass(frozen=True, kw_only=True)
class IPS(WeightedByPropensities):
    """Inverse propensity scoring: mean(w_i r_i), w = π(a|s) / μ(a|s).

    Parameters
    ----------
    mean, unit
        How the mean is taken; see `MIS`. `TailPooled` pools the sizes of extreme rewards.
    reweight
        How the weights are changed before the mean: `Clip`, `Shrink`, `ImplicitExploration`,
        `PowerMean`, `ExponentialSmoothing`; None leaves them as they are.
    self_normalised
        Divide by the mean weight (SNIPS): less variance when the weights vary, a bias of order 1/n.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(needs="chunks")

    mean: Mean | TailPooled = SampleMean()
    unit: Unit = "step"
    reweight: Reweight | None = None
    self_normalised: bool = False

    def __post_init__(self) -> None:
        check_mean(self.mean, self.unit, pools=True)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        weights = importance_weights(task, self.reweight)
        own = [weights[task.log.rows(folds.episodes(k))] for k in range(folds.count)]
        found = [self._mean(folds.log(task.log, k), each, rng) for k, each in enumerate(own)]
        return Numbers(np.array(found), weights=tuple(own))

    def _score(self, task: Task, rng: np.random.Generator) -> OneStepChoice | None:
        """Return the policy's value with the scores of the rows; None if all weights are 0."""
        log, weights = task.log, importance_weights(task, self.reweight)
        found = weighted_choice(
            log,
            log.rewards,
            weights,
            self_normalised=self.self_normalised,
            estimator="self-normalised weighted mean" if self.self_normalised else "weighted mean",
            guaranteed=self.reweight is None,
            cautions=_cautions(self.mean, self.reweight),
            point=self._mean(log, weights, rng),
        )
        return None if found is None else replace(found, weights=weights)

    def _mean(self, log: Log, weights: FloatArray, rng: np.random.Generator) -> float:
        scale = float(weights.mean()) if self.self_normalised else 1.0
        if not scale > 0:
            return float("nan")
        samples, mean = weighted_samples(log.rewards, weights / scale, log, mean=self.mean)
        return unit_mean(samples, log, mean=mean, unit=self.unit, rng=rng)


@dataclass(frozen=True, kw_only=True)
class BanditDR(WeightedByPropensities):
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
    constraints: ClassVar = {"parts": COUNT}

    critic: CriticAlgorithm = field(default_factory=LSTD)
    mean: Mean = SampleMean()
    unit: Unit = "step"
    reweight: Reweight | None = None
    parts: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_evaluating_critic(self.critic)
        check_mean(self.mean, self.unit)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        return self._corrected(task, folds, importance_weights(task, self.reweight), rng)[0]

    def _score(self, task: Task, rng: np.random.Generator) -> OneStepChoice | None:
        """Return the policy's value with the scores of the rows; None for other initial states."""
        log, starts = task.log, task.initial_states
        if not (starts is None or np.array_equal(starts, log.states)):
            return None  # not every row has a score
        weights = importance_weights(task, self.reweight)
        numbers, scores = self._corrected(task, Whole().assign(log, rng), weights, rng)
        found = scored_choice(
            log,
            scores,
            weights=weights,
            estimator="doubly robust mean",
            cautions=_cautions(self.mean, self.reweight),
            point=float(numbers.values[0]),
        )
        return replace(found, weights=weights)

    def _corrected(
        self, task: Task, folds: Folds, weights: FloatArray, rng: np.random.Generator
    ) -> tuple[Numbers, FloatArray]:
        """Return the values of the folds, and the scores of the rows of a single one, (n,)."""
        log = task.log
        parts, training = cross_fit(log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        points = task.initial_points()
        every = critics.values(points.states, points.actions)  # (K · parts, P)
        rows = [log.rows(parts.episodes(j)) for j in range(parts.count)]
        own, direct = [weights[each] for each in rows], every @ points.weights
        average = partial(unit_mean, mean=self.mean, unit=self.unit, rng=rng)
        numbers = corrected(task, critics, folds, parts, own, direct, average)
        share = np.array([len(each) for each in rows]) / sum(map(len, rows))
        model = share @ every * points.weights * log.n_transitions  # (P,)
        scores = np.bincount(points.start, weights=model).astype(float)
        if folds.count == 1:
            scores[np.concatenate(rows)] += numbers.samples[0]
        return numbers, scores


def _cautions(mean: Mean | TailPooled, reweight: Reweight | None) -> tuple[str, ...]:
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
            "none; pass propensity=..., estimate it with tailproof.critics.behaviour, or use 'lstd' "
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


def target_density(policy: Policy | BoundPolicy | None, log: Log) -> FloatArray:
    """Return π(a|s), or its density, at the logged actions, (n,)."""
    acts, density = bound(policy, log.action_space), np.empty(log.n_transitions)
    if not (log.is_discrete or acts.has_density):
        raise PolicyError(
            "Importance weights over continuous actions need policy.log_prob(states, actions). "
            f"{name_of(acts)} has none; add it, or use 'lstd'."
        )
    whole = range(log.n_transitions)
    for part in (whole,) if log.budget is None else log.parts:
        for piece in log.chunks(part, size=CHUNK if log.budget else len(whole)):
            own = slice(piece.first, piece.first + len(piece))
            if log.is_discrete:
                chances = acts.probabilities(piece.states, log.table_rows.rows[own])
                density[own] = chances[np.arange(len(piece)), piece.actions]
            else:
                density[own] = np.exp(acts.log_prob(piece.states, piece.actions))
    return density


_NOBODY = Caution(
    "overlap",
    "no logged episode takes the policy's actions throughout, so that nothing checks the critic",
    voids=True,
)
_HORIZON = "episodes that were cut off count as far as they were logged, and no further"


@dataclass(frozen=True, kw_only=True)
class EpisodeIS(WeightedByPropensities):
    """Importance sampling of episodes: mean(w_{T−1} Σ γᵗ r_t), or mean(Σ γᵗ w_t r_t).

    Parameters
    ----------
    per_decision
        Weight each reward by the actions up to it (PDIS) instead of each return by all actions (TIS):
        less variance, no bias.
    self_normalised
        Divide by the mean weight, of the episode or of each step: less variance, a bias of order 1/n.
        After the end of an episode its last weight is used.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(needs="chunks", bootstraps=False)

    per_decision: bool = False
    self_normalised: bool = False

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:  # noqa: ARG002
        """Estimate the policy's value on each fold; NaN where no weight is left."""
        log: Log = task.log
        _require_logged_starts(task)
        warn_of_the_horizon(log, task.gamma)
        weights, discount = cumulative_weights(task.policy, log), discounts(log, task.gamma)
        values = np.full(folds.count, np.nan)
        for k in range(folds.count):
            own, rows = folds.log(log, k), log.rows(folds.episodes(k))
            w, terms = weights[rows], discount[rows] * own.rewards
            if self._has_weight(own, w, terms):
                values[k] = self._value(own, w, terms)
        return Numbers(values)

    def _score(self, task: Task, rng: np.random.Generator) -> OneStepChoice | None:  # noqa: ARG002 nothing is drawn
        """Return the policy's value with the scores of the episodes."""
        log: Log = task.log
        _require_logged_starts(task)
        cautions = warn_of_the_horizon(log, task.gamma)
        weights = cumulative_weights(task.policy, log)
        terms = discounts(log, task.gamma) * log.rewards
        if not self._has_weight(log, weights, terms):
            how_far = "as far as a reward" if self.per_decision else "throughout"
            less = "" if self.per_decision else "'pdis', "
            raise LogError(
                f"No logged episode takes the policy's actions {how_far}: no return has a weight. Use "
                f"{less}'mis' or 'lstd', which need less overlap."
            )
        kind = "per-decision" if self.per_decision else "trajectory-wise"
        name = f"{'self-normalised ' if self.self_normalised else ''}{kind} importance sampling"
        last, returns = weights[log.starts[1:] - 1], _episode_sums(log, terms)
        if not self.per_decision:
            return weighted_choice(
                log,
                returns,
                last,
                self_normalised=self.self_normalised,
                estimator=name,
                cautions=cautions,
                point=self._value(log, weights, terms),
            )
        scores, influence = self._per_decision(log, weights, terms)
        return scored_choice(
            log,
            scores,
            weights=last,
            returns=returns,
            influence=influence,
            estimator=name,
            cautions=cautions,
        )

    def _has_weight(self, log: Log, weights: FloatArray, terms: FloatArray) -> bool:
        """Return whether some return, or some reward that counts, has a weight."""
        last = weights[log.starts[1:] - 1]
        rewarded = weights[terms != 0] if self.per_decision else last
        return bool(last.any() or rewarded.any() or not len(rewarded))

    def _value(self, log: Log, weights: FloatArray, terms: FloatArray) -> float:
        if self.per_decision:
            return float(self._per_decision(log, weights, terms)[0].mean())
        last, returns = weights[log.starts[1:] - 1], _episode_sums(log, terms)
        return float((last * returns).mean() / (last.mean() if self.self_normalised else 1))

    def _per_decision(
        self, log: Log, weights: FloatArray, terms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a score and an influence for each episode, (E,) each."""
        if not self.self_normalised:
            scores = _episode_sums(log, weights * terms)
            return scores, scores - scores.mean()
        scores, influence = np.zeros(log.n_episodes), np.zeros(log.n_episodes)
        for step in range(int(log.lengths.max())):
            there = log.lengths > step
            rows = log.starts[:-1] + np.minimum(step, log.lengths - 1)
            w = weights[rows]
            mean = w.mean()
            reward = np.where(there, terms[rows], 0.0)
            part = w * reward / mean if mean > 0 else np.full(len(w), np.nan if reward.any() else 0)
            scores += part
            influence += part - (w / mean if mean > 0 else 1.0) * part.mean()
        return scores, influence


@dataclass(frozen=True, kw_only=True)
class EpisodeDR(WeightedByPropensities):
    """Doubly robust over episodes: mean(V(s_0) + Σ γᵗ w_t δ_t), δ the critic's Bellman residual.

    Jiang and Li (2016), Thomas and Brunskill (2016), in telescoping form: with Q = 0 it is per-decision
    importance sampling; with ρ = 1 the critic's errors cancel. Where an episode was cut off, the
    critic's value replaces the rest.

    Parameters
    ----------
    critic
        The base that fits Q on other episodes than those it is applied to.
    parts
        Number of parts for cross-fitting; see `DR`.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    constraints: ClassVar = {"parts": COUNT}

    critic: CriticAlgorithm = field(default_factory=LSTD)
    parts: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_evaluating_critic(self.critic)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        scores = self._scores(task, folds, cumulative_weights(task.policy, task.log), rng)
        return Numbers(
            np.array([np.average(own, weights=folds.counts[k]) for k, own in enumerate(scores)])
        )

    def _score(self, task: Task, rng: np.random.Generator) -> OneStepChoice | None:
        """Return the policy's value with the scores of the episodes."""
        log: Log = task.log
        weights = cumulative_weights(task.policy, log)
        last = weights[log.starts[1:] - 1]
        found = scored_choice(
            log,
            self._scores(task, Whole().assign(log, rng), weights, rng)[0],
            weights=last,
            returns=_episode_sums(log, discounts(log, task.gamma) * log.rewards),
            estimator="doubly robust importance sampling",
        )
        return found if last.any() else replace(found, declined=_NOBODY)

    def _scores(
        self, task: Task, folds: Folds, weights: FloatArray, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the score of each episode for each fold, (E,) each; 0 outside the fold."""
        log: Log = task.log
        _require_logged_starts(task)
        discount = discounts(log, task.gamma)
        parts, training = cross_fit(log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        points = task.initial_points()
        every = critics.values(points.states, points.actions) * points.weights * log.n_episodes
        result: list[FloatArray] = []
        for k in range(folds.count):
            scores = np.zeros(log.n_episodes)
            for j in range(k * self.parts, (k + 1) * self.parts):
                start = np.bincount(points.start, weights=every[j], minlength=log.n_episodes)
                residuals = bellman_residuals(critics.subset(np.array([j])), task)
                found = start + _episode_sums(log, discount * weights * residuals)
                scores = np.where(parts.counts[j] > 0, found, scores)
            result.append(scores)
        return result


def cumulative_weights(policy: Policy | BoundPolicy | None, log: Log) -> FloatArray:
    """Return w_t = Π_{u ≤ t} π(a_u|s_u) / μ(a_u|s_u) of each row, (n,)."""
    if log.propensity is None:
        raise LogError(
            "Importance sampling needs the propensity with which each action was logged. The log has "
            "none; pass propensity=..., estimate it with tailproof.critics.behaviour, or use "
            "'mis' or 'lstd', which need none."
        )
    weights: FloatArray = target_density(policy, log) / log.propensity
    for step in range(1, int(log.lengths.max())):
        rows = log.starts[:-1][log.lengths > step] + step
        weights[rows] *= weights[rows - 1]
    return weights


def discounts(log: Log, gamma: float) -> FloatArray:
    """Return γᵗ of each row, (n,)."""
    return np.power(gamma, log.step_of_row, dtype=float)


def _episode_sums(log: Log, values: FloatArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, log.starts[:-1]), dtype=float)


def _require_logged_starts(task: Task) -> None:
    starts = task.initial_states
    if starts is not None and not np.array_equal(starts, task.log.first_states):
        raise MethodError(
            "Importance sampling of episodes starts where the log does. Leave initial_states out, or "
            "use 'dr', 'mis' or 'lstd'."
        )


def warn_of_the_horizon(log: Log, gamma: float) -> tuple[str, ...]:
    """Warn if rewards after the logged steps of cut-off episodes are ignored; return the caution."""
    if is_settled(log, gamma):
        return ()
    warnings.warn(
        f"{int((~log.ends).sum())} of {log.n_episodes} episodes were cut off before they ended: "
        f"importance sampling estimates the value of the logged steps only. Use 'sequential-dr', "
        f"'dr', 'mis' or 'lstd' for what comes after.",
        HorizonWarning,
        stacklevel=3,
    )
    return (_HORIZON,)
