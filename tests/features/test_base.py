import numpy as np
from sklearn.preprocessing import PolynomialFeatures

from tailproof import Joint, Log, PerAction, Polynomial
from tailproof.features import at_actions, default_features


def test_polynomial_equals_scikit_learn_interactions(rng):
    states = rng.normal(size=(20, 4))
    theirs = PolynomialFeatures(2, interaction_only=True).fit_transform(states)
    assert np.allclose(Polynomial()(states), theirs)
    assert Polynomial().size(4) == theirs.shape[1]
    assert np.array_equal(Polynomial(degree=1, bias=False)(states), states)


def test_per_action_holds_one_block(rng):
    features = PerAction(Polynomial(), 3, 2)
    states, actions = rng.normal(size=(5, 3)), np.array([0, 1, 1, 0, 1])
    phi = features(states, actions).reshape(5, 2, -1)
    assert features.size == phi.shape[1] * phi.shape[2]
    assert np.allclose(phi[np.arange(5), actions], Polynomial()(states))
    assert not phi[np.arange(5), 1 - actions].any()


class Plain:
    """The same map without the block structure."""

    def __init__(self, inner):
        self.inner, self.size = inner, inner.size

    def __call__(self, states, actions):
        return self.inner(states, actions)


def test_blocks_and_dense_rows_agree(rng):
    blocks = PerAction(Polynomial(), 3, 2)
    states = rng.normal(size=(7, 3))
    every = np.broadcast_to(np.arange(2), (7, 2))
    weights, theta = rng.dirichlet([1, 1], size=7), rng.normal(size=(4, blocks.size))
    fast, slow = at_actions(blocks, states, every), at_actions(Plain(blocks), states, every)
    assert np.allclose(fast.values(theta), slow.values(theta))
    assert np.allclose(fast.mix(weights), slow.mix(weights))
    assert np.allclose(fast.take([1, 4]).values(theta), slow.take([1, 4]).values(theta))


def test_joint_features_have_squares_of_state_and_action():
    features = Joint(state_dimension=1, action_dimension=1)
    assert features(np.array([[2.0]]), np.array([[3.0]])).tolist() == [[1, 2, 3, 6, 4, 9]]
    assert features.size == 6


def test_continuous_actions_have_joint_features():
    log = Log.from_arrays(
        np.zeros(2), np.array([0.1, 0.2]), np.zeros(2), np.zeros(2), episode=[0, 1]
    )
    assert default_features(log) == Joint(state_dimension=1, action_dimension=1)
