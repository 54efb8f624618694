"""The variables of a log as numbers: states with categories one-hot, actions with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.spaces import Discrete
from tailproof.errors import LogError
from tailproof.sources.encode import (
    array,
    is_list,
    is_text,
    labelled,
    numbers,
    plain,
    refuse_missing,
    shown,
)

#: More categories than this in a state column are an identifier, not a category.
MOST_CATEGORIES = 256
_MANY = 20  # distinct texts, of which nine in ten are numbers: those are numbers, misspelt


class Block(NamedTuple):
    """One state column as numbers: itself, its categories one-hot, or the entries of its lists."""

    values: FloatArray  # (n, w)
    names: tuple[str, ...]  # w of them


def actions(
    names: tuple[str, ...], columns: list[pa.ChunkedArray]
) -> tuple[AnyArray, Discrete | None, list[str]]:
    """Return actions, the space where they are discrete, and what to say about them.

    Text and booleans become codes with labels. Whole numbers are codes already, unless they are
    negative or fewer than half of those up to the highest occur: then they are labels too. Anything
    else is continuous.
    """
    plains = [plain(column) for column in columns]
    if len(plains) > 1 or is_list(plains[0].type):
        return _action_vectors(names, plains), None, []
    name, column = names[0], plains[0]
    if is_text(column.type) or kinds.is_boolean(column.type):
        refuse_missing(name, column)
        if kinds.is_boolean(column.type):
            codes = numbers(name, column).astype(np.intp)
            return codes, Discrete(2, ("false", "true")), []
        found = labelled(column)
        return found.codes, Discrete(len(found.labels), tuple(found.labels.tolist())), []
    if kinds.is_integer(column.type):
        refuse_missing(name, column)
        return _action_codes(name, array(column))
    values = numbers(name, column)
    if kinds.is_floating(column.type) and (np.abs(values) < 2**53).all():
        whole = values.astype(np.int64)
        if (whole == values).all():
            codes, space, notes = _action_codes(name, whole)
            notes.append(f"Column {name!r} holds whole numbers only: read as discrete actions.")
            return codes, space, notes
    return values[:, None], None, []


def state_block(
    name: str,
    column: pa.ChunkedArray,
    after_name: str | None = None,
    after: pa.ChunkedArray | None = None,
) -> tuple[Block, Block | None]:
    """Return one state column as numbers, and its next values where a column gives them.

    Missing next values are NaN in all their entries: whether that is allowed depends on the row.
    """
    column = plain(column)
    after = None if after is None else plain(after)
    if is_text(column.type):
        return _one_hot(name, column, after_name, after)
    if is_list(column.type):
        before = _lists(name, column)
        names = tuple(f"{name}[{j}]" for j in range(before.shape[1]))
        if after is None:
            return Block(before, names), None
        values = _lists(str(after_name), after, before.shape[1])
        return Block(before, names), Block(values, names)
    names = (f"{name}=true" if kinds.is_boolean(column.type) else name,)
    before = numbers(name, column)[:, None]
    if after is None:
        return Block(before, names), None
    values = numbers(str(after_name), after, missing=True)[:, None]
    return Block(before, names), Block(values, names)


def _action_codes(name: str, values: IntArray) -> tuple[AnyArray, Discrete, list[str]]:
    distinct = np.unique(values)
    highest = int(distinct[-1])
    if int(distinct[0]) < 0 or highest >= 2 * len(distinct):
        labels = tuple(str(value) for value in distinct.tolist())
        first = ", ".join(f"{code} = {label}" for code, label in enumerate(labels[:3]))
        return (
            np.searchsorted(distinct, values),
            Discrete(len(distinct), labels),
            [
                f"The values of column {name!r} are labels, with which a policy answers; "
                f"probabilities have a column for each in their order "
                f"({first}{', …' if len(labels) > 3 else ''})."
            ],
        )
    never = sorted(set(range(highest + 1)) - set(distinct.tolist()))
    said = (
        [f"Actions {', '.join(map(str, never[:5]))} of 0..{highest} never occur."] if never else []
    )
    return values.astype(np.intp), Discrete(highest + 1), said


def _action_vectors(names: tuple[str, ...], columns: list[pa.ChunkedArray]) -> FloatArray:
    if len(columns) > 1 and all(kinds.is_integer(column.type) for column in columns):
        raise LogError(
            f"Several action columns must hold real numbers. Got whole numbers in "
            f"{', '.join(names)}; combine discrete choices into one column, or convert to decimals."
        )
    if len(columns) == 1:
        return _lists(names[0], columns[0])
    return np.column_stack(
        [numbers(name, column) for name, column in zip(names, columns, strict=True)]
    )


def _one_hot(
    name: str, column: pa.ChunkedArray, after_name: str | None, after: pa.ChunkedArray | None
) -> tuple[Block, Block | None]:
    refuse_missing(name, column)
    if after is not None and not (is_text(after.type) or kinds.is_null(after.type)):
        raise LogError(
            f"Column {after_name!r} must be text, as {name!r} is. {shown(after)} Convert it."
        )
    text = column.cast(pa.large_string())
    both = text if after is None else _joined(text, after.cast(pa.large_string()))
    codes, labels = labelled(both)
    require_categories(name, labels.tolist())
    names = tuple(f"{name}={label}" for label in labels.tolist())
    values = (codes[:, None] == np.arange(len(labels))).astype(float)
    if after is None:
        return Block(values, names), None
    values[codes < 0] = np.nan
    n = len(column)
    return Block(values[:n], names), Block(values[n:], names)


def require_categories(name: str, labels: list[str]) -> None:
    """Refuse text that is no category: an identifier, or numbers of which a few are misspelt."""
    if len(labels) > MOST_CATEGORIES:
        raise LogError(
            f"State column {name!r} has {len(labels)} distinct texts, more than {MOST_CATEGORIES}: "
            f"an identifier rather than a category. Leave it out, or group its values first."
        )
    require_no_numbers(name, labels)


def require_no_numbers(name: str, labels: Sequence[str]) -> None:
    """Refuse text that is numbers, of which a few are misspelt."""
    odd = [label for label in labels if not _is_number(label)]
    if len(labels) >= _MANY and 0 < len(odd) <= len(labels) / 10:
        raise LogError(
            f"State column {name!r} holds numbers, but for {len(odd)} of its values, such as "
            f"{odd[0][:40]!r}. Correct or drop these rows."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([*first.chunks, *second.chunks], type=first.type)


def _lists(name: str, column: pa.ChunkedArray, width: int | None = None) -> FloatArray:
    """Return lists of numbers as (n, width); with a `width` given, lists may be missing: NaN."""
    if width is None:
        refuse_missing(name, column)
    there = array(column.is_valid().cast(pa.uint8())) == 1
    if width is not None and not there.any():
        return np.full((len(there), width), np.nan)
    if not is_list(column.type):
        raise LogError(f"Column {name!r} must hold lists of numbers. {shown(column)} Convert it.")
    column = column.drop_null() if column.null_count else column
    lengths = array(pc.list_value_length(column))
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any() or width == 0:
        row = int(np.flatnonzero(there)[(lengths != width).argmax()])
        raise LogError(
            f"The lists of column {name!r} must be equally long and not empty. Got "
            f"{int(lengths[(lengths != width).argmax()])} entries at row {row}, and {width} "
            f"entries in others."
        )
    values = np.full((len(there), width), np.nan)
    entries = numbers(f"{name} (entries of its lists)", pc.list_flatten(column))
    values[there] = entries.reshape(-1, width)
    return values
