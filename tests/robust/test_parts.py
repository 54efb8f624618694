"""Laws of the split of a gain into how often and how large."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.robust.parts import Occurrences, gain_parts


def occurrences(rewards, usual=0.0):
    """Return the events of equally weighted rows."""
    events, excess = rewards != usual, rewards - usual
    return Occurrences(
        usual=usual,
        rate=events.mean(),
        excess=excess.mean(),
        rate_influence=events - events.mean(),
        excess_influence=excess - excess.mean(),
    )


def two_arms(seed, n=4_000, rates=(0.145, 0.1), size=1.0, usual=0.0, sign=1):
    """Return events of two independent arms, as of one log in which a coin chose the arm."""
    rng = np.random.default_rng(seed)
    arm = np.arange(2 * n) % 2
    sizes = sign * 25 * (1 + rng.pareto(2.5, 2 * n)) * np.where(arm == 0, size, 1.0)
    rewards = usual + (rng.random(2 * n) < np.array(rates)[arm]) * sizes
    found = []
    for k in (0, 1):
        own = occurrences(rewards[arm == k], usual)
        influence = np.zeros((2, 2 * n))
        influence[:, arm == k] = 2 * own.rate_influence, 2 * own.excess_influence
        found.append(replace(own, rate_influence=influence[0], excess_influence=influence[1]))
    return found


def plain_gain(first, second):
    return first.usual + first.excess - second.usual - second.excess


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shrunk=st.floats(0.1, 2.0),
    cost=st.floats(-5, 5),
    sign=st.sampled_from([1, -1]),
)
def test_the_parts_add_up_to_the_gain_however_it_was_pooled(seed, shrunk, cost, sign):
    first, second = two_arms(seed, n=600, sign=sign)
    first = replace(first, usual=cost)
    gain = cost + shrunk * plain_gain(replace(first, usual=0.0), second)
    parts = gain_parts(first, second, gain)
    assert parts.usual + parts.often.gain + parts.size.gain == pytest.approx(gain)
    value = parts.usual + parts.often.policy * parts.size.policy
    assert value - second.excess == pytest.approx(gain)


def test_without_pooling_they_are_ratios_of_rates_and_of_mean_sizes():
    first, second = two_arms(1)
    parts = gain_parts(first, second, plain_gain(first, second))
    assert parts.often.relative == pytest.approx(first.rate / second.rate - 1)
    assert parts.size.relative == pytest.approx(first.size / second.size - 1)


def test_a_policy_that_does_what_was_logged_changes_nothing():
    second = two_arms(2)[1]
    parts = gain_parts(second, second, 0.0)
    assert (parts.often.gain, parts.size.gain) == pytest.approx((0, 0))
    assert parts.often.relative_interval().high == pytest.approx(0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(5))
def test_larger_events_bring_what_their_relative_interval_says(seed, sign):
    """One enormous order must not make two intervals of the same change tell different stories."""
    first, second = two_arms(seed, rates=(0.12, 0.1), sign=sign)
    size = gain_parts(first, second, plain_gain(first, second)).size
    ends = [sign * x for x in (size.interval().low, size.interval().high)][::sign]
    ratio = size.relative_interval()
    reach = sign * first.rate * second.size
    assert ends == pytest.approx([reach * ratio.low, reach * ratio.high])


def test_rows_without_an_event_do_not_change_the_interval_of_sizes():
    """Their influence on a mean size is 0 up to rounding: scaled rewards round differently."""
    rng = np.random.default_rng(7)
    rewards = (rng.random(6_000) < 0.15) * 25 * (1 + rng.pareto(1.7, 6_000))
    arm = np.arange(6_000) % 2 == 0

    def interval(scale):
        found = []
        for weights in (2.0 * arm, np.ones(6_000)):
            own = scale * rewards
            events, excess = weights * (own > 0), weights * own
            found.append(
                Occurrences(
                    usual=0.0,
                    rate=events.mean(),
                    excess=excess.mean(),
                    rate_influence=weights * ((own > 0) - events.mean()),
                    excess_influence=weights * (own - excess.mean()),
                )
            )
        ratio = gain_parts(*found, found[0].excess - found[1].excess).size.relative_interval()
        return ratio.low, ratio.high

    for scale in (0.1, 3.7, 1e6 / 7):
        assert interval(scale) == pytest.approx(interval(1.0), rel=1e-6)


def test_at_the_tipping_point_nothing_is_gained():
    first, second = two_arms(3)
    first = replace(first, usual=-0.2)
    parts = gain_parts(first, second, plain_gain(first, second))
    turned = first.usual + first.rate * second.size * (1 + parts.tipping_point)
    assert turned == pytest.approx(second.excess)
    found = parts.tipping_interval()
    assert found.low < parts.tipping_point < found.high


def test_intervals_hold_about_as_often_as_they_say():
    held = np.zeros(3)
    for seed in range(200):
        first, second = two_arms(100 + seed, n=1_500)
        parts = gain_parts(first, second, plain_gain(first, second))
        often, size = parts.often.relative_interval(), parts.size.relative_interval()
        tipping = parts.tipping_interval()
        truths = (0.45, 0.0, 1 / 1.45 - 1)
        for i, (each, truth) in enumerate(zip((often, size, tipping), truths, strict=True)):
            held[i] += each.low <= truth <= each.high
    assert (held / 200 > 0.85).all()


def test_without_events_there_are_no_parts():
    first, second = two_arms(4)
    assert gain_parts(replace(first, rate=0.0), second, 1.0) is None
