"""Where a policy goes that a log has never been, and state columns that hold codes for missing values.

What is found is named by state and action, as sentences: `evaluate` warns of them and keeps them with
the estimate, `diagnose` shows them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, action_counts
from tailproof.errors import StateWarning
from tailproof.judgement.rules import RULES
from tailproof.policies.simple import action_probabilities

_ROWS = 20_000  # at which the policy is evaluated
_COLUMNS = 50  # of the state that are looked at
_FEW_VALUES = 12  # of a column, each of which is a region of its own
_BINS = 10  # quantiles of other columns
_NAMED = 3  # regions at most
_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999, 999999)
_FAR = 3.0  # ranges of the other values between them and a code


class Hole(NamedTuple):
    """A region of one state column in which the policy takes an action that was never logged."""

    column: str
    region: str
    action: str
    rows: int
    share: float  # of the action under the policy, there

    def __str__(self) -> str:
        return (
            f"Where {self.column} is {self.region} ({self.rows:,} rows) the policy takes action "
            f"{self.action} in {self.share:.0%}, but the log never does: nothing there says what it is "
            f"worth."
        )


def some_rows(log: AnyLog, rows: int = _ROWS) -> Log:
    """Return evenly spaced episodes with about so many rows; all of a log in memory."""
    if not log.stays_on_disk:
        return log
    allowed = min(rows, int(log.memory_budget * log.n_transitions / log.bytes_in_memory))
    every = max(1, -(-log.n_transitions // max(allowed, 1)))
    return log.take(np.arange(0, log.n_episodes, every), count_actions=False).load()


def coverage(policy: Any, log: AnyLog, starts: FloatArray | None) -> tuple[str, ...]:
    """Return what the log says nothing about, for one evaluation of the policy.

    Actions that were never logged at all, and regions of a state column in which an action that the
    policy takes was never logged though it is common elsewhere.
    """
    if not log.is_discrete:
        return ()
    logged = action_counts(log) > 0
    if log.stays_on_disk and logged.all():
        return ()  # a pass over a log on disk costs more than regions without an action are worth
    some = some_rows(log)
    rows = np.arange(0, some.n_transitions, max(1, some.n_transitions // _ROWS))
    places = some.table_rows.rows[rows]
    chances = action_probabilities(policy, some.states[rows], log.n_actions, rows=places)
    if starts is not None:  # those of the log are among its rows
        begins = starts[:: max(1, len(starts) // _ROWS)]
        chances = np.concatenate([chances, action_probabilities(policy, begins, log.n_actions)])
    share = chances.mean(axis=0)
    found = [
        f"The policy takes action {_label(log, action)} with probability {share[action]:.2g} but the "
        f"log never does: nothing is known of its value, and the critics assume zero."
        for action in np.flatnonzero(~logged & (share > 0)).tolist()
    ]
    there = sorted(
        holes(some, rows, chances[: len(rows)]), key=lambda each: -each.rows * each.share
    )
    return (*found, *map(str, there[:_NAMED]))


def holes(log: Log, rows: IntArray, chances: FloatArray) -> Iterator[Hole]:
    """Yield the regions of single columns in which the policy's action was never logged.

    `chances` are the policy's probabilities at some rows, (m, A).
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
            for first, last in _runs(empty):
                taken = slice(first, last + 1)
                low, high = edges[first][0], edges[last][1]
                rows_there = int(size[taken].sum())
                least = RULES.hole_rows if low == high else RULES.hole_range
                if rows_there < least or overall[action] * rows_there < RULES.hole_expected:
                    continue
                yield Hole(
                    name,
                    f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}",
                    _label(log, action),
                    rows_there,
                    float(np.average(own[taken], weights=size[taken])),
                )


def missing_codes(log: AnyLog) -> tuple[str, ...]:
    """Return the state columns of a log in memory that seem to hold a code for a missing value."""
    found: list[str] = []
    if log.stays_on_disk:
        return ()
    for name, column in zip(log.state_names, log.states.T, strict=True):
        for code in _CODES:
            there = column == code
            others = column[~there]
            if not there.any() or len(others) == 0:
                continue
            low, high = float(others.min()), float(others.max())
            outside = code > high + _FAR * (high - low) or code < low - _FAR * (high - low)
            if (code < low or code > high) and (outside or (code < 0 <= low)):
                found.append(
                    f"State column {name} is {code} in {int(there.sum()):,} of {len(column):,} rows, "
                    f"where others are {low:.4g} to {high:.4g}: if that is a code for a missing value, "
                    f"replace it and add a column that says where, because it is taken for a number."
                )
    return tuple(found)


def warn_of_missing_codes(log: AnyLog) -> tuple[str, ...]:
    """Warn of the state columns that seem to hold a code for a missing value; return the sentences."""
    found = missing_codes(log)
    for text in found:
        warnings.warn(text, StateWarning, stacklevel=4)
    return found


def _regions(column: FloatArray) -> tuple[list[tuple[float, float]], IntArray]:
    """Return the ends of each region of a column, and the region of each row, (n,)."""
    values = np.unique(column)
    if len(values) > _FEW_VALUES:
        inner = np.unique(np.quantile(column, np.arange(1, _BINS) / _BINS))
        region = np.searchsorted(inner, column, side="left")
        ends = [float(values[0]), *map(float, inner), float(values[-1])]
        return list(pairwise(ends)), region
    return [(float(each),) * 2 for each in values], np.searchsorted(values, column)


def _runs(marked: FloatArray) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of each run of marked ones."""
    padded = np.concatenate([[False], marked, [False]]).astype(int)
    change = np.diff(padded)
    yield from zip(
        np.flatnonzero(change == 1).tolist(),
        (np.flatnonzero(change == -1) - 1).tolist(),
        strict=True,
    )


def _label(log: AnyLog, action: int) -> str:
    return str(log.action_space.label(action))  # type: ignore[union-attr]
