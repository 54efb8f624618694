import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tailproof.errors import MethodError
from tailproof.robust.tails import max_to_sum, moment_evidence, tail_index

samples = arrays.arrays(float, st.integers(1, 40), elements=st.floats(-1e100, 1e100))
orders = st.sampled_from([0.5, 1.0, 2.0, 3.0])


@given(samples, orders)
def test_the_ratio_lies_between_one_over_n_and_one(x, p):
    assert 1 / len(x) * (1 - 1e-12) <= max_to_sum(x, p) <= 1


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), st.integers(-500, 500))
def test_neither_unit_nor_sign_matters(values, exponent):
    x = np.array(values, dtype=float)
    assert max_to_sum(-x * 2.0**exponent, 2) == pytest.approx(max_to_sum(x, 2))


def test_zeros_count_as_values_that_are_all_alike():
    assert max_to_sum(np.zeros(4), 1) == 1 / 4


def test_the_centre_takes_a_large_mean_away():
    x = np.append(np.full(99, 1000.0), 2000.0)
    assert max_to_sum(x, 2) < 0.05
    assert max_to_sum(x, 2, centre=1000.0) == 1


def test_huge_values_do_not_overflow():
    assert max_to_sum([1e299, -1e299], 3) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda rng: rng.standard_normal(20_000), "yes", "yes"),
        (lambda rng: rng.exponential(size=20_000) + 1000, "yes", "yes"),
        (lambda rng: rng.standard_t(1.4, 50_000), "yes", "no"),
        (lambda rng: rng.standard_t(5, 50_000), "yes", "yes"),
        (lambda rng: -rng.pareto(1.4, 50_000), "yes", "no"),
        (lambda rng: rng.pareto(0.5, 20_000), "no", "no"),
        (lambda rng: rng.standard_cauchy(20_000), "doubtful", "no"),
    ],
)
def test_known_laws(draw, mean, variance):
    x = draw(np.random.default_rng(17))
    assert moment_evidence(x, 1).exists == mean
    assert moment_evidence(x, 2).exists == variance


def test_a_moment_that_does_not_exist_is_hardly_ever_affirmed():
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(150):
        wrong += moment_evidence(rng.standard_cauchy(1000), 1).exists == "yes"
        wrong += moment_evidence(rng.standard_t(2, 1000), 2).exists == "yes"
    assert wrong / 300 < 0.05


def test_the_evidence_is_of_the_heavier_tail():
    x = -np.random.default_rng(3).pareto(1.4, 20_000)
    evidence = moment_evidence(x, 2)
    left = tail_index(x, side="left")
    assert (evidence.alpha, evidence.low, evidence.high) == (left.alpha, left.low, left.high)
    assert evidence.reason.startswith("the left tail has index 1.")
    assert "a variance needs more than 2" in evidence.reason
    assert f"the largest value carries {100 * evidence.ratio:.1f} %" in evidence.reason


def test_given_tails_are_used():
    x = np.random.default_rng(4).standard_t(1.5, 5000)
    tails = (tail_index(x, k=500, level=0.5),)
    assert moment_evidence(x, 1, tails=tails).low == tails[0].low


def test_a_storm_counts_as_one_value():
    x = np.random.default_rng(5).pareto(1.2, 1000)
    hours = np.repeat(x, 50)
    for p in (1, 2):
        once, repeated = moment_evidence(x, p), moment_evidence(hours, p, theta=1 / 50)
        assert repeated.exists == once.exists
        assert repeated.ratio == pytest.approx(once.ratio / 50)
    # Left out, fifty equal hours make each value look harmless.
    assert (moment_evidence(x, 1).exists, moment_evidence(hours, 1).exists) == ("doubtful", "yes")


@pytest.mark.parametrize("x", [np.full(10, 3.0), np.tile([0.0, 1.0], 500)])
def test_few_distinct_values_are_judged_by_the_largest(x):
    evidence = moment_evidence(x, 2)
    assert evidence.exists == "yes"
    assert math.isnan(evidence.alpha)
    assert "neither tail is estimable" in evidence.reason


def test_one_value_that_is_everything_is_doubtful_even_if_no_tail_is_estimable():
    evidence = moment_evidence(np.append(np.zeros(999), 1e6), 2)
    assert evidence.exists == "doubtful"
    assert evidence.ratio == 1


@pytest.mark.parametrize("p", [0, -1, math.inf, math.nan])
def test_an_order_must_be_positive(p):
    with pytest.raises(MethodError, match="p must be a finite number above 0"):
        max_to_sum([1.0, 2.0], p)
