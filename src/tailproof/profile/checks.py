"""What a log shows: coverage of actions, and states unlike the logged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tailproof.arrays import BoolArray, FloatArray, IntArray, order_by
from tailproof.critics.task import PolicyOnLog, Task
from tailproof.errors import Caution
from tailproof.log.log import Log
from tailproof.rules import RULES

_ROWS = 20_000  # most rows in which the policy is evaluated, and regions are sought
_COLUMNS = 50  # most state columns to check
_FEW_VALUES = 12  # most values of a column for one region per value
_BINS = 10  # quantile regions of other columns
_NAMED = 3  # most holes to report
_PARTS = 4  # a hole of a small log is as large as one of so many parts
_DEPTH = 4  # of the tree that looks for holes in several columns
_CERTAIN = 1e-9  # distance to 1 below which a propensity is 1
_EDGE = 0.1  # most of a region's rows in a strip along its edge that is cut off
_NOBODY_KNEW = " If nobody knew the propensities, leave them out to have them estimated."
_SPARE = 4.0  # expected rows with the action in what is cut off beyond it
_NEW = 0.5  # least share of a hole's rows that is in no hole reported before


@dataclass(frozen=True, eq=False)
class Hole:
    """A region of the states in which an action was never logged though it is common elsewhere."""

    action: int
    place: str  # the region in words
    where: BoolArray  # (n,) the rows in it


def probed_rows(log: Log) -> IntArray:
    """Return the rows in which policies are asked about coverage: evenly spaced, (m,)."""
    return np.arange(0, log.n_transitions, max(1, log.n_transitions // _ROWS))


def holes_of(log: Log) -> Iterator[Hole]:
    """Yield the holes of a log: ranges of the first 50 state columns, and leaves of a tree.

    They have 200 rows, or 100 of one value, or in small logs a quarter of all rows. The tree predicts
    the action from all columns and is grown on half of the rows; the other half counts the actions in
    its leaves, so that a region is not chosen for what it lacks by chance.
    """
    overall = np.bincount(log.actions, minlength=log.n_actions) / log.n_transitions
    expected, probed = _Expected.of(log, overall), probed_rows(log)
    small = log.n_transitions // _PARTS
    for j, name in enumerate(log.state_names[:_COLUMNS]):
        edges, region = _ranges(log.states[:, j], probed)
        counts = _counts(region, log.actions, (len(edges), log.n_actions))
        for action in np.flatnonzero((overall > 0) & (counts == 0).any(axis=0)).tolist():
            for is_empty, run in groupby(
                range(len(edges)), key=(counts[:, action] == 0).tolist().__getitem__
            ):
                there = list(run)
                (low, _), (_, high), size = edges[there[0]], edges[there[-1]], counts[there].sum()
                least = min(RULES.hole_rows if low == high else RULES.hole_range, small)
                if not is_empty or size < least or not expected.enough(action, size):
                    continue
                where = np.isin(region, there)
                if expected.enough(action, where):
                    place = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
                    yield Hole(action, f"{name} is {place}", where)
    yield from _holes_in_leaves(log, probed, overall, expected)


@dataclass(frozen=True, eq=False)
class _Expected:
    """How many rows with an action a region would have if the action were as common as elsewhere.

    Logged propensities say more: they leave an equal share of the rest for each action that was not
    taken, or at most as much as the taken one had. An action of 1.5 % may be absent by chance from a
    region in which another one was nearly always taken. A propensity of 1 leaves nothing to chance.
    """

    common: FloatArray  # (A,) the actions' frequencies
    effect: FloatArray  # (A,) rows that count as one
    spare: FloatArray | None  # (n,) what propensities leave for each other action

    @classmethod
    def of(cls, log: Log, overall: FloatArray) -> _Expected:
        """Return what is expected of a log whose actions have these frequencies."""
        effect, spare = _design_effects(log, overall), None
        if log.propensity is not None:
            others = max(int((overall > 0).sum()) - 1, 1)
            spare = np.minimum((1 - log.propensity) / others, log.propensity)
            spare[log.propensity >= 1 - _CERTAIN] = 1.0
        return cls(overall, effect, spare)

    def enough(self, action: int, where: BoolArray | int) -> bool:
        """Return whether no row by chance is beyond doubt in these rows, or in so many."""
        common = self.common[action]
        if isinstance(where, np.ndarray) and self.spare is not None:
            rows = float(np.minimum(self.spare[where], common).sum())
        else:
            rows = float(common * np.sum(where))
        return bool(rows >= RULES.hole_expected * self.effect[action])


def _design_effects(log: Log, overall: FloatArray) -> FloatArray:
    """Return the rows that count as one, (A,): more than 1 if groups keep to an action."""
    if log.group_ids is None:
        return np.ones(log.n_actions)
    found = np.ones(log.n_actions)
    group = log.group_of_episode[log.episode_of_row]
    for action, share in enumerate(overall):
        off = (log.actions == action) - share
        found[action] = max((np.bincount(group, off) ** 2).sum() / max((off**2).sum(), 1e-9), 1)
    return found


def _holes_in_leaves(
    log: Log, probed: IntArray, overall: FloatArray, expected: _Expected
) -> Iterator[Hole]:
    """Yield the leaves of a tree in which an action was never logged."""
    states, actions = log.states[probed], log.actions[probed]
    least = min(RULES.hole_range, len(probed) // (2 * _PARTS))  # of each half
    if least < RULES.hole_expected or len(np.unique(actions)) < 2:
        return
    if max(states.max(), -states.min()) > np.finfo(np.float32).max:  # trees have single precision
        return
    place = np.argsort(order_by(log.rewards[probed], *states.T))  # whatever the order of rows
    grows = place % 2 == 0
    from sklearn.tree import DecisionTreeClassifier  # slow to import

    tree = DecisionTreeClassifier(
        criterion="entropy", max_depth=_DEPTH, min_samples_leaf=least, random_state=0
    ).fit(states[grows], actions[grows])
    leaf = tree.apply(states)
    boxes = _boxes(tree.tree_)
    counts = _counts(leaf, actions, (tree.tree_.node_count, log.n_actions))
    nodes = np.array(list(boxes))
    judging = np.bincount(leaf[~grows], minlength=len(counts))[nodes]
    rare = counts[nodes] < _EDGE * least
    # an action that is as rare everywhere may be absent by chance
    rare &= judging[:, None] * overall >= RULES.hole_expected * expected.effect
    for at, action in np.argwhere(rare).tolist():
        box, there = boxes[int(nodes[at])], leaf == nodes[at]
        box = _without_edge(box, states[there], actions[there] == action, overall[action])
        inside = _inside(box, states)
        held_out = np.zeros(log.n_transitions, dtype=bool)
        held_out[probed[inside & ~grows]] = True
        if (
            not (inside & (actions == action)).any()
            and held_out.sum() >= least
            and expected.enough(action, held_out)
        ):
            yield Hole(action, _in_words(box, log.state_names), _inside(box, log.states))


#: Columns and the values between which they lie: above the first, at most the second.
Box = dict[int, tuple[float, float]]


def _boxes(tree: Any) -> dict[int, Box]:
    """Return the leaves of a tree of scikit-learn."""
    found: dict[int, Box] = {}
    open_nodes: list[tuple[int, Box]] = [(0, {})]
    while open_nodes:
        node, within = open_nodes.pop()
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0:
            found[node] = within
            continue
        j, edge = int(tree.feature[node]), float(tree.threshold[node])
        low, high = within.get(j, (-np.inf, np.inf))
        open_nodes += [(left, within | {j: (low, edge)}), (right, within | {j: (edge, high)})]
    return found


def _without_edge(box: Box, states: FloatArray, taken: BoolArray, common: float) -> Box:
    """Return the box less a strip along one of its edges that holds all rows with the action.

    A tree cuts where the action begins only up to a few rows. So many more are cut off that none of
    them has the action by chance. The box stays as it is if the narrowest strip holds more than a tenth
    of its rows, or the action at less than half its `common` share there.
    """
    if not taken.any():
        return box
    spare = int(_SPARE / common)
    narrowest, found = min(_EDGE * len(states), 2 * taken.sum() / common), box
    for j, (low, high) in box.items():
        values = np.sort(states[:, j])
        below = int(np.searchsorted(values, states[taken, j].max(), side="right"))
        above = len(values) - int(np.searchsorted(values, states[taken, j].min()))
        most = len(values) - 1
        strips = []
        if low > -np.inf:
            strips.append((below, (float(values[min(below + spare, most)]), high)))
        if high < np.inf:
            strips.append((above, (low, float(values[max(most - above - spare, 0)]))))
        for rows, within in strips:
            if rows <= narrowest:
                narrowest, found = rows, box | {j: within}
    return found


def _inside(box: Box, states: FloatArray) -> BoolArray:
    inside = np.ones(len(states), dtype=bool)
    for j, (low, high) in box.items():
        inside &= (states[:, j] > low) & (states[:, j] <= high)
    return inside


def _in_words(box: Box, names: Sequence[str]) -> str:
    return " and ".join(
        f"{names[j]} is "
        + (
            f"at most {high:.4g}"
            if low == -np.inf
            else f"above {low:.4g}" + ("" if high == np.inf else f" and at most {high:.4g}")
        )
        for j, (low, high) in box.items()
    )


def _counts(region: IntArray, actions: IntArray, shape: tuple[int, int]) -> IntArray:
    """Return how often each action was taken in each region, (regions, A)."""
    return np.bincount(region * shape[1] + actions, minlength=shape[0] * shape[1]).reshape(shape)


def unlogged(log: Log, holes: Sequence[Hole]) -> BoolArray:
    """Return which actions were never logged in states like those of each row, (n, A)."""
    counts = np.bincount(log.actions, minlength=log.n_actions)
    found = np.tile(counts == 0, (log.n_transitions, 1))
    for hole in holes:
        found[hole.where, hole.action] = True
    return found


def coverage(task: Task, some: Log, holes: Sequence[Hole]) -> tuple[Caution, ...]:
    """Return cautions about the policy's actions that the log does not cover.

    These are actions that were never logged, holes in which the policy takes the action, and rows of
    one-step logs whose action had the propensity 1, so that no other could be logged. Together they
    void the answer if they are more than a share `RULES.void` of what the policy does. `some` is the
    log or, if it stays on disk, some of its episodes; `holes` are those of `some`.
    """
    log, rows = task.log, probed_rows(some)
    if some is log:
        here = task.action_probabilities[rows]
    else:
        here = task.acts.probabilities(some.states[rows], some.table_rows.rows[rows])
    probabilities = here
    if task.initial_states is not None and task.initial_rows is None:  # not states of the log
        begins = task.initial_states[:: max(1, len(task.initial_states) // _ROWS)]
        probabilities = np.concatenate([here, task.acts.probabilities(begins)])
    share = probabilities.mean(axis=0)
    never = (log.action_counts == 0) & (share > 0)
    said = [
        f"The policy takes action {_label(log, action)} with probability {share[action]:.2g} but "
        f"the log never does: nothing is known of its value, and the critics assume 0."
        for action in np.flatnonzero(never).tolist()
    ]
    taken = [(float(here[hole.where[rows], hole.action].sum()), hole) for hole in holes]
    reported = np.zeros((len(rows), log.n_actions), dtype=bool)
    named = 0
    for often, hole in sorted(taken, key=lambda each: -each[0]):
        there = hole.where[rows]
        if often < RULES.hole_policy * there.sum() or often == 0:
            continue
        is_new = not reported[there, hole.action].mean() > 1 - _NEW
        reported[there, hole.action] = True
        if is_new and named < _NAMED:
            named += 1
            said.append(
                f"Where {hole.place} ({int(hole.where.sum()):,} rows) the policy takes action "
                f"{_label(log, hole.action)} in {100 * often / there.sum():.0f} %, but the log never "
                f"does so: nothing there says what it is worth."
            )
    if log.is_bandit and (excluded := _excluded(some, rows, reported, np.where(never, 0, here))):
        said.append(excluded)
    unknown = float((here * reported)[:, ~never].sum() / len(rows)) + float(share[never].sum())
    return tuple(Caution("overlap", each, unknown > RULES.void) for each in said)


def _excluded(log: Log, rows: IntArray, reported: BoolArray, here: FloatArray) -> str | None:
    """Mark the actions that propensities of 1 exclude; return a sentence if the policy takes them."""
    if log.propensity is None:
        return None
    certain = log.propensity[rows] >= 1 - _CERTAIN
    others = certain[:, None] & (np.arange(log.n_actions) != log.actions[rows][:, None])
    new = float((here * (others & ~reported)).sum()) / len(rows)
    reported |= others
    if new < RULES.hole_policy:
        return None
    return (
        f"In {100 * certain.mean():.0f} % of the rows the logged action had the propensity 1, and the "
        f"policy takes others, in {100 * new:.0f} % of all rows: no row can say what these are worth "
        f"there." + (_NOBODY_KNEW if certain.all() else "")
    )


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


def some_episodes(log: Log) -> Log:
    """Return the log, or evenly spaced episodes of a mapped one with about 20,000 rows."""
    if log.budget is None:
        return log
    allowed = min(_ROWS, int(log.budget * log.n_transitions / log.bytes_in_memory))
    every = max(1, -(-log.n_transitions // max(allowed, 1)))
    return log if every == 1 else log.take(np.arange(0, log.n_episodes, every))


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


def _label(log: Log, action: int) -> str:
    return str(log.action_space.label(action))  # type: ignore[union-attr]


_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999, 999999)
_FAR = 3.0  # distance of a code from the other values, in ranges of these


def missing_codes(log: Log) -> tuple[Caution, ...]:
    """Return cautions about state columns that seem to hold a code for a missing value."""
    found: list[str] = []
    for name, column in zip(log.state_names, log.states.T, strict=True):
        for code in _CODES:
            there = column == code
            if not there.any() or there.all():
                continue
            others = column[~there]
            low, high = float(others.min()), float(others.max())
            outside = code > high + _FAR * (high - low) or code < low - _FAR * (high - low)
            if (code < low or code > high) and (outside or (code < 0 <= low)):
                found.append(
                    f"State column {name} is {code} in {int(there.sum()):,} of {len(column):,} rows, "
                    f"where others are {low:.4g} to {high:.4g}: if that is a code for a missing value, "
                    f"replace it and add a column that says where, because it is taken for a number."
                )
    return tuple(Caution("missing_code", text) for text in found)
