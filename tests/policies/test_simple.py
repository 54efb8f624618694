import numpy as np
import pytest

from tailproof.errors import PolicyError
from tailproof.log.spaces import Continuous, Discrete
from tailproof.policies.forms import (
    EpsilonGreedy,
    Uniform,
    UniformBox,
    action_probabilities,
    bound,
)
from tailproof.policies.text import policy_from_text

STATES = np.zeros((3, 2))


class Fixed:
    def __init__(self, row):
        self.row = row

    def probabilities(self, states):
        return np.tile(self.row, (len(states), 1))


class Gaussian:
    def sample(self, states, rng):
        return rng.normal(size=(len(states), 1))


def test_a_deterministic_policy_is_a_one_hot_law():
    given = action_probabilities(lambda states: np.array([0, 1, 2]), STATES, 3)
    assert np.array_equal(given, np.eye(3))


def test_epsilon_greedy_mixes_with_the_uniform_law():
    followed = Fixed([0.2, 0.8])
    mixed = EpsilonGreedy(followed, 0.5, n_actions=2).probabilities(STATES)
    assert np.allclose(mixed, 0.5 * np.array([0.2, 0.8]) + 0.25)
    assert np.allclose(EpsilonGreedy(followed, 1.0, n_actions=2).probabilities(STATES), 0.5)
    assert np.allclose(Uniform(4).probabilities(STATES), 0.25)


def test_draws_integrate_exactly_over_discrete_and_evenly_over_sampled_policies(rng):
    actions, weights = bound(Fixed([0.2, 0.8]), Discrete(2)).draws(STATES, count=9, rng=rng)
    assert np.array_equal(actions, [[0, 1]] * 3)
    assert np.allclose(weights, [[0.2, 0.8]] * 3)
    actions, weights = bound(Gaussian(), Continuous(1)).draws(STATES, count=9, rng=rng)
    assert actions.shape == (3, 9, 1)
    assert np.allclose(weights.sum(axis=1), 1)
    actions, weights = bound(lambda states: states[:, 0], Continuous(1)).draws(
        STATES, count=9, rng=rng
    )
    assert actions.shape == (3, 1, 1)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (
            Fixed([0.5, 0.6]),
            r"must be non-negative and sum to one in every state\. Got \[0\.5 0\.6\]",
        ),
        (Fixed([-0.5, 1.5]), r"non-negative and sum to one .* \(3 such rows\)"),
        (Fixed([np.nan, 1.0]), r"sum to one in every state\. Got \[nan"),
        (Fixed([1.0]), r"must return the shape \(3, 2\).* Got \(3, 1\)"),
        (lambda states: np.full(3, 2), r"must choose an action in 0\.\.1\. Got 2 for state"),
        (
            lambda states: np.full(3, 0.5),
            r"over 2 actions must return 3 integers, one for each row\. Got .*, dtype float64",
        ),
        (
            lambda states: np.zeros(2, int),
            r"must return 3 integers, .*\. Got the shape \(2,\), dtype int64",
        ),
        ("go left", r"A policy is a callable states -> actions.* Got str"),
    ],
)
def test_what_is_not_a_policy_is_refused(policy, text):
    with pytest.raises(PolicyError, match=text):
        action_probabilities(policy, STATES, 2)


def test_continuous_policies_return_finite_vectors(rng):
    for policy, text in (
        (lambda states: np.full((3, 2), 0.0), r"must return the shape \(3, 1\)\. Got \(3, 2\)"),
        (lambda states: np.full(3, np.nan), "returned an action that is not finite"),
    ):
        with pytest.raises(PolicyError, match=text):
            bound(policy, Continuous(1)).draws(STATES, count=1, rng=rng)


def test_uniform_between_bounds(rng):
    policy = UniformBox((-2.0, 0.0), (2.0, 0.5))
    drawn = policy.sample(np.zeros((20_000, 1)), rng)
    assert (drawn.min(axis=0) >= [-2, 0]).all()
    assert (drawn.max(axis=0) <= [2, 0.5]).all()
    assert drawn.mean(axis=0) == pytest.approx([0, 0.25], abs=0.05)
    density = np.exp(policy.log_prob(np.zeros((2, 1)), np.array([[0.0, 0.1], [0.0, 0.6]])))
    assert density.tolist() == pytest.approx([0.5, 0.0])
    with pytest.raises(PolicyError, match=r"needs finite bounds, low below high\. Got \(0\.0,\)"):
        UniformBox((0.0,), (np.inf,))


def test_a_constant_of_a_continuous_action_is_its_numbers():
    states = np.zeros((3, 2))
    two = policy_from_text("always:0.5,-1", Continuous(2))
    actions, _ = bound(two, Continuous(2)).draws(states, count=1, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(actions[:, 0], [[0.5, -1.0]] * 3)
    for wrong in ("always:0.5", "always:a,b", "always:nan,1"):
        with pytest.raises(PolicyError, match=r"continuous .*: write always:0.5,0.5. Got always:"):
            policy_from_text(wrong, Continuous(2))
