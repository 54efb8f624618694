"""Confidence sequences: bounds that hold at all sample sizes at once."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr

from tailproof.arrays import FloatArray

#: Observations at which sequences are tightest unless told otherwise.
TIGHTEST = 2_000
_OCTAVES = 30  # scales of the smoothing sequence: 2^-30 to 2^30
_ROWS = 65_536  # samples whose logarithms are taken at once


def sequential_miss(count: int, *, miss: float, tightest: int = TIGHTEST) -> float:
    """Return the share of misses to ask of each end at one look, so that all looks miss with `miss`.

    The boundary of a normal mixture (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
    2024): of a sum of n standard normal increments the chance ever to be farther from 0 than
    √n·c_n, c_n² = (1 + 1/(nρ²)) log((1 + nρ²) / miss²), is `miss`. Returned is P(Z < −c_n) of a
    standard normal Z, with ρ such that c_n √n is least at `tightest`.

    >>> sequential_miss(2000, miss=0.1) < 0.05  # than at a single look
    True
    """
    twice = -2 * log(miss)
    scale = (twice + log(twice + 1)) / tightest
    grown = count * scale
    return float(ndtr(-sqrt((1 + 1 / grown) * log((1 + grown) / miss**2))))


def smoothing_sequence(samples: FloatArray, *, miss: float) -> float:
    """Return a lower bound of the mean of non-negative samples that holds at every sample size at once.

    For any L > 0 fixed beforehand, Π (1 + x_i/L) / (1 + μ/L)ⁿ has mean 1 at every n, and so has its
    average over L = 2^-30, …, 2^30; by Ville's inequality it ever exceeds 1/miss with probability
    `miss` at most. The bound is the least μ for which it does not: logarithmic smoothing (Sakhi et al.
    2024) for all n at once, whatever the tail.

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
    return float(brentq(excess, 0.0, top))
