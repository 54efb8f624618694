"""Sample weights, and the actions available in each row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailproof.arrays import BoolArray, FloatArray, IntArray, such
from tailproof.data.log import Log
from tailproof.data.spaces import Discrete
from tailproof.errors import LogError, listed
from tailproof.sources.encode import is_list, is_text, labelled, numbers, truth_values, unwrapped
from tailproof.sources.steps import Notes

_MOST = 20  # largest mean number of copies per episode
_ROWS, _LEAST = 1_000_000, 4  # most rows, and mean copies even of longer logs, of rounded weights


def with_weights(log: Log, name: str, column: pa.ChunkedArray, notes: Notes) -> Log:
    """Return the log with each episode repeated in proportion to its weight, copies in one group.

    Means over this log are weighted means. Because copies share a group, standard errors count them
    as one observation, and they are never in two folds.
    """
    given = numbers(name, column)[log.table_rows.rows]
    weights = given[log.starts[:-1]]
    if (given != np.repeat(weights, log.lengths)).any():
        raise LogError(
            f"The weight of an episode must be the same in all its rows. Column {name!r} changes "
            f"within one; give it the weight of its first row."
        )
    copies = _copies(weights, name, notes)
    if (copies == 1).all():
        notes.notes.append(f"All weights in column {name!r} are alike: they change nothing.")
        return log
    label = log.episode_ids if log.group_ids is None else log.group_ids
    episodes = np.repeat(np.arange(log.n_episodes), copies)
    notes.notes.append(
        f"Rows count as column {name!r} says: {log.n_episodes} episodes stand for {len(episodes)}, and "
        f"copies of one are one observation."
    )
    return replace(log.take(episodes), group_ids=label[episodes])


def _copies(weights: FloatArray, name: str, notes: Notes) -> IntArray:
    """Return the number of copies of each episode, (E,): the smallest integers ∝ the weights.

    Weights that would need more copies than `_MOST` on average are rounded.
    """
    if (weights < 0).any() or not weights.any():
        raise LogError(
            f"Weights must be at least 0, and not all 0. Column {name!r} has {weights.min():g}."
        )
    used = weights[weights > 0]
    for parts in range(1, _MOST + 1):
        copies = weights * parts / used.min()
        if np.abs(copies - np.round(copies)).max() < 1e-6 * parts:
            counts = np.round(copies).astype(np.intp)
            if counts.sum() <= _MOST * len(counts):
                return np.asarray(counts // np.gcd.reduce(counts))
    mean = int(np.clip(_ROWS // len(weights), _LEAST, _MOST))
    unit = float(weights.mean()) / mean
    counts = np.round(weights / unit).astype(np.intp)
    off = float(np.abs(counts * unit - weights).sum() / weights.sum())
    lost = int(((counts == 0) & (weights > 0)).sum())
    notes.cautions.append(
        f"The weights in column {name!r}, from {used.min():g} to {weights.max():g}, are rounded to "
        f"multiples of {unit:.3g}, by {off:.1%} on average: a row is repeated as often as its weight "
        f"says, at most {mean} times on average."
        + (f" {lost} rows of the smallest weights count nothing." if lost else "")
    )
    return np.asarray(counts // np.gcd.reduce(counts))


def available_actions(table: pa.Table, names: tuple[str, ...], log: Log) -> BoolArray:
    """Return which actions are available in each row of the table, (N, A)."""
    space = log.action_space
    if not isinstance(space, Discrete):
        raise LogError("available lists discrete actions, and those of this log are continuous.")
    labels = [space.label(code) for code in range(space.n)]
    if len(names) == 1 and space.n > 1:
        mask = _listed(names[0], unwrapped(table[names[0]]), labels)
    else:
        mask = np.zeros((table.num_rows, space.n), dtype=bool)
        for code, label in enumerate(labels):
            found = named_after(names, label)
            if found is None:
                raise LogError(
                    f"There must be one column that says where {label!r} is available. Got "
                    f"{', '.join(names)}."
                )
            mask[:, code] = truth_values(found, table[found])
    rows = log.table_rows.rows
    impossible = ~mask[rows, log.actions]
    if impossible.any():
        at = int(impossible.argmax())
        raise LogError(
            f"{labels[log.actions[at]]!r} was taken in row {int(rows[at])} (the first row is 0), where "
            f"it was not available ({such(impossible.sum())}). Correct one of the two."
        )
    return mask


def named_after(names: Sequence[str], label: str) -> str | None:
    """Return the column that is named after an action: its label, or a word before or after it.

    >>> named_after(["p_no_email", "p_email"], "email"), named_after(["p_email_old"], "email")
    ('p_email', 'p_email_old')
    """
    form = re.compile(rf"(.*[\W_])?{re.escape(label)}([\W_].*)?", re.DOTALL)
    found = sorted((name for name in names if form.fullmatch(name)), key=len)
    alone = len(found) == 1 or (len(found) > 1 and len(found[0]) < len(found[1]))
    return found[0] if alone else None


def _listed(name: str, column: pa.ChunkedArray, labels: list[str]) -> BoolArray:
    """Return which actions a column lists in each row, (N, A)."""
    separator = "[|,;]"
    if is_list(column.type):
        separator = "\0"  # their labels may contain commas
        column = pc.binary_join(column.cast(pa.list_(pa.string())), separator).fill_null("")
    if not is_text(column.type) or column.null_count:
        raise LogError(
            f"Column {name!r} must list the actions that could be taken, as lists or as text such as "
            f"email|none. Got {column.type}."
        )
    codes, texts = labelled(column)
    mask = np.zeros((len(texts), len(labels)), dtype=bool)
    for place, text in enumerate(texts):
        actions = [each.strip() for each in re.split(separator, text) if each.strip()]
        if unknown := [each for each in actions if each not in labels]:
            row = int((codes == place).argmax())
            raise LogError(
                f"Column {name!r} lists the action {unknown[0]!r} at row {row}, which the log does not "
                f"have. It has {listed(labels)}."
            )
        mask[place] = np.isin(labels, actions)
    return mask[codes]
