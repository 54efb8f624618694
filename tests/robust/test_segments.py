"""Means of parts of a log from sums of scores."""

import numpy as np

from tailproof.robust.segments import joint_level, part_mean


def test_a_part_of_single_rows_has_their_plain_mean():
    rng = np.random.default_rng(0)
    scores = rng.pareto(2.0, 300)
    found = part_mean(scores, np.ones(300), np.ones(300, bool))
    assert np.isclose(found.value, scores.mean())
    assert np.allclose(found.influence, scores - scores.mean())


def test_repeating_the_rows_of_every_unit_changes_nothing():
    rng = np.random.default_rng(1)
    sums, counts = rng.normal(size=50), rng.integers(1, 5, 50).astype(float)
    once, twice = (part_mean(k * sums, k * counts, np.ones(50, bool)) for k in (1.0, 2.0))
    assert np.isclose(once.value, twice.value)
    assert np.allclose(once.interval(0.9).low, twice.interval(0.9).low)


def test_more_intervals_need_a_higher_level_each():
    assert joint_level(0.9, 1) == 0.9
    assert joint_level(0.9, 7) > joint_level(0.9, 3) > 0.9
