import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import LevelError, MethodError
from tailproof.robust.tails import tail_index, tail_path


def hill(x, k, **more):
    """Return the estimate from the k largest values, without centring."""
    return tail_index(x, k=k, centre=0.0, **more)


def coverage(draw, alpha, estimate, samples):
    estimates = [estimate(draw()) for _ in range(samples)]
    return np.mean([tail.low <= alpha <= tail.high for tail in estimates])


@pytest.mark.parametrize("alpha", [0.8, 1.5, 3.0])
def test_hill_covers_the_index_of_a_pareto_law_as_often_as_it_says(alpha):
    rng = np.random.default_rng(1)
    share = coverage(lambda: rng.pareto(alpha, 500) + 1, alpha, lambda x: hill(x, 200), 500)
    assert share == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("df", [1.0, 1.5, 2.5])
def test_the_chosen_k_covers_the_degrees_of_freedom_of_student_t(df):
    rng = np.random.default_rng(3)
    share = coverage(lambda: rng.standard_t(df, 4000), df, tail_index, 60)
    assert share >= 0.85


def test_a_hundred_times_the_sample_more_than_halves_the_typical_error():
    rng = np.random.default_rng(4)

    def typical_error(n):
        estimates = [tail_index(rng.standard_t(1.5, n)).alpha for _ in range(15)]
        return np.median(np.abs(np.array(estimates) - 1.5))

    assert typical_error(100_000) < typical_error(1000) / 2


def test_a_gaussian_is_light():
    x = np.random.default_rng(5).standard_normal(20_000)
    for side in ("left", "right"):
        assert tail_index(x, side=side).low > 4


exact = st.lists(st.integers(-(2**30), 2**30), min_size=80, max_size=300, unique=True)


@settings(max_examples=60, deadline=None)
@given(exact, st.integers(-20, 20), st.integers(-1000, 1000))
def test_neither_unit_nor_origin_matters(values, exponent, shift):
    x = np.array(values, dtype=float)
    base = tail_index(x)
    moved = tail_index(x * 2.0**exponent + shift * 2.0**exponent)
    assert moved.reason == base.reason
    if base.estimable:
        assert moved.alpha == pytest.approx(base.alpha, rel=1e-9)
        assert (moved.low, moved.high) == pytest.approx((base.low, base.high), rel=1e-9)
        assert moved.k == base.k
        assert moved.threshold == (base.threshold + shift) * 2.0**exponent


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-200, 1e200))
def test_hill_does_not_see_the_unit(seed, scale):
    x = np.random.default_rng(seed).pareto(1.5, 100) + 1
    assert hill(x * scale, 20).alpha == pytest.approx(hill(x, 20).alpha, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(exact)
def test_a_sign_flip_swaps_the_tails(values):
    x = np.array(values, dtype=float)
    left, right = tail_index(x, side="left"), tail_index(-x)
    assert left.reason == right.reason
    if left.estimable:
        assert (left.alpha, left.low, left.high) == (right.alpha, right.low, right.high)
        assert left.threshold == -right.threshold


@settings(max_examples=40, deadline=None)
@given(exact, st.randoms(use_true_random=False))
def test_the_order_of_the_sample_does_not_matter(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert repr(tail_index(values)) == repr(tail_index(shuffled))


def test_the_sides_differ_for_a_skewed_sample():
    x = np.random.default_rng(8).pareto(1.5, 20_000)
    right = tail_index(x)
    assert right.low < 1.5 < right.high
    assert tail_index(x, side="left").low > 3


def test_the_threshold_leaves_k_values_beyond_it():
    x = np.random.default_rng(9).standard_t(2, 3000)
    for side, beyond in (("right", np.greater), ("left", np.less)):
        tail = tail_index(x, side=side)
        assert np.count_nonzero(beyond(x, tail.threshold)) == tail.k


def test_doubled_values_need_the_extremal_index_to_be_covered():
    rng, hits = np.random.default_rng(10), {1.0: 0, 0.5: 0}
    for _ in range(300):
        x = np.repeat(rng.pareto(1.5, 1000) + 1, 2)
        for theta in hits:
            tail = hill(x, 200, theta=theta)
            hits[theta] += tail.low <= 1.5 <= tail.high
    assert hits[0.5] / 300 == pytest.approx(0.95, abs=0.035)
    assert hits[1.0] / 300 < 0.88


@pytest.mark.parametrize("times", [2, 25])
def test_repeated_values_with_their_extremal_index_count_once(times):
    x = np.random.default_rng(13).standard_t(1.5, 4000)
    once, repeated = tail_index(x), tail_index(np.repeat(x, times), theta=1 / times)
    assert repeated.k / times == pytest.approx(once.k, rel=0.1)
    assert repeated.alpha == pytest.approx(once.alpha, rel=0.1)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high), rel=0.15)


def test_a_storm_leaves_too_few_extremes():
    x = np.repeat(np.random.default_rng(14).standard_t(1.5, 30), 100)
    assert (
        "751 values lie beyond the centre and 1001 are needed" in tail_index(x, theta=0.01).reason
    )


def test_the_path_passes_through_the_estimates():
    x = np.random.default_rng(11).pareto(2.0, 2000) + 1
    path = tail_path(x, centre=0.0)
    for k in (3, 50, 499):
        one = hill(x, k)
        row = path.k.tolist().index(k)
        assert path.alpha[row] == pytest.approx(one.alpha)
        assert (path.low[row], path.high[row]) == pytest.approx((one.low, one.high))
        assert path.threshold[row] == pytest.approx(one.threshold)


def test_a_thinned_path_keeps_both_ends():
    path = tail_path(np.random.default_rng(12).standard_t(2, 4000), points=50)
    assert len(path.k) <= 50
    assert (path.k[0], path.k[-1]) == (1, 1000)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (np.arange(39.0), "the sample has 39 values and at least 40 are needed"),
        (np.zeros(1000), "0 values lie beyond the centre and 11 are needed"),
        (np.append(np.zeros(995), np.arange(1.0, 6)), "5 values lie beyond the centre"),
        (np.repeat([0.0, 1.0], 500), "its 11 largest values take 1 distinct value"),
        (
            np.minimum(np.random.default_rng(1).standard_t(1, 2000), 5.0),
            "its 14 largest values take 1 distinct value",
        ),
    ],
)
def test_what_cannot_be_estimated_says_why(x, reason):
    tail = tail_index(x)
    assert not tail.estimable
    assert math.isnan(tail.alpha)
    assert reason in tail.reason
    assert reason in str(tail)


def test_an_estimate_reads_well():
    text = str(hill(np.exp(np.arange(20.0)), 10))
    assert text == "right tail: α = 0.18 [0.09, 0.31] (Hill, 10 extremes beyond 8103)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: tail_index(x, side="up"),
            MethodError,
            "side must be 'right' or 'left'",
        ),
        (lambda x: tail_index(x, level=95), LevelError, "A level must lie between 0 and 1. Got 95"),
        (lambda x: tail_index(x, theta=0), MethodError, r"theta must be a number in \(0, 1\]"),
        (lambda x: hill(x, 1), MethodError, "k must lie between 2 and .* Got k = 1"),
        (
            lambda x: hill(x, 60),
            MethodError,
            "Got k = 60 and 50 values beyond the centre 0; take a",
        ),
        (lambda x: tail_path(np.zeros(9)), MethodError, "two values or more beyond the centre 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(np.arange(-49.0, 51.0))
