import numpy as np
import pytest

from examples.storm import storage
from tailproof import Log, method
from tailproof.doors.careful import choose_learner
from tailproof.features.ladder import basis_for
from tailproof.noise import Gaussian, LogNormal, Pareto, StudentT
from tailproof.profile.profile import LogProfile


@pytest.mark.parametrize(
    ("noise", "name"),
    [(Gaussian(1.0), "fqi"), (StudentT(1.1), "huber-reward")],
    ids=str,
)
def test_the_rewards_decide_the_row(cartpole, noise, name):
    log = cartpole.log(episodes=60, noise=noise, seed=2)
    chosen, reasons = choose_learner(log)
    assert chosen == method(name, features=basis_for(log))
    assert reasons[:3] == LogProfile(log).reward_shape.sentences


@pytest.mark.parametrize("noise", [LogNormal(2.0), Pareto(1.5), Pareto(1.5, sign=-1)], ids=str)
def test_skewed_rewards_are_clipped_the_less_the_longer_the_log(cartpole, noise):
    shares = []
    for episodes, rows in ((60, 17), (240, 20)):  # 2 log n
        log = cartpole.log(episodes=episodes, noise=noise, seed=2)
        chosen, reasons = choose_learner(log)
        share = rows / log.n_transitions
        assert chosen == method("fqi", clip=share, features=basis_for(log))
        assert f"the {rows} largest and the {rows} smallest clipped" in reasons[-1]
        shares.append(share)
    assert shares[1] < shares[0]


def test_clusters_ask_for_more_folds_of_whole_groups():
    log = storage.log("HB_NORTH", 2021, 0)
    shape = LogProfile(log).reward_shape
    assert shape.tails == "heavy"
    assert shape.unit == "group"
    chosen, reasons = choose_learner(log, storage.SmoothFeatures())
    assert chosen.folds == 10
    assert "in clusters" in reasons[2]


def test_opposite_skews_of_two_actions_do_not_cancel(rng):
    """Pooled, the residuals look symmetric, and Huber's regression would be wrong about both."""
    n = 4000
    states, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    noise = (2 * actions - 1) * (np.exp(1.2 * rng.standard_normal(n)) - np.exp(0.72))
    log = Log.from_arrays(states, actions, noise, states, episode=np.arange(n) // 20)
    assert LogProfile(log).reward_shape.skewed
    assert choose_learner(log)[0].clip > 0


def test_rare_rewards_are_never_clipped(rng):
    n = 2000
    states, actions = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    rewards = np.where(rng.random(n) < 0.05, rng.pareto(1.5, n) + 10, 0.0)
    log = Log.from_arrays(states, actions, rewards, states, episode=np.arange(n) // 10)
    assert LogProfile(log).reward_shape.tails == "sparse"
    assert choose_learner(log)[0] == method("fqi", features=basis_for(log))
