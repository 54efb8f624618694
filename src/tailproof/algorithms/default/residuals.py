"""Bellman residuals δ = r + γ E_π Q(s', ·) − Q(s, a)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray
from tailproof.ensemble.critics import Critics


def bellman_residuals(critic: Critics, task: Task, rows: Any = slice(None)) -> FloatArray:
    """Return δ of a critic with one member at these rows of the task's log, (m,).

    Terminal transitions have no next value.
    """
    log = task.log
    actions, weights = task.next_actions(rows)
    after = (_values(critic, task, log.next_states[rows], actions) * weights).sum(axis=1)
    after[log.terminated[rows]] = 0.0
    now = _values(critic, task, log.states[rows], log.actions[rows][:, None])[:, 0]
    return np.asarray(log.rewards[rows] + task.gamma * after - now)


def _values(critic: Critics, task: Task, states: FloatArray, actions: AnyArray) -> FloatArray:
    """Return Q at L actions of each state, (m, L); `actions` is (m, L) or (m, L, q)."""
    if task.log.is_discrete:  # one call for all actions computes the features of each state once
        every = critic.action_values(states, task.log.n_actions)[0]  # (A, m)
        return np.take_along_axis(every.T, actions, axis=1)
    columns = [critic.values(states, actions[:, i])[0] for i in range(actions.shape[1])]
    return np.stack(columns, axis=1)
