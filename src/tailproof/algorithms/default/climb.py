"""How complex a critic the log requires: rungs of the ladder are compared, and averaged by risk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.default.forest import cross_fit_forests
from tailproof.algorithms.default.rungs import (
    Groups,
    Map,
    Rung,
    System,
    fit_rung,
    forest_rung,
    jackknife_covariance,
    jackknife_error,
    with_floor,
)
from tailproof.algorithms.default.target import Target
from tailproof.algorithms.linear.statistics import Ridge
from tailproof.algorithms.on_log import effective
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.errors import SingularError
from tailproof.features import Basis, Features, Fourier, PerAction, table_for
from tailproof.features.base import joined
from tailproof.features.ladder import KNOTS, LARGEST, JointBasis, basis_for
from tailproof.judgement.rules import RULES


@dataclass(frozen=True, eq=False)
class Blend:
    """A weighted average of rungs, with measures of their disagreement.

    `allowance` is the largest distance of a rung from the average, less the standard error of that
    difference: the possible error from the choice of a critic. `disagreement` is the largest
    difference between a rung and the average, in standard errors of the difference.
    """

    rungs: tuple[Rung, ...]
    shares: FloatArray  # (J,) of the rungs: they sum to one
    left_out: FloatArray  # (G,) the value without each group of episodes
    allowance: float
    disagreement: float
    lost: float  # share of the policy's visits for which the log has no row; 0 without a forest
    features: Features  # for the regression of the rewards

    @property
    def log(self) -> Log:
        """The log that it was fitted to, without the step among the states."""
        log: Log = self.rungs[0].system.target.task.log
        return log

    @cached_property
    def weights(self) -> FloatArray:
        """The weights w with Ĵ = constant + mean(w·r), (n,)."""
        return np.asarray(self._mean([rung.weights for rung in self.rungs]))

    def _mean(self, each: Any) -> Any:
        return sum(share * own for share, own in zip(self.shares, each, strict=True))

    @cached_property
    def error(self) -> float:
        """The standard error on tamed rewards, by leaving groups of episodes out."""
        return jackknife_error(self.left_out)

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, the influence of each row, (n,), and V of each start, (m,)."""
        each = zip(*(rung.influences(rewards) for rung in self.rungs), strict=True)
        value, rows, starts = (self._mean(own) for own in each)
        return float(value), rows, starts

    def words(self) -> str:
        """Return the rungs and their shares in words."""
        named = zip(self.shares, self.rungs, strict=True)
        return ", ".join(f"{rung.name} {share:.0%}" for share, rung in named if share >= 0.005)


def climb(target: Target, rewards: FloatArray, low: Features, *, seed: int = 0) -> Blend:
    """Return the rungs that this log requires, and their shares.

    The first rung is LSTD on standardised polynomials. It is used alone if cheap checks (LSTD with
    the policy's agreement, with splines, with random Fourier features) do not differ from it
    significantly and are no more precise, and if its weights leave a tenth of the effective rows that
    discounting leaves: where few rows are like the policy's, linear critics extrapolate alike. (If next
    to none are, every critic extrapolates, and a caution says so.)
    Otherwise the middle three of five rungs weighted by the forest's occupancy are averaged, and the
    first rung gets the share α that minimises the estimated squared error of the mixture,

        α = (var y − cov(x, y)) / (var(y − x) + (y − x)²),

    for its value x and their average y. `rewards`, (n,), are clipped by `tame`, so that no single
    outlier decides which critic is right. `low` are the features of the first rung.
    """
    log, groups = target.log, Groups.deal(target, seed=seed)
    high = table_for(log) or basis_for(log, knots=KNOTS)
    first = fit_rung("polynomials", System(Map(low), target, groups), rewards)
    aware = Map(low, _state_map(low, log))
    if first is not None:
        others = (aware, Map(high), Map(_waves(log)))
        found = _witnesses(first, (System(each, target, groups) for each in others), rewards)
        enough = RULES.poor * effective(np.power(target.gamma, log.step_of_row))
        if found is not None and not RULES.uncovered <= effective(first.weights) < enough:
            return _alone(first, found, low)
    forest = cross_fit_forests(target, rewards, seed=seed)
    occupancy = with_floor(forest.occupancy)
    fine = min(RULES.fine_waves, max(log.n_transitions // 40, 5))
    smooth = Fourier.fit(log.states, waves=fine, bandwidth=RULES.fine_bandwidth)
    maps = (Map(high), Map(low, _state_map(high, log)), aware, Map(low, smooth))
    weighted, rich, plain, waves = (System(each, target, groups, occupancy) for each in maps)
    inner = getattr(high, "state_features", high)
    splines = "splines" if isinstance(inner, Basis | JointBasis) else "table"
    candidates = (
        fit_rung(f"weighted {splines}", weighted, rewards),
        fit_rung("trees and policy-aware splines", rich, rewards, forest=forest),
        fit_rung("trees and policy-aware polynomials", plain, rewards, forest=forest),
        fit_rung("weighted policy-aware splines", rich, rewards),
        fit_rung("weighted policy-aware waves", waves, rewards),
    )
    rungs = tuple(rung for rung in candidates if rung is not None)
    if not rungs:
        raise SingularError(
            "No critic could be fitted: the equations of every feature map are singular on this log. "
            "Use more episodes, fewer state columns, or a smaller gamma."
        )
    witness = forest_rung(weighted, rewards, forest)
    return replace(_mixed(first, rungs, witness, low, high), lost=forest.lost)


def single(
    target: Target,
    features: Features,
    rewards: FloatArray,
    *,
    ridge: Ridge | None = None,
    seed: int = 0,
) -> Blend:
    """Return a blend of one rung, LSTD on the given features."""
    system = System(Map(features), target, Groups.deal(target, seed=seed), ridge=ridge)
    rung = fit_rung("the given features", system, rewards)
    if rung is None:
        raise SingularError(
            "The policy's linear system has no solution on this log. Use fewer features or a smaller "
            "gamma."
        )
    return _alone(rung, [], features)


def _state_map(features: Any, log: Log) -> Any:
    """Return the functions of the state behind a feature map."""
    if isinstance(features, JointBasis):
        return Basis.fit(log.states, knots=KNOTS if features.basis.knots else 0)
    return features.state_features


def _waves(log: Log) -> Features:
    waves = min(RULES.waves, max(log.n_transitions // 100, 5))
    if not log.is_discrete:
        return JointBasis(Fourier.fit(joined(log.states, log.actions), waves=waves))
    inner = Fourier.fit(log.states, waves=min(waves, max(LARGEST // log.n_actions, 5)))
    return PerAction(inner, len(log.state_names), log.n_actions)


def _witnesses(first: Rung, systems: Iterable[System], rewards: FloatArray) -> list[Rung] | None:
    """Return the rungs of the check systems if none contradicts the first rung, else None."""
    found = []
    for system in systems:
        rung = fit_rung("", system, rewards)
        if rung is None:
            return None
        chance = RULES.witness_agrees * jackknife_error(rung.left_out - first.left_out)
        if abs(rung.value - first.value) > max(chance, RULES.negligible * first.error):
            return None
        if first.error > RULES.precise * rung.error:
            return None
        found.append(rung)
    return found


def _alone(first: Rung, witnesses: Sequence[Rung], features: Features) -> Blend:
    """Return the first rung alone, without an allowance for other critics."""
    _, disagreement = _apart(first.value, first.left_out, witnesses)
    return Blend((first,), np.ones(1), first.left_out, 0.0, disagreement, 0.0, features)


def _mixed(
    first: Rung | None, rungs: tuple[Rung, ...], witness: Rung, low: Features, high: Features
) -> Blend:
    kept = _middle(rungs)
    value = float(np.mean([rung.value for rung in kept]))
    left_out = np.mean([rung.left_out for rung in kept], axis=0)
    shares = np.full(len(kept), 1 / len(kept))
    alpha = 0.0
    if first is not None:
        gap, others = value - first.value, left_out - first.left_out
        numerator = jackknife_covariance(left_out, others)
        spread = jackknife_error(others) ** 2

        def share(difference: Any) -> Any:
            return np.clip(numerator / (spread + difference**2 + 1e-300), 0.0, 1.0)

        alpha = float(share(gap))
        value, left_out = value - alpha * gap, left_out - share(others) * others
        kept, shares = (first, *kept), np.concatenate([[alpha], (1 - alpha) * shares])
    allowance, disagreement = _apart(value, left_out, (*rungs, witness))
    features = low if alpha > 0.5 else high
    return Blend(kept, shares, left_out, allowance, disagreement, 0.0, features)


def _middle(rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """Return the rungs without the highest and the lowest, if there are more than three."""
    if len(rungs) <= 3:
        return rungs
    order = np.argsort([rung.value for rung in rungs])
    return tuple(rungs[i] for i in sorted(order[1:-1]))


def _apart(value: float, left_out: FloatArray, rungs: Sequence[Rung]) -> tuple[float, float]:
    """Return the largest distance of a rung from a value, less its error and divided by its error."""
    allowance = disagreement = 0.0
    for rung in rungs:
        gap = abs(rung.value - value)
        error = jackknife_error(rung.left_out - left_out)
        allowance = max(allowance, gap - error)
        disagreement = max(disagreement, gap / max(error, 1e-12 * max(abs(value), 1e-300)))
    return allowance, disagreement
