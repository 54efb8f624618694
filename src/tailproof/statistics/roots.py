"""The equations of Huber's and Catoni's means, and the extreme samples that they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from tailproof.arrays import FloatArray


def partial_sums(x: FloatArray) -> FloatArray:
    """Return S, (n + 1,), with S[j] − S[i] = Σ x[i:j].

    It is accumulated from the middle outwards, so that an outlier at an end causes no loss of digits.
    """
    half = len(x) // 2
    return np.concatenate([-np.cumsum(x[:half][::-1])[::-1], _sums(x[half:])])


def root(pull: Callable[[float, float], float], tau: float) -> float:
    """Return the root m of the decreasing Σ ψ((x_i − m)/τ), for deviations x from their median.

    ψ is constant beyond ±1, so at m = ±τ at least half of the terms have their extreme value and the
    root lies between. If the roots are an interval, the median 0 is returned.
    """
    at_median = pull(0.0, tau) if tau > 0 else 0.0
    edge = math.copysign(1.0, at_median)  # in units of τ, to avoid underflow
    if at_median == 0 or (pull(edge * tau, tau) >= 0) == (edge > 0):  # at the edge, up to rounding
        return 0.0 if at_median == 0 else edge * tau
    find = scipy.optimize.brentq  # imported lazily
    return tau * float(find(lambda t: pull(t * tau, tau), 0.0, edge, xtol=1e-15, maxiter=1000))


@dataclass(frozen=True)
class Extremes:
    """The smallest and largest samples, and count, mean and sum of squares of those between."""

    low: FloatArray  # at most `size` each, ascending
    high: FloatArray
    count: float  # number of samples between
    mean: float  # of the samples between
    squares: float  # Σ(x − mean)² over the samples between
    size: int

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.low) + len(self.high) + int(self.count)

    def __add__(self, other: Extremes) -> Extremes:
        known = np.concatenate([self.low, other.low, self.high, other.high])
        both = FindExtremes(self.size)(known)
        rest = _pooled(
            (self.count, self.mean, self.squares), (other.count, other.mean, other.squares)
        )
        return Extremes(
            both.low, both.high, *_pooled(rest, (both.count, both.mean, both.squares)), self.size
        )


@dataclass(frozen=True)
class FindExtremes:
    """Finds the `size` smallest and largest samples, and summarises the others."""

    size: int

    @classmethod
    def within(cls, budget: float) -> FindExtremes:
        """Return the finder of the extremes that `proposal_two` needs."""
        return cls(math.ceil(budget) + 1)

    def __call__(self, samples: FloatArray) -> Extremes:
        """Return the extremes of some samples."""
        n, size = len(samples), min(self.size, len(samples) // 2)
        if n > 2 * self.size:
            last = n - size
            parted = np.partition(samples, (size, last - 1))
        else:  # every sample is kept
            last, parted = size, np.sort(samples)
        low, between, high = np.split(parted, [size, last])
        mean = float(between.mean()) if len(between) else 0.0
        squares = float(((between - mean) ** 2).sum())
        return Extremes(np.sort(low), np.sort(high), len(between), mean, squares, self.size)


def _pooled(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, float, float]:
    """Return count, mean and sum of squared deviations of two samples together."""
    total, gap = one[0] + other[0], other[1] - one[1]
    share = other[0] / max(total, 1)
    return total, one[1] + gap * share, one[2] + other[2] + gap**2 * one[0] * share


def proposal_two(extremes: Extremes, budget: float) -> tuple[float, float]:
    """Return m, τ with Σ ψ_τ(x − m) = 0 and Σ min((x − m)², τ²) = budget·τ²: Huber's Proposal 2.

    (m, τ) minimises a jointly convex function, so there is one solution. With p samples clipped below,
    q above and k inside, these with mean c and sum of squared deviations V,

        m = c + (q − p) τ / k,    τ² = V / (budget − p − q − (q − p)² / k).

    As p + q < budget is small, all (p, q) are tried: one is consistent with the order of the samples.
    """
    n = extremes.samples
    centre = extremes.mean if extremes.count else float(extremes.high[0])
    low, high = extremes.low - centre, extremes.high - centre
    if n == 1:
        return centre, 0.0
    counts = np.arange(min(math.ceil(budget), n))
    below, above = (each.ravel() for each in np.meshgrid(counts, counts))
    inside = np.maximum(n - below - above, 1)
    share = budget - below - above - (above - below) ** 2 / inside
    fits = (below <= len(low)) & (above <= len(high)) & (below + above < n) & (share > 0)
    below, above = below[fits], above[fits]
    inside, share = inside[fits], share[fits]
    # from the middle outwards, so that an outlier at an end causes no loss of digits
    first, last = len(low) - below, len(high) - above
    total = _sums(low[::-1])[first] + _sums(high)[last]
    squares = extremes.squares + _sums(low[::-1] ** 2)[first] + _sums(high**2)[last]
    tau = np.sqrt(np.maximum(squares - total**2 / inside, 0) / share)
    m = (total + (above - below) * tau) / inside
    order = np.concatenate([[-np.inf], low, high, [np.inf]])
    end = len(order) - 1 - above  # order[below] is clipped below, order[end] above
    gaps = [order[below] - (m - tau), (m - tau) - order[below + 1]]
    gaps += [order[end - 1] - (m + tau), (m + tau) - order[end]]
    best = int(np.argmin(np.maximum(np.max(gaps, axis=0), 0)))
    return centre + float(m[best]), float(tau[best])


def _sums(x: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(x)])
