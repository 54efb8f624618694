"""From a prepared log and a policy to an estimate: fit every fold, combine the members."""

from __future__ import annotations

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.ensemble.critics import Critics
from tailproof.evaluation.estimate import Estimate, combine
from tailproof.evaluation.unit import ValueUnit
from tailproof.methods.fit import fit_members, require_healthy
from tailproof.methods.method import Method


def estimate_of(task: Task, method: Method) -> Estimate:
    """Evaluate the policy of a task, whose log is as the method fits it."""
    data = task.log
    members = fit_members(task, method, np.random.default_rng(task.seed))
    critics: Critics | None = None
    point_values: FloatArray | None = None
    point_weights: FloatArray | None = None
    values: FloatArray
    if members.fitted is not None:
        critics = members.fitted.critics
        points = task.initial_points()
        with np.errstate(invalid="ignore", over="ignore"):  # diverged members are sorted out below
            point_values = critics.values(points.states, points.actions)  # (K, P)
            values = point_values @ points.weights
        point_weights = points.weights
        healthy = critics.healthy() & np.isfinite(values)
    else:
        assert members.numbers is not None
        values = members.numbers.values
        healthy = np.isfinite(values)
    require_healthy(healthy, values, data, members.folds)
    if not healthy.all():
        kept = np.flatnonzero(healthy)
        critics = None if critics is None else critics.subset(kept)
        point_values = None if point_values is None else point_values[kept]
    fold_values = values[healthy]
    return Estimate(
        value=combine(method, fold_values, point_values, point_weights),
        fold_values=fold_values,
        bad_folds=tuple(int(k) for k in np.flatnonzero(~healthy)),
        method=method,
        gamma=task.gamma,
        seed=task.seed,
        n_transitions=data.n_transitions,
        n_episodes=data.n_episodes,
        unit=ValueUnit.of(data, task.gamma),
        critics=critics,
        numbers=members.numbers,
        point_values=point_values,
        point_weights=point_weights,
    )
