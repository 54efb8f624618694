import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof.errors import LevelError, MethodError
from tailproof.robust.tails import tail_asymmetry


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
