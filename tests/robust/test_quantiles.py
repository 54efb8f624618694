import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tailproof.robust.intervals import (
    design_effect,
    quantile_ends,
    tail_mean,
    weighted_quantile,
)

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)
SHARES = st.floats(0.01, 0.99)


def ends(values, weights=None, q=0.5, miss=0.05, **more):
    weights = np.ones(len(values)) if weights is None else weights
    return quantile_ends(values, weights, q, below=miss, above=miss, **more)


@given(VALUES, SHARES)
def test_equal_weights_give_the_sample_quantile(values, q):
    found = weighted_quantile(values, np.full(len(values), 3.0), q)
    assert found in values
    assert (values <= found).mean() >= q - 1e-9
    assert (values < found).mean() < q + 1e-9


@given(VALUES, SHARES)
def test_a_whole_weight_is_a_repetition(values, q):
    weights = 1.0 + np.arange(len(values)) % 3
    repeated = np.repeat(values, weights.astype(int))
    assert weighted_quantile(values, weights, q) == weighted_quantile(
        repeated, np.ones(len(repeated)), q
    )


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_without_weights_the_ends_are_those_of_the_exact_binomial_test(q):
    n, miss = 200, 0.05
    low, high = ends(np.arange(1.0, n + 1), q=q, miss=miss)
    # X_(j) is above the quantile with P(Bin(n, q) < j), below it with P(Bin(n, q) >= j)
    assert binom.cdf(low - 1, n, q) <= miss < binom.cdf(low, n, q)
    assert binom.sf(high - 1, n, q) <= miss < binom.sf(high - 2, n, q)


def test_samples_without_weight_say_nothing():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=400), rng.integers(0, 2, size=400) * 2.0
    assert ends(values, weights) == ends(values[weights > 0], weights[weights > 0])


@given(SHARES, st.floats(0.1, 100), st.floats(-100, 100))
def test_units_do_not_matter(q, scale, shift):
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=60), rng.random(60)
    low, high = ends(values, weights, q)
    moved = ends(scale * values + shift, 7 * weights, q)
    assert moved == pytest.approx((scale * low + shift, scale * high + shift), rel=1e-9, abs=1e-9)


def test_a_quantile_beyond_the_sample_has_no_upper_end():
    low, high = ends(np.arange(100.0), q=0.999)
    assert high == np.inf
    assert low < 99


def test_copies_in_one_unit_say_as_much_as_one():
    rng = np.random.default_rng(2)
    values = rng.normal(size=300)
    alone = ends(values)
    copied = ends(np.repeat(values, 4), unit=np.repeat(np.arange(300), 4))
    naive = ends(np.repeat(values, 4))
    assert copied[1] - copied[0] == pytest.approx(alone[1] - alone[0], rel=0.05)
    assert naive[1] - naive[0] < 0.7 * (alone[1] - alone[0])


def test_the_design_effect_of_independent_samples_is_about_one():
    rng = np.random.default_rng(3)
    inside, unit = rng.random(4000) < 0.3, np.arange(4000)
    assert design_effect(np.ones(4000), inside, unit) == pytest.approx(1, abs=0.01)


def test_skewed_weights_that_depend_on_the_value_keep_the_level():
    rng = np.random.default_rng(4)
    held = []
    for _ in range(300):
        x = rng.lognormal(size=600)
        chance = np.where(x > 2, 0.2, 0.6)  # large values are logged less often
        seen = rng.random(600) < chance
        low, high = ends(x, np.where(seen, 1 / chance, 0.0), q=0.9)
        held.append(low <= np.exp(1.2815515655446004) <= high)
    assert binom.cdf(sum(held), 300, 0.9) > 1e-3


@given(VALUES)
def test_the_mean_of_all_is_the_mean(values):
    weights = 1.0 + np.arange(len(values)) % 3
    found, influence = tail_mean(values, weights, 1.0)
    assert found == pytest.approx(np.average(values, weights=weights), rel=1e-9, abs=1e-6)
    assert influence.mean() == pytest.approx(0, abs=1e-6 * max(1, np.abs(values).max()))


def test_the_tail_mean_is_the_mean_of_the_lowest():
    values = np.random.default_rng(5).normal(size=1000)
    found, _ = tail_mean(values, np.ones(1000), 0.05)
    assert found == pytest.approx(np.sort(values)[:50].mean())


def test_the_influence_of_a_sample_is_what_its_weight_changes():
    values = np.random.default_rng(6).normal(size=500)
    base, influence = tail_mean(values, np.ones(500), 0.1031)
    for i in (int(values.argmin()), 7):
        weights = np.ones(500)
        weights[i] += 1e-4
        moved, _ = tail_mean(values, weights, 0.1031)
        assert (moved - base) / 1e-4 == pytest.approx(influence[i] / 500, rel=1e-3)
