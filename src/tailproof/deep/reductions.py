"""The library's aggregates over members in torch, with their derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

from tailproof.errors import MethodError
from tailproof.robust.aggregates import Aggregate, Mean, MeanMinusStd, Quantile, order_weights


def reduce(aggregate: Aggregate, values: Tensor) -> Tensor:
    """Return the aggregate of values (K, …) along the first axis, (…)."""
    if len(values) == 1:
        return values[0]
    if isinstance(aggregate, Mean):
        return values.mean(0)
    if isinstance(aggregate, MeanMinusStd):
        return values.mean(0) - aggregate.factor * values.std(0, correction=0)
    if isinstance(aggregate, Quantile) and aggregate.q == 0:
        return values.amin(0)
    order = order_weights(aggregate, len(values))
    if order is None:
        return torch.as_tensor(aggregate(values.cpu().numpy())).to(values)
    ranked = values.sort(0).values
    used = [(place, weight) for place, weight in enumerate(order) if weight]
    result = ranked[used[0][0]] * used[0][1]
    for place, weight in used[1:]:
        result += ranked[place] * weight
    return result


def derivative(aggregate: Aggregate, values: Tensor) -> Tensor:
    """Return ∂aggregate/∂value_k at values (K, …), (K, …)."""
    count = len(values)
    if count == 1:
        return torch.ones_like(values)
    if isinstance(aggregate, Mean):
        return torch.full_like(values, 1 / count)
    if isinstance(aggregate, MeanMinusStd):
        centred = values - values.mean(0)
        std = values.std(0, correction=0).clamp_(min=1e-12)
        return 1 / count - aggregate.factor * centred / (count * std)
    order = order_weights(aggregate, count)
    if order is None:
        raise MethodError(
            f"The policy's gradient passes through the aggregate, so it must be Mean(), Median(), "
            f"Quantile(q), TrimmedMean(fraction) or MeanMinusStd(factor). Got {aggregate!r} instead."
        )
    places = values.argsort(0)
    weights = torch.tensor(order, dtype=values.dtype, device=values.device)
    shaped = weights.view(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return torch.zeros_like(values).scatter_(0, places, shaped)


def picked(aggregate: Aggregate, values: Tensor) -> Tensor | None:
    """Return the member that the aggregate selects at each entry of values (K, …), or None."""
    weights = order_weights(aggregate, len(values))
    if weights is None or max(weights) < 1 - 1e-12:
        return None
    place = weights.index(max(weights))
    return values.argmin(0) if place == 0 else values.argsort(0)[place]
