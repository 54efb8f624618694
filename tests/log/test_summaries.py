"""Averages of the episode so far: as a whole log and step by step they are the same."""

import numpy as np
import pytest

from tailproof import Log
from tailproof.files import from_parts, to_parts
from tailproof.log.columns import CriticColumns, Summaries
from tailproof.rules import RULES

COLUMNS = CriticColumns(past=("actions", "rewards", "states"), decays=(0.5, 0.8))


def some_log(rng, *, continuous: bool) -> Log:
    episode = np.repeat(range(12), 7)
    n = len(episode)
    actions = rng.normal(size=(n, 2)) if continuous else rng.integers(3, size=n)
    states = np.column_stack([rng.normal(size=n), np.ones(n)])  # a constant is not averaged
    return Log.from_arrays(states, actions, rng.standard_t(2, n), states, episode=episode)


@pytest.mark.parametrize("continuous", [False, True])
def test_updates_step_by_step_give_the_columns_of_the_log(rng, continuous):
    log = some_log(rng, continuous=continuous)
    past = Summaries.fit(log, COLUMNS)
    wider, width = past.added_to(log), log.states.shape[1]
    assert wider.state_names[width:] == past.names
    assert len(past.names) == 2 * (2 + 1 + 1)
    for start, end in zip(log.starts[:-1], log.starts[1:], strict=True):
        kept = past.first
        for row in range(start, end):
            np.testing.assert_allclose(wider.states[row, width:], kept, atol=1e-12)
            kept = past.updated(kept, log.states[row], log.actions[row], log.rewards[row])
            np.testing.assert_allclose(wider.next_states[row, width:], kept, atol=1e-12)


def test_of_very_many_actions_the_most_frequent_have_an_average(rng):
    actions = rng.permutation(np.repeat(range(60), range(1, 61)))
    n = len(actions)
    log = Log.from_arrays(
        np.zeros((n, 1)), actions, np.arange(n), np.zeros((n, 1)), episode=np.zeros(n)
    )
    past = Summaries.fit(log, CriticColumns(past=("actions",), decays=(0.5,)))
    assert past.shown.tolist() == list(range(59 - RULES.tree_columns, 59))


def test_they_are_saved_whole(rng):
    log = some_log(rng, continuous=False)
    past, arrays = Summaries.fit(log, COLUMNS), {}
    again = from_parts(to_parts(past, arrays), arrays)
    assert (again.added_to(log).states == past.added_to(log).states).all()
