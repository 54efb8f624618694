"""Bellman residuals δ = r + γ E_π Q(s', ·) − Q(s, a)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray
from tailproof.critics import Critics


def bellman_residuals(
    critic: Callable[[FloatArray, AnyArray], FloatArray] | Critics,
    task: Task,
    rows: Any = slice(None),
) -> FloatArray:
    """Return δ of one critic at these rows of the task's log, (m,).

    Terminal transitions have no next value. `critic` is a function of states and actions, or
    `Critics` with a single member.
    """
    if not callable(critic):
        return bellman_residuals(
            lambda states, actions: critic.values(states, actions)[0], task, rows
        )
    log = task.log
    actions, weights = task.next_actions(rows)
    next_states = log.next_states[rows]
    after = np.zeros(len(next_states))
    for i in range(weights.shape[1]):
        after += weights[:, i] * critic(next_states, actions[:, i])
    after[log.terminated[rows]] = 0.0
    residuals: FloatArray = (
        log.rewards[rows] + task.gamma * after - critic(log.states[rows], log.actions[rows])
    )
    return residuals
