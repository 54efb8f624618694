import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
from tailproof.deep.reductions import derivative, reduce
from tailproof.errors import MethodError

AGGREGATES = [
    Mean(),
    Median(),
    Quantile(0.0),
    Quantile(0.1),
    Quantile(0.25),
    Quantile(0.4, rule="lower"),
    Quantile(1.0),
    TrimmedMean(0.2),
    MeanMinusStd(2.0),
]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(AGGREGATES),
    st.integers(3, 12),
    st.integers(0, 2**32 - 1),
)
def test_reductions_are_the_librarys_aggregates(aggregate, count, seed):
    values = np.random.default_rng(seed).standard_normal((count, 5, 2))
    np.testing.assert_allclose(
        reduce(aggregate, torch.from_numpy(values)).numpy(), aggregate(values), atol=1e-12
    )


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
@pytest.mark.parametrize("count", [1, 4, 5, 10])
def test_derivatives_equal_autograd(aggregate, count):
    generator = torch.Generator().manual_seed(count)
    values = torch.randn(count, 7, generator=generator, dtype=torch.float64).requires_grad_(True)
    expected = torch.autograd.grad(reduce(aggregate, values).sum(), values)[0]
    torch.testing.assert_close(derivative(aggregate, values.detach()), expected)


def test_an_unknown_aggregate_serves_targets_but_not_gradients():
    values = torch.arange(6.0).view(3, 2)
    assert reduce(lambda given: given.max(axis=0), values).tolist() == [4.0, 5.0]
    with pytest.raises(MethodError, match="gradient passes through the aggregate"):
        derivative(lambda given: given.max(axis=0), values)
