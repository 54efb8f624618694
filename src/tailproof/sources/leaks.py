"""Columns that a pattern of states must not take: probabilities of the actions."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.data.validation import adds_up
from tailproof.errors import listed
from tailproof.sources.columns import Columns
from tailproof.sources.conventions import plain_name
from tailproof.sources.encode import array, numbers, unwrapped
from tailproof.sources.steps import Notes

_CHANCE = re.compile(
    r"(p|ps|mu)(_(action|log|logged|behaviou?r))?|(log|logged|logging|action|behaviou?r)_(p|ps|prob\w*)|"
    r"\w*propensit(y|ies)\w*|\w*pscores?\w*"
)
# Propensities of customers, which are states.
_OF_PEOPLE = re.compile(
    r"buy|purchas|churn|click|conver|respon|spend|pay|renew|cancel|lapse|attrition|default|fraud|claim"
)


def chances(columns: Columns, table: pa.Table) -> tuple[str, ...]:
    """Return state columns, matched by a pattern only, that hold probabilities of the actions.

    That is a column between 0 and 1 with the name of a propensity, or one column for each action,
    named after it, which add up to 1.
    """
    if len(columns.action) > 1:
        return ()
    within = {name: plain_name(name) for name in columns.by_pattern if _is_within(table[name])}
    found = [
        name
        for name, plain in within.items()
        if _CHANCE.fullmatch(plain) and not _OF_PEOPLE.search(plain)
    ]
    action = unwrapped(table[columns.action[0]])
    if kinds.is_floating(action.type) or kinds.is_nested(action.type):
        return tuple(found)
    encoded = action.combine_chunks().dictionary_encode()
    labels = [str(each) for each in encoded.dictionary.to_pylist()]
    codes = array(encoded.indices, absent=0)
    for family in _families(within, set(labels)):
        if len(family) == len(labels) > 1:
            names = [family[label] for label in labels]
            law = np.column_stack([numbers(name, table[name], missing=True) for name in names])
            indicators = bool(((law == 0) | (law == 1)).all())
            of_actions = not indicators or law[np.arange(len(law)), codes].all()
            if adds_up(law).all() and of_actions:
                found += names
    return tuple(name for name in within if name in found)


def _families(names: Iterable[str], labels: set[str]) -> Iterable[dict[str, str]]:
    """Return columns by the label in their names, for each of the words before and after it."""
    families: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        marks = [match.start() for match in re.finditer(r"[\W_]", name)]
        for first in (0, *(mark + 1 for mark in marks)):
            for last in (*marks, len(name)):
                if (label := name[first:last]) in labels:
                    families.setdefault((name[:first], name[last:]), {})[label] = name
    return families.values()


def say_what_is_left_out_of_the_state(names: tuple[str, ...], notes: Notes) -> None:
    """Warn that columns look like probabilities of the actions and are left out."""
    if len(names) > 1:
        given: str | list[str] = list(names)
        what, it = "look like probabilities of the actions and are", "them"
    else:
        given = names[0]
        what, it = "looks like a probability of the actions and is", "it"
    notes.cautions.append(
        f"{listed(names)} {what} left out of the state. Name the state columns one by one to keep "
        f"{it}; if the logged actions were taken with {it}, pass propensity={given!r}."
    )


def _is_within(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds real numbers, all of them between 0 and 1."""
    column = unwrapped(column)
    if not (kinds.is_floating(column.type) or kinds.is_decimal(column.type)):
        return False
    low, high = pc.min_max(column.cast(pa.float64(), safe=False)).as_py().values()
    return low is not None and bool(low >= 0 and high <= 1)
