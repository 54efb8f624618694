"""Ends by the clock are recognised, and the default counts the steps then."""

from dataclasses import replace

import numpy as np
import pytest

from examples.storm import storage
from tailproof import Log, evaluate
from tailproof.errors import LogError
from tailproof.log.columns import CriticColumns
from tailproof.log.horizon import ends_by_the_clock, leading_columns, unknown_rest
from tailproof.policies.forms import Always, Uniform
from tailproof.rules import RULES
from tailproof.worlds import CartPole

EPISODES, STEPS = 60, 6
WITH_STEP = CriticColumns(step=True).added_to
STEP = np.tile(np.arange(STEPS, dtype=float), EPISODES)


def ragged(lengths, *, ends="terminated", seed=0, states=None, rewards=None):
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    n = len(episode)
    states = rng.normal(size=(n, 2)) if states is None else states
    last = np.append(episode[1:] != episode[:-1], True)
    return Log.from_arrays(
        states, rng.integers(2, size=n), rng.normal(size=n) if rewards is None else rewards,
        states + 0.1, episode=episode, **{ends: last},
    )  # fmt: skip


def one_end_of_many():
    """Episodes of one length, all but the first cut off: one end is no clock."""
    log = log_of(np.random.default_rng(7).normal(size=(EPISODES * STEPS, 1)), ends="truncated")
    return replace(log, terminated=np.arange(log.n_transitions) == STEPS - 1)


def log_of(states, *, ends="terminated", length=STEPS):
    n = len(states)
    lengths = np.full(-(-n // length), length)
    lengths[-1] -= lengths.sum() - n
    return ragged(lengths, ends=ends, states=states)


def test_steps_count_from_the_start_of_each_episode():
    log = ragged([2, 1, 3])
    assert log.step_of_row.tolist() == [0, 1, 0, 0, 1, 2]
    timed = WITH_STEP(log)
    np.testing.assert_array_equal(timed.states[:, :-1], log.states)
    np.testing.assert_array_equal(timed.next_states[:, -1], log.step_of_row + 1)
    assert len(timed.state_names) == 3


def test_states_that_repeat_foresee_nothing(rng):
    assert ends_by_the_clock(log_of(rng.integers(3, size=(EPISODES * STEPS, 1))))


def test_a_constant_column_is_no_clock(rng):
    states = np.column_stack([rng.normal(size=EPISODES * STEPS), np.ones(EPISODES * STEPS)])
    assert ends_by_the_clock(log_of(states))


QUIET = {
    "a clock": lambda x: log_of(np.column_stack([x, STEP])),
    "a clock that runs down": lambda x: log_of(np.column_stack([-2 * STEP, x])),
    "layers of states": lambda x: log_of(2 * STEP[:, None] + (x[:, None] > 0)),
    "ends that are cut": lambda x: log_of(x, ends="truncated"),
    "one end of many": lambda x: one_end_of_many(),
    "one episode": lambda x: log_of(x, length=len(x)),
    "one step": lambda x: log_of(x, length=1),
    "episodes of all lengths": lambda x: ragged(np.random.default_rng(1).geometric(0.2, size=90)),
    "a world that falls": lambda x: CartPole().log(episodes=20, seed=0),
    "a day of storage": lambda x: storage.log(year=2021, hub="HB_WEST", seed=0),
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_said_of(name, rng):
    assert not ends_by_the_clock(QUIET[name](rng.normal(size=EPISODES * STEPS)))


def test_a_longest_length_that_many_reach_is_a_clock():
    lengths = np.random.default_rng(2).geometric(0.1, size=200).clip(max=8)
    assert ends_by_the_clock(ragged(lengths))
    assert not ends_by_the_clock(ragged(lengths, ends="truncated"))


@pytest.mark.parametrize(
    "lengths",
    [np.repeat([3, 5, 9], [50, 40, 5]), np.random.default_rng(5).integers(3, 9, size=150)],
    ids=["three lengths", "three to eight"],
)
def test_lengths_that_no_state_foresees_are_a_clock(lengths):
    assert ends_by_the_clock(ragged(lengths))
    assert not ends_by_the_clock(WITH_STEP(ragged(lengths)))


def test_ends_that_the_state_foresees_are_no_clock(rng):
    """A walk that ends at 3 takes at least three steps, and the state shows why."""
    walks = [np.cumsum(rng.choice([0, 1], size=200)) for _ in range(150)]
    walks = [walk[: np.argmax(walk == 3)] for walk in walks]
    states = np.concatenate([np.append(0, walk) for walk in walks])[:, None].astype(float)
    assert not ends_by_the_clock(ragged([len(walk) + 1 for walk in walks], states=states))


def test_random_lengths_are_valued_as_with_the_step_in_the_state():
    """With L from 1 to 5 and a reward of 1 a step, J = E L = 3; a constant rate of ends gives less."""
    lengths = np.random.default_rng(6).integers(1, 6, size=400)
    log = ragged(lengths, rewards=np.ones(lengths.sum()))
    assert evaluate(log, Uniform(2), gamma=1.0).value == pytest.approx(lengths.mean(), rel=0.02)


@pytest.mark.parametrize("gamma", [0.8, 1.0])
def test_the_default_finds_the_value_of_a_fixed_horizon(gamma):
    """A reward of 1 a step, noise added: J = Σγᵗ over the steps, which LSTD on states alone misses."""
    lengths = np.full(200, 8)
    rng = np.random.default_rng(3)
    log = ragged(lengths, rewards=1 + 0.1 * rng.standard_t(3, size=lengths.sum()))
    truth = float((gamma ** np.arange(8)).sum())
    estimate = evaluate(log, Uniform(2), gamma=gamma)
    assert estimate.value == pytest.approx(truth, rel=0.01)
    assert estimate.logged_value == pytest.approx(truth, rel=0.01)
    assert estimate.interval(0.99).low <= truth <= estimate.interval(0.99).high


def test_counting_steps_is_the_same_as_a_step_in_the_state():
    rng = np.random.default_rng(4)
    log = ragged(np.full(150, 6))
    log = log.with_rewards(log.actions * (6 - log.step_of_row) + 0.1 * rng.normal(size=900))
    counted = evaluate(log, Always(1), gamma=0.9)
    given = evaluate(WITH_STEP(log), Always(1), gamma=0.9)
    assert counted.value == pytest.approx(given.value, rel=1e-6)
    assert counted.standard_error == pytest.approx(given.standard_error, rel=1e-3)


def test_the_policy_never_sees_the_step():
    seen = set()

    def policy(states):
        seen.add(states.shape[1])
        return np.zeros(len(states), dtype=int)

    evaluate(ragged(np.full(60, 5)), policy, gamma=0.9)
    assert seen == {2}


def test_starts_of_ones_own_begin_at_step_zero():
    log = ragged(np.full(100, 4), rewards=np.ones(400))
    assert evaluate(
        log, Uniform(2), gamma=1.0, initial_states=np.zeros((3, 2))
    ).value == pytest.approx(4, rel=1e-3)


def days(*, ends="truncated", hours=24, count=40):
    """Days whose states hold the hour: no row tells what follows the last one."""
    hour = np.tile(np.arange(hours, dtype=float), count)
    states = np.column_stack([np.random.default_rng(8).normal(size=len(hour)), hour])
    log = ragged(np.full(count, hours), ends=ends, states=states)
    return replace(log, next_states=states + np.array([0.0, 1.0]))


def test_a_rest_that_no_row_tells_is_refused():
    with pytest.raises(
        LogError, match="40 of 40 episodes were cut off where 'state 1' is 24, and no row"
    ):
        evaluate(days(), Uniform(2), gamma=0.99)
    assert evaluate(days(ends="terminated"), Uniform(2), gamma=0.99).choice.declined is None


@pytest.mark.parametrize(
    ("log", "gamma"),
    [
        (days(), 0.9),  # 0.9²⁴ = 0.08: little is left after a day
        (days(ends="terminated"), 0.99),
        (
            log_of(np.random.default_rng(9).normal(size=(EPISODES * STEPS, 3)), ends="truncated"),
            0.99,
        ),
        (CartPole().log(episodes=20, seed=0), 0.99),
    ],
    ids=["a short sight", "ends for good", "states that come again", "a world"],
)
def test_a_rest_that_rows_tell_is_known(log, gamma):
    assert unknown_rest(log, gamma) is None


def test_trees_on_a_wide_table_keep_the_columns_that_matter():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(600, 60))
    target = inputs[:, 7] * (inputs[:, 31] > 0)
    kept = leading_columns(inputs, target, smallest=5)
    assert len(kept) == RULES.tree_columns
    assert {7, 31} <= set(kept.tolist())
    assert leading_columns(inputs[:, :9], target, smallest=5).tolist() == list(range(9))
