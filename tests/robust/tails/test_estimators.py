import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof.robust.tails import (
    alpha_interval,
    geometric_grid,
    hill_path,
    invert,
    moment_path,
    stable_k,
)


@pytest.fixture
def descending():
    return np.sort(np.random.default_rng(3).pareto(1.3, 60) + 0.5)[::-1]


def test_hill_path_is_the_definition_at_every_k(descending):
    expected = [np.log(descending[:k] / descending[k]).mean() for k in range(1, 60)]
    np.testing.assert_allclose(hill_path(descending), expected, rtol=1e-12)


def test_moment_path_is_the_definition_at_every_k(descending):
    expected = []
    for k in range(2, 60):
        logs = np.log(descending[:k] / descending[k])
        first, second = logs.mean(), (logs**2).mean()
        expected.append(first + 1 - 0.5 / (1 - first**2 / second))
    path = moment_path(descending)
    assert np.isnan(path[0])
    np.testing.assert_allclose(path[1:], expected, rtol=1e-9)


@pytest.mark.parametrize("path", [hill_path, moment_path])
def test_a_range_of_six_hundred_orders_of_magnitude_does_not_overflow(path):
    assert np.isfinite(path(np.geomspace(1e300, 1e-300, 40))[2:]).all()


@pytest.mark.parametrize("path", [hill_path, moment_path])
def test_equal_values_have_no_shape(path):
    assert not np.nan_to_num(path(np.full(40, 2.0))).any()


@pytest.mark.parametrize(("path", "deviation"), [(hill_path, 0.5), (moment_path, 1.25**0.5)])
def test_the_spread_of_the_estimates_is_as_published(path, deviation):
    """√k·(ξ_k − ξ) has the deviation ξ (Hill) and √(1 + ξ²) (moments), here with ξ = ½."""
    rng, k, n = np.random.default_rng(11), 400, 40_000
    # The largest of n uniforms by their spacings: the whole sample is never drawn.
    draws = np.cumsum(rng.exponential(size=(300, 4 * k + 1)), axis=1) / n
    estimates = [path(u**-0.5)[k - 1] for u in draws]
    expected = deviation / np.sqrt(k)
    assert np.mean(estimates) == pytest.approx(0.5, abs=5 * expected / np.sqrt(300) + 0.05)
    assert np.std(estimates) == pytest.approx(expected, rel=0.2)


def test_hill_interval_is_exact_for_pareto_values():
    rng, k = np.random.default_rng(5), 50
    shape = rng.gamma(k, size=4000) / k * 0.5  # what Hill's estimate is for Pareto with α = 2
    low, high = alpha_interval(shape, np.full(4000, k), level=0.9, theta=1.0)
    assert np.mean((low <= 2) & (high >= 2)) == pytest.approx(0.9, abs=0.015)


@given(st.floats(0.05, 3.0), st.integers(10, 10_000), st.floats(0.5, 0.99))
def test_a_higher_level_or_more_clustering_widens_the_interval(shape, k, level):
    shapes, ks = np.array([shape]), np.array([k])
    low, high = alpha_interval(shapes, ks, level=level, theta=1.0)
    assert low <= invert(shapes) <= high
    for other, theta in (((1 + level) / 2, 1.0), (level, 0.3)):
        wide_low, wide_high = alpha_interval(shapes, ks, level=other, theta=theta)
        assert wide_low < low
        assert wide_high >= high


def test_stable_k_is_the_last_when_nothing_moves_and_the_first_when_all_does():
    k = geometric_grid(10, 1000, 12)
    assert stable_k(k, np.full(12, 0.5), np.full(12, 0.5)) == 1000
    assert stable_k(k, 10.0 ** np.arange(12), np.full(12, 0.5)) == 10


def test_stable_k_stops_before_an_estimate_that_does_not_exist():
    k = np.array([10, 20, 40])
    assert stable_k(k, np.array([0.5, np.nan, 0.5]), np.full(3, 0.5)) == 10
