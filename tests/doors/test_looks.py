import numpy as np
import pytest
from scipy.stats import binom

from tailproof import Log, confidence_sequence, evaluate
from tailproof.errors import LevelError


def made(n, seed, *, group=None, sign=1):
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = sign * rng.lognormal(sigma=1.2, size=n)
    return Log.from_arrays(
        np.zeros(n), actions, rewards, np.zeros(n),
        episode=range(n), propensity=np.full(n, 0.5), group=group,
    )  # fmt: skip


def second(states):
    return np.ones(len(states), int)


@pytest.mark.slow
def test_looking_again_and_again_keeps_the_level():
    """Single looks lose it: that is what a sequence is for."""
    truth, logs = np.exp(0.72), 60
    sequence = guaranteed = single = 0
    for seed in range(logs):
        log = made(3000, seed)
        found = [
            evaluate(log[:n], second, method="snips") for n in (200, 350, 600, 1000, 1700, 3000)
        ]
        always = [confidence_sequence(each, level=0.8) for each in found]
        sequence += all(each.low <= truth <= each.high for each in always)
        least = [confidence_sequence(each, level=0.8, kind="guaranteed") for each in found]
        guaranteed += all(each.low <= truth for each in least)
        once = [each.interval(0.8) for each in found]
        single += all(each.low <= truth <= each.high for each in once)
    assert binom.cdf(sequence, logs, 0.8) > 1e-3
    assert binom.cdf(guaranteed, logs, 0.8) > 1e-3
    assert binom.cdf(single, logs, 0.8) < 1e-3


def test_it_is_wider_than_a_single_look_and_says_what_it_assumes():
    estimate = evaluate(made(800, 0), second, method="snips")
    once, always = estimate.interval(0.9), confidence_sequence(estimate)
    assert always.low < once.low < once.high < always.high
    assert always.level == 0.9
    assert "finite variance" in always.note
    bound = confidence_sequence(estimate, kind="guaranteed")
    assert 0 < bound.low < estimate.value
    assert bound.high == np.inf


def test_rows_of_a_group_are_one_observation():
    log = made(300, 1)
    copies = np.repeat(np.arange(300), 3)
    alone = confidence_sequence(evaluate(log, second, method="snips"))
    grouped = log.take(copies).with_groups(copies)
    many = confidence_sequence(evaluate(grouped, second, method="snips"))
    assert many.high - many.low == pytest.approx(alone.high - alone.low, rel=0.02)


def test_costs_have_no_guaranteed_lower_bound():
    estimate = evaluate(made(300, 2, sign=-1), second, method="snips")
    with pytest.raises(LevelError, match="rewards that are never negative"):
        confidence_sequence(estimate, kind="guaranteed")


def test_what_has_no_sequence_says_so(cartpole):
    log = cartpole.log(episodes=20, seed=1)
    estimate = evaluate(log, cartpole.target(), method="lstd", gamma=0.9)
    with pytest.raises(LevelError, match="for one-step logs"):
        confidence_sequence(estimate)
    one_step = evaluate(made(300, 3), second, method="snips")
    with pytest.raises(LevelError, match="kind must be"):
        confidence_sequence(one_step, kind="exact")
    with pytest.raises(LevelError, match="tightest must be"):
        confidence_sequence(one_step, tightest=0)
