"""Laws of the ladder: invariances, limiting cases, and worlds whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import Log, evaluate
from tailproof.critics.linear import require_room
from tailproof.critics.task import Target, Task
from tailproof.errors import LevelError, MethodError
from tailproof.estimators import ladder as rungs
from tailproof.estimators.sequential import reachable
from tailproof.log.spaces import Discrete

GAMMA = 0.9


def kinked(episodes=40, steps=25, seed=0, noise=0.1):
    """A walk with a cost outside a band: the value has kinks that no polynomial has."""
    rng = np.random.default_rng(seed)
    x, rows = rng.uniform(-2, 2, episodes), []
    for _ in range(steps):
        a = (rng.random(episodes) < np.where(x < 0, 0.7, 0.3)).astype(int)
        r = -np.maximum(np.abs(x) - 0.5, 0) - 0.1 * a
        after = 0.9 * x + 0.5 * (2 * a - 1) + 0.2 * rng.normal(size=episodes)
        rows.append((np.arange(episodes), x, a, r + noise * rng.standard_t(3, episodes), after))
        x = after
    who, x, a, r, after = (np.stack(each, axis=1).ravel() for each in zip(*rows, strict=True))
    clutter = rng.normal(size=(len(x) + 1, 1))
    return Log.from_arrays(
        np.column_stack([x, clutter[:-1]]),
        a,
        r,
        np.column_stack([after, clutter[1:]]),
        episode=who,
        action_space=2,
    )


def steer(states):
    return (states[:, 0] < 0).astype(int)


def truth():
    rng = np.random.default_rng(99)
    x, total, factor = rng.uniform(-2, 2, 200_000), 0.0, 1.0
    for _ in range(80):
        a = (x < 0).astype(int)
        total = total + factor * (-np.maximum(np.abs(x) - 0.5, 0) - 0.1 * a)
        x = 0.9 * x + 0.5 * (2 * a - 1) + 0.2 * rng.normal(size=len(x))
        factor *= GAMMA
    return float(total.mean())


@pytest.fixture(scope="module")
def log():
    return kinked()


@pytest.fixture(scope="module")
def found(log):
    return evaluate(log, steer, gamma=GAMMA)


def rebuilt(log, states=None, next_states=None, actions=None, rewards=None):
    return Log.from_arrays(
        log.states if states is None else states,
        log.actions if actions is None else actions,
        log.rewards if rewards is None else rewards,
        log.next_states if next_states is None else next_states,
        episode=log.episode_of_row,
        action_space=2,
    )


def test_a_kinked_value_is_found_and_the_interval_holds_it(found):
    exact = truth()
    interval = found.interval(0.9)
    assert interval.low <= exact <= interval.high
    assert abs(found.value - exact) < 0.35
    assert found.choice.critic != "polynomials 100 %"


@pytest.mark.parametrize("gamma", [0.9, 0.999, 1 - 1e-6])
def test_a_constant_reward_is_worth_itself_over_one_minus_gamma(log, gamma):
    ones = log.with_rewards(np.ones(log.n_transitions))
    assert evaluate(ones, steer, gamma=gamma).value == pytest.approx(1 / (1 - gamma), rel=1e-6)


@settings(max_examples=4, deadline=None)
@given(st.floats(-50, 50), st.floats(1e-3, 1e3))
def test_shifting_and_scaling_rewards_does_the_same_to_the_value(log, found, shift, scale):
    moved = log.with_rewards(scale * log.rewards + shift)
    expected = scale * found.value + shift / (1 - GAMMA)
    near = 1e-6 * (abs(expected) + scale + abs(shift))
    assert evaluate(moved, steer, gamma=GAMMA).value == pytest.approx(expected, abs=near)


@settings(max_examples=4, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(-3, 3))
def test_units_of_columns_do_not_matter(log, found, first, second, shift):
    scale, move = np.array([first, second]), shift * np.array([first, second])
    other = rebuilt(log, log.states * scale + move, log.next_states * scale + move)
    again = evaluate(other, lambda s: steer((s - move) / scale), gamma=GAMMA)
    assert again.value == pytest.approx(found.value, abs=1e-5)


def test_the_order_of_columns_episodes_and_labels_does_not_matter(log, found):
    swapped = rebuilt(log, log.states[:, ::-1], log.next_states[:, ::-1])
    assert evaluate(swapped, lambda s: steer(s[:, ::-1]), gamma=GAMMA).value == pytest.approx(
        found.value, abs=1e-6
    )
    shuffled = log.take(np.random.default_rng(3).permutation(log.n_episodes))
    assert evaluate(shuffled, steer, gamma=GAMMA).value == pytest.approx(found.value, abs=1e-6)
    relabelled = rebuilt(log, actions=1 - log.actions)
    again = evaluate(relabelled, lambda s: 1 - steer(s), gamma=GAMMA)
    assert again.value == pytest.approx(found.value, abs=1e-6)


def test_a_column_of_noise_moves_the_value_by_no_more_than_chance(log, found):
    rng = np.random.default_rng(5)
    extra = rng.normal(size=(log.n_transitions, 2))
    noisy = rebuilt(
        log, np.hstack([log.states, extra[:, :1]]), np.hstack([log.next_states, extra[:, 1:]])
    )
    again = evaluate(noisy, steer, gamma=GAMMA)
    assert abs(again.value - found.value) < 3 * found.choice.standard_error


def test_the_gain_is_the_difference_to_what_was_logged(found):
    gain = found.choice.gain
    assert gain.value == pytest.approx(found.value - found.choice.logged_value)
    assert gain.lower_bound(0.9).value < gain.value < gain.interval(0.9).high
    assert gain.lower_bound(0.9).value > 0  # steering to the middle is much better than the log


def test_evaluating_what_was_done_gains_nothing():
    log = kinked(seed=8)

    class Behaviour:
        def probabilities(self, states):
            one = np.where(states[:, 0] < 0, 0.7, 0.3)
            return np.column_stack([1 - one, one])

    gain = evaluate(log, Behaviour(), gamma=GAMMA).choice.gain
    interval = gain.interval(0.95)
    assert interval.low < 0 < interval.high


def test_features_that_are_too_many_to_keep_are_made_again(log, found, monkeypatch):
    monkeypatch.setattr(rungs, "_KEPT", 0)
    again = evaluate(log, steer, gamma=GAMMA)
    assert again.value == found.value
    assert again.interval(0.9) == found.interval(0.9)


def test_too_few_episodes_give_a_value_and_say_why_there_is_no_interval():
    few = kinked(episodes=6)
    found = evaluate(few, steer, gamma=GAMMA)
    assert np.isfinite(found.value)
    with pytest.raises(LevelError, match="too few independent episodes: 6, where 10"):
        found.interval(0.9)


@pytest.mark.parametrize("ends", [False, True])
def test_the_range_of_values_is_that_of_rewards_over_the_horizon(ends):
    log = kinked(episodes=12, steps=5)
    last = np.zeros(log.n_transitions, dtype=bool)
    last[log.starts[1:] - 1] = ends
    chosen = replace(log, terminated=last, rewards=-1 - np.abs(log.rewards))
    least, most = reachable(Target.of(Task(chosen, GAMMA, steer)))
    assert least == pytest.approx(chosen.rewards.min() * 10)
    assert most == pytest.approx(0.0 if ends else chosen.rewards.max() * 10)


def test_first_states_of_ones_own_are_used(log):
    middle = evaluate(log, steer, gamma=GAMMA, initial_states=np.zeros((50, 2)))
    edge = evaluate(log, steer, gamma=GAMMA, initial_states=np.full((50, 2), [2.0, 0.0]))
    assert middle.value > edge.value + 0.5


def test_continuous_actions_need_no_features():
    rng = np.random.default_rng(2)
    x = rng.normal(size=2001)
    a = rng.normal(size=2000)
    after = 0.5 * x[:-1] + 0.3 * a + 0.1 * rng.normal(size=2000)
    log = Log.from_arrays(
        x[:-1, None],
        a[:, None],
        -((x[:-1]) ** 2) - a**2,
        after[:, None],
        episode=np.arange(2000) // 20,
    )
    still = evaluate(log, lambda s: np.zeros((len(s), 1)), gamma=0.5)
    assert still.choice.gain.value > 0
    assert still.interval(0.9).low < still.value < still.interval(0.9).high


def test_a_log_of_many_actions_is_evaluated_in_little_memory():
    rng = np.random.default_rng(0)
    n, actions = 1_500, 300
    states, taken = rng.normal(size=(n, 2)), rng.integers(actions, size=n)
    log = Log.from_arrays(
        states,
        taken,
        states[:, 0] + rng.normal(size=n),
        rng.normal(size=(n, 2)),
        episode=np.arange(n) // 3,
        terminated=np.arange(n) % 3 == 2,
        action_space=Discrete(actions),
    )
    assert rungs._waves(log).size <= rungs.MOST_FEATURES


def test_matrices_that_do_not_fit_into_memory_are_refused_before():
    with pytest.raises(MethodError) as refused:
        require_room(60, 10**6)
    assert refused.value.argument == "features"
