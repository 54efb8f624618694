"""Transitions from Parquet files, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.validation import check_propensity
from tailproof.data.view import Chunk
from tailproof.errors import LogError
from tailproof.sources.actions import Actions
from tailproof.sources.columns import Columns
from tailproof.sources.encode import numbers
from tailproof.sources.storage import Part, Storage
from tailproof.sources.tables import naming_the_type
from tailproof.sources.variables import Variable, state_matrix


@dataclass(frozen=True)
class ParquetReader:
    """Reads transitions from Parquet files; a *run* is an episode as the files have it."""

    storage: Storage
    columns: Columns
    variables: tuple[Variable, ...]
    actions: Actions
    starts: IntArray  # (E + 1,) the transition with which each episode starts, then their number
    borders: IntArray  # (R + 1,) row with which each run starts, then the number of rows
    ends: BoolArray  # (R,) whether it terminates
    dropped: BoolArray | None  # (R,) whether its last row has no next state and is left out
    episode: IntArray | None  # (R,) index of its episode, where runs without transitions shift it
    kinds: tuple[str, str]  # types of states and of continuous actions

    def chunks(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yield these columns of the rows of one part in order, at most `size` at a time."""
        ahead = "next_states" in columns
        held: _Batch | None = None
        for batch in self._batches(part, size, columns):
            if held is not None:
                yield self._chunk(held, batch.in_a_row[:, :1], ahead)
            held = batch
        if held is not None:
            yield self._chunk(held, self._state_beyond(part) if ahead else None, ahead)

    def episodes(self, part: Part) -> range:
        """Return the episodes that have transitions in one part; there may be others among them."""
        low, high = self._runs(part.first, part.rows)
        if self.episode is None:
            return range(low, high)
        return range(max(int(self.episode[low]), 0), int(self.episode[high - 1]) + 1)

    def _batches(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[_Batch]:
        names = {
            "states": self.columns.state,
            "next_states": self.columns.next_state,
            "actions": self.columns.action,
            "rewards": (self.columns.reward,),
            "propensity": (self.columns.propensity,) if self.columns.propensity else (),
        }
        wanted = list(dict.fromkeys(name for column in columns for name in names[column]))
        first = part.first
        for span in part.spans:
            for batch, where in self.storage.batches(span, wanted, size):
                with naming_the_type(f"In {where}: "):
                    yield self._decoded(first, batch, where, columns)
                first += batch.num_rows

    def _decoded(
        self, first: int, batch: pa.RecordBatch, where: str, columns: Sequence[str]
    ) -> _Batch:
        in_a_row: FloatArray = np.empty((self.width, 0))
        after, chances = None, None
        actions: AnyArray = np.empty(0)
        rewards: FloatArray = np.empty(0)
        if "states" in columns:
            in_a_row = self._in_a_row(batch)
        if "next_states" in columns and self.columns.next_state:
            names = self.columns.next_state
            columns_after = [*map(batch.column, names)]
            after = state_matrix(self.variables, names, columns_after, missing=True)
        if "actions" in columns:
            actions = self.actions(batch)
            if actions.ndim == 2:
                actions = actions.astype(self.kinds[1], copy=False)
        if "rewards" in columns:
            rewards = numbers(self.columns.reward, batch.column(self.columns.reward))
        if "propensity" in columns and self.columns.propensity is not None:
            chances = numbers(self.columns.propensity, batch.column(self.columns.propensity))
            check_propensity(chances, len(chances), self.actions.space)
        return _Batch(first, batch.num_rows, where, in_a_row, after, actions, rewards, chances)

    @property
    def width(self) -> int:
        """Number of state variables."""
        return sum(len(each.parts) for each in self.variables)

    def _in_a_row(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the states, and room for the one that follows if it is the next row's, (p, m + 1)."""
        room = 0 if self.columns.next_state else 1
        names = self.columns.state
        states = state_matrix(self.variables, names, [*map(batch.column, names)], room=room)
        return states.astype(self.kinds[0], copy=False)

    def _chunk(self, batch: _Batch, following: FloatArray | None, ahead: bool) -> Chunk:
        """Return the transitions of a batch; `following` is the state in the row after it, (p, 1)."""
        first, m = batch.first, batch.rows
        low, high = self._runs(first, m)
        edges: IntArray = np.clip(self.borders[low : high + 1], first, first + m)
        run = np.repeat(np.arange(low, high), np.diff(edges))
        last = self.borders[low + 1 : high + 1] - 1 - first
        here = last < m  # the last run may go on after the batch
        terminated = np.zeros(m, dtype=bool)
        terminated[last[here]] = self.ends[low:high][here]
        kept, head = None, 0
        if self.dropped is not None:
            there = np.ones(m, dtype=bool)
            there[last[here & self.dropped[low:high]]] = False
            kept = np.flatnonzero(there)
            head = int(there.argmax())
        episode = run if self.episode is None else self.episode[run]
        place = self.starts[episode[head]] + first + head - self.borders[run[head]]
        states = batch.in_a_row[:, :m].T
        next_states, in_a_row = states[:0], None
        if batch.next_states is not None:
            next_states = self._next_states(batch, states, terminated)
        elif ahead:
            in_a_row = batch.in_a_row  # the next row's state stands in where an episode ends
            in_a_row[:, -1] = in_a_row[:, m - 1] if following is None else following[:, 0]
            next_states = in_a_row[:, 1:].T
        return Chunk(
            first=int(place),
            episode=episode,
            states=states,
            actions=batch.actions,
            rewards=batch.rewards,
            next_states=next_states,
            terminated=terminated,
            propensity=batch.propensity,
            kept=kept,
            run=in_a_row,
        )

    def _next_states(self, batch: _Batch, states: FloatArray, terminated: BoolArray) -> FloatArray:
        assert batch.next_states is not None
        after = batch.next_states.T
        missing = np.asarray(np.isnan(after).any(axis=1))
        if (missing & ~terminated).any():
            raise LogError(
                f"In {batch.where}: the next state is missing in "
                f"{int((missing & ~terminated).sum())} rows that do not terminate. Fill it in, or pass "
                f"next_state=False to derive all next states from the rows."
            )
        if missing.any():
            after = np.where(missing[:, None], states, after)
        return after.astype(self.kinds[0], copy=False)

    def _runs(self, first: int, m: int) -> tuple[int, int]:
        """Return which runs have rows among these."""
        low = int(np.searchsorted(self.borders, first, side="right")) - 1
        return low, int(np.searchsorted(self.borders, first + m))

    def _state_beyond(self, part: Part) -> FloatArray | None:
        """Return the state in the row after a part, (p, 1), where it is a next state."""
        if part.beyond is None:
            return None
        batch, where = next(self.storage.batches(part.beyond, self.columns.state, 1))
        with naming_the_type(f"In {where}: "):
            return self._in_a_row(batch)[:, :1]


class _Batch(NamedTuple):
    """Rows as the files have them; columns that were not asked for are empty or None."""

    first: int
    rows: int
    where: str
    in_a_row: FloatArray  # (p, m or m + 1) the states, and room for the one that follows
    next_states: FloatArray | None  # (p, m)
    actions: AnyArray
    rewards: FloatArray
    propensity: FloatArray | None
