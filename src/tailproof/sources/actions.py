"""Action columns as codes with labels or as real vectors, the same way in every batch of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, IntArray
from tailproof.data.spaces import ActionSpace, Continuous, Discrete, menu
from tailproof.errors import LogError
from tailproof.sources.encode import (
    array,
    is_list,
    is_text,
    numbers,
    refuse_missing,
    unwrapped,
)
from tailproof.sources.variables import list_width, lists


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
