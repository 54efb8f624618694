import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reproduction.experiment import Results
from reproduction.summary import (
    ERROR,
    log_mse,
    mean,
    median_size,
    summarise,
    together,
    verdict_of,
    winner,
)

SAMPLES = arrays(float, 30, elements=st.floats(-100, 100))


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


def test_log_mse_and_the_median_error_by_hand():
    errors = np.array([3.0, -4.0, 0.0])
    assert log_mse(errors) == pytest.approx(np.log(25 / 3))
    assert median_size(errors) == 3.0


@given(SAMPLES, st.floats(0.5, 10))
def test_a_constant_advantage_is_beyond_doubt_and_the_order_decides_its_sign(values, ahead):
    assert winner(values, values + ahead, mean)[0] == "first"
    assert winner(values + ahead, values, mean)[0] == "second"
    assert winner(values, values, mean) == ("neither", 0.0)


def test_pairs_decide_what_separate_samples_could_not(rng):
    shared = 100 * rng.standard_normal(50)
    first, second = shared, shared + 1 + 0.1 * rng.standard_normal(50)
    assert winner(first, second, mean)[0] == "first"
    assert winner(first, rng.permutation(second), mean)[0] == "neither"


def rows_of(errors):
    return tuple(
        {"df": df, "replicate": i, "method": name, "error": float(error)}
        for (df, name), values in errors.items()
        for i, error in enumerate(values)
    )


def test_a_comparison_counts_cells_and_says_its_verdict(rng):
    noise = rng.standard_normal(60)
    errors = {
        (1.0, "a"): noise,
        (1.0, "b"): 5 * noise,
        (2.0, "a"): noise,
        (2.0, "b"): noise,
    }
    results = Results("x", {}, 60, rows_of(errors))
    both = ERROR.tally(results, "a", "b", [{"df": 1.0}, {"df": 2.0}])
    assert (both.better, both.worse, both.open) == (1, 0, 1)
    assert both.verdict == "holds in part"
    assert str(both).startswith("better in 1 of 2 cells, undecided in 1; difference -3.22")
    assert ERROR.tally(results, "a", "b", [{"df": 1.0}]).verdict == "holds"
    assert ERROR.tally(results, "b", "a", [{"df": 1.0}]).verdict == "does not hold"
    assert ERROR.tally(results, "b", "a", [{"df": 2.0}]).verdict == "undecided"


def test_verdicts():
    assert [verdict_of(k, 3) for k in (0, 1, 3)] == ["does not hold", "holds in part", "holds"]
    assert together(["holds", "holds"]) == "holds"
    assert together(["holds", "does not hold"]) == "holds in part"
    assert together(["undecided", "undecided"]) == "undecided"
