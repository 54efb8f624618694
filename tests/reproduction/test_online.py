import numpy as np
import pytest

from reproduction.online import CartPoleEnv, save_policy, train_behaviour
from tailproof.worlds.cartpole import fallen, shipped_policy
from tailproof.worlds.rollout import rollout


def test_environment_terminates_at_a_fall_and_truncates_at_the_limit():
    falling = rollout(CartPoleEnv(steps=500), lambda s: np.zeros(len(s), dtype=int), episodes=5)
    assert falling.terminated.sum() == 5
    assert np.array_equal(fallen(falling.next_states), falling.terminated)
    standing = rollout(CartPoleEnv(steps=20), shipped_policy(), episodes=2)
    assert standing.lengths.tolist() == [20, 20]
    assert standing.truncated.sum() == 2


@pytest.mark.slow
def test_training_is_repeatable_and_its_weights_survive_a_file(tmp_path):
    pytest.importorskip("stable_baselines3")
    one, two = (train_behaviour(3, training_steps=2048, hidden=(4,)) for _ in range(2))
    save_policy(one, tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ["biases_0", "biases_1", "weights_0", "weights_1"]
        for i, ((weights, biases), (same_weights, same_biases)) in enumerate(
            zip(one.layers, two.layers, strict=True)
        ):
            assert np.array_equal(weights, same_weights)
            assert np.array_equal(biases, same_biases)
            assert np.array_equal(arrays[f"weights_{i}"], weights)
            assert np.array_equal(arrays[f"biases_{i}"], biases)
    assert repr(one) == "PPOPolicy(4 → 4 → 2)"
