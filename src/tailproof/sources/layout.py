"""From a batch of columns to states and actions, alike in every batch of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.spaces import ActionSpace, Continuous, Discrete
from tailproof.errors import LogError
from tailproof.sources.encode import is_list, numbers, plain, refuse_missing
from tailproof.sources.variables import actions, require_categories, state_block


@dataclass(frozen=True)
class Variable:
    """A state column: a number, as many numbers as its lists have entries, or one for each text."""

    name: str
    parts: tuple[str, ...]  # the names of its numbers
    texts: pa.Array | None = None  # in order; None unless it is text

    def fill(self, out: FloatArray, name: str, column: pa.Array, *, missing: bool) -> None:
        """Write a column's numbers to `out`, (w, m); if values may be `missing` they are NaN."""
        if kinds.is_float64(column.type) and column.null_count == 0:
            out[0] = column.to_numpy()  # what is not finite is found when all columns are there
            return
        chunked = plain(pa.chunked_array([column]))
        if self.texts is not None:
            if not missing:
                refuse_missing(name, chunked)
            codes = pc.index_in(chunked.cast(pa.large_string()).combine_chunks(), self.texts)
            places = codes.fill_null(-1).to_numpy()
            out[:] = places == np.arange(len(self.texts))[:, None]
            out[:, places < 0] = np.nan
        elif is_list(chunked.type):
            block, _ = state_block(name, chunked)
            if len(block.names) != len(out):
                raise LogError(
                    f"The lists of column {name!r} must be equally long. Got {len(block.names)} "
                    f"entries here and {len(out)} before."
                )
            out[:] = block.values.T
        else:
            out[0] = numbers(name, chunked, missing=missing)


def variable(name: str, sample: pa.Array, texts: pa.Array | None) -> Variable:
    """Return how to read a state column, from some of its values or, if it is text, all of them."""
    if texts is None:
        block, _ = state_block(name, pa.chunked_array([sample]))
        return Variable(name, tuple(block.names))
    require_categories(name, texts.to_pylist())
    ordered = texts.take(pc.sort_indices(texts))
    return Variable(name, tuple(f"{name}={label}" for label in ordered.to_pylist()), ordered)


def state_matrix(
    variables: Sequence[Variable],
    names: Sequence[str],
    batch: pa.RecordBatch,
    *,
    missing: bool = False,
    room: int = 0,
) -> FloatArray:
    """Return the variables as they are in these columns of a batch, a row each, (p, m + room)."""
    every = np.empty((sum(len(each.parts) for each in variables), batch.num_rows + room))
    values = every[:, : batch.num_rows]
    place = 0
    for each, name in zip(variables, names, strict=True):
        out = values[place : place + len(each.parts)]
        each.fill(out, name, batch.column(name), missing=missing)
        place += len(each.parts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total):  # of the few columns that may hold such values, say which does
        for name in names:
            if kinds.is_floating(batch.column(name).type):
                numbers(name, pa.chunked_array([batch.column(name)]), missing=missing)
    return every


@dataclass(frozen=True)
class Actions:
    """How to read the action columns."""

    names: tuple[str, ...]
    space: ActionSpace
    values: pa.Array | None = None  # (A,) what stands for each code, unless the codes themselves do
    counts: IntArray | None = None  # (A,) how often each code occurs

    def __call__(self, batch: pa.RecordBatch) -> AnyArray:
        """Return the actions of a batch, (m,) codes or (m, q) reals."""
        columns = [plain(pa.chunked_array([batch.column(name)])) for name in self.names]
        if isinstance(self.space, Continuous):
            if len(columns) == 1 and not is_list(columns[0].type):
                return numbers(self.names[0], columns[0])[:, None]
            return actions(self.names, columns)[0]
        if self.values is None:
            return np.asarray(columns[0].to_numpy()).astype(np.intp, copy=False)
        column = columns[0].combine_chunks()
        return np.asarray(pc.index_in(column, self.values)).astype(np.intp)


def action_layout(
    names: tuple[str, ...],
    sample: pa.RecordBatch,
    distinct: pa.Array | None,
    counts: IntArray | None,
    described: ActionSpace | None,
) -> tuple[Actions, list[str]]:
    """Return how to read the action columns, and what to say about them.

    `distinct` are the actions that occur, None for continuous ones; `described` is the space that
    the data set names itself, if it does.
    """
    if distinct is None or counts is None:
        width = len(names)
        if width == 1 and is_list(sample.column(names[0]).type):
            width = actions(names, [pa.chunked_array([sample.column(names[0])])])[0].shape[1]
        return Actions(names, described or Continuous(width)), []
    if isinstance(described, Continuous):
        return Actions(names, described), []
    space: ActionSpace | None = described
    said: list[str] = []
    if isinstance(described, Discrete) and described.labels and not _are_codes(distinct):
        values = pa.array(described.labels, distinct.type)
        codes = np.asarray(pc.index_in(distinct, values).fill_null(described.n))
    elif isinstance(described, Discrete):
        values, codes = None, np.asarray(distinct).astype(np.intp)
    else:
        codes, space, said = actions(names, [pa.chunked_array([distinct])])
        if kinds.is_boolean(distinct.type):
            values = pa.array([False, True])
        elif _are_codes(distinct) and (codes == np.asarray(distinct)).all():
            values = None
        else:
            values = distinct.take(pa.array(np.argsort(codes)))
    assert isinstance(space, Discrete)
    if ((codes < 0) | (codes >= space.n)).any():
        wrong = distinct[int(((codes < 0) | (codes >= space.n)).argmax())]
        raise LogError(f"actions must be among the {space.n} of the log. Got {wrong}.")
    total = np.zeros(space.n, dtype=np.intp)
    total[codes] = counts
    return Actions(names, space, values, total), said


def _are_codes(distinct: pa.Array) -> bool:
    return bool(kinds.is_integer(distinct.type) or kinds.is_floating(distinct.type))
