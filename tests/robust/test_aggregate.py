import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tailproof import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
from tailproof.errors import MethodError, QuantileWarning
from tailproof.robust.aggregates import order_statistics, selection_network

VALUES = arrays(
    float, st.tuples(st.integers(1, 21), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)
)
AGGREGATES = [
    Mean(),
    Median(),
    Quantile(0.3),
    Quantile(0.4, rule="lower"),
    TrimmedMean(),
    MeanMinusStd(),
]


@given(VALUES)
def test_networks_give_every_order_statistic(values):
    assert np.array_equal(order_statistics(values, range(len(values))), np.sort(values, axis=0))


@pytest.mark.parametrize("count", range(1, 17))
def test_networks_sort_all_zero_one_inputs(count):
    """The zero-one principle: a network that sorts these sorts everything."""
    inputs = (np.arange(2 ** min(count, 12))[None] >> np.arange(count)[:, None]) & 1
    ordered = np.stack(order_statistics(inputs.astype(float), range(count)))
    assert (np.diff(ordered, axis=0) >= 0).all()


def test_a_median_of_five_needs_few_comparisons():
    assert len(selection_network(5, (2,))) <= 9


@given(VALUES)
def test_median_and_quantiles_equal_numpys(values):
    assert np.allclose(Median()(values), np.median(values, axis=0))
    for q in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert np.allclose(Quantile(q)(values), np.quantile(values, q, axis=0))
    assert np.array_equal(Quantile(0.0)(values), values.min(axis=0))
    assert np.array_equal(Quantile(0.5)(values), Median()(values))
    assert np.array_equal(Quantile(0.0, rule="lower")(values), values.min(axis=0))


@given(VALUES)
def test_a_median_survives_fewer_than_half_corrupted_members(values):
    count = len(values)
    bad = (count - 1) // 2
    corrupted = values.copy()
    corrupted[:bad] = np.inf
    answer = Median()(corrupted)
    assert (answer <= values[bad:].max(axis=0)).all()
    assert (answer >= values[bad:].min(axis=0)).all()


@given(
    arrays(float, st.tuples(st.integers(1, 9), st.integers(2, 4)), elements=st.floats(-100, 100))
)
def test_the_largest_median_is_at_most_the_median_of_the_largest(values):
    assert Median()(values).max() <= Median()(values.max(axis=1)) + 1e-9


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
@given(values=VALUES)
def test_every_aggregate_is_equivariant_ordered_and_trivial_on_one_member(aggregate, values):
    assume(
        not isinstance(aggregate, Quantile)
        or aggregate.q * len(values) >= 1
        or aggregate.rule == "linear"
    )
    result = aggregate(values)
    assert result.shape == values.shape[1:]
    assert np.allclose(aggregate(2 * values + 3), 2 * result + 3, atol=1e-6)
    assert np.allclose(aggregate(values[::-1]), result, atol=1e-6)
    assert (result <= values.max(axis=0) + 1e-6).all()
    one = values[:1]
    if not (isinstance(aggregate, Quantile) and aggregate.rule == "lower"):
        assert np.allclose(aggregate(one), one[0])


def test_the_lower_rule_is_an_order_statistic_and_warns_when_it_is_the_minimum():
    five = np.array([5.0, 1.0, 2.0, 4.0, 3.0])
    assert Quantile(0.4, rule="lower")(five) == 2.0
    assert Quantile(0.5, rule="lower")(five) == 3.0
    with pytest.warns(QuantileWarning, match=r"q·K = 0\.5 < 1\. Use at least 10 folds"):
        assert Quantile(0.1, rule="lower")(five) == 1.0


def test_limits_of_trimming_and_spread():
    values = np.array([[1.0], [2.0], [9.0]])
    assert TrimmedMean(0.0)(values) == Mean()(values)
    assert TrimmedMean(0.34)(values) == Median()(values)
    assert MeanMinusStd(0.0)(values) == Mean()(values)


def test_settings_out_of_range_are_refused():
    with pytest.raises(MethodError, match=r"q must be a number in \[0, 1\]\. Got 1\.2"):
        Quantile(1.2)
    with pytest.raises(MethodError, match=r"rule must be 'linear' or 'lower'\. Got 'upper'"):
        Quantile(0.5, rule="upper")
    with pytest.raises(MethodError, match=r"fraction must be a number in \[0, 0\.5\)\. Got 0\.5"):
        TrimmedMean(0.5)
