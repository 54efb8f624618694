"""Quantiles and tail means of weighted samples, with interval ends and influences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainc

from tailproof.arrays import BoolArray, FloatArray, IntArray

_ADDED = 5  # pseudo-samples of typical weight on each side of a quantile, to stabilise its weights


def weighted_quantile(values: FloatArray, weights: FloatArray, q: float) -> float:
    """Return the smallest value v with F̂(v) ≥ q, where F̂(v) = Σ w 1(x ≤ v) / Σ w.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), 0.5)
    1.0
    """
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    place = int(np.searchsorted(share, q * share[-1] * (1 - 1e-12)))
    return float(values[order[min(place, len(order) - 1)]])


def quantile_ends(
    values: FloatArray,
    weights: FloatArray,
    q: float,
    *,
    below: float,
    above: float,
    unit: IntArray | None = None,
) -> tuple[float, float]:
    """Return interval ends of the q-quantile, with error probabilities `below` and `above`.

    The quantile is at most v if F(v) ≥ q. For each v this is tested by the exact binomial test (Clopper
    and Pearson 1934) of m F̂(v) successes in m trials, where m is the number of equally weighted
    independent samples for which F̂(v) would have the same variance if F(v) were q. With w of mean 1
    and w̄₋, w̄₊ the weighted means of the weights up to v and beyond it, m = n / ((1 − q) w̄₋ + q w̄₊),
    divided by the design effect of units. The upper end is infinite if too few samples lie beyond the
    quantile to bound it.

    Parameters
    ----------
    unit
        The index of the independent unit of each sample, (n,); by default each is its own.

    Examples
    --------
    >>> x = np.arange(1.0, 101.0)
    >>> quantile_ends(x, np.ones(100), 0.5, below=0.05, above=0.05)
    (42.0, 59.0)
    >>> quantile_ends(x, np.ones(100), 0.999, below=0.05, above=0.05)
    (99.0, inf)
    """
    order = np.argsort(values, kind="stable")
    x, w = values[order], weights[order] / weights.mean()
    total, squares = np.cumsum(w), np.cumsum(w**2)
    typical = squares[-1] / total[-1]
    added = _ADDED * typical
    last = np.flatnonzero(np.append(x[1:] > x[:-1], True))  # last index of each distinct value
    effect = 1.0
    if unit is not None:
        at = weighted_quantile(x, w, q)
        effect = design_effect(w, x <= at, unit[order])

    def test(place: int) -> tuple[float, float]:
        """Return the p-values of F̂ at this distinct value, upper and lower, if F were q."""
        i = int(last[place])
        share = min(total[i] / total[-1], 1.0)
        # few samples on one side may lack heavy weights: add some of typical weight
        within = (squares[i] + added * typical) / (total[i] + added)
        beyond = (squares[-1] - squares[i] + added * typical) / (total[-1] - total[i] + added)
        m = len(x) / ((1 - q) * within + q * beyond) / effect
        k, rest = m * share, m * (1 - share)
        as_high = betainc(k, rest + 1, q) if k > 0 else 1.0
        as_low = betainc(rest, k + 1, 1 - q) if rest > 0 else 1.0
        return float(as_high), float(as_low)

    low = _first(lambda place: test(place)[1] > below, len(last))
    high = _first(lambda place: test(place)[0] <= above, len(last))
    return (
        float(x[last[min(low, len(last) - 1)]]),
        float(x[last[high]]) if high < len(last) else float("inf"),
    )


def design_effect(weights: FloatArray, inside: BoolArray, unit: IntArray) -> float:
    """Return the variance of a weighted share over that of independent samples, ≥ 1."""
    parts: FloatArray = weights * (inside - np.average(inside, weights=weights))
    if not parts.any():
        parts = weights
    sums = np.bincount(unit, weights=parts)
    count = int((np.bincount(unit) > 0).sum())
    return max(float((sums**2).sum() / (parts**2).sum()) * count / max(count - 1, 1), 1.0)


def tail_mean(values: FloatArray, weights: FloatArray, q: float) -> tuple[float, FloatArray]:
    """Return the mean of the lowest share q (CVaR, expected shortfall) and its influence, (n,).

    With ξ the q-quantile and w of mean 1, c = ξ − mean(w (ξ − x)₊) / q (Rockafellar and Uryasev 2000);
    an error in ξ has only a second-order effect, so that the influence of a sample is
    w (ξ − (ξ − x)₊ / q − c).

    >>> tail_mean(np.arange(1.0, 101.0), np.ones(100), 0.05)[0]
    3.0
    """
    w = weights / weights.mean()
    quantile = weighted_quantile(values, weights, q)
    parts = quantile - np.maximum(quantile - values, 0) / q
    value = float((w * parts).mean())
    return value, w * (parts - value)


def _first(holds: Callable[[int], bool], count: int) -> int:
    """Return the first index below `count` from which a monotone condition holds, or `count`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
