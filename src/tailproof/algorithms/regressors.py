"""Fitted Q with any scikit-learn regressor as the Q-model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.backups import logged_actions
from tailproof.algorithms.base import Fitted
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray
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
    every, weights = _next_actions(task)
    alive = (~log.terminated).astype(float)
    history = np.empty((iterations, folds.count))
    before = [np.zeros(len(chosen)) for chosen in rows]
    for moved in history:
        if backup is None:
            after = [
                _value(critics.subset(np.array([k])), task, chosen, every, weights)[0]
                for k, chosen in enumerate(rows)
            ]
        else:
            shared = _shared(critics, task, every, weights, backup, aggregate_first)
            after = [shared[chosen] for chosen in rows]
        targets = [
            log.rewards[chosen] + task.gamma * alive[chosen] * value
            for chosen, value in zip(rows, after, strict=True)
        ]
        critics = refit(targets)
        moved[:] = [np.abs(new - old).max() for new, old in zip(targets, before, strict=True)]
        before = targets
    return Fitted(critics, history)


def _next_actions(task: Task) -> tuple[AnyArray, FloatArray | None]:
    if task.policy is not None:
        return task.next_actions(slice(None))
    actions = logged_actions(task.log)
    return np.broadcast_to(actions, (task.log.n_transitions, len(actions))), None


def _at(
    critics: RegressorCritics, task: Task, rows: Any, every: AnyArray
) -> FloatArray:  # (K, L, m)
    states, actions = task.log.next_states[rows], every[rows]
    return np.stack(
        [critics.values(states, actions[:, i]) for i in range(actions.shape[1])], axis=1
    )


def _value(
    critics: RegressorCritics, task: Task, rows: Any, every: AnyArray, weights: FloatArray | None
) -> FloatArray:  # (K, m)
    values = _at(critics, task, rows, every)
    if weights is None:
        return np.asarray(values.max(axis=1))
    return np.asarray(np.einsum("klm,ml->km", values, weights[rows]))


def _shared(
    critics: RegressorCritics,
    task: Task,
    every: AnyArray,
    weights: FloatArray | None,
    backup: Aggregate,
    aggregate_first: bool,
) -> FloatArray:  # (n,)
    if not aggregate_first:
        return backup(_value(critics, task, slice(None), every, weights))
    combined = backup(_at(critics, task, slice(None), every))  # (L, n)
    if weights is None:
        return np.asarray(combined.max(axis=0))
    return np.asarray(np.einsum("ln,nl->n", combined, weights))
