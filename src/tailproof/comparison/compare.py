"""Comparison: which of these policies is best, and does any of them beat the logged policy?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tailproof.comparison.baselines import Baseline, baseline_of
from tailproof.comparison.comparison import (
    Candidate,
    Comparison,
    Difference,
    bound_or_reason,
    gain_over,
)
from tailproof.data.given import LogSource, as_log
from tailproof.data.partition import Split
from tailproof.engines import Engine, running
from tailproof.errors import (
    CoverageWarning,
    FoldError,
    FoldWarning,
    LevelError,
    PolicyError,
    TaughtWarning,
    WeightWarning,
)
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.evaluate import evaluate
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import check_gamma, prepare
from tailproof.methods.method import Method
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.naming import Policy
from tailproof.policies.text import policy_columns
from tailproof.statistics.intervals import folds_for
from tailproof.statistics.tails.sample import check_level

#: Warnings about a policy; others are about the log.
_OF_THE_POLICY = (CoverageWarning, FoldWarning, TaughtWarning, WeightWarning)
_EVIDENCE = 1 << 28  # most bytes for the evidence of all candidates


def compare(
    log: LogSource,
    policies: Mapping[str, Policy],
    *,
    gamma: float | None = None,
    method: str | Method = "auto",
    level: float = 0.9,
    baseline: Any = None,
    seed: int | None = None,
    random_state: int | None = None,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    **columns: Any,
) -> Comparison:
    """Rank policies by their estimates, and test whether any beats the logged policy.

    Every policy is evaluated as by `evaluate`; value, gain and bounds come from one estimator, so that
    value = baseline + gain and no bound exceeds its value. Policies are ranked by value.

    By default, and with `snips` and other methods that score rows or episodes, the bound of a
    difference combines both values' own bounds with the correlation of their scores
    (`tailproof.algorithms.default.gain`).

    Methods with folds evaluate all policies on the same folds, so that differences are paired: an
    extreme event in one fold affects all policies. With D_k = Ĵ_k(first) − Ĵ_k(second), a bound of the
    difference is an order statistic of D_1, …, D_K, whose level is exact for the median of their
    distribution. Methods without folds or scores rank policies too, but nothing passes the gate.

    The gate uses Bonferroni's correction: with m candidates each difference from the baseline is
    bounded at level 1 − (1 − level)/m, so that all bounds hold jointly with `level`, and the best of
    many does not pass by chance.

    The probability that the first is best is simulated. With scores, values are drawn from the normal
    distribution with their standard errors and correlations. With folds, each fold is a win or a loss
    against each rival, and one fictitious win and one fictitious loss against all rivals are added; the
    K + 2 weights are drawn from a flat Dirichlet distribution, and the first is best in a draw if its
    wins have more than half of the weight against every rival. Against one rival this is the posterior
    of "ahead in most folds" under a uniform prior: K wins of K give 1 − 2^−(K+1), never 1. The baseline
    is a rival too.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk.
    policies
        By name; each as in `evaluate`.
    gamma
        The discount; a log of one-step episodes needs none.
    method
        As in `evaluate`, with the same default. A method with folds given by name gets as many folds as
        the gate needs; a `Method` is used as it is, and raises a `LevelError` if it has too few.
    level
        Level of the bounds.
    baseline
        What to compare with: the logged policy by default (for its value see
        `tailproof.evaluation.logged`); the name of one of the policies; another policy; or a number.
    seed
        Seeds the folds.
    random_state
        Another name for `seed`, as in scikit-learn.
    engine
        Where passes over the log run; see `evaluate`.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(1)
    >>> states, actions = rng.normal(size=4000), rng.integers(2, size=4000)
    >>> rewards = actions + rng.standard_t(1.5, size=4000)
    >>> log = Log.from_arrays(states, actions, rewards, states, episode=range(4000))
    >>> result = compare(log, {"one": lambda s: np.ones(len(s)), "zero": lambda s: np.zeros(len(s))})
    >>> result.best.name, result.passes, result.baseline
    ('one', True, 'logged policy')
    """
    log = as_log(log, columns, compare, beside=policy_columns([policies, baseline]))
    seed = seed_of(seed, random_state)
    _check_policies(policies, baseline)
    against = baseline if isinstance(baseline, str) else None
    rivals = {name: policy for name, policy in policies.items() if name != against}
    if not rivals:
        raise PolicyError(
            f"compare needs a candidate beside the baseline. Got only {baseline!r}; pass more "
            f"policies, or leave baseline out to compare with the logged policy."
        )
    check_level(level)
    gate_level = 1 - (1 - level) / len(rivals)
    notes: list[str] = []
    chosen = _with_folds(method, gate_level, notes)
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        # a log needed in memory is read once; each evaluation clips the rewards itself
        data = prepare(log, replace(chosen, clip=0.0), where, seed=seed)
        discount = check_gamma(gamma, data)

        def run(policy: Any) -> Estimate:
            return evaluate(data, policy, method=chosen, gamma=discount, seed=seed, engine=where)

        estimates = _estimates(rivals, run, notes)
        beaten, estimates = baseline_of(policies, baseline, estimates, run)
    notes += beaten.notes
    first = next(iter(estimates.values()))
    if first.choice is None and first.why_no_folds:
        notes.append(f"No bound is given, and nothing can pass the gate. {first.why_no_folds}")
    candidates = sorted(
        (_candidate(name, each, beaten, level, gate_level) for name, each in estimates.items()),
        key=lambda each: (-each.value, each.name),
    )
    return Comparison(
        candidates=tuple(candidates),
        baseline=beaten.name,
        baseline_value=beaten.value,
        baseline_folds=beaten.folds,
        baseline_rival=beaten.rival,
        probability_best=beaten.probability(candidates, seed),
        level=level,
        gate_level=gate_level,
        method=chosen,
        gamma=discount,
        seed=seed,
        notes=tuple(notes),
    )


def _candidate(
    name: str, estimate: Estimate, beaten: Baseline, level: float, gate_level: float
) -> Candidate:
    gain = gain_over(estimate, beaten.rival)
    return Candidate(
        name=name,
        value=estimate.value,
        lower_bound=bound_or_reason(estimate.lower_bound, level),
        gain=Difference(first=name, second=beaten.name, gain=gain, level=gate_level),
        estimate=estimate,
    )


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the name of a policy to the warnings about it."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    for each in heard:
        own = issubclass(each.category, _OF_THE_POLICY)
        warnings.warn(f"{name}: {each.message}" if own else each.message, each.category, 5)


def _estimates(
    rivals: Mapping[str, Any], run: Callable[[Any], Estimate], notes: list[str]
) -> dict[str, Estimate]:
    """Return the estimates of the policies that can be evaluated, and note the others."""
    found: dict[str, Estimate] = {}
    for name, policy in rivals.items():
        try:
            with _naming(name):
                first = next(iter(found.values()), None)
                found[name] = run(policy).within(_EVIDENCE // len(rivals), like=first)
        except FoldError as error:
            if len(rivals) == 1:
                raise
            notes.append(f"{name} is left out, because it could not be evaluated. {error}")
    if not found:
        raise FoldError(f"No policy could be evaluated. {' '.join(notes)}")
    return found


def _check_policies(policies: Any, baseline: Any) -> None:
    if not isinstance(policies, Mapping) or not policies:
        raise PolicyError(
            f"policies must be a mapping from names to policies, with one or more of them: "
            f"{{'new': policy}}. Got {policies!r} instead."
        )
    for name in policies:
        if not isinstance(name, str) or not name:
            raise PolicyError(f"Policies need names that are texts. Got {name!r} instead.")
    if isinstance(baseline, str) and baseline not in policies:
        raise PolicyError(
            f"baseline must name one of the policies ({', '.join(policies)}), or be a policy, a "
            f"number or None. Got {baseline!r} instead."
        )


def _with_folds(method: str | Method, gate_level: float, notes: list[str]) -> Method:
    """Return the method with enough folds for the gate, or raise if a `Method` has too few."""
    chosen = as_method(method)
    if not isinstance(chosen.partition, Split) or chosen.at == "backup":
        return chosen  # its estimates show whether it scores rows
    needed = folds_for(gate_level, "order-statistic-bound")
    if chosen.folds >= needed:
        return chosen
    if not isinstance(method, str):
        raise LevelError(
            f"For all bounds to hold at once each must reach {gate_level:.4%}, and {chosen.folds} "
            f"folds reach {1 - 2.0**-chosen.folds:.4%}. Use {needed} folds or more, fewer "
            f"candidates or a lower level."
        )
    notes.append(f"{needed} folds instead of {chosen.folds}, so that the gate's level is in reach.")
    return replace(chosen, partition=Split(needed))
