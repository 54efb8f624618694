import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import (
    ExponentialSmoothing,
    ImplicitExploration,
    LogSumExp,
    PowerMean,
)
from tailproof.errors import MethodError

W, MU = np.array([0.0, 0.5, 1.0, 40.0]), np.array([0.5, 0.4, 0.2, 0.01])


def test_limits_leave_the_weights_or_flatten_them():
    assert np.array_equal(ImplicitExploration(0.0)(W, MU), W)
    assert np.allclose(PowerMean(0.0)(W), W)
    assert PowerMean(1.0)(W).tolist() == [0, 1, 1, 1]
    assert np.array_equal(ExponentialSmoothing(1.0)(W, MU), W)
    assert np.allclose(ExponentialSmoothing(0.0)(W, MU), W * MU)  # the policy's probability


@given(st.floats(0.01, 1))
def test_weights_are_bounded_and_never_raised(strength):
    assert ImplicitExploration(strength)(W, MU).max() <= (W * MU).max() / strength
    assert (ImplicitExploration(strength)(W, MU) <= W).all()
    assert PowerMean(strength)(W).max() <= 1 / strength + 1e-12
    assert (ExponentialSmoothing(strength)(W, MU) <= W).all()


@given(st.floats(0.01, 100))
def test_the_log_sum_exp_mean_follows_units_and_signs(factor):
    x = np.random.default_rng(0).pareto(1.5, 300)
    mean = LogSumExp()(x)
    assert mean < x.mean()
    assert LogSumExp()(factor * x) == pytest.approx(factor * mean)
    assert LogSumExp()(-x) == pytest.approx(-mean)
    assert LogSumExp(0.0)(x) == pytest.approx(x.mean())
    assert LogSumExp(1e-6)(x) == pytest.approx(x.mean(), rel=1e-4)
    assert LogSumExp()(np.zeros(3)) == 0


def test_bad_settings_are_refused():
    with pytest.raises(MethodError, match="offset must be a number of at least 0"):
        ImplicitExploration(-0.1)
    with pytest.raises(MethodError, match="strength must be a number in"):
        PowerMean(1.5)
    with pytest.raises(MethodError, match="power must be a number in"):
        ExponentialSmoothing(-1)
    with pytest.raises(MethodError, match="strength must be a number of at least 0"):
        LogSumExp(-1)
