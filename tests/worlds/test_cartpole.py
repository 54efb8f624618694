import math
from importlib.resources import files

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tailproof.errors import TailproofError
from tailproof.noise import StudentT
from tailproof.policies.forms import Uniform
from tailproof.worlds import CartPole
from tailproof.worlds.cartpole import (
    TARGET_TRUTH,
    PPOPolicy,
    fallen,
    push,
    reward,
    shipped_policy,
)
from tailproof.worlds.rollout import rollout, simulated_returns

STANDING = st.tuples(
    st.floats(-2.4, 2.4), st.floats(-3, 3), st.floats(-0.2, 0.2), st.floats(-3, 3)
).map(np.array)


@pytest.fixture(scope="module")
def gym_cartpole():
    environment = gymnasium.make("CartPole-v1").unwrapped
    environment.reset(seed=0)
    return environment


@given(state=STANDING, action=st.integers(0, 1))
def test_dynamics_are_those_of_gymnasium(gym_cartpole, state, action):
    gym_cartpole.state = state
    gym_cartpole.steps_beyond_terminated = None
    _, _, terminated, _, _ = gym_cartpole.step(action)
    moved = push(state[None], np.array([action]))
    assert np.allclose(moved[0], gym_cartpole.state, rtol=1e-12, atol=1e-12)
    assert fallen(moved)[0] == terminated


@given(state=STANDING, action=st.integers(0, 1))
def test_without_state_noise_a_step_is_a_push_and_its_reward(state, action):
    states, actions = state[None], np.array([action])
    next_states, rewards, terminated = CartPole(state_noise=0).step(
        states, actions, np.random.default_rng(0)
    )
    if not fallen(states)[0]:
        assert np.array_equal(next_states, push(states, actions))
        assert np.array_equal(rewards, reward(next_states))
    assert not terminated.any()


def test_state_noise_is_normal_on_all_coordinates_and_not_in_the_reward():
    states = np.random.default_rng(0).uniform(-0.1, 0.1, (20_000, 4))
    actions = np.random.default_rng(1).integers(0, 2, 20_000)
    next_states, rewards, _ = CartPole().step(states, actions, np.random.default_rng(2))
    moved = push(states, actions)
    for column in ((next_states - moved) / 0.01).T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    assert np.array_equal(rewards, reward(moved))


def test_a_fallen_pole_stays_and_earns_nothing():
    down = np.array([[0.0, 1, 0.3, 1], [-2.5, 0, 0, 0], [0, 0, 0, 0]])
    next_states, rewards, terminated = CartPole().step(
        down, np.array([0, 1, 1]), np.random.default_rng(0)
    )
    assert np.array_equal(next_states[:2], down[:2])
    assert (next_states[2] != down[2]).all()
    assert rewards[:2].tolist() == [0, 0]
    assert rewards[2] == 1
    assert not terminated.any()


def test_random_pushes_fall_and_the_log_goes_on_without_a_terminal_flag():
    log = CartPole().log(20, policy=Uniform(2), seed=1)
    assert log.lengths.tolist() == [100] * 20
    assert not log.terminated.any()
    down = fallen(log.states)
    fell = down.reshape(20, 100)
    assert (fell[:, 1:] >= fell[:, :-1]).all()
    assert fell[:, -1].mean() > 0.5
    assert (log.rewards[down] == 0).all()
    assert np.array_equal(log.rewards[~down], reward(push(log.states, log.actions))[~down])
    assert np.array_equal(log.next_states[down], log.states[down])


def test_start_is_uniform():
    states = CartPole().start(5000, np.random.default_rng(0))
    assert stats.kstest(states.ravel(), stats.uniform(-0.05, 0.1).cdf).pvalue > 1e-3


def test_reward_is_one_at_rest_and_half_at_either_limit():
    limits = np.array([[0.0, 5, 0, 5], [2.4, 0, 0, 0], [0, 0, -math.radians(12), 0]])
    assert np.allclose(reward(limits), [1, 0.5, 0.5])


def test_log_holds_trajectories_and_the_behaviour_probabilities():
    world = CartPole()
    log = world.log(200, seed=1)
    assert log.states.shape == (20_000, 4)
    assert log.state_names == ("position", "velocity", "angle", "angular velocity")
    paths = log.states.reshape(200, 100, 4)
    assert np.array_equal(log.next_states.reshape(200, 100, 4)[:, :-1], paths[:, 1:])
    chances = world.behaviour(0.05).probabilities(log.states)
    assert np.array_equal(log.propensity, chances[np.arange(20_000), log.actions])


def test_exploration_is_drawn_for_every_episode_and_step():
    log = CartPole().log(500, epsilon=0.2, seed=1)
    explored = (log.actions != shipped_policy().greedy(log.states)).reshape(500, 100)
    # Under independent draws the counts of a step, and of an episode, are binomial with p = ε/2.
    for counts, size in ((explored.sum(axis=0), 500), (explored.sum(axis=1), 100)):
        variance = size * 0.1 * 0.9
        statistic = ((counts - size * 0.1) ** 2 / variance).sum()
        assert 1e-3 < stats.chi2.sf(statistic, len(counts)) < 1 - 1e-3


def test_one_seed_is_one_log_and_the_noise_does_not_move_the_trajectories():
    world = CartPole()
    clean, again, other = world.log(5, seed=1), world.log(5, seed=1), world.log(5, seed=2)
    noisy = world.log(5, seed=1, noise=StudentT(1.0))
    assert np.array_equal(clean.states, again.states)
    assert np.array_equal(clean.rewards, again.rewards)
    assert not np.array_equal(clean.states, other.states)
    assert np.array_equal(clean.states, noisy.states)
    assert (clean.rewards != noisy.rewards).all()
    added = noisy.rewards - clean.rewards
    assert np.array_equal(added, world.log(5, seed=1, noise=StudentT(1.0)).rewards - clean.rewards)


def test_shipped_policy_is_small_symmetric_arithmetic_without_pickle():
    policy = shipped_policy()
    assert repr(policy) == "PPOPolicy(4 → 16 → 16 → 2)"
    path = files("tailproof.worlds") / "data" / "cartpole_ppo.npz"
    assert len(path.read_bytes()) < 50_000
    states = np.random.default_rng(0).normal(size=(500, 4))
    chances = policy.probabilities(states)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(chances.argmax(axis=1), policy.greedy(states))


def test_probabilities_are_the_softmax_of_a_tanh_network():
    weights, biases = np.array([[1.0, -1.0]], dtype="f4"), np.array([0.5, 0.0], dtype="f4")
    layers = ((np.eye(1, dtype="f4"), np.zeros(1, dtype="f4")), (weights, biases))
    chances = PPOPolicy(layers).probabilities(np.array([[2.0]]))
    gap = 2 * math.tanh(2.0) + 0.5
    assert chances[0, 0] == pytest.approx(1 / (1 + math.exp(-gap)), rel=1e-6)


def test_target_balances_and_is_worth_the_papers_optimum():
    world = CartPole()
    log = rollout(world, world.target(), episodes=500)
    assert fallen(log.next_states).sum() == 0
    value = world.value(world.target(), episodes=1000)
    assert value == pytest.approx(62.9, abs=0.1)
    assert value > world.value(world.behaviour(0.05), episodes=1000)


def test_value_is_the_mean_discounted_return_of_the_log():
    world = CartPole()
    log = world.log(50, policy=world.target(), seed=3)
    returns = log.rewards.reshape(50, 100) @ 0.9 ** np.arange(100)
    # `log` and `value` split their seed alike.
    assert world.value(world.target(), episodes=50, gamma=0.9, seed=3) == pytest.approx(
        returns.mean(), rel=1e-12
    )


def test_stored_truth_is_what_simulation_gives():
    world = CartPole()
    assert world.truth() is TARGET_TRUTH
    again = world.truth(world.target(), episodes=600, seed=7)
    assert again.steps == TARGET_TRUTH.steps
    error = math.hypot(again.standard_error, TARGET_TRUTH.standard_error)
    assert abs(again.value - TARGET_TRUTH.value) < 4 * error


def test_truth_of_another_world_is_simulated():
    still = CartPole(state_noise=0).truth(episodes=100)
    assert still.value > TARGET_TRUTH.value
    assert CartPole().truth(gamma=0.0, episodes=100).steps == 1


def test_truth_stops_where_the_rest_does_not_matter():
    world = CartPole()
    short = world.truth(gamma=0.9, episodes=50, seed=1)
    long = simulated_returns(
        world, world.target(), episodes=50, steps=2 * short.steps, gamma=0.9, seed=1
    )
    assert short.value == pytest.approx(long.mean(), abs=1e-4)


def test_truth_needs_a_discount():
    with pytest.raises(TailproofError, match=r"gamma must be a number in \[0, 1\).*1\.0"):
        CartPole().truth(gamma=1.0)


def test_negative_state_noise_is_refused():
    with pytest.raises(
        TailproofError, match=r"state_noise must be a finite number of at least 0\."
    ):
        CartPole(state_noise=-0.1)
