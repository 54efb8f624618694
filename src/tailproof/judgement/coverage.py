"""Actions of a policy that a log does not cover.

Findings are sentences that name state and action: `evaluate` warns of them and stores them with the
estimate, `diagnose` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np

from tailproof.algorithms.on_log import PolicyOnLog
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, LazyLog, action_counts
from tailproof.judgement.rules import RULES
from tailproof.policies.simple import action_probabilities

_ROWS = 20_000  # most rows in which the policy is evaluated
_COLUMNS = 50  # most state columns to check
_FEW_VALUES = 12  # most values of a column for one region per value
_BINS = 10  # quantile regions of other columns
_NAMED = 3  # most regions to report


def coverage(task: Task) -> tuple[str, ...]:
    """Return sentences about the policy's actions that the log does not cover.

    These are actions that were never logged, and regions of a state column in which an action of the
    policy was never logged although it is common elsewhere.
    """
    log, policy = task.log, task.policy
    if not log.is_discrete:
        return ()
    logged = action_counts(log) > 0
    if log.stays_on_disk and logged.all():
        return ()  # checking regions is not worth a pass over a log on disk
    some = _some_episodes(log) if log.stays_on_disk else log
    rows = np.arange(0, some.n_transitions, max(1, some.n_transitions // _ROWS))
    if some is log and len(rows) == log.n_transitions:
        chances = here = task.action_probabilities
    else:
        places = some.table_rows.rows[rows]
        chances = here = action_probabilities(policy, some.states[rows], log.n_actions, rows=places)
    if task.initial_states is not None and task.initial_rows is None:  # not states of the log
        begins = task.initial_states[:: max(1, len(task.initial_states) // _ROWS)]
        chances = np.concatenate([here, action_probabilities(policy, begins, log.n_actions)])
    share = chances.mean(axis=0)
    found = [
        f"The policy takes action {_label(log, action)} with probability {share[action]:.2g} but the "
        f"log never does: nothing is known of its value, and the critics assume zero."
        for action in np.flatnonzero(~logged & (share > 0)).tolist()
    ]
    largest = sorted(_holes(some, rows, here), key=lambda hole: -hole[0])
    return (*found, *(said for _, said in largest[:_NAMED]))


def too_few_rows(found: PolicyOnLog | None) -> tuple[str, ...]:
    """Return a sentence if hardly any row of the log says anything about the policy."""
    if found is None or np.isnan(found.effective_rows):
        return ()
    if found.effective_rows >= min(RULES.uncovered, RULES.uncovered_share * found.rows):
        return ()
    return (
        f"The log does not cover this policy: {found.effective_rows:.2g} of {found.rows:,} rows are "
        f"like what it does (effective rows), and its value is extrapolated from the others.",
    )


def _some_episodes(log: LazyLog) -> Log:
    """Return evenly spaced episodes with about 20,000 rows."""
    allowed = min(_ROWS, int(log.memory_budget * log.n_transitions / log.bytes_in_memory))
    every = max(1, -(-log.n_transitions // max(allowed, 1)))
    return log.take(np.arange(0, log.n_episodes, every), count_actions=False).load()


def _holes(log: Log, rows: IntArray, chances: FloatArray) -> Iterator[tuple[float, str]]:
    """Yield the regions of single columns in which the policy's action was never logged.

    Each is a pair: how often the policy takes the action there, and a sentence. `chances` are the
    policy's probabilities at some rows, (m, A).
    """
    n_actions = log.n_actions
    overall = np.bincount(log.actions, minlength=n_actions) / log.n_transitions
    for j, name in enumerate(log.state_names[:_COLUMNS]):
        edges, region = _regions(log.states[:, j])
        size = np.bincount(region, minlength=len(edges))
        counts = np.bincount(region * n_actions + log.actions, minlength=len(edges) * n_actions)
        counts = counts.reshape(len(edges), n_actions)
        asked = np.maximum(np.bincount(region[rows], minlength=len(edges)), 1)
        for action in np.flatnonzero(overall > 0).tolist():
            own = np.bincount(region[rows], chances[:, action], minlength=len(edges)) / asked
            empty = (counts[:, action] == 0) & (own >= RULES.hole_policy)
            for is_empty, run in groupby(range(len(edges)), key=empty.__getitem__):
                there = list(run)
                (low, _), (_, high), count = edges[there[0]], edges[there[-1]], size[there].sum()
                least = RULES.hole_rows if low == high else RULES.hole_range
                enough = count >= least and overall[action] * count >= RULES.hole_expected
                if is_empty and enough:
                    share = float(np.average(own[there], weights=size[there]))
                    place = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
                    yield (
                        count * share,
                        f"Where {name} is {place} ({count:,} rows) the policy takes action "
                        f"{_label(log, action)} in {share:.0%}, but the log never does: nothing there "
                        f"says what it is worth.",
                    )


def _regions(column: FloatArray) -> tuple[list[tuple[float, float]], IntArray]:
    """Return the ends of each region of a column, and the region of each row, (n,)."""
    values = np.unique(column)
    if len(values) > _FEW_VALUES:
        inner = np.unique(np.quantile(column, np.arange(1, _BINS) / _BINS))
        region = np.searchsorted(inner, column, side="left")
        ends = [float(values[0]), *map(float, inner), float(values[-1])]
        return list(pairwise(ends)), region
    return [(float(each),) * 2 for each in values], np.searchsorted(values, column)


def _label(log: AnyLog, action: int) -> str:
    return str(log.action_space.label(action))  # type: ignore[union-attr]
