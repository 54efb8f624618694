"""Importance sampling over episodes: limiting cases first."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tailproof import LSTD, EpisodeDR, EpisodeIS, Log, Method, Split, evaluate
from tailproof.critics.base import Capabilities, Fitted
from tailproof.errors import HorizonWarning, LevelError, LogError, MethodError, SingularWarning
from tailproof.log.log import discounted_returns
from tailproof.profile.profile import LogProfile

ROWS = ["tis", "pdis", "sntis", "snpdis", "sequential-dr"]


class Fixed:
    def __init__(self, *row):
        self.row = np.array(row)

    def probabilities(self, states):
        return np.tile(self.row, (len(states), 1))


LOGGING, TARGET = Fixed(0.6, 0.4), Fixed(0.3, 0.7)


def walk(episodes=200, seed=0, terminated=True, longest=6):
    """A clock and a coin; action 1 earns 1 more at every step."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, size=episodes) if longest > 1 else np.ones(episodes, int)
    n = int(lengths.sum())
    ends = np.zeros(n, bool)
    ends[np.cumsum(lengths) - 1] = True
    step = np.concatenate([np.arange(length) for length in lengths])
    left = np.repeat(lengths, lengths) - step
    states = np.stack([left, rng.normal(size=n)], axis=1).astype(float)
    after = states - [1, 0]
    actions = (rng.random(n) < 0.4).astype(int)
    return Log.from_arrays(
        states, actions, actions + 0.1 * rng.standard_t(3, n), after,
        episode=np.repeat(np.arange(episodes), lengths),
        terminated=ends if terminated else None,
        propensity=np.where(actions == 1, 0.4, 0.6), action_space=2,
    )  # fmt: skip


@pytest.mark.parametrize("name", ROWS[:4])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_on_policy_all_are_the_mean_return(name, gamma):
    log = walk()
    returns = discounted_returns(log, gamma).mean()
    assert evaluate(log, LOGGING, method=name, gamma=gamma).value == pytest.approx(returns)


@pytest.mark.parametrize(
    ("name", "bandit"),
    [("tis", "ips"), ("pdis", "ips"), ("sntis", "snips"), ("snpdis", "snips")],
)
def test_one_step_is_the_bandit_estimator(name, bandit):
    log = walk(longest=1)
    ours, theirs = (evaluate(log, TARGET, method=each) for each in (name, bandit))
    assert ours.value == pytest.approx(theirs.value)
    assert ours.interval(0.9).low == pytest.approx(theirs.interval(0.9).low)
    assert ours.interval(0.9).high == pytest.approx(theirs.interval(0.9).high)


@dataclass(frozen=True)
class NoCritic:
    """A base whose critic says 0 everywhere."""

    capabilities = Capabilities()

    def fit(self, task, folds, *, backup, rng):
        critics = LSTD().fit(task, folds, backup=backup, rng=rng).critics
        return Fitted(replace(critics, theta=np.zeros_like(critics.theta)))


def test_doubly_robust_without_a_critic_is_per_decision():
    log = walk()
    plain = evaluate(log, TARGET, method="pdis", gamma=0.9)
    doubly = evaluate(log, TARGET, method=Method(base=EpisodeDR(critic=NoCritic())), gamma=0.9)
    assert doubly.value == pytest.approx(plain.value)
    assert doubly.interval(0.9).low == pytest.approx(plain.interval(0.9).low)


@pytest.mark.parametrize("name", ROWS)
def test_all_find_the_value_and_their_intervals_hold_it(name):
    # 0.7 a step for E(length) = 3.5 steps
    log = walk(episodes=4000, seed=1)
    estimate = evaluate(log, TARGET, method=name, gamma=1.0)
    assert estimate.value == pytest.approx(2.45, abs=0.25)
    interval = estimate.interval(0.99)
    assert interval.low < 2.45 < interval.high
    assert estimate.lower_bound(0.9).value < estimate.value
    assert estimate.choice.gain.lower_bound(0.9).value > 0.3  # the log earns 1.4
    assert estimate.choice.unit == "episode"


@pytest.mark.slow
def test_each_step_forward_has_less_variance():
    logs = [LogProfile(walk(seed=seed)) for seed in range(40)]
    spread = {
        name: np.std([evaluate(log, TARGET, method=name, gamma=1.0).value for log in logs])
        for name in ("tis", "pdis", "snpdis", "sequential-dr")
    }
    assert spread["pdis"] < spread["tis"]
    assert spread["snpdis"] < spread["pdis"]
    assert spread["sequential-dr"] < spread["pdis"]


@pytest.mark.parametrize("name", ROWS)
def test_folds_average_to_the_whole_where_nothing_is_normalised(name):
    log = walk(episodes=120)
    base = evaluate(log, TARGET, method=name, gamma=0.9).method.base
    folded = evaluate(log, TARGET, method=Method(base=base, partition=Split(4)), gamma=0.9)
    assert folded.fold_values.shape == (4,)
    assert folded.choice is None
    if name in ("tis", "pdis"):
        whole = evaluate(log, TARGET, method=name, gamma=0.9).value
        assert folded.fold_values.mean() == pytest.approx(whole)


def test_episodes_cut_off_count_as_far_as_they_were_logged():
    log = walk(terminated=False)
    with pytest.warns(HorizonWarning, match="logged steps only"):
        estimate = evaluate(log, TARGET, method="pdis", gamma=0.9)
    assert "as far as they were logged" in estimate.interval(0.9).note
    evaluate(log, TARGET, method="pdis", gamma=1e-4)  # what comes after does not count


@pytest.mark.parametrize("name", ROWS[:4])
def test_a_policy_that_earned_nothing_in_the_episodes_that_follow_it_is_worth_nothing(name):
    log = walk(episodes=400)
    only_ones_pay = log.with_rewards(log.actions.astype(float))
    estimate = evaluate(only_ones_pay, Fixed(1.0, 0.0), method=name, gamma=0.9)
    assert estimate.value == pytest.approx(0, abs=1e-6)
    assert estimate.interval(0.9).high > 0


def test_bad_input_is_named():
    log = walk(episodes=20)
    with pytest.raises(MethodError, match="critic must be a base that fits critics"):
        EpisodeDR(critic=EpisodeIS())
    unknown = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states,
        episode=log.episode_of_row, terminated=log.terminated,
    )  # fmt: skip
    for name in ROWS:
        with pytest.raises(LogError, match="needs the propensity"):
            evaluate(unknown, TARGET, method=name, gamma=0.9)
        with pytest.raises(MethodError, match="starts where the log does"):
            evaluate(log, TARGET, method=name, gamma=0.9, initial_states=[[1.0, 0.0]])
    against = Fixed(1.0, 0.0)
    ones = Log.from_arrays(
        log.states, np.ones(log.n_transitions, int), log.rewards, log.next_states,
        episode=log.episode_of_row, terminated=log.terminated,
        propensity=np.full(log.n_transitions, 0.4), action_space=2,
    )  # fmt: skip
    for name in ("tis", "sntis", "pdis", "snpdis"):
        with pytest.warns(match="never does"), pytest.raises(LogError, match="has a weight"):
            evaluate(ones, against, method=name, gamma=0.9)
    with pytest.warns(match="never does"), pytest.warns(SingularWarning):
        unchecked = evaluate(ones, against, method="sequential-dr", gamma=0.9)
    with pytest.raises(LevelError, match="nothing checks the critic"):
        unchecked.interval(0.9)
    assert isinstance(EpisodeDR().critic, LSTD)
