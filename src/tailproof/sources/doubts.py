"""What looks like a mistake in the steps of a log: reported or warned about, never changed."""

from __future__ import annotations

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.misfit import propensity_misfit
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.sources.columns import Columns
from tailproof.sources.conventions import listed
from tailproof.sources.steps import Notes, Steps

_SAME = 0.999  # rank correlation with the reward from which a state is doubted
_ENOUGH, _ROWS = 100, 20_000  # rows that say something, and rows that say enough
_COPIED = 0.2  # share of rows that repeat a reward from which they are compared
_VALUES, _TIMES = 50, 10  # how many rewards must be repeated, and how often at most, by the median
_ALIKE, _BY_CHANCE = (
    0.75,
    0.7,
)  # share of rewards repeated by copies only; the most that chance makes


def say_what_is_odd(steps: Steps, columns: Columns, notes: Notes) -> None:
    """Report doubtful costs, labels, states and propensities, and copies of rows."""
    _say_what_is_a_cost(steps, columns, notes)
    say_which_labels_are_alike(steps.action_space, notes)
    _say_what_decides_the_reward(steps, notes)
    _doubt_propensities(steps, columns, notes)
    if not (columns.episode or columns.group or columns.weight):
        _say_what_is_copied(steps, notes)


def say_which_labels_are_alike(space: ActionSpace | None, notes: Notes) -> None:
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


def _say_what_is_a_cost(steps: Steps, columns: Columns, notes: Notes) -> None:
    if columns.negative:
        notes.notes.append(
            f"Column {columns.reward!r} is read as a cost: less of it is better, and the reward its "
            f"negative."
        )
    elif (steps.rewards > 0).any():
        notes.cautions.extend(columns.doubts)


def _say_what_decides_the_reward(steps: Steps, notes: Notes) -> None:
    """Warn of state variables whose order is that of the rewards."""
    step = -(-len(steps.rewards) // _ROWS)
    rewards = _ranks(steps.rewards[::step])
    if len(rewards) < _ENOUGH or not np.ptp(rewards):
        return
    same = [
        name
        for name, values in zip(steps.state_names or (), steps.states[::step].T, strict=False)
        if np.ptp(values) > 0 and abs(np.corrcoef(_ranks(values), rewards)[0, 1]) > _SAME
    ]
    if same:
        notes.cautions.append(
            f"The state {listed(same)} alone decides the reward, whatever the action. If it is known "
            f"only after the action, leave it out: name the other state columns one by one."
        )


def _doubt_propensities(steps: Steps, columns: Columns, notes: Notes) -> None:
    """Warn if the propensities cannot be those of the logged actions."""
    space, given = steps.action_space, steps.propensity
    if given is None or not isinstance(space, Discrete) or not (given > 0).all():
        return
    misfit = propensity_misfit(
        steps.states,
        steps.state_names or (),
        steps.actions,
        given,
        space,
        everywhere=not columns.available,
    )
    if misfit is not None:
        notes.cautions.append(
            f"The propensities in {columns.propensity!r} do not fit the logged actions: {misfit}. They "
            f"must be the probabilities of the actions that were taken; correct them, or pass "
            f"propensity=False to have them estimated."
        )


def _say_what_is_copied(steps: Steps, notes: Notes) -> None:
    """Warn if rows are exact copies of others, beyond what rewards of few values make likely.

    Where chance repeats a reward, the rows differ elsewhere: in the action, if in nothing else. And
    rewards that the state and the action decide are repeated many times.
    """
    there = np.flatnonzero(steps.rewards != 0)
    _, value, counts = np.unique(steps.rewards[there], return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts > 1)
    few = len(repeated) < _VALUES or len(counts) >= (1 - _COPIED) * len(there)
    if few or np.median(counts[repeated]) > _TIMES:
        return
    chosen = repeated[:: -(-len(repeated) // _ROWS)]
    held = np.isin(value, chosen)
    which = _kinds(steps, there[held])
    pairs = np.unique(np.column_stack([value[held], which]), axis=0)
    alike = (np.bincount(pairs[:, 0], minlength=len(counts))[chosen] == 1).mean()
    others = np.bincount(_kinds(steps, there[:: -(-len(there) // _ROWS)]))
    chance = ((others / others.sum()) ** 2).sum()
    error = np.sqrt(chance * (1 - chance) / len(chosen))
    if chance <= _BY_CHANCE and alike >= max(_ALIKE, chance + 4 * error):
        notes.cautions.append(
            f"{len(there) - len(counts)} of the {len(there)} rows with a reward other than 0 are exact "
            f"copies of others, and count as if each were evidence of its own. If they were logged "
            f"twice, drop them (table.drop_duplicates() in pandas)."
        )


def _kinds(steps: Steps, rows: IntArray) -> IntArray:
    """Return codes of the distinct pairs of a state and an action in these rows."""
    both = np.column_stack([steps.states[rows], steps.actions[rows]]).astype(float)
    _, codes = np.unique(both, axis=0, return_inverse=True)
    return np.asarray(codes).ravel()


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks, (n,), the average rank where values are equal."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
