"""What looks like a mistake in the steps of a log: reported or warned about, never changed."""

from __future__ import annotations

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.data.misfit import propensity_misfit
from tailproof.data.spaces import Discrete
from tailproof.sources.columns import Columns
from tailproof.sources.conventions import listed
from tailproof.sources.steps import Notes, Steps

_SAME = 0.999  # rank correlation with the reward from which a state is doubted
_ENOUGH, _ROWS = 100, 20_000  # rows that say something, and rows that say enough


def say_what_is_odd(steps: Steps, columns: Columns, notes: Notes) -> None:
    """Report costs, propensities that do not fit, and states that decide the reward."""
    _say_what_is_a_cost(steps, columns, notes)
    _say_what_decides_the_reward(steps, notes)
    _doubt_propensities(steps, columns, notes)


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


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks, (n,), the average rank where values are equal."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
