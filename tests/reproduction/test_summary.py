import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest

from reproduction.experiment import Results
from reproduction.summary import (
    ERROR,
    REGRET,
    Summary,
    beyond_chance,
    log_mse,
    median_size,
    share_closer,
    summarise,
    verdict,
)

SAMPLES = arrays(float, 30, elements=st.floats(-100, 100))
CHECKS = st.lists(st.sampled_from([True, False, None]), max_size=6)


@given(SAMPLES)
def test_an_interval_contains_its_value_for_the_mean(values):
    found = summarise(values)
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9
    assert found.value == pytest.approx(values.mean())


def test_an_interval_of_the_mean_covers_as_often_as_it_says(rng):
    inside = 0
    for _ in range(300):
        found = summarise(rng.standard_normal(100))
        inside += found.low <= 0 <= found.high
    assert 0.90 <= inside / 300 <= 0.985


def test_one_value_decides_nothing():
    found = summarise(np.array([3.0]))
    assert (found.value, found.above()) == (3.0, None)


def test_log_mse_and_the_median_error_by_hand():
    errors = np.array([3.0, -4.0, 0.0])
    assert log_mse(errors) == pytest.approx(np.log(25 / 3))
    assert median_size(errors) == 3.0


@given(arrays(float, 25, elements=st.floats(1, 100)), arrays(float, 25, elements=st.floats(1, 100)))
def test_the_share_of_logs_has_the_exact_binomial_interval(one, two):
    if (one == two).any():
        return
    found = share_closer(one, -two)
    exact = binomtest(int((one < two).sum()), 25).proportion_ci(0.95, method="exact")
    assert found.value == (one < two).mean()
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    back = share_closer(-two, one)
    assert (back.value, back.low) == pytest.approx((1 - found.value, 1 - found.high))


def test_equal_errors_are_as_close_as_each_other():
    assert share_closer(np.ones(10), -np.ones(10)).value == 0.5


def test_intervals_tell_or_do_not():
    found = Summary(1.0, 0.5, 1.5)
    assert [found.above(limit) for limit in (0.4, 1.0, 2.0)] == [True, None, False]
    assert [found.within(0, high) for high in (2.0, 1.2, 0.4)] == [True, None, False]
    assert found.below(Summary(3.0, 2.0, 4.0)) is True
    assert found.below(Summary(0.2, 0.1, 0.3)) is False
    assert found.below(Summary(1.6, 1.4, 1.8)) is None


@given(CHECKS)
def test_the_verdict_follows_from_the_comparisons(checks):
    found, least = verdict(checks), beyond_chance(len(checks))
    assert (found == "holds") == (bool(checks) and all(checks))
    if found != "holds":
        some, against = checks.count(True) >= least, checks.count(False) >= least
        assert (found == "holds in part") == some
        assert (found == "does not hold") == (against and not some)
        assert (found == "undecided") == (not some and not against)
    assert verdict(list(reversed(checks))) == found


@pytest.mark.parametrize("count", [1, 2, 3, 10, 24, 40])
def test_as_many_intervals_as_chance_may_give_do_not_decide(count, rng):
    fewest = beyond_chance(count)
    wrong = rng.random((20_000, count)) < 0.025
    assert (wrong.sum(axis=1) >= fewest).mean() < 0.055
    if fewest > 1:
        assert (wrong.sum(axis=1) >= fewest - 1).mean() > 0.045


def results_of(values, settings):
    rows = tuple(
        {"df": df, "replicate": i, "method": name, "value": float(value)}
        for (df, name), column in values.items()
        for i, value in enumerate(column)
    )
    return Results("x", settings, 60, rows)


def test_a_comparison_counts_cells_and_logs(rng):
    noise = rng.standard_normal(60)
    values = {
        (1.0, "a"): 7 + noise,
        (1.0, "b"): 7 + 5 * noise,
        (2.0, "a"): 7 + noise,
        (2.0, "b"): 7 + noise,
    }
    results = results_of(values, {"truth": 7.0})
    both = ERROR.tally(results, "a", "b", [{"df": 1.0}, {"df": 2.0}])
    assert both.checks == [True, None]
    assert str(both).startswith("better in 1 of 2 cells, undecided in 1; closer in 50% to 100% of")
    assert both.numbers("median error") == pytest.approx([0.2, 1.0])
    assert both.numbers("log-MSE") == pytest.approx([-2 * math.log(5), 0.0])
    assert ERROR.tally(results, "b", "a", [{"df": 1.0}]).checks == [False]


def test_the_comparison_of_errors_does_not_depend_on_one_wild_log(rng):
    """A single log may decide a mean of squares; it moves the share of logs by one log."""
    one, two = 0.5 * rng.standard_normal(60), rng.standard_normal(60) * 3
    one[0] = 1e6
    results = results_of({(1.0, "a"): one, (1.0, "b"): two}, {"truth": 0.0})
    (found,) = ERROR.tally(results, "a", "b", [{"df": 1.0}]).cells
    assert found.check is True
    assert found.numbers["log-MSE"] > 0  # the paper's measure says the opposite


def test_regrets_are_compared_in_pairs(rng):
    shared = 10 * rng.standard_normal(60)
    values = {(1.0, "a"): 50 + shared, (1.0, "b"): 49 + shared}
    results = results_of(values, {"best_value": 60.0})
    assert REGRET.summary(results, method="a", df=1.0).value == pytest.approx(10 - shared.mean())
    (found,) = REGRET.tally(results, "a", "b", [{"df": 1.0}]).cells
    assert found.check is True  # a higher value is a smaller regret
    assert found.numbers == {"difference": pytest.approx(-1.0)}


def test_what_is_chosen_on_some_replicates_is_judged_on_others(rng):
    values = {(1.0, "a"): rng.random(7)}
    results = replace(results_of(values, {}), replicates=7)
    chosen, judged = results.halves()
    seen = [set(each.columns["replicate"]) for each in (chosen, judged)]
    assert not seen[0] & seen[1]
    assert seen[0] | seen[1] == set(range(7))
    assert replace(results, replicates=1).halves() == (replace(results, replicates=1),) * 2
    assert set(results.first(3).columns["replicate"]) == {0, 1, 2}
    assert (results.first(3).replicates, results.first(9).replicates) == (3, 7)
