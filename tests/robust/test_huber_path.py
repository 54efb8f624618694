import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tailproof.robust.huber_path import Path, huber_estimates

SAMPLES = arrays(float, st.integers(3, 60), elements=st.floats(-1e3, 1e3))


@given(SAMPLES)
def test_a_path_ends_at_the_plain_mean_with_its_variance(samples):
    path = huber_estimates(samples)
    assert path.estimates[-1] == pytest.approx(samples.mean(), abs=1e-6)
    if np.ptp(samples) > 1e-6:
        assert path.variances[-1] == pytest.approx(samples.var() / len(samples), abs=1e-6)
    assert (path.estimates >= samples.min() - 1e-6).all()
    assert (path.estimates <= samples.max() + 1e-6).all()


@given(SAMPLES)
def test_differences_are_a_squared_metric(samples):
    differences = huber_estimates(samples).differences
    assert np.allclose(np.diag(differences), 0, atol=1e-9 * (1 + differences.max()))
    assert np.allclose(differences, differences.T)
    assert (differences >= -1e-9 * (1 + np.abs(differences).max())).all()


def test_asymmetry_is_small_on_symmetric_samples_whatever_their_tail_and_grows_on_skewed_ones(rng):
    def typical(draw):
        return np.median([huber_estimates(draw(2000)).asymmetry() for _ in range(15)])

    for symmetric in (rng.standard_normal, rng.standard_cauchy, lambda n: rng.standard_t(1.5, n)):
        assert typical(symmetric) < 8
    for skewed in (lambda n: rng.gamma(4, size=n), lambda n: rng.pareto(2.5, n)):
        assert typical(skewed) > 50


def test_symmetric_heavy_tails_get_a_small_threshold_and_gaussian_ones_a_large(rng):
    cauchy = huber_estimates(rng.standard_cauchy(5000))
    assert cauchy.choose(3.0) < 6
    assert abs(cauchy.estimates[cauchy.choose(3.0)]) < 0.2
    normal = huber_estimates(rng.standard_normal(5000))
    chosen = normal.choose(3.0)
    assert normal.variances[chosen] == pytest.approx(normal.variances[-1], rel=0.05)


def test_a_bias_beyond_caution_is_paid_for():
    """Two estimates ten standard errors of their difference apart: the precise one is biased."""
    path = Path(
        thresholds=np.array([1.0, 9.0]),
        estimates=np.array([0.0, 10.0]),
        variances=np.array([0.1, 2.0]),
        differences=np.array([[0.0, 1.0], [1.0, 0.0]]),
    )
    assert path.asymmetry() == pytest.approx(100)
    assert path.choose(3.0) == 1
    assert path.choose(20.0) == 0


def test_what_all_estimates_share_adds_to_variances_only(rng):
    samples, common = rng.standard_t(2, 500), rng.normal(size=500)
    plain, shared = huber_estimates(samples), huber_estimates(samples, common=common)
    assert np.allclose(plain.differences, shared.differences, atol=1e-9)
    assert (shared.variances > plain.variances * 0.5).all()
    assert shared.variances[-1] == pytest.approx(
        np.mean((samples - samples.mean() + common) ** 2) / 500
    )


def test_equal_samples_have_no_path():
    path = huber_estimates(np.full(9, 4.0))
    assert path.estimates.tolist() == [4.0]
    assert path.asymmetry() == 0
    assert path.choose(3.0) == 0
