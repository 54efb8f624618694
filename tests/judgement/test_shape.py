import numpy as np
import pytest

from tailproof import Log
from tailproof.judgement.shape import reward_shape


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_skewed_rewards_are_heavy_by_their_index_not_by_what_a_robust_mean_would_gain(share, rng):
    n = 3000
    states = rng.normal(size=(n, 1))
    paid = rng.random(n) < share
    for draw, tails in (
        (lambda: 1 + rng.pareto(1.5, size=n), "heavy"),
        (lambda: rng.exponential(size=n), "light"),
    ):
        rewards = np.where(paid, draw(), 0.0)
        log = Log.from_arrays(states, np.arange(n) % 2, rewards, states, episode=range(n))
        shape = reward_shape(log)
        assert shape.skewed
        assert shape.tails == tails
        assert shape.sentences[0].startswith(f"Rewards have {tails} tails")
