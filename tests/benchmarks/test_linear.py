import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.battery.linear import LinearMDP
from tailproof.noise import Gaussian
from tailproof.policies.forms import EpsilonGreedy, Uniform
from tailproof.worlds.rollout import simulated_returns

SEEDS = st.integers(0, 2**32 - 1)
WORLD = LinearMDP.random(seed=5)


@given(seed=SEEDS)
def test_features_lie_in_the_simplex_everywhere(seed):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(20, 3)) * 10
    phi = WORLD.features(states, rng.integers(0, 3, 20))
    assert phi.shape == (20, WORLD.features.size)
    assert (phi >= 0).all()
    assert np.allclose(phi.sum(axis=1), 1)


def test_features_at_all_actions_are_those_of_each_action():
    together = WORLD.features.at_all_actions(WORLD.atoms)
    for action in range(3):
        alone = WORLD.features(WORLD.atoms, np.full(len(WORLD.atoms), action))
        assert np.allclose(together[:, action], alone)


@settings(max_examples=25)
@given(seed=SEEDS, gamma=st.floats(0, 0.99))
def test_every_action_value_is_linear_in_the_features(seed, gamma):
    world = LinearMDP.random(seed=seed, atoms=12)
    policy = EpsilonGreedy(lambda states: (states[:, 0] > 0).astype(int), 0.3, n_actions=3)
    coefficients = world.coefficients(policy, gamma=gamma)
    linear = world.features.at_all_actions(world.atoms) @ coefficients
    exact = world.latent.action_values(world.tabulate(policy), gamma=gamma)
    assert np.allclose(linear, exact, atol=1e-8)
    state_values = (world.tabulate(policy).table * linear).sum(axis=1)
    assert world.value(policy, gamma=gamma) == pytest.approx(world.initial @ state_values)


@settings(max_examples=25)
@given(seed=SEEDS, gamma=st.floats(0, 0.99))
def test_optimal_policy_is_the_latent_one_and_greedy_in_its_own_values(seed, gamma):
    world = LinearMDP.random(seed=seed, atoms=12)
    best = world.optimal(gamma=gamma)
    latent_best = world.latent.optimal(gamma=gamma)
    assert world.value(best, gamma=gamma) == pytest.approx(
        world.latent.value(latent_best, gamma=gamma)
    )
    assert np.allclose(world.coefficients(best, gamma=gamma), best.coefficients, atol=1e-7)
    assert world.value(best, gamma=gamma) >= world.value(Uniform(3), gamma=gamma)


def test_steps_follow_the_mixture():
    atom, action, n = 7, 1, 40_000
    states = np.repeat(WORLD.atoms[atom : atom + 1], n, axis=0)
    actions = np.full(n, action)
    next_states, rewards, terminated = WORLD.step(states, actions, np.random.default_rng(0))
    landed = (next_states[:, None, 0] == WORLD.atoms[None, :, 0]).argmax(axis=1)
    assert np.array_equal(WORLD.atoms[landed], next_states)
    law = WORLD.latent.transitions[atom, action]
    frequency = np.bincount(landed, minlength=len(law)) / n
    assert (np.abs(frequency - law) <= 5 * np.sqrt(law / n)).all()
    assert np.allclose(rewards, WORLD.latent.rewards[atom, action])
    assert not terminated.any()


def test_simulated_returns_have_the_exact_mean():
    policy = WORLD.optimal(gamma=0.9)
    returns = simulated_returns(WORLD, policy, episodes=3000, steps=120, gamma=0.9, seed=1)
    error = returns.std() / math.sqrt(len(returns))
    assert abs(returns.mean() - WORLD.value(policy, gamma=0.9)) < 4 * error


def test_a_log_has_linear_rewards_and_propensities_and_is_repeatable():
    log, again = WORLD.log(10, 20, seed=1), WORLD.log(10, 20, seed=1)
    noisy = WORLD.log(10, 20, seed=1, noise=Gaussian())
    assert log.states.shape == (200, 3)
    assert np.allclose(log.rewards, WORLD.features(log.states, log.actions) @ WORLD.theta)
    assert np.allclose(log.propensity, 1 / 3)
    assert np.array_equal(log.next_states, again.next_states)
    assert np.array_equal(log.next_states, noisy.next_states)
    assert (noisy.rewards != log.rewards).all()
    assert repr(WORLD) == "LinearMDP(6 features, states in R^3, 3 actions)"
