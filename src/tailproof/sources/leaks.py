"""Columns that a pattern of states must not take: probabilities of the actions."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import FloatArray
from tailproof.sources.columns import Columns
from tailproof.sources.conventions import listed, plain_name
from tailproof.sources.encode import numbers, unwrapped
from tailproof.sources.steps import Notes

_CHANCE = re.compile(
    r"(p|ps|mu)(_(action|log|logged|behaviou?r))?|(log|logged|logging|action|behaviou?r)_(p|ps|prob\w*)|"
    r"\w*propensit(y|ies)\w*|\w*pscores?\w*"
)
_ROUNDED = 0.02  # allowed rounding error of sums of probabilities


def chances(columns: Columns, table: pa.Table) -> tuple[str, ...]:
    """Return state columns, matched by a pattern only, that hold probabilities of the actions.

    That is a column between 0 and 1 with the name of a propensity, or one column for each action,
    named after it, which add up to 1.
    """
    if len(columns.action) > 1:
        return ()
    values = {
        name: given for name in columns.by_pattern if (given := _within(name, table)) is not None
    }
    found = [name for name in values if _CHANCE.fullmatch(plain_name(name))]
    action = unwrapped(table[columns.action[0]])
    if kinds.is_floating(action.type) or kinds.is_nested(action.type):
        return tuple(found)
    labels = sorted(str(each) for each in pc.unique(action).drop_null().to_pylist())
    families: dict[tuple[str, str], dict[str, str]] = {}
    for name in values:
        for label in labels:
            match = re.fullmatch(
                rf"((?:.*[\W_])?){re.escape(label)}((?:[\W_].*)?)", name, re.DOTALL
            )
            if match:
                families.setdefault((match[1], match[2]), {})[label] = name
    for family in families.values():
        if len(family) == len(labels) > 1:
            sums = np.sum([values[name] for name in family.values()], axis=0)
            if (np.abs(sums - 1) <= _ROUNDED).all():
                found += [name for name in family.values() if name not in found]
    return tuple(found)


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


def _within(name: str, table: pa.Table) -> FloatArray | None:
    """Return a column of numbers between 0 and 1, or None if it holds anything else."""
    column = unwrapped(table[name])
    if not (kinds.is_floating(column.type) or kinds.is_decimal(column.type)):
        return None
    values = numbers(name, column, missing=True)
    known = values[~np.isnan(values)]
    return values if len(known) and ((known >= 0) & (known <= 1)).all() else None
