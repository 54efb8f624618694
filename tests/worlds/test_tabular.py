import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import TailproofError
from tailproof.noise import StudentT
from tailproof.policies.forms import EpsilonGreedy, Uniform
from tailproof.worlds import TabularMDP
from tailproof.worlds.rollout import simulated_returns
from tailproof.worlds.tabular import TabularPolicy

SEEDS = st.integers(0, 2**32 - 1)
GAMMAS = st.floats(0, 0.99)
WORLDS = st.builds(
    TabularMDP.random,
    st.integers(1, 6),
    st.integers(1, 4),
    seed=SEEDS,
    termination=st.sampled_from([0.0, 0.2]),
)


def random_policy(world, seed=0):
    rng = np.random.default_rng(seed)
    return TabularPolicy(rng.dirichlet(np.ones(world.action_space.n), size=world.n_states))


def ahead(world, state_values):
    return (1 - world.termination) * (world.transitions @ state_values)


@given(world=WORLDS, gamma=GAMMAS)
def test_bellman_equation_holds(world, gamma):
    policy = random_policy(world)
    values = world.action_values(policy, gamma=gamma)
    state_values = (policy.table * values).sum(axis=1)
    assert np.allclose(values, world.rewards + gamma * ahead(world, state_values), atol=1e-9)
    assert world.value(policy, gamma=gamma) == pytest.approx(world.initial @ state_values)


@given(world=WORLDS, gamma=GAMMAS)
def test_optimal_policy_solves_the_bellman_optimality_equation(world, gamma):
    best = world.optimal(gamma=gamma)
    values = world.action_values(best, gamma=gamma)
    target = world.rewards + gamma * ahead(world, values.max(axis=1))
    assert np.allclose(values, target, atol=1e-7)


@settings(max_examples=20)
@given(seed=SEEDS, gamma=GAMMAS)
def test_no_deterministic_policy_beats_the_optimal_one_in_any_state(seed, gamma):
    world = TabularMDP.random(3, 2, seed=seed)
    best = world.action_values(world.optimal(gamma=gamma), gamma=gamma).max(axis=1)
    for choice in product(range(2), repeat=3):
        policy = TabularPolicy(np.eye(2)[list(choice)])
        values = world.action_values(policy, gamma=gamma)
        assert (values[np.arange(3), list(choice)] <= best + 1e-8).all()


@given(world=WORLDS, gamma=GAMMAS)
def test_occupancy_is_a_law_that_gives_the_value(world, gamma):
    policy = random_policy(world)
    occupancy = world.occupancy(policy, gamma=gamma)
    assert (occupancy >= -1e-12).all()
    if world.termination.max() == 0:
        assert occupancy.sum() == pytest.approx(1)
    else:
        assert occupancy.sum() <= 1 + 1e-12
    assert (occupancy * world.rewards).sum() / (1 - gamma) == pytest.approx(
        world.value(policy, gamma=gamma)
    )


@given(world=WORLDS, gamma=GAMMAS)
def test_ratio_reweights_the_log_to_the_policy(world, gamma):
    policy, behaviour = random_policy(world), Uniform(world.action_space.n)
    ratio = world.ratio(policy, behaviour, gamma=gamma, steps=7)
    logged = world.logged_probabilities(behaviour, steps=7)
    assert logged.sum() == pytest.approx(1)
    seen = logged > 0
    mean = (logged[seen] * ratio[seen] * world.rewards[seen]).sum()
    if np.isfinite(ratio).all():
        assert mean / (1 - gamma) == pytest.approx(world.value(policy, gamma=gamma))


def test_ratio_of_a_policy_to_its_own_first_step_is_one():
    world = TabularMDP.random(4, 2, seed=1)
    policy = random_policy(world)
    assert np.allclose(world.ratio(policy, policy, gamma=0.0, steps=1), 1)


def test_ratio_is_infinite_where_the_log_never_goes():
    world = TabularMDP.random(4, 2, seed=1)
    only_first, only_second = (TabularPolicy(np.eye(2)[[a] * 4]) for a in (0, 1))
    ratio = world.ratio(only_second, only_first, gamma=0.5)
    assert (ratio[:, 0] == 0).all()
    assert np.isinf(ratio[:, 1]).all()


def test_without_discount_a_geometric_episode_is_worth_its_mean_length():
    world = TabularMDP(
        np.ones((1, 1, 1)), np.full((1, 1), 2.0), np.ones(1), termination=np.array(0.25)
    )
    assert world.value(Uniform(1), gamma=1.0) == pytest.approx(2 / 0.25)
    log = world.log(4000, steps=200, seed=1)
    assert log.lengths.mean() == pytest.approx(4, abs=4 * math.sqrt(12 / 4000))
    assert log.always_terminates


def test_an_absorbing_state_without_reward_ends_the_value():
    transitions = np.zeros((2, 1, 2))
    transitions[:, :, 1] = 1
    world = TabularMDP(transitions, np.array([[3.0], [0.0]]), np.array([1.0, 0.0]))
    assert world.value(Uniform(1), gamma=0.99) == pytest.approx(3)
    log = world.log(5, steps=4)
    assert log.rewards.reshape(5, 4).tolist() == [[3, 0, 0, 0]] * 5


@pytest.mark.parametrize("termination", [0.0, 0.1])
def test_simulated_returns_have_the_exact_mean(termination):
    world = TabularMDP.random(5, 2, seed=3, termination=termination)
    policy = random_policy(world)
    returns = simulated_returns(world, policy, episodes=4000, steps=120, gamma=0.9, seed=1)
    error = returns.std() / math.sqrt(len(returns))
    assert abs(returns.mean() - world.value(policy, gamma=0.9)) < 4 * error


def test_a_log_has_the_logged_probabilities():
    world = TabularMDP.random(4, 2, seed=2, termination=0.05)
    behaviour = random_policy(world)
    log = world.log(5000, steps=10, behaviour=behaviour, seed=1)
    counts = np.zeros((4, 2))
    np.add.at(counts, (log.states.argmax(axis=1), log.actions), 1)
    # Steps of an episode depend on each other: allow for their mean length of about eight.
    spread = 4 * np.sqrt(10 / log.n_transitions)
    law = world.logged_probabilities(behaviour, steps=10)
    assert np.abs(counts / log.n_transitions - law).max() < spread * np.sqrt(law.max())


def test_a_log_is_one_hot_with_mean_rewards_and_propensities():
    world = TabularMDP.random(6, 3, seed=2)
    behaviour = EpsilonGreedy(world.optimal(gamma=0.9), 0.4, n_actions=3)
    log = world.log(30, steps=20, behaviour=behaviour, seed=1)
    assert np.array_equal(np.unique(log.states), [0, 1])
    assert (log.states.sum(axis=1) == 1).all()
    state = log.states.argmax(axis=1)
    assert np.array_equal(log.rewards, world.rewards[state, log.actions])
    assert np.array_equal(log.propensity, world.table(behaviour)[state, log.actions])
    assert (world.transitions[state, log.actions, log.next_states.argmax(axis=1)] > 0).all()


def test_one_seed_is_one_log_and_noise_is_on_top():
    world = TabularMDP.random(seed=2)
    clean, again = world.log(5, seed=1), world.log(5, seed=1)
    noisy = world.log(5, seed=1, noise=StudentT(1.5))
    assert np.array_equal(clean.next_states, again.next_states)
    assert np.array_equal(clean.next_states, noisy.next_states)
    assert (clean.rewards != noisy.rewards).all()
    assert repr(world) == "TabularMDP(10 states, 3 actions)"


def test_transitions_that_are_no_law_are_refused():
    with pytest.raises(
        TailproofError, match=r"transitions must be probabilities of shape \(2, 1, 2\)"
    ):
        TabularMDP(np.full((2, 1, 2), 0.4), np.zeros((2, 1)), np.array([0.5, 0.5]))
    with pytest.raises(
        TailproofError, match=r"initial must be .* shape \(2,\) .* Got shape \(3,\)"
    ):
        TabularMDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), np.full(3, 1 / 3))
    with pytest.raises(TailproofError) as refused:
        TabularMDP.random(seed=1, termination=1.5)
    assert refused.value.argument == "termination"


def test_a_discount_that_makes_no_sense_is_refused():
    world = TabularMDP.random(seed=1)
    with pytest.raises(
        TailproofError, match=r"gamma must be below 1 where a policy may run for ever"
    ):
        world.value(Uniform(3), gamma=1.0)
    with pytest.raises(TailproofError) as refused:
        world.value(Uniform(3), gamma=1.1)
    assert refused.value.argument == "gamma"
    with pytest.raises(TailproofError, match=r"gamma must be a number in \[0, 1\)"):
        world.occupancy(Uniform(3), gamma=1.0)
