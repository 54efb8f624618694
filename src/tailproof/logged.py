"""The value of the policy that was logged, fold by fold: what a candidate has to beat.

Where every episode runs to its end (or so far that the rest no longer counts), its return is a fact,
and a fold's value is the mean of its returns. Where recording stopped earlier, the rewards that are
missing must be estimated: the log is then read as one of a single action, "what was done", and the
method evaluates that action. The base learns V(s) of the logged policy as it learns Q(s, a) of any
other, and a truncated episode is continued by its value. No propensities and no model of the logged
policy are needed either way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.evaluate import evaluate
from tailproof.features import Features, Joint, PerAction
from tailproof.fit import prepare
from tailproof.log import Log
from tailproof.means import Mean, SampleMean
from tailproof.method import Method
from tailproof.reference import discounted_returns
from tailproof.results import Estimate
from tailproof.spaces import Discrete

_NEGLIGIBLE = 1e-3  # γ^T of what a truncated episode left out
_REPRESENTATIVES = 16  # logged actions that continuous features are averaged over


@dataclass(frozen=True, kw_only=True)
class LoggedValue:
    """How good the logged policy was.

    Attributes
    ----------
    value, fold_values
        The aggregate, and the value of each fold, (K,), NaN for one that diverged.
    how
        "returns" or "continued", as the module says.
    """

    value: float
    fold_values: FloatArray
    how: str


def is_settled(log: Log, gamma: float) -> bool:
    """Return whether what happened after the logged steps no longer counts.

    >>> log = Log.from_arrays([0.0] * 2, [0] * 2, [1.0, 1.0], [0.0] * 2, episode=[0, 0])
    >>> is_settled(log, 0.99), is_settled(log, 0.01)
    (False, True)
    """
    if gamma == 0:
        return True
    open_ended = ~log.terminated[log.starts[1:] - 1]
    return bool((gamma ** log.lengths[open_ended] <= _NEGLIGIBLE).all())


def logged_value(log: Log, *, method: Method, gamma: float, seed: int = 0) -> LoggedValue:
    """Estimate E Σ_t γ^t r_t of the logged policy on the folds of a method.

    The folds are those that `evaluate` makes with the same method and seed.
    """
    data = prepare(log, method)
    if not is_settled(data, gamma):
        return _continued(data, method=method, gamma=gamma, seed=seed)
    partition_rng, rng = np.random.default_rng(seed).spawn(2)
    folds = method.partition.assign(data, partition_rng)
    returns = discounted_returns(data, gamma)
    mean: Mean = getattr(method.base, "mean", SampleMean())
    by_group = getattr(method.base, "unit", "step") == "group"
    values = np.empty(folds.count)
    for k in range(folds.count):
        own = folds.episodes(k)
        samples, groups = returns[own], data.group_of_episode[own]
        if by_group:
            groups, place = np.unique(groups, return_inverse=True)
            samples = np.bincount(place, samples).astype(float)
        values[k] = mean(samples, groups=groups, rng=rng) * len(samples) / len(own)
    return LoggedValue(value=float(method.aggregate(values)), fold_values=values, how="returns")


def _continued(log: Log, *, method: Method, gamma: float, seed: int) -> LoggedValue:
    single = replace(
        log,
        actions=np.zeros(log.n_transitions, dtype=np.intp),
        action_space=Discrete(1, ("what was done",)),
        propensity=None if log.propensity is None else np.ones(log.n_transitions),
    )
    estimate = evaluate(
        single,
        _only_action,
        method=replace(method, base=_for_states(method.base, log), clip=0.0),
        gamma=gamma,
        seed=seed,
    )
    values = all_folds(estimate)
    return LoggedValue(value=estimate.value, fold_values=values, how="continued")


def all_folds(estimate: Estimate) -> FloatArray:
    """Return the values of all K folds of an estimate, NaN for those that were left out, (K,)."""
    values = np.full(len(estimate.fold_values) + len(estimate.bad_folds), np.nan)
    values[np.setdiff1d(np.arange(len(values)), estimate.bad_folds)] = estimate.fold_values
    return values


def _only_action(states: FloatArray) -> IntArray:
    return np.zeros(len(states), dtype=np.intp)


def _for_states(base: Any, log: Log) -> Any:
    """Return a base that learns V(s) with the state's part of the features of Q(s, a)."""
    changes: dict[str, Any] = {}
    features = getattr(base, "features", None)
    if isinstance(features, PerAction):
        changes["features"] = replace(features, n_actions=1)
    elif isinstance(features, Joint):
        changes["features"] = None  # the default: products of the state, without the action
    elif features is not None:
        changes["features"] = AverageFeatures(features, *_usual_actions(log))
    if hasattr(base, "critic"):
        changes["critic"] = _for_states(base.critic, log)
    return replace(base, **changes) if changes else base


def _usual_actions(log: Log) -> tuple[AnyArray, FloatArray]:
    """Return actions and weights that stand for those of the log."""
    if log.is_discrete:
        return np.arange(log.n_actions), np.bincount(log.actions, minlength=log.n_actions) / len(
            log.actions
        )
    chosen = log.actions[:: max(1, log.n_transitions // _REPRESENTATIVES)]
    return chosen, np.full(len(chosen), 1 / len(chosen))


@dataclass(frozen=True, eq=False)
class AverageFeatures:
    """ψ(s) = Σ_a weight_a φ(s, a): features of the state from those of state and action."""

    features: Features
    actions: AnyArray  # (A,) or (A, q)
    weights: FloatArray  # (A,)

    @property
    def size(self) -> int:
        """Number of features, d."""
        return self.features.size

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:  # noqa: ARG002
        """Return ψ at n states, (n, d); there is only one action."""
        psi = np.zeros((len(states), self.size))
        for action, weight in zip(self.actions, self.weights, strict=True):
            if weight > 0:
                psi += weight * self.features(states, np.repeat(action[None], len(states), axis=0))
        return psi
