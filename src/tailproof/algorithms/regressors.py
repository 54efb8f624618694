"""Fitted Q with any scikit-learn regressor as the Q-model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.backups import logged_actions
from tailproof.algorithms.base import Fitted
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import RegressorCritics


class _Ahead(NamedTuple):
    """Next states, actions there, (n, L), and weights; without a policy, all logged actions."""

    states: FloatArray
    actions: AnyArray
    weights: FloatArray | None

    @classmethod
    def of(cls, task: Task) -> _Ahead:
        log = task.log
        if task.policy is not None:
            return cls(log.next_states, *task.next_actions(slice(None)))
        logged = logged_actions(log)
        every = np.broadcast_to(logged, (log.n_transitions, len(logged)))
        return cls(log.next_states, every, None)

    def at(self, critics: RegressorCritics, rows: Any) -> FloatArray:
        """Return Q_k(s', a) at every action in some rows, (K, L, m)."""
        states, columns = self.states[rows], np.moveaxis(self.actions[rows], 1, 0)
        return np.stack([critics.values(states, column) for column in columns], axis=1)

    def value(self, values: FloatArray, rows: Any) -> FloatArray:
        """Return the expectation or the maximum over actions, from (…, L, m) to (…, m)."""
        if self.weights is None:
            return np.asarray(values.max(axis=-2))
        return np.asarray(np.einsum("...lm,ml->...m", values, self.weights[rows]))


def fit_regressors(
    model: Any,
    task: Task,
    folds: Folds,
    *,
    iterations: int,
    from_reward: bool,
    backup: Aggregate | None,
    aggregate_first: bool,
    rng: np.random.Generator,
) -> Fitted:
    """Refit a clone of `model` on each fold's Bellman targets, `iterations` times."""
    from sklearn.base import clone

    log = task.log
    seeds = [int(seed) for seed in rng.integers(2**31, size=folds.count)]
    rows = [log.rows(folds.episodes(k)) for k in range(folds.count)]
    critics = RegressorCritics((), log.n_actions if log.is_discrete else None)
    inputs = critics.inputs(log.states, log.actions)

    def refit(targets: list[FloatArray]) -> RegressorCritics:
        models = []
        for chosen, target, seed in zip(rows, targets, seeds, strict=True):
            fresh = clone(model)
            if "random_state" in fresh.get_params() and fresh.get_params()["random_state"] is None:
                fresh.set_params(random_state=seed)
            models.append(fresh.fit(inputs[chosen], target))
        return RegressorCritics(tuple(models), critics.n_actions)

    scale = 1 / (1 - task.gamma) if from_reward and task.gamma < 1 else float(from_reward)
    critics = refit([log.rewards[chosen] * scale for chosen in rows])
    ahead = _Ahead.of(task)

    def after(critics: RegressorCritics) -> list[FloatArray]:
        """Return v(s') in the rows of each fold."""
        if backup is None:
            alone = [critics.subset(np.array([k])) for k in range(folds.count)]
            pairs = zip(alone, rows, strict=True)
            return [ahead.value(ahead.at(own, chosen), chosen)[0] for own, chosen in pairs]
        values, every = ahead.at(critics, slice(None)), slice(None)
        if aggregate_first:
            shared = ahead.value(backup(values), every)
        else:
            shared = backup(ahead.value(values, every))
        return [shared[chosen] for chosen in rows]

    alive = (~log.terminated).astype(float)
    history = np.empty((iterations, folds.count))
    before = [np.zeros(len(chosen)) for chosen in rows]
    for moved in history:
        targets = [
            log.rewards[chosen] + task.gamma * alive[chosen] * found
            for chosen, found in zip(rows, after(critics), strict=True)
        ]
        critics = refit(targets)
        moved[:] = [np.abs(new - old).max() for new, old in zip(targets, before, strict=True)]
        before = targets
    return Fitted(critics, history)
