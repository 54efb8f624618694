"""Losses as limiting cases and by torch's own distributions, and the library's aggregates in torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import Mean, MeanMinusStd, Median, Quantile, TrimmedMean
from tailproof.deep import IQL, SQL, losses
from tailproof.deep.losses import reduce
from tailproof.errors import MethodError

K, B, Q, A = 3, 17, 2, 4
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
    MeanMinusStd(1.0, ddof=1),
]


def normal(*shape, seed=0, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.99])
def test_v_of_iql_is_the_expectile_of_q(expectile):
    """At the minimum, τ·E(u)₊ = (1 − τ)·E(u)₋."""
    q, v = normal(1, 400), torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([v], tolerance_grad=1e-10, max_iter=200)

    def loss():
        optimiser.zero_grad()
        value = IQL(expectile=expectile).value_loss(q - v, v).sum()
        value.backward()
        return value

    optimiser.step(loss)
    u = (q - v).detach()
    above, below = u.clamp(min=0).mean(), (-u).clamp(min=0).mean()
    torch.testing.assert_close(expectile * above, (1 - expectile) * below, rtol=1e-4, atol=1e-6)


def test_expectile_one_half_is_half_the_squared_loss():
    u = normal(K, B)
    torch.testing.assert_close(IQL(expectile=0.5).value_loss(u, u), 0.5 * losses.error_loss(u))


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_v_of_sql_makes_the_mean_weight_one(alpha):
    """The derivative of SQL's loss by a common shift of V is (1 − mean weight)/α."""
    q, v = normal(K, B, seed=1), normal(K, B, grad=True)
    base = SQL(alpha=alpha, limit=1e9)
    by_v = torch.autograd.grad(base.value_loss(q - v, v).sum(), v)[0].sum(-1)
    torch.testing.assert_close(by_v, (1 - base.action_weight(q - v).mean(-1)) / alpha)


def test_a_huge_huber_threshold_is_the_squared_loss_and_its_gradient_is_clipped():
    e = normal(K, B, grad=True)
    torch.testing.assert_close(losses.error_loss(e, 1e6), losses.error_loss(e))
    gradient = torch.autograd.grad(losses.error_loss(e, 0.3).sum(), e)[0]
    torch.testing.assert_close(gradient, 2 * e.detach().clamp(-0.3, 0.3) / B)


def test_likelihood_is_that_of_a_normal_distribution():
    action, logged = normal(K, B, Q).tanh(), normal(1, B, Q, seed=1).tanh()
    log_std, weight = normal(K, 1, Q, seed=3), normal(K, B, seed=2).exp()
    law = torch.distributions.Normal(action, log_std.exp())
    likelihood = law.log_prob(logged.expand(K, -1, -1)).sum(-1) + Q * 0.5 * np.log(2 * np.pi)
    expected = -(weight * likelihood).mean(-1)
    torch.testing.assert_close(losses.likelihood_loss(action, logged, weight, log_std), expected)
    # With σ = 1/√2 and up to log σ it is the squared error.
    fixed = torch.full_like(log_std, -0.5 * np.log(2.0))
    squared = losses.regression_loss(action, logged, weight)
    constant = weight.mean(-1) * Q * 0.5 * np.log(2.0)
    found = losses.likelihood_loss(action, logged, weight, fixed)
    torch.testing.assert_close(found + constant, squared)


def test_cross_entropy_is_torchs():
    logits, weight = normal(K, B, A), normal(K, B, seed=2).exp()
    logged = torch.arange(B).remainder(A).expand(K, -1)
    each = torch.nn.functional.cross_entropy(logits.mT, logged, reduction="none")
    expected = (weight * each).mean(-1)
    torch.testing.assert_close(losses.cross_entropy_loss(logits, logged, weight), expected)


def test_squashed_log_density_is_that_of_the_transformed_normal():
    mean, log_std, noise = normal(B, Q, seed=1), normal(B, Q, seed=2), normal(B, Q, seed=3)
    base = torch.distributions.Normal(mean, log_std.exp())
    law = torch.distributions.TransformedDistribution(
        base, torch.distributions.TanhTransform(cache_size=1)
    )
    raw = mean + log_std.exp() * noise
    action = law.transforms[0](raw)
    torch.testing.assert_close(
        losses.squashed_log_density(raw, noise, log_std), law.log_prob(action).sum(-1)
    )


def test_the_trade_off_of_td3_does_not_depend_on_the_unit_of_reward():
    action, logged, value = normal(B, Q, grad=True), normal(B, Q, seed=1), normal(B, seed=2) + 3
    found = [
        torch.autograd.grad(
            losses.cloned_policy_loss(action, logged, unit * (value + action.sum(-1)), 2.5), action
        )[0]
        for unit in (1.0, 1000.0)
    ]
    torch.testing.assert_close(*found)


def test_weights_are_bounded_and_monotone():
    u = torch.linspace(-50, 50, 101)
    weight = IQL(beta=3.0, limit=100.0).action_weight(u)
    assert weight.max() == 100
    assert (weight.diff() >= 0).all()
    sparse = SQL(alpha=2.0).action_weight(u)
    assert (sparse[u <= -4] == 0).all()
    assert sparse[u == 0] == 1
    advantage = SQL(weight="advantage", limit=20.0).action_weight(u)
    assert advantage.tolist() == u.clamp(0, 20).tolist()


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(AGGREGATES), st.integers(3, 12), st.integers(0, 2**32 - 1))
def test_aggregates_in_torch_are_the_librarys(aggregate, count, seed):
    values = np.random.default_rng(seed).standard_normal((count, 5, 2))
    np.testing.assert_allclose(
        reduce(aggregate, torch.from_numpy(values)).numpy(), aggregate(values), atol=1e-12
    )


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
@pytest.mark.parametrize("count", [1, 4, 5, 10])
def test_aggregates_have_the_derivative_of_finite_differences(aggregate, count):
    values = normal(count, 7, seed=count, grad=True)
    torch.autograd.gradcheck(lambda given: reduce(aggregate, given), values)


def test_the_divisor_of_the_std_is_a_setting():
    values = normal(5, 3)
    expected = values.mean(0) - 2 * values.std(0)  # torch divides by K − 1
    torch.testing.assert_close(reduce(MeanMinusStd(2.0, ddof=1), values), expected)
    with pytest.raises(MethodError, match="ddof must be 0 or 1"):
        MeanMinusStd(2.0, ddof=2)


def test_members_that_agree_have_a_finite_gradient():
    values = torch.ones(4, 3, requires_grad=True)
    by_values = torch.autograd.grad(reduce(MeanMinusStd(2.0), values).sum(), values)[0]
    torch.testing.assert_close(by_values, torch.full((4, 3), 0.25))


def test_an_unknown_aggregate_serves_targets_but_not_gradients():
    values = torch.arange(6.0).view(3, 2)
    assert reduce(lambda given: given.max(axis=0), values).tolist() == [4.0, 5.0]
    with pytest.raises(MethodError, match="gradient passes through the aggregate"):
        reduce(lambda given: given.max(axis=0), values.requires_grad_())
