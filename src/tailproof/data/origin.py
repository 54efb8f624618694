"""The rows of the original table from which a log was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.arrays import BoolArray, IntArray
from tailproof.errors import LogError


@dataclass(frozen=True, eq=False)
class OriginalTable:
    """The table that a log was read from, without columns that are unknown before the action."""

    label: str  # its name in error messages
    names: tuple[str, ...]  # the columns that a policy may read
    hidden: dict[str, str]  # the other columns, and the part that each plays
    count: int  # how many rows it had when the log was read
    source: Callable[[Sequence[str], Sequence[str]], Any]  # reads columns; the second are labels

    def read(self, names: Sequence[str]) -> Any:
        """Return these columns as an Arrow table with all rows."""
        table = self.source(list(names), [])
        if table.num_rows != self.count:
            raise LogError(
                f"{self.label} had {self.count} rows when it was read as a log, and has "
                f"{table.num_rows} now. Read it again."
            )
        return table


@dataclass(frozen=True, eq=False)
class Origin:
    """The table row of each state of a log.

    Policies defined per table row (a column, a rule over original columns) are evaluated at these
    rows, so that any part of a log, in any order, gets the actions of its own rows.
    """

    rows: IntArray  # (n,) table row of each state
    next_rows: IntArray  # (n,) table row of each next state, −1 if it has none
    count: int  # number of rows of the table
    table: OriginalTable | None = None  # None if it cannot be read any more
    index: Any = None  # the row labels of a pandas frame, which those of a Series must match
    available: BoolArray | None = (
        None  # (N, A) which actions could be taken in each row; None for all
    )

    def take(self, rows: Any) -> Origin:
        """Return the origin of these rows of the log."""
        return replace(self, rows=self.rows[rows], next_rows=self.next_rows[rows])

    def within(self, rows: IntArray, count: int) -> Origin:
        """Return the origin in a larger table of `count` rows, of which only `rows` were read."""
        places = np.append(rows, -1)  # −1 stays −1
        return replace(self, rows=places[self.rows], next_rows=places[self.next_rows], count=count)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": None, "index": None}  # open files cannot be pickled


def own_origin(starts: IntArray) -> Origin:
    """Return the origin of a log built from arrays: its own rows, by episode."""
    rows = np.arange(int(starts[-1]))
    next_rows = rows + 1
    next_rows[starts[1:] - 1] = -1
    return Origin(rows, next_rows, len(rows))
