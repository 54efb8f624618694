import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import median_abs_deviation

from tailproof.errors import MethodError
from tailproof.robust.tails import mad, residual_monitor

samples = arrays.arrays(float, st.integers(1, 200), elements=st.floats(-1e6, 1e6))


@given(samples)
def test_mad_agrees_with_scipy(x):
    assert mad(x) == pytest.approx(median_abs_deviation(x, scale="normal"), abs=1e-9)


def test_gaussian_residuals_have_a_ratio_of_one():
    monitor = residual_monitor(np.random.default_rng(1).standard_normal(100_000))
    assert monitor.ratio == pytest.approx(1, abs=0.02)
    assert monitor.swing < 1.3
    assert len(monitor.scale) == 100


def test_the_ratio_of_heavy_tails_grows_with_the_sample():
    x = np.random.default_rng(2).standard_t(1.2, 100_000)
    assert residual_monitor(x).ratio > 3 * residual_monitor(x[:1000]).ratio > 3


@given(samples, st.integers(2, 60), st.integers(0, 12))
def test_windows_and_worst_rows_are_the_definitions(x, window, worst):
    monitor = residual_monitor(x, window=window, worst=worst)
    window = min(window, len(x))
    edges = [*range(0, len(x) // window * window, window), len(x)]
    expected = [mad(x[a:b]) for a, b in pairwise(edges)]
    np.testing.assert_allclose(monitor.scale, expected, atol=1e-9)
    np.testing.assert_array_equal(monitor.starts, edges[:-1])
    distance = np.abs(x - np.median(x))
    assert len(monitor.worst) == min(worst, len(x))
    np.testing.assert_allclose(
        distance[monitor.worst], np.sort(distance)[::-1][: len(monitor.worst)], atol=1e-9
    )
    np.testing.assert_array_equal(monitor.worst_values, x[monitor.worst])


@given(samples, st.integers(-100, 100))
def test_the_ratio_does_not_see_the_unit(x, exponent):
    one, other = residual_monitor(x), residual_monitor(x * 2.0**exponent)
    assert other.std == pytest.approx(one.std * 2.0**exponent)
    np.testing.assert_array_equal(other.worst, one.worst)
    assert other.ratio == pytest.approx(one.ratio, nan_ok=True)


def test_a_stretch_of_wild_residuals_shows_in_its_window():
    x = np.random.default_rng(3).standard_normal(10_000)
    x[4000:4200] *= 20
    monitor = residual_monitor(x)
    assert int(monitor.starts[monitor.scale.argmax()]) in (4000, 4100)
    assert monitor.swing > 10
    assert ((monitor.worst >= 4000) & (monitor.worst < 4200)).all()


def test_mostly_equal_residuals_have_an_infinite_ratio_and_equal_ones_none():
    assert residual_monitor([0.0, 0.0, 0.0, 1.0]).ratio == math.inf
    assert math.isnan(residual_monitor(np.full(9, 2.0)).ratio)
    assert math.isnan(residual_monitor(np.full(9, 2.0)).swing)


def test_huge_residuals_do_not_overflow():
    assert residual_monitor([1e299, -1e299]).std == pytest.approx(1e299)


def test_ties_are_named_in_the_order_of_the_log():
    assert residual_monitor([0.0, 5.0, -5.0, 0.0, 0.0], worst=2).worst.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 1}, "window must be a whole number of at least 2"),
        ({"worst": -1}, "worst must be a whole number of at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(MethodError, match=message):
        residual_monitor(np.arange(9.0), **settings)
