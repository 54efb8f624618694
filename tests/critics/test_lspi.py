import numpy as np
import pytest

from tailproof import LSPI, LSTD, Cloning, Log, Method, PerAction, Polynomial, evaluate, learn
from tailproof.errors import MethodError, TaughtWarning
from tailproof.policies.forms import EpsilonGreedy, action_probabilities


def test_the_result_is_lstd_of_its_own_greedy_policy(cartpole):
    log = cartpole.log(episodes=60, seed=1)
    learned = learn(log, method=Method(base=LSPI()), gamma=0.99)
    settled = (learned.history > 0).sum()
    assert settled < 50
    with pytest.warns(TaughtWarning, match="60 of 60 episodes were used to learn this policy"):
        itself = evaluate(
            log, learned.policy, method=Method(base=LSTD(ridge=2.5e-3)), gamma=0.99
        ).critics
    assert learned.members.theta == pytest.approx(itself.theta, rel=1e-6)


def test_cloning_finds_a_logistic_policy(rng):
    states = rng.standard_normal((8000, 2))
    chance = 1 / (1 + np.exp(-(0.5 + 2 * states[:, 0] - states[:, 1])))
    actions = (rng.random(8000) < chance).astype(int)
    log = Log.from_arrays(states, actions, np.zeros(8000), states, episode=range(8000))
    features = PerAction(Polynomial(degree=1), 2, 2)
    learned = learn(log, method=Method(base=Cloning(features=features)))
    found = learned.softmax(1.0).probabilities(states)[:, 1]
    assert np.abs(found - chance).max() < 0.05
    assert np.array_equal(learned.policy(states[chance > 0.6]), np.ones((chance > 0.6).sum()))


def test_cloning_takes_features_that_actions_share(rng):
    """One feature, the agreement of state and action: θ is the log-odds of agreeing."""

    class Agree:
        size = 1

        def __call__(self, states, actions):
            return (states == actions[:, None]).astype(float)

    states = rng.integers(3, size=(6000, 1)).astype(float)
    actions = np.where(rng.random(6000) < 0.7, states[:, 0], (states[:, 0] + 1) % 3).astype(int)
    log = Log.from_arrays(states, actions, np.zeros(6000), states, episode=range(6000))
    learned = learn(log, method=Method(base=Cloning(features=Agree())))
    assert learned.members.theta[0, 0] == pytest.approx(np.log(0.7 / 0.15), abs=0.1)
    assert np.array_equal(learned.policy(states), states[:, 0])


def test_cloning_recovers_the_behaviour_of_cartpole(cartpole):
    log = cartpole.log(episodes=100, seed=1)
    learned = learn(log, method="bc", gamma=0.99)
    assert (learned.policy(log.states) == cartpole.target()(log.states)).mean() > 0.95
    explores = EpsilonGreedy(cartpole.target(), 0.05, n_actions=2)
    likely = action_probabilities(explores, log.states, 2)
    assert likely.max() == pytest.approx(0.975)


@pytest.mark.parametrize("base", [LSPI, Cloning])
def test_settings_that_make_no_sense(base):
    with pytest.raises(MethodError, match="iterations must be a whole number of at least 1"):
        base(iterations=0)
    with pytest.raises(MethodError, match="ridge must be a number of at least 0"):
        base(ridge=-1.0)
