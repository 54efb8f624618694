"""Logged steps to a log: gather episodes, sort rows, derive next states, expand weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, count_of
from tailproof.errors import LogError, did_you_mean, listed
from tailproof.io.values import (
    Labelled,
    is_list,
    is_text,
    labelled,
    numbers,
    truth_values,
    unwrapped,
)
from tailproof.log.log import Log, Origin
from tailproof.log.spaces import ActionSpace, Discrete, as_space
from tailproof.log.validation import check_propensity

_HOW_EPISODES_END = (
    " Pass terminated=True if episodes end for good there (the state must then tell how much is left), "
    "or name the column that says which do with terminated=...."
)
_SAME = 1e-6  # relative difference up to which two states are the same, written twice
_FEW = 0.1  # largest share of rows to leave out because of a guessed column


@dataclass(frozen=True)
class Steps:
    """Logged steps as read from a file, one per row, in any order.

    Without episode labels, an episode ends at each flagged row, or without flags at every row.
    """

    states: FloatArray  # (n, p)
    actions: AnyArray  # (n,) or (n, q)
    rewards: FloatArray  # (n,)
    next_states: FloatArray | None = (
        None  # (n, p) NaN where unknown; None to derive all from the rows
    )
    episode: Labelled | None = None
    group: Labelled | None = None
    step: AnyArray | None = (
        None  # (n,) orders the rows of an episode; None for the order of the file
    )
    terminated: BoolArray | bool | None = None  # (n,), or True if all last rows terminate
    truncated: BoolArray | None = None  # (n,)
    propensity: FloatArray | None = None  # (n,)
    action_space: Any = None
    state_names: tuple[str, ...] | None = None
    reward_name: str = "reward"
    keep_order: bool = False
    guessed_episode: str | None = None  # episode column, if guessed and no ends are given


@dataclass(frozen=True)
class Notes:
    """Messages collected while reading: `notes` to report, `cautions` to warn about."""

    notes: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


class Runs(NamedTuple):
    """Episode borders in sorted rows."""

    codes: IntArray  # (n,)
    starts: BoolArray  # (n,)
    ends: BoolArray  # (n,)
    rows: IntArray | None  # (n,) original index of each row; None if the order is unchanged

    def was(self, row: int) -> int:
        """Return the original index of a row."""
        return row if self.rows is None else int(self.rows[row])


def assemble(steps: Steps, notes: Notes) -> Log:
    """Return the log of these steps, and add the decisions made to `notes`.

    The next state of a step is the state of the next row of its episode. At the last row it is
    unknown: if the episode *terminated* there, none is needed; otherwise the transition is dropped,
    because an unobserved state is never invented. If all episodes have one row, each terminates,
    unless flags say that some were truncated.
    """
    n = len(steps.rewards)
    if n == 0:
        raise LogError("A log needs at least one row. Got none.")
    if steps.propensity is not None:  # before sorting, so that errors name rows of the file
        check_propensity(steps.propensity, n, as_space(steps.action_space, steps.actions))
    steps, episodes = _in_order(steps, _episode_codes(steps, notes), notes)
    terminated = _terminated(steps, episodes)
    unknown, next_states = _next_states(steps, episodes, terminated, notes)
    kept = np.flatnonzero(~unknown) if unknown.any() else None

    def rows(values: Any) -> Any:
        return values if values is None or kept is None else values.take(kept, axis=0)

    codes = rows(episodes.codes)
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    log = Log.from_arrays(
        rows(steps.states),
        rows(steps.actions),
        rows(steps.rewards),
        rows(next_states),
        episode=codes,
        terminated=rows(terminated),
        propensity=rows(steps.propensity),
        action_space=steps.action_space,
        state_names=steps.state_names,
        reward_name=steps.reward_name,
    )
    log = replace(log, origin=_origin(episodes, kept, n))
    if steps.group is not None:
        groups = _groups(steps.group, episodes, steps.episode)
        log = replace(log, group_ids=steps.group.labels[rows(groups)[first]])
    if steps.episode is not None:
        log = replace(log, episode_ids=steps.episode.labels[codes[first]])
    return log


def _origin(episodes: Runs, kept: IntArray | None, count: int) -> Origin:
    """Return the original rows of the kept states and next states."""
    rows = np.arange(count) if episodes.rows is None else episodes.rows
    next_rows = np.append(rows[1:], -1)
    next_rows[episodes.ends] = -1
    origin = Origin(rows, next_rows, count)
    return origin if kept is None else origin.take(kept)


def _episode_codes(steps: Steps, notes: Notes) -> IntArray:
    n = len(steps.rewards)
    if steps.episode is not None:
        return steps.episode.codes
    if steps.step is not None:
        raise LogError(
            "step orders the rows of an episode, but no column says which episode a row is of. "
            "Name it with episode=..., or pass step=False."
        )
    ends = np.zeros(n, dtype=bool)
    for flag in (steps.terminated, steps.truncated):
        if isinstance(flag, np.ndarray):
            ends |= flag
    flagged = isinstance(steps.terminated, np.ndarray) or steps.truncated is not None
    if flagged and not ends.any():
        raise LogError(
            "There is no episode column, and no row is marked as the end of an episode. Name the "
            "episodes with episode=..., or pass terminated=True if every row is its own."
        )
    say_what_ends_an_episode(notes, flagged, steps.next_states is not None)
    return np.concatenate([[0], np.cumsum(ends[:-1])]) if flagged else np.arange(n)


def say_what_ends_an_episode(notes: Notes, flagged: bool, given_next: bool) -> None:
    """Note how episodes are defined without an episode column, or raise if that is unclear."""
    if flagged:
        notes.notes.append("No episode column: an episode ends where a row is marked as its end.")
    elif given_next:
        raise LogError(
            "There are next states, but neither an episode column nor flags that end an episode. "
            "Name the episodes with episode=..., or pass next_state=False if each row is its own."
        )
    else:
        notes.notes.append("No episode column: every row is an episode of one step.")


def without_timeouts(name: str | None, done: Any, truncated: BoolArray | None, notes: Notes) -> Any:
    """Return the termination flags from a `done` column, which in older logs includes timeouts."""
    if name is None or "done" not in name.lower() or truncated is None or not truncated.any():
        return done
    if not done[truncated].all():
        return done
    notes.notes.append(
        f"Every truncated row is {name} as well: {name} is read as the end of an episode for "
        f"whatever reason, and terminated as {name} without truncated."
    )
    return done & ~truncated


def _in_order(steps: Steps, codes: IntArray, notes: Notes) -> tuple[Steps, Runs]:
    order = _order(steps, codes, notes)

    def moved(values: Any) -> Any:
        return values if values is None or isinstance(values, bool) else values[order]

    if order is not None:
        codes = codes[order]
        steps = replace(
            steps,
            group=None if steps.group is None else Labelled(moved(steps.group[0]), steps.group[1]),
            **{
                name: moved(getattr(steps, name))
                for name in (
                    *("states", "actions", "rewards", "next_states", "step"),
                    *("terminated", "truncated", "propensity"),
                )
            },
        )
    border = codes[1:] != codes[:-1]
    starts, ends = np.concatenate([[True], border]), np.concatenate([border, [True]])
    return steps, Runs(codes, starts, ends, order)


def _order(steps: Steps, codes: IntArray, notes: Notes) -> IntArray | None:
    same = codes[1:] == codes[:-1]
    together = int((~same).sum()) == int(codes.max())  # every code below the highest occurs
    if steps.step is None:
        if together:
            return None
        notes.cautions.append(
            "The rows of an episode are not together; they were gathered in the order in which "
            "they stand. Name a column with step=... if that is not the order in time."
        )
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return np.argsort(first[inverse], kind="stable")
    later = steps.step[1:] > steps.step[:-1]
    if (steps.keep_order and together and (later | ~same).all()) or (
        (codes[1:] > codes[:-1]) | (same & later)
    ).all():
        return None
    order = np.lexsort((steps.step, codes))
    step, codes = steps.step[order], codes[order]
    again = np.flatnonzero((codes[1:] == codes[:-1]) & (step[1:] == step[:-1]))
    if len(again):
        at = int(again[0])
        advice = "name another step column, or pass step=False to keep the order of the rows"
        if copies := _copies(steps, order[again], order[again + 1]):
            advice = (
                f"{copies} of them are exact copies: drop them (table.drop_duplicates() in pandas)"
            )
        raise LogError(
            f"The steps of an episode must differ. Rows {order[at]} and {order[at + 1]} are of the "
            f"same episode and step ({len(again)} such pairs); {advice}."
        )
    return order


def _copies(steps: Steps, first: IntArray, second: IntArray) -> int:
    """Return how many of these pairs of rows have the same state, action and reward."""
    same = steps.rewards[first] == steps.rewards[second]
    for values in (steps.states, steps.actions):
        equal = values[first] == values[second]
        same &= equal if equal.ndim == 1 else equal.all(axis=1)
    return int(same.sum())


def _terminated(steps: Steps, episodes: Runs) -> BoolArray:
    ends = episodes.ends
    for name, flag in (("terminated", steps.terminated), ("truncated", steps.truncated)):
        if isinstance(flag, np.ndarray) and (flag & ~ends).any():
            row = int((flag & ~ends).argmax())
            raise LogError(
                f"{name} may be true only at the last row of an episode. It is at row "
                f"{episodes.was(row)}, but row {episodes.was(row + 1)} goes on with the episode; "
                f"check the episode and step columns, or give what follows an episode of its own."
            )
    unseen = steps.next_states is None or bool(np.isnan(steps.next_states).all())
    cut = steps.truncated is not None and bool(steps.truncated.any())
    if steps.terminated is True or (ends.all() and unseen and not cut):
        return ends
    if isinstance(steps.terminated, np.ndarray):
        return steps.terminated
    return np.zeros(len(ends), dtype=bool)


def _next_states(
    steps: Steps, episodes: Runs, terminated: BoolArray, notes: Notes
) -> tuple[BoolArray, FloatArray]:
    """Return which rows have an unknown next state, (n,), and the next states of all rows."""
    if steps.next_states is None:
        after = steps.states  # at the end of an episode a placeholder, never used as a state
        if not episodes.ends.all():
            after = np.empty_like(steps.states)
            after[:-1] = steps.states[1:]
            after[episodes.ends] = steps.states[episodes.ends]
        unknown = episodes.ends & ~terminated
        _warn_of_gaps(steps, episodes, notes)
    else:
        after = steps.next_states
        missing = np.asarray(np.isnan(after).any(axis=1))
        if missing.any():
            after = np.where(missing[:, None], steps.states, after)
        unknown = missing & ~terminated
        wrong = unknown & ~(episodes.ends & np.isnan(steps.next_states).all(axis=1))
        if wrong.any():
            row = episodes.was(int(wrong.argmax()))
            raise LogError(
                f"The next state may be missing only at the last row of an episode. It is at row "
                f"{row} ({count_of(wrong.sum())}); fill it in, or pass next_state=False to "
                f"derive all next states from the rows."
            )
        if not steps.keep_order:
            _warn_of_contradictions(steps.states, after, episodes, notes)
    if unknown.any() and steps.guessed_episode is not None:
        require_few(int(unknown.sum()), len(unknown), steps.guessed_episode)
    say_what_is_left_out(
        notes,
        unknown[episodes.ends],
        (unknown & episodes.starts)[episodes.ends],
        marked=steps.terminated is not None,
    )
    return unknown, after


def _warn_of_contradictions(
    states: FloatArray, after: FloatArray, episodes: Runs, notes: Notes
) -> None:
    """Warn of next states that are not the state of the next row of their episode."""
    inside = ~episodes.ends[:-1]
    close = _SAME * (1 + np.abs(states).max(axis=0))
    other = inside & (np.abs(after[:-1] - states[1:]) > close).any(axis=1)
    if other.any():
        notes.cautions.append(
            f"The next state of {int(other.sum())} of {int(inside.sum())} steps is not the state of "
            f"the next row of their episode, the first at row {episodes.was(int(other.argmax()))}. "
            f"Check the order of the rows and the next-state columns, or pass next_state=False to "
            f"take next states from the rows."
        )


def say_what_is_left_out(
    notes: Notes, dropped: BoolArray, emptied: BoolArray, *, marked: bool
) -> None:
    """Warn about episodes whose last step is left out, and those that have no other step.

    `marked` says that a column tells which episodes terminate.
    """
    count = int(dropped.sum())
    if count:
        none_left = int(emptied.sum())
        notes.cautions.append(
            f"{count} last step{'s' if count > 1 else ''} of {len(dropped)} episodes left out: "
            + ("not marked as an end, and " if marked else "")
            + "the state that followed was not logged"
            + (f" ({none_left} of these episodes had no other step)" if none_left else "")
            + "."
            + ("" if marked else _HOW_EPISODES_END)
        )


def require_few(left_out: int, rows: int, episode: str) -> None:
    """Raise if a guessed episode column would leave out more than a few rows."""
    if left_out <= _FEW * rows:
        return
    raise LogError(
        f"Column {episode!r} was taken for the episode, and nothing says how episodes end: "
        f"{left_out} of {rows} rows, the last of each, would be left out for want of a next state. "
        f"Which is it? Pass terminated=True if an episode ends for good at its last row; "
        f"terminated=False if it goes on unseen, so that these rows are to be left out; or "
        f"episode=False if every row is a decision of its own."
    )


def _warn_of_gaps(steps: Steps, episodes: Runs, notes: Notes) -> None:
    if steps.step is None or steps.step.dtype.kind not in "iu":
        return
    inside = ~episodes.ends[:-1]
    apart: BoolArray = inside & (np.diff(steps.step.astype(float)) != 1)
    if not apart.any():
        return
    first = episodes.was(int(apart.argmax()))
    say_where_steps_are_missing(notes, int(apart.sum()), int(inside.sum()), first)


def say_where_steps_are_missing(notes: Notes, count: int, steps: int, first: int) -> None:
    """Warn about gaps in the step numbers within episodes, the first after row `first`."""
    if 0 < count < steps / 2:  # if most gaps exceed 1, the unit of the steps is not 1
        notes.cautions.append(
            f"{count} step{'s' if count > 1 else ''} missing within episodes, the first after row "
            f"{first}: the next state there is that of the next row."
        )


def _groups(group: Labelled, episodes: Runs, labels: Labelled | None) -> IntArray:
    codes = group.codes
    torn = (codes[1:] != codes[:-1]) & ~episodes.ends[:-1]
    if torn.any():
        row = int(torn.argmax())
        which = episodes.codes[row] if labels is None else labels.labels[episodes.codes[row]]
        raise LogError(
            f"A group holds whole episodes. Episode {which!s} has the groups "
            f"{group.labels[codes[row]]!s} and {group.labels[codes[row + 1]]!s}; give every row of "
            f"it one group."
        )
    return codes


def net_of_costs(
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
    copies = _copies_frequencies(weights, name, notes)
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


def _copies_frequencies(weights: FloatArray, name: str, notes: Notes) -> IntArray:
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
            f"it was not available ({count_of(impossible.sum())}). Correct one of the two."
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
