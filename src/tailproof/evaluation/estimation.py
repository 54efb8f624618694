"""From a prepared log and a policy to an estimate: fit every fold, combine the members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.on_log import without_copies
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog
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
    counted = task.log.once if isinstance(task.log, Log) else task.log
    return Estimate(
        value=combine(method, values[healthy], point_values, point_weights),
        fold_values=values[healthy],
        bad_folds=tuple(int(k) for k in np.flatnonzero(~healthy)),
        method=method,
        gamma=task.gamma,
        seed=task.seed,
        n_transitions=counted.n_transitions,
        n_episodes=counted.n_episodes,
        unit=ValueUnit.of(task.log, task.gamma),
        critics=critics,
        numbers=_counted_once(members.numbers, task.log),
        point_values=point_values,
        point_weights=point_weights,
    )


def _counted_once(numbers: Numbers | None, log: AnyLog) -> Numbers | None:
    """Return the numbers with effective rows of the table, not of the copies that weights made."""
    choice = None if numbers is None else numbers.choice
    if numbers is None or choice is None or choice.on_log is None or choice.weights is None:
        return numbers
    if not isinstance(log, Log) or len(choice.weights) != log.n_transitions:
        return numbers
    found = without_copies(choice.on_log, log, choice.weights)
    return replace(numbers, choice=replace(choice, on_log=found))
