import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from tailproof.doors.verdict import verdict_on
from tailproof.errors import LevelError
from tailproof.robust.gains import Mover, PairedGain, Quotient, _distance
from tailproof.robust.spreads import (
    AllEqual,
    Hall,
    hall_spread,
    standalone_interval,
    standalone_intervals,
)


def fieller(a, error_a, b, error_b, rho, z):
    first = b**2 - z**2 * error_b**2
    second = a * b - z**2 * rho * error_a * error_b
    third = a**2 - z**2 * error_a**2
    root = np.sqrt(second**2 - first * third)
    return (second - root) / first, (second + root) / first


@given(st.floats(-10, 10), st.floats(0.1, 3), st.floats(0.1, 2), st.floats(-0.95, 0.95))
def test_normal_spreads_give_fiellers_interval(top, error, other, rho):
    found = Quotient(Hall(top, error, 0), Hall(10, other, 0), rho).ends(0.05, 0.05)
    expected = fieller(top, error, 10, other, rho, ndtri(0.95))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_a_known_denominator_divides_the_ends():
    spread = Hall(5, 1, 0.4)
    low, high = Quotient(spread, Hall(2.0), 0.0).ends(0.05, 0.1)
    below, above = spread.ends(0.05, 0.1)
    assert (low, high) == pytest.approx((below / 2, above / 2))


def test_a_denominator_that_may_be_zero_leaves_an_end_open():
    low, high = Quotient(Hall(5, 1, 0), Hall(1, 1, 0), 0.0).ends(0.05, 0.05)
    assert high == np.inf
    assert 0 < low < 5
    assert Quotient(Hall(5, 1, 0), Hall(-1, 1, 0), 0.0).ends(0.05, 0.05) == (-np.inf, np.inf)


@pytest.mark.parametrize("reference", [50.0, -50.0])
def test_the_relative_gain_counts_the_error_of_the_reference(reference):
    ahead, behind = Hall(reference + 5, 2, 0), Hall(reference, 2, 0)
    gain = PairedGain(value=5.0, reference=reference, spread=Mover(ahead, behind, 0.3))
    lift = gain.relative_interval(0.9)
    assert gain.relative == pytest.approx(0.1)
    assert lift.low < gain.relative < lift.high
    plain = gain.interval(0.9)
    known = PairedGain(
        value=5.0, reference=reference, spread=Mover(ahead, Hall(reference), 0.0)
    ).relative_interval(0.9)
    expected = [end / 50 for end in Hall(5, 2, 0).ends(0.05, 0.05)]
    assert (known.low, known.high) == pytest.approx(expected)
    assert lift.high - lift.low == pytest.approx((plain.high - plain.low) / 50, rel=0.1)


@pytest.mark.slow
@given(
    st.floats(-10, 10),
    st.sampled_from([10.0, -10.0, 2.0]),
    st.floats(0.1, 6),
    st.floats(0.1, 4),
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.floats(-0.99, 1.0),
)
def test_a_lift_and_its_gain_agree_about_zero(value, reference, error, other, skew, skew2, rho):
    spread = Mover(Hall(reference + value, error, skew), Hall(reference, other, skew2), rho)
    gain = PairedGain(value=value, reference=reference, spread=spread)
    for level in (0.5, 0.9, 0.99):
        plain, lift = gain.interval(level), gain.relative_interval(level)
        assert (plain.low > 0, plain.high < 0) == (lift.low > 0, lift.high < 0)


def test_scale_does_not_matter_to_a_lift():
    def lift(unit):
        spread = Mover(Hall(12 * unit, unit, 0.3), Hall(10 * unit, unit, 0.2), 0.5)
        return PairedGain(value=2 * unit, reference=10 * unit, spread=spread).relative_interval()

    assert (lift(1.0).low, lift(1.0).high) == pytest.approx((lift(1e6).low, lift(1e6).high))


def test_there_is_no_lift_over_nothing():
    gain = PairedGain(value=1.0, reference=0.0, spread=Mover(Hall(1, 1, 0), Hall(0, 1, 0), 0.0))
    with pytest.raises(LevelError, match="no relative gain over a reference that is 0"):
        gain.relative_interval()


@pytest.mark.slow
@given(
    st.floats(0.1, 5),
    st.floats(-3, 3),
    st.floats(0.1, 5),
    st.floats(-3, 3),
    st.floats(-0.99, 1),
)
def test_ends_of_a_difference_move_outwards_as_more_confidence_is_asked(
    error, skewness, other_error, other_skewness, correlation
):
    gain = Mover(Hall(1.0, error, skewness), Hall(0.0, other_error, other_skewness), correlation)
    misses = np.geomspace(0.5, 0.0001, 12)
    found = np.array([gain.ends(miss, miss) for miss in misses])
    assert (np.diff(found[:, 0]) <= 1e-9).all()
    assert (np.diff(found[:, 1]) >= -1e-9).all()
    reach = ndtri(1 - misses) * gain.error  # no end is nearer than the normal one
    assert (gain.centre - found[:, 0] >= reach - 1e-9).all()
    assert (found[:, 1] - gain.centre >= reach - 1e-9).all()


def test_a_difference_that_rests_on_one_row_is_not_nearer_than_the_normal_bound(rng):
    row = rng.standard_normal(1000)
    row[0] = 1e4
    influence = row - row.mean()
    ahead, behind = (hall_spread(0.0, share * influence, row < np.inf) for share in (1.0, 0.5))
    low, _ = Mover(ahead, behind, 1.0).ends(0.05, 0.05)
    assert low <= -1.64 * 0.5 * np.sqrt((influence**2).sum()) / 1000


def test_heavy_tails_stretch_the_ends_of_a_gain_as_far_as_the_values_are_independent():
    heavy, light = Hall(5, 1, stretch=(1.7, 1.0)), Hall(3, 1e-9)
    alone = 5 - heavy.ends(0.05, 0.05, stretch=heavy.stretch)[0]

    def lower(rho):
        return 2 - Mover(heavy, light, rho).ends(0.05, 0.05)[0]

    assert lower(0.0) == pytest.approx(alone, rel=1e-6)
    assert lower(0.8) == pytest.approx(alone * (1 + 0.7 * 0.6) / 1.7, rel=1e-6)
    assert lower(1.0) == pytest.approx(alone / 1.7, rel=1e-6)
    # a tail above the logged value is one below the gain
    behind = Mover(Hall(5, 1e-9), Hall(3, 1, stretch=(1.0, 1.7)), 0.0)
    assert 2 - behind.ends(0.05, 0.05)[0] == pytest.approx(alone, rel=1e-6)


@given(st.floats(-3, 3), st.floats(0, 2), st.floats(-2, 2), st.floats(1, 2), st.floats(0, 1))
def test_ends_at_many_levels_at_once_are_those_at_each(centre, error, skewness, stretch, allowance):
    misses = np.array([0.5, 0.2, 0.1, 0.05, 1e-3, 1e-7])
    skewed = Hall(centre, error, skewness, allowance=allowance, stretch=(stretch, 1.0))
    for spread in (skewed, AllEqual(centre, 30)):
        each = [standalone_interval(spread, miss, miss) for miss in misses.tolist()]
        assert np.array_equal(standalone_intervals(spread, misses), each)


def test_a_verdict_and_its_bounds_compute_each_end_once():
    pair = Mover(Hall(1.0, 0.3, 0.4), Hall(0.5, 0.2, 0.1), 0.25)
    gain = PairedGain(value=0.5, reference=0.5, spread=pair)
    _distance.cache_clear()
    for _ in range(3):
        verdict_on(gain, level=0.9)
        gain.lower_bound(0.9)
        gain.interval(0.9)
    assert _distance.cache_info().misses == 4  # two levels, two ends
