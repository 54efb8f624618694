"""Write logs to Parquet files, and read them back without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray
from tailproof.errors import LogError, TailproofError
from tailproof.files import from_parts, opened_page, sealed_page, to_parts, written_whole
from tailproof.io.columns import Choice, Columns, resolve_columns
from tailproof.log.log import Log
from tailproof.log.spaces import Continuous, Discrete

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder


#: The metadata key for the description in files that tailproof writes.
METADATA_KEY = b"tailproof"
VERSION = 3


@dataclass(frozen=True)
class Description:
    """What the columns of a written log do not tell.

    Attributes
    ----------
    written
        The type of each column.
    columns
        The part of each.
    kinds
        NumPy's types of the states, next states, actions, episode ids and group ids.
    """

    written: Mapping[str, str]
    columns: Columns
    kinds: Mapping[str, str]
    space: Discrete | Continuous
    state_names: tuple[str, ...]
    reward_name: str
    encoder: Encoder | None

    def __post_init__(self) -> None:
        allowed = {"states": "f", "next_states": "f", "actions": "iubf"}
        for name, kind in self.kinds.items():
            if np.dtype(kind).kind not in allowed.get(name, "iufbMUO"):
                raise ValueError(f"{name} of the type {kind}")
        columns, space = self.columns, self.space
        actions = space.dimension if isinstance(space, Continuous) else 1
        if (
            not {*allowed, "episode"} <= {*self.kinds}
            or not {*columns.used()} <= {*self.written}
            or {len(columns.state), len(columns.next_state)} != {len(self.state_names)}
            or len(columns.action) != actions
        ):
            raise ValueError("its parts contradict each other")

    def typed(self, part: str, values: AnyArray) -> AnyArray:
        """Return an array of the log, or the labels of its episodes or groups, in its own type."""
        kind = np.dtype(self.kinds[part])
        if kind.kind in "UO" or kind == values.dtype:
            return values
        return values.view(kind) if kind.kind == "M" else values.astype(kind)


def write_log(log: Log, path: str | Path) -> Path:
    """Write a log to a Parquet file; `read_log` returns an equal log.

    The write is atomic. The columns are ``episode``, ``step``, the states under their names,
    ``action`` (as labels, if any), ``reward``, the next states, the flags, and ``propensity`` and
    ``group`` if the log has them; any Parquet reader can read the file.

    Parameters
    ----------
    log
        The log.
    path
        Where to write; an existing file is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from tailproof import Log
    >>> from tailproof.io import read_log
    >>> log = Log.from_arrays([0.0, 1.0], [1, 0], [1.0, 2.0], [1.0, 2.0], episode=["a", "a"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_log(write_log(log, f"{folder}/log.parquet"))
    >>> again.episode_ids, again.rewards
    (array(['a'], dtype='<U1'), array([1., 2.]))
    """
    from pyarrow.parquet import write_table

    table = log_table(log)
    with written_whole(path) as unfinished:
        write_table(table, unfinished, compression="zstd", write_page_checksum=True)
    return Path(path)


def log_table(log: Log) -> pa.Table:
    """Return a log as an Arrow table, with the description for `read_log` in its metadata."""
    names = _state_columns(log)
    columns: dict[str, Any] = {
        "episode": _labels("episode", log.episode_ids, log.episode_of_row),
        "step": log.step_of_row,
    }
    columns.update(zip(names, _written(log.states).T, strict=True))
    action_names = ["action"]
    if isinstance(log.action_space, Continuous):
        action_names = [f"action_{j}" for j in range(log.action_space.dimension)]
        columns.update(zip(action_names, _written(log.actions).T, strict=True))
    elif log.action_space.labels and len(set(log.action_space.labels)) == log.action_space.n:
        columns["action"] = pa.DictionaryArray.from_arrays(
            pa.array(log.actions.astype(np.int32)), pa.array(log.action_space.labels)
        )
    else:
        columns["action"] = log.actions
    columns["reward"] = log.rewards
    next_names = [f"next_{name}" for name in names]
    columns.update(zip(next_names, _written(log.next_states).T, strict=True))
    columns.update(terminated=log.terminated, truncated=log.truncated)
    if log.propensity is not None:
        columns["propensity"] = log.propensity
    if log.group_ids is not None:
        columns["group"] = _labels("group", log.group_ids, log.episode_of_row)
    table = pa.table({name: _array(values) for name, values in columns.items()})
    arrays = {
        "states": log.states,
        "next_states": log.next_states,
        "actions": log.actions,
        "episode": log.episode_ids,
        "group": log.group_ids,
    }
    description = Description(
        written={each.name: str(each.type) for each in table.schema},
        columns=resolve_columns(
            table.column_names, state=names, action=action_names, next_state=next_names
        ),
        kinds={name: str(each.dtype) for name, each in arrays.items() if each is not None},
        space=log.action_space,
        state_names=log.state_names,
        reward_name=log.reward_name,
        encoder=log.encoder,
    )
    page = sealed_page({"version": VERSION, "log": to_parts(description)})
    return table.replace_schema_metadata({METADATA_KEY: page})


def chosen_columns(
    label: str,
    names: Sequence[str],
    schema: pa.Schema | None,
    parts: Mapping[str, Choice],
    *,
    beside: Sequence[str] = (),
) -> tuple[Columns, Description | None]:
    """Return the columns of each part, and the description if tailproof wrote the table.

    The description is used only if the caller names no part. See `resolve_columns` for `beside`.
    """
    written = None if schema is None else (schema.metadata or {}).get(METADATA_KEY)
    if written is None or schema is None or any(part is not None for part in parts.values()):
        return resolve_columns(names, beside=beside, **parts), None
    description = _description(label, written)
    for name, kind in description.written.items():
        if name not in schema.names or str(schema.field(name).type) != kind:
            raise LogError(
                f"{label} was written by tailproof and changed since: there is no column {name!r} of "
                f"type {kind} any more. Name the columns to read it as any other table."
            )
    ignored = tuple(name for name in names if name not in description.written)
    return replace(description.columns, ignored=ignored, guessed=()), description


def _description(label: str, written: bytes) -> Description:
    """Return the description of a log; raise an error if it is damaged."""
    try:
        page = opened_page(written, f"{label}: its description of the log")
        version = page["version"]
        if version == VERSION:
            found = from_parts(page["log"])
            if not isinstance(found, Description):
                raise TypeError(f"it describes no log but {type(found).__name__}.")
            return found
    except (TailproofError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise LogError(f"{label} is damaged: {error} Write it again.") from error
    raise LogError(
        f"{label} was written by another version of tailproof (its format is {version}, not "
        f"{VERSION}). Read it with that version and write it again."
    )


def _state_columns(log: Log) -> list[str]:
    """Return the state names, or numbered names if these clash with other columns."""
    names = [name.replace(" ", "_") for name in log.state_names]
    others = {"episode", "step", "reward", "terminated", "truncated", "propensity", "group"}
    every = {*names, *(f"next_{name}" for name in names)}
    clash = others & every or any(name.startswith("action") for name in names)
    if clash or len(every) < 2 * len(names) or not all(names):
        return [f"state_{j}" for j in range(len(names))]
    return names


def _written(values: AnyArray) -> AnyArray:
    """Return reals in a type that Parquet supports, without loss."""
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def _labels(name: str, ids: AnyArray, of_row: AnyArray) -> pa.Array:
    kind = ids.dtype.kind
    if kind in "UO":
        texts = ids.tolist()
        if not all(isinstance(text, str) for text in texts):
            odd = next(text for text in texts if not isinstance(text, str))
            raise LogError(
                f"{name} ids must be text, numbers or dates to be written. Got {odd!r}; convert them."
            )
        return pa.DictionaryArray.from_arrays(pa.array(of_row.astype(np.int32)), pa.array(texts))
    if kind not in "iufbM":
        raise LogError(
            f"{name} ids must be text, numbers or dates to be written. Got dtype {ids.dtype}; "
            f"convert them."
        )
    plain = ids.astype(np.int64) if kind in "bM" else ids
    return pa.array((plain.astype(np.float64) if kind == "f" else plain)[of_row])


def _array(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(np.ascontiguousarray(values))
