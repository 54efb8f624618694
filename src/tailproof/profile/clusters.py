"""Columns whose values are clusters: rows that are not independent, though nobody named a group.

Looked for in one-step logs, in every column of the table, used as a state or not: the action never
varies among the rows of a value (every hospital has one arm); rewards of the rows of a value are alike
beyond what state and action explain; numbers repeat that do not repeat by chance (the same customers).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.critics.ridge import gcv_ridge
from tailproof.errors import Caution, TailproofError
from tailproof.features import Standardise
from tailproof.log.log import Log
from tailproof.log.validation import has_squares
from tailproof.profile.one_step import winsorised
from tailproof.rules import RULES

_ROWS, _COLUMNS = 200_000, 60  # most rows and columns to check
_REPEATED = 0.2  # least share of rows whose value another row has too
_MANY = 50  # least number of values that may be persons
_FINE = 50  # points of a grid, per row, from which its values do not repeat by chance
_SURE = 6.0  # standard errors beyond chance: P < 10⁻⁹, because many columns are tested
_HINTED = 2.0  # the same for numbers that do not repeat by chance
_PURE = 0.98  # least share of repeated values that have one action
_TURNS = 0.5  # least changes of the action along ordered values, over those of a random order
_ORDERED = 30  # fewest numbers whose neighbours tell clusters from an effect of the number
_STEPS = 20  # one of so many ordered values may be at a step
_LEARNABLE = 20  # rows of a value of a state from which models learn what it is worth
_NAMED = 3  # most columns to report
_PERSONS = re.compile(
    r"(^|_)(customer|user|client|patient|member|subscriber|visitor|account|household|person|subject|"
    r"device|cookie)s?(_?(id|no|number|key|hash|code))?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A column whose rows with the same value are not independent, or may not be."""

    name: str
    labels: AnyArray  # (n,) the value of each row
    count: int  # distinct values
    why: str
    certain: bool  # whether the rows of a value are to count as one observation

    @property
    def caution(self) -> Caution:
        """The cluster in words, and what is done, or to do, about it."""
        done = (
            f"Rows with the same {self.name} count as one observation; pass group=... to name another "
            f"column."
            if self.certain
            else f"If rows with the same {self.name} belong together, pass group={self.name!r}: "
            f"without it every row counts as independent."
        )
        return Caution("clusters", f"{self.why} {done}")


def clusters_of(log: Log) -> tuple[Cluster, ...]:
    """Return the clusters of a one-step log that has no groups, those beyond doubt first."""
    n = log.n_transitions
    if not (log.is_bandit and log.is_discrete and log.group_ids is None and log.budget is None):
        return ()
    if not RULES.fewest <= n <= _ROWS or log.once is not log or not has_squares(log.rewards):
        return ()
    residuals = _residuals(log)
    found = [
        each
        for column in _columns(log)
        if (each := _cluster(column, log.actions, log.n_actions, residuals)) is not None
    ]
    certain = [each for each in found if each.certain]
    # rows can be grouped once: by the coarsest clusters, and by a name rather than by a number
    best = sorted(certain, key=lambda each: (each.count, _PERSONS.search(each.name) is None))
    doubted = [each for each in found if not each.certain]
    return (*best[:1], *doubted[: _NAMED - len(best[:1])])


def with_clusters(log: Log, clusters: Sequence[Cluster]) -> Log:
    """Return the log with the rows of the first cluster as groups, if it is beyond doubt."""
    if clusters and clusters[0].certain:
        return replace(log, group_ids=clusters[0].labels)
    return log


class _Column(NamedTuple):
    """A column with values that repeat; `numbers` are its distinct values if they have an order."""

    name: str
    labels: AnyArray  # (n,)
    codes: IntArray  # (n,) places of the labels among the distinct ones
    numbers: FloatArray | None  # (m,)
    is_state: bool


def _columns(log: Log) -> Iterator[_Column]:
    """Yield the columns of the table, or the state's variables, in which enough rows repeat values."""
    table = log.table_rows.table
    states = dict(zip(log.state_names, log.states.T, strict=True))
    listed: dict[str, AnyArray] = states if table is None else _from_table(log, table)
    used = set(states if log.encoder is None else log.encoder.columns)
    for name, values in list(listed.items())[:_COLUMNS]:
        distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        repeated = counts[counts > 1]
        if len(repeated) < RULES.fewest or repeated.sum() < _REPEATED * len(values):
            continue
        ordered = distinct.dtype.kind in "iuf"
        numbers = distinct.astype(float) if ordered else None
        yield _Column(name, values, codes, numbers, name in used)


def _from_table(log: Log, table: Any) -> dict[str, AnyArray]:
    """Return the columns that are known before the action, a value for each row of the log."""
    from pyarrow import types as kinds  # slow to import; loaded already where there is a table

    from tailproof.io.values import array, missing_rows, unwrapped

    try:
        read = table.read(list(table.names)[:_COLUMNS])
    except TailproofError:  # what is not used need not be readable
        return {}
    found: dict[str, AnyArray] = {}
    rows = log.table_rows.rows
    for name in read.column_names:
        column = unwrapped(read.column(name))
        if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
            column = column.cast(f"int{column.type.bit_width}")
            column = column.fill_null(-(2 ** (column.type.bit_width - 1)))
        if missing_rows(column)[rows].any():
            continue
        if kinds.is_integer(column.type) or kinds.is_floating(column.type):
            values = array(column, absent=0)[rows]  # its own to_numpy would import pandas
        else:
            values = np.array(list(map(str, column.to_pylist())))[rows]
        if values.dtype.kind != "f" or np.isfinite(values).all():
            found[name] = values
    return found


def _residuals(log: Log) -> FloatArray:
    """Return rewards without extremes, less what the action and a quadratic of the state explain."""
    clipped = winsorised(log.rewards)
    count = np.maximum(np.bincount(log.actions, minlength=log.n_actions), 1)
    means = np.bincount(log.actions, weights=clipped, minlength=log.n_actions) / count
    off: FloatArray = clipped - means[log.actions]
    z = Standardise.fit(log.states, tame=True)(log.states)[:, :_COLUMNS]
    coefficients, intercept = gcv_ridge(inputs := np.hstack([z, z * z]), off)
    left: FloatArray = off - inputs @ coefficients - intercept
    return left / (float(left.std()) or 1.0)


def _cluster(
    column: _Column, actions: IntArray, n_actions: int, residuals: FloatArray
) -> Cluster | None:
    """Return what a column's values are, if anything says that their rows belong together."""
    name, labels, codes, numbers, is_state = column
    m, counts = int(codes.max()) + 1, np.bincount(codes)
    if _one_action(column, actions, n_actions):
        why = (
            f"Nearly all rows with the same {name} ({m:,} values) have the same action: differences "
            f"between its values cannot be told from effects of the action."
        )
        return Cluster(name, labels, m, why, certain=True)
    alike, beyond_chance = _alike(codes, counts, residuals, ordered=numbers is not None)
    learnable = is_state and len(codes) > _LEARNABLE * m
    person = m >= _MANY and _PERSONS.search(name) is not None
    repeats = m >= _MANY and numbers is not None and _is_continuous(numbers, len(codes))
    told = not learnable and (numbers is None or m >= _ORDERED)  # clusters from an effect
    shown = told and beyond_chance > _SURE and alike > RULES.cluster_inflation
    if shown:
        why = (
            f"Rewards of rows with the same {name} ({m:,} values) are alike beyond what the state and "
            f"the action explain: intervals for independent rows would be {np.sqrt(alike):.2g} times "
            f"too narrow."
        )
        return Cluster(name, labels, m, why, certain=person or repeats)
    if person or (repeats and beyond_chance > _HINTED):
        why = f"Column {name} has {m:,} values in {len(codes):,} rows" + (
            ", and numbers like these do not repeat by chance." if repeats else "."
        )
        return Cluster(name, labels, m, why, certain=False)
    return None


def _one_action(column: _Column, actions: IntArray, n_actions: int) -> bool:
    """Return whether nearly all repeated values have one action, as neither chance nor a rule would do.

    A rule of an ordered column, such as a threshold, changes the action rarely along its values.
    """
    table = np.bincount(column.codes * n_actions + actions).astype(float)
    table = np.pad(table, (0, -len(table) % n_actions)).reshape(-1, n_actions)
    rows = table.sum(axis=1)
    repeated, share = rows > 1, table.sum(axis=0) / len(actions)
    several = int(repeated.sum())
    if several <= 2 * np.count_nonzero(share):
        return False
    pure = table.max(axis=1) == rows
    by_chance = (share ** rows[repeated, None]).sum(axis=1)
    error = float(np.sqrt((by_chance * (1 - by_chance)).sum()))
    if pure[repeated].mean() < _PURE or pure[repeated].sum() - by_chance.sum() <= _SURE * error:
        return False
    if column.numbers is None:
        return True
    along = table[repeated].argmax(axis=1)
    mixed = 1 - ((np.bincount(along) / several) ** 2).sum()
    return bool(np.count_nonzero(np.diff(along)) > _TURNS * mixed * (several - 1))


def _alike(
    codes: IntArray, counts: IntArray, residuals: FloatArray, *, ordered: bool
) -> tuple[float, float]:
    """Return the design effect of the values as clusters, and by how many errors it exceeds 1.

    Σ over pairs of rows with one value of e·e', over Σ e², is 0 for independent rows. What rows of
    neighbouring values share as well is the effect of an ordered column, not of its clusters. Where
    values have many rows the few largest parts are left out: they may be steps of that effect.
    """
    first, second, fourth = (np.bincount(codes, residuals**power) for power in (1, 2, 4))
    shared = first**2 - second  # (m,)
    variance = 2 * float((second**2 - fourth).sum())
    if ordered:
        around, near = (np.convolve(each, [1, 0, 1], "same") for each in (first, counts))
        shared = shared - counts * first * around / near
        shared[[0, -1]] = 0  # at the ends neighbours are on one side only
        if counts.mean() > _LEARNABLE:
            shared = np.sort(shared)[: -max(len(near) // _STEPS, 2)]
        variance += float((counts**3 / near).sum())
    if not variance > 0:
        return 1.0, 0.0
    return 1 + float(shared.sum() / second.sum()), float(shared.sum() / np.sqrt(variance))


def _is_continuous(distinct: FloatArray, rows: int) -> bool:
    """Return whether numbers are on no grid that is coarse enough for them to repeat by chance."""
    gaps = np.diff(distinct)
    steps = gaps / gaps.min()
    on_grid = np.abs(steps - steps.round()).max() < 1e-3
    return not (on_grid and np.ptp(distinct) < _FINE * rows * gaps.min())
