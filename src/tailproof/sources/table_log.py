"""Tables to logs: the columns of each part, as arrays, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray, BoolArray, FloatArray
from tailproof.data.log import Log
from tailproof.data.spaces import Discrete
from tailproof.errors import LogError
from tailproof.sources.columns import Choice, Columns, resolve_columns
from tailproof.sources.conventions import NEGATIVE
from tailproof.sources.encode import (
    flags,
    identifiers,
    is_text,
    labelled,
    numbers,
    order,
    plain,
)
from tailproof.sources.frequencies import available_actions, with_weights
from tailproof.sources.original import OriginalColumns
from tailproof.sources.parquet import described_columns, described_space
from tailproof.sources.steps import Steps, Told, assemble
from tailproof.sources.tables import Source, open_table
from tailproof.sources.tidy import Tidying, require_complete, state_pairs
from tailproof.sources.variables import Block, actions, state_block

T = TypeVar("T")
#: What the state of a table without state columns is called.
NO_STATE = ("constant",)


def read_table(
    source: Any, parts: dict[str, Choice], told: Told, tidying: Tidying | None = None
) -> tuple[Log, Columns]:
    """Read a log from anything that is a table, and tell which columns were taken as what."""
    table = open_table(source)
    described = described_columns(table) if all(part is None for part in parts.values()) else None
    if described is not None:
        columns, description = described
        steps = _described_steps(_load(table, columns), columns, description)
        log = _typed_ids(assemble(steps, told), description)
        return _with_table(log, table, columns), columns
    columns = resolve_columns(table.names, **parts)
    rows, tidy = _load(table, columns), tidying or Tidying()
    with _naming_the_type():
        kept = require_complete(rows, columns, tidy)
    used = rows if kept is None else rows.filter(pa.array(kept))
    steps = _steps(used, columns, parts.get("terminated") is True, told, tidy)
    steps = replace(steps, guessed_episode=columns.guessed_episode(parts))
    log = assemble(steps, told)
    _say_what_is_odd(columns, log, parts, told)
    if columns.weight is not None:
        log = with_weights(log, columns.weight, used[columns.weight], told)
    if kept is not None:
        told.cautions.append(
            f"{int((~kept).sum())} of {len(kept)} rows left out: their episodes have missing values."
        )
        log = replace(log, origin=log.table_rows.within(np.flatnonzero(kept), len(kept)))
    log = _with_table(log, table, columns)
    if columns.available:
        mask = available_actions(rows, columns.available, log)
        log = replace(log, origin=replace(log.table_rows, available=mask))
    return log, columns


def _with_table(log: Log, source: Source, columns: Columns) -> Log:
    """Return the log with the table that it was read from, for policies that read columns of it."""
    origin = log.table_rows
    table = OriginalColumns.of(source, columns, origin.count)
    return replace(log, origin=replace(origin, table=table, index=source.index))


def _load(source: Source, columns: Columns) -> pa.Table:
    labels = [name for name in (columns.episode, columns.group) if name is not None]
    table = source.read(columns.used(), labels)
    if table.num_rows == 0:
        raise LogError(f"{source.label} has columns but no rows. A log needs at least one.")
    return table


def _steps(
    table: pa.Table, columns: Columns, all_terminate: bool, told: Told, tidying: Tidying
) -> Steps:
    with _naming_the_type():
        pairs = [state_block(*pair) for pair in state_pairs(table, columns, tidying, told)]
        if not pairs:
            pairs = [(Block(np.zeros((table.num_rows, 1)), NO_STATE), None)]
        blocks, after_blocks = zip(*pairs, strict=True)
        chosen, space, notes = actions(columns.action, [table[name] for name in columns.action])
        told.notes.extend(notes)
        rewards = numbers(columns.reward, table[columns.reward])
        rewards = _net(-rewards if columns.negative else rewards, chosen, space, tidying.cost)
        terminated = _optional(flags, columns.terminated, table)
        truncated = _optional(flags, columns.truncated, table)
        if columns.terminated is not None and "done" in columns.terminated.lower():
            terminated = _without_timeouts(columns.terminated, terminated, truncated, told)
        return Steps(
            states=_side_by_side([block.values for block in blocks]),
            actions=chosen,
            rewards=rewards,
            next_states=_side_by_side([block.values for block in after_blocks])
            if columns.next_state
            else None,
            episode=_optional(identifiers, columns.episode, table),
            group=_optional(identifiers, columns.group, table),
            step=_optional(order, columns.step, table),
            terminated=True if all_terminate else terminated,
            truncated=truncated,
            propensity=_optional(numbers, columns.propensity, table),
            action_space=space,
            state_names=tuple(name for block in blocks for name in block.names),
            reward_name=f"minus {columns.reward}" if columns.negative else columns.reward,
        )


def _net(
    rewards: FloatArray, actions: AnyArray, space: Discrete | None, cost: Mapping[str, float]
) -> FloatArray:
    """Return rewards less the cost of the action that was taken."""
    if not cost:
        return rewards
    if space is None:
        raise LogError("cost is given by action, and the actions of this log are continuous.")
    labels = [space.label(code) for code in range(space.n)]
    each = np.zeros(space.n)
    for label, amount in cost.items():
        if str(label) not in labels:
            close = get_close_matches(str(label), labels, n=1)
            raise LogError(
                f"cost names the action {label!r}, which the log does not have. It has "
                f"{', '.join(labels[:12])}." + (f" Did you mean {close[0]!r}?" if close else "")
            )
        if not np.isfinite(amount):
            raise LogError(f"The cost of {label!r} must be a number. Got {amount!r}.")
        each[labels.index(str(label))] = amount
    return rewards - each[actions]


def _say_what_is_odd(columns: Columns, log: Log, parts: Mapping[str, Choice], told: Told) -> None:
    """Tell what may not be as meant: costs, outcomes among the states, no states."""
    reward = columns.reward
    if columns.negative:
        told.notes.append(
            f"Column {reward!r} is read as a cost: less of it is better, and the reward its negative."
        )
    elif reward.lower() in NEGATIVE and parts.get("reward") is not None:
        told.cautions.append(
            f"More of {reward!r} counts as better. If it is a cost, pass reward='-{reward}'."
        )
    if columns.outcomes:
        several = len(columns.outcomes) > 1
        told.cautions.append(
            f"The state column{'s' if several else ''} {', '.join(columns.outcomes)} look"
            f"{'' if several else 's'} like an outcome, known only after the action: a state must not "
            f"hold it. Name the state columns one by one to leave it out."
        )
    if columns.state:
        return
    if not log.is_bandit or log.n_transitions < log.table_rows.count:
        raise LogError(
            f"No column looks like the state, and episodes of several steps need one. The log has: "
            f"{', '.join(log_columns(columns)[:30])}. Name it, as in state='*'."
        )
    left = ", ".join(columns.ignored[:12])
    told.notes.append(
        "No state columns: the actions are compared as in a plain A/B test."
        + (f" Name some with state=... to adjust for them; not used: {left}." if left else "")
    )


def log_columns(columns: Columns) -> tuple[str, ...]:
    """Return all columns of the table."""
    return (*columns.used(), *columns.ignored)


def _described_steps(table: pa.Table, columns: Columns, description: dict[str, Any]) -> Steps:
    """Return the steps of a log that tailproof wrote."""
    types, space = description["types"], described_space(description)
    with _naming_the_type():

        def matrix(names: Sequence[str], kind: str) -> FloatArray:
            side = _side_by_side([numbers(name, table[name]) for name in names])
            return side.astype(types[kind], copy=False)

        chosen: AnyArray
        if not isinstance(space, Discrete):
            chosen = matrix(columns.action, "actions")
        else:
            chosen = _described_actions(columns.action[0], table, space)
        return Steps(
            states=matrix(columns.state, "states"),
            actions=chosen,
            rewards=numbers(columns.reward, table[columns.reward]),
            next_states=matrix(columns.next_state, "next_states"),
            episode=_optional(identifiers, columns.episode, table),
            group=_optional(identifiers, columns.group, table),
            step=_optional(order, columns.step, table),
            terminated=_optional(flags, columns.terminated, table),
            truncated=_optional(flags, columns.truncated, table),
            propensity=_optional(numbers, columns.propensity, table),
            action_space=space,
            state_names=tuple(description["state_names"]),
            reward_name=description.get("reward_name", "reward"),
            keep_order=True,
        )


def _described_actions(name: str, table: pa.Table, space: Discrete) -> AnyArray:
    column = plain(table[name])
    if not is_text(column.type):
        return order(name, column)
    found = labelled(column)
    place = {label: code for code, label in enumerate(space.labels or ())}
    codes = [place.get(label, -1) for label in found.labels.tolist()]
    return np.array([*codes, -1])[found.codes]


def _typed_ids(log: Log, description: dict[str, Any]) -> Log:
    """Return the log with ids of the types that they had when they were written."""

    def typed(ids: AnyArray, kind: str) -> AnyArray:
        if ids.dtype == kind or np.dtype(kind).kind in "UO":
            return ids
        return ids.view(kind) if np.dtype(kind).kind == "M" else ids.astype(kind)

    types = description["types"]
    groups = None if log.group_ids is None else typed(log.group_ids, types["group"])
    return replace(log, episode_ids=typed(log.episode_ids, types["episode"]), group_ids=groups)


def _optional(
    convert: Callable[[str, pa.ChunkedArray], T], name: str | None, table: pa.Table
) -> T | None:
    return None if name is None else convert(name, table[name])


def _side_by_side(columns: Sequence[FloatArray]) -> FloatArray:
    if len(columns) == 1:
        return columns[0] if columns[0].ndim == 2 else columns[0][:, None]
    return np.column_stack(columns)


def _without_timeouts(
    name: str, done: BoolArray | None, truncated: BoolArray | None, told: Told
) -> BoolArray | None:
    """Return what `done` says about termination: in older logs it is true at timeouts as well."""
    if done is None or truncated is None or not truncated.any() or not done[truncated].all():
        return done
    told.notes.append(
        f"Every truncated row is {name} as well: {name} is read as the end of an episode for "
        f"whatever reason, and terminated as {name} without truncated."
    )
    return done & ~truncated


@contextmanager
def _naming_the_type() -> Iterator[None]:
    """Turn Arrow's own errors about types it cannot convert into ours."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise LogError(
            f"A column cannot be read: {reason[:300]}. Convert it to numbers or UTF-8 text."
        ) from error
