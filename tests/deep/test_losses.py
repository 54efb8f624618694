"""Every hand-written gradient equals autograd's of the loss beside it."""

import numpy as np
import pytest
import torch

from tailproof.deep import IQL, SQL, losses

K, B, Q, A = 3, 17, 2, 4


def normal(*shape, seed=0, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


def autograd(loss, by):
    return torch.autograd.grad(loss.sum(), by)[0]


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.99])
def test_expectile(expectile):
    q, v = normal(K, B, seed=1, grad=False), normal(K, B)
    base = IQL(expectile=expectile)
    expected = autograd(base.value_loss(q - v, v), v)
    torch.testing.assert_close(base.value_gradient((q - v).detach()), expected)


def test_expectile_one_half_is_half_the_squared_loss():
    u = normal(K, B, grad=False)
    torch.testing.assert_close(IQL(expectile=0.5).value_loss(u, u), 0.5 * losses.error_loss(u))


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_sparse(alpha):
    q, v = normal(K, B, seed=1, grad=False), normal(K, B)
    base = SQL(alpha=alpha)
    expected = autograd(base.value_loss(q - v, v), v)
    torch.testing.assert_close(base.value_gradient((q - v).detach()), expected)


def test_sparse_gradient_vanishes_where_the_mean_weight_is_one():
    u = torch.full((1, B), 0.0)
    assert SQL(alpha=10.0).value_gradient(u).abs().max() == 0


@pytest.mark.parametrize("threshold", [None, 0.3, 1.0])
def test_errors_squared_or_huber(threshold):
    e = normal(2, K, B)
    expected = autograd(losses.error_loss(e, threshold), e)
    torch.testing.assert_close(losses.error_gradient(e.detach(), threshold), expected)


def test_a_huge_huber_threshold_is_the_squared_loss():
    e = normal(K, B, grad=False)
    torch.testing.assert_close(losses.error_loss(e, 1e6), losses.error_loss(e))


def test_regression():
    raw, logged = normal(K, B, Q), normal(1, B, Q, seed=1, grad=False).tanh()
    weight = normal(K, B, seed=2, grad=False).exp()
    expected = autograd(losses.regression_loss(raw.tanh(), logged, weight), raw)
    got = losses.regression_gradient(raw.tanh().detach(), logged, weight)
    torch.testing.assert_close(got, expected)


def test_likelihood():
    raw, logged = normal(K, B, Q), normal(1, B, Q, seed=1, grad=False).tanh()
    log_std = normal(K, 1, Q, seed=3)
    weight = normal(K, B, seed=2, grad=False).exp()
    loss = losses.likelihood_loss(raw.tanh(), logged, weight, log_std)
    expected = torch.autograd.grad(loss.sum(), [raw, log_std])
    given = (raw.tanh().detach(), logged, weight, log_std.detach())
    for got, right in zip(losses.likelihood_gradients(*given), expected, strict=True):
        torch.testing.assert_close(got, right)
    law = torch.distributions.Normal(raw.tanh(), log_std.exp())
    constant = Q * 0.5 * np.log(2 * np.pi)
    likelihood = law.log_prob(logged.expand(K, -1, -1)).sum(-1) + constant
    torch.testing.assert_close(loss, -(weight * likelihood).mean(-1))


def test_cross_entropy():
    logits, weight = normal(K, B, A), normal(K, B, seed=2, grad=False).exp()
    logged = torch.arange(B).remainder(A).expand(K, -1)
    expected = autograd(losses.cross_entropy_loss(logits, logged, weight), logits)
    got = losses.cross_entropy_gradient(logits.detach(), logged, weight)
    torch.testing.assert_close(got, expected)


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


def test_soft_policy():
    mean, log_std = normal(B, Q, seed=1), normal(B, Q, seed=2)
    noise, matrix = normal(B, Q, seed=3, grad=False), normal(Q, Q, seed=4, grad=False)
    temperature = torch.tensor(0.3, dtype=torch.float64)
    deviation = log_std.exp() * noise
    raw = mean + deviation
    action = raw.tanh()
    value = (action @ matrix).mul(action).sum(-1)  # any smooth Q(a)
    by_action = torch.autograd.grad(value.sum(), action, retain_graph=True)[0]
    loss = losses.soft_policy_loss(
        losses.squashed_log_density(raw, noise, log_std), value, temperature
    )
    expected = torch.autograd.grad(loss, (mean, log_std))
    got = losses.soft_policy_gradient(
        action.detach(), deviation.detach(), by_action.detach(), temperature
    )
    torch.testing.assert_close(got, expected)


def test_temperature():
    log_temperature = torch.tensor([0.4], dtype=torch.float64, requires_grad=True)
    density = normal(B, grad=False)
    expected = autograd(-(log_temperature * (density - 2.0)).mean(), log_temperature)
    torch.testing.assert_close(losses.temperature_gradient(density, -2.0).view(1), expected)


def test_cloned_policy():
    raw, logged = normal(B, Q), normal(B, Q, seed=1, grad=False).tanh()
    matrix = normal(Q, Q, seed=4, grad=False)
    action = raw.tanh()
    value = 1 + (action @ matrix).mul(action).sum(-1)
    by_action = torch.autograd.grad(value.sum(), action, retain_graph=True)[0]
    expected = autograd(losses.cloned_policy_loss(action, logged, value, 2.5), raw)
    got = losses.cloned_policy_gradient(
        action.detach(), logged, value.detach(), by_action.detach(), 2.5
    )
    torch.testing.assert_close(got, expected)


def test_weights_are_bounded_and_monotone():
    u = torch.linspace(-50, 50, 101)
    weight = IQL(beta=3.0, limit=100.0).action_weight(u)
    assert weight.max() == 100
    assert (weight.diff() >= 0).all()
    sparse = SQL(alpha=2.0).action_weight(u)
    assert (sparse[u <= -4] == 0).all()
    assert sparse[u == 0] == 1
