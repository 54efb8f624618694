"""State columns as numbers: numeric values, one-hot categories, or list entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import FloatArray
from tailproof.errors import LogError
from tailproof.sources.encode import (
    Column,
    array,
    is_list,
    is_text,
    missing_rows,
    numbers,
    refuse_missing,
    shown,
    unwrapped,
)
from tailproof.sources.spelling import is_number, other_spelling

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
