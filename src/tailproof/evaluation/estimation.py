"""From a prepared log and a policy to an estimate: fit every fold, combine the members."""

from __future__ import annotations

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.evaluation.estimate import Estimate, ValueUnit, combine
from tailproof.methods.fit import fit_members, require_healthy
from tailproof.methods.method import Method


def estimate_of(task: Task, method: Method) -> Estimate:
    """Evaluate the policy of a task whose log is already prepared for the method."""
    members = fit_members(task, method, np.random.default_rng(task.seed))
    critics = point_values = point_weights = None
    values: FloatArray
    if members.fitted is not None:
        critics, points = members.fitted.critics, task.initial_points()
        point_weights = points.weights
        with np.errstate(invalid="ignore", over="ignore"):  # diverged members are removed below
            point_values = critics.values(points.states, points.actions)  # (K, P)
            values = point_values @ point_weights
        healthy = critics.healthy() & np.isfinite(values)
    else:
        assert members.numbers is not None
        values = members.numbers.values
        healthy = np.isfinite(values)
    require_healthy(healthy, values, task.log, members.folds)
    if critics is not None and point_values is not None and not healthy.all():
        critics, point_values = critics.subset(np.flatnonzero(healthy)), point_values[healthy]
    return Estimate(
        value=combine(method, values[healthy], point_values, point_weights),
        fold_values=values[healthy],
        bad_folds=tuple(int(k) for k in np.flatnonzero(~healthy)),
        method=method,
        gamma=task.gamma,
        seed=task.seed,
        n_transitions=task.log.n_transitions,
        n_episodes=task.log.n_episodes,
        unit=ValueUnit.of(task.log, task.gamma),
        critics=critics,
        numbers=members.numbers,
        point_values=point_values,
        point_weights=point_weights,
    )
