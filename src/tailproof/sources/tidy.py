"""Prepare state columns: fill missing values, split dates, merge rare categories, and report it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import BoolArray, IntArray
from tailproof.data.log import GAP, OTHER
from tailproof.errors import LogError, listed
from tailproof.sources.columns import Columns
from tailproof.sources.encode import (
    array,
    is_list,
    is_text,
    labelled,
    missing_rows,
    shown,
    unwrapped,
)
from tailproof.sources.steps import Notes
from tailproof.sources.variables import require_no_numbers

Missing = Literal["category", "median", "drop-episode", "error"]
#: The category for missing text.
MISSING = "(missing)"
_LONGER = 1.1  # how much longer dropped episodes must be to be warned of
_DATE_AS_TEXT = re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}.*")


@dataclass(frozen=True)
class Tidying:
    """How to convert state columns to numbers.

    Attributes
    ----------
    missing
        ``"category"``: missing text becomes its own category, a missing number the median plus an
        indicator variable; ``"median"``: missing text becomes the most common value, also with an
        indicator; ``"drop-episode"``: as ``"category"``, but episodes in which an action, a reward or
        another part is missing are left out, which would otherwise be an error; ``"error"`` raises.
    categorical
        Numeric columns that are categories, such as a site number, or the action's: a menu of prices.
    categories
        Largest number of variables per text column: the most common values, and one for all others.
    cost
        The cost of each action, by label, subtracted from the reward of rows with this action.
    """

    missing: Missing = "category"
    categorical: tuple[str, ...] = ()
    categories: int = 32
    cost: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.missing not in get_args(Missing):
            raise LogError(
                f"missing must be one of {', '.join(get_args(Missing))}. Got {self.missing!r} instead."
            )
        if self.categories < 2:
            raise LogError(f"categories must be at least 2. Got {self.categories!r} instead.")


class Pair(NamedTuple):
    """A state column, and the column of its next values, if any."""

    name: str
    column: pa.ChunkedArray
    after_name: str | None = None
    after: pa.ChunkedArray | None = None

    @property
    def both(self) -> list[pa.ChunkedArray]:
        """The columns."""
        return [self.column] if self.after is None else [self.column, self.after]


def state_pairs(table: pa.Table, columns: Columns, tidying: Tidying, notes: Notes) -> list[Pair]:
    """Return the state columns with values filled in, dates split and rare categories merged."""
    known = (*columns.state, *columns.action)
    if unknown := [name for name in tidying.categorical if name not in known]:
        raise LogError(
            f"categorical names columns of the state or the action. {', '.join(unknown)} is neither; "
            f"they are {', '.join(known)}."
        )
    unseen = _unseen(table, columns.next_state)
    pairs: list[Pair] = []
    filled: list[str] = []
    names = zip(columns.state, columns.next_state or [None] * len(columns.state), strict=True)
    for name, after in names:
        pair = Pair(name, unwrapped(table[name]), after, unwrapped(table[after]) if after else None)
        _refuse_records(pair)
        for part in _in_parts(_as_text(pair) if name in tidying.categorical else pair):
            try:
                whole, indicator = _filled(part, tidying, unseen, filled)
                pairs += [*_grouped(whole, tidying, notes), *indicator]
            except LogError as error:
                if name not in columns.by_pattern:
                    raise
                notes.cautions.append(f"{str(error).partition('. ')[0]}. It is left out.")
    if filled:
        notes.notes.append(
            f"Missing values were filled in: {'; '.join(filled)}. Indicator variables say where a "
            f"number was."
        )
    return pairs


def _refuse_records(pair: Pair) -> None:
    kind = pair.column.type
    if kinds.is_struct(kind) or kinds.is_map(kind):
        raise LogError(
            f"State column {pair.name!r} holds records, not numbers or text. {shown(pair.column)} Make "
            f"columns of their own of its fields, as pandas.json_normalize(table.to_dict('records')) "
            f"does."
        )


def _unseen(table: pa.Table, next_state: Sequence[str]) -> BoolArray | None:
    """Return the rows without any next state, which must not be filled in."""
    if not next_state:
        return None
    return np.asarray(np.logical_and.reduce([missing_rows(table[name]) for name in next_state]))


def _as_text(pair: Pair) -> Pair:
    def text(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if kinds.is_floating(column.type):
            whole = pc.equal(column, pc.round(column))
            if pc.all(whole, skip_nulls=True).as_py():
                column = column.cast(pa.int64(), safe=False)
        return column.cast(pa.large_string())

    return _changed(pair, [text(column) for column in pair.both])


def _changed(pair: Pair, columns: Sequence[pa.ChunkedArray], suffix: str = "") -> Pair:
    after = columns[1] if len(columns) > 1 else None
    after_name = None if pair.after_name is None else pair.after_name + suffix
    return Pair(pair.name + suffix, columns[0], after_name, after)


def _in_parts(pair: Pair) -> list[Pair]:
    """Return a date or time as numbers: days since 1970, and the hour if there is one."""
    kind = pair.column.type
    if not (kinds.is_date(kind) or kinds.is_timestamp(kind)):
        return [pair]

    def days(column: pa.ChunkedArray) -> pa.ChunkedArray:
        instants = column.cast(pa.timestamp("us")).cast(pa.int64())
        return pc.divide(instants.cast(pa.float64()), 86_400e6)

    parts = [_changed(pair, [days(column) for column in pair.both])]
    if kinds.is_timestamp(kind):
        hours = [pc.hour(column).cast(pa.float64()) for column in pair.both]
        if len(pc.unique(hours[0]).drop_null()) > 1:
            parts.append(_changed(pair, hours, " (hour)"))
    weekdays = [pc.day_of_week(column).cast(pa.float64()) for column in pair.both]
    if len(pc.unique(weekdays[0]).drop_null()) > 1:
        parts.append(_changed(pair, weekdays, " (weekday)"))
    return parts


def _filled(
    pair: Pair, tidying: Tidying, unseen: BoolArray | None, notes: list[str]
) -> tuple[Pair, list[Pair]]:
    """Return a column with missing values filled in, and the indicator of missing values."""
    gaps = [missing_rows(column) for column in pair.both]
    if len(gaps) > 1 and unseen is not None:
        gaps[1] &= ~unseen
    count = int(sum(each.sum() for each in gaps))
    kind = pair.column.type
    if not count or tidying.missing == "error" or is_list(kind):
        return pair, []
    text = is_text(kind)
    if gaps[0].all():
        raise LogError(f"State column {pair.name!r} holds no values at all. Leave it out.")
    if text and tidying.missing != "median":
        notes.append(f"{pair.name} ({count}, a category of its own)")
        return _changed(pair, _replaced(pair, gaps, MISSING)), []
    if text:
        counts = pc.value_counts(pair.column.drop_null().combine_chunks())
        value = counts.field("values")[int(np.argmax(counts.field("counts")))].as_py()
    else:
        known = pair.column.cast(pa.float64(), safe=False).filter(pa.array(~gaps[0]))
        value = float(np.median(array(known)))
        numbers = [column.cast(pa.float64(), safe=False) for column in pair.both]
        suffix = "=true" if kinds.is_boolean(kind) else ""
        pair = _changed(pair, numbers)._replace(name=pair.name + suffix)
    notes.append(f"{pair.name} ({count}, {value if text else f'the median {value:g}'})")
    indicator = _changed(
        pair, [pa.chunked_array([pa.array(each.astype(float))]) for each in gaps], GAP
    )
    return _changed(pair, _replaced(pair, gaps, value)), [indicator]


def _replaced(pair: Pair, gaps: Sequence[BoolArray], value: str | float) -> list[pa.ChunkedArray]:
    return [
        pc.if_else(pa.array(where), pa.scalar(value, column.type), column)
        for column, where in zip(pair.both, gaps, strict=True)
    ]


def _grouped(pair: Pair, tidying: Tidying, notes: Notes) -> list[Pair]:
    """Return a text column with rare values merged; raise if it is an identifier."""
    if not is_text(pair.column.type):
        return [pair]
    text = [column.cast(pa.large_string()) for column in pair.both]
    every = pa.chunked_array([chunk for column in text for chunk in column.chunks])
    found = pc.value_counts(every.drop_null())
    labels, count = found.field("values").to_pylist(), array(found.field("counts"))
    if pair.name not in tidying.categorical:
        require_no_numbers(pair.name, [label for label in labels if label != MISSING])
    if len(labels) <= tidying.categories:
        return [_changed(pair, text)]
    if len(labels) > max(len(every) // 2, tidying.categories):
        raise LogError(
            f"State column {pair.name!r} has {len(labels)} distinct texts in {len(every)} rows: an "
            f"identifier rather than a category. Leave it out, or group its values first."
        )
    if sum(bool(_DATE_AS_TEXT.fullmatch(label)) for label in labels) > len(labels) / 2:
        notes.cautions.append(
            f"State column {pair.name!r} looks like dates written as text, such as {labels[0]!r}. "
            f"Write them as 2025-04-30 to have them read as dates."
        )
    order = np.lexsort((np.array(labels, dtype=object).astype(str), -count))
    kept = {labels[j] for j in order[: tidying.categories - 1]}
    share = count[order[tidying.categories - 1 :]].sum() / count.sum()
    notes.notes.append(
        f"State column {pair.name!r} has {len(labels)} distinct texts: the {len(kept)} most common are "
        f"kept, the others, {share:.0%} of the rows, are put together as {OTHER}."
    )
    rare = pa.array([label for label in labels if label not in kept], pa.large_string())
    grouped = [
        pc.if_else(pc.is_in(column, rare), pa.scalar(OTHER, pa.large_string()), column)
        for column in text
    ]
    return [_changed(pair, grouped)]


def require_complete(
    table: pa.Table, columns: Columns, tidying: Tidying, notes: Notes
) -> BoolArray | None:
    """Raise one error for all missing values that cannot be filled, or return the rows to keep, (n,).

    Only ``missing="drop-episode"`` leaves out rows, and then whole episodes, which `notes` report.
    """
    filled = ("next_state",) if tidying.missing == "error" else ("state", "next_state")
    names = {
        name: part
        for part, found in columns.parts().items()
        if part not in filled
        for name in found
    }
    gaps = {name: missing_rows(table[name]) for name in names}
    gaps = {name: rows for name, rows in gaps.items() if rows.any()}
    dropping = tidying.missing == "drop-episode"
    fatal = [name for name in gaps if not dropping or names[name] in ("episode", "group", "step")]
    if fatal:
        raise LogError(_gaps_in_words({name: gaps[name] for name in fatal}, names, columns))
    if not gaps:
        return None
    bad = np.logical_or.reduce(list(gaps.values()))
    codes: IntArray = np.arange(len(bad))
    if columns.episode is not None:
        codes = labelled(unwrapped(table[columns.episode])).codes
        bad = np.isin(codes, codes[bad])
    elif columns.terminated or columns.truncated:
        raise LogError(
            "missing='drop-episode' needs a column that names the episodes. Name it with episode=...."
        )
    if bad.all():
        raise LogError("Every episode has a missing value somewhere: none would be left.")
    notes.cautions.append(_dropped_in_words(bad, codes, listed(list(gaps))))
    return np.asarray(~bad)


def _dropped_in_words(bad: BoolArray, codes: IntArray, names: str) -> str:
    """Return how much is left out, and how the lengths of episodes change with it."""
    gone, left = (np.unique(codes[rows], return_counts=True)[1] for rows in (bad, ~bad))
    said = (
        f"{len(gone)} of {len(gone) + len(left)} episodes left out, {bad.sum()} of {len(bad)} rows"
    )
    if len(codes) == len(gone) + len(left):
        said = f"{len(gone)} of {len(codes)} rows left out"
    said += f", for missing values of {names}."
    if gone.mean() > _LONGER * left.mean():
        said += (
            f" They are longer than those that are kept, {gone.mean():.3g} rows on average against "
            f"{left.mean():.3g}: the answer is about shorter episodes than were logged."
        )
    return said


def _gaps_in_words(gaps: dict[str, BoolArray], part: dict[str, str], columns: Columns) -> str:
    said = [
        f"Column {name!r} has {int(rows.sum())} missing value{'s' if rows.sum() > 1 else ''}, the "
        f"first at row {int(rows.argmax())}"
        for name, rows in gaps.items()
    ]
    parts = {part[name] for name in gaps}
    if parts == {"state"}:
        advice = "fill them in, or pass missing='category' to have that done"
    elif not parts.isdisjoint(("episode", "group", "step")):
        advice = "fill them in or drop these rows"
    else:
        several = columns.episode or columns.terminated or columns.truncated
        advice = (
            f"fill them in, or pass missing='drop-episode' to leave out "
            f"{'the whole episodes that they are in' if several else 'these rows'}"
        )
    return (
        f"{'; '.join(said)} (the first row is 0). Empty cells, NA, NaN and null count as missing; "
        f"{advice}."
    )
