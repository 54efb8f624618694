"""The equations behind Huber's and Catoni's means, on sorted deviations from a median."""

import math
from collections.abc import Callable

import numpy as np
import scipy

from tailproof.arrays import FloatArray


def partial_sums(x: FloatArray) -> FloatArray:
    """Return S, (n + 1,), with S[j] − S[i] = Σ x[i:j].

    Accumulated from the middle outwards, lest an outlier at either end cancels the others' digits.
    """
    half = len(x) // 2
    return np.concatenate([-np.cumsum(x[:half][::-1])[::-1], [0.0], np.cumsum(x[half:])])


def root(pull: Callable[[float, float], float], tau: float) -> float:
    """Return the zero of a falling Σ ψ((x_i − m)/τ) for deviations x from their median.

    As ψ is constant beyond ±1, at m = ±τ half of the samples pull back with all their force, so the
    root lies between. Where a whole interval is zero, the median 0 is its middle.
    """
    at_median = pull(0.0, tau) if tau > 0 else 0.0
    edge = math.copysign(1.0, at_median)  # in units of τ, where no product can underflow
    if at_median == 0 or (pull(edge * tau, tau) >= 0) == (edge > 0):  # at the edge, to rounding
        return 0.0 if at_median == 0 else edge * tau
    find = scipy.optimize.brentq  # loaded when it is needed
    return tau * float(find(lambda t: pull(t * tau, tau), 0.0, edge, xtol=1e-15, maxiter=1000))


def proposal_two(x: FloatArray, budget: float) -> tuple[float, float]:
    """Return m, τ with Σ ψ_τ(x − m) = 0 and Σ min((x − m)², τ²) = budget·τ² for sorted deviations.

    Huber's Proposal 2: (m, τ) minimises a jointly convex function, so there is one solution. With p
    samples clipped below, q above and k inside, of mean c and sum of squares about it V,

        m = c + (q − p) τ / k,    τ² = V / (budget − p − q − (q − p)² / k).

    As p + q < budget is small, all (p, q) are tried: one agrees with the order of the samples.
    """
    n = len(x)
    if n == 1:
        return 0.0, 0.0
    counts = np.arange(min(math.ceil(budget), n))
    below, above = (count.ravel() for count in np.meshgrid(counts, counts))
    inside = np.maximum(n - below - above, 1)
    share = budget - below - above - (above - below) ** 2 / inside
    first, last = below[share > 0], (n - above)[share > 0]  # (P,)
    inside, share = inside[share > 0], share[share > 0]
    sums, squares = partial_sums(x), partial_sums(x**2)
    total = sums[last] - sums[first]
    spread = squares[last] - squares[first] - total**2 / inside
    tau = np.sqrt(np.maximum(spread, 0) / share)
    m = (total + (n - last - first) * tau) / inside
    padded = np.concatenate([[-np.inf], x, [np.inf]])  # padded[i + 1] is x[i]
    low, high = m - tau, m + tau
    gaps = [padded[first] - low, low - x[first], x[last - 1] - high, high - padded[last + 1]]
    best = np.argmin(np.maximum(np.max(gaps, axis=0), 0))
    return float(m[best]), float(tau[best])
