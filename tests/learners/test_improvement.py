from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import FQI, Learned, Log, Method, learn, method
from tailproof.critics.behaviour import fit_behaviour
from tailproof.critics.rewards import TamedRewards
from tailproof.critics.trees import supported
from tailproof.errors import MethodError
from tailproof.learners.cloning import TreeCloning
from tailproof.learners.improvement import ForestFQI, OneStep, WithinSupport
from tailproof.policies.forms import Uniform
from tailproof.robust.huber_path import asymmetry_by_action
from tailproof.worlds import TabularMDP


@pytest.fixture(scope="module")
def world():
    return TabularMDP.random(states=4, actions=2, seed=3)


@pytest.fixture(scope="module")
def log(world):
    return world.log(episodes=150, steps=20, behaviour=Uniform(2), seed=5)


def two_actions(n=3000, seed=0, noise=0.1):
    """One step, two actions: the second is better where x is above 0."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rewards = np.where(actions == 1, np.sign(x[:, 0]), 0.0) + noise * rng.standard_normal(n)
    return Log.from_arrays(
        x, actions, rewards, x, episode=np.arange(n), terminated=np.ones(n, bool), action_space=2
    )


BASES = [
    OneStep(support=0.0),
    OneStep(form="advantages"),
    OneStep(form="advantages", pessimism=1.0),
    ForestFQI(),
]


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_a_clear_effect_is_found(base):
    log = two_actions()
    policy = learn(log, method=Method(base=base, at="pointwise")).policy
    far = log.states[np.abs(log.states[:, 0]) > 0.2]
    assert (policy(far) == (far[:, 0] > 0)).mean() > 0.98


@pytest.mark.parametrize("name", ["one-step", "forest-fqi", "policy-tree", "policy-scores"])
def test_units_of_states_and_rewards_do_not_matter(name):
    log = two_actions(n=800)
    other = Log.from_arrays(
        log.states * [0.01, 300.0] + 5, log.actions, 0.01 * log.rewards, log.states,
        episode=log.episode_ids, terminated=log.terminated, action_space=2,
    )  # fmt: skip
    first, second = (learn(each, method=name).policy for each in (log, other))
    same = first(log.states) == second(other.states)
    assert same.mean() > 0.99


def test_forest_fqi_comes_near_the_optimum_of_a_tabular_world(world, log):
    learned = learn(log, method=method("forest-fqi", support=0.0), gamma=0.8)
    best = world.value(world.optimal(gamma=0.8), gamma=0.8)
    found = world.value(learned.policy, gamma=0.8)
    assert found > best - 0.02 * abs(best)


def test_values_stay_within_the_range_of_returns(log):
    for name in ("one-step", "forest-fqi"):
        critic = learn(log, method=method(name, support=0.0), gamma=0.9).critic
        values = critic.action_values(log.states, 2)
        assert values.max() <= log.rewards.max() / 0.1 + 1e-9
        assert values.min() >= log.rewards.min() / 0.1 - 1e-9


@given(st.floats(0, 1), st.integers(0, 100))
def test_support_always_keeps_the_likeliest_action_and_shrinks_with_the_share(share, seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(4), size=20)
    kept = supported(shares, share)
    assert kept[np.arange(20), shares.argmax(axis=1)].all()
    assert (supported(shares, min(1.0, share + 0.1)) <= kept).all()


@pytest.mark.slow
@pytest.mark.parametrize("base", [OneStep(support=1.0), ForestFQI(support=1.0)], ids=repr)
def test_full_support_is_the_likeliest_action(base, heavy_log):
    policy = learn(heavy_log, method=Method(base=base, at="pointwise"), gamma=0.9).policy
    clone = learn(heavy_log, method=Method(base=TreeCloning(), at="pointwise"), gamma=0.9)
    law = clone.softmax(1.0).probabilities(heavy_log.states)
    one = np.abs(law[:, 0] - law[:, 1]) > 1e-9  # half of the trees may say the contrary
    assert one.mean() > 0.98
    assert np.array_equal(policy(heavy_log.states[one]), clone.policy(heavy_log.states[one]))


def test_linear_critics_are_kept_to_the_support_too(heavy_log):
    plain = Method(base=FQI(), at="pointwise")
    kept = Method(base=WithinSupport(base=FQI(), support=0.0), at="pointwise")
    free, limited = (learn(heavy_log, method=m, gamma=0.9).policy for m in (plain, kept))
    assert np.array_equal(free(heavy_log.states), limited(heavy_log.states))


def test_the_behaviour_is_estimated(log):
    rng = np.random.default_rng(0)
    law = fit_behaviour(log)(np.eye(4)[rng.integers(4, size=100)])
    assert law.sum(axis=1) == pytest.approx(1.0)
    assert np.abs(law - 0.5).max() < 0.1


def test_tamed_rewards_lose_outliers_and_nothing_else():
    log = two_actions()
    tamed = TamedRewards()(log, None)
    assert np.abs(tamed - log.rewards).max() < 1.0
    spoiled = log.rewards.copy()
    spoiled[7] = 1e6
    assert abs(TamedRewards()(log.with_rewards(spoiled), None)[7]) < 1e4


def test_opposite_skews_of_two_actions_are_seen():
    log = two_actions(n=4000)
    rng = np.random.default_rng(1)
    skew = (2 * log.actions - 1) * (rng.exponential(size=4000) - 1)
    even = rng.standard_t(3, size=4000)
    assert asymmetry_by_action(skew, log.actions) > 16 > asymmetry_by_action(even, log.actions)


def test_nonsense_is_refused(log, heavy_log):
    for make in (
        lambda: OneStep(support=2.0),
        lambda: OneStep(form="both"),
        lambda: OneStep(pessimism=1.0),
        lambda: WithinSupport(base=3),
    ):
        with pytest.raises(MethodError):
            make()
    with pytest.raises(MethodError, match="one-step episodes"):
        learn(heavy_log, method="policy-tree", gamma=0.9)


def test_an_exact_clone_has_the_shares_of_the_very_state_where_states_repeat(
    log, heavy_log, tmp_path
):
    chosen = Method(base=TreeCloning(exact=True), at="pointwise")
    log = replace(log, propensity=None)
    learned = learn(log, method=chosen, gamma=0.9)
    law = learned.softmax(1.0).probabilities(np.eye(4))
    for state, found in zip(np.eye(4), law, strict=True):
        own = log.actions[(log.states == state).all(axis=1)]
        assert found == pytest.approx(np.bincount(own, minlength=2) / len(own))
    kept = replace(learned, policy=learned.softmax(1.0))
    kept.save(tmp_path / "clone.tp")
    again = Learned.load(tmp_path / "clone.tp")
    elsewhere = np.vstack([np.eye(4), np.full((1, 4), 0.3)])
    assert np.array_equal(
        again.policy.probabilities(elsewhere), kept.policy.probabilities(elsewhere)
    )
    continuous = learn(heavy_log, method=chosen, gamma=0.9)
    plain = learn(heavy_log, method=Method(base=TreeCloning(), at="pointwise"), gamma=0.9)
    values = [each.critic.action_values(heavy_log.states, 2) for each in (continuous, plain)]
    assert np.array_equal(*values)


def coded(n=3000, seed=4, propensities=True):
    """Three actions in 40 states: one of them most often, as logged propensities tell."""
    rng = np.random.default_rng(seed)
    states = rng.integers(40, size=n).astype(float)
    law = np.full((n, 3), 0.1)
    law[np.arange(n), states.astype(int) % 3] = 0.8
    actions = (rng.random((n, 1)) > law.cumsum(axis=1)).sum(axis=1)
    log = Log.from_arrays(
        states, actions, np.zeros(n), states, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=law[np.arange(n), actions] if propensities else None, action_space=3,
    )  # fmt: skip
    return log, law


def test_logged_propensities_are_the_behaviour():
    log, law = coded()
    assert np.abs(fit_behaviour(log, exact=True)(log.states) - law).max() < 1e-9
    blind, _ = coded(propensities=False)
    guessed = np.abs(fit_behaviour(blind, exact=True)(log.states) - law).mean()
    assert 0.005 < guessed < 0.1
    assert np.abs(fit_behaviour(log, propensities=False)(log.states) - law).mean() > 1e-3


def test_a_rule_behind_logged_propensities_is_found_in_states_that_hardly_repeat():
    rng = np.random.default_rng(5)
    states = np.column_stack([rng.integers(0, 25, 3000), rng.normal(size=3000)])
    law = np.full((3000, 4), 0.1)
    law[np.arange(3000), np.where(states[:, 0] < 18, 2, 0)] = 0.7
    actions = (rng.random((3000, 1)) > law.cumsum(axis=1)).sum(axis=1)
    log = Log.from_arrays(
        states, actions, np.zeros(3000), states, episode=np.arange(3000), action_space=4,
        terminated=np.ones(3000, bool), propensity=law[np.arange(3000), actions],
    )  # fmt: skip
    for exact in (False, True):
        assert np.abs(fit_behaviour(log, exact=exact)(log.states) - law).max() < 1e-9


def test_unseen_actions_share_what_is_left():
    """Each of two states has seen one action; the third action of the log is as rare there."""
    states = np.repeat([0.0, 1.0], 30)
    actions = np.repeat([0, 1], 30)
    actions[::30] = 0, 2
    propensity = np.where(actions == 2, 0.1, 0.7)
    log = Log.from_arrays(
        states, actions, np.zeros(60), states, episode=np.arange(60), action_space=3,
        terminated=np.ones(60, bool), propensity=propensity,
    )  # fmt: skip
    law = fit_behaviour(log, exact=True)(np.array([[0.0], [1.0]]))
    assert law.sum(axis=1) == pytest.approx(1.0)
    assert law[0] == pytest.approx([0.7, 0.3 * 29 / 30, 0.3 / 30])
    assert law[1] == pytest.approx([0.2, 0.7, 0.1])


def test_constant_propensities_of_an_experiment_are_the_behaviour_everywhere():
    rng = np.random.default_rng(2)
    states, actions = rng.normal(size=(200, 2)), rng.choice(3, size=200, p=[0.2, 0.3, 0.5])
    log = Log.from_arrays(
        states, actions, rng.normal(size=200), states, episode=np.arange(200),
        terminated=np.ones(200, bool), propensity=np.array([0.2, 0.3, 0.5])[actions],
    )  # fmt: skip
    behaviour = fit_behaviour(log)
    assert behaviour(states) == pytest.approx(np.tile([0.2, 0.3, 0.5], (200, 1)))
    assert behaviour.trees.nodes == 1
