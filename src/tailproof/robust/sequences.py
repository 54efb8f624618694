"""Confidence sequences: bounds that hold jointly at all sample sizes."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import scipy
from scipy.special import logsumexp, ndtr

from tailproof.arrays import FloatArray

#: Default number of observations at which sequences are tightest.
TIGHTEST = 2_000
_OCTAVES = 30  # scales of the smoothing sequence: 2^-30 to 2^30
_ROWS = 65_536  # samples processed at a time


def sequential_miss(count: int, *, miss: float, tightest: int = TIGHTEST) -> float:
    """Return the error probability of each end at one look, for a total of `miss` over all looks.

    This is the boundary of a normal mixture (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and
    Ramdas 2024): with probability at most `miss`, the sum of n standard normal increments exceeds
    √n·c_n in absolute value for any n, c_n² = (1 + 1/(nρ²)) log((1 + nρ²) / miss²). The result is
    P(Z < −c_n) for a standard normal Z, with ρ chosen so that the boundary is tightest at `tightest`.

    >>> sequential_miss(2000, miss=0.1) < 0.05  # than at a single look
    True
    """
    twice = -2 * log(miss)
    scale = (twice + log(twice + 1)) / tightest
    grown = count * scale
    return float(ndtr(-sqrt((1 + 1 / grown) * log((1 + grown) / miss**2))))


def smoothing_sequence(samples: FloatArray, *, miss: float) -> float:
    """Return a lower bound of the mean of non-negative samples that holds jointly at all sample sizes.

    For any fixed L > 0, Π (1 + x_i/L) / (1 + μ/L)ⁿ has mean 1 at every n, and so has its average over
    L = 2^-30, …, 2^30; by Ville's inequality the probability that it ever exceeds 1/miss is at most
    `miss`. The bound is the smallest μ for which it does not: logarithmic smoothing (Sakhi et al. 2024)
    for all n jointly and for any tail.

    >>> smoothing_sequence(np.zeros(100), miss=0.1)
    0.0
    """
    scales = 2.0 ** np.arange(-_OCTAVES, _OCTAVES + 1)
    n, sums = len(samples), np.zeros(len(scales))
    for start in range(0, n, _ROWS):
        some = samples[start : start + _ROWS]
        sums += [np.log1p(some / scale).sum() for scale in scales]

    def excess(mean: float) -> float:
        wealth = logsumexp(sums - n * np.log1p(mean / scales)) - log(len(scales))
        return float(wealth + log(miss))

    top = float(samples.mean())  # no product exceeds 1 there, by Jensen's inequality
    if excess(0.0) <= 0:
        return 0.0
    return float(scipy.optimize.brentq(excess, 0.0, top))
