"""Parts that are given by several columns: episodes by two keys, propensities by action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailproof.arrays import IntArray
from tailproof.data.spaces import Discrete
from tailproof.data.validation import require_laws
from tailproof.errors import LogError
from tailproof.sources.actions import table_layout
from tailproof.sources.columns import Choice, named_columns, resolve_columns
from tailproof.sources.encode import missing_rows, numbers, refuse_missing, unwrapped
from tailproof.sources.frequencies import named_after
from tailproof.sources.tables import Source


def with_derived(
    source: Source, parts: dict[str, Choice], categorical: Sequence[str]
) -> tuple[Source, dict[str, Choice]]:
    """Return the table with one column in place of several for a part, and the parts so named.

    An episode is then a combination of their values; a propensity is the one in the column of the
    action that was taken, where the columns are named after the actions. `categorical` are columns
    whose numbers are labels.
    """
    for part in ("episode", "propensity"):
        names = named_columns(part, parts.get(part), source.names)
        if len(names) < 2:
            continue
        choice = parts[part]
        name = choice if isinstance(choice, str) else ",".join(names)
        values = partial(_joined, names=names)
        needed = names
        if part == "propensity":
            others = {each: given for each, given in parts.items() if each != part}
            action = resolve_columns(source.names, beside=(), merged=names, **others).action
            named = not set(action).isdisjoint(categorical)
            values = partial(_taken, names=names, action=action, named=named)
            needed += action
        source = _extended(source, name, names, needed, values)
        parts = {**parts, part: name}
    return source, parts


def _extended(
    source: Source,
    name: str,
    names: tuple[str, ...],
    needed: tuple[str, ...],
    values: Callable[[pa.Table], Any],
) -> Source:
    """Return the table with a column `name`, whose values are made of the `needed` columns."""

    def read(columns: Sequence[str], labels: Sequence[str]) -> pa.Table:
        if name not in columns:
            return source.read(columns, labels)
        every = [each for each in dict.fromkeys([*columns, *needed]) if each != name]
        # joined labels keep the spelling of their parts
        kept = dict.fromkeys([*labels, *names] if name in labels else labels)
        table = source.read(every, [each for each in kept if each != name])
        return table.append_column(name, values(table)).select(list(columns))

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


def _taken(
    table: pa.Table, names: tuple[str, ...], action: tuple[str, ...], named: bool
) -> pa.Array:
    """Return the probability of each row's own action, (n,), from a column for each action.

    Rows without an action have 1: they are refused or left out because of it.
    """
    law = np.column_stack([numbers(name, table[name], missing=True) for name in names])
    known = np.asarray(~np.isnan(law).all(axis=1))
    require_laws(f"The propensities in {', '.join(names)}", law, known, LogError)
    acted = np.logical_and.reduce([~missing_rows(table[name]) for name in action])
    rows = table.filter(pa.array(acted))
    layout, _ = table_layout(action, rows, named=named)
    if not isinstance(layout.space, Discrete):
        raise LogError(
            f"Propensities in several columns are those of discrete actions, and the actions of this "
            f"log are continuous. Name one column of densities. Got {', '.join(names)}."
        )
    codes: Any = layout(rows)
    place = _places(names, layout.space, np.unique(codes))
    taken = np.ones(len(law))
    taken[acted] = law[acted, place[codes]]
    return pa.array(np.divide(taken, np.nansum(law, axis=1), out=taken, where=known & acted))


def _places(names: tuple[str, ...], space: Discrete, codes: IntArray) -> IntArray:
    """Return the place of each action's column, (A,), for the actions that occur."""
    place = np.full(space.n, -1)
    for code in codes:
        label = space.label(int(code))
        found = named_after(names, label)
        if found is None:
            raise LogError(
                f"There must be one column of propensities for each action. Got {', '.join(names)}, of "
                f"which none is named after {label!r}; name the column of a single probability, or "
                f"rename them."
            )
        place[code] = names.index(found)
    if len(set(place[codes])) < len(codes):
        raise LogError(
            f"Each action needs a column of propensities of its own. Got {', '.join(names)}; rename "
            f"them after the actions."
        )
    return place
