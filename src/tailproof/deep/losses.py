"""The losses, and the library's aggregates over members, as functions of tensors.

Each loss is a mean over the batch, the last axis, for each member: (K, B) to (K,).
"""

from __future__ import annotations

from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softplus

from tailproof.errors import MethodError
from tailproof.robust.aggregates import Aggregate, Mean, MeanMinusStd, Quantile, order_weights

_HALF_LOG_2PI = 0.5 * log(2 * pi)


def error_loss(error: Tensor, huber: float | None = None) -> Tensor:
    """Return mean e², or with a threshold δ the mean of e² below it and δ(2|e| − δ) above it."""
    if huber is None:
        return error.square().mean(-1)
    size = error.abs()
    return torch.where(size <= huber, error.square(), huber * (2 * size - huber)).mean(-1)


def regression_loss(action: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted squared distance to logged actions, mean w·‖π(s) − a‖²."""
    return (weight * (action - logged).square().sum(-1)).mean(-1)


def likelihood_loss(action: Tensor, logged: Tensor, weight: Tensor, log_std: Tensor) -> Tensor:
    """Return the weighted Gaussian likelihood of logged actions, mean w·Σ((π − a)²/2σ² + log σ)."""
    terms = (action - logged).square() / (2 * (2 * log_std).exp()) + log_std
    return (weight * terms.sum(-1)).mean(-1)


def cross_entropy_loss(logits: Tensor, logged: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted log-likelihood of logged discrete actions, mean −w·log π(a|s)."""
    log_likelihood = log_softmax(logits, -1).gather(-1, logged.unsqueeze(-1)).squeeze(-1)
    return -(weight * log_likelihood).mean(-1)


def squashed_log_density(raw: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Return log π(a|s) of a = tanh u, u = μ + σε: Σ −ε²/2 − log σ − log √2π − log(1 − tanh²u)."""
    squash = 2 * (log(2) - raw - softplus(-2 * raw))
    return (-0.5 * noise.square() - log_std - _HALF_LOG_2PI - squash).sum(-1)


def soft_policy_loss(log_density: Tensor, value: Tensor, temperature: Tensor) -> Tensor:
    """Return SAC's policy loss, mean α·log π(a|s) − Q(s, a)."""
    return (temperature * log_density - value).mean(-1)


def cloned_policy_loss(action: Tensor, logged: Tensor, value: Tensor, alpha: float) -> Tensor:
    """Return TD3+BC's policy loss, −λ·mean Q + mean (π − a)², λ = α / mean |Q| held fixed."""
    scale = alpha / value.abs().mean().detach()
    return -scale * value.mean() + (action - logged).square().mean()


def reduce(aggregate: Aggregate, values: Tensor) -> Tensor:
    """Return the aggregate of values (K, …) along the first axis, (…).

    An aggregate of the user's own is computed with numpy, without gradients.
    """
    if len(values) == 1:
        return values[0]
    if isinstance(aggregate, Mean):
        return values.mean(0)
    if isinstance(aggregate, MeanMinusStd):
        # The square root has no derivative at zero, where all members agree.
        std = values.var(0, correction=0).clamp_min(1e-24).sqrt()
        return values.mean(0) - aggregate.factor_for(len(values)) * std
    if isinstance(aggregate, Quantile) and aggregate.q == 0:
        return values.amin(0)
    order = order_weights(aggregate, len(values))
    if order is not None:
        ranked = values.sort(0).values
        return sum(
            (ranked[index] * weight for index, weight in enumerate(order) if weight),
            start=torch.zeros_like(ranked[0]),
        )
    if values.requires_grad:
        raise MethodError(
            f"The policy's gradient passes through the aggregate, so it must be Mean(), Median(), "
            f"Quantile(q), TrimmedMean(fraction) or MeanMinusStd(factor). Got {aggregate!r} instead."
        )
    return torch.as_tensor(aggregate(values.cpu().numpy())).to(values)
