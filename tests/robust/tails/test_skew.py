import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof.errors import LevelError, MethodError
from tailproof.robust.tails import medcouple, tail_asymmetry


def brute_force(x):
    """The definition, pair by pair, with the kernel of Brys, Hubert and Struyf for ties."""
    x = np.sort(np.asarray(x, dtype=float))
    m = np.median(x)
    right, left = x[x >= m][::-1], x[x <= m][::-1]
    ties = int((x == m).sum())
    kernel = []
    for i, a in enumerate(right):
        for j, b in enumerate(left):
            if a == b == m:
                # The last `ties` of the right and the first `ties` of the left are the tied ones.
                row, column = i - (len(right) - ties), j
                kernel.append(np.sign(ties - 1 - row - column))
            else:
                kernel.append(((a - m) - (m - b)) / (a - b))
    return float(np.median(kernel))


@given(st.lists(st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), min_size=1, max_size=60))
def test_the_medcouple_is_the_median_over_all_pairs(values):
    assert medcouple(values).value == pytest.approx(brute_force(values), abs=1e-9)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60))
def test_the_medcouple_is_exact_with_ties(values):
    assert medcouple(values).value == pytest.approx(brute_force(values), abs=1e-12)


@pytest.mark.parametrize("n", [500, 801])
def test_the_medcouple_of_larger_samples_is_exact(n):
    x = np.random.default_rng(n).lognormal(size=n)
    assert medcouple(x).value == pytest.approx(brute_force(x), abs=1e-12)
    assert medcouple(np.round(x, 1)).value == pytest.approx(brute_force(np.round(x, 1)), abs=1e-12)


@given(
    st.lists(st.integers(-1000, 1000), min_size=3, max_size=80),
    st.integers(-30, 30),
    st.integers(-1000, 1000),
)
def test_unit_and_origin_do_not_matter_and_a_sign_flip_turns_it(values, exponent, shift):
    x = np.array(values, dtype=float)
    value = medcouple(x).value
    assert medcouple(x * 2.0**exponent + shift * 2.0**exponent).value == pytest.approx(value)
    assert medcouple(-x).value == pytest.approx(-value)
    assert -1 <= value <= 1


def test_outliers_do_not_move_it():
    x = np.random.default_rng(1).lognormal(size=2000)
    wild = np.append(x, np.full(200, 1e12))
    assert abs(medcouple(wild).value - medcouple(x).value) < 0.15


def test_a_symmetric_sample_has_none():
    x = np.random.default_rng(2).standard_t(1, 300)
    assert medcouple(np.concatenate([x, -x])).value == pytest.approx(0, abs=1e-12)


def test_all_alike_has_none():
    assert medcouple(np.full(7, 2.5)).value == 0
    assert medcouple([1.0]).value == 0


def test_a_thinned_sample_says_so_and_is_close():
    x = np.random.default_rng(3).lognormal(size=5_000)
    exact, thinned = medcouple(x, exact_up_to=5_000), medcouple(x, exact_up_to=500)
    assert exact.exact
    assert not thinned.exact
    assert (thinned.n, thinned.used) == (5_000, 500)
    assert thinned.value == pytest.approx(exact.value, abs=2 / 500)


def test_thinning_needs_something_to_keep():
    with pytest.raises(MethodError, match="exact_up_to must be a whole number of at least 3"):
        medcouple([1.0, 2.0], exact_up_to=2)


def test_the_asymmetry_of_a_symmetric_law_is_covered_as_often_as_it_says():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        tails = tail_asymmetry(rng.standard_t(2, 2000), share=0.05)
        hits += tails.low <= 1 <= tails.high
    assert 0.93 <= hits / 400 <= 1  # Clopper and Pearson never promise less


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=200))
def test_a_sign_flip_inverts_the_ratio(values):
    x = np.array(values, dtype=float)
    one, other = tail_asymmetry(x), tail_asymmetry(-x)
    assert (one.right, one.left) == (other.left, other.right)
    if one.right and one.left:
        assert one.ratio == pytest.approx(1 / other.ratio)
        assert one.low == pytest.approx(1 / other.high)


def test_a_skewed_law_shows_in_number_and_in_length():
    tails = tail_asymmetry(np.random.default_rng(5).lognormal(size=5000))
    assert tails.ratio == math.inf
    assert tails.low > 50
    assert tails.spread > 3
    assert tails.right == pytest.approx(250, abs=1)


def test_counts_are_what_lies_beyond_the_distance():
    x = np.random.default_rng(6).standard_t(2, 999) + np.linspace(0, 3, 999)
    tails = tail_asymmetry(x)
    z = x - np.median(x)
    assert tails.right == np.count_nonzero(z > tails.distance)
    assert tails.left == np.count_nonzero(z < -tails.distance)
    assert tails.ratio == tails.right / tails.left


def test_clusters_widen_the_interval():
    x = np.random.default_rng(7).standard_t(2, 2000)
    alone, clustered = tail_asymmetry(x), tail_asymmetry(x, theta=0.2)
    assert clustered.low < alone.low < alone.high < clustered.high
    assert clustered.ratio == alone.ratio


def test_no_tails_no_ratio():
    tails = tail_asymmetry(np.full(50, 2.0))
    assert math.isnan(tails.ratio)
    assert math.isnan(tails.low)
    assert math.isnan(tails.spread)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"share": 0.5}, MethodError, r"share must be a number in \(0, 0.5\)"),
        ({"level": 1.0}, LevelError, "A level must lie between 0 and 1. Got 1.0"),
        ({"theta": 2.0}, MethodError, "theta must be a number in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        tail_asymmetry(np.arange(9.0), **settings)
