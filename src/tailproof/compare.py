"""Comparison: which of these policies is best, and does any of them beat the one that was logged?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.catalogue import method as named_method
from tailproof.comparison import Candidate, Comparison, difference_of
from tailproof.engines import Engine, running
from tailproof.errors import FoldError, LevelError, MethodError, PolicyError
from tailproof.evaluate import evaluate
from tailproof.fit import check_gamma, prepare
from tailproof.intervals import folds_for, order_statistic_lower_bound
from tailproof.lazy import AnyLog
from tailproof.logged import all_folds, logged_value
from tailproof.method import Method
from tailproof.partition import Split
from tailproof.results import Estimate

#: What the policy that made the log is called.
LOGGED = "logged policy"
_DRAWS = 20_000
_EVIDENCE = 1 << 28  # bytes that the evidence behind all candidates may take


def compare(
    log: AnyLog,
    policies: Mapping[str, Any],
    *,
    gamma: float | None = None,
    method: str | Method = "roam-dm",
    level: float = 0.9,
    baseline: Any = None,
    seed: int = 0,
    engine: str | Engine | None = None,
) -> Comparison:
    """Rank policies by their lower bounds, and ask whether any beats the logged one.

    All policies are evaluated on the same folds, so that differences are paired: a storm that sits
    in one fold is in it for everybody. With D_k = Ĵ_k(first) − Ĵ_k(second), a bound of the difference
    is an order statistic of D_1, …, D_K, whose level is exact for the median of their law.

    The gate is Bonferroni's: with m candidates each difference to the baseline is bounded at
    1 − (1 − level)/m, so that all bounds hold at once with `level`, and the best of many does not
    pass by luck.

    The probability that the first is best: give every fold's verdict ("the first is ahead of this
    rival") a weight, and two more to one fictitious win and one loss against all rivals; draw the
    weights from a flat Dirichlet law, and count how often the first is ahead of every rival with
    more than half of the weight. Against one rival that is the posterior of "ahead in most folds"
    under a uniform prior: K wins of K give 1 − 2^−(K+1), never 1. The baseline is a rival too.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk.
    policies
        By name; each as in `evaluate`.
    gamma
        The discount; a log of one-step episodes needs none.
    method
        One with folds that share no data. A name gets as many folds as the gate needs; a `Method`
        is taken as it is, and refused with a `LevelError` if it has too few.
    level
        Of the bounds.
    baseline
        Whom to beat: the logged policy by default (`tailproof.logged` says how its value is found);
        the name of one of the policies; another policy; or a number.
    seed
        Seeds the folds.
    engine
        Where passes over the log run; see `evaluate`.

    Examples
    --------
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(1)
    >>> states, actions = rng.normal(size=4000), rng.integers(2, size=4000)
    >>> rewards = actions + rng.standard_t(1.5, size=4000)
    >>> log = Log.from_arrays(states, actions, rewards, states, episode=range(4000))
    >>> result = compare(log, {"one": lambda s: np.ones(len(s)), "zero": lambda s: np.zeros(len(s))})
    >>> result.best.name, result.passes, result.baseline
    ('one', True, 'logged policy')
    """
    _check_policies(policies, baseline)
    rivals = {name: policy for name, policy in policies.items() if not _same(name, baseline)}
    if not rivals:
        raise PolicyError(
            f"compare needs a candidate beside the baseline. Got only {baseline!r}; pass more "
            f"policies, or leave baseline out to compare with the logged policy."
        )
    if not 0 < level < 1:
        raise LevelError(f"A level must lie between 0 and 1. Got {level!r}: use 0.9 for 90 %.")
    gate_level = 1 - (1 - level) / len(rivals)
    notes: list[str] = []
    chosen = _with_folds(method, gate_level, notes)
    with running(engine) as where:
        # What must be in memory is read once; rewards are clipped with each evaluation.
        data = prepare(log, replace(chosen, clip=0.0), where, seed=seed)
        discount = check_gamma(gamma, data)

        def run(policy: Any) -> Estimate:
            return evaluate(data, policy, method=chosen, gamma=discount, seed=seed, engine=where)

        name: str = LOGGED
        folds: FloatArray
        if baseline is None:
            logged = logged_value(data, method=chosen, gamma=discount, seed=seed, engine=where)
            value, folds = logged.value, logged.fold_values
            if logged.how == "continued":
                notes.append(
                    "The log was cut off before its episodes ended: the logged policy's value "
                    "continues them with a value function of the state, fitted by the same method."
                )
        elif isinstance(baseline, Real):
            name, value = f"{float(baseline):g}", float(baseline)
            folds = np.full(chosen.folds, value)
        else:
            named = isinstance(baseline, str)
            name = baseline if named else "baseline"
            estimate = run(policies[baseline] if named else baseline)
            value, folds = estimate.value, all_folds(estimate)
        if chosen.at == "backup":
            notes.append(
                "The folds meet in every backup, so they are not independent: levels are nominal."
            )
        candidates = []
        for each, policy in rivals.items():
            try:
                estimate = run(policy)
            except FoldError as error:
                if len(rivals) == 1:
                    raise
                notes.append(f"{each} is left out, because it could not be evaluated. {error}")
                continue
            candidates.append(
                Candidate(
                    name=each,
                    value=estimate.value,
                    lower_bound=order_statistic_lower_bound(estimate.fold_values, level=level),
                    gain=difference_of(each, name, all_folds(estimate), folds, level=gate_level),
                    estimate=estimate.within(_EVIDENCE // len(rivals)),
                )
            )
    if not candidates:
        raise FoldError(f"No policy could be evaluated. {' '.join(notes)}")
    candidates.sort(key=lambda each: (-each.lower_bound.value, -each.value, each.name))
    everyone = np.stack([*(all_folds(each.estimate) for each in candidates), folds])  # (m + 1, K)
    return Comparison(
        candidates=tuple(candidates),
        baseline=name,
        baseline_value=value,
        baseline_folds=folds,
        probability_best=probability_first_is_best(everyone, seed=seed),
        level=level,
        gate_level=gate_level,
        method=chosen,
        gamma=discount,
        seed=seed,
        notes=tuple(notes),
    )


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


def _same(name: str, baseline: Any) -> bool:
    return isinstance(baseline, str) and name == baseline


def _with_folds(method: str | Method, gate_level: float, notes: list[str]) -> Method:
    """Return the method with folds enough for the gate, or say that it has too few."""
    chosen = named_method(method) if isinstance(method, str) else method
    if not isinstance(chosen, Method):
        raise MethodError(f"method must be a name or a Method. Got {method!r} instead.")
    if not isinstance(chosen.partition, Split):
        raise MethodError(
            f"compare needs a method with folds that share no data, such as 'roam-dm' or "
            f"Method(..., partition=Split(10)). Got {chosen} ({chosen.partition})."
        )
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
