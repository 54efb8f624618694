import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import LevelError, LogError, MethodError
from tailproof.robust.tails import extremal_index, extremal_index_across


def moving_maximum(rng, n, of=2):
    z = rng.pareto(1.5, n + of - 1)
    return np.max([z[i : n + i] for i in range(of)], axis=0)


def average(draw, samples=20, **settings):
    return np.mean([extremal_index(draw(), **settings).theta for _ in range(samples)])


# With 100 extremes the estimate is within about 0.17 of 1 before it is cut there, which costs 0.07.
@pytest.mark.parametrize(("n", "least"), [(1000, 0.9), (20_000, 0.95)])
@pytest.mark.parametrize("side", ["both", "right", "left"])
def test_independent_values_have_one(n, least, side):
    rng = np.random.default_rng(1)
    indices = [extremal_index(rng.standard_t(2, n), side=side) for _ in range(20)]
    assert np.mean([index.theta for index in indices]) > least
    assert np.mean([index.high == 1 for index in indices]) >= 0.9


@pytest.mark.parametrize("of", [2, 4])
def test_a_moving_maximum_has_one_over_its_length(of):
    rng = np.random.default_rng(2)
    theta = average(lambda: moving_maximum(rng, 20_000, of), side="right")
    assert theta == pytest.approx(1 / of, rel=0.1)


def test_the_interval_covers():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(100):
        index = extremal_index(moving_maximum(rng, 5000), side="right")
        hits += index.low <= 0.5 <= index.high
    assert hits / 100 >= 0.88


def test_clusters_inside_episodes_are_found():
    rng = np.random.default_rng(4)
    episode = np.repeat(np.arange(200), 50)
    theta = average(
        lambda: np.concatenate([moving_maximum(rng, 50) for _ in range(200)]),
        episode=episode,
        side="right",
    )
    assert theta == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("length", [2, 10])
def test_clusters_do_not_reach_across_episodes(length):
    rng = np.random.default_rng(5)
    episode = np.arange(20_000) // length
    x = np.repeat(rng.standard_t(2, 20_000 // length), length)  # an episode is one value
    within = extremal_index(x, episode=np.arange(20_000))
    assert within.theta > 0.9  # every row an episode: nothing to cluster with
    assert extremal_index(x, episode=episode).theta == pytest.approx(1 / length, rel=0.25)


def test_neighbouring_episodes_that_share_a_storm_show_across_only():
    rng = np.random.default_rng(6)
    days, hours = 6000, 4
    storms = np.repeat(rng.pareto(1.0, days // 3), 3)  # each takes three days
    hit = rng.integers(hours, size=days)  # and one hour a day
    x = rng.standard_normal((days, hours)) * 0.01
    x[np.arange(days), hit] += storms
    episode = np.repeat(np.arange(days), hours)
    within = extremal_index(x.ravel(), episode=episode, side="right")
    across = extremal_index_across(x.ravel(), episode=episode)
    assert within.theta > 0.9
    assert across.theta == pytest.approx(1 / 3, rel=0.3)
    assert across.high < 0.6


def test_independent_episodes_have_one_across():
    rng = np.random.default_rng(7)
    scale = np.repeat(rng.pareto(1.5, 3000), 10)
    x, episode = scale * rng.standard_normal(30_000), np.repeat(np.arange(3000), 10)
    assert extremal_index_across(x, episode=episode).high == 1
    assert extremal_index(x, episode=episode).high < 0.7


def test_across_episodes_the_largest_distances_count():
    x = np.random.default_rng(8).standard_t(2, 5000)
    index = extremal_index_across(x, episode=np.repeat(np.arange(1000), 5))
    largest = np.abs(x - np.median(x)).reshape(1000, 5).max(axis=1)
    assert index.theta == pytest.approx(extremal_index(largest, side="right").theta)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-30, 30))
def test_unit_does_not_matter_and_a_sign_flip_swaps_the_sides(seed, exponent):
    x = np.random.default_rng(seed).standard_t(1, 400)
    right = extremal_index(x, side="right")
    assert extremal_index(x * 2.0**exponent, side="right").theta == right.theta
    left = extremal_index(-x, side="left")
    assert (left.theta, left.low, left.high) == (right.theta, right.low, right.high)
    assert left.threshold == -right.threshold


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_the_index_and_its_interval_are_in_order(seed, episodes):
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.standard_t(1, 300), rng.integers(1, 5, size=300))
    episode = np.sort(rng.integers(episodes, size=len(x)))
    index = extremal_index(x, episode=episode)
    if index.estimable:
        assert 0 < index.low <= index.theta <= index.high <= 1
        assert 1 <= index.clusters <= index.exceedances


@pytest.mark.parametrize(
    ("x", "share"), [(np.zeros(500), None), (np.arange(100.0), None), (np.arange(1000.0), 0.01)]
)
def test_too_few_extremes_are_not_estimable(x, share):
    index = extremal_index(x, share=share)
    assert not index.estimable
    assert math.isnan(index.theta)
    assert "values lie beyond the threshold and 20 are needed" in index.reason


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"side": "top"}, MethodError, "side must be 'both', 'right' or 'left'"),
        ({"share": 0}, MethodError, r"share must be a number in \(0, 0.5\]. Got 0"),
        ({"level": 0}, LevelError, "A level must lie between 0 and 1. Got 0"),
        ({"episode": [0, 1]}, LogError, r"episode must have the shape \(300,\)"),
        ({"episode": np.arange(300) % 2}, LogError, "rows of an episode must be contiguous"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        extremal_index(np.arange(300.0), **settings)
