"""Which rows, episodes or groups decide an answer: how far each alone moves the gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailproof.log.log import Log

if TYPE_CHECKING:
    from tailproof.arrays import IntArray
    from tailproof.doors.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class DecisiveUnit:
    """A row, an episode or a group, and how far it alone moves the gain over the logged policy.

    Attributes
    ----------
    noun, label
        What it is, and its id; empty for a row without an id.
    row
        The row of the file, from 0, if it is a single one.
    reward
        The sum of its rewards.
    effect, without
        The gain with it minus the gain without it, and the latter, to first order.
    """

    noun: str
    label: str
    row: int | None
    reward: float
    effect: float
    without: float

    @property
    def name(self) -> str:
        """What to call it."""
        return _name(self.noun, self.label, self.row)


def _name(noun: str, label: str, row: int | None) -> str:
    if row is None:
        return f"{noun} {label}"
    return f"row {row:,}" + f" ({label})" * bool(label)


def episode_name(log: Log, episode: int) -> str:
    """Return what to call an episode: its row in the file, from 0, if it has one only, and its id."""
    return _name(*_identity(log, np.flatnonzero(log.episode_of_row == episode)))


def decisive_units(estimate: Estimate, *, top: int = 10) -> tuple[DecisiveUnit, ...]:
    """Return the units that move the gain over the logged policy most, the largest effect first.

    With φ_u the influence of unit u of U on the gain (the difference of the scores of the policy and of
    the logged one, where the point is their mean), leaving it out moves the gain by φ_u / (U − 1) to
    first order: models are not fitted again. Empty where no influence is known, and for a result
    without its log.
    """
    choice, log = estimate.choice, None if estimate.task is None else estimate.task.log
    scores = np.empty(0) if choice is None else choice.gain_influence
    if len(scores) < 2 or log is None:
        return ()
    effects = scores / (len(scores) - 1)
    chosen = np.argsort(-np.abs(effects), kind="stable")[:top]
    gain, unit_of_row = estimate.gain.value, units_of_rows(estimate, log)
    found = []
    for unit in chosen[effects[chosen] != 0].tolist():
        rows, effect = np.flatnonzero(unit_of_row == unit), float(effects[unit])
        noun, label, row = _identity(log, rows)
        found.append(
            DecisiveUnit(
                noun=noun,
                label=label,
                row=row,
                reward=float(log.rewards[rows].sum()) / _copies(log, rows),
                effect=effect,
                without=gain - effect,
            )
        )
    return tuple(found)


def units_of_rows(estimate: Estimate, log: Log) -> IntArray:
    """Return the unit of each row of the log: its place among the scores, (n,)."""
    choice = estimate.choice
    if choice is not None and choice.unit_of_row is not None:
        return choice.unit_of_row
    return np.asarray(log.group_of_episode[log.episode_of_row])


def _identity(log: Log, rows: IntArray) -> tuple[str, str, int | None]:
    """Return what rows of a log are (a row, an episode or a group), their id, and the file's row."""
    episodes, table = np.unique(log.episode_of_row[rows]), np.unique(log.table_rows.rows[rows])
    label = str(log.episode_ids[episodes[0]])
    group = label if log.group_ids is None else str(log.group_ids[episodes[0]])
    if len(table) == 1:
        return (
            "row",
            (group if group != label else "") if _is_counted(log) else label,
            int(table[0]),
        )
    if len(np.unique(log.copy_of[episodes])) == 1:
        return "episode", label, None
    return "group", group, None


def _is_counted(log: Log) -> bool:
    """Return whether the episodes are only counted: their ids are places in the table."""
    ids = log.episode_ids
    return ids.dtype.kind in "iu" and bool(
        (np.diff(ids) >= 0).all() and ids[-1] < log.table_rows.count
    )


def _copies(log: Log, rows: IntArray) -> float:
    """Return how often the rows of the table are repeated, for the sake of sample weights."""
    return len(rows) / len(np.unique(log.table_rows.rows[rows]))
