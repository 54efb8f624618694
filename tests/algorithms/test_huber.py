import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor

from tailproof.algorithms.huber import huber_regression, robust_scale


@pytest.fixture
def sample(rng):
    phi = np.column_stack([np.ones(400), rng.normal(size=(400, 3))])
    return phi, phi @ np.array([1.0, 2.0, -1.0, 0.5]) + rng.standard_t(2, 400)


def test_the_estimating_equation_holds(sample):
    phi, target = sample
    fit = huber_regression(phi, target, tolerance=1e-10)
    limit = 1.345 * robust_scale(fit.residuals)
    assert np.abs(phi.T @ np.clip(fit.residuals, -limit, limit)).max() < 1e-6


def test_a_huge_threshold_is_least_squares(sample):
    phi, target = sample
    plain = np.linalg.lstsq(phi, target)[0]
    assert np.allclose(huber_regression(phi, target, threshold=1e9).beta, plain, atol=1e-6)


def test_outliers_move_it_little_and_least_squares_far(sample):
    phi, target = sample
    spoilt = target.copy()
    spoilt[:10] += 1e6
    moved = np.abs(huber_regression(phi, spoilt).beta - huber_regression(phi, target).beta).max()
    assert moved < 0.2


def test_it_is_equivariant(sample):
    phi, target = sample
    fit, scaled = huber_regression(phi, target), huber_regression(phi, 5 * target)
    shift = np.array([1.0, 0, 2.0, 0])
    shifted = huber_regression(phi, target + phi @ shift)
    assert np.allclose(scaled.beta, 5 * fit.beta, rtol=1e-2, atol=1e-2)
    assert np.allclose(shifted.beta, fit.beta + shift, atol=1e-2)


def test_it_is_near_scikit_learns(sample):
    phi, target = sample
    theirs = HuberRegressor(epsilon=1.345, alpha=0.0, fit_intercept=False).fit(phi, target).coef_
    assert np.allclose(huber_regression(phi, target).beta, theirs, atol=0.1)


def test_sparse_and_constant_targets_are_fine():
    phi = np.ones((50, 1))
    sparse = np.zeros(50)
    sparse[:3] = 100.0
    assert abs(huber_regression(phi, sparse).beta[0]) < 3
    assert huber_regression(phi, np.full(50, 7.0)).beta[0] == pytest.approx(7)
    assert huber_regression(phi, np.zeros(50)).beta[0] == 0
