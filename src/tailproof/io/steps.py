"""Logged steps to a log: gather episodes, sort rows, derive next states, expand weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, refuse_rows
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
from tailproof.log.validation import check_groups, check_propensity

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
    action_space: ActionSpace | None = None
    state_names: tuple[str, ...] | None = None
    reward_name: str = "reward"
    keep_order: bool = False
    guessed_episode: str | None = None  # episode column, if guessed and no ends are given
    one_step: bool | None = None  # whether all episodes have one row; None to see by these rows


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


@dataclass(frozen=True)
class Tally:
    """What is counted while steps become transitions; the tallies of consecutive steps add up."""

    rows: int = 0
    pairs: int = 0  # rows that another one of their episode follows
    episodes: int = 0
    left_out: int = 0  # last rows without a next state
    emptied: int = 0  # episodes without any other row
    gaps: int = 0  # steps that are missing within episodes
    first_gap: int = -1  # the row before the first of them
    contradictions: int = 0  # next states that are not the state of the next row
    first_contradiction: int = -1

    def __add__(self, other: Tally) -> Tally:
        total = {name: mine + vars(other)[name] for name, mine in vars(self).items()}
        for name in ("first_gap", "first_contradiction"):
            mine, theirs = vars(self)[name], vars(other)[name]
            total[name] = mine if mine >= 0 or theirs < 0 else self.rows + theirs
        return Tally(**total)

    def report(self, notes: Notes, *, marked: bool, guessed_episode: str | None) -> None:
        """Warn of steps that are missing, contradictory or left out; raise if those are many.

        `marked` says that a column tells which episodes terminate; `guessed_episode` is the episode
        column if it was guessed.
        """
        if 0 < self.gaps < self.pairs / 2:  # if most gaps exceed 1, the unit of the steps is not 1
            notes.cautions.append(
                f"{self.gaps} step{'s' if self.gaps > 1 else ''} missing within episodes, the first "
                f"after row {self.first_gap}: the next state there is that of the next row."
            )
        if self.contradictions:
            notes.cautions.append(
                f"The next state of {self.contradictions} of {self.pairs} steps is not the state of "
                f"the next row of their episode, the first at row {self.first_contradiction}. "
                f"Check the order of the rows and the next-state columns, or pass next_state=False to "
                f"take next states from the rows."
            )
        if guessed_episode is not None and self.left_out > _FEW * self.rows:
            raise LogError(
                f"Column {guessed_episode!r} was taken for the episode, and nothing says how episodes "
                f"end: {self.left_out} of {self.rows} rows, the last of each, would be left out, "
                f"because they have no next state. Pass terminated=True if an episode ends for good at "
                f"its last row; terminated=False if it goes on after the recording, which leaves these "
                f"rows out; or episode=False if every row is a decision by itself."
            )
        if self.left_out:
            notes.cautions.append(
                f"{self.left_out} last step{'s' if self.left_out > 1 else ''} of {self.episodes} "
                f"episodes left out: "
                + ("not marked as an end, and " if marked else "")
                + "the state that followed was not logged"
                + (f" ({self.emptied} of these episodes had no other step)" if self.emptied else "")
                + "."
                + ("" if marked else _HOW_EPISODES_END)
            )


class Arranged(NamedTuple):
    """The transitions among some steps, in order of their episodes."""

    arrays: dict[str, Any]  # by their names in a `Log`, (m, …) each; None for what is not logged
    codes: IntArray  # (m,) of the episodes
    lengths: IntArray  # (E,) of the episodes that have a transition
    episode_ids: AnyArray | None  # (E,)
    group_ids: AnyArray | None  # (E,)
    origin: Origin
    tally: Tally


def assemble(steps: Steps, notes: Notes) -> Log:
    """Return the log of these steps, and add the decisions made to `notes`; see `arrange`."""
    found = arrange(steps, notes)
    marked = steps.terminated is not None
    found.tally.report(notes, marked=marked, guessed_episode=steps.guessed_episode)
    log = Log.from_arrays(
        **found.arrays,
        episode=found.codes,
        action_space=steps.action_space,
        state_names=steps.state_names,
        reward_name=steps.reward_name,
    )
    ids = log.episode_ids if found.episode_ids is None else found.episode_ids
    return replace(log, origin=found.origin, group_ids=found.group_ids, episode_ids=ids)


def arrange(steps: Steps, notes: Notes) -> Arranged:
    """Sort steps by episode, and find their next states; decisions are added to `notes`.

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
    unknown, next_states, tally = _next_states(steps, episodes, terminated)
    kept = np.flatnonzero(~unknown) if unknown.any() else None

    def rows(values: Any) -> Any:
        return values if values is None or kept is None else values.take(kept, axis=0)

    codes = rows(episodes.codes)
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])[: len(codes)])
    was = np.arange(n) if episodes.rows is None else episodes.rows
    after = np.append(was[1:], -1)
    after[episodes.ends] = -1
    labels, groups = steps.episode, steps.group
    group_ids = None
    if groups is not None:
        starts = np.append(np.flatnonzero(episodes.starts), n)
        ids = episodes.codes[starts[:-1]]
        names = ids if labels is None else labels.labels[ids]
        of_episode = check_groups(groups.labels[groups.codes], starts, names)
        group_ids = of_episode[rows(np.cumsum(episodes.starts) - 1)[first]]
    return Arranged(
        arrays={
            "states": rows(steps.states),
            "actions": rows(steps.actions),
            "rewards": rows(steps.rewards),
            "next_states": rows(next_states),
            "terminated": rows(terminated),
            "propensity": rows(steps.propensity),
        },
        codes=codes,
        lengths=np.diff(np.append(first, len(codes))),
        episode_ids=None if labels is None else labels.labels[codes[first]],
        group_ids=group_ids,
        origin=Origin(rows(was), rows(after), n),
        tally=tally,
    )


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
    if flagged and steps.one_step is None and not ends.any():
        raise no_ends()
    if flagged:
        notes.notes.append("No episode column: an episode ends where a row is marked as its end.")
    elif steps.next_states is not None:
        raise LogError(
            "There are next states, but neither an episode column nor flags that end an episode. "
            "Name the episodes with episode=..., or pass next_state=False if each row is its own."
        )
    else:
        notes.notes.append("No episode column: every row is an episode of one step.")
    return np.concatenate([[0], np.cumsum(ends[:-1])]) if flagged else np.arange(n)


def no_ends() -> LogError:
    """Return the error for flags that mark no row, without an episode column."""
    return LogError(
        "There is no episode column, and no row is marked as the end of an episode. Name the "
        "episodes with episode=..., or pass terminated=True if every row is its own."
    )


def done_includes_timeouts(name: str | None, timeouts: int, done: int, notes: Notes) -> bool:
    """Return whether the `name` column marks all ends of episodes, as `done` does in older logs.

    `timeouts` is the number of truncated rows, of which `done` are marked by it as well.
    """
    if name is None or "done" not in name.lower() or not 0 < timeouts == done:
        return False
    notes.notes.append(
        f"Every truncated row is {name} as well, so {name} is read as any end of an episode: rows "
        f"count as terminated where {name} is true and truncated is not."
    )
    return True


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
        if isinstance(flag, np.ndarray):
            refuse_rows(
                flag & ~ends,
                f"{name} may be true only at the last row of an episode, and others follow",
                "check the episode and step columns, or give the rows after it another episode",
                LogError,
                row_of=episodes.was,
            )
    one_step = steps.one_step
    if one_step is None:
        unseen = steps.next_states is None or bool(np.isnan(steps.next_states).all())
        cut = steps.truncated is not None and bool(steps.truncated.any())
        one_step = bool(ends.all()) and unseen and not cut
    if steps.terminated is True or one_step:
        return ends
    if isinstance(steps.terminated, np.ndarray):
        return steps.terminated
    return np.zeros(len(ends), dtype=bool)


def _next_states(
    steps: Steps, episodes: Runs, terminated: BoolArray
) -> tuple[BoolArray, FloatArray, Tally]:
    """Return which rows have an unknown next state, (n,), the next states of all rows, and counts."""
    ends, inside = episodes.ends, ~episodes.ends[:-1]
    gaps, other = np.zeros((2, len(inside)), dtype=bool)
    if steps.next_states is None:
        after = steps.states  # at the end of an episode a placeholder, never used as a state
        if inside.any():
            after = np.empty_like(steps.states)
            after[:-1] = steps.states[1:]
            after[ends] = steps.states[ends]
        unknown = ends & ~terminated
        if steps.step is not None and steps.step.dtype.kind in "iu":
            gaps = inside & (np.diff(steps.step.astype(float)) != 1)
    else:
        after = steps.next_states
        missing = np.asarray(np.isnan(after).any(axis=1))
        if missing.any():
            after = np.where(missing[:, None], steps.states, after)
        unknown = missing & ~terminated
        refuse_rows(
            unknown & ~(ends & np.isnan(steps.next_states).all(axis=1)),
            "The next state may be missing only at the last row of an episode",
            "fill it in, or pass next_state=False to derive all next states from the rows",
            LogError,
            row_of=episodes.was,
        )
        if not steps.keep_order:
            close = _SAME * (1 + np.abs(steps.states).max(axis=0))
            other = inside & (np.abs(after[:-1] - steps.states[1:]) > close).any(axis=1)
    first_gap, first_other = (
        episodes.was(int(rows.argmax())) if rows.any() else -1 for rows in (gaps, other)
    )
    tally = Tally(
        rows=len(ends),
        pairs=int(inside.sum()),
        episodes=int(ends.sum()),
        left_out=int(unknown.sum()),
        emptied=int((unknown & episodes.starts).sum()),
        gaps=int(gaps.sum()),
        first_gap=first_gap,
        contradictions=int(other.sum()),
        first_contradiction=first_other,
    )
    return unknown, after, tally


def net_of_costs(
    rewards: FloatArray, actions: AnyArray, space: ActionSpace, cost: Mapping[str, float]
) -> FloatArray:
    """Return the rewards minus the cost of the logged action."""
    if not cost:
        return rewards
    if not isinstance(space, Discrete):
        raise LogError("cost is given by action, and the actions of this log are continuous.")
    labels = list(space.names)
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
    given = numbers(name, column.take(pa.array(log.table_rows.rows)))
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
    counts = "Rows count" if log.is_bandit else "Episodes count"
    notes.notes.append(f"{counts} as often as their weight in column {name!r} says.")
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
        f"multiples of {unit:.3g}, by {100 * off:.1f} % on average."
        + (f" {lost} rows of the smallest weights count 0 times." if lost else "")
    )
    return np.asarray(counts // np.gcd.reduce(counts))


def available_actions(table: pa.Table, names: tuple[str, ...], log: Log) -> BoolArray:
    """Return which actions are available in each row of the table, (N, A)."""
    space = log.action_space
    if not isinstance(space, Discrete):
        raise LogError("available lists discrete actions, and those of this log are continuous.")
    labels = list(space.names)
    if len(names) == 1 and space.n > 1:
        mask = _listed(names[0], unwrapped(table[names[0]]), labels)
    else:
        mask = np.zeros((table.num_rows, space.n), dtype=bool)
        for code, place in enumerate(columns_of_actions(names, space, np.arange(space.n))):
            mask[:, code] = truth_values(names[place], table[names[place]])
    rows = log.table_rows.rows
    refuse_rows(
        ~mask[rows, log.actions],
        "The action that was taken must have been available",
        "correct one of the two",
        LogError,
        values=np.array(labels, dtype=object)[log.actions],
        row_of=lambda at: int(rows[at]),
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


def columns_of_actions(names: Sequence[str], space: Discrete, codes: IntArray) -> IntArray:
    """Return the place among `names` of the column of each action in `codes`, (A,); −1 for others."""
    place = np.full(space.n, -1)
    for code in codes:
        label = space.label(int(code))
        found = named_after(names, label)
        if found is None or names.index(found) in place:
            raise LogError(
                f"There must be one column for each action. Got {', '.join(names)}, of which none is "
                f"named after {label!r} alone; rename them, or name a single column."
            )
        place[code] = names.index(found)
    return place


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
