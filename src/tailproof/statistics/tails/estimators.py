"""Three estimators of the extreme value index ξ = 1/α, each for every k in one pass.

X_(1) ≥ X_(2) ≥ … are the ordered values. ξ > 0 is a power tail P(X > x) ~ x^(−1/ξ), ξ = 0 a tail
like the exponential or the Gaussian, ξ < 0 a bounded one. Entry k − 1 of a path is the estimate
from the k largest values; entries that ties make meaningless are NaN.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy

from tailproof.arrays import FloatArray, IntArray

Estimator = Literal["hill", "moment", "pickands"]


def hill_path(descending: FloatArray) -> FloatArray:
    """Return ξ_k = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1)) for k = 1, …, m − 1 (Hill 1975)."""
    return _log_moments(descending)[0]


def moment_path(descending: FloatArray) -> FloatArray:
    """Return ξ_k = M₁ + 1 − ½/(1 − M₁²/M₂) for k = 1, …, m − 1 (Dekkers, Einmahl, de Haan 1989).

    M_j = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1))^j. One value has no spread, so k = 1 gives NaN.
    """
    first, second = _log_moments(descending)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = 1 - first**2 / second
        path = first + 1 - 0.5 / spread
    # for equal values the spread is only rounding errors
    return np.where(spread > 1e-12, path, np.nan)


def pickands_path(descending: FloatArray) -> FloatArray:
    """Return ξ_k = log₂((X_(k) − X_(2k))/(X_(2k) − X_(4k))) for k = 1, …, m // 4 (Pickands 1975).

    It is invariant under shifts and scaling of the sample.
    """
    k = np.arange(1, len(descending) // 4 + 1)
    upper = descending[k - 1] - descending[2 * k - 1]
    lower = descending[2 * k - 1] - descending[4 * k - 1]
    path = np.full(len(k), np.nan)
    spaced = (upper > 0) & (lower > 0)
    path[spaced] = np.log2(upper[spaced]) - np.log2(lower[spaced])
    return path


def deviation(method: Estimator, shape: FloatArray) -> FloatArray:
    """Return σ(ξ), where √k·(ξ_k − ξ) tends to N(0, σ²) as k grows and k/n falls.

    Hill: ξ. Moment: √(1 + ξ²) for ξ ≥ 0, and the longer expression of Dekkers, Einmahl and de Haan
    (1989) below. Pickands: ξ·√(2^(2ξ+1) + 1)/(2·(2^ξ − 1)·log 2).
    """
    if method == "hill":
        return shape
    if method == "moment":
        s = np.minimum(shape, 0)
        twice, thrice = 1 - 2 * s, 1 - 3 * s
        last = (5 - 11 * s) * twice / (thrice * (1 - 4 * s))
        bounded = (1 - s) ** 2 * twice * (4 - 8 * twice / thrice + last)
        return np.sqrt(np.where(shape >= 0, 1 + shape**2, bounded))
    s = np.where(np.abs(shape) < 1e-6, 1e-6, shape)  # 0/0 at ξ = 0, continuous there
    power = 2 ** np.minimum(s, 100)  # beyond this the ratio of powers is constant
    spread: FloatArray = s * np.sqrt(2 * power**2 + 1) / (2 * (power - 1) * np.log(2))
    return spread


def alpha_interval(
    method: Estimator, shape: FloatArray, k: IntArray, *, level: float, theta: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of an interval for α = 1/ξ, infinite where ξ ≤ 0 cannot be excluded.

    Hill: k·ξ_k/ξ is Gamma(k, 1) for exact Pareto values, so α lies between the Gamma quantiles over
    k·ξ_k. The others: 1/(ξ_k ± z·σ(ξ_k)/√k). Clustered values count as θ·k, not k.
    """
    count = k * theta
    miss = (1 - level) / 2
    if method == "hill":
        with np.errstate(divide="ignore"):
            alpha = 1 / shape
        low, high = (
            alpha * scipy.special.gammaincinv(count, share) / count for share in (miss, 1 - miss)
        )
        return low, high
    half = -scipy.special.ndtri(miss) * deviation(method, shape) / np.sqrt(count)
    return invert(shape + half), invert(shape - half)


def invert(shape: FloatArray) -> FloatArray:
    """Return α = 1/ξ, infinite for ξ ≤ 0."""
    alpha = 1 / np.where(shape > 0, shape, 1)
    return np.where(shape > 0, alpha, np.where(shape <= 0, np.inf, np.nan))


def stable_k(k: IntArray, shape: FloatArray, spread: FloatArray, *, tolerance: float = 3.0) -> int:
    """Return the largest k whose estimate agrees with those of all smaller k.

    k is accepted while |ξ_i − ξ_k| ≤ tolerance·σ_i/√i for every i ≤ k of the grid: Lepski's rule,
    as Boucheron and Thomas (2015) use it for Hill's estimator.
    """
    band = tolerance * spread / np.sqrt(k)
    ceiling = np.minimum.accumulate(shape + band)
    floor = np.maximum.accumulate(shape - band)
    broken = ~((shape <= ceiling) & (shape >= floor))  # true for NaN too
    return int(k[-1] if not broken.any() else k[max(int(np.argmax(broken)) - 1, 0)])


def geometric_grid(first: int, last: int, points: int) -> IntArray:
    """Return at most `points` whole numbers from first to last, evenly spaced in ratio."""
    return np.unique(np.geomspace(first, last, max(points, 1)).round().astype(int))


def _log_moments(descending: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return M₁ and M₂ for k = 1, …, m − 1."""
    below = np.log(descending[0]) - np.log(descending)  # (m,), ascending from 0, for accuracy
    k = np.arange(1, len(below))
    sums, squares = np.cumsum(below)[:-1] / k, np.cumsum(below**2)[:-1] / k
    last = below[1:]
    first = last - sums
    return np.maximum(first, 0), np.maximum(squares - 2 * last * sums + last**2, 0)
