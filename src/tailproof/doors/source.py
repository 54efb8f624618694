"""The data argument of public functions: a log, or any source that `read_log` reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol

from tailproof.errors import LogError, did_you_mean
from tailproof.log.log import Log, LogView
from tailproof.log.stored import AnyLog, LazyLog
from tailproof.profile.profile import LogProfile


class ArrowFrame(Protocol):
    """A frame of pandas, polars, Arrow or another library with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as a stream."""


class MinariData(Protocol):
    """A Minari data set."""

    def iterate_episodes(self, episode_indices: Any = None) -> Any:
        """Yield the episodes."""


class ReplayData(Protocol):
    """A data set or buffer of d3rlpy."""

    @property
    def episodes(self) -> Any:
        """The episodes."""


#: A log, or a source that `read_log` reads.
LogSource = (
    LogView
    | LogProfile
    | str
    | PathLike[str]
    | Mapping[str, Any]
    | ArrowFrame
    | MinariData
    | ReplayData
)


def as_profile(
    given: LogSource,
    columns: Mapping[str, Any],
    door: Callable[..., Any],
    *,
    beside: Sequence[str] = (),
) -> LogProfile:
    """Return the profile of the given log or source; a profile that is given is used again."""
    if isinstance(given, LogProfile) and not columns:
        return given
    return LogProfile(as_log(given, columns, door, beside=beside))


def as_log(
    given: LogSource,
    columns: Mapping[str, Any],
    door: Callable[..., Any],
    *,
    beside: Sequence[str] = (),
) -> AnyLog:
    """Return the given log, or read one with `read_log`.

    Parameters
    ----------
    given
        A log, or a source of `read_log`.
    columns
        Keyword arguments of `read_log`.
    door
        The public function that was called, for error messages.
    beside
        Columns of the policies to be judged, which no pattern of states matches.
    """
    if isinstance(given, LogProfile):
        given = given.log
    if isinstance(given, Log | LazyLog):
        if columns:
            _require_known(columns, door)
            raise LogError(
                f"{', '.join(columns)} name columns of a table, but {door.__name__} was given a log "
                f"that has been read already. Pass the table, or name them in read_log."
            )
        return given
    from tailproof.io.reading import read_aloud  # imports pyarrow

    _require_known(columns, door)
    log: AnyLog = read_aloud(given, beside=beside, **columns)
    return log


def _require_known(columns: Mapping[str, Any], door: Callable[..., Any]) -> None:
    from tailproof.io.reading import read_log

    known = [name for name in inspect.signature(read_log).parameters if name != "source"]
    for name in columns:
        if name not in known:
            own = [each for each in inspect.signature(door).parameters if each != "columns"]
            raise TypeError(
                f"{door.__name__}() has no argument {name!r}.{did_you_mean(name, [*own, *known])}"
                f" Beside its own it takes those of read_log: {', '.join(known)}."
            )
