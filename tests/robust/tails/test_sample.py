import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tailproof.errors import LogError
from tailproof.robust import tails
from tailproof.robust.tails import deviation_of, median_of, unit_scale

STATISTICS = [
    lambda x: tails.tail_index(x, k=3, centre=0.0),
    tails.tail_index,
    tails.tail_path,
    lambda x: tails.max_to_sum(x, 2),
    lambda x: tails.moment_evidence(x, 2),
    tails.medcouple,
    tails.tail_asymmetry,
    tails.extremal_index,
    lambda x: tails.extremal_index_across(x, episode=np.zeros(np.shape(x))),
    tails.weight_evidence,
    tails.pareto_shape,
    tails.mad,
    tails.residual_monitor,
]


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, np.nan, 2.0], "must be finite. Got nan at row 1"),
        ([1.0, 2.0, -np.inf], "must be finite. Got -inf at row 2"),
        ([], r"must hold at least one value. Got none"),
        (np.ones((3, 2)), r"must be one sample of shape \(n,\). Got shape \(3, 2\)"),
        (1.0, r"must be one sample of shape \(n,\). Got shape \(\)"),
        (["a", "b"], "must be real numbers. Got dtype <U1; encode categories first"),
        ([1e301, 0.0], r"must lie within ±1e\+300. Got a value of size 1e\+301; rescale"),
    ],
)
def test_a_bad_sample_is_refused_by_every_statistic(statistic, x, message):
    with pytest.raises(LogError, match=message):
        statistic(x)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, bool])
def test_every_statistic_takes_any_real_type_and_leaves_it_as_it_was(statistic, dtype):
    x = (np.random.default_rng(1).standard_t(2, 400) * 10).astype(dtype)
    before = x.copy()
    x.setflags(write=False)
    # Booleans leave hill and tail_path nothing to measure, which they say in their own way.
    if dtype is bool and statistic in STATISTICS[:3]:
        return
    assert repr(statistic(x)) == repr(statistic(x.astype(float)))
    np.testing.assert_array_equal(x, before)


@given(arrays.arrays(float, (3, 7), elements=st.floats(-1e6, 1e6)))
def test_median_of_is_numpys(x):
    np.testing.assert_array_equal(median_of(x), np.median(x, axis=1))
    np.testing.assert_allclose(median_of(x.T), np.median(x, axis=0))


@given(arrays.arrays(float, st.integers(1, 9), elements=st.floats(-1e6, 1e6)))
def test_deviation_of_is_numpys_and_units_lie_within_one(x):
    assert deviation_of(x) == pytest.approx(np.std(x), abs=1e-9)
    assert np.abs(unit_scale(x)).max() <= 1
