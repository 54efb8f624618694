"""Whom a candidate has to beat, by how much it does, and how likely the first is the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tailproof.algorithms.default.choice import Scored
from tailproof.arrays import FloatArray
from tailproof.comparison.comparison import (
    LOGGED,
    Candidate,
    Difference,
    ahead_of,
    difference_of,
    require_choice,
    scored_difference,
)
from tailproof.data.stored import AnyLog
from tailproof.engines import Engine
from tailproof.evaluation.estimate import Estimate
from tailproof.judgement.logged import all_folds, logged_value
from tailproof.methods.method import Method

_DRAWS = 20_000
_UNITS = 1 << 16  # whose scores are multiplied at a time
_CONTINUED = (
    "The log was cut off before its episodes ended: the logged policy's value continues them with a "
    "value function of the state, fitted by the same method."
)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Whom to beat: by its folds, or, where there are none, by its choice or as a number."""

    name: str
    value: float
    folds: FloatArray
    choice: Scored | None = None
    notes: tuple[str, ...] = ()

    def gain(self, name: str, estimate: Estimate, level: float) -> Difference:
        """Return how far an estimate is ahead."""
        if len(self.folds):
            own = all_folds(estimate)
            return difference_of(name, self.name, own, self.folds, level=level)
        rival = None if self.name == LOGGED else self.choice or self.value
        gain = ahead_of(require_choice(estimate), rival)
        return scored_difference(name, self.name, gain, level=level)

    def probability(self, candidates: Sequence[Candidate], seed: int) -> float:
        """Return the probability that the first candidate is best."""
        if len(self.folds):
            everyone = [*(all_folds(each.estimate) for each in candidates), self.folds]
            return probability_first_is_best(np.stack(everyone), seed=seed)  # (m + 1, K)
        choices = [require_choice(each.estimate) for each in candidates]
        means = np.array([*(each.value for each in choices), self.value])
        first = choices[0]
        last: tuple[float, FloatArray] = (0.0, np.zeros(len(first.influence)))  # a known number
        if self.choice is not None:
            last = self.choice.standard_error, self.choice.influence
        elif self.name == LOGGED:
            last = first.logged_spread.error, first.logged_influence
        errors = np.array([*(each.standard_error for each in choices), last[0]])
        scores = [*(each.influence for each in choices), last[1]]
        return probability_highest(means, errors, scores, seed=seed)


def baseline_by_folds(
    log: AnyLog,
    policies: Mapping[str, Any],
    baseline: Any,
    method: Method,
    gamma: float,
    seed: int,
    engine: Engine,
    run: Callable[[Any], Estimate],
) -> Baseline:
    """Return the baseline with its value on every fold; `run` evaluates a policy."""
    if baseline is None:
        logged = logged_value(log, method=method, gamma=gamma, seed=seed, engine=engine)
        notes = () if logged.how != "continued" else (_CONTINUED,)
        return Baseline(name=LOGGED, value=logged.value, folds=logged.fold_values, notes=notes)
    if isinstance(baseline, Real):
        value = float(baseline)
        return Baseline(name=f"{value:g}", value=value, folds=np.full(method.folds, value))
    name, policy = _named_baseline(policies, baseline)
    estimate = run(policy)
    return Baseline(name=name, value=estimate.value, folds=all_folds(estimate))


def baseline_by_scores(
    policies: Mapping[str, Any],
    baseline: Any,
    estimates: Mapping[str, Estimate],
    run: Callable[[Any], Estimate],
) -> Baseline:
    """Return the baseline of methods that score the log as a whole; `run` evaluates a policy."""
    first = require_choice(next(iter(estimates.values())))
    if baseline is None:
        return Baseline(name=LOGGED, value=first.logged_value, folds=np.empty(0))
    if isinstance(baseline, Real):
        value = float(baseline)
        return Baseline(name=f"{value:g}", value=value, folds=np.empty(0))
    name, policy = _named_baseline(policies, baseline)
    choice = require_choice(run(policy))
    return Baseline(name=name, value=choice.value, folds=np.empty(0), choice=choice)


def _named_baseline(policies: Mapping[str, Any], baseline: Any) -> tuple[str, Any]:
    if isinstance(baseline, str):
        return baseline, policies[baseline]
    return "baseline", baseline


def probability_highest(
    means: FloatArray, errors: FloatArray, scores: Sequence[FloatArray], *, seed: int = 0
) -> float:
    """Return the probability that the first of some values is the highest; ties count as half.

    Parameters
    ----------
    means, errors
        The estimates and their standard errors, (m,).
    scores
        The influence of each unit on each of them, (U,) each, for the correlations.

    Examples
    --------
    >>> scores = np.eye(2, 100)
    >>> round(probability_highest(np.zeros(2), np.ones(2), scores), 1)
    0.5
    """
    products = np.zeros((len(scores), len(scores)))
    for start in range(0, len(scores[0]), _UNITS):
        some = np.stack([each[start : start + _UNITS] for each in scores]).astype(float)
        products += some @ some.T
    norms = np.sqrt(np.diag(products))
    unit = 1 / np.where(norms > 0, norms, 1.0)
    correlation = products * np.outer(unit, unit)
    np.fill_diagonal(correlation, 1.0)
    spread, basis = np.linalg.eigh(correlation)
    rng = np.random.default_rng([seed, len(means)])
    draws = rng.standard_normal((_DRAWS, len(means))) @ (basis * np.sqrt(np.maximum(spread, 0))).T
    values = means + draws * errors
    lead = values[:, 0] - values[:, 1:].max(axis=1)
    tiny = 1e-9 * float(np.abs(means).max())
    return float((lead > tiny).mean() + 0.5 * (np.abs(lead) <= tiny).mean())


def probability_first_is_best(fold_values: FloatArray, *, seed: int = 0) -> float:
    """Return the probability that the first of some policies is the best; see `compare`.

    Parameters
    ----------
    fold_values
        (policies, K): the values of each policy on the same K folds. Ties count as half a win.

    Examples
    --------
    >>> ahead = np.array([[2.0, 3.0, 2.0], [1.0, 1.0, 1.0]])  # in three folds of three
    >>> abs(probability_first_is_best(ahead) - (1 - 2**-4)) < 0.01
    True
    """
    kept = np.isfinite(fold_values).all(axis=0)
    lead = fold_values[0, kept] - fold_values[1:, kept]  # (rivals, K)
    wins = (lead > 0) + 0.5 * (lead == 0)
    rng = np.random.default_rng([seed, len(fold_values)])
    weights = rng.dirichlet(np.ones(wins.shape[1] + 2), size=_DRAWS)  # (draws, K + 2)
    share = weights[:, :-2] @ wins.T + weights[:, -2:-1]  # the fictitious win; the loss adds none
    return float((share > 0.5).all(axis=1).mean())
