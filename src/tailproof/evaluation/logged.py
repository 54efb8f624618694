"""The value of the logged policy on each fold, the usual baseline.

If every episode is complete (or the rest of it is negligible), a fold's value is the mean of its
returns. Otherwise the missing rewards are estimated: all logged actions are treated as a single action,
and the method evaluates the policy that always takes it. The base then learns V(s) of the logged policy
as it learns Q(s, a) of any other, and a truncated episode is continued by its value. Neither case needs
propensities or a model of the logged policy.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from tailproof.algorithms.default.rungs import is_settled
from tailproof.algorithms.linear.samples import Found
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log, discounted_returns
from tailproof.data.stored import AnyLog, LazyLog, action_counts, with_one_action
from tailproof.engines import Engine, Local
from tailproof.evaluation.estimate import LoggedValue
from tailproof.evaluation.estimation import estimate_of
from tailproof.features import Features, Joint, PerAction
from tailproof.methods.fit import prepare
from tailproof.methods.method import Method
from tailproof.statistics.means import Mean, SampleMean

_REPRESENTATIVES = 16  # number of logged continuous actions over which features are averaged


def logged_value(
    log: AnyLog, *, method: Method, gamma: float, seed: int = 0, engine: Engine | None = None
) -> LoggedValue:
    """Estimate E Σ_t γ^t r_t of the logged policy on the folds of a method.

    The folds are those that `evaluate` makes with the same method and seed.
    """
    data = prepare(log, method, engine, seed=seed)
    if not is_settled(data, gamma):
        return _continued(data, method=method, gamma=gamma, seed=seed, engine=engine)
    partition_rng, rng = np.random.default_rng(seed).spawn(2)
    folds = method.partition.assign(data, partition_rng)
    returns = _returns(data, gamma, engine or Local())
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


def _returns(log: AnyLog, gamma: float, engine: Engine) -> FloatArray:
    if not log.stays_on_disk:
        return discounted_returns(log, gamma)
    found: Found = engine.map_reduce(
        partial(_part_returns, gamma), log.parts, operator.add, shared=log.without_parts()
    )
    return np.asarray(found.values[0])


def _part_returns(gamma: float, log: LazyLog, part: Any) -> Found:
    """Return Σ γ^t r_t over the rows of each episode in one part."""
    found = []
    for piece in log.chunks(part, with_next_states=False):
        first = int(piece.episode[0])
        step = piece.first + np.arange(len(piece)) - log.starts[piece.episode]
        terms = piece.rewards * np.power(gamma, step)
        sums = np.bincount(piece.episode - first, weights=terms).astype(float)
        found.append(Found(first, sums[None]))
    return reduce(operator.add, found)


def _continued(
    log: AnyLog, *, method: Method, gamma: float, seed: int, engine: Engine | None
) -> LoggedValue:
    done = with_one_action(log, "what was done")
    starts = done.first_states if isinstance(done, Log) else None
    estimate = estimate_of(
        Task(done, gamma, _only_action, starts, seed=seed, engine=engine or Local()),
        replace(method, base=_for_states(method.base, log), clip=0.0),
    )
    return LoggedValue(value=estimate.value, fold_values=estimate.all_folds, how="continued")


def _only_action(states: FloatArray) -> IntArray:
    return np.zeros(len(states), dtype=np.intp)


def _for_states(base: Any, log: AnyLog) -> Any:
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


def _usual_actions(log: AnyLog) -> tuple[AnyArray, FloatArray]:
    """Return actions and weights that represent those of the log."""
    if log.is_discrete:
        return np.arange(log.n_actions), action_counts(log) / log.n_transitions
    every = max(1, log.n_transitions // _REPRESENTATIVES)
    chosen = np.concatenate(
        [
            piece.actions[-piece.first % every :: every]
            for part in log.parts
            for piece in log.chunks(part, with_next_states=False)
        ]
    )
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
