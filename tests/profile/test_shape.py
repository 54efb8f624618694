import numpy as np
import pytest

from tailproof import Log, evaluate
from tailproof.policies.forms import Always
from tailproof.profile.profile import LogProfile
from tailproof.profile.shape import has_jackpots
from tailproof.rules import RULES


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
        shape = LogProfile(log).reward_shape
        assert shape.skewed
        assert shape.tails == tails
        assert shape.sentences[0].startswith(f"Rewards have {tails} tails")


def test_jackpots_are_told_from_heavy_tails(rng):
    for n in (300, 3000):
        heavy = {
            "Cauchy": rng.standard_t(1, size=n),
            "Pareto": rng.pareto(1.2, size=n),
            "log-normal": rng.lognormal(0, 2, size=n),
            "counts": rng.zipf(2.2, size=n).astype(float),
            "Gaussian": rng.standard_normal(n),
        }
        for name, samples in heavy.items():
            assert not has_jackpots(samples), name
        prizes = rng.standard_normal(n)
        prizes[: n // 60] += 500
        assert has_jackpots(prizes)
        assert has_jackpots(-7 * prizes + 3)


def test_outliers_on_both_sides_are_no_jackpots_unless_actions_tell_them_apart():
    rng = np.random.default_rng(31)
    called, apart = [], []
    for _ in range(40):
        samples, wild = rng.standard_normal(600), rng.choice(600, 12, replace=False)
        signs = rng.choice([-1, 1], 12)
        samples[wild] += 300 * signs
        actions = rng.integers(2, size=600)
        called.append(has_jackpots(samples, actions))
        actions[wild] = signs > 0  # one action wins, the other loses
        apart.append(has_jackpots(samples, actions))
    assert np.mean(called) <= 0.25
    assert np.mean(apart) >= 0.9


def test_jackpots_count_fully():
    """A robust mean would drop what the policy's worth consists of."""
    rng = np.random.default_rng(8)
    n = 3000
    states, actions = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    won = rng.random(n) < np.where(actions == 1, 0.02, 0.002)
    rewards = 1 - 0.5 * actions + 0.1 * rng.normal(size=n) + 100 * won
    log = Log.from_arrays(
        states, actions, rewards, np.roll(states, -1, axis=0), episode=np.arange(n) // 5,
        terminated=np.arange(n) % 5 == 4,
    )  # fmt: skip
    estimate = evaluate(log, Always(1), gamma=0.5)
    truth = (1 - 0.5**5) / 0.5 * 2.5
    assert estimate.choice.estimator.startswith("plain mean")
    assert estimate.interval(0.95).low <= truth <= estimate.interval(0.95).high


@pytest.mark.parametrize(
    "law", ["exponential", "geometric", "bounded", "truncated normal", "poisson"]
)
def test_the_index_of_light_skewed_rewards_is_not_that_of_heavy_tails(law):
    rng = np.random.default_rng(29)
    draw = {
        "exponential": lambda n: rng.exponential(size=n),
        "geometric": lambda n: rng.geometric(0.2, size=n).astype(float),
        "bounded": lambda n: rng.beta(0.4, 4, size=n),
        "truncated normal": lambda n: np.maximum(rng.normal(size=n), 0),
        "poisson": lambda n: rng.poisson(1.5, size=n).astype(float),
    }[law]
    called = []
    for n in (100, 300) * 10:
        states = rng.normal(size=(n, 1))
        log = Log.from_arrays(states, np.arange(n) % 2, draw(n), states, episode=range(n))
        called.append(LogProfile(log).reward_shape.index < RULES.heavy)
    assert np.mean(called) <= 0.15


@pytest.mark.parametrize("at_the_end", [True, False])
def test_disasters_that_end_episodes_are_no_outliers(at_the_end, rng):
    episode = np.repeat(np.arange(100), 20)
    last = np.tile(np.arange(20) == 19, 100) & (episode < 20)
    hit = last if at_the_end else rng.permutation(last)
    rewards = rng.standard_t(3, 2000) - 50 * hit * rng.lognormal(size=2000)
    states = rng.normal(size=2000)
    actions = rng.integers(0, 2, 2000)
    log = Log.from_arrays(states, actions, rewards, states, episode=episode, terminated=last)
    shape = LogProfile(log).reward_shape
    assert shape.final is at_the_end
    if at_the_end:
        assert shape.tails == "sparse"
