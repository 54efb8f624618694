"""Columns that critics see: averages of the episode so far, which start anew with each episode."""

from itertools import pairwise

import numpy as np
import pytest

from tailproof import Log
from tailproof.log.columns import CriticColumns, decayed


def log_of(rng, lengths, *, continuous=False):
    n = sum(lengths)
    actions = rng.normal(size=(n, 2)) if continuous else rng.integers(3, size=n)
    return Log.from_arrays(
        rng.normal(size=(n, 2)), actions, rng.standard_t(2, n), rng.normal(size=(n, 2)),
        episode=np.repeat(range(len(lengths)), lengths),
    )  # fmt: skip


def test_averages_are_those_of_a_loop_within_each_episode(rng):
    lengths = (3, 1, 40, 7)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    values = rng.normal(size=(starts[-1], 2))
    found = decayed(values, starts, 0.8)
    for first, last in pairwise(starts.tolist()):
        mean = np.zeros(2)
        for row in range(first, last):
            mean = 0.8 * mean + 0.2 * values[row]
            np.testing.assert_allclose(found[row], mean, atol=1e-12)


@pytest.mark.parametrize("continuous", [False, True])
def test_what_a_row_leaves_is_what_the_next_row_begins_with(continuous, rng):
    log = log_of(rng, (4, 9, 2), continuous=continuous)
    columns = CriticColumns(True, ("actions", "rewards", "states"), (0.5, 0.8))
    wider = columns.added_to(log)
    kinds = 2 + 1 + 2  # two actions (of three, or of two dimensions), the reward, two states
    assert wider.states.shape == (15, 2 + 2 * kinds + 1)
    assert len(wider.state_names) == wider.states.shape[1]
    before, after = wider.states[:, 2:], wider.next_states[:, 2:]
    goes_on = np.append(np.diff(log.episode_of_row) == 0, False)
    np.testing.assert_array_equal(after[goes_on], before[np.roll(goes_on, 1)])
    assert not before[log.starts[:-1]].any()


def test_no_row_sees_its_own_reward_or_later_ones(rng):
    log = log_of(rng, (6, 6))
    columns = CriticColumns(past=("rewards",), decays=(0.8,))
    other = log.with_rewards(np.where(log.step_of_row >= 3, log.rewards[::-1], log.rewards))
    early = log.step_of_row <= 3
    rank = [columns.added_to(each).states[early, 2].argsort().tolist() for each in (log, other)]
    assert rank[0] == rank[1]


def test_constant_columns_are_left_out_and_no_columns_are_false(rng):
    log = log_of(rng, (5, 5))
    quiet = log.with_rewards(np.zeros(10))
    wider = CriticColumns(past=("rewards",), decays=(0.8,)).added_to(quiet)
    assert wider.states.shape == (10, 2)
    assert not CriticColumns()
    assert CriticColumns(step=True)
