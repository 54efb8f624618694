"""Tables to logs: convert the columns of each part to arrays and assemble them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray, BoolArray, FloatArray
from tailproof.data.log import Log
from tailproof.data.origin import OriginalTable
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.errors import ColumnError, LogError, did_you_mean, listed
from tailproof.sources.actions import table_layout
from tailproof.sources.columns import Choice, Columns, resolve_columns
from tailproof.sources.derived import with_derived
from tailproof.sources.doubts import say_what_is_odd
from tailproof.sources.encode import (
    Column,
    dated,
    identifiers,
    is_text,
    numbers,
    order,
    truth_values,
)
from tailproof.sources.frequencies import available_actions, with_weights
from tailproof.sources.leaks import chances, say_what_is_left_out_of_the_state
from tailproof.sources.parquet import chosen_columns, described_space, typed_labels
from tailproof.sources.steps import Notes, Steps, assemble, without_timeouts
from tailproof.sources.tables import Source, naming_the_type, open_table
from tailproof.sources.tidy import Tidying, require_complete, state_pairs
from tailproof.sources.variables import Variable, distinct_texts, state_matrix

T = TypeVar("T")
#: Name of the constant state variable of a table without state columns.
NO_STATE = ("constant",)
#: Parts that are unknown before the action, so that policies cannot use them.
_LATER = {
    "action": "the action",
    "reward": "the reward",
    "next_state": "a next state",
    "terminated": "what ends the episode",
    "truncated": "what ends the episode",
    "propensity": "the propensity of the logged action",
}


def read_table(
    source: Any,
    parts: dict[str, Choice],
    notes: Notes,
    tidying: Tidying,
    beside: Sequence[str] = (),
) -> tuple[Log, Columns]:
    """Read a log from any table; also return the columns of each part.

    `beside` are columns (or patterns) of policies, which no pattern of states matches.
    """
    original, parts, columns, description, rows = _loaded(source, parts, beside, tidying, notes)
    tidy = tidying if description is None else Tidying(missing="error")
    with naming_the_type():
        kept = require_complete(rows, columns, tidy, notes)
        used = rows if kept is None else rows.filter(pa.array(kept))
        steps = _steps(used, columns, description, tidy, notes)
    if description is None:
        unused = partial(_unused, original, columns, kept)
        ordered = parts.get("step") is False
        say_what_is_odd(steps, columns, unused, notes, ordered=ordered)
    if parts.get("terminated") is True:
        steps = replace(steps, terminated=True)
    log = assemble(replace(steps, guessed_episode=columns.guessed_episode(parts)), notes)
    if description is not None:
        log = replace(
            log,
            episode_ids=typed_labels(log.episode_ids, description, "episode"),
            group_ids=typed_labels(log.group_ids, description, "group"),
        )
    _say_what_is_no_state(columns, log, notes)
    if columns.weight is not None:
        log = with_weights(log, columns.weight, used[columns.weight], notes)
    origin = log.table_rows
    if kept is not None:
        origin = origin.within(np.flatnonzero(kept), len(kept))
    said = columns.parts()
    hidden = {name: what for part, what in _LATER.items() for name in said.get(part, ())}
    known = tuple(name for name in original.names if name not in hidden)
    table = OriginalTable(original.label, known, hidden, origin.count, original.read)
    log = replace(log, origin=replace(origin, table=table, index=original.index))
    if columns.available:
        mask = available_actions(rows, columns.available, log)
        log = replace(log, origin=replace(log.table_rows, available=mask))
    return log, columns


class _Loaded(NamedTuple):
    """A table, and the columns of it that make up the log."""

    original: Source
    parts: dict[str, Choice]
    columns: Columns
    description: dict[str, Any] | None  # set if tailproof wrote the log
    rows: pa.Table


def _loaded(
    source: Any, parts: dict[str, Choice], beside: Sequence[str], tidying: Tidying, notes: Notes
) -> _Loaded:
    original = open_table(source)
    try:
        table, parts = with_derived(original, parts, tidying.categorical)
        columns, description = chosen_columns(
            table.label, table.names, table.schema, parts, beside=beside, merged=table.merged
        )
    except ColumnError as error:
        raise ColumnError(f"{error} {original.heading}".strip()) from error
    rows = _load(table, columns, tidying.categorical)
    with naming_the_type():
        no_states = chances(columns, rows)
    if no_states:
        beside = (*beside, *no_states)
        columns = resolve_columns(table.names, beside=beside, merged=table.merged, **parts)
        say_what_is_left_out_of_the_state(no_states, notes)
    return _Loaded(original, parts, columns, description, rows)


def _load(source: Source, columns: Columns, categorical: Sequence[str]) -> pa.Table:
    labels = [name for name in (columns.episode, columns.group) if name is not None]
    table = source.read(columns.used(), labels)
    if table.num_rows == 0:
        raise LogError(f"{source.label} has columns but no rows. A log needs at least one.")
    times = {*columns.state, *columns.next_state, columns.step} - {
        *labels,
        *columns.action,
        *categorical,
    }
    with naming_the_type():
        return pa.table(
            {
                name: dated(table[name]) if name in times else table[name]
                for name in table.column_names
            }
        )


def _unused(source: Source, columns: Columns, kept: BoolArray | None) -> list[pa.ChunkedArray]:
    """Return the columns that have no part in the log, without the rows that are left out."""
    if not (names := columns.ignored):
        return []
    table = source.read(names, names)
    return list((table if kept is None else table.filter(pa.array(kept))).columns)


def _steps(
    table: pa.Table,
    columns: Columns,
    description: dict[str, Any] | None,
    tidying: Tidying,
    notes: Notes,
) -> Steps:
    """Return the columns of each part as arrays; `description` is set if tailproof wrote the log."""
    names, states, next_states = _states(table, columns, tidying, notes)
    named = not set(columns.action).isdisjoint(tidying.categorical)
    described = None if description is None else described_space(description)
    layout, about_actions = table_layout(columns.action, table, described, named=named)
    notes.notes.extend(about_actions)
    actions = layout(table)
    rewards = numbers(columns.reward, table[columns.reward])
    rewards = _net(-rewards if columns.negative else rewards, actions, layout.space, tidying.cost)
    reward_name = f"minus {columns.reward}" if columns.negative else columns.reward
    if description is not None:
        types, names = description["types"], tuple(description["state_names"])
        reward_name = description.get("reward_name", "reward")
        states = states.astype(types["states"], copy=False)
        next_states = np.asarray(next_states, dtype=types["next_states"])
        actions = actions.astype(types["actions"], copy=False)
    truncated = _optional(truth_values, columns.truncated, table)
    return Steps(
        states=states,
        actions=actions,
        rewards=rewards,
        next_states=next_states,
        episode=_optional(identifiers, columns.episode, table),
        group=_optional(identifiers, columns.group, table),
        step=_optional(order, columns.step, table),
        terminated=without_timeouts(
            columns.terminated, _optional(truth_values, columns.terminated, table), truncated, notes
        ),
        truncated=truncated,
        propensity=_optional(numbers, columns.propensity, table),
        action_space=layout.space,
        state_names=names,
        reward_name=reward_name,
        keep_order=description is not None,
    )


def _states(
    table: pa.Table, columns: Columns, tidying: Tidying, notes: Notes
) -> tuple[tuple[str, ...], FloatArray, FloatArray | None]:
    """Return the names of the state variables, the states (n, p) and the next states, if given."""
    pairs = state_pairs(table, columns, tidying, notes)
    if not pairs:
        return NO_STATE, np.zeros((table.num_rows, 1)), None
    variables = [
        Variable.of(
            pair.name,
            pair.column,
            distinct_texts(pair.name, pair.both) if is_text(pair.column.type) else None,
        )
        for pair in pairs
    ]
    names, befores, after_names, afters = zip(*pairs, strict=True)
    states = state_matrix(variables, names, befores, order="F").T
    next_states = None
    if columns.next_state:
        next_states = state_matrix(variables, after_names, afters, missing=True, order="F").T
    return tuple(part for each in variables for part in each.parts), states, next_states


def _net(
    rewards: FloatArray, actions: AnyArray, space: ActionSpace, cost: Mapping[str, float]
) -> FloatArray:
    """Return the rewards minus the cost of the logged action."""
    if not cost:
        return rewards
    if not isinstance(space, Discrete):
        raise LogError("cost is given by action, and the actions of this log are continuous.")
    labels = [space.label(code) for code in range(space.n)]
    each = np.zeros(space.n)
    for label, amount in cost.items():
        if str(label) not in labels:
            raise LogError(
                f"cost names the action {label!r}, which the log does not have. It has "
                f"{listed(labels)}.{did_you_mean(str(label), labels)}"
            )
        if not np.isfinite(amount):
            raise LogError(f"The cost of {label!r} must be a number. Got {amount!r}.")
        each[labels.index(str(label))] = amount
    return rewards - each[actions]


def _say_what_is_no_state(columns: Columns, log: Log, notes: Notes) -> None:
    """Report possible mistakes in the choice of the states: outcomes, and none at all."""
    if columns.outcomes:
        several = len(columns.outcomes) > 1
        notes.cautions.append(
            f"The state column{'s' if several else ''} {', '.join(columns.outcomes)} look"
            f"{'' if several else 's'} like an outcome, known only after the action: a state must not "
            f"hold it. Name the state columns one by one to leave it out."
        )
    if columns.state:
        return
    if not log.is_bandit or log.n_transitions < log.table_rows.count:
        raise LogError(
            f"No column looks like the state, and episodes of several steps need one. The log has: "
            f"{listed((*columns.used(), *columns.ignored), 30)}. Name it, as in state='*'."
        )
    left = listed(columns.ignored)
    notes.notes.append(
        "No state columns: the actions are compared as in a plain A/B test."
        + (f" Name some with state=... to adjust for them; not used: {left}." if left else "")
    )


def _optional(convert: Callable[[str, Column], T], name: str | None, table: pa.Table) -> T | None:
    return None if name is None else convert(name, table[name])
