"""State and action columns as numbers: categories, dates, missing values, action codes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import LogError, listed
from tailproof.io.columns import Columns
from tailproof.io.steps import Notes
from tailproof.io.values import (
    Column,
    array,
    is_list,
    is_number,
    is_text,
    labelled,
    missing_rows,
    numbers,
    other_spelling,
    refuse_missing,
    shown,
    unwrapped,
)
from tailproof.log.log import GAP, OTHER
from tailproof.log.spaces import ActionSpace, Continuous, Discrete, menu

#: A text column with more distinct values than this is an identifier, not a category.
MOST_CATEGORIES = 256
_LOOKED_AT = 1000  # texts that show whether most are numbers
_MANY = 20  # with this many texts, if 90 % are numbers, the others are misspelt numbers


@dataclass(frozen=True)
class Variable:
    """How to read a state column: as a number, as list entries, or one-hot by text.

    The column of its next values is read the same way.
    """

    name: str
    parts: tuple[str, ...]  # the names of its state variables
    texts: pa.Array | None = None  # sorted categories; None unless the column is text
    is_list: bool = False

    @classmethod
    def of(cls, name: str, sample: Column, texts: pa.Array | None) -> Variable:
        """Return how to read a column, from a sample and, for text, all distinct `texts`."""
        if texts is not None:
            _require_categories(name, texts.to_pylist())
            ordered = texts.take(pc.sort_indices(texts))
            return cls(name, tuple(f"{name}={label}" for label in ordered.to_pylist()), ordered)
        sample = unwrapped(sample)
        if is_list(sample.type):
            width = list_width(name, sample)
            return cls(name, tuple(f"{name}[{j}]" for j in range(width)), is_list=True)
        return cls(name, (f"{name}=true" if kinds.is_boolean(sample.type) else name,))

    def fill(self, out: FloatArray, name: str, column: Column, *, missing: bool) -> None:
        """Write a column's numbers to `out`, (w, m); NaN for missing values, if allowed."""
        if kinds.is_float64(column.type) and not column.null_count and not self.is_list:
            array(column, out=out[0])  # `state_matrix` checks all columns at once for finiteness
            return
        column = unwrapped(column)
        if self.texts is not None:
            if not (is_text(column.type) or kinds.is_null(column.type)):
                raise LogError(
                    f"Column {name!r} must be text, as {self.name!r} is. {shown(column)} Convert it."
                )
            if not missing:
                refuse_missing(name, column)
            codes = pc.index_in(column.cast(pa.large_string()), self.texts)
            places = array(codes, absent=-1)
            out[:] = places == np.arange(len(self.texts))[:, None]
            out[:, places < 0] = np.nan
        elif self.is_list:
            out[:] = lists(name, column, len(out), missing=missing).T
        else:
            out[0] = numbers(name, column, missing=missing)


def state_matrix(
    variables: Sequence[Variable],
    names: Sequence[str],
    columns: Sequence[Column],
    *,
    missing: bool = False,
    room: int = 0,
    order: Literal["C", "F"] = "C",
) -> FloatArray:
    """Return the state variables of these columns, one per row, (p, m + room)."""
    rows = len(columns[0])
    every = np.empty((sum(len(each.parts) for each in variables), rows + room), order=order)
    values, place = every[:, :rows], 0
    for each, name, column in zip(variables, names, columns, strict=True):
        each.fill(values[place : place + len(each.parts)], name, column, missing=missing)
        place += len(each.parts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total):  # find the column with values that are not finite
        for name, column in zip(names, columns, strict=True):
            if kinds.is_floating(column.type):
                numbers(name, column, missing=missing)
    return every


def distinct_texts(name: str, columns: Sequence[Column]) -> pa.Array:
    """Return the distinct texts of a state column and of its next values, if these are text."""
    every = [unwrapped(column) for column in columns]
    refuse_missing(name, every[0])
    texts = [column.cast(pa.large_string()) for column in every if is_text(column.type)]
    chunks = [chunk for column in texts for chunk in column.chunks]
    return pc.unique(pa.chunked_array(chunks)).drop_null()


def _require_categories(name: str, labels: list[str]) -> None:
    """Raise if text is an identifier rather than a category."""
    if len(labels) > MOST_CATEGORIES:
        raise LogError(
            f"State column {name!r} has {len(labels)} distinct texts, more than {MOST_CATEGORIES}: "
            f"an identifier rather than a category. Leave it out, or group its values first."
        )


def require_no_numbers(name: str, labels: Sequence[str]) -> None:
    """Raise if text consists of numbers, written in another way or with a few misspelt."""
    some = labels[:: 1 + len(labels) // _LOOKED_AT]
    if (spelling := other_spelling(name, some, category=True)) is not None:
        raise LogError(
            f"State column {name!r} is text that should be numbers, unless categorical={name!r} makes "
            f"them names. {spelling}"
        )
    if len(labels) < _MANY or sum(map(is_number, some)) < len(some) / 2:
        return
    odd = [label for label in labels if not is_number(label)]
    if 0 < len(odd) <= len(labels) / 10:
        raise LogError(
            f"State column {name!r} holds numbers, but for {len(odd)} of its values, such as "
            f"{odd[0][:40]!r}. Correct or drop these rows."
        )


def list_width(name: str, column: pa.ChunkedArray) -> int:
    """Return the length of a column's first list; no entry may be missing."""
    refuse_missing(name, column)
    return int(pc.list_value_length(column)[0].as_py())


def lists(name: str, column: pa.ChunkedArray, width: int, *, missing: bool = False) -> FloatArray:
    """Return lists of numbers as (n, width); NaN for missing lists, if allowed."""
    if not missing:
        refuse_missing(name, column)
    there = ~missing_rows(column)
    values = np.full((len(there), width), np.nan)
    if not there.any():
        return values
    if not is_list(column.type):
        raise LogError(f"Column {name!r} must hold lists of numbers. {shown(column)} Convert it.")
    column = column.drop_null() if column.null_count else column
    lengths = array(pc.list_value_length(column))
    if (lengths != width).any() or width == 0:
        odd = int((lengths != width).argmax())
        raise LogError(
            f"The lists of column {name!r} must be equally long and not empty. Got "
            f"{int(lengths[odd])} entries at row {int(np.flatnonzero(there)[odd])}, and {width} "
            f"entries in others."
        )
    entries = numbers(f"{name} (entries of its lists)", pc.list_flatten(column))
    values[there] = entries.reshape(-1, width)
    return values


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


@dataclass(frozen=True)
class Actions:
    """How to read the action columns."""

    names: tuple[str, ...]
    space: ActionSpace
    places: dict[Any, int] | None = None  # code of each value; None if the values are codes
    counts: IntArray | None = None  # (A,) how often each code occurs

    def __call__(self, table: pa.Table | pa.RecordBatch) -> AnyArray:
        """Return the actions of a table, (n,) codes or (n, q) reals."""
        columns = [unwrapped(table.column(name)) for name in self.names]
        if isinstance(self.space, Discrete):
            return _codes(columns[0], self.places, self.space.n)
        if len(columns) == 1 and is_list(columns[0].type):
            return lists(self.names[0], columns[0], list_width(self.names[0], columns[0]))
        if len(columns) > 1 and all(kinds.is_integer(column.type) for column in columns):
            raise LogError(
                f"Several action columns must hold real numbers. Got whole numbers in "
                f"{', '.join(self.names)}; combine discrete choices into one column, or convert to "
                f"decimals."
            )
        return np.column_stack([*map(numbers, self.names, columns)])


def distinct_actions(
    names: tuple[str, ...], table: pa.Table | pa.RecordBatch, *, named: bool = False
) -> tuple[pa.Array | None, IntArray | None]:
    """Return the distinct actions and how often each occurs, or None where they are continuous.

    With `named`, any numbers are labels.
    """
    if len(names) > 1:
        if named:
            raise LogError(
                f"categorical takes one action column. Got {', '.join(names)}; combine them into one."
            )
        return None, None
    column = unwrapped(table.column(names[0]))
    if is_list(column.type):
        return None, None
    refuse_missing(names[0], column)
    if kinds.is_floating(column.type) and not named:
        values = array(column)
        if not ((np.abs(values) < 2**53) & (values == np.round(values))).all():
            return None, None
    elif not (
        (named and (kinds.is_floating(column.type) or kinds.is_decimal(column.type)))
        or kinds.is_integer(column.type)
        or is_text(column.type)
        or kinds.is_boolean(column.type)
    ):
        return None, None
    found = pc.value_counts(column)
    return found.field("values"), array(found.field("counts"))


def table_layout(
    names: tuple[str, ...],
    table: pa.Table,
    described: ActionSpace | None = None,
    *,
    named: bool = False,
) -> tuple[Actions, list[str]]:
    """Return how to read the action columns of a whole table, as `action_layout` does."""
    distinct, counts = distinct_actions(names, table, named=named)
    layout, said = action_layout(names, table, distinct, counts, described, named=named)
    if distinct is None and described is None and len(names) == 1:
        said += _say_what_is_a_menu(names[0], unwrapped(table.column(names[0])))
    return layout, said


def action_layout(
    names: tuple[str, ...],
    sample: pa.Table | pa.RecordBatch,
    distinct: pa.Array | None,
    counts: IntArray | None,
    described: ActionSpace | None,
    *,
    named: bool = False,
) -> tuple[Actions, list[str]]:
    """Return how to read the action columns, and notes for the user.

    Text and booleans become codes with labels. Whole numbers are codes, unless some are negative or
    fewer than half of the numbers up to the highest occur: then they are labels too. Other columns
    are continuous. With `named`, all numbers are labels.

    `distinct` are the actions that occur, None for continuous ones; `described` is the action space
    stored with the data set, if any.
    """
    if isinstance(described, Continuous):
        return Actions(names, described), []
    if distinct is None or counts is None:
        column = unwrapped(sample.column(names[0]))
        width = list_width(names[0], column) if is_list(column.type) else len(names)
        return Actions(names, described or Continuous(width)), []
    if described is None:
        space, places, said = _space(names[0], distinct, named)
    else:
        numeric = kinds.is_integer(distinct.type) or kinds.is_floating(distinct.type)
        labelled = described.labels is not None and not numeric
        space, said = described, list[str]()
        places = _places(described.labels or ()) if labelled else None
    codes = _codes(pa.chunked_array([distinct]), places, space.n)
    outside = (codes < 0) | (codes >= space.n)
    if outside.any():
        wrong = distinct[int(outside.argmax())]
        raise LogError(f"actions must be among the {space.n} of the log. Got {wrong}.")
    total = np.zeros(space.n, dtype=np.intp)
    total[codes] = counts
    return Actions(names, space, places, total), said


def _places(values: Sequence[Any]) -> dict[Any, int]:
    return {value: code for code, value in enumerate(values)}


def _codes(column: pa.ChunkedArray, places: dict[Any, int] | None, absent: int) -> IntArray:
    """Return the code of each value of a column; without `places` the values are codes."""
    if places is None:
        return array(column).astype(np.intp, copy=False)
    found = [np.empty(0, dtype=np.intp)]
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        codes = [places.get(each, absent) for each in encoded.dictionary.to_pylist()]
        found.append(np.array(codes, dtype=np.intp)[array(encoded.indices)])
    return np.concatenate(found)


def _say_what_is_a_menu(name: str, column: pa.ChunkedArray) -> list[str]:
    """Return a note if continuous actions have only a few values, each repeated often."""
    values = None if is_list(column.type) else menu(numbers(name, column))
    if values is None:
        return []
    listed = ", ".join(f"{value:g}" for value in values[:5]) + (", …" if len(values) > 5 else "")
    return [
        f"Column {name!r} holds only {len(values)} different numbers ({listed}) and is read as "
        f"continuous. If these are all there is to choose from, pass categorical={name!r}."
    ]


def _space(
    name: str, distinct: pa.Array, named: bool
) -> tuple[Discrete, dict[Any, int] | None, list[str]]:
    """Return the action space for these distinct values, the code of each value, and notes."""
    values = sorted(distinct.to_pylist())
    if kinds.is_boolean(distinct.type):
        return Discrete(2, ("false", "true")), _places((False, True)), []
    if is_text(distinct.type):
        return Discrete(len(values), tuple(values)), _places(values), []
    if named:
        texts = pa.array(values, distinct.type).cast(pa.string()).to_pylist()
        labels = tuple(text.removesuffix(".0") for text in texts)
        return Discrete(len(values), labels), _places(values), []
    whole, places = [*map(int, values)], None
    highest, notes = whole[-1], []
    if whole[0] < 0 or highest >= 2 * len(whole):
        space, places = Discrete(len(whole), tuple(map(str, whole))), _places(whole)
        first = ", ".join(f"{code} = {label}" for code, label in enumerate(whole[:3]))
        notes.append(
            f"The values of column {name!r} are labels, with which a policy answers; probabilities "
            f"have a column for each in their order ({first}{', …' if len(whole) > 3 else ''})."
        )
    else:
        space = Discrete(highest + 1)
        if never := sorted(set(range(highest + 1)) - set(whole)):
            notes.append(f"Actions {', '.join(map(str, never[:5]))} of 0..{highest} never occur.")
    if kinds.is_floating(distinct.type):
        notes.append(f"Column {name!r} holds whole numbers only: read as discrete actions.")
    return space, places, notes
