"""The baseline of a comparison, and the probability that the first candidate is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.comparison.comparison import LOGGED, Candidate
from tailproof.evaluation.estimate import Estimate, LoggedValue

_DRAWS = 20_000
_UNITS = 1 << 16  # units whose scores are multiplied at a time
_CONTINUED = (
    "The log was cut off before its episodes ended: the logged policy's value continues them with a "
    "value function of the state, fitted by the same method."
)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline: an estimate, a number, or the logged policy (`rival` is None).

    `folds` are its values on the folds of the method, (K,), empty if there are none.
    """

    name: str
    value: float
    rival: Estimate | float | None
    folds: FloatArray
    notes: tuple[str, ...] = ()

    def probability(self, candidates: Sequence[Candidate], seed: int) -> float:
        """Return the probability that the first candidate is best; NaN without folds or scores."""
        estimates = [each.estimate for each in candidates]
        if len(self.folds) > 1:
            everyone = [*(each.all_folds for each in estimates), self.folds]
            return probability_first_is_best(np.stack(everyone), seed=seed)  # (m + 1, K)
        choices = [each.choice for each in estimates if each.choice is not None]
        if len(choices) < len(estimates):
            return float("nan")
        means = np.array([*(each.value for each in choices), self.value])
        first = choices[0]
        last: tuple[float, FloatArray] = (0.0, np.zeros(len(first.influence)))  # a known number
        if isinstance(self.rival, Estimate) and self.rival.choice is not None:
            last = self.rival.choice.standard_error, self.rival.choice.influence
        elif self.rival is None:
            last = first.logged_spread.error, first.logged_influence
        errors = np.array([*(each.standard_error for each in choices), last[0]])
        scores = [*(each.influence for each in choices), last[1]]
        return probability_highest(means, errors, scores, seed=seed)


def baseline_of(
    policies: Mapping[str, Any],
    baseline: Any,
    estimates: Mapping[str, Estimate],
    run: Callable[[Any], Estimate],
) -> tuple[Baseline, dict[str, Estimate]]:
    """Return the baseline, and the estimates, which then share the logged policy's value.

    `run` evaluates a policy.
    """
    first, found = next(iter(estimates.values())), dict(estimates)
    rival: Estimate | float | None = None
    notes: tuple[str, ...] = ()
    own: FloatArray = np.empty(0)
    if baseline is None and first.choice is not None:
        name, value = LOGGED, first.logged_value
    elif baseline is None:
        logged = first.logged_folds

        def known(**_: Any) -> LoggedValue:
            return logged

        found = {each: replace(estimate, logged=known) for each, estimate in estimates.items()}
        notes = () if logged.how != "continued" else (_CONTINUED,)
        name, value, own = LOGGED, logged.value, logged.fold_values
    elif isinstance(baseline, Real):
        rival = value = float(baseline)
        name, own = f"{value:g}", np.full(len(first.all_folds), value)
    else:
        named = isinstance(baseline, str)
        rival = run(policies[baseline] if named else baseline)
        name, value, own = baseline if named else "baseline", rival.value, rival.all_folds
    own = own if first.choice is None else np.empty(0)
    return Baseline(name=name, value=value, rival=rival, folds=own, notes=notes), found


def probability_highest(
    means: FloatArray, errors: FloatArray, scores: Sequence[FloatArray], *, seed: int = 0
) -> float:
    """Return the probability that the first of some values is the highest; ties count as half.

    `means` and their standard `errors` are (m,); `scores`, (U,) each, are the influences of the
    units on each value, for the correlations.

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

    `fold_values` are those of each policy on the same K folds, (policies, K). Ties count as half a win.

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
