"""Which rows, episodes or groups decide an answer: how far each alone moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import void
from tailproof.files import as_frame, plain
from tailproof.log.log import Log, discounted_returns

if TYPE_CHECKING:
    from tailproof.doors.estimate import Estimate
    from tailproof.files import Frame


@dataclass(frozen=True, kw_only=True)
class DecisiveUnit:
    """A row, an episode or a group, and how far it alone moves a number.

    Attributes
    ----------
    noun, label
        What it is, and its id; empty for a row without an id.
    row
        The row of the file, from 0, if it is a single one.
    reward
        The sum of its rewards.
    effect, without
        The number with it minus the number without it, and the latter, to first order.
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
        if self.row is None:
            return f"{self.noun} {self.label}"
        return f"row {self.row:,}" + f" ({self.label})" * bool(self.label)


@dataclass(frozen=True, kw_only=True)
class Influence:
    """The units that decide a number, the largest effect first.

    Attributes
    ----------
    of, value
        What the number is, and the number.
    units
        The most influential ones.
    value_without_all
        The number without all of them; NaN if no unit would be left.
    share
        Their part of Σ_u |effect of u|: 0.5 if it equals that of all others together.
    """

    of: str
    value: float
    units: tuple[DecisiveUnit, ...]
    value_without_all: float
    share: float

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return dict(plain(self))

    def to_frame(self) -> Frame:
        """Return one row per unit: a pandas frame, or a pyarrow table where pandas is missing."""
        return as_frame([{"name": each.name, **plain(each)} for each in self.units])


#: What the influence of an estimate is on, and that of a log without one.
GAIN, AVERAGE = "difference from what was logged", "average"


def influence_on(estimate: Estimate | None, log: Log, *, gamma: float, top: int = 10) -> Influence:
    """Return what decides an answer; without one, what decides the mean return of the log.

    An answer that has no scores, no log or a caution that voids it is none.
    """
    found = None
    if estimate is not None and void(estimate.cautions) is None:
        found = influence_on_gain(estimate, top=top)
    if found is not None:
        return found
    returns, (_, unit) = discounted_returns(log, gamma), np.unique(log.copy_of, return_inverse=True)
    copies = np.bincount(unit).astype(float)  # weights repeat episodes
    value = float(returns.mean())
    scores = np.bincount(unit, returns) - copies * value
    return _influence(AVERAGE, value, scores, copies, log, unit[log.episode_of_row], top)


def influence_on_gain(estimate: Estimate, *, top: int = 10) -> Influence | None:
    """Return the units that move the gain over the logged policy most.

    With φ_u the influence of unit u of U on the gain (the difference of the scores of the policy and of
    the logged one, where the point is their mean), leaving it out moves the gain by φ_u / (U − 1) to
    first order: models are not fitted again. None where no influence is known, and for a result
    without its log.
    """
    choice, log = estimate.choice, None if estimate.task is None else estimate.task.log
    scores = np.empty(0) if choice is None else choice.gain_influence
    if len(scores) < 2 or log is None:
        return None
    unit, gain = units_of_rows(estimate, log), estimate.gain.value
    return _influence(GAIN, gain, scores, np.ones(len(scores)), log, unit, top)


def decisive_units(estimate: Estimate, *, top: int = 10) -> tuple[DecisiveUnit, ...]:
    """Return the units that move the gain over the logged policy most; empty where unknown."""
    found = influence_on_gain(estimate, top=top)
    return () if found is None else found.units


def _influence(
    of: str,
    value: float,
    scores: FloatArray,
    counts: FloatArray,
    log: Log,
    unit_of_row: IntArray,
    top: int,
) -> Influence:
    """Return the units that decide a mean, from the sums of their scores, (U,), which add up to 0.

    Without some units the mean is value − Σ scores / (number of samples without them).
    """
    total = float(counts.sum())
    effects = scores / np.maximum(total - counts, 1.0)
    order = np.argsort(-np.abs(effects), kind="stable")[:top]
    chosen = order[(effects[order] != 0) & (counts[order] < total)]
    left = total - float(counts[chosen].sum())
    units = []
    for unit in chosen.tolist():
        rows, effect = np.flatnonzero(unit_of_row == unit), float(effects[unit])
        noun, label, row = _identity(log, rows)
        units.append(
            DecisiveUnit(
                noun=noun,
                label=label,
                row=row,
                reward=float(log.rewards[rows].sum()) / _copies(log, rows),
                effect=effect,
                without=value - effect,
            )
        )
    largest = float(np.abs(effects).max()) or 1.0  # sums of sizes must not overflow
    sizes = np.abs(effects) / largest
    return Influence(
        of=of,
        value=value,
        units=tuple(units),
        value_without_all=value - float(scores[chosen].sum()) / left if left > 0 else float("nan"),
        share=float(sizes[chosen].sum() / (sizes.sum() or 1.0)),
    )


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
