import numpy as np
import pytest

from tailproof import Continuous, Log, Method, PerAction, Polynomial, Split, learn, method
from tailproof.errors import MethodError, PolicyError
from tailproof.learners.cloning import Cloning, RegressionCloning


def authors(rng, *, episodes=40, steps=25, noise=None):
    """Return a log of two authors: one follows the sign of the state and earns 1, one its opposite."""
    n = episodes * steps
    states = rng.standard_normal((n, 2))
    good = np.repeat(np.arange(episodes) % 4 == 0, steps)
    actions = ((states[:, 0] > 0) == good).astype(int)
    rewards = good + 0.1 * rng.standard_normal(n) + (0 if noise is None else noise(n))
    return Log.from_arrays(
        states, actions, rewards, states, episode=np.repeat(np.arange(episodes), steps)
    )


def agreement(log, **settings):
    policy = learn(log, method=method("percent-bc", **settings), gamma=0.9).policy
    return float((policy(log.states) == (log.states[:, 0] > 0)).mean())


def test_the_whole_log_is_cloned_when_all_of_it_is_wanted():
    log = authors(np.random.default_rng(0))
    whole = learn(log, method="bc", gamma=0.9).policy
    assert (
        learn(log, method=method("percent-bc", top=1.0), gamma=0.9).policy(log.states)
        == whole(log.states)
    ).all()
    assert agreement(log, top=1.0) < 0.2  # the bad author wrote three quarters of it


def test_the_best_episodes_teach_what_the_log_as_a_whole_does_not():
    rng = np.random.default_rng(1)
    log = authors(rng)
    assert agreement(log, top=0.25) > 0.95
    # A median of 100 Cauchy draws has a standard error of 0.16, a sum of them none at all.
    heavy = authors(rng, steps=100, noise=rng.standard_cauchy)
    assert agreement(heavy, top=0.2) > 0.95
    assert agreement(heavy, top=0.2, rank="sum") < agreement(heavy, top=0.2)


def test_an_action_that_no_good_episode_takes_is_unlikely_not_unknown():
    rng = np.random.default_rng(2)
    log = authors(rng)
    actions = np.where(np.repeat(np.arange(40) % 4 == 1, 25), 2, log.actions)
    log = Log.from_arrays(
        log.states, actions, log.rewards, log.next_states, episode=log.episode_of_row
    )
    policy = learn(log, method=method("percent-bc", top=0.25), gamma=0.9).policy
    assert set(policy(log.states)) == {0, 1}


def test_folds_rank_their_own_episodes_and_say_how():
    log = authors(np.random.default_rng(3))

    learned = learn(log, method=Method(Cloning(top=0.25), Split(2), at="pointwise"), gamma=0.9)
    assert learned.members.count == 2
    assert learned.reasons[0] == "Imitates 10 of 40 episodes."
    assert "have light tails" in learned.reasons[1]


def test_settings_are_checked():
    with pytest.raises(MethodError, match="model must be 'auto', 'linear' or 'neural'"):
        Cloning(model="forest")
    with pytest.raises(MethodError, match="rank must be 'auto'"):
        Cloning(rank="best")


def steered(rng, *, episodes=40, steps=25):
    """Return a log of two authors of continuous actions: one earns 1 and steers by the state."""
    n = episodes * steps
    states = rng.standard_normal((n, 2))
    good = np.repeat(np.arange(episodes) % 4 == 0, steps)
    actions = np.where(good, 1, -1)[:, None] * (0.2 + 0.3 * states[:, :1])
    actions = np.clip(actions + 0.02 * rng.standard_normal((n, 1)), -1, 1)
    return Log.from_arrays(
        states,
        actions,
        good + 0.1 * rng.standard_normal(n),
        states,
        episode=np.repeat(np.arange(episodes), steps),
        action_space=Continuous(1, (-1.0,), (1.0,)),
    )


def test_continuous_actions_of_the_best_episodes_by_regression():
    log = steered(np.random.default_rng(4))
    best = learn(log, method=method("percent-bc", model="linear", top=0.25), gamma=0.9)
    states = np.random.default_rng(5).standard_normal((50, 2))
    np.testing.assert_allclose(best.policy(states)[:, 0], 0.2 + 0.3 * states[:, 0], atol=0.05)
    assert best.policy(states[0]).shape == (1,)
    assert np.abs(best.policy(100 * states)).max() == 1  # within the bounds of the actions
    all_of_it = learn(log, method=method("bc", model="linear"), gamma=0.9)
    np.testing.assert_allclose(
        all_of_it.policy(states)[:, 0], -0.5 * (0.2 + 0.3 * states[:, 0]), atol=0.1
    )
    with pytest.raises(PolicyError, match=r"shape \(n, 2\)"):
        best.policy(np.zeros((3, 5)))


def test_a_regression_refuses_what_it_cannot_do():
    log = steered(np.random.default_rng(6))
    features = PerAction(Polynomial(), 2, 2)
    with pytest.raises(MethodError, match="leave them out, or use model='neural'"):
        learn(log, method=method("bc", model="linear", features=features), gamma=0.9)
    discrete = authors(np.random.default_rng(7))
    with pytest.raises(MethodError, match="is for continuous actions"):
        learn(discrete, method=Method(RegressionCloning(), at="pointwise"), gamma=0.9)
