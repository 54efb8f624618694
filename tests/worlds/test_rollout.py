import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from tailproof.errors import PolicyError, TailproofError
from tailproof.log.spaces import Continuous, Discrete
from tailproof.policies.forms import Uniform, draw
from tailproof.worlds import CartPole, TabularMDP
from tailproof.worlds.cartpole import fallen, push, shipped_policy
from tailproof.worlds.rollout import draw_actions, rollout, simulated_returns


class Coin:
    def sample(self, states, rng):
        return rng.integers(0, 2, len(states))


class Normal:
    """A clipped normal action with its (unclipped) log density."""

    def sample(self, states, rng):
        return rng.normal(size=(len(states), 1)).clip(-2, 2)

    def log_prob(self, states, actions):
        return -0.5 * (actions[:, 0] ** 2 + np.log(2 * np.pi)) * np.ones(len(states))


def always_left(states):
    return np.zeros(len(states), dtype=int)


def vector(mode, count=4):
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * count, autoreset_mode=mode)


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 0.1, 1 / 3, 0.7, 1.0]), min_size=1, max_size=6),
    uniform=st.sampled_from([0.0, 2.0**-53, 0.5, 1 - 2.0**-53]),
)
def test_draw_never_takes_what_has_probability_zero(weights, uniform):
    chances = np.array(weights)
    if chances.sum() == 0:
        return
    chances = chances / chances.sum()

    class Fixed:
        def random(self, n):
            return np.full(n, uniform)

    assert chances[draw(np.cumsum(chances)[None], Fixed())[0]] > 0


def test_draw_has_the_law():
    chances = np.array([0.2, 0.0, 0.5, 0.3])
    edges = np.broadcast_to(np.cumsum(chances), (50_000, 4))
    frequency = np.bincount(draw(edges, np.random.default_rng(0)), minlength=4) / 50_000
    assert (np.abs(frequency - chances) <= 4 * np.sqrt(chances / 50_000)).all()


def test_propensities_come_only_from_policies_that_tell():
    states, rng = np.zeros((5, 1)), np.random.default_rng(0)
    actions, chances = draw_actions(Uniform(2), states, Discrete(2), rng)
    assert np.array_equal(chances, np.full(5, 0.5))
    assert draw_actions(always_left, states, Discrete(2), rng)[1] is None
    assert draw_actions(Coin(), states, Discrete(2), rng)[1] is None
    actions, densities = draw_actions(Normal(), states, Continuous(1), rng)
    assert actions.shape == (5, 1)
    assert np.allclose(densities, np.exp(-0.5 * actions[:, 0] ** 2) / np.sqrt(2 * np.pi))


def test_a_log_prob_of_the_wrong_shape_is_refused():
    class Wrong(Normal):
        def log_prob(self, states, actions):
            return np.zeros(len(states)) + actions

    with pytest.raises(
        PolicyError, match=r"log_prob must return one number per state, shape \(5,\)"
    ):
        draw_actions(Wrong(), np.zeros((5, 1)), Continuous(1), np.random.default_rng(0))


def test_an_action_that_does_not_exist_is_refused():
    with pytest.raises(PolicyError, match=r"must choose an action in 0\.\.1\. Got 2"):
        rollout(CartPole(), lambda states: np.full(len(states), 2), episodes=1)


@pytest.mark.parametrize("policy", [Uniform(2), always_left, Coin()], ids=["law", "call", "sample"])
@pytest.mark.parametrize("world", [CartPole(), TabularMDP.random(5, 2, seed=1, termination=0.1)])
def test_one_seed_is_one_log(world, policy):
    logs = [rollout(world, policy, episodes=6, steps=15, seed=seed) for seed in (1, 1, 2)]
    assert np.array_equal(logs[0].next_states, logs[1].next_states)
    assert np.array_equal(logs[0].actions, logs[1].actions)
    assert logs[0].n_episodes == 6
    assert logs[0].states.shape != logs[2].states.shape or (logs[0].states != logs[2].states).any()
    sequence = rollout(world, policy, episodes=6, steps=15, seed=np.random.SeedSequence(1))
    assert np.array_equal(sequence.next_states, logs[0].next_states)


def test_steps_default_to_the_horizon_and_longer_episodes_are_truncated():
    log = rollout(CartPole(horizon=30), always_left, episodes=2)
    assert log.lengths.tolist() == [30, 30]
    assert log.truncated.sum() == 2


def test_terminated_episodes_end_and_the_rest_goes_on():
    world = TabularMDP.random(5, 2, seed=1, termination=0.2)
    log = rollout(world, Uniform(2), episodes=200, steps=12, seed=1)
    assert len(set(log.lengths.tolist())) > 5
    ended = log.terminated[log.starts[1:] - 1]
    assert (log.lengths[~ended] == 12).all()
    assert ended.any()
    assert not ended.all()
    inside = np.setdiff1d(np.arange(log.n_transitions), log.starts[1:] - 1)
    assert np.array_equal(log.next_states[inside], log.states[inside + 1])
    returns = simulated_returns(world, Uniform(2), episodes=200, steps=12, gamma=0.9, seed=1)
    age = np.arange(log.n_transitions) - log.starts[log.episode_of_row]
    assert np.allclose(np.bincount(log.episode_of_row, log.rewards * 0.9**age), returns)


def test_a_world_where_everything_ends_at_once_is_a_bandit():
    world = TabularMDP.random(5, 2, seed=1, termination=1.0)
    assert rollout(world, Uniform(2), episodes=7).is_bandit


def assert_stock_cartpole(log, episodes):
    assert log.n_episodes == episodes
    assert np.allclose(log.next_states, push(log.states, log.actions), atol=1e-5)
    assert (np.abs(log.first_states) <= 0.05).all()
    assert np.array_equal(log.terminated, fallen(log.next_states))
    inside = np.setdiff1d(np.arange(log.n_transitions), log.starts[1:] - 1)
    assert np.array_equal(log.next_states[inside], log.states[inside + 1])
    assert (log.rewards == 1).all()


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
def test_vector_environments_give_whole_episodes_in_every_reset_mode(mode):
    log = rollout(vector(mode), Uniform(2), episodes=10, seed=1)
    assert_stock_cartpole(log, 10)
    assert log.terminated.sum() == 10
    assert (log.propensity == 0.5).all()
    again = rollout(vector(mode), Uniform(2), episodes=10, seed=1)
    assert np.array_equal(log.states, again.states)


def test_environments_vectorised_by_themselves_are_understood():
    environment = gymnasium.make_vec(
        "CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point"
    )
    assert_stock_cartpole(rollout(environment, Uniform(2), episodes=7, seed=1), 7)


def test_a_single_environment_is_run_to_its_end():
    environment = gymnasium.make("CartPole-v1")
    log = rollout(environment, Uniform(2), episodes=5, seed=1)
    assert_stock_cartpole(log, 5)
    assert np.array_equal(log.states, rollout(environment, Uniform(2), episodes=5, seed=1).states)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
def test_a_cap_on_the_steps_truncates(mode):
    log = rollout(vector(mode), shipped_policy(), episodes=6, steps=5, seed=1)
    assert_stock_cartpole(log, 6)
    assert log.lengths.tolist() == [5] * 6
    assert log.truncated.sum() == 6


def test_a_time_limit_of_the_environment_is_a_truncation():
    environment = gymnasium.make("CartPole-v1", max_episode_steps=4)
    log = rollout(environment, shipped_policy(), episodes=3)
    assert log.lengths.tolist() == [4, 4, 4]
    assert not log.terminated.any()
    assert log.truncated.sum() == 3


def test_continuous_actions_carry_densities():
    log = rollout(gymnasium.make("Pendulum-v1"), Normal(), episodes=2, steps=10, seed=1)
    assert log.actions.shape == (20, 1)
    assert log.action_space == Continuous(1, (-2.0,), (2.0,))
    assert np.allclose(log.propensity, np.exp(Normal().log_prob(log.states, log.actions)))


def test_discrete_observations_become_one_hot_states():
    log = rollout(gymnasium.make("FrozenLake-v1"), Uniform(4), episodes=3, seed=1)
    assert log.states.shape[1] == 16
    assert (log.states.sum(axis=1) == 1).all()
    assert (log.first_states[:, 0] == 1).all()


def test_the_bar_is_shown_when_asked_for_and_silent_otherwise(capsys):
    rollout(CartPole(), always_left, episodes=1, steps=3, progress=True)
    assert "rollout" in capsys.readouterr().err
    rollout(CartPole(), always_left, episodes=1, steps=3)
    rollout(CartPole(), always_left, episodes=1, steps=3, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"world": "CartPole-v1"},
            r"rollout needs a World .* Got str; build the environment first",
        ),
        ({"episodes": 0}, r"episodes must be a whole number of at least 1\. Got 0 instead\."),
        ({"steps": 0}, r"steps must be a whole number of at least 1\. Got 0 instead\."),
    ],
)
def test_what_cannot_be_rolled_out_is_refused(arguments, message):
    settings = {"world": CartPole(), "policy": always_left, "episodes": 1} | arguments
    with pytest.raises(TailproofError, match=message):
        rollout(settings.pop("world"), settings.pop("policy"), **settings)
