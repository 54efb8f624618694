"""Write logs to Parquet files, and read them back without loss."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray
from tailproof.errors import LogError
from tailproof.files import from_parts, to_parts, written_whole
from tailproof.io.columns import Choice, Columns, resolve_columns
from tailproof.log.log import Log
from tailproof.log.spaces import Continuous, Discrete

#: The metadata key for the description in files that tailproof writes.
METADATA_KEY = b"tailproof"
VERSION = 2
_LISTS = ("state", "next_state", "action")
_OPTIONAL = ("episode", "step", "terminated", "truncated", "propensity", "group")


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
    description = {
        "version": VERSION,
        "columns": {each.name: str(each.type) for each in table.schema},
        "state": names,
        "next_state": next_names,
        "action": action_names,
        "state_names": log.state_names,
        "reward_name": log.reward_name,
        "types": {
            "states": str(log.states.dtype),
            "next_states": str(log.next_states.dtype),
            "actions": str(log.actions.dtype),
            "episode": str(log.episode_ids.dtype),
            "group": None if log.group_ids is None else str(log.group_ids.dtype),
        },
        "space": to_parts(log.action_space),
        "encoder": to_parts(log.encoder),
    }
    text = json.dumps(description | {"checksum": _checksum(description)})
    return table.replace_schema_metadata({METADATA_KEY: text.encode()})


def chosen_columns(
    label: str,
    names: Sequence[str],
    schema: pa.Schema | None,
    parts: Mapping[str, Choice],
    *,
    beside: Sequence[str] = (),
    merged: Sequence[str] = (),
) -> tuple[Columns, dict[str, Any] | None]:
    """Return the columns of each part, and the description if tailproof wrote the table.

    The description is used only if the caller names no part. See
    `resolve_columns` for `beside` and `merged`.
    """
    written = None if schema is None else (schema.metadata or {}).get(METADATA_KEY)
    if written is None or schema is None or any(part is not None for part in parts.values()):
        return resolve_columns(names, beside=beside, merged=merged, **parts), None
    description = _checked(label, written)
    for name, kind in description["columns"].items():
        if name not in schema.names or str(schema.field(name).type) != kind:
            raise LogError(
                f"{label} was written by tailproof and changed since: there is no column {name!r} of "
                f"type {kind} any more. Name the columns to read it as any other table."
            )
    lists: dict[str, Any] = {part: tuple(description[part]) for part in _LISTS}
    found: dict[str, Any] = {name: name for name in _OPTIONAL if name in description["columns"]}
    ignored = tuple(name for name in names if name not in description["columns"])
    return Columns(**lists, reward="reward", **found, ignored=ignored), description


def typed_labels(ids: Any, description: dict[str, Any] | None, part: str) -> Any:
    """Return the labels of episodes or groups with their original type."""
    if ids is None or description is None:
        return ids
    kind = np.dtype(description["types"][part])
    if kind.kind in "UO" or kind == ids.dtype:
        return ids
    return ids.view(kind) if kind.kind == "M" else ids.astype(kind)


def _checked(label: str, written: bytes) -> dict[str, Any]:
    """Return the description of a log; raise an error if it is incomplete."""
    try:
        description: dict[str, Any] = json.loads(written)
        sum_then, version = description.pop("checksum"), description["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sum_then, description, version = None, {}, VERSION
    if version != VERSION:
        raise LogError(
            f"{label} was written by another version of tailproof (its format is {version}, not "
            f"{VERSION}). Read it with that version and write it again."
        )
    if sum_then != _checksum(description) or not _is_whole(description):
        raise LogError(
            f"{label} is damaged: its description of the log is not as it was written. Write it again."
        )
    return description


def _is_whole(description: dict[str, Any]) -> bool:
    """Return whether a description has all required entries, with the expected types."""
    try:
        columns, types = description["columns"], description["types"]
        lists = [description[name] for name in (*_LISTS, "state_names")]
        texts = [*columns, *columns.values(), *(each for names in lists for each in names)]
        kinds = [np.dtype(types[name]).kind for name in ("states", "next_states", "episode")]
        group = np.dtype(types["group"]).kind if types["group"] is not None else "i"
        space, encoder = (from_parts(description[name]) for name in ("space", "encoder"))
        return (
            all(isinstance(each, str) for each in texts)
            and kinds[:2] == ["f", "f"]
            and np.dtype(types["actions"]).kind in "iubf"
            and {kinds[2], group} <= set("iufbMUO")
            and len(description["state"]) == len(description["next_state"]) == len(lists[-1])
            and (encoder is None or type(encoder).__name__ == "Encoder")
            and (isinstance(space, Discrete) or space.dimension == len(description["action"]))
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


def _checksum(description: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(description, sort_keys=True).encode())


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
