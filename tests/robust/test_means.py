import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.optimize import brentq

from tailproof.errors import MethodError, PartitionError, TailproofError
from tailproof.robust.means import (
    AdaptiveHuber,
    Catoni,
    LeeValiant,
    MedianOfMeans,
    PermutedMedianOfMeans,
    SampleMean,
    TrimmedMean,
    Winsorised,
    apply_mean,
    huber_path,
)


def huber_mean(samples, tau):
    return float(huber_path(samples, [tau])[0])


SORTING = [
    Catoni(),
    Catoni(delta=1e-6),
    TrimmedMean(0.1),
    Winsorised(0.25),
    AdaptiveHuber(),
    lambda samples: huber_mean(samples, math.inf),
]
MEANS = [
    SampleMean(),
    MedianOfMeans(),
    PermutedMedianOfMeans(permutations=3),
    LeeValiant(),
    LeeValiant(delta=1e-6),
    *SORTING[:-1],
]
means = pytest.mark.parametrize(
    "mean", MEANS, ids=lambda mean: getattr(mean, "__name__", repr(mean))
)

values = st.floats(-1e6, 1e6, allow_subnormal=False)
samples = arrays(np.float64, st.integers(1, 60), elements=values)
# Few distinct values: ties, majorities, and everything that a continuous law never shows.
tied = arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([-1.0, 0.0, 0.1, 3.0, 1e6]))
any_samples = st.one_of(samples, tied)


def near(expected, *sizes):
    """Equal up to rounding of numbers as large as these."""
    return pytest.approx(expected, rel=1e-9, abs=1e-9 * max(np.max(np.abs(size)) for size in sizes))


@means
@given(x=any_samples, shift=values, scale=st.floats(1e-3, 1e3), sign=st.sampled_from([-1, 1]))
@settings(max_examples=60)
def test_translating_and_scaling_the_samples_does_the_same_to_the_mean(mean, x, shift, scale, sign):
    moved = sign * scale * x + shift
    expected = sign * scale * mean(x) + shift
    assert mean(moved) == near(expected, moved, scale * x, shift)


@means
@given(x=any_samples)
@settings(max_examples=60)
def test_a_mean_lies_in_the_range_of_the_samples(mean, x):
    assert x.min() - 1e-9 * np.ptp(x) <= mean(x) <= x.max() + 1e-9 * np.ptp(x)


@means
@given(value=values, n=st.integers(1, 100))
@settings(max_examples=30)
def test_constants_and_single_samples_come_back_exactly(mean, value, n):
    assert mean(np.full(n, value)) == value


@pytest.mark.parametrize("mean", SORTING, ids=lambda mean: getattr(mean, "__name__", repr(mean)))
@given(x=any_samples, seed=st.integers(0, 100))
@settings(max_examples=30)
def test_the_order_of_the_samples_is_irrelevant_to_the_bit(mean, x, seed):
    assert mean(np.random.default_rng(seed).permutation(x)) == mean(x)


@given(x=any_samples)
def test_limits_that_are_the_plain_mean(x):
    plain = near(np.mean(x), x)
    assert SampleMean()(x) == plain
    assert MedianOfMeans(1)(x) == plain
    assert PermutedMedianOfMeans(1)(x) == plain
    assert TrimmedMean(0)(x) == plain
    assert Winsorised(0)(x) == plain
    assert huber_mean(x, np.inf) == plain
    assert huber_mean(x, np.ptp(x) + 1) == plain


@given(x=any_samples)
def test_limits_that_are_the_median(x):
    median = near(np.median(x), x)
    assert MedianOfMeans(len(x))(x) == median
    assert PermutedMedianOfMeans(len(x))(x) == median
    assert TrimmedMean(0.5)(x) == median
    assert Winsorised(0.5)(x) == median
    assert huber_mean(x, 1e-12) == pytest.approx(np.median(x), abs=1e-9)


def test_catoni_of_a_huge_variance_is_the_mean_and_of_a_tiny_one_the_median():
    x = np.random.default_rng(5).normal(size=101) ** 2
    assert Catoni(variance=1e12)(x) == pytest.approx(x.mean(), abs=1e-6)
    assert Catoni(variance=1e-16)(x) == pytest.approx(np.median(x), abs=1e-6)


def test_lee_valiant_of_a_delta_near_one_is_the_mean():
    x = np.random.default_rng(5).normal(size=100)
    assert LeeValiant(delta=1 - 1e-12)(x) == pytest.approx(x.mean(), abs=1e-9)


def huber_sum(x, m, tau):
    return np.sum(np.clip(x - m, -tau, tau))


@given(x=any_samples, tau=st.floats(1e-3, 1e7))
@example(x=np.array([0.0, 10.0]), tau=1.0)
def test_huber_mean_solves_its_equation_and_is_the_midpoint_of_all_solutions(x, tau):
    slack = 1e-9 * (tau + np.ptp(x))
    m = huber_mean(x, tau)
    assert huber_sum(x, m - slack, tau) >= -slack
    assert huber_sum(x, m + slack, tau) <= slack
    if np.sum(np.abs(x - m) < tau) == 0:
        assert m == near(np.median(x), x)


def test_huber_path_is_huber_mean_for_each_threshold():
    x = np.random.default_rng(2).standard_t(1.5, 500)
    taus = np.geomspace(0.1, 1e4, 30)
    path = huber_path(x, taus)
    assert path.tolist() == [huber_mean(x, tau) for tau in taus]
    assert path == pytest.approx([brentq(huber_one, -50, 50, (x, t), 1e-14) for t in taus])


def huber_one(m, x, tau):
    return huber_sum(x, m, tau)


@given(x=any_samples)
def test_adaptive_huber_solves_both_of_its_equations(x):
    m = AdaptiveHuber()(x)
    squares = (x - m) ** 2
    rounding = 1e-9 * np.ptp(x)
    if np.sum(np.sqrt(squares) > rounding) <= math.log(len(x)):
        assert m == near(np.median(x), x)
        return

    def excess(tau):
        return np.sum(np.minimum(squares / tau**2, 1)) - math.log(len(x))

    tau = brentq(excess, rounding / 10, 10 * np.ptp(x) * len(x), xtol=1e-14 * np.ptp(x))
    assert huber_mean(x, tau) == pytest.approx(m, abs=1e-6 * np.ptp(x))


def catoni_sum(theta, x, alpha):
    u = alpha * (x - theta)
    size = np.minimum(np.abs(u), 1)
    return np.sum(-np.sign(u) * np.log1p(-size + size**2 / 2))


@pytest.mark.parametrize("df", [1.0, 1.5, 5.0])
def test_catoni_solves_its_equation_at_the_truncated_variance(df):
    x = np.random.default_rng(3).standard_t(df, 2000)
    budget = 2 * math.log(2 / 0.05)
    variance = np.var(x)
    for _ in range(2000):
        tau = math.sqrt(len(x) * variance / budget)
        variance = np.mean(np.minimum((x - huber_mean(x, tau)) ** 2, tau**2))
    theta = brentq(catoni_sum, -50, 50, (x, 1 / tau), xtol=1e-14)
    assert Catoni()(x) == pytest.approx(theta, abs=1e-9)
    assert Catoni(variance=variance)(x) == pytest.approx(theta, abs=1e-9)


@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3, 1e-12])
def test_lee_valiant_is_its_three_steps(delta):
    x = np.random.default_rng(4).standard_t(1.5, 400)
    kappa = MedianOfMeans(math.ceil(math.log(1 / delta)))(x)

    def excess(log_alpha):
        return np.sum(np.minimum(np.exp(log_alpha) * (x - kappa) ** 2, 1)) - math.log(1 / delta) / 3

    alpha = np.exp(brentq(excess, -50, 50, xtol=1e-14))
    weights = 1 - np.minimum(alpha * (x - kappa) ** 2, 1)
    assert LeeValiant(delta=delta)(x) == pytest.approx(kappa + np.mean((x - kappa) * weights))


def test_lee_valiant_with_fewer_samples_than_its_budget_is_their_median():
    assert LeeValiant(delta=1e-9)([1.0, 2.0, 30.0]) == 2.0


@given(x=samples, fraction=st.floats(0, 0.49))
def test_trimming_agrees_with_scipy(x, fraction):
    assert TrimmedMean(fraction)(x) == near(stats.trim_mean(x, fraction), x)
    winsorised = np.mean(stats.mstats.winsorize(x, limits=(fraction, fraction)))
    assert Winsorised(fraction)(x) == near(float(winsorised), x)


def test_trimming_does_not_lose_a_sample_to_rounding():
    assert 0.29 * 100 < 29
    assert TrimmedMean(0.29)([-1e9] * 29 + [1.0] * 42 + [7e9] * 29) == 1.0


@pytest.mark.parametrize(
    "mean", [Catoni(), AdaptiveHuber(), LeeValiant(1e-3), MedianOfMeans(), TrimmedMean(0.05)]
)
def test_the_size_of_an_outlier_does_not_matter(mean):
    x = np.random.default_rng(6).normal(size=1000)
    x[17] = 1e7
    bounded = mean(x)
    x[17] = 1e130
    assert abs(bounded) < 0.3
    assert mean(x) == pytest.approx(bounded, abs=1e-5)


def test_outliers_at_both_ends_do_not_cost_the_others_their_digits():
    bulk = np.linspace(1.0, 2.0, 999)
    x = np.concatenate([bulk, [1e18, 1.1e18, -1e18, -1.3e18]])
    assert huber_mean(x, 5.0) == pytest.approx(1.5, abs=1e-12)
    assert AdaptiveHuber()(x) == pytest.approx(1.5, abs=1e-12)
    assert Catoni()(x) == pytest.approx(1.5, abs=1e-9)


@pytest.mark.parametrize("mean", [MedianOfMeans(10), PermutedMedianOfMeans(10), MedianOfMeans()])
@pytest.mark.parametrize("kind", [np.int64, np.str_])
def test_a_group_stays_in_one_block(mean, kind):
    rng = np.random.default_rng(7)
    storms = rng.choice([-1.0, 1.0], size=40) * 2.0 ** rng.integers(0, 40, size=40)
    x = np.concatenate([storms, -storms])  # exactly zero by group, anything but by sample
    groups = np.tile(np.arange(40), 2).astype(kind)
    assert mean(x, groups=groups) == 0.0
    assert mean(x) != 0.0


def test_blocks_of_unequal_groups_average_samples_not_groups():
    x, groups = [0.0, 0.0, 0.0, 8.0], ["a", "a", "a", "b"]
    assert MedianOfMeans(1)(x, groups=groups) == 2.0
    assert MedianOfMeans(2)(x, groups=groups) == 4.0


@pytest.mark.parametrize(
    "mean", [SampleMean(), *SORTING[:-1]], ids=lambda mean: getattr(mean, "__name__", repr(mean))
)
def test_means_without_blocks_ignore_groups_and_rng(mean):
    x = np.random.default_rng(8).standard_t(1.5, 50)
    assert mean(x, groups=np.arange(50) // 10, rng=np.random.default_rng(1)) == mean(x)


@pytest.mark.parametrize("mean", [MedianOfMeans(7), PermutedMedianOfMeans(7, 2), LeeValiant(1e-4)])
def test_blocks_are_drawn_from_the_generator_and_from_a_fixed_one_without(mean):
    x = np.random.default_rng(9).standard_t(1.5, 200)
    drawn = [mean(x, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert mean(x) == mean(x) == mean(x, rng=np.random.default_rng(0))


def test_the_number_of_blocks_follows_from_delta_but_leaves_two_samples_a_block():
    x = np.random.default_rng(10).standard_t(1.5, 1000)
    assert MedianOfMeans()(x) == MedianOfMeans(30)(x)
    assert MedianOfMeans(delta=0.01)(x) == MedianOfMeans(43)(x)
    assert MedianOfMeans()(x[:20]) == MedianOfMeans(10)(x[:20])
    assert MedianOfMeans()(x, groups=np.arange(1000) // 50) == MedianOfMeans(10)(
        x, groups=np.arange(1000) // 50
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@means
def test_samples_that_no_mean_can_use_are_counted_and_located(mean, bad):
    x = [1.0, 2.0, bad, 3.0, bad]
    with pytest.raises(TailproofError, match=r"at index 2 \(2 such entries of 5\)"):
        mean(x)


@means
def test_no_samples_have_no_mean(mean):
    with pytest.raises(TailproofError, match=r"n ≥ 1\. Got \(0,\)"):
        mean([])
    with pytest.raises(TailproofError, match=r"shape \(n,\).*Got \(2, 1\)"):
        mean([[1.0], [2.0]])


def test_more_blocks_than_groups_are_refused_with_both_numbers():
    with pytest.raises(PartitionError, match=r"12 blocks need as many samples\. Got 5"):
        MedianOfMeans(12)(np.arange(5.0))
    with pytest.raises(PartitionError, match=r"4 blocks need as many groups\. Got 3"):
        PermutedMedianOfMeans(4)(np.arange(6.0), groups=[0, 0, 1, 1, 2, 2])


def test_groups_must_label_every_sample():
    with pytest.raises(TailproofError, match=r"must label 3 samples\. Got shape \(2,\)"):
        MedianOfMeans(2)([1.0, 2.0, 3.0], groups=[0, 1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Catoni(delta=0), "delta must be a number in .0, 1.. Got 0 instead"),
        (lambda: LeeValiant(delta=1.5), "delta must be a number in .0, 1.. Got 1.5"),
        (lambda: MedianOfMeans(delta=math.nan), "delta must be a number in .0, 1.. Got nan"),
        (lambda: Catoni(variance=0), "variance must be a finite number above 0. Got 0"),
        (lambda: MedianOfMeans(0), "blocks must be a whole number of at least 1. Got 0"),
        (lambda: MedianOfMeans(2.5), "blocks must be a whole number of at least 1. Got 2.5"),
        (
            lambda: PermutedMedianOfMeans(5, 0),
            "permutations must be a whole number of at least 1. Got 0",
        ),
        (lambda: TrimmedMean(0.6), "fraction must be a number in .0, 0.5.. Got 0.6"),
        (lambda: Winsorised(-0.1), "fraction must be a number in .0, 0.5.. Got -0.1"),
        (lambda: huber_mean([1.0], 0.0), "tau must be positive. Got \\[0.0\\]"),
        (lambda: huber_path([1.0], [[1.0]]), "tau must be positive. Got"),
        (lambda: Catoni(delta=2), "delta must be a number in .0, 1.. Got 2"),
        (lambda: TrimmedMean(1), "fraction must be a number in .0, 0.5.. Got 1"),
    ],
)
def test_settings_out_of_range_are_refused_at_once(build, message):
    with pytest.raises(MethodError, match=message):
        build()


@means
def test_means_are_values(mean):
    assert pickle.loads(pickle.dumps(mean)) == mean
    assert len({mean, pickle.loads(pickle.dumps(mean))}) == 1
    with pytest.raises(FrozenInstanceError):
        mean.delta = 0.5


def errors(draw, replicates=100, size=1000):
    """RMSE of each mean around a true mean of zero, on the same samples."""
    rng = np.random.default_rng(2024)
    logs = [draw(rng, size) for _ in range(replicates)]

    def root_mean_square(mean):
        return math.sqrt(np.mean([mean(log) ** 2 for log in logs]))

    return root_mean_square


def test_on_a_symmetric_heavy_tail_every_robust_mean_is_far_closer_than_the_plain_one():
    error = errors(lambda rng, size: rng.standard_t(1.5, size))
    plain = error(SampleMean())
    for mean in (MedianOfMeans(), Catoni(), LeeValiant(), AdaptiveHuber(), TrimmedMean(0.05)):
        assert error(mean) < 0.65 * plain
    assert error(PermutedMedianOfMeans()) < error(MedianOfMeans())


def test_on_gaussian_samples_catoni_and_adaptive_huber_cost_nothing():
    error = errors(lambda rng, size: rng.normal(size=size))
    plain = error(SampleMean())
    for mean in (Catoni(), LeeValiant(), AdaptiveHuber()):
        assert error(mean) == pytest.approx(plain, rel=0.03)


def test_on_skewed_samples_trimming_and_many_blocks_are_biased_and_the_others_are_not():
    error = errors(lambda rng, size: rng.pareto(2.5, size) - 1 / 1.5)
    plain = error(SampleMean())
    for mean in (Catoni(), LeeValiant(), AdaptiveHuber()):
        assert error(mean) < 1.25 * plain
    for mean in (MedianOfMeans(100), TrimmedMean(0.05), Winsorised(0.05)):
        assert error(mean) > 1.6 * plain


def test_infinite_moments_of_every_order_leave_catoni_and_adaptive_huber_standing():
    error = errors(lambda rng, size: rng.standard_t(1.0, size))
    for mean in (Catoni(), AdaptiveHuber()):
        assert error(mean) < 0.3 * error(SampleMean())


def test_a_function_of_the_samples_alone_is_a_mean(rng):
    x = rng.normal(size=20)
    groups = np.arange(20) // 2
    assert apply_mean(np.median, x, groups=groups, rng=None) == np.median(x)
    for mean in (MedianOfMeans(4), lambda x, **_: x.mean()):
        assert apply_mean(mean, x, groups=groups, rng=None) == mean(x, groups=groups, rng=None)
