import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom

from tailproof.robust.sequences import sequential_miss, smoothing_sequence


@given(st.integers(1, 10**7), st.floats(0.01, 0.3))
def test_every_look_asks_for_more_than_a_single_one(count, miss):
    assert 0 <= sequential_miss(count, miss=miss) < miss / 2


def test_the_sequence_is_tightest_where_asked():
    def width(n, tightest):
        return -ndtri(sequential_miss(n, miss=0.1, tightest=tightest)) / np.sqrt(n)

    for n in (200, 2_000, 20_000):
        assert width(n, n) < min(width(n, n // 10), width(n, 10 * n))


def test_normal_sums_stay_within_the_boundary_at_all_times():
    rng = np.random.default_rng(0)
    paths, steps = 400, 4000
    sums = rng.normal(size=(paths, steps)).cumsum(axis=1)
    n = np.arange(1, steps + 1)
    boundary = np.array([-ndtri(sequential_miss(k, miss=0.2)) for k in n]) * np.sqrt(n)
    ever = (np.abs(sums) > boundary).any(axis=1).sum()
    assert binom.sf(ever - 1, paths, 0.2) > 1e-3  # no more than 20 % ever leave
    single = (np.abs(sums) > -ndtri(0.1) * np.sqrt(n)).any(axis=1).mean()
    assert single > 0.6  # as single looks do


@pytest.mark.parametrize("index", [1.3, 2.5])
def test_smoothing_holds_at_all_times_whatever_the_tail(index):
    rng = np.random.default_rng(1)
    mean, paths = 1 / (index - 1), 100
    looks = [20, 60, 200, 600]
    missed = 0
    for _ in range(paths):
        x = rng.pareto(index, size=looks[-1])
        missed += any(smoothing_sequence(x[:n], miss=0.2) > mean for n in looks)
    assert binom.sf(missed - 1, paths, 0.2) > 1e-3


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(np.array))
def test_smoothing_is_between_zero_and_the_mean(samples):
    assert 0 <= smoothing_sequence(samples, miss=0.1) <= samples.mean()


def test_smoothing_tightens_with_data_and_knows_no_unit():
    x = np.random.default_rng(2).exponential(size=20_000)
    few, many = smoothing_sequence(x[:200], miss=0.1), smoothing_sequence(x, miss=0.1)
    assert few < many < 1.02
    assert many > 0.95
    assert smoothing_sequence(1024 * x, miss=0.1) == pytest.approx(1024 * many, rel=1e-3)
