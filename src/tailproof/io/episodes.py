"""The columns of a table as steps, and what looks like a mistake in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, FloatArray, IntArray, refuse_rows
from tailproof.errors import LogError, listed
from tailproof.io.columns import Columns
from tailproof.io.encoder import Encoder, require_read
from tailproof.io.parquet import Description
from tailproof.io.steps import (
    Notes,
    Steps,
    columns_of_actions,
    done_includes_timeouts,
    net_of_costs,
)
from tailproof.io.values import (
    Column,
    Labelled,
    array,
    identifiers,
    missing_rows,
    numbers,
    read_dates,
    refuse_missing,
    sort_key,
    truth_values,
    unwrapped,
)
from tailproof.log.folds import label_hash
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.log.validation import require_probabilities

T = TypeVar("T")


def steps_of(
    table: pa.Table,
    columns: Columns,
    encoder: Encoder,
    description: Description | None,
    cost: Mapping[str, float],
    notes: Notes,
    *,
    done_means_end: bool | None = None,
) -> Steps:
    """Return the columns of each part as arrays.

    Parameters
    ----------
    description
        Set if tailproof wrote the log.
    cost
        The cost of each action.
    done_means_end
        Whether the column of `terminated` marks all ends of episodes; None to see by these rows.
    """

    def optional(convert: Callable[[str, Column], T], name: str | None) -> T | None:
        return None if name is None else convert(name, table[name])

    states, refused = encoder.encode(table)
    require_read(refused)
    next_states = encoder.next_states(table, columns.next_state) if columns.next_state else None
    names, actions = encoder.state_names, encoder.actions(table)
    space = encoder.actions.space
    rewards = numbers(columns.reward, table[columns.reward])
    rewards = net_of_costs(-rewards if columns.negative else rewards, actions, space, cost)
    reward_name = f"minus {columns.reward}" if columns.negative else columns.reward
    if description is not None:
        names, reward_name = description.state_names, description.reward_name
        states = description.typed("states", states)
        next_states = description.typed("next_states", np.asarray(next_states))
        actions = description.typed("actions", actions)
    terminated = optional(truth_values, columns.terminated)
    truncated = optional(truth_values, columns.truncated)
    if terminated is not None and truncated is not None:
        if done_means_end is None:
            both = int((terminated & truncated).sum())
            done_means_end = done_includes_timeouts(
                columns.terminated, int(truncated.sum()), both, notes
            )
        terminated = terminated & ~truncated if done_means_end else terminated
    return Steps(
        states=states,
        actions=actions,
        rewards=rewards,
        next_states=next_states,
        episode=identifiers(listed(columns.episode), episode_labels(table, columns.episode))
        if columns.episode
        else None,
        group=optional(identifiers, columns.group),
        step=optional(sort_key, columns.step),
        terminated=terminated,
        truncated=truncated,
        propensity=_propensities(table, columns.propensity, actions, space),
        action_space=space,
        state_names=names,
        reward_name=reward_name,
        keep_order=description is not None,
    )


def episode_labels(table: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.ChunkedArray:
    """Return the labels of the episodes, (n,): a column, or the values of several as one text."""
    columns = [unwrapped(table.column(name)) for name in names]
    if len(names) == 1:
        return columns[0]
    for name, column in zip(names, columns, strict=True):
        refuse_missing(name, column)
    texts = [column.cast(pa.large_string()) for column in columns]
    return pc.binary_join_element_wise(*texts, pa.scalar(" / ", pa.large_string()))


def _propensities(
    table: pa.Table, names: tuple[str, ...], actions: AnyArray, space: ActionSpace
) -> FloatArray | None:
    """Return the probability of each row's own action, (n,), if columns say it."""
    if len(names) < 2:
        return numbers(names[0], table[names[0]]) if names else None
    if not isinstance(space, Discrete):
        raise LogError(
            f"Propensities in several columns are those of discrete actions, and the actions of this "
            f"log are continuous. Name one column of densities. Got {', '.join(names)}."
        )
    probabilities = np.column_stack([numbers(name, table[name], missing=True) for name in names])
    every = np.ones(len(probabilities), dtype=bool)
    require_probabilities(f"The propensities in {', '.join(names)}", probabilities, every, LogError)
    place = columns_of_actions(names, space, np.unique(actions))
    taken = probabilities[np.arange(len(actions)), place[actions]]
    rule = f"The propensity of the action that was taken must be known, in {', '.join(names)}"
    refuse_rows(np.isnan(taken), rule, "fill it in, or leave out the row", LogError)
    return np.asarray(taken / np.nansum(probabilities, axis=1))


_SAME = 0.999  # rank correlation with the reward from which a state is doubted
_ENOUGH, _ROWS = 100, 20_000  # fewest rows to test; largest sample
_COPIED = 0.2  # share of rows that repeat a reward from which they are compared
_VALUES, _TIMES = 50, 10  # how many rewards must be repeated, and how often at most, by the median
_ALIKE = 0.75  # share of the repeated rewards that only copies repeat
_BY_CHANCE = 0.7  # the largest chance that two rows have the same state and action
_PAIRS = 10  # rows that follow another of their episode from which an order is told
_IN_A_ROW = 0.9  # share of them that are one more than the row before, for a column that counts

#: Reads the columns that have no part in the log.
Unused = Callable[[], Sequence[pa.ChunkedArray]]


def report_possible_mistakes(
    steps: Steps, columns: Columns, unused: Unused, notes: Notes, *, ordered: bool
) -> None:
    """Report doubtful costs, labels, states, propensities and episodes, and copies of rows.

    `ordered` says that the rows of an episode were said to be in order.
    """
    report_cost(columns, notes, paid=bool((steps.rewards > 0).any()))
    warn_of_similar_labels(steps.action_space, notes)
    _warn_of_padded("Episodes", steps.episode, notes)
    _warn_of_padded("Groups", steps.group, notes)
    _warn_of_leaks(steps, columns, notes)
    if not (columns.episode or columns.group or columns.weight):
        _warn_of_copies(steps, unused, notes)
    if steps.episode is not None:
        report_single_row_episodes(columns, len(steps.episode.labels), len(steps.rewards), notes)
        if columns.step is None and not ordered and not columns.next_state:
            _report_possible_step(steps.episode.codes, columns, unused, notes)


def report_single_row_episodes(columns: Columns, episodes: int, rows: int, notes: Notes) -> None:
    """Report an episode column that is different in every row."""
    if columns.episode and episodes == rows and not columns.next_state:
        notes.notes.append(
            f"Every episode of {listed(columns.episode)!r} has one row: its reward is all that "
            f"counts, and a discount has no effect. If rows belong together, name the column that "
            f"they share with episode=...."
        )


def warn_of_similar_labels(space: ActionSpace | None, notes: Notes) -> None:
    """Warn of actions whose labels differ only by case or blanks."""
    if not isinstance(space, Discrete) or space.labels is None:
        return
    alike: dict[str, list[str]] = {}
    for label in space.labels:
        alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
    if several := [labels for labels in alike.values() if len(labels) > 1]:
        shown = "; ".join(" and ".join(map(repr, labels)) for labels in several[:3])
        notes.cautions.append(
            f"Actions that differ only by case or blanks count as different actions: {shown}. If they "
            f"are the same, write them alike (.str.strip().str.lower() in pandas)."
        )


def _warn_of_padded(what: str, found: Labelled | None, notes: Notes) -> None:
    """Warn of names that differ only by blanks around them: what belongs together is apart."""
    labels = [] if found is None else found.labels.tolist()
    if not any(isinstance(each, str) and each != each.strip() for each in labels):
        return
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(label.strip(), []).append(label)
    if several := [each for each in alike.values() if len(each) > 1]:
        notes.cautions.append(
            f"{what} whose names differ only by blanks around them count as different ones: "
            f"{' and '.join(map(repr, several[0]))} ({len(several)} such). If they are the same, write "
            f"them alike (.str.strip() in pandas)."
        )


def report_cost(columns: Columns, notes: Notes, *, paid: bool) -> None:
    """Report how a cost is read; `paid` says that some rewards are positive."""
    if columns.negative:
        notes.notes.append(
            f"Column {columns.reward!r} is read as a cost: less of it is better, and the reward its "
            f"negative."
        )
    elif paid:
        notes.cautions.extend(columns.doubts)


def _warn_of_leaks(steps: Steps, columns: Columns, notes: Notes) -> None:
    """Warn of state variables whose order is that of the rewards.

    In episodes of several steps that is usual, as with the cost of a queue, if the states were named.
    Rows with the most common value of a state, which may fill gaps, are also left out of the test.
    """
    step = -(-len(steps.rewards) // _ROWS)
    rewards = steps.rewards[::step]
    if (columns.episode or columns.terminated) and not columns.by_pattern:
        return

    def same_order(values: FloatArray, rewards: FloatArray) -> bool:
        if len(rewards) < _ENOUGH or not (np.ptp(values) and np.ptp(rewards)):
            return False
        return bool(abs(np.corrcoef(_ranks(values), _ranks(rewards))[0, 1]) > _SAME)

    same = []
    for name, values in zip(steps.state_names or (), steps.states[::step].T, strict=False):
        each, counts = np.unique(values, return_counts=True)
        rare = values != each[counts.argmax()]
        if same_order(values, rewards) or same_order(values[rare], rewards[rare]):
            same.append(name)
    if same:
        notes.cautions.append(
            f"The state {listed(same)} alone decides the reward, whatever the action. If it is known "
            f"only after the action, leave it out: name the other state columns one by one."
        )


def _report_possible_step(codes: IntArray, columns: Columns, unused: Unused, notes: Notes) -> None:
    """Report a column without a part that counts the rows of episodes, or tells their time.

    It grows along the rows of every episode; or, in another order of the rows, would.
    """
    along, at_odds = [], []
    for name, column in zip(columns.ignored, unused(), strict=True):
        plain = read_dates(unwrapped(column))
        times = kinds.is_temporal(plain.type)
        if missing_rows(plain).any() or not (times or kinds.is_integer(plain.type)):
            continue
        values = sort_key(name, plain).astype(np.int64)  # unsigned differences would wrap
        by_file, by_value = (
            np.diff(values[rows])[codes[rows][1:] == codes[rows][:-1]]
            for rows in (np.argsort(codes, kind="stable"), np.lexsort((values, codes)))
        )
        if len(by_file) < _PAIRS:
            continue
        if (by_file > 0).all():
            along.append(name)
        elif (by_value > 0).all() and (times or (by_value == 1).mean() > _IN_A_ROW):
            at_odds.append(name)
    if at_odds:
        notes.cautions.append(
            f"The rows of an episode are taken in the order of the file, but {listed(at_odds)} would "
            f"put them in another. If it tells their order in time, pass step={at_odds[0]!r}; "
            f"step=False keeps the order of the file."
        )
    elif along:
        notes.notes.append(
            f"The rows of an episode are taken in the order of the file, in which {listed(along)} "
            f"grows."
        )


def _warn_of_copies(steps: Steps, unused: Unused, notes: Notes) -> None:
    """Warn if rows are exact copies of others, beyond what rewards of few values make likely.

    Where chance repeats a reward, the rows differ elsewhere: in the action, if in nothing else. And
    rewards that the state and the action decide are repeated many times, or in rows that other
    columns tell apart.
    """
    there = np.flatnonzero(steps.rewards != 0)
    _, value, counts = np.unique(steps.rewards[there], return_inverse=True, return_counts=True)
    repeated = counts > 1
    few = repeated.sum() < _VALUES or len(counts) >= (1 - _COPIED) * len(there)
    if few or np.median(counts[repeated]) > _TIMES:
        return
    features = [*steps.states.T, *np.atleast_2d(steps.actions.T)]
    kind = _distinct(column[there] for column in features)
    chance = ((np.bincount(kind) / len(kind)) ** 2).sum()
    error = np.sqrt(chance * (1 - chance) / repeated.sum())
    rows = np.flatnonzero(repeated[value])
    pair = _distinct([value[rows], kind[rows]])
    _, first = np.unique(pair, return_index=True)
    alike = (np.bincount(value[rows[first]], minlength=len(counts))[repeated] == 1).mean()
    if chance > _BY_CHANCE or alike < max(_ALIKE, chance + 4 * error):
        return
    copies = len(rows) - 1 - _distinct([pair, *_codes(unused(), there[rows])]).max()
    if copies >= (len(rows) - len(first)) / 2:
        notes.cautions.append(
            f"{copies:,} of the {len(there):,} rows with a reward other than 0 are exact copies of "
            f"others, and each counts as evidence of its own. If they were logged twice, drop them "
            f"(table.drop_duplicates() in pandas)."
        )


def _distinct(columns: Iterable[AnyArray]) -> IntArray:
    """Return codes of the distinct rows of columns of numbers, (n,)."""
    marks = sum(label_hash(column.astype(float), key) for key, column in enumerate(columns))
    return np.unique(marks, return_inverse=True)[1]


def _codes(columns: Iterable[pa.ChunkedArray], rows: IntArray) -> list[AnyArray]:
    """Return codes of the values of these rows, for each column that is not nested."""
    plain = [unwrapped(column).take(pa.array(rows)).combine_chunks() for column in columns]
    coded = [each.dictionary_encode() for each in plain if not kinds.is_nested(each.type)]
    return [array(each.indices, absent=-1) for each in coded]


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks, (n,), the average rank where values are equal; SciPy's take long to import."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
