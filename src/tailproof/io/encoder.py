"""From tables to states and action codes: an encoder is fitted to one log and applied to any table.

What a column becomes (a number, categories, fill values for gaps, parts of a date, action labels) is
decided once, when a log is read. That decision is an `Encoder`: it stays with the log, is written into
every saved policy as plain JSON, and reads all later tables, so that a row has the same state whatever
other rows it stands among.

A fit is a sum: `EncoderFit.of` summarises a chunk of a table, ``a + b`` merges two of them, and
`EncoderFit.encoder` decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    count_of,
    is_number,
    refuse_rows,
)
from tailproof.errors import LogError, listed
from tailproof.io.columns import Columns
from tailproof.io.steps import Notes
from tailproof.io.tables import naming_the_type, open_table
from tailproof.io.values import (
    Column,
    array,
    as_labels,
    is_list,
    is_text,
    missing_rows,
    numbers,
    other_spelling,
    refuse_missing,
    shown,
    spelt_dates,
    spelt_numbers,
    spelt_truths,
    unwrapped,
    written_amounts,
)
from tailproof.log.log import GAP, MISSING, OTHER
from tailproof.log.sources import TableSource
from tailproof.log.spaces import ActionSpace, Continuous, Discrete, menu
from tailproof.parameters import OneOf, Within, require

#: A text column with more distinct values than this is an identifier, not a category.
MOST_CATEGORIES = 256
#: Name of the constant state variable of a table without state columns.
NO_STATE = ("constant",)
_LOOKED_AT = 1000  # texts that show whether most are numbers
_MANY = 20  # with this many texts, if 90 % are numbers, the others are misspelt numbers
_SAMPLE = 1 << 16  # values up to which the median of merged chunks is exact
_DAY = 86_400e6  # microseconds
_DATE_AS_TEXT = re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}.*")

Missing = Literal["category", "median", "drop-episode", "error"]
Kind = Literal["number", "truth", "days", "hour", "weekday", "text", "list"]
_DATES = ("days", "hour", "weekday")
_SUFFIX = {"truth": "=true", "hour": " (hour)", "weekday": " (weekday)"}


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
        require(OneOf(*get_args(Missing)), LogError, missing=self.missing)
        require(Within("[2, inf)", whole=True), LogError, categories=self.categories)


class Refused(NamedTuple):
    """Rows of a column that an encoder cannot read."""

    column: str
    rows: IntArray  # (r,)
    values: pa.ChunkedArray  # (r,) None where missing
    wanted: str  # what the column must hold

    def reason(self, i: int) -> str:
        """Return why the i-th of these rows is refused."""
        value = self.values[i].as_py()
        if value is None or value != value:  # NaN
            return f"{self.column!r} is missing, which it never was in the log of the encoder"
        return f"{self.column!r} must hold {self.wanted}. Got {str(value)[:40]!r}"

    def error(self) -> LogError:
        """Return the error for a table whose rows must all be read."""
        return LogError(
            f"Column {self.reason(0)} at row {int(self.rows[0])} ({count_of(len(self.rows))}; the "
            f"first row is 0). Correct or leave out these rows, or fit the encoder to a log with them."
        )


def require_read(refused: Sequence[Refused]) -> None:
    """Raise if some rows were refused."""
    for each in refused:
        raise each.error()


@dataclass(frozen=True)
class Variable:
    """How to read one column as state variables.

    Attributes
    ----------
    column
        The column of the table.
    kind
        ``"number"``; ``"truth"``: 1 for true and 0 for false; ``"days"`` since 1970, ``"hour"`` and
        ``"weekday"`` of a date; ``"text"``: one variable for each of its `labels`; ``"list"`` of
        `width` numbers.
    fill
        What stands for a missing value; None if none was missing, so that missing values are refused.
    labels
        The categories of a text, sorted. `OTHER`, if it is among them, takes all other texts.
    zone
        The time zone of a date.
    low, high
        Range of the values that it was fitted to.
    """

    column: str
    kind: Kind
    fill: float | str | None = None
    labels: tuple[str, ...] = ()
    width: int = 1
    zone: str | None = None
    low: float | None = field(default=None, compare=False)
    high: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or (self.kind == "text") != bool(self.labels):
            raise ValueError(f"no kind of variable: {self.kind!r} with {len(self.labels)} labels")

    @property
    def base(self) -> str:
        """Its name, without categories and entries."""
        return self.column + _SUFFIX.get(self.kind, "")

    @property
    def has_indicator(self) -> bool:
        """Whether a further variable says where a value was missing."""
        return self.fill is not None and self.fill != MISSING

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its state variables."""
        parts: tuple[str, ...] = (self.base,)
        if self.kind == "text":
            parts = tuple(f"{self.base}={label}" for label in self.labels)
        elif self.kind == "list":
            parts = tuple(f"{self.base}[{j}]" for j in range(self.width))
        return (*parts, self.base + GAP) if self.has_indicator else parts

    def encode(self, out: FloatArray, name: str, column: Column) -> Refused | None:
        """Write a column's variables to `out`, (w, n), with NaN in the rows that are refused."""
        if self.kind == "number" and kinds.is_float64(column.type) and not column.null_count:
            array(column, out=out[0])
            return self._fill(out, name, column, out[0])
        column = unwrapped(column)
        if self.kind == "text":
            return self._encode_text(out, name, column)
        if self.kind == "list":
            out[:] = lists(name, column, self.width, missing=True).T
            return self._fill(out, name, column, out[0])
        if self.kind in _DATES:
            values = array(_date_part(self._dates(name, column), self.kind), absent=np.nan)
        else:
            values = _reals(name, column, truth=self.kind == "truth")
        out[0] = values
        return self._fill(out, name, column, out[0])

    def _fill(
        self, out: FloatArray, name: str, column: Column, values: FloatArray
    ) -> Refused | None:
        """Fill in missing values and say where; refuse values that are no numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            whole = bool(np.isfinite(values.sum()))  # a finite sum proves every entry finite
        if self.has_indicator:
            out[-1] = 0.0
        if whole:
            return None
        odd = ~np.isfinite(values)
        if self.has_indicator:
            gaps = odd & missing_rows(column)
            out[0, gaps] = self.fill
            out[-1, gaps] = 1.0
            odd &= ~gaps
        return self._refused(out, name, column, odd)

    def _refused(
        self, out: FloatArray, name: str, column: Column, odd: BoolArray
    ) -> Refused | None:
        rows = np.flatnonzero(odd)
        if len(rows) == 0:
            return None
        out[:, rows] = np.nan
        wanted = {
            "truth": "true and false",
            "text": f"one of its {len(self.labels)} categories, {listed(self.labels, 5)}",
        }.get(self.kind, "dates or times" if self.kind in _DATES else "finite numbers")
        return Refused(name, rows, unwrapped(column).take(pa.array(rows)), wanted)

    def _encode_text(self, out: FloatArray, name: str, column: pa.ChunkedArray) -> Refused | None:
        if kinds.is_nested(column.type):
            raise LogError(f"Column {name!r} must hold text. {shown(column)} Convert it.")
        codes = _codes(column, self.labels)
        if (codes < 0).any():
            gaps = missing_rows(column)
            if self.fill is not None:
                # a category of missing texts may itself be among the rare ones
                codes[gaps] = self._code(str(self.fill))
            codes[(codes < 0) & ~gaps] = self._code(OTHER)
        out[: len(self.labels)] = codes == np.arange(len(self.labels))[:, None]
        if self.has_indicator:
            out[-1] = missing_rows(column)
        return self._refused(out, name, column, codes < 0)

    def _code(self, label: str) -> int:
        """Return the code of a label, of `OTHER` if it is not known, −1 without such a category."""
        found = [each for each in (label, OTHER) if each in self.labels]
        return self.labels.index(found[0]) if found else -1

    def _dates(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return dates in the zone of the variable."""
        found = spelt_dates(column) if is_text(column.type) else column
        kind = found.type
        if kinds.is_null(kind) or kinds.is_date(kind):
            return found.cast(pa.timestamp("us", self.zone))
        if not kinds.is_timestamp(kind) or (kind.tz is None) != (self.zone is None):
            zone = "with a time zone" if self.zone else "without a time zone"
            raise LogError(f"Column {name!r} must hold dates {zone}. {shown(column)} Convert it.")
        return found.cast(pa.timestamp("us", self.zone), safe=False)

    def decode(self, values: FloatArray) -> pa.Array:
        """Return the column with these state variables, (w, n); None where a value was missing."""
        gaps = values[-1] == 1 if self.has_indicator else np.zeros(values.shape[1], dtype=bool)
        if self.kind == "text":
            codes = values[: len(self.labels)].argmax(axis=0)
            if self.fill == MISSING and MISSING in self.labels:
                gaps = codes == self.labels.index(MISSING)
            labels = pa.array(self.labels, pa.large_string())
            return labels.take(pa.array(codes, mask=gaps))
        if self.kind == "list":
            flat = pa.array(np.ascontiguousarray(values[: self.width].T).ravel())
            return pa.FixedSizeListArray.from_arrays(flat, self.width)
        if self.kind == "days":
            instants = pa.array(np.round(values[0] * _DAY).astype(np.int64), mask=gaps)
            return instants.cast(pa.timestamp("us", self.zone))
        return pa.array(values[0], mask=gaps)

    def outside(self, values: FloatArray) -> BoolArray:
        """Return the rows whose values, (w, n), are beyond the range of the fit, (n,)."""
        if self.low is None or self.high is None:
            return np.zeros(values.shape[1], dtype=bool)
        return np.asarray((values[0] < self.low) | (values[0] > self.high))


def _codes(column: pa.ChunkedArray, labels: Sequence[str]) -> IntArray:
    """Return the place of each value among these labels, (n,); −1 for missing and unknown ones."""
    place = {label: code for code, label in enumerate(labels)}
    encoded = as_labels(column).combine_chunks().dictionary_encode()
    known = [place.get(text, -1) for text in encoded.dictionary.to_pylist()]
    return np.array([*known, -1], dtype=np.intp)[array(encoded.indices, absent=-1)]


def _reals(name: str, column: pa.ChunkedArray, *, truth: bool) -> FloatArray:
    """Return a column as numbers, (n,); NaN where a value is missing or none."""
    if is_text(column.type):
        amounts = None if truth else written_amounts(column)
        texts = spelt_truths(column) if truth else spelt_numbers(column)
        column = texts if amounts is None else amounts.column
    values = numbers(name, column, missing=True, infinite=True)
    if truth:
        values[(values != 0) & (values != 1)] = np.nan
    return values


def _date_part(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Return the days since 1970, the hour or the weekday of dates."""
    if kind == "days":
        instants = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return pc.divide(instants.cast(pa.float64()), _DAY)
    part = pc.hour(column) if kind == "hour" else pc.day_of_week(column)
    return part.cast(pa.float64())


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


def list_width(name: str, column: pa.ChunkedArray) -> int:
    """Return the length of a column's first list; no entry may be missing."""
    refuse_missing(name, column)
    return int(pc.list_value_length(column)[0].as_py())


@dataclass(frozen=True)
class Actions:
    """How to read the action columns.

    Discrete actions are read by the text of their value, so that 2, 2.0 and "2" are one action;
    `coded` says that their values are the codes.
    """

    names: tuple[str, ...]
    space: ActionSpace
    coded: bool = False

    def __call__(self, table: pa.Table | pa.RecordBatch) -> AnyArray:
        """Return the actions of a table, (n,) codes or (n, q) reals."""
        columns = [unwrapped(table.column(name)) for name in self.names]
        if isinstance(self.space, Discrete):
            return self.codes(columns[0], self.space)
        if len(columns) == 1 and is_list(columns[0].type):
            return lists(self.names[0], columns[0], self.space.dimension)
        if len(columns) > 1 and all(kinds.is_integer(column.type) for column in columns):
            raise LogError(
                f"Several action columns must hold real numbers. Got whole numbers in "
                f"{', '.join(self.names)}; combine discrete choices into one column, or convert to "
                f"decimals."
            )
        return np.column_stack([*map(numbers, self.names, columns)])

    def codes(self, column: pa.ChunkedArray, space: Discrete) -> IntArray:
        """Return the code of each value of a column, (n,)."""
        refuse_missing(self.names[0], column)
        if self.coded and not is_text(column.type):
            codes: IntArray = array(column.cast(pa.int64())).astype(np.intp, copy=False)
        else:
            codes = _codes(column, space.names)
        rule = f"Column {self.names[0]!r} must hold actions of the log, {listed(space.names[:100])}"
        outside = (codes < 0) | (codes >= space.n)
        refuse_rows(outside, rule, "correct or leave out these rows", LogError, values=column)
        return codes


@dataclass(frozen=True)
class Encoder:
    """Reads the states and actions of any table as those of the log that it was fitted to.

    Attributes
    ----------
    variables
        How to read the state columns; none for a log without a state.
    actions
        How to read the action columns.

    Examples
    --------
    >>> from tailproof import read_log
    >>> log = read_log(
    ...     {
    ...         "x_age": [30.0, None, 50.0],
    ...         "x_shop": ["north", "south", "north"],
    ...         "action": ["mail", "none", "mail"],
    ...         "reward": [1.0, 0.0, 2.0],
    ...     }
    ... )
    >>> log.encoder.state_names
    ('x_age', 'x_age is missing', 'x_shop=north', 'x_shop=south')
    >>> log.encoder.states({"x_shop": ["south"], "x_age": [None]})
    array([[40.,  1.,  0.,  1.]])
    """

    variables: tuple[Variable, ...]
    actions: Actions

    @property
    def columns(self) -> tuple[str, ...]:
        """The state columns."""
        return tuple(dict.fromkeys(each.column for each in self.variables))

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of text, which readers of files must not take for numbers."""
        return tuple(each.column for each in self.variables if each.kind == "text")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(each.column for each in self.variables if each.kind == "number")

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the state variables."""
        return tuple(name for each in self.variables for name in each.names) or NO_STATE

    def states(self, table: TableSource) -> FloatArray:
        """Return the states of a table, (n, p).

        Parameters
        ----------
        table
            A frame, a file or another source of a table with the state columns, in any order and
            beside others. A missing value or an unknown category that the encoder was not fitted to
            is refused by name.
        """
        states, refused = self.encode(self.table(table))
        require_read(refused)
        return states

    def next_states(self, table: pa.Table | pa.RecordBatch, names: Sequence[str]) -> FloatArray:
        """Return the states of the columns `names`, one for each state column, (n, p).

        They are NaN in rows without any next state, and where a value is missing that cannot be
        filled in.
        """
        unseen = unseen_rows(table, names)
        after, refused = self.encode(table, dict(zip(self.columns, names, strict=True)))
        require_read([each for each in refused if not missing_rows(each.values).all()])
        after[unseen] = np.nan
        return after

    def table(self, source: TableSource) -> pa.Table:
        """Return the state columns of any table, read as the encoder needs them."""
        opened = open_table(source)
        self.require(opened.names, opened.label)
        return opened.read(self.columns or opened.names[:1], dict.fromkeys(self.texts, False))

    def require(self, names: Sequence[str], label: str) -> None:
        """Raise if a table of these columns lacks some of the encoder's."""
        if absent := [name for name in self.columns if name not in names]:
            raise LogError(f"{label} has no {listed(absent)}; it has {listed(names, 20)}.")
        if twice := [name for name in self.columns if list(names).count(name) > 1]:
            raise LogError(
                f"{label} has several columns with the name {twice[0]!r}. Rename or drop all but one."
            )

    def encode(
        self,
        table: pa.Table | pa.RecordBatch,
        names: Mapping[str, str] | None = None,
    ) -> tuple[FloatArray, list[Refused]]:
        """Return the states of an Arrow table, (n, p), and the rows that are refused.

        `names` are the columns to read in place of the state columns, such as those of the next states.
        """
        rows = table.num_rows
        if not self.variables:
            return np.zeros((rows, 1)), []
        whole = np.empty((len(self.state_names), rows), order="F")
        refused = []
        with naming_the_type():
            for each, place in self.places:
                name = each.column if names is None else names[each.column]
                if (odd := each.encode(whole[place], name, table.column(name))) is not None:
                    refused.append(odd)
        return whole.T, refused

    def decode(self, states: FloatArray) -> pa.Table:
        """Return the state columns of states, (n, p); dates without what they were rounded to."""
        columns: dict[str, pa.Array] = {}
        for each, place in self.places:
            if each.kind not in ("hour", "weekday"):
                columns[each.column] = each.decode(states.T[place])
        return pa.table(columns)

    def translate(self, states: FloatArray, other: Encoder) -> FloatArray:
        """Return the states of this encoder, (n, p'), for states of the `other`, (n, p)."""
        found, refused = self.encode(other.decode(states))
        require_read(refused)
        return found

    def require_translation(self, other: Encoder) -> None:
        """Raise if states of the `other` encoder do not tell what this one needs to know."""
        self.require(other.columns, "The log")
        known = {each.column: each for each in other.variables}
        for each in self.variables:
            theirs = known[each.column]
            merged = theirs.kind == "text" and OTHER in theirs.labels
            unknown = set(each.labels) - {*theirs.labels, MISSING}
            if each.kind == "text" and merged and unknown:
                raise LogError(
                    f"The rare categories of {each.column!r} were put together when this log was "
                    f"read, and {listed(sorted(unknown))} may be among them. Read it with "
                    f"encoder=... of the policy's log, or with more categories=...."
                )

    def outside(self, states: FloatArray) -> dict[str, BoolArray]:
        """Return by column the rows of states, (n, p), that leave the range of the fitted log."""
        found = {each.column: each.outside(states.T[place]) for each, place in self.places}
        return {name: rows for name, rows in found.items() if rows.any()}

    @property
    def places(self) -> list[tuple[Variable, slice]]:
        """The variables, each with its place among the state variables."""
        ends = np.cumsum([0, *(len(each.names) for each in self.variables)]).tolist()
        return [
            (each, slice(first, last))
            for each, first, last in zip(self.variables, ends[:-1], ends[1:], strict=True)
        ]


@dataclass(frozen=True)
class _Values:
    """Numbers of which the median can be told: in order, every `step`-th of them."""

    kept: FloatArray
    step: int  # a power of two
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> _Values:
        there = values[~np.isnan(values)]
        return cls(there, 1, float(there.min(initial=np.inf)), float(there.max(initial=-np.inf)))

    def __add__(self, other: _Values) -> _Values:
        step = max(self.step, other.step)
        kept = np.concatenate([np.sort(each.kept)[:: step // each.step] for each in (self, other)])
        while len(kept) > _SAMPLE:
            kept, step = np.sort(kept)[::2], 2 * step
        return _Values(kept, step, min(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True)
class _Summary:
    """What a fit must know of a state column, and of the column of its next values."""

    kind: pa.DataType
    rows: int  # of both columns
    gaps: int  # missing values in both columns
    known: bool  # whether any value of the state column is there
    parts: Mapping[Kind, _Values]  # of numbers, and of the parts of dates
    texts: Counter[str]  # how often each text occurs in both columns
    width: int

    @classmethod
    def of(
        cls, name: str, columns: Sequence[pa.ChunkedArray], unseen: BoolArray | None, *, label: bool
    ) -> _Summary:
        """Summarise a column and that of its next values; `unseen` rows have no next state."""
        first, kind = columns[0], columns[0].type
        gaps = [missing_rows(column) for column in columns]
        if len(gaps) > 1 and unseen is not None:
            gaps[1] &= ~unseen
        parts: dict[Kind, _Values] = {}
        texts: Counter[str] = Counter()
        width = 1
        if kinds.is_struct(kind) or kinds.is_map(kind):
            raise LogError(
                f"State column {name!r} holds records, not numbers or text. {shown(first)} Make "
                f"columns of their own of its fields, as "
                f"pandas.json_normalize(table.to_dict('records')) does."
            )
        if label or is_text(kind):
            for column in columns:
                if is_text(column.type) or label:
                    found = pc.value_counts(as_labels(column).drop_null())
                    counts = (found.field(each).to_pylist() for each in ("values", "counts"))
                    texts.update(dict(zip(*counts, strict=True)))
            kind = pa.large_string()
        elif is_list(kind):
            width = list_width(name, first)
        elif kinds.is_date(kind) or kinds.is_timestamp(kind):
            views: tuple[Kind, ...] = ("days", "hour", "weekday")
            for view in views if kinds.is_timestamp(kind) else ("days", "weekday"):
                parts[view] = _Values.of(array(_date_part(first, view), absent=np.nan))
        else:
            plain: Kind = "truth" if kinds.is_boolean(kind) else "number"
            parts[plain] = _Values.of(numbers(name, first, missing=True))
        count = int(sum(each.sum() for each in gaps))
        rows = sum(map(len, columns))
        return cls(kind, rows, count, not gaps[0].all(), parts, texts, width)

    def __add__(self, other: _Summary) -> _Summary:
        empty = kinds.is_null(self.kind)
        return _Summary(
            other.kind if empty else self.kind,
            self.rows + other.rows,
            self.gaps + other.gaps,
            self.known or other.known,
            {
                view: reduce(
                    add, [each.parts[view] for each in (self, other) if view in each.parts]
                )
                for view in {**self.parts, **other.parts}
            },
            self.texts + other.texts,
            other.width if empty else self.width,
        )

    def variables(
        self, name: str, tidying: Tidying, filled: list[str], notes: Notes
    ) -> list[Variable]:
        """Return how to read the column; raise if it is no state."""
        fills = self.gaps > 0 and tidying.missing != "error"
        if fills and not is_list(self.kind) and not self.known:
            raise LogError(f"State column {name!r} holds no values at all. Leave it out.")
        if is_text(self.kind):
            return [self._text(name, tidying, fills, filled, notes)]
        if is_list(self.kind):
            return [Variable(name, "list", width=self.width)]
        zone = self.kind.tz if kinds.is_timestamp(self.kind) else None
        found = []
        for kind, values in self.parts.items():
            if kind in ("hour", "weekday") and not values.low < values.high:
                continue
            there = len(values.kept) > 0
            each = Variable(
                name,
                kind,
                float(np.median(values.kept)) if fills else None,
                zone=zone,
                low=values.low if there else None,
                high=values.high if there else None,
            )
            if fills:
                filled.append(f"{each.base} ({self.gaps}, the median {each.fill:g})")
            found.append(each)
        return found

    def _text(
        self, name: str, tidying: Tidying, fills: bool, filled: list[str], notes: Notes
    ) -> Variable:
        texts, fill = self.texts.copy(), None
        if fills and tidying.missing == "median":
            fill = max(texts, key=texts.__getitem__)
            texts[fill] += self.gaps
            filled.append(f"{name} ({self.gaps}, {fill})")
        elif fills:
            fill = MISSING
            texts[fill] += self.gaps
            filled.append(f"{name} ({self.gaps}, a category of its own)")
        labels = list(texts)
        if name not in tidying.categorical:
            require_no_numbers(name, [label for label in labels if label != MISSING])
        if len(labels) > tidying.categories:
            labels = self._grouped(name, texts, tidying, notes)
        if len(labels) > MOST_CATEGORIES:
            raise LogError(
                f"State column {name!r} has {len(labels)} distinct texts, more than "
                f"{MOST_CATEGORIES}: an identifier rather than a category. Leave it out, or group its "
                f"values first."
            )
        return Variable(name, "text", fill, tuple(sorted(labels)))

    def _grouped(
        self, name: str, texts: Mapping[str, int], tidying: Tidying, notes: Notes
    ) -> list[str]:
        """Return the most common texts and one for all others; raise if they are identifiers."""
        if len(texts) > max(self.rows // 2, tidying.categories):
            raise LogError(
                f"State column {name!r} has {len(texts)} distinct texts in {self.rows} rows: an "
                f"identifier rather than a category. Leave it out, or group its values first."
            )
        if sum(bool(_DATE_AS_TEXT.fullmatch(label)) for label in texts) > len(texts) / 2:
            notes.cautions.append(
                f"State column {name!r} looks like dates written as text, such as "
                f"{next(iter(texts))!r}. Write them as 2025-04-30 to have them read as dates."
            )
        order = sorted(texts, key=lambda label: (-texts[label], label))
        kept = order[: tidying.categories - 1]
        share = sum(texts[label] for label in order[len(kept) :]) / sum(texts.values())
        notes.notes.append(
            f"State column {name!r} has {len(texts)} distinct texts: the {len(kept)} most common are "
            f"kept, the others, {100 * share:.0f} % of the rows, are put together as {OTHER}."
        )
        return [*kept, OTHER]


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


@dataclass(frozen=True)
class _Choices:
    """The actions of a table: the distinct values, or None if continuous."""

    distinct: pa.Array | None
    dimension: int = 1
    menu: tuple[float, ...] | None = None  # continuous values that are few, each repeated often

    @classmethod
    def of(
        cls, names: tuple[str, ...], table: pa.Table | pa.RecordBatch, *, named: bool
    ) -> _Choices:
        """Summarise the action columns; with `named`, any numbers are labels."""
        if len(names) > 1:
            if named:
                raise LogError(
                    f"categorical takes one action column. Got {', '.join(names)}; combine them into "
                    f"one."
                )
            return cls(None, len(names))
        column = unwrapped(table.column(names[0]))
        if is_list(column.type):
            return cls(None, list_width(names[0], column))
        refuse_missing(names[0], column)
        if not _is_discrete(column, named=named):
            few = menu(numbers(names[0], column))
            return cls(None, menu=None if few is None else tuple(few))
        return cls(pc.unique(column))

    def __add__(self, other: _Choices) -> _Choices:
        if self.distinct is None or other.distinct is None:
            return _Choices(None, self.dimension)
        return _Choices(pc.unique(pa.concat_arrays([self.distinct, other.distinct])))

    def actions(
        self, names: tuple[str, ...], described: ActionSpace | None, *, named: bool, notes: Notes
    ) -> Actions:
        """Return how to read the columns; `described` is the action space stored with the log."""
        if isinstance(described, Continuous):
            return Actions(names, described)
        if self.distinct is None:
            if self.menu is not None and described is None:
                few = ", ".join(f"{value:g}" for value in self.menu[:5])
                few += ", …" if len(self.menu) > 5 else ""
                notes.notes.append(
                    f"Column {names[0]!r} holds only {len(self.menu)} different numbers ({few}) and is "
                    f"read as continuous. If these are all there is to choose from, pass "
                    f"categorical={names[0]!r}."
                )
            return Actions(names, described or Continuous(self.dimension))
        if described is None:
            return Actions(names, *_space(names[0], self.distinct, named, notes))
        kind = self.distinct.type
        numeric = kinds.is_integer(kind) or kinds.is_floating(kind)
        return Actions(names, described, described.labels is None or numeric)


def _is_discrete(column: pa.ChunkedArray, *, named: bool) -> bool:
    """Return whether an action column holds discrete actions: labels, or whole numbers."""
    kind = column.type
    if kinds.is_floating(kind) and not named:
        values = array(column)
        return bool(((np.abs(values) < 2**53) & (values == np.round(values))).all())
    number = kinds.is_floating(kind) or kinds.is_decimal(kind)
    whole = kinds.is_integer(kind) or (kinds.is_decimal(kind) and kind.scale == 0)
    plain = whole or is_text(kind) or kinds.is_boolean(kind)
    return bool(plain or (named and number))


def _space(name: str, distinct: pa.Array, named: bool, notes: Notes) -> tuple[Discrete, bool]:
    """Return the action space of these distinct values, and whether the values are its codes.

    Text and booleans are labels. Whole numbers are codes, unless some are negative or fewer than half
    of the numbers up to the highest occur: then they are labels too. With `named`, all numbers are.
    """
    if kinds.is_boolean(distinct.type):
        return Discrete(2, ("false", "true")), False
    labels = tuple(as_labels(distinct.take(pc.sort_indices(distinct))).to_pylist())
    if is_text(distinct.type):
        if named and all(map(is_number, labels)):
            labels = tuple(sorted(labels, key=float))
        return Discrete(len(labels), labels), False
    if named:
        return Discrete(len(labels), labels), False
    whole = [*map(int, labels)]
    highest, coded = whole[-1], True
    if whole[0] < 0 or highest >= 2 * len(whole):
        space, coded = Discrete(len(whole), labels), False
        first = ", ".join(f"{code} = {label}" for code, label in enumerate(whole[:3]))
        notes.notes.append(
            f"The values of column {name!r} are labels, with which a policy answers; probabilities "
            f"have a column for each in their order ({first}{', …' if len(whole) > 3 else ''})."
        )
    else:
        space = Discrete(highest + 1)
        if never := sorted(set(range(highest + 1)) - set(whole)):
            notes.notes.append(
                f"Actions {', '.join(map(str, never[:5]))} of 0..{highest} never occur."
            )
    if kinds.is_floating(distinct.type):
        notes.notes.append(f"Column {name!r} holds whole numbers only: read as discrete actions.")
    return space, coded


@dataclass(frozen=True)
class EncoderFit:
    """What an encoder must know of a table, or of a chunk of it: a sum over chunks."""

    columns: Columns
    tidying: Tidying
    summaries: tuple[_Summary, ...]  # of the state columns
    choices: _Choices

    @classmethod
    def of(cls, table: pa.Table | pa.RecordBatch, columns: Columns, tidying: Tidying) -> EncoderFit:
        """Summarise a chunk of a table."""
        known = (*columns.state, *columns.action)
        if unknown := [name for name in tidying.categorical if name not in known]:
            raise LogError(
                f"categorical names columns of the state or the action. {', '.join(unknown)} is "
                f"neither; they are {', '.join(known)}."
            )
        unseen = unseen_rows(table, columns.next_state)
        after = columns.next_state or [None] * len(columns.state)
        summaries = tuple(
            _Summary.of(
                name,
                [unwrapped(table.column(each)) for each in (name, later) if each is not None],
                unseen,
                label=name in tidying.categorical,
            )
            for name, later in zip(columns.state, after, strict=True)
        )
        named = not set(columns.action).isdisjoint(tidying.categorical)
        return cls(columns, tidying, summaries, _Choices.of(columns.action, table, named=named))

    def __add__(self, other: EncoderFit) -> EncoderFit:
        summaries = tuple(map(add, self.summaries, other.summaries))
        return replace(self, summaries=summaries, choices=self.choices + other.choices)

    def encoder(self, notes: Notes, described: ActionSpace | None = None) -> Encoder:
        """Return the fitted encoder, and add the decisions made to `notes`.

        `described` is the action space stored with the log, if any.
        """
        variables: list[Variable] = []
        filled: list[str] = []
        for name, summary in zip(self.columns.state, self.summaries, strict=True):
            try:
                variables += summary.variables(name, self.tidying, filled, notes)
            except LogError as error:
                if name not in self.columns.by_pattern:
                    raise
                notes.cautions.append(f"{str(error).partition('. ')[0]}. It is left out.")
        if filled:
            notes.notes.append(
                f"Missing values were filled in: {'; '.join(filled)}. Indicator variables say where a "
                f"number was."
            )
        named = not set(self.columns.action).isdisjoint(self.tidying.categorical)
        actions = self.choices.actions(self.columns.action, described, named=named, notes=notes)
        return Encoder(tuple(variables), actions)


def unseen_rows(table: pa.Table | pa.RecordBatch, next_state: Sequence[str]) -> BoolArray | None:
    """Return the rows without any next state, (n,), which must not be filled in."""
    if not next_state:
        return None
    gaps = [missing_rows(table.column(name)) for name in next_state]
    return np.asarray(np.logical_and.reduce(gaps))
