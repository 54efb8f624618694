import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.battery.cells import Setting
from benchmarks.battery.entrants import Reply
from benchmarks.battery.run import Battery, Sample, run
from benchmarks.battery.score import (
    geometric_mean,
    interval_counts,
    leaderboard,
    ratio_spread,
    relative,
    root_mean_square,
)
from examples.storm.seasons import CANDIDATES, STORIES, story, story_score

POSITIVE = st.floats(1e-3, 1e3)


@given(arrays(float, (4, 3), elements=POSITIVE))
def test_the_best_of_each_cell_has_ratio_one_and_nobody_less(rmse):
    ratios = relative(rmse)
    assert (ratios >= 1).all()
    assert (ratios.min(axis=1) == 1).all()


@given(arrays(float, 5, elements=POSITIVE), POSITIVE)
def test_the_geometric_mean_scales_and_lies_within(values, factor):
    mean = geometric_mean(values)
    assert geometric_mean(factor * values) == pytest.approx(factor * mean)
    assert values.min() * (1 - 1e-9) <= mean <= values.max() * (1 + 1e-9)


def test_rmse_of_a_constant_error_is_its_size_and_a_failure_is_infinite():
    errors = np.array([[2.0, -3.0, np.nan], [2.0, 3.0, 0.0]])
    assert root_mean_square(errors).tolist() == [2.0, 3.0, np.inf]


def test_relative_of_an_exact_entrant():
    assert relative(np.array([[0.0, 1.0], [np.inf, np.inf]])).tolist() == [[1.0, np.inf], [1, 1]]


def test_intervals_are_counted_where_they_are_printed():
    nothing = [np.nan, np.nan]
    ends = np.array([[[[0, 2], nothing]], [[[1.5, 4], nothing]], [[nothing, nothing]]])
    printed, covered, width = interval_counts(Sample(1.0, np.zeros((3, 1)), ends))
    assert printed.tolist() == [[2, 0]]
    assert covered.tolist() == [[1, 0]]
    assert width[0, 0] == 2.25
    assert np.isnan(width[0, 1])


def test_the_spread_of_a_ratio_holds_the_ratio_and_narrows_with_replicates(rng):
    def spread(replicates):
        errors = rng.normal(size=(replicates, 2)) * [2.0, 1.0]
        return ratio_spread(Sample(0.0, errors, np.empty(0)), [0, 1])

    low, high = spread(4000)
    assert low < 2 < high
    wide = spread(40)
    assert wide[1] - wide[0] > 3 * (high - low)


def _offset(by, half):
    """Return an entrant that is off by a constant and whose interval has a constant width."""

    def entrant(problem, *, seed):
        value = 12.155431591626026 + by
        return Reply(value, {0.9: (value - half, value + half)} if half else {})

    return entrant


def test_a_leaderboard_of_entrants_whose_errors_are_known():
    setting = Setting("linear", "fair", 500)
    battery = Battery(
        entrants={"far": _offset(-3.0, 1.0), "near": _offset(1.0, 2.0), "shy": _offset(2.0, 0)},
        settings=(setting,),
        noises=("Gaussian", "Gamma(4)"),
        stories=(),
        replicates=20,
    )
    board = leaderboard(run(battery))
    assert [line.entrant for line in board.standings] == ["near", "shy", "far"]
    np.testing.assert_allclose(board.relative, [[3, 1, 2]] * 2, rtol=1e-6)
    near, shy, far = board.standings
    assert near.coverage == {0.9: 1.0}
    assert near.lowest == {0.9: 1.0}
    assert near.width == {0.9: pytest.approx(4.0)}
    assert far.coverage == {0.9: 0.0}
    assert shy.coverage == {}
    assert (near.declined[0.9], near.declined[0.95], shy.declined[0.9]) == (0.0, 1.0, 1.0)
    assert far.by_steps == {500: pytest.approx(3.0)}
    np.testing.assert_allclose(board.against("near"), [0.5, 0.5])
    np.testing.assert_allclose(board.against("far", ["near"]), [3.0, 3.0])
    assert board.select(noises=["Gamma(4)"]).tolist() == [1]
    assert board.select(steps=2000).tolist() == []
    record = board.to_dict()
    assert record["cells"][0]["relative"]["far"] == pytest.approx(3.0)


@pytest.mark.parametrize("name", list(STORIES))
def test_an_oracle_has_no_regret_and_a_fool_has(name):
    told = story(name)
    hubs = ["HB_NORTH", "HB_WEST"]
    decided = np.array([list(told.decided.values(hub).values()) for hub in hubs])
    oracle, fool = (story_score(name, hubs, estimates) for estimates in (decided, -decided))
    assert (oracle.regret, oracle.best) == (0.0, 1.0)
    assert fool.best == 0.0
    assert fool.regret == pytest.approx((decided.max(axis=1) - decided.min(axis=1)).mean())
    logged = np.array([list(told.logged.values(hub).values()) for hub in hubs])
    assert story_score(name, hubs, logged).rmse == 0.0


def test_a_candidate_without_an_estimate_is_never_picked():
    told = story("A")
    values = np.full((1, len(CANDIDATES)), np.nan)
    values[0, 3] = -1e9
    decided = list(told.decided.values("HB_PAN").values())
    assert story_score("A", ["HB_PAN"], values).regret == pytest.approx(max(decided) - decided[3])
