"""Laws of the intervals and bounds: exact binomial levels, monotonicity, equivariance, refusals."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tailproof.errors import FoldError, LevelError, MethodError, QuantileWarning
from tailproof.robust.intervals import (
    fold_t_interval,
    folds_for,
    order_statistic_interval,
    order_statistic_lower_bound,
    quantile_bound,
    share_below_mean,
    tail_aware_lower_bound,
    theory_folds,
)

# Quarters of moderate size, so that the affine maps below are exact in floating point.
folds = st.lists(st.integers(-4000, 4000).map(lambda v: v / 4), min_size=1, max_size=40)
many_folds = st.lists(st.integers(-4000, 4000).map(lambda v: v / 4), min_size=12, max_size=40)
levels = st.floats(0.05, 0.99)
indices = st.floats(1.05, 1.95)
quantiles = st.floats(0, 1, allow_subnormal=False)


def ramp(K):
    return np.arange(1.0, K + 1)  # the j-th order statistic is j


@given(K=st.integers(1, 60), level=levels)
def test_interval_is_the_narrowest_pair_of_order_statistics_that_reaches_the_level(K, level):
    reach = [j for j in range(1, K + 1) if 1 - 2 * stats.binom.cdf(j - 1, K, 0.5) >= level - 1e-12]
    if not reach:
        with pytest.raises(LevelError):
            order_statistic_interval(ramp(K), level=level)
        return
    interval = order_statistic_interval(ramp(K), level=level)
    assert (interval.low, interval.high) == (max(reach), K + 1 - max(reach))
    assert interval.level == pytest.approx(1 - 2 * stats.binom.cdf(max(reach) - 1, K, 0.5))
    assert interval.requested == level


@given(K=st.integers(1, 60), level=levels, alpha=st.none() | indices)
def test_tail_aware_bound_is_the_largest_order_statistic_that_reaches_the_level(K, level, alpha):
    share = 0.5 if alpha is None else 1 - 1 / alpha
    reach = [j for j in range(1, K + 1) if stats.binom.cdf(j - 1, K, share) <= 1 - level + 1e-12]
    if not reach:
        with pytest.raises(LevelError):
            tail_aware_lower_bound(ramp(K), level=level, tail_index=alpha)
        return
    bound = tail_aware_lower_bound(ramp(K), level=level, tail_index=alpha)
    assert bound.value == max(reach)
    assert bound.level == pytest.approx(stats.binom.sf(max(reach) - 1, K, share))
    assert bound.requested == level


@given(K=st.integers(1, 40), q=quantiles, alpha=indices)
def test_quantile_bound_reports_the_binomial_level_of_its_order_statistic(K, q, alpha):
    shares = {"symmetric": 0.5, "left": 1 - 1 / alpha, "right": 1 / alpha}
    for skew, share in shares.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QuantileWarning)
            bound = quantile_bound(ramp(K), q=q, skew=skew, tail_index=alpha)
        assert bound.value == max(1, math.ceil(q * K - 1e-9))
        assert bound.level == pytest.approx(stats.binom.sf(bound.value - 1, K, share))
        assert bound.requested == 1 - q


@given(values=folds, q=quantiles)
def test_interpolated_quantile_takes_the_level_of_the_order_statistic_above_it(values, q):
    K = len(values)
    bound = quantile_bound(values, q=q, rule="linear")
    j = math.ceil(q * (K - 1) - 1e-9) + 1
    assert bound.value == pytest.approx(np.quantile(values, q))
    assert bound.value <= np.sort(values)[j - 1] + 1e-6
    assert bound.level == pytest.approx(stats.binom.sf(j - 1, K, 0.5))


def test_the_two_quantile_rules_differ_at_the_papers_setting():
    with pytest.warns(QuantileWarning, match=r"0.1-quantile of 5 .* minimum"):
        lower = quantile_bound(ramp(5), q=0.1)
    linear = quantile_bound(ramp(5), q=0.1, rule="linear")
    assert (lower.value, lower.level) == (1.0, 0.96875)
    assert (linear.value, linear.level) == (1.4, 0.8125)  # not the 90 % that it is called
    assert lower.requested == linear.requested == 0.9
    assert "90 % bound" in lower.note


def test_the_minimum_asked_for_by_name_does_not_warn():
    assert quantile_bound(ramp(5), q=0).value == 1.0


@given(K=st.integers(1, 40), alpha=indices, q=quantiles)
def test_a_left_tail_lowers_the_level_and_a_right_tail_raises_it(K, alpha, q):
    level = {
        skew: quantile_bound(ramp(K), q=q, rule="linear", skew=skew, tail_index=alpha).level
        for skew in ("left", "symmetric", "right")
    }
    assert level["left"] <= level["symmetric"] <= level["right"]
    unknown = quantile_bound(ramp(K), q=q, rule="linear", skew="right").level
    assert unknown == level["symmetric"]


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9])
def test_share_below_the_mean_is_that_of_a_totally_skewed_stable_law(alpha):
    left = stats.levy_stable.cdf(0, alpha, -1)  # its location is its mean
    assert share_below_mean(skew="left", tail_index=alpha) == pytest.approx(left, abs=1e-4)
    assert share_below_mean(skew="right", tail_index=alpha) == pytest.approx(1 - left, abs=1e-4)


def test_a_half_skewed_stable_law_lies_between_left_and_symmetric():
    between = stats.levy_stable.cdf(0, 1.5, -0.5)
    assert share_below_mean(skew="left", tail_index=1.5) < between < share_below_mean()


@given(alpha=st.floats(2, 50))
def test_finite_variance_gives_the_symmetric_share(alpha):
    assert share_below_mean(skew="left", tail_index=alpha) == 0.5
    assert share_below_mean(skew="right", tail_index=alpha) == 0.5


@given(values=folds, level=levels)
def test_fold_t_interval_is_scipys(values, level):
    assume(len(values) > 1)
    assume(np.ptp(values) > 0)
    interval = fold_t_interval(values, level=level)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.level == interval.requested == level


@given(values=many_folds, one=levels, other=levels)
def test_a_higher_level_never_narrows(values, one, other):
    low, high = sorted((one, other))
    for make in (order_statistic_interval, fold_t_interval):
        narrow, wide = make(values, level=low), make(values, level=high)
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high
        assert wide.level >= narrow.level
    loose, strict = (order_statistic_lower_bound(values, level=level) for level in (low, high))
    assert strict.value <= loose.value
    assert strict.level >= loose.level


@given(
    values=many_folds,
    level=levels,
    scale=st.sampled_from([0.25, 1.0, 2.0, 8.0]),
    shift=st.integers(-100, 100),
)
def test_equivariance(values, level, scale, shift):
    values = np.array(values)
    moved = scale * values + shift
    for make in (order_statistic_interval, fold_t_interval):
        before, after = make(values, level=level), make(moved, level=level)
        mirrored = make(-values, level=level)
        ends = (scale * before.low + shift, scale * before.high + shift)
        assert (after.low, after.high) == pytest.approx(ends, abs=1e-6)
        assert (mirrored.low, mirrored.high) == pytest.approx((-before.high, -before.low), abs=1e-6)
        assert before.level == after.level == mirrored.level
    bounds = (
        lambda v: order_statistic_lower_bound(v, level=level),
        lambda v: tail_aware_lower_bound(v, level=level, tail_index=1.8),
        lambda v: quantile_bound(v, q=0.3),
        lambda v: quantile_bound(v, q=0.3, rule="linear"),
    )
    for make_bound in bounds:
        try:
            before = make_bound(values)
        except LevelError:
            continue  # out of reach whatever the values
        after = make_bound(moved)
        assert after.value == pytest.approx(scale * before.value + shift)
        assert after.level == before.level


@given(values=many_folds, seed=st.integers(0, 99))
def test_the_order_of_folds_does_not_matter(values, seed):
    shuffled = np.random.default_rng(seed).permutation(values)
    assert order_statistic_interval(values, level=0.9) == order_statistic_interval(
        shuffled, level=0.9
    )
    assert fold_t_interval(values, level=0.9) == fold_t_interval(shuffled, level=0.9)
    assert quantile_bound(values, q=0.2) == quantile_bound(shuffled, q=0.2)


def test_the_ends_survive_as_many_wild_folds_as_lie_outside_them():
    values = ramp(20)
    interval = order_statistic_interval(values, level=0.9)
    wild = values.copy()
    wild[:5], wild[-5:] = -1e12, 1e12
    assert interval.low == 6
    assert order_statistic_interval(wild, level=0.9) == interval


def test_constant_folds_give_that_constant():
    same = np.full(6, 2.5)
    assert fold_t_interval(same, level=0.95).low == fold_t_interval(same, level=0.95).high == 2.5
    assert order_statistic_interval(same, level=0.95).high == 2.5
    assert order_statistic_lower_bound(same, level=0.95).value == 2.5


def test_bounds_without_a_tail_index_are_the_symmetric_ones():
    values = ramp(9)
    aware = tail_aware_lower_bound(values, level=0.9)
    plain = order_statistic_lower_bound(values, level=0.9)
    assert (aware.value, aware.level) == (plain.value, plain.level)
    assert aware.kind != plain.kind
    assert "symmetric tails assumed" in aware.note


@given(level=st.floats(0.01, 0.9999), alpha=indices)
def test_folds_for_is_the_least_number_that_reaches_the_level(level, alpha):
    cases = (
        ("order-statistic-interval", lambda v: order_statistic_interval(v, level=level)),
        ("order-statistic-bound", lambda v: order_statistic_lower_bound(v, level=level)),
        ("tail-aware-bound", lambda v: tail_aware_lower_bound(v, level=level, tail_index=alpha)),
        ("fold-t-interval", lambda v: fold_t_interval(v, level=level)),
    )
    for kind, make in cases:
        K = folds_for(level, kind, tail_index=alpha)
        assert make(ramp(K)).level >= level - 1e-9
        if K > 1:
            with pytest.raises(LevelError):
                make(ramp(K - 1))


@given(level=st.floats(0.5, 0.9999), alpha=indices)
def test_folds_for_a_tail_index_is_log_over_log(level, alpha):
    exact = math.log(1 / (1 - level)) / math.log(alpha)
    assume(abs(exact - round(exact)) > 1e-6)
    assert folds_for(level, "tail-aware-bound", tail_index=alpha) == math.ceil(exact)


def test_folds_for_known_levels():
    assert folds_for(0.9375) == 5
    assert folds_for(0.95) == 6
    assert folds_for(0.95, "order-statistic-bound") == 5
    assert folds_for(0.95, "tail-aware-bound") == 5
    assert folds_for(0.95, "fold-t-interval") == 2


def test_theory_folds():
    assert theory_folds(0.05) == 30
    assert theory_folds(0.1) == math.ceil(8 * math.log(20))


def test_five_folds_reach_93_75_exactly():
    interval = order_statistic_interval(ramp(5), level=0.9375)
    assert (interval.low, interval.high, interval.level) == (1, 5, 0.9375)


def test_an_unreachable_interval_names_the_folds_that_reach_it():
    text = (
        r"^5 folds reach at most 93.75 % two-sided.*Asked for 95 %: use 6 folds or more "
        r"\(96.875 %\), or ask for 93.75 % or less"
    )
    with pytest.raises(LevelError, match=text):
        order_statistic_interval(ramp(5), level=0.95)


def test_an_unreachable_bound_names_the_folds_that_reach_it():
    text = r"^5 folds reach at most 86.8312 % one-sided.*probability 0.333.*95 %: use 8 folds"
    with pytest.raises(LevelError, match=text):
        tail_aware_lower_bound(ramp(5), level=0.95, tail_index=1.5)
    with pytest.raises(LevelError, match=r"^4 folds reach at most 93.75 % one-sided.*use 5 folds"):
        order_statistic_lower_bound(ramp(4), level=0.95)


@given(K=st.integers(2, 15), alpha=indices)
def test_the_level_that_a_refusal_offers_is_in_reach(K, alpha):
    with pytest.raises(LevelError) as refusal:
        tail_aware_lower_bound(ramp(K), level=0.99999999, tail_index=alpha)
    offered = re.search(r"ask for ([0-9.]+) % or less", str(refusal.value))
    assert tail_aware_lower_bound(ramp(K), level=float(offered[1]) / 100, tail_index=alpha).value


def test_one_fold_has_no_spread():
    with pytest.raises(LevelError, match=r"needs the spread of 2 folds or more. Got 1 fold"):
        fold_t_interval([1.0], level=0.95)
    with pytest.raises(LevelError, match=r"^1 folds reach at most 0 % two-sided.*use 6 folds"):
        order_statistic_interval([1.0], level=0.95)


@pytest.mark.parametrize("alpha", [1.0, 0.8])
def test_a_tail_without_a_mean_has_no_bound_on_it(alpha):
    with pytest.raises(LevelError, match=rf"index {alpha:g} has no mean to bound: bound a median"):
        tail_aware_lower_bound(ramp(50), level=0.5, tail_index=alpha)
    with pytest.raises(LevelError, match="has no mean"):
        quantile_bound(ramp(50), q=0.1, skew="right", tail_index=alpha)


def test_a_left_tail_needs_its_index():
    with pytest.raises(MethodError, match=r"A left tail needs a tail_index above 1. Got None"):
        quantile_bound(ramp(20), q=0.1, skew="left")
    with pytest.raises(MethodError, match=r"A left tail needs a tail_index above 1. Got nan"):
        tail_aware_lower_bound(ramp(20), level=0.9, tail_index=math.nan)


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, math.nan])
@pytest.mark.parametrize(
    "make",
    [
        order_statistic_interval,
        fold_t_interval,
        order_statistic_lower_bound,
        tail_aware_lower_bound,
    ],
)
def test_levels_outside_the_unit_interval_are_refused(make, level):
    with pytest.raises(LevelError, match=rf"between 0 and 1. Got {level!r}: use 0.95 for 95 %"):
        make(ramp(9), level=level)
    for kind in ("order-statistic-interval", "fold-t-interval"):
        with pytest.raises(LevelError, match=rf"between 0 and 1. Got {level!r}"):
            folds_for(level, kind)


@pytest.mark.parametrize("delta", [0, 1, 5, math.nan])
def test_deltas_outside_the_unit_interval_are_refused(delta):
    with pytest.raises(LevelError, match=rf"delta must be a number in \(0, 1\). Got {delta!r}"):
        theory_folds(delta)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda v: order_statistic_interval(v, level=0.5),
        lambda v: fold_t_interval(v, level=0.5),
        lambda v: quantile_bound(v, q=0.5),
        lambda v: order_statistic_lower_bound(v, level=0.5),
        lambda v: tail_aware_lower_bound(v, level=0.5),
    ],
)
def test_failed_folds_are_refused_not_averaged_in(make, bad):
    with pytest.raises(FoldError, match=r"must be finite. Got 1 of 4 not: drop them"):
        make([1.0, bad, 2.0, 3.0])
    for shape in ((0,), (2, 2), ()):
        with pytest.raises(FoldError, match=r"shape \(K,\), K ≥ 1. Got \("):
            make(np.ones(shape))


def test_unknown_settings_list_the_known_ones():
    with pytest.raises(MethodError, match="skew must be 'symmetric', 'left' or 'right'"):
        quantile_bound(ramp(9), q=0.2, skew="up")
    with pytest.raises(MethodError, match=r"rule must be .*'nearest'"):
        quantile_bound(ramp(9), q=0.2, rule="nearest")
    with pytest.raises(MethodError, match=r"q must be a number in \[0, 1\]. Got 20"):
        quantile_bound(ramp(9), q=20)
    with pytest.raises(MethodError, match=r"kind must be .*'tail-aware-bound'.*'bootstrap'"):
        folds_for(0.9, "bootstrap")


@pytest.mark.parametrize("name", ["level", "note"])
def test_results_are_frozen(name):
    with pytest.raises(AttributeError):
        setattr(order_statistic_interval(ramp(6), level=0.9), name, "x")
    with pytest.raises(AttributeError):
        setattr(order_statistic_lower_bound(ramp(6), level=0.9), name, "x")
