import numpy as np
import pytest

from tailproof import learn, method
from tailproof.choosing import choose_learner, reward_shape
from tailproof.errors import MethodError
from tailproof.features import default_features
from tailproof.noise import Gaussian, LogNormal, Pareto, StudentT
from tailproof.worlds import storage


@pytest.mark.parametrize(
    ("noise", "name"),
    [(Gaussian(1.0), "fqi"), (StudentT(1.1), "huber-reward")],
    ids=str,
)
def test_the_rewards_decide_the_row(cartpole, noise, name):
    log = cartpole.log(episodes=60, noise=noise, seed=2)
    chosen, reasons = choose_learner(log)
    assert chosen == method(name, features=default_features(log))
    assert len(reasons) == 1


@pytest.mark.parametrize("noise", [LogNormal(2.0), Pareto(1.5), Pareto(1.5, sign=-1)], ids=str)
def test_skewed_rewards_are_clipped_the_less_the_longer_the_log(cartpole, noise):
    shares = []
    for episodes, rows in ((60, 17), (240, 20)):  # 2 log n
        log = cartpole.log(episodes=episodes, noise=noise, seed=2)
        chosen, reasons = choose_learner(log)
        share = rows / log.n_transitions
        assert chosen == method("fqi", clip=share, features=default_features(log))
        assert f"the {rows} largest and the {rows} smallest clipped" in reasons[0]
        shares.append(share)
    assert shares[1] < shares[0]


def test_clusters_ask_for_more_folds_of_whole_groups():
    log = storage.log("HB_NORTH", 2021, 0)
    shape = reward_shape(log, storage.SmoothFeatures())
    assert shape.heavy
    assert shape.unit == "group"
    chosen, reasons = choose_learner(log, storage.SmoothFeatures())
    assert chosen.folds == 10
    assert "in clusters (unit: group)" in reasons[0]


def test_learning_without_a_method_gives_reasons_and_keeps_episodes_to_judge_by(cartpole):
    log = cartpole.log(episodes=60, noise=StudentT(1.2), seed=2)
    learned = learn(log, gamma=0.99)
    assert learned.held_out is not None
    assert learned.held_out.n_episodes == 12
    assert learned.method.base.reward == "huber"
    assert any("Held-out value" in each for each in learned.reasons)
    again = learn(log, gamma=0.99)
    assert np.array_equal(again.policy(log.states), learned.policy(log.states))


def test_continuous_actions_need_a_choice(rng):
    from tailproof import Log

    log = Log.from_arrays(
        rng.normal(size=20), rng.normal(size=20), rng.normal(size=20), rng.normal(size=20),
        episode=np.arange(20) // 5,
    )  # fmt: skip
    with pytest.raises(
        MethodError, match=r"method='auto' learns from discrete actions\. For continuous"
    ):
        learn(log, gamma=0.9)
