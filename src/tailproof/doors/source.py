"""The data argument of public functions: a log, or any source that `read_log` reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, require_finite
from tailproof.errors import LogError, did_you_mean, listed
from tailproof.log.log import Log
from tailproof.log.sources import Readable
from tailproof.log.validation import column
from tailproof.policies.binding import require_index
from tailproof.profile.profile import LogProfile

#: A log, or a source that `read_log` reads.
LogSource = Log | LogProfile | Readable
_OF_THE_METHOD = ("aggregate", "base", "clip", "folds")  # settings of `method`


def as_profile(
    given: LogSource,
    columns: Mapping[str, object],
    door: Callable[..., object],
    *,
    beside: Sequence[str] = (),
) -> LogProfile:
    """Return the profile of the given log or source; a profile that is given is used again.

    Clusters that are beyond doubt are its groups, if none were named.
    """
    if isinstance(given, LogProfile) and not columns:
        return given.grouped()
    return LogProfile(as_log(given, columns, door, beside=beside)).grouped()


def as_log(
    given: LogSource,
    columns: Mapping[str, object],
    door: Callable[..., object],
    *,
    beside: Sequence[str] = (),
) -> Log:
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
    if isinstance(given, Log):
        if columns:
            _require_known(columns, door)
            raise LogError(
                f"{', '.join(columns)} name columns of a table, but {door.__name__} was given a log "
                f"that has been read already. Pass the table, or name them in read_log."
            )
        return given
    from tailproof.io.reading import read_and_report  # imports pyarrow

    _require_known(columns, door)
    log: Log = read_and_report(given, beside=beside, **columns)
    return log


def table_column(log: Log, given: str | npt.ArrayLike, *, argument: str) -> Any:
    """Return a column of the table that a log was read from, or values given by its rows, (N,).

    Parameters
    ----------
    given
        The name of a column, or one value for each row of the table; a Series must have its index.
    argument
        The argument that names it, for error messages.
    """
    origin = log.table_rows
    if not isinstance(given, str):
        require_index(given, origin, LogError)
        if len(np.asarray(given)) != origin.count:
            raise LogError(
                f"{argument} must have one value for each of the {origin.count} rows of the table. Got "
                f"{len(np.asarray(given))}.",
                argument=argument,
            )
        return given
    if origin.table is None:
        raise LogError(
            f"{argument}={given!r} names a column, but this log has no table to read it from. Pass the "
            f"values, one for each row.",
            argument=argument,
        )
    there = origin.table.names
    if given not in there:
        part = origin.table.hidden.get(given)
        why = f"Column {given!r} is {part}." if part else f"There is no column {given!r}."
        raise LogError(
            f"{why} The table has {listed(there)}.{did_you_mean(given, there)}", argument=argument
        )
    return origin.table.read([given]).column(given)


def numbers_by_row(
    log: Log, given: str | npt.ArrayLike, *, argument: str, notes: list[str] | None = None
) -> FloatArray:
    """Return a numeric column of a log's table for each row of the log, (n,).

    Amounts that are written as text are read as those of the reward are; `notes` receives how.
    """
    from tailproof.io.values import numbers, written_amounts  # imports pyarrow

    values, origin = table_column(log, given, argument=argument), log.table_rows
    name = given if isinstance(given, str) else argument
    if isinstance(given, str):
        try:
            if (amounts := written_amounts(values)) is not None:
                values = amounts.column
                if notes is not None:
                    notes.append(amounts.describe(name))
            values = numbers(name, values)
        except LogError as error:
            raise LogError(str(error), argument=argument) from None
    by_row: FloatArray = column(name, values, origin.count, float)[origin.rows]
    require_finite(name, by_row, LogError)
    return by_row


def _require_known(columns: Mapping[str, Any], door: Callable[..., Any]) -> None:
    from tailproof.io.reading import read_log

    known = [name for name in inspect.signature(read_log).parameters if name != "source"]
    for name in columns:
        if name not in known:
            own = [each for each in inspect.signature(door).parameters if each != "columns"]
            if "method" in own and name in _OF_THE_METHOD:
                raise TypeError(
                    f"{door.__name__}() has no argument {name!r}: it is a setting of the method. Pass "
                    f"method=tailproof.method('auto', {name}=...)."
                )
            raise TypeError(
                f"{door.__name__}() has no argument {name!r}.{did_you_mean(name, [*own, *known])}"
                f" Beside its own it takes those of read_log: {', '.join(known)}."
            )
