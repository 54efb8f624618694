"""The original columns of a log, read again when a policy asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tailproof.errors import LogError
from tailproof.sources.columns import Columns
from tailproof.sources.tables import Source

#: What no policy knows before it acts.
_LATER = {
    "action": "the action",
    "reward": "the reward",
    "next_state": "a next state",
    "terminated": "what ends the episode",
    "truncated": "what ends the episode",
    "propensity": "the propensity of the logged action",
}


@dataclass(frozen=True, eq=False)
class OriginalColumns:
    """The table of a log as its file has it, without what no policy knows before it acts.

    Attributes
    ----------
    source
        Reads it.
    count
        How many rows it had when the log was read.
    names
        The columns that a policy may read.
    hidden
        The others, and what each is.
    """

    source: Source
    count: int
    names: tuple[str, ...]
    hidden: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source, columns: Columns, count: int) -> OriginalColumns:
        """Return the columns that are left when each part has its own."""
        parts = columns.parts()
        hidden = {name: what for part, what in _LATER.items() for name in parts.get(part, ())}
        names = tuple(name for name in source.names if name not in hidden)
        return cls(source, count, names, hidden)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return these columns with all rows."""
        table = self.source.read(list(names), [])
        if table.num_rows != self.count:
            raise LogError(
                f"{self.source.label} had {self.count} rows when it was read as a log, and has "
                f"{table.num_rows} now. Read it again."
            )
        return table
