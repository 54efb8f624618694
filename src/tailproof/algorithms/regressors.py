"""Fitted Q with any scikit-learn regressor as the Q-model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.backups import logged_actions
from tailproof.algorithms.base import Fitted
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import RegressorCritics


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
    if task.policy is not None:
        every, weights = task.next_actions(slice(None))
    else:
        actions = logged_actions(log)
        every, weights = np.broadcast_to(actions, (log.n_transitions, len(actions))), None

    def at(critics: RegressorCritics, rows: Any) -> FloatArray:
        """Return Q_k(s', a) at every next action, (K, L, m)."""
        states, columns = log.next_states[rows], np.moveaxis(every[rows], 1, 0)
        return np.stack([critics.values(states, column) for column in columns], axis=1)

    def value(values: FloatArray, rows: Any) -> FloatArray:
        """Return the maximum or the expectation over actions, from (…, L, m) to (…, m)."""
        if weights is None:
            return np.asarray(values.max(axis=-2))
        return np.asarray(np.einsum("...lm,ml->...m", values, weights[rows]))

    def after(critics: RegressorCritics) -> list[FloatArray]:
        """Return the values of the next states in the rows of each fold."""
        if backup is None:
            alone = [critics.subset(np.array([k])) for k in range(folds.count)]
            return [
                value(at(own, chosen), chosen)[0] for own, chosen in zip(alone, rows, strict=True)
            ]
        values = at(critics, slice(None))
        if aggregate_first:
            shared = value(backup(values), slice(None))
        else:
            shared = backup(value(values, slice(None)))
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
