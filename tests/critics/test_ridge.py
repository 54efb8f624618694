"""Sizes predicted by the state: held out, up to a factor, and only where they are predicted at all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tailproof.critics.ridge import gcv_ridge, sizes_by_state


def customers(seed, slope, n=4_000):
    """Return states, folds and the excess of one row in four, whose size depends on the first state."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 3))
    size = np.exp(slope * states[:, 0]) * rng.exponential(1, n)
    return states, np.arange(n) % 5, np.where(rng.random(n) < 0.25, size, 0.0)


def test_sizes_follow_the_state_up_to_a_factor():
    states, fold, excess = customers(1, 0.8)
    found, beyond = sizes_by_state(states, fold)(excess), excess > 0
    slope = np.polyfit(states[beyond, 0], np.log(found[beyond]), 1)[0]
    assert slope == pytest.approx(0.8, abs=0.1)
    assert (found[~beyond] == 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_sizes_that_no_state_predicts_are_alike(seed):
    states, fold, excess = customers(seed + 10, 0.0)
    assert (sizes_by_state(states, fold)(excess) == 1).all()


def test_few_rows_predict_nothing():
    states, fold, excess = customers(2, 2.0, n=160)
    assert (sizes_by_state(states, fold)(excess) == 1).all()


def test_a_unit_of_the_reward_changes_nothing():
    states, fold, excess = customers(3, 0.8)
    sizes = sizes_by_state(states, fold)
    assert_allclose(sizes(1e6 * excess), sizes(excess), rtol=1e-6)


def test_a_prediction_does_not_know_its_own_row():
    states, fold, excess = customers(4, 0.8)
    row = int(np.flatnonzero(excess > 0)[7])
    other = excess.copy()
    other[row] *= 1.5
    sizes = sizes_by_state(states, fold)
    ratio = sizes(other) / sizes(excess)
    same = (fold == fold[row]) & (excess > 0)
    # the common factor, the mean log size, is that of all rows
    assert_allclose(ratio[same], ratio[row], rtol=1e-9)


def test_a_ridge_without_noise_finds_the_line():
    x = np.random.default_rng(5).normal(size=(200, 2))
    coefficients, intercept = gcv_ridge(x, x @ [2.0, -1.0] + 3)
    assert_allclose([*coefficients, intercept], [2, -1, 3], atol=0.02)
