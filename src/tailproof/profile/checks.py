"""What a log shows: coverage of actions, and states unlike the logged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import scipy  # its parts are imported on first use

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.task import PolicyOnLog, Task
from tailproof.errors import Caution
from tailproof.log.horizon import predicted_by_others
from tailproof.log.log import Log
from tailproof.log.stored import AnyLog, LazyLog, action_counts
from tailproof.rules import RULES

_ROWS = 20_000  # most rows in which the policy is evaluated
_COLUMNS = 50  # most state columns to check
_FEW_VALUES = 12  # most values of a column for one region per value
_BINS = 10  # quantile regions of other columns
_NAMED = 3  # most regions to report


@dataclass(frozen=True, eq=False)
class Region:
    """A state column in ranges, and how often each action was logged in them."""

    name: str
    edges: list[tuple[float, float]]  # of each range
    counts: IntArray  # (ranges, A)
    of_probe: IntArray  # (m,) the range of each probed row

    @property
    def sizes(self) -> IntArray:
        """Rows in each range, (ranges,)."""
        return np.asarray(self.counts.sum(axis=1))


def probed_rows(log: Log) -> IntArray:
    """Return the rows in which policies are asked about coverage: evenly spaced, (m,)."""
    return np.arange(0, log.n_transitions, max(1, log.n_transitions // _ROWS))


def regions_of(log: Log) -> Iterator[Region]:
    """Yield the ranges of the first 50 state columns."""
    probed = probed_rows(log)
    for j, name in enumerate(log.state_names[:_COLUMNS]):
        edges, region = _ranges(log.states[:, j], probed)
        places = region * log.n_actions + log.actions
        counts = np.bincount(places, minlength=len(edges) * log.n_actions)
        yield Region(name, edges, counts.reshape(len(edges), log.n_actions), region[probed])


def coverage(task: Task, some: Log, regions: Sequence[Region]) -> tuple[Caution, ...]:
    """Return cautions about the policy's actions that the log does not cover.

    These are actions that were never logged, and regions of a state column in which an action of the
    policy was never logged although it is common elsewhere. `some` is the log or, if it stays on disk,
    some of its episodes; `regions` are those of `some`.
    """
    log, rows = task.log, probed_rows(some)
    if some is log and len(rows) == log.n_transitions:
        chances = here = task.action_probabilities
    else:
        places = some.table_rows.rows[rows]
        chances = here = task.acts.probabilities(some.states[rows], places)
    if task.initial_states is not None and task.initial_rows is None:  # not states of the log
        begins = task.initial_states[:: max(1, len(task.initial_states) // _ROWS)]
        chances = np.concatenate([here, task.acts.probabilities(begins)])
    share = chances.mean(axis=0)
    unlogged = (action_counts(log) == 0) & (share > 0)
    void = float(share[unlogged].sum()) > RULES.void
    found = [
        Caution(
            "overlap",
            f"The policy takes action {_label(log, action)} with probability {share[action]:.2g} but "
            f"the log never does: nothing is known of its value, and the critics assume zero.",
            void,
        )
        for action in np.flatnonzero(unlogged).tolist()
    ]
    holes = (hole for region in regions for hole in _holes(some, region, here))
    largest = sorted(holes, key=lambda hole: -hole[0])[:_NAMED]
    most = RULES.void * some.n_transitions
    return (*found, *(Caution("overlap", said, rows > most) for rows, said in largest))


def too_few_rows(found: PolicyOnLog | None) -> tuple[Caution, ...]:
    """Return a caution if hardly any row of the log says anything about the policy."""
    if found is None or np.isnan(found.effective_rows):
        return ()
    if found.effective_rows >= min(RULES.uncovered, RULES.uncovered_share * found.rows):
        return ()
    said = (
        f"The log does not cover this policy: {found.effective_rows:.2g} of {found.rows:,} rows are "
        f"like what it does (effective rows), and its value is extrapolated from the others."
    )
    return (Caution("overlap", said, voids=True),)


def some_episodes(log: LazyLog) -> Log:
    """Return evenly spaced episodes with about 20,000 rows."""
    allowed = min(_ROWS, int(log.memory_budget * log.n_transitions / log.bytes_in_memory))
    every = max(1, -(-log.n_transitions // max(allowed, 1)))
    return log.take(np.arange(0, log.n_episodes, every), count_actions=False).load()


def _holes(log: Log, region: Region, chances: FloatArray) -> Iterator[tuple[float, str]]:
    """Yield the ranges of a column in which the policy's action was never logged.

    Each is a pair: how often the policy takes the action there, and a sentence. `chances` are the
    policy's probabilities at the probed rows, (m, A).
    """
    edges, size, counts = region.edges, region.sizes, region.counts
    overall = counts.sum(axis=0) / log.n_transitions
    asked = np.maximum(np.bincount(region.of_probe, minlength=len(edges)), 1)
    for action in np.flatnonzero((overall > 0) & (counts == 0).any(axis=0)).tolist():
        own = np.bincount(region.of_probe, chances[:, action], minlength=len(edges)) / asked
        empty = (counts[:, action] == 0) & (own >= RULES.hole_policy)
        for is_empty, run in groupby(range(len(edges)), key=empty.__getitem__):
            there = list(run)
            (low, _), (_, high), count = edges[there[0]], edges[there[-1]], size[there].sum()
            least = RULES.hole_rows if low == high else RULES.hole_range
            enough = count >= least and overall[action] * count >= RULES.hole_expected
            if is_empty and enough:
                share = float(np.average(own[there], weights=size[there]))
                place = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
                yield (
                    count * share,
                    f"Where {region.name} is {place} ({count:,} rows) the policy takes action "
                    f"{_label(log, action)} in {share:.0%}, but the log never does: nothing there "
                    f"says what it is worth.",
                )


def _ranges(column: FloatArray, probed: IntArray) -> tuple[list[tuple[float, float]], IntArray]:
    """Return the ends of each range of a column, and the range of each row, (n,)."""
    values = np.unique(column[probed])
    if len(values) <= _FEW_VALUES and len(probed) < len(column):
        values = np.unique(column)
    if len(values) > _FEW_VALUES:
        inner = np.unique(np.quantile(column, np.arange(1, _BINS) / _BINS))
        region = np.searchsorted(inner, column, side="left")
        ends = [float(column.min()), *map(float, inner), float(column.max())]
        return list(pairwise(ends)), region
    return [(float(each),) * 2 for each in values], np.searchsorted(values, column)


def _label(log: AnyLog, action: int) -> str:
    return str(log.action_space.label(action))  # type: ignore[union-attr]


_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999, 999999)
_FAR = 3.0  # distance of a code from the other values, in ranges of these
_FEWEST, _EPISODES = 20, 5_000  # episodes in which late rewards are compared with earlier actions
_EXPLAINS = 0.1  # least share of a late reward's variance that earlier actions explain …
_SURPRISING = 5.0  # … and least number of its standard errors


def misleading_states(log: AnyLog) -> tuple[Caution, ...]:
    """Return what is wrong with the states of a log in memory."""
    if not isinstance(log, Log):
        return ()
    codes = (Caution("missing_code", text) for text in _missing_codes(log))
    hidden = (Caution("hidden_state", text, voids=True) for text in _hidden_history(log))
    return (*codes, *hidden)


def _missing_codes(log: Log) -> list[str]:
    """Return the state columns that seem to hold a code for a missing value."""
    found: list[str] = []
    for name, column in zip(log.state_names, log.states.T, strict=True):
        for code in _CODES:
            there = column == code
            others = column[~there]
            if not there.any() or len(others) == 0:
                continue
            low, high = float(others.min()), float(others.max())
            outside = code > high + _FAR * (high - low) or code < low - _FAR * (high - low)
            if (code < low or code > high) and (outside or (code < 0 <= low)):
                found.append(
                    f"State column {name} is {code} in {int(there.sum()):,} of {len(column):,} rows, "
                    f"where others are {low:.4g} to {high:.4g}: if that is a code for a missing value, "
                    f"replace it and add a column that says where, because it is taken for a number."
                )
    return found


def _hidden_history(log: Log) -> list[str]:
    """Return a sentence if rewards come at the end only and depend on more than the last state.

    Trees predict the ranks of the last rewards from the last state and action, with and without the
    share of each earlier action.
    """
    last = np.cumsum(log.lengths) - 1
    early = np.ones(log.n_transitions, dtype=bool)
    early[last] = False
    if not early.any() or log.rewards[early].any() or not np.ptp(log.rewards[last]):
        return []
    chosen = np.flatnonzero(log.lengths > 1)
    if len(chosen) < _FEWEST:
        return []
    chosen = chosen[:: max(1, len(chosen) // _EPISODES)]
    actions = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
    taken = np.eye(log.n_actions)[log.actions] if log.is_discrete else actions
    earlier = np.stack(
        [np.bincount(log.episode_of_row, early * column) for column in taken.T], axis=1
    )
    shares = earlier[chosen] / (log.lengths[chosen, None] - 1)  # (episodes, A)
    rewards = scipy.stats.rankdata(log.rewards[last[chosen]])
    inputs = np.column_stack([log.states, actions])[last[chosen]]
    second = np.argsort(np.argsort(inputs[:, 0], kind="stable")) % 2 == 1
    without, given = (
        (rewards - predicted_by_others(known, rewards, second)) ** 2
        for known in (inputs, np.column_stack([inputs, shares]))
    )
    better = without - given  # (episodes,)
    error = float(better.std()) / np.sqrt(len(better))
    if better.mean() < max(_EXPLAINS * without.mean(), _SURPRISING * error):
        return []
    return [
        f"Rewards come at the last step of an episode only, and earlier actions explain "
        f"{better.mean() / without.mean():.0%} of what the last state and action leave open: no critic "
        f"of the state can know that, and values may be far off. Give each step its own reward, or add "
        f"to the state what was done so far, such as how often."
    ]
