"""Parts that are given by several columns: episodes by two keys, propensities by action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailproof.data.spaces import Discrete
from tailproof.errors import LogError
from tailproof.sources.actions import action_layout, distinct_actions
from tailproof.sources.columns import Choice, named_columns, resolve_columns
from tailproof.sources.encode import numbers, refuse_missing, unwrapped
from tailproof.sources.frequencies import named_after
from tailproof.sources.tables import Source

_ROUNDED = 0.02  # allowed rounding error of sums of probabilities


def with_derived(source: Source, parts: dict[str, Choice]) -> tuple[Source, dict[str, Choice]]:
    """Return the table with one column in place of several for a part, and the parts so named.

    An episode is then a combination of their values; a propensity is the one in the column of the
    action that was taken, where the columns are named after the actions.
    """
    for part in ("episode", "propensity"):
        names = named_columns(part, parts.get(part), source.names)
        if len(names) < 2:
            continue
        choice = parts[part]
        name = choice if isinstance(choice, str) else ",".join(names)
        if part == "episode":
            source = _extended(source, name, names, ())
        else:
            others = {each: given for each, given in parts.items() if each != part}
            action = resolve_columns(source.names, beside=(), merged=names, **others).action
            source = _extended(source, name, names, action)
        parts = {**parts, part: name}
    return source, parts


def _extended(source: Source, name: str, names: tuple[str, ...], action: tuple[str, ...]) -> Source:
    """Return the table with a column of joined labels, or of the propensities of its actions."""

    def read(columns: Sequence[str], labels: Sequence[str]) -> pa.Table:
        if name not in columns:
            return source.read(columns, labels)
        needed = dict.fromkeys([*columns, *names, *action])
        del needed[name]
        kept = [each for each in labels if each != name]
        table = source.read(list(needed), kept if action else [*dict.fromkeys([*kept, *names])])
        values = _taken(table, names, action) if action else _joined(table, names)
        return table.append_column(name, values).select(list(columns))

    return replace(
        source, names=(*source.names, name), read=read, schema=None, merged=(*source.merged, *names)
    )


def _joined(table: pa.Table, names: tuple[str, ...]) -> pa.ChunkedArray:
    """Return the values of several columns as one text, (n,)."""
    texts = []
    for name in names:
        column = unwrapped(table[name])
        refuse_missing(name, column)
        texts.append(column.cast(pa.large_string()))
    return pc.binary_join_element_wise(*texts, pa.scalar(" / ", pa.large_string()))


def _taken(table: pa.Table, names: tuple[str, ...], action: tuple[str, ...]) -> pa.Array:
    """Return the probability of each row's own action, (n,), from a column for each action."""
    layout, _ = action_layout(action, table, *distinct_actions(action, table), None)
    space = layout.space
    if not isinstance(space, Discrete):
        raise LogError(
            f"Propensities in several columns are those of discrete actions, and the actions of this "
            f"log are continuous. Name one column of densities. Got {', '.join(names)}."
        )
    law = np.column_stack([numbers(name, table[name], missing=True) for name in names])
    sums, known = np.nansum(law, axis=1), ~np.isnan(law).all(axis=1)
    off = known & ((np.abs(sums - 1) > _ROUNDED) | (law < 0).any(axis=1))
    if off.any():
        row = int(off.argmax())
        raise LogError(
            f"The propensities in {', '.join(names)} must be at least 0 and add up to 1. Got "
            f"{law[row]} in row {row} (the first row is 0; {int(off.sum())} such rows)."
        )
    codes: Any = layout(table)
    place = np.full(space.n, -1)
    for code in np.unique(codes):
        label = space.label(int(code))
        found = named_after(names, label)
        if found is None:
            raise LogError(
                f"There must be one column of propensities for each action. Got {', '.join(names)}, of "
                f"which none is named after {label!r}; name the column of a single probability, or "
                f"rename them."
            )
        place[code] = names.index(found)
    if len(set(place[place >= 0])) < (place >= 0).sum():
        raise LogError(
            f"Each action needs a column of propensities of its own. Got {', '.join(names)}; rename "
            f"them after the actions."
        )
    taken = law[np.arange(len(law)), place[codes]]
    return pa.array(np.divide(taken, sums, out=taken, where=known))
