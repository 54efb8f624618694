"""Where the rows of a log stand in the table that it was read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.arrays import BoolArray, IntArray
from tailproof.errors import LogError


@dataclass(frozen=True, eq=False)
class OriginalTable:
    """The table that a log was read from, without what no policy knows before it acts."""

    label: str  # what errors call it
    names: tuple[str, ...]  # the columns that a policy may read
    hidden: dict[str, str]  # the others, and what each is
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
    """Which row of a table each state of a log was read from.

    A policy that answers by row (a column, a rule over original columns) is asked by these numbers, so
    that parts of a log, in any order, get the answers of their own rows.
    """

    rows: IntArray  # (n,) that of each state
    next_rows: IntArray  # (n,) that of each next state, −1 where the table has none
    count: int  # how many rows the table has
    table: OriginalTable | None = None  # where it can still be read
    index: Any = None  # the row labels of a pandas frame, which those of a Series must match
    available: BoolArray | None = (
        None  # (N, A) which actions could be taken in each row; None for all
    )

    def take(self, rows: Any) -> Origin:
        """Return that of some rows of the log."""
        return replace(self, rows=self.rows[rows], next_rows=self.next_rows[rows])

    def within(self, rows: IntArray, count: int) -> Origin:
        """Return that in a table of `count` rows, of which only these were read."""
        places = np.append(rows, -1)  # −1 stays −1
        return replace(self, rows=places[self.rows], next_rows=places[self.next_rows], count=count)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": None, "index": None}  # open files do not travel


def own_origin(starts: IntArray) -> Origin:
    """Return the origin of a log that was made of arrays: its own rows, by episode."""
    rows = np.arange(int(starts[-1]))
    next_rows = rows + 1
    next_rows[starts[1:] - 1] = -1
    return Origin(rows, next_rows, len(rows))
