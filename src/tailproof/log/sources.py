"""The types of what a log is read from; they import no library of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Protocol


class ArrowFrame(Protocol):
    """A frame of pandas, polars, Arrow or another library with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as a stream."""


class MinariData(Protocol):
    """A Minari data set."""

    @property
    def observation_space(self) -> Any:
        """A Gymnasium space."""

    @property
    def action_space(self) -> Any:
        """A Gymnasium space."""

    def iterate_episodes(self, episode_indices: object = None) -> Iterable[Any]:
        """Yield the episodes."""


class ReplayData(Protocol):
    """A data set or buffer of d3rlpy."""

    @property
    def episodes(self) -> Any:
        """The episodes."""


#: A file, a folder, a query, a frame, or a mapping of columns.
TableSource = str | PathLike[str] | Mapping[str, Any] | ArrowFrame
#: Whatever `read_log` reads.
Readable = TableSource | MinariData | ReplayData
