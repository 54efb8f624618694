"""Read transitions from Parquet files in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailproof.arrays import BoolArray, FloatArray, IntArray
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
    """Reads transitions from Parquet files; a *run* is the rows of one episode in the files."""

    storage: Storage
    columns: Columns
    variables: tuple[Variable, ...]
    actions: Actions
    starts: IntArray  # (E + 1,) first transition of each episode, then their number
    borders: IntArray  # (R + 1,) first row of each run, then the number of rows
    ends: BoolArray  # (R,) whether it terminates
    dropped: BoolArray | None  # (R,) whether its last row is left out for lack of a next state
    episode: IntArray | None  # (R,) episode index; None if every run has transitions
    kinds: tuple[str, str]  # types of states and of continuous actions

    def chunks(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yield these columns of the rows of one part in order, at most `size` at a time."""
        held: Chunk | None = None
        for chunk in self._chunks(part, size, columns):
            if held is not None:
                yield _followed(held, chunk.states[:1])
            held = chunk
        if held is not None:
            yield _followed(
                held, held.states if held.run is None else self._state_beyond(part, held)
            )

    def episodes(self, part: Part) -> range:
        """Return a range that includes all episodes with transitions in one part."""
        low, high = self._runs(part.first, part.rows)
        if self.episode is None:
            return range(low, high)
        return range(max(int(self.episode[low]), 0), int(self.episode[high - 1]) + 1)

    def _chunks(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
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
                    chunk = self._chunk(first, batch, columns)
                yield chunk
                first += batch.num_rows

    def _chunk(self, first: int, batch: pa.RecordBatch, columns: Sequence[str]) -> Chunk:
        """Return a batch as a chunk; a next state that is in the next batch is not yet filled in."""
        m, named = batch.num_rows, self.columns
        low, high = self._runs(first, m)
        edges: IntArray = np.clip(self.borders[low : high + 1], first, first + m)
        run = np.repeat(np.arange(low, high), np.diff(edges))
        last = self.borders[low + 1 : high + 1] - 1 - first
        here = last < m  # the last run may continue after the batch
        terminated = np.zeros(m, dtype=bool)
        terminated[last[here]] = self.ends[low:high][here]
        kept, head = None, 0
        if self.dropped is not None:
            there = np.ones(m, dtype=bool)
            there[last[here & self.dropped[low:high]]] = False
            kept, head = np.flatnonzero(there), int(there.argmax())
        episode = run if self.episode is None else self.episode[run]
        place = self.starts[episode[head]] + first + head - self.borders[run[head]]
        in_a_row = self._in_a_row(batch) if "states" in columns else np.empty((0, 0))
        states = in_a_row[:, :m].T
        next_states, following = states[:0], None
        if "next_states" in columns and named.next_state:
            next_states = self._next_states(batch, states, terminated)
        elif "next_states" in columns:
            next_states, following = in_a_row[:, 1:].T, in_a_row
        chances = None
        if "propensity" in columns and named.propensity is not None:
            chances = numbers(named.propensity, batch.column(named.propensity))
            check_propensity(chances, m, self.actions.space)
        actions = self.actions(batch) if "actions" in columns else np.empty(0)
        return Chunk(
            first=int(place),
            episode=episode,
            states=states,
            actions=actions.astype(self.kinds[1], copy=False) if actions.ndim == 2 else actions,
            rewards=(
                numbers(named.reward, batch.column(named.reward))
                if "rewards" in columns
                else np.empty(0)
            ),
            next_states=next_states,
            terminated=terminated,
            propensity=chances,
            kept=kept,
            run=following,
        )

    def _in_a_row(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the states (p, m), with one free column for the next row's state if it is needed."""
        room, names = 0 if self.columns.next_state else 1, self.columns.state
        states = state_matrix(self.variables, names, [*map(batch.column, names)], room=room)
        return states.astype(self.kinds[0], copy=False)

    def _next_states(
        self, batch: pa.RecordBatch, states: FloatArray, terminated: BoolArray
    ) -> FloatArray:
        names = self.columns.next_state
        after = state_matrix(self.variables, names, [*map(batch.column, names)], missing=True).T
        missing = np.asarray(np.isnan(after).any(axis=1))
        if (missing & ~terminated).any():
            raise LogError(
                f"the next state is missing in {int((missing & ~terminated).sum())} rows that do not "
                f"terminate. Fill it in, or pass next_state=False to derive all next states from the "
                f"rows."
            )
        if missing.any():
            after = np.where(missing[:, None], states, after)
        return after.astype(self.kinds[0], copy=False)

    def _runs(self, first: int, m: int) -> tuple[int, int]:
        """Return the range of runs that have rows among these m."""
        low = int(np.searchsorted(self.borders, first, side="right")) - 1
        return low, int(np.searchsorted(self.borders, first + m))

    def _state_beyond(self, part: Part, last: Chunk) -> FloatArray:
        """Return the state of the row after a part, (1, p), or of its last row if none is needed."""
        if part.beyond is None:
            return last.states[-1:]
        batch, where = next(self.storage.batches(part.beyond, self.columns.state, 1))
        with naming_the_type(f"In {where}: "):
            return self._in_a_row(batch)[:, :1].T


def _followed(chunk: Chunk, state: FloatArray) -> Chunk:
    """Fill in the next state of the last row of a chunk, (1, p)."""
    if chunk.run is not None:
        chunk.run[:, -1] = state[0]
    return chunk
