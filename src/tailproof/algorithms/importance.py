"""Importance sampling over whole episodes, for logs with propensities.

With ρ_t = π(a_t|s_t) / μ(a_t|s_t) and w_t = ρ_0 ⋯ ρ_t, trajectory-wise importance sampling weights
the return of an episode of T steps by w_{T−1}, per-decision importance sampling each reward by w_t
(Precup et al. 2000). It needs no model and no Markov property; the variance grows with every step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tailproof.algorithms.bandit import target_density
from tailproof.algorithms.base import (
    Capabilities,
    CriticAlgorithm,
    Numbers,
    require_evaluating_critic,
)
from tailproof.algorithms.default.residuals import bellman_residuals
from tailproof.algorithms.default.rungs import is_settled
from tailproof.algorithms.dr import cross_fit
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.one_step.simple import scored_choice, weighted_choice
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.errors import HorizonWarning, LogError, MethodError
from tailproof.parameters import Configurable

_NOBODY = (
    "no logged episode takes the policy's actions throughout, so that nothing checks the critic"
)
_HORIZON = "episodes that were cut off count as far as they were logged, and no further"


@dataclass(frozen=True, kw_only=True)
class EpisodeIS(Configurable):
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

    capabilities: ClassVar[Capabilities] = Capabilities(bootstraps=False)

    per_decision: bool = False
    self_normalised: bool = False

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:  # noqa: ARG002
        """Estimate the policy's value on each fold."""
        log: Log = task.log
        _require_logged_starts(task)
        cautions = warn_of_the_horizon(log, task.gamma)
        weights, discount = cumulative_weights(task.policy, log), discounts(log, task.gamma)
        values = np.empty(folds.count)
        for k in range(folds.count):
            own, rows = folds.log(log, k), log.rows(folds.episodes(k))
            w, terms = weights[rows], discount[rows] * own.rewards
            last, returns = w[own.starts[1:] - 1], _episode_sums(own, terms)
            rewarded = w[terms != 0] if self.per_decision else last
            if not last.any() and len(rewarded) and not rewarded.any():
                values[k] = np.nan
                continue
            if self.per_decision:
                scores, influence = self._per_decision(own, w, terms)
                values[k] = scores.mean()
            else:
                values[k] = (last * returns).mean() / (last.mean() if self.self_normalised else 1)
        if folds.count > 1:
            return Numbers(values)
        if not np.isfinite(values[0]):
            how_far = "as far as a reward" if self.per_decision else "throughout"
            less = "" if self.per_decision else "'pdis', "
            raise LogError(
                f"No logged episode takes the policy's actions {how_far}: no return has a weight. Use "
                f"{less}'mis' or 'lstd', which need less overlap."
            )
        kind = "per-decision" if self.per_decision else "trajectory-wise"
        name = f"{'self-normalised ' if self.self_normalised else ''}{kind} importance sampling"
        choice: Any
        if self.per_decision:
            known: Any = {"weights": last, "returns": returns, "influence": influence}
            choice = scored_choice(own, scores, estimator=name, cautions=cautions, **known)
        else:
            choice = weighted_choice(
                own,
                returns,
                last,
                self_normalised=self.self_normalised,
                estimator=name,
                cautions=cautions,
            )
        return Numbers(values, choice=choice)

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
class EpisodeDR(Configurable):
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

    critic: CriticAlgorithm = field(default_factory=LSTD)
    parts: int = 2

    def __post_init__(self) -> None:
        require_evaluating_critic(self.critic)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        log: Log = task.log
        _require_logged_starts(task)
        weights, discount = cumulative_weights(task.policy, log), discounts(log, task.gamma)
        parts, training = cross_fit(log, folds, self.parts, rng)
        critics = self.critic.fit(task, training, backup=None, rng=rng).critics
        points = task.initial_points()
        every = critics.values(points.states, points.actions) * points.weights * log.n_episodes
        values, choice = np.empty(folds.count), None
        for k in range(folds.count):
            scores = np.zeros(log.n_episodes)
            for j in range(k * self.parts, (k + 1) * self.parts):
                start = np.bincount(points.start, weights=every[j], minlength=log.n_episodes)
                residuals = bellman_residuals(critics.subset(np.array([j])), task)
                found = start + _episode_sums(log, discount * weights * residuals)
                scores = np.where(parts.counts[j] > 0, found, scores)
            values[k] = float(np.average(scores, weights=folds.counts[k]))
            if folds.count == 1:
                last = weights[log.starts[1:] - 1]
                choice = scored_choice(
                    log,
                    scores,
                    weights=last,
                    returns=_episode_sums(log, discount * log.rewards),
                    estimator="doubly robust importance sampling",
                )
                if not last.any():
                    choice = replace(choice, declined=_NOBODY)
        return Numbers(values, choice=choice)


def cumulative_weights(policy: object, log: Log) -> FloatArray:
    """Return w_t = Π_{u ≤ t} π(a_u|s_u) / μ(a_u|s_u) of each row, (n,)."""
    if log.propensity is None:
        raise LogError(
            "Importance sampling needs the propensity with which each action was logged. The log has "
            "none; pass propensity=..., estimate it with tailproof.sources.propensities, or use "
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
