import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import genpareto

from tailproof.errors import LogError
from tailproof.robust.tails import effective_rows, pareto_shape, weight_evidence

positive = arrays.arrays(float, st.integers(1, 60), elements=st.floats(1e-6, 1e6))


@given(st.integers(1, 100), st.floats(1e-100, 1e100))
def test_equal_weights_count_fully(n, weight):
    evidence = weight_evidence(np.full(n, weight))
    assert evidence.effective == pytest.approx(n)
    assert evidence.largest_share == pytest.approx(1 / n)


@given(st.integers(1, 50), st.integers(0, 50))
def test_zero_weights_do_not_count(used, unused):
    weights = np.append(np.ones(used), np.zeros(unused))
    assert effective_rows(np.asarray(weights, dtype=float)) == pytest.approx(used)


@given(positive)
def test_the_effective_size_lies_between_one_and_n_and_below_one_over_the_largest_share(w):
    evidence = weight_evidence(w)
    assert 1 - 1e-9 <= evidence.effective <= len(w) * (1 + 1e-9)
    assert evidence.effective <= 1 / evidence.largest_share**2 * (1 + 1e-9)


@given(positive, st.integers(-300, 300))
def test_only_the_mean_sees_the_unit(w, exponent):
    one, other = weight_evidence(w), weight_evidence(w * 2.0**exponent)
    assert other.effective == pytest.approx(one.effective)
    assert other.largest_share == pytest.approx(one.largest_share)
    assert other.mean == pytest.approx(one.mean * 2.0**exponent)
    if math.isfinite(one.pareto.k):
        assert other.pareto.k == pytest.approx(one.pareto.k, abs=1e-6)


def test_the_mean_is_set_against_one():
    w = np.random.default_rng(1).exponential(size=10_000)
    evidence = weight_evidence(w)
    assert evidence.mean_error == pytest.approx(abs(w.mean() - 1))
    assert evidence.standard_error == pytest.approx(w.std() / 100)
    assert evidence.mean_error < 4 * evidence.standard_error


def test_negative_weights_are_counted_by_size():
    evidence = weight_evidence([3.0, -1.0, 2.0])
    assert evidence.negative_share == pytest.approx(1 / 6)
    assert evidence.effective == pytest.approx(16 / 14)
    assert evidence.largest_share == pytest.approx(0.5)


def test_weights_that_cancel_are_worth_nothing():
    assert effective_rows(np.array([1.0, -1.0])) == 0


def test_huge_weights_do_not_overflow():
    evidence = weight_evidence([1e299, 1e299, 0.0])
    assert evidence.effective == pytest.approx(2)
    assert math.isfinite(evidence.standard_error)


@pytest.mark.parametrize("k", [-0.5, 0.0, 0.3, 0.7, 1.2])
def test_the_shape_of_a_generalised_pareto_law_is_found(k):
    rng = np.random.default_rng(2)
    fits = [pareto_shape(genpareto.rvs(k, size=100_000, random_state=rng)).k for _ in range(20)]
    # M = 949 exceedances: a standard deviation of about (1 + k)/√M, and 5/(M + 10) towards ½.
    assert np.mean(fits) == pytest.approx(k, abs=0.04)
    assert np.std(fits) == pytest.approx(max(1 + k, 0.3) / math.sqrt(949), rel=0.6)


def test_uniform_weights_are_harmless():
    evidence = weight_evidence(np.random.default_rng(3).uniform(0, 2, size=5000))
    assert evidence.pareto.k < 0
    assert evidence.reliable


def test_weights_without_a_variance_are_not():
    evidence = weight_evidence(np.random.default_rng(4).pareto(1.0, 5000))
    assert evidence.pareto.k > 0.7
    assert not evidence.reliable


def test_the_shape_that_is_reliable_grows_with_n_up_to_a_point():
    assert weight_evidence(np.ones(100)).reliable_k == pytest.approx(0.5)
    assert weight_evidence(np.ones(1000)).reliable_k == pytest.approx(2 / 3)
    assert weight_evidence(np.ones(10**5)).reliable_k == 0.7


def test_tied_largest_weights_have_no_tail():
    shape = pareto_shape(np.ones(1000))
    assert shape.k == -math.inf
    assert "the 96 largest values are all equal" in shape.reason
    assert weight_evidence(np.ones(1000)).reliable


def test_too_few_exceedances_are_not_estimable():
    shape = pareto_shape(np.append(np.ones(1000), [2.0, 3.0]))
    assert math.isnan(shape.k)
    assert shape.reason == "2 values exceed the threshold and 5 are needed"
    assert not weight_evidence(np.append(np.ones(1000), [2.0, 3.0])).reliable
    assert pareto_shape([1.0]).reason == "1 values are too few"


def test_a_candidate_that_is_exponential_does_no_harm():
    rng = np.random.default_rng(5)
    shapes = [pareto_shape(rng.integers(0, 50, size=40)).k for _ in range(200)]
    assert np.isfinite(shapes).all()


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(
        LogError, match=r"Weights must not all be zero. Got 3 zeros: the policy never"
    ):
        weight_evidence(np.zeros(3))
