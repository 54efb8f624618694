"""Laws of tail pooling, and a log in which it is needed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tailproof.errors import MethodError
from tailproof.robust.pooling import (
    PoolingLevels,
    TailPooled,
    pooled_over_actions,
    pooled_path,
    risk_shares,
    thresholds,
)


def snips(weights):
    """Return the row scores of self-normalised importance sampling."""
    w = weights / weights.mean()

    def scores(rewards):
        value = (w * rewards).mean()
        return value + w * (rewards - value)

    return scores


def shop(seed, n=3_000, size=1.0):
    """Return a coin's actions and Pareto spend: the offer makes 14.5 % buy instead of 10 %."""
    rng = np.random.default_rng(seed)
    offer = rng.random(n) < 0.5
    buys = rng.random(n) < np.where(offer, 0.145, 0.1)
    spend = buys * 25 * (1 + rng.pareto(1.7, n)) * np.where(offer, size, 1.0)
    return spend, snips(2.0 * offer), offer


def test_without_pooling_it_is_the_difference_of_means():
    spend, scores, offer = shop(1)
    path = pooled_path(spend, scores)
    assert path.high[-1] == np.inf
    assert path.plain == pytest.approx(spend[offer].mean() - spend.mean())


def test_at_the_common_reward_only_frequencies_count():
    spend, scores, offer = shop(2)
    path = pooled_path(spend, scores)
    often = (spend[offer] > 0).mean() - (spend > 0).mean()
    assert path.high[0] == 0
    assert path.gains[0] == pytest.approx(often * spend[spend > 0].mean())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), tail=st.sampled_from(["upper", "lower", "both"]))
def test_the_logged_policy_gains_nothing_at_any_threshold(seed, tail):
    rng = np.random.default_rng(seed)
    rewards = rng.standard_t(1.5, 400)
    discount = 0.9 ** rng.integers(0, 10, 400)  # steps of episodes weigh less later
    path = pooled_path(rewards, lambda r: discount * r, base=discount, tail=tail)
    assert_allclose(path.gains, 0, atol=1e-9 * np.abs(rewards).sum())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), shift=st.floats(-50, 50), scale=st.floats(0.01, 100))
def test_shift_and_scale(seed, shift, scale):
    spend, scores, _ = shop(seed, n=600)
    path, moved = pooled_path(spend, scores), pooled_path(scale * spend + shift, scores)
    size = scale * spend.sum() + 600 * abs(shift)
    assert_allclose(moved.gains, scale * path.gains, atol=1e-10 * size)
    assert_allclose(moved.gain, scale * path.gain, rtol=1e-5, atol=1e-10 * size)


def test_a_cost_is_a_reward_of_the_other_sign():
    spend, scores, _ = shop(3)
    up, down = pooled_path(spend, scores), pooled_path(-spend, scores)
    assert_allclose(down.gains, -up.gains)
    assert down.low[0] == 0
    assert np.isinf(down.high).all()


def test_the_order_of_rows_does_not_matter():
    spend, _, offer = shop(4)
    order = np.random.default_rng(0).permutation(len(spend))
    path = pooled_path(spend, snips(2.0 * offer))
    again = pooled_path(spend[order], snips(2.0 * offer[order]))
    assert_allclose(again.gains, path.gains, atol=1e-12)
    assert_allclose(again.covariance, path.covariance, rtol=1e-9)


def test_groups_of_one_row_are_rows_and_copies_are_one_observation():
    spend, _, offer = shop(5, n=500)
    path = pooled_path(spend, snips(2.0 * offer))
    unit = np.repeat(np.arange(500), 2)
    twice = pooled_path(
        np.repeat(spend, 2),
        snips(np.repeat(2.0 * offer, 2)),
        sums=lambda values: np.bincount(unit, weights=values),
    )
    ends = np.ix_([0, -1], [0, -1])
    assert_allclose(twice.gains[[0, -1]], path.gains[[0, -1]])
    assert_allclose(twice.covariance[ends], path.covariance[ends], rtol=1e-9)


def test_without_a_tail_there_is_nothing_to_gain():
    rng = np.random.default_rng(6)
    offer = rng.random(4_000) < 0.5
    clicks = (rng.random(4_000) < np.where(offer, 0.3, 0.2)).astype(float)
    path = pooled_path(clicks, snips(2.0 * offer))
    assert_allclose(path.gains, path.plain)  # a size of one is its own mean


def test_expected_sizes_that_are_equal_change_nothing():
    spend, scores, _ = shop(7)
    alike = pooled_path(spend, scores, sizes=lambda excess: np.full(len(excess), 3.0))
    assert_allclose(alike.gains, pooled_path(spend, scores).gains)


def test_expected_sizes_take_out_what_the_state_explains():
    """Large customers are offered more: pooled over all sizes, frequencies alone mislead."""
    rng = np.random.default_rng(8)
    n = 40_000
    large = rng.random(n) < 0.5
    sizes = np.where(large, 10.0, 1.0)
    chance = np.where(large, 0.3, 0.1)  # a rule of the state: only large ones buy more often
    spend = (rng.random(n) < chance) * sizes * rng.exponential(1, n)
    policy = snips(np.where(large, 1.6, 0.4))
    truth = (1.6 - 1) / 2 * 0.3 * 10 + (0.4 - 1) / 2 * 0.1
    plainly, relative = (pooled_path(spend, policy, sizes=by) for by in (None, lambda _: sizes))
    assert abs(relative.gains[0] - truth) < 0.1 < abs(plainly.gains[0] - truth)


def test_influences_are_those_of_a_jackknife():
    spend, _, offer = shop(9, n=400)
    path = pooled_path(spend, snips(2.0 * offer))
    fixed = path.high[3]

    def gain(keep):
        r, w = spend[keep], 2.0 * offer[keep]
        over = r > fixed
        pooled = np.minimum(r, fixed) + over * (r[over] - fixed).mean()
        return (w * pooled).mean() / w.mean() - pooled.mean()

    left_out = np.array([gain(np.arange(400) != i) for i in range(400)])
    jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
    assert path.errors[3] == pytest.approx(jackknife, rel=0.02)


def test_the_error_of_gains_is_less_than_half_of_the_plain_one():
    truth = (0.145 - 0.1) / 2 * 25 * (1 + 1 / 0.7)
    found = np.array(
        [(path.gain, path.plain) for seed in range(60) for path in [pooled_path(*shop(seed)[:2])]]
    )
    pooled, plain = np.sqrt(((found - truth) ** 2).mean(axis=0))
    assert pooled < 0.6 * plain


def test_an_interval_for_sizes_that_may_differ_more_is_wider():
    spend, scores, _ = shop(11)
    path = pooled_path(spend, scores)
    widths = [
        high - low
        for change in (0.0, 0.2, 0.5, 10.0)
        for low, high in [path.sizes_within(change).ends(0.05, 0.05)]
    ]
    assert widths == sorted(widths)
    plain = 2 * 1.6449 * path.errors[-1]
    assert widths[-1] == pytest.approx(plain, rel=1e-3)  # nothing assumed, nothing pooled


def test_few_events_are_not_pooled():
    rewards = np.zeros(300)
    rewards[:15] = np.arange(1, 16)
    path = pooled_path(rewards, snips(np.ones(300)))
    assert path.gains.shape == (1,)
    assert path.begins == np.inf


def test_shares_prefer_what_has_less_risk():
    covariance, alike = np.diag([0.1, 1.0]), np.zeros(2)
    shares = risk_shares(np.array([1.0, 1.0]), covariance, alike)
    assert_allclose(shares, [10 / 11, 1 / 11], rtol=1e-4)
    # 8 apart: a bias of √(8² − 1.645²·1.1), more than the plain mean's error of 1
    assert risk_shares(np.array([9.0, 1.0]), covariance, alike)[0] < 0.02
    # sizes may differ by 1 standard deviation, and the log is too small to show it
    doubted = risk_shares(np.array([1.0, 1.0]), covariance, np.array([1.0, 0.0]))
    assert_allclose(doubted, [10 / 21, 11 / 21], rtol=1e-4)
    assert risk_shares(np.array([1.0, 1.0]), covariance, np.array([100.0, 0.0]))[0] < 0.001


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), m=st.integers(1, 8))
def test_no_other_average_has_less_risk(seed, m):
    """If estimates do not differ the risk is quadratic: all other shares have at least as much."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m, m))
    covariance, differ = root @ root.T, np.append(-np.sort(-rng.exponential(size=m - 1)), 0)
    shares = risk_shares(np.zeros(m), covariance, differ)
    factor = np.minimum(differ[:, None], differ) * differ.max()
    risk = covariance + (np.outer(differ, differ) + factor) / 2
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 0
    for other in rng.dirichlet(np.ones(m), size=20):
        assert shares @ risk @ shares <= other @ risk @ other * (1 + 1e-4) + 1e-4 * risk.max()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_pilot_without_an_extreme_is_not_sure_that_there_are_none(sign):
    """None of the pilot's 60 rows is extreme: the error is that of such weights on all rows."""
    rng = np.random.default_rng(16)
    rewards = sign * np.where(rng.random(3_000) < 0.1, 1.0, 0.0)
    rewards[60:90] *= 1_000
    weights = np.where(np.arange(3_000) < 60, 50.0, 0.0)
    path = pooled_path(rewards, snips(weights), weights=weights)
    unaware = pooled_path(rewards, snips(weights))
    assert path.errors[-1] > 5 * unaware.errors[-1]
    assert path.errors[-1] == pytest.approx(
        np.sqrt(((weights - 1) ** 2).mean() * rewards.var() / 3_000)
    )
    assert path.gains[-1] == unaware.gains[-1]


def test_thresholds_of_both_sides_end_without_pooling():
    low, high = thresholds(np.random.default_rng(12).standard_t(2, 1_000), "both")
    assert (np.diff(high) > 0).all()
    assert (np.diff(low) < 0).all()
    assert (low[-1], high[-1]) == (-np.inf, np.inf)


def test_pooled_rewards_give_the_averaged_gain_to_any_linear_estimate():
    spend, scores, offer = shop(13)
    path = pooled_path(spend, scores)
    pooled = PoolingLevels.of(spend).rewards(path)
    assert pooled.mean() == pytest.approx(spend.mean())
    assert pooled[offer].mean() - pooled.mean() == pytest.approx(path.gain)


def test_two_policies_of_a_log_have_a_difference():
    spend, scores, offer = shop(14)
    one, other = pooled_path(spend, scores), pooled_path(spend, snips(2.0 * ~offer))
    apart = one - other
    assert_allclose(apart.gains[-1], spend[offer].mean() - spend[~offer].mean())
    assert_allclose((one - one).gains, 0)
    assert apart.errors[0] > one.errors[0]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), tail=st.sampled_from(["upper", "lower", "both", None]))
def test_a_tail_pooled_mean_with_equal_weights_is_the_plain_mean(seed, tail):
    rewards = np.random.default_rng(seed).standard_t(1.5, 300)
    pooled = TailPooled(tail).rewards(rewards, np.full(300, 7.0))
    assert_allclose(pooled.mean(), rewards.mean(), atol=1e-9 * np.abs(rewards).sum())


def test_a_tail_pooled_mean_does_not_depend_on_a_shift_or_on_the_scale_of_weights():
    spend, _, offer = shop(15)
    weights = 2.0 * offer
    pooled = TailPooled().rewards(spend, weights)
    assert_allclose(TailPooled().rewards(spend + 9, 5 * weights), pooled + 9, rtol=1e-9)


def test_an_unknown_tail_is_refused():
    with pytest.raises(MethodError, match="tail"):
        TailPooled("left")


@given(st.integers(0, 50), st.floats(0.01, 100))
@settings(max_examples=15, deadline=None)
def test_rewards_to_learn_from_keep_the_logs_mean_and_every_scale(seed, scale):
    spend, _, offer = shop(seed)
    found, begins = pooled_over_actions(spend, offer.astype(int))
    assert found.mean() == pytest.approx(spend.mean())
    assert found.std() < spend.std()
    assert (found[spend == 0] == 0).all()
    assert np.isfinite(begins)
    again, later = pooled_over_actions(scale * spend, 1 - offer.astype(int))
    assert_allclose(again, scale * found, rtol=1e-8)
    assert later == pytest.approx(scale * begins)


def test_gains_of_a_part_of_the_log_are_pooled_more():
    """Their errors are larger, and so is what pooling saves."""
    spend, scores, _ = shop(17, n=8_000)
    path = pooled_path(spend, scores)
    unpooled = [replace(path, part=part).shares[-1] for part in (1.0, 1 / 8, 1 / 100)]
    assert unpooled[0] > unpooled[1] >= unpooled[2]
    assert_allclose(replace(path, part=1 / 8).errors, path.errors)  # of the whole, as they were


def test_rewards_without_a_common_one_or_with_two_tails_are_learnt_from_as_they_are(rng):
    actions, zero = rng.integers(2, size=2000), rng.random(2000) < 0.5
    for rewards in (rng.pareto(1.5, 2000), np.where(zero, 0.0, rng.standard_t(2, 2000))):
        found, begins = pooled_over_actions(rewards, actions)
        assert found is rewards
        assert begins == np.inf


def test_levels_of_a_log_serve_all_its_policies():
    spend, scores, offer = shop(3)
    levels = PoolingLevels.of(spend)
    for policy in (scores, snips(2.0 * ~offer)):
        assert_allclose(levels.path(policy).gains, pooled_path(spend, policy).gains, rtol=0, atol=0)
