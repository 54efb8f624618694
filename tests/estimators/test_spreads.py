import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tailproof.estimators.one_step import Prediction, doubly_robust, with_leverage
from tailproof.profile.observations import (
    Observations,
    common_rewards,
    next_size,
    rare_spread,
)
from tailproof.robust.gains import (
    Mover,
    PairedGain,
    UncertainValue,
    possible_values,
)
from tailproof.robust.spreads import (
    AllEqual,
    Events,
    Hall,
    Rare,
    few_units,
    hall_spread,
    hill_tail,
    log_smoothing,
)

MISSES = st.floats(0.001, 0.4)


def every(n):
    return np.ones(n, dtype=bool)


def test_without_skew_halls_interval_is_the_normal_one():
    assert Hall(2.0, 0.5, 0.0).ends(0.05, 0.05) == pytest.approx(
        (2 - 0.5 * 1.6449, 2 + 0.5 * 1.6449), abs=1e-3
    )
    near = Hall(2.0, 0.5, 1e-5).ends(0.05, 0.05)
    assert near == pytest.approx(Hall(2.0, 0.5, 0.0).ends(0.05, 0.05), abs=1e-4)


@given(MISSES, st.floats(0.01, 1.0))
def test_halls_interval_is_longer_on_the_side_of_the_long_tail_and_mirrors(miss, skewness):
    low, high = Hall(0.0, 1.0, skewness).ends(miss, miss)
    mirrored = Hall(0.0, 1.0, -skewness).ends(miss, miss)
    assert high > -low
    assert mirrored == pytest.approx((-high, -low))


def test_a_point_beyond_a_heavy_tail_widens_only_where_the_tail_is_heavy(rng):
    for draw, wider in ((rng.standard_normal, False), (lambda n: rng.pareto(1.5, n), True)):
        x = draw(2000)
        x = x - x.mean()
        seen = hall_spread(0.0, x, every(2000), look_beyond=False)
        beyond = hall_spread(0.0, x, every(2000))
        assert (beyond.error > seen.error) is wider
        assert beyond.kind == ("Hall, unseen tail" if wider else "Hall")


def test_hills_index_is_that_of_a_pareto_law(rng):
    index, _, _ = hill_tail(rng.pareto(1.5, 50_000) + 1)
    assert index == pytest.approx(1.5, abs=0.15)
    assert hill_tail(np.abs(rng.standard_normal(5000))) is None
    assert hill_tail(np.ones(5)) is None


def test_the_gamma_interval_of_equal_events_is_the_exact_poisson_one():
    for count in (1, 4, 20):
        low, high = Events(float(count), float(count), 1.0).ends(0.05, 0.05)
        assert low == pytest.approx(stats.chi2.ppf(0.05, 2 * count) / 2)
        assert high == pytest.approx(stats.chi2.ppf(0.95, 2 * count + 2) / 2)


def test_without_an_event_the_upper_end_is_three_times_the_next_one():
    low, high = Events(0.0, 0.0, 2.0).ends(0.05, 0.05)
    assert low == 0
    assert high == pytest.approx(-np.log(0.05) * 2.0)


def test_rare_gains_and_losses_mirror(rng):
    x = np.where(rng.random(1000) < 0.02, rng.exponential(5, 1000), 0.0)
    rows = Observations(np.arange(1000), "row")
    up = rare_spread(rows, 0.0, x, np.ones(1000))
    down = rare_spread(rows, 0.0, -x, np.ones(1000))
    low, high = up.ends(0.05, 0.05)
    assert down.ends(0.05, 0.05) == pytest.approx((-high, -low))
    assert up.centre == pytest.approx(x.mean())
    shifted = Rare(3.0, up.gains, up.losses)
    assert shifted.ends(0.05, 0.05) == pytest.approx((3 + low, 3 + high))


def test_equal_samples_have_an_interval_too():
    for value in (0.0, 7.0):
        spread = hall_spread(value, np.zeros(100), every(100))
        assert isinstance(spread, AllEqual)
        low, high = spread.ends(0.05, 0.05)
        assert low < value < high


def test_groups_are_summed_and_one_group_each_changes_nothing(rng):
    x = rng.standard_normal(60)
    alone = Observations(np.arange(60), "row")
    assert np.allclose(Observations(np.arange(60), "group").influence(x), alone.influence(x))
    pairs = Observations(np.arange(60) // 2, "group")
    assert pairs.count == 30
    assert pairs.influence(x).mean() == pytest.approx(x.mean())
    assert pairs.influence(x)[0] == pytest.approx((x[0] + x[1]) / 2)


def test_common_rewards_may_differ_between_actions():
    actions = np.repeat([0, 1], 50)
    rewards = np.where(actions == 0, 10.0, 12.0)
    rewards[::20] -= 100
    assert common_rewards(rewards, actions, 3)[:2].tolist() == [10.0, 12.0]
    assert common_rewards(np.arange(100.0), actions, 2) is None


@given(MISSES)
def test_logarithmic_smoothing_is_below_the_mean_and_needs_no_moment(miss):
    x = np.random.default_rng(0).pareto(1.2, 500)
    assert 0 <= log_smoothing(x, miss=miss, scale=1.0) <= x.mean()
    # with an enormous scale the logarithm is linear, and what is left is the price of the level
    far = log_smoothing(x, miss=miss, scale=1e6)
    assert far <= x.mean()


def test_logarithmic_smoothing_holds(rng):
    truth = 2.0  # of Pareto with index 1.5, shifted to start at 0
    held = [log_smoothing(rng.pareto(1.5, 200), miss=0.1, scale=1.0) <= truth for _ in range(400)]
    assert np.mean(held) >= 0.9


@given(st.floats(-1, 1), MISSES)
def test_a_gain_is_bounded_by_its_value_and_certain_over_itself(correlation, miss):
    first, second = Hall(3.0, 1.0, 0.3), Hall(2.0, 0.5, -0.2)
    gain = PairedGain(value=1.0, reference=2.0, spread=Mover(first, second, correlation))
    interval = gain.interval(1 - 2 * miss)
    assert interval.low <= gain.value <= interval.high
    assert gain.lower_bound(1 - miss).value <= gain.value
    assert gain.relative == 0.5
    normal = Hall(3.0, 1.0, 0.0)
    same = Mover(normal, normal, 1.0)
    assert same.ends(miss, miss) == pytest.approx((0, 0), abs=1e-6)
    known = Mover(normal, Hall(2.0), 0.0)
    assert known.ends(miss, miss)[0] == pytest.approx(min(normal.ends(miss, miss)[0] - 2, 1.0))


def value_of(influence, **settings):
    spread = hall_spread(0.0, influence - influence.mean(), every(len(influence)))
    return UncertainValue(value=0.0, spread=spread, limits="", **settings)


def test_bounds_are_stretched_only_where_losses_have_heavy_tails(rng):
    heavy, light = rng.pareto(1.5, 2000), rng.standard_normal(2000)
    for sample, stretched in ((-heavy, True), (heavy, False), (light, False)):
        value = value_of(sample)
        plain = value.spread.ends(0.1, 0.1)[0]
        found = value.lower_bound(0.9)
        assert (found.value < plain - 1e-9) is stretched
        assert ("lower tail" in found.note) is stretched


def test_a_bound_is_the_end_of_an_interval_and_negated_samples_mirror_it(rng):
    for sample in (rng.pareto(1.5, 2000), rng.standard_t(2, 500), rng.standard_normal(200)):
        value, mirrored = value_of(sample), value_of(-sample)
        found, other = value.interval(0.9), mirrored.interval(0.9)
        assert (found.low, found.high) == pytest.approx((-other.high, -other.low))
        assert found.low == pytest.approx(value.lower_bound(0.95).value)
        over_a_number = PairedGain(
            value=-3.0, reference=3.0, spread=Mover(value.spread, Hall(3.0), 0.0)
        )
        assert over_a_number.lower_bound(0.9).value == pytest.approx(
            value.lower_bound(0.9).value - 3
        )


def test_intervals_of_heavy_revenues_hold(rng):
    held = [value_of(sales).interval(0.9).high >= 1.25 - sales.mean()
            for sales in rng.pareto(1.8, (300, 500))]  # fmt: skip
    assert np.mean(held) > 0.92  # 0.88 without the stretch


def test_bounds_of_heavy_costs_hold(rng):
    held = [value_of(-costs).lower_bound(0.9).value <= costs.mean() - 1.25
            for costs in rng.pareto(1.8, (300, 500))]  # fmt: skip
    assert np.mean(held) > 0.85  # 0.81 without the stretch


def test_rewards_of_one_sign_keep_values_on_their_side():
    assert possible_values(np.array([0.0, 2.0])) == (0.0, np.inf)
    assert possible_values(np.array([-3.0, -2.0])) == (-np.inf, 0.0)
    assert possible_values(np.array([-3.0, 2.0])) == (-np.inf, np.inf)
    # equal rewards say nothing of a different one
    assert possible_values(np.zeros(3)) == (-np.inf, np.inf)
    wide = UncertainValue(value=1.0, spread=Hall(1.0, 5.0), limits="", possible=(0.0, np.inf))
    assert wide.interval(0.9).low == 0 == wide.lower_bound(0.9).value
    assert wide.interval(0.9).high == pytest.approx(1 + 5 * 1.6449, abs=1e-3)


def test_one_more_event_has_a_size_between_their_mean_and_the_largest(rng):
    light, heavy = rng.exponential(size=500), 1 + rng.pareto(1.5, 500)
    assert next_size(light) == pytest.approx((light**2).sum() / light.sum())
    assert (heavy**2).sum() / heavy.sum() < next_size(heavy) < heavy.max()
    assert next_size(heavy[:5]) == heavy[:5].max()
    assert next_size(7 * heavy) == pytest.approx(7 * next_size(heavy))


def test_a_pilot_is_no_wider_than_its_events_make_it(rng):
    """Two of a hundred rows are the pilot's; nothing but its own 20 events matters much."""
    n = 10_000
    pilot = np.arange(n) % 50 == 0
    sizes = np.where(rng.random(n) < 0.1, rng.exponential(size=n), 0.0)
    rows = Observations(np.arange(n), "row")
    all_rows = rare_spread(rows, 0.0, sizes, 50.0 * pilot).ends(0.05, 0.05)
    alone = Observations(np.arange(pilot.sum()), "row")
    own = rare_spread(alone, 0.0, sizes[pilot], np.ones(pilot.sum())).ends(0.05, 0.05)
    assert np.diff(all_rows) < 1.5 * np.diff(own)


def test_a_row_with_most_of_the_weight_does_not_hide_its_own_error(rng):
    """Where one row has nearly all weight, its residual from the mean it decides is nearly 0."""
    rows, n = Observations(np.arange(100), "row"), 100
    outcome = Prediction(np.zeros(n), np.zeros(n))
    weights, rewards = np.ones(n), rng.normal(size=n)
    weights[0], rewards[0] = 400.0, 10.0
    weights /= weights.mean()
    scores = doubly_robust(outcome, weights, rewards)
    others = np.average(rewards[1:], weights=weights[1:])
    found = with_leverage(rows, outcome, weights, scores)
    share = weights[0] / n
    assert found[0] == pytest.approx(weights[0] * (10.0 - others) * (1 - 1 / n))
    assert abs(scores.influence[0]) < (1 - share) * abs(found[0]) * 1.02
    even = doubly_robust(outcome, np.ones(n), rewards)
    np.testing.assert_allclose(with_leverage(rows, outcome, np.ones(n), even), even.influence)


def test_a_few_heavy_rows_borrow_the_tail_of_all_rows_by_their_weights():
    """Where 30 of 2,000 rows decide, the log's tail counts, whatever the weight of the others."""
    rng = np.random.default_rng(11)
    n, cost = 2000, -(rng.random(2000) ** (-1 / 2.2))
    residuals = cost - cost.mean()
    usual = np.flatnonzero(residuals > -1)[:30]  # the heavy rows happen to lack the rare costs
    ends = []
    for light in (0.0, 1e-9):
        weights = np.full(n, light)
        weights[usual] = 40.0
        weights /= weights.mean()
        influence = weights * (residuals - (weights * residuals).mean())
        alone = hall_spread(0.0, influence, weights > 0)
        borrowed = hall_spread(0.0, influence, weights > 0, pooled=(residuals, weights))
        ends.append(borrowed.ends(0.1, 0.1)[0])
        assert ends[-1] < alone.ends(0.1, 0.1)[0]
    assert ends[1] == pytest.approx(ends[0], rel=0.05)  # rows of no weight tell as little as none


def test_a_few_heavy_rows_that_lack_all_rare_costs_are_not_sure_of_it():
    """Twenty of 2,000 rows decide, and none of the 60 costs is theirs: that may be chance."""
    n = 2000
    sizes = np.where(np.arange(n) % 33 == 0, -1.0, 0.0)
    free = np.flatnonzero(sizes == 0)[:20]
    weights = np.full(n, 0.5)
    weights[free] = 50.0
    weights /= weights.mean()
    spread = rare_spread(Observations(np.arange(n), "row"), 0.0, sizes, weights)
    even = float((weights**2).sum() * (sizes**2).mean()) / n**2
    assert spread.losses.squares == pytest.approx(even)
    assert spread.losses.squares > 10 * float(((weights * sizes) ** 2).sum()) / n**2
    low, high = spread.ends(0.05, 0.05)
    assert low < sizes.mean() < high
    pilot = rare_spread(Observations(np.arange(n), "row"), 0.0, sizes, np.ones(n))
    assert pilot.losses.squares == pytest.approx(
        (sizes**2).sum() / n**2
    )  # even weights add nothing


def test_equal_weights_borrow_nothing():
    rng = np.random.default_rng(12)
    influence = rng.pareto(2.5, 1000) - 1 / 1.5
    alone = hall_spread(0.0, influence, every(1000))
    assert hall_spread(0.0, influence, every(1000), pooled=(influence, np.ones(1000))) == alone


@given(st.integers(0, 10**6), st.integers(10, 60))
def test_groups_borrow_the_residuals_of_all_groups_and_never_make_an_interval_shorter(seed, count):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(count), rng.integers(1, 9, count))
    groups, residuals = Observations(group, "group"), rng.standard_t(2.5, len(group))
    weights = (rng.random(count) < 0.5)[group] * rng.random(len(group)) + 1e-6
    weights /= weights.mean()
    influence = groups.influence(weights * (residuals - (weights * residuals).mean()))
    alone = hall_spread(0.0, influence, every(count))
    found = hall_spread(0.0, influence, every(count), pooled=(residuals, weights), group=group)
    assert found.error >= alone.error * few_units(count) * (1 - 1e-12)
    assert found.stretch == alone.stretch


def test_equal_weights_of_equal_groups_borrow_nothing_and_have_students_t(rng):
    group, residuals = np.repeat(np.arange(12), 5), rng.standard_normal(60)
    influence = Observations(group, "group").influence(residuals - residuals.mean())
    alone = hall_spread(0.0, influence, every(12))
    found = hall_spread(0.0, influence, every(12), pooled=(residuals, np.ones(60)), group=group)
    assert found.error == pytest.approx(alone.error * stats.t.ppf(0.95, 11) / stats.norm.ppf(0.95))
    assert few_units(10) > few_units(20) > few_units(1000) == pytest.approx(1, abs=0.002)


def test_a_few_groups_with_weight_that_happen_to_be_alike_are_not_sure_of_it():
    """Three of twelve groups are the policy's; their means are equal, those of the others are not."""
    group = np.repeat(np.arange(12), 10)
    groups, means = Observations(group, "group"), np.where(np.arange(12) < 3, 0.0, 1.0)
    means *= np.where(np.arange(12) % 2 == 0, 1, -1)
    residuals = means[group] + 0.01 * np.tile([1.0, -1.0], 60)
    weights = np.where(group < 3, 4.0, 0.0)
    influence = groups.influence(weights * residuals)
    active = groups.sums(weights) > 0
    alone = hall_spread(0.0, influence + 1e-6, active)
    found = hall_spread(0.0, influence + 1e-6, active, pooled=(residuals, weights), group=group)
    assert alone.error < 0.01
    # a mean of three groups, whose means differ by about 0.87
    assert found.error == pytest.approx(0.87 / 3**0.5 * 1.5**0.5 * few_units(12), rel=0.15)
