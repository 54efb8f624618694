"""Transitions from Parquet files, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.stored import LazyLog
from tailproof.data.validation import check_propensity
from tailproof.data.view import Chunk
from tailproof.errors import LogError
from tailproof.sources.columns import Columns
from tailproof.sources.encode import numbers
from tailproof.sources.layout import Actions, Variable, matrix
from tailproof.sources.storage import Part, Storage
from tailproof.sources.survey import located


@dataclass(frozen=True)
class ParquetReader:
    """Reads transitions from Parquet files; a *run* is an episode as the files have it."""

    storage: Storage
    columns: Columns
    variables: tuple[Variable, ...]
    actions: Actions
    borders: IntArray  # (R + 1,) row with which each run starts, then the number of rows
    ends: BoolArray  # (R,) whether it terminates
    dropped: BoolArray | None  # (R,) whether its last row has no next state and is left out
    episode: IntArray | None  # (R,) index of its episode, where runs without transitions shift it
    kinds: tuple[str, str]  # types of states and of continuous actions

    def chunks(
        self, log: LazyLog, part: Part, size: int, *, ahead: bool, propensity: bool
    ) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time."""
        columns = self.columns
        wanted = [*columns.state, *columns.action, columns.reward]
        if ahead:
            wanted += columns.next_state
        if propensity and columns.propensity is not None:
            wanted.append(columns.propensity)
        held: _Batch | None = None
        for first, batch, where in self._batches(part, wanted, size):
            with located(where):
                read = self._read(first, batch, where)
            if held is not None:
                yield from self._piece(log, held, read.states[:1], ahead)
            held = read
        if held is not None:
            yield from self._piece(log, held, self._state_beyond(part), ahead)

    def rewards(self, log: LazyLog, part: Part) -> Iterator[FloatArray]:  # noqa: ARG002
        """Yield the rewards of one part in order."""
        for first, batch, where in self._batches(part, [self.columns.reward], 1 << 16):
            with located(where):
                rewards = _reals(self.columns.reward, batch)
            kept = self._kept(first, len(rewards))
            yield rewards if kept is None else rewards[kept]

    def first_states(self, log: LazyLog, part: Part) -> FloatArray:  # noqa: ARG002
        """Return the first states of the episodes that start in one part, (e, p)."""
        found: list[FloatArray] = [np.empty((0, sum(len(each.parts) for each in self.variables)))]
        for first, batch, where in self._batches(part, self.columns.state, 1 << 16):
            with located(where):
                states = self._states(batch)
            runs = slice(*np.searchsorted(self.borders[:-1], (first, first + len(states))))
            starts = self.borders[runs]
            if self.dropped is not None:
                lengths: IntArray = self.borders[1:][runs] - starts
                starts = starts[~self.dropped[runs] | (lengths > 1)]
            found.append(states[starts - first])
        return np.concatenate(found)

    def episodes(self, log: LazyLog, part: Part) -> range:  # noqa: ARG002
        """Return the episodes that have transitions in one part; there may be others among them."""
        low, high = self._runs(part.first, part.rows)
        if self.episode is None:
            return range(low, high)
        return range(max(int(self.episode[low]), 0), int(self.episode[high - 1]) + 1)

    def _batches(
        self, part: Part, columns: Sequence[str], size: int
    ) -> Iterator[tuple[int, pa.RecordBatch, str]]:
        first = part.first
        for span in part.spans:
            for batch, where in self.storage.batches(span, list(dict.fromkeys(columns)), size):
                yield first, batch, where
                first += batch.num_rows

    def _states(self, batch: pa.RecordBatch) -> FloatArray:
        return self._in_a_row(batch)[:, : batch.num_rows].T

    def _in_a_row(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the states, and room for the one that follows if it is the next row's, (p, m + 1)."""
        room = 0 if self.columns.next_state else 1
        states = matrix(self.variables, self.columns.state, batch, room=room)
        return states.T.astype(self.kinds[0], copy=False)

    def _read(self, first: int, batch: pa.RecordBatch, where: str) -> _Batch:
        columns, after, chances = self.columns, None, None
        if columns.next_state and columns.next_state[0] in batch.schema.names:
            after = matrix(self.variables, columns.next_state, batch, missing=True)
        if columns.propensity is not None and columns.propensity in batch.schema.names:
            chances = _reals(columns.propensity, batch)
            check_propensity(chances, len(chances), self.actions.space)
        actions = self.actions(batch)
        if actions.ndim == 2:
            actions = actions.astype(self.kinds[1], copy=False)
        in_a_row, rewards = self._in_a_row(batch), _reals(columns.reward, batch)
        return _Batch(first, where, in_a_row, after, actions, rewards, chances)

    def _piece(
        self, log: LazyLog, batch: _Batch, following: FloatArray | None, ahead: bool
    ) -> Iterator[Chunk]:
        """Yield the transitions of a batch; `following` is the state in the row after it, (1, p)."""
        first, m = batch.first, len(batch.rewards)
        low, high = self._runs(first, m)
        edges: IntArray = np.clip(self.borders[low : high + 1], first, first + m)
        run = np.repeat(np.arange(low, high), edges[1:] - edges[:-1])
        last = self.borders[low + 1 : high + 1] - 1 - first
        ends = self.ends[low:high][last < m]
        last = last[last < m]  # the last run may go on after the batch
        terminated = np.zeros(m, dtype=bool)
        terminated[last] = ends
        episode = run if self.episode is None else self.episode[run]
        kept = self._kept(first, m)
        if kept is not None and len(kept) == 0:
            return
        head = 0 if kept is None else kept[0]
        place = log.starts[episode[head]] + first + head - self.borders[run[head]]
        next_states, in_a_row = batch.states[:0], None
        if batch.next_states is not None:  # never read unless it was asked for
            next_states = self._next_states(batch, batch.next_states, terminated)
        elif ahead:
            in_a_row = batch.in_a_row  # the next row's state stands in where an episode ends
            in_a_row[:, -1] = batch.states[-1] if following is None else following[0]
            next_states = in_a_row[:, 1:].T
        yield Chunk(
            first=int(place),
            episode=episode,
            states=batch.states,
            actions=batch.actions,
            rewards=batch.rewards,
            next_states=next_states,
            terminated=terminated,
            propensity=batch.propensity,
            kept=kept,
            run=in_a_row,
        )

    def _next_states(self, batch: _Batch, after: FloatArray, terminated: BoolArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            total = after.sum()
        if not np.isfinite(total):
            infinite = int(np.isinf(after).any(axis=1).sum())
            if infinite:
                raise LogError(
                    f"In {batch.where}: next states must be finite or missing. {infinite} rows have "
                    f"an infinite one; drop or replace these rows."
                )
            missing = np.asarray(np.isnan(after).any(axis=1))
            if (missing & ~terminated).any():
                raise LogError(
                    f"In {batch.where}: the next state is missing in "
                    f"{int((missing & ~terminated).sum())} rows that do not terminate. Fill it in, "
                    f"or pass next_state=False to derive all next states from the rows."
                )
            after = np.where(missing[:, None], batch.states, after)
        return after.astype(self.kinds[0], copy=False)

    def _runs(self, first: int, m: int) -> tuple[int, int]:
        """Return which runs have rows among these."""
        low = int(np.searchsorted(self.borders, first, side="right")) - 1
        return low, int(np.searchsorted(self.borders, first + m))

    def _kept(self, first: int, m: int) -> IntArray | None:
        """Return which of some rows are transitions; None for all."""
        if self.dropped is None:
            return None
        low, high = self._runs(first, m)
        gone = self.borders[low + 1 : high + 1][self.dropped[low:high]] - 1 - first
        there = np.ones(m, dtype=bool)
        there[gone[gone < m]] = False
        return np.flatnonzero(there)

    def _state_beyond(self, part: Part) -> FloatArray | None:
        """Return the state in the row after a part, (1, p), where it is a next state."""
        if part.beyond is None:
            return None
        batch, where = next(self.storage.batches(part.beyond, self.columns.state, 1))
        with located(where):
            return self._states(batch)


class _Batch(NamedTuple):
    """Rows as the files have them."""

    first: int
    where: str
    in_a_row: FloatArray  # (p, m or m + 1) the states, and room for the one that follows
    next_states: FloatArray | None
    actions: AnyArray
    rewards: FloatArray
    propensity: FloatArray | None

    @property
    def states(self) -> FloatArray:
        """The states, (m, p)."""
        return self.in_a_row[:, : len(self.rewards)].T


def _reals(name: str, batch: pa.RecordBatch) -> FloatArray:
    column = batch.column(name)
    if kinds.is_float64(column.type) and column.null_count == 0:
        values: FloatArray = column.to_numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):
                return values
    return numbers(name, pa.chunked_array([column]))
