"""The losses and their analytic gradients.

Each loss is a mean over the batch, the last axis, for each member: (K, B) to (K,). Its gradient has
the shape of the variable. Tests compare the gradients with autograd.
"""

from __future__ import annotations

from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softplus

_HALF_LOG_2PI = 0.5 * log(2 * pi)


def error_loss(error: Tensor, huber: float | None = None) -> Tensor:
    """Return mean e², or with a threshold δ the mean of e² below it and δ(2|e| − δ) above it."""
    if huber is None:
        return error.square().mean(-1)
    size = error.abs()
    return torch.where(size <= huber, error.square(), huber * (2 * size - huber)).mean(-1)


def error_gradient(error: Tensor, huber: float | None = None) -> Tensor:
    """Return the gradient of `error_loss` by e, 2e / B, or 2·clip(e, ±δ) / B."""
    clipped = error if huber is None else error.clamp(-huber, huber)
    return clipped * (2 / error.shape[-1])


def regression_loss(action: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted squared distance to logged actions, mean w·‖π(s) − a‖²."""
    return (weight * (action - logged).square().sum(-1)).mean(-1)


def regression_gradient(action: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return its gradient by u where π(s) = tanh u: 2w(π − a)(1 − π²) / B, (P, B, q)."""
    scale = (weight * (2 / weight.shape[-1])).unsqueeze(-1)
    return (action - logged) * (1 - action.square()) * scale


def likelihood_loss(action: Tensor, logged: Tensor, weight: Tensor, log_std: Tensor) -> Tensor:
    """Return the weighted Gaussian likelihood of logged actions, mean w·Σ((π − a)²/2σ² + log σ)."""
    terms = (action - logged).square() / (2 * (2 * log_std).exp()) + log_std
    return (weight * terms.sum(-1)).mean(-1)


def likelihood_gradients(
    action: Tensor, logged: Tensor, weight: Tensor, log_std: Tensor
) -> tuple[Tensor, Tensor]:
    """Return its gradients by u where π(s) = tanh u, (P, B, q), and by log σ, (P, 1, q)."""
    precision = (-2 * log_std).exp()
    share = (weight / weight.shape[-1]).unsqueeze(-1)
    by_mean = regression_gradient(action, logged, weight) * (precision / 2)
    by_log_std = share * (1 - (action - logged).square() * precision)
    return by_mean, by_log_std.sum(1, keepdim=True)


def cross_entropy_loss(logits: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted log-likelihood of logged discrete actions, mean −w·log π(a|s)."""
    log_likelihood = log_softmax(logits, -1).gather(-1, logged.unsqueeze(-1)).squeeze(-1)
    return -(weight * log_likelihood).mean(-1)


def cross_entropy_gradient(logits: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return its gradient by the logits, w(π − 1{a}) / B, (P, B, A)."""
    gradient = logits.softmax(-1)
    index = logged.unsqueeze(-1)
    gradient.scatter_add_(-1, index, torch.full_like(index, -1, dtype=gradient.dtype))
    return gradient.mul_((weight / weight.shape[-1]).unsqueeze(-1))


def squashed_log_density(raw: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Return log π(a|s) of a = tanh u, u = μ + σε: Σ −ε²/2 − log σ − log √2π − log(1 − tanh²u)."""
    squash = 2 * (log(2) - raw - softplus(-2 * raw))
    return (-0.5 * noise.square() - log_std - _HALF_LOG_2PI - squash).sum(-1)


def soft_policy_loss(log_density: Tensor, value: Tensor, temperature: Tensor) -> Tensor:
    """Return SAC's policy loss, mean α·log π(a|s) − Q(s, a)."""
    return (temperature * log_density - value).mean(-1)


def soft_policy_gradient(
    action: Tensor, deviation: Tensor, by_action: Tensor, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    """Return its gradients by μ and log σ, (B, q) each.

    With a = tanh u, u = μ + σε and log(1 − a²)' = −2a: by u it is (2αa − (1 − a²)·∂Q/∂a) / B, by
    log σ that times σε, less α / B.

    Parameters
    ----------
    action, deviation, by_action
        a, σε and ∂Q/∂a, (B, q) each.
    temperature
        α.
    """
    rows = action.shape[0]
    by_mean = (2 * temperature * action - (1 - action.square()) * by_action) / rows
    return by_mean, by_mean * deviation - temperature / rows


def temperature_gradient(log_density: Tensor, target: float) -> Tensor:
    """Return the gradient by log α of SAC's temperature loss, mean −log α·(log π + target entropy)."""
    return -(log_density.mean() + target)


def cloned_policy_loss(action: Tensor, logged: Tensor, value: Tensor, alpha: float) -> Tensor:
    """Return TD3+BC's policy loss, −λ·mean Q + mean (π − a)², λ = α / mean |Q| held fixed."""
    scale = alpha / value.abs().mean().detach()
    return -scale * value.mean() + (action - logged).square().mean()


def cloned_policy_gradient(
    action: Tensor, logged: Tensor, value: Tensor, by_action: Tensor, alpha: float
) -> Tensor:
    """Return its gradient by u where π(s) = tanh u, (B, q); `by_action` is ∂Q/∂a."""
    rows = action.shape[0]
    scale = alpha / value.abs().mean()
    by_policy = 2 * (action - logged) / action.numel() - by_action * (scale / rows)
    return by_policy * (1 - action.square())
