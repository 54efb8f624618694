"""Skew of a sample: of its centre by the medcouple, of its tails by counting extremes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from tailproof.arrays import FloatArray
from tailproof.errors import MethodError
from tailproof.statistics.tails.sample import as_sample, check_level, check_theta, median_of

#: Larger samples are thinned before their medcouple is computed.
EXACT = 20_000


@dataclass(frozen=True, kw_only=True)
class Medcouple:
    """The medcouple of n values: 0 for symmetry, towards 1 for a long right side, −1 for a left.

    `used` is the number of values used: all (`exact`), or that many evenly spaced quantiles.
    """

    value: float
    n: int
    used: int

    @property
    def exact(self) -> bool:
        """Whether every value was used."""
        return self.used == self.n


@dataclass(frozen=True, kw_only=True)
class TailAsymmetry:
    """The right tail compared with the left, each beyond the same `distance` from the median.

    `ratio` is the number of values beyond it on the `right` over that on the `left`, with its interval:
    1 for symmetric tails, infinite if the left has none, NaN if neither has. `spread` is the ratio of
    the tails' lengths: (Q(1 − share/2) − median) / (median − Q(share/2)).
    """

    ratio: float
    low: float
    high: float
    spread: float
    right: int
    left: int
    distance: float
    level: float


def medcouple(x: npt.ArrayLike, *, exact_up_to: int = EXACT) -> Medcouple:
    """Return the medcouple of Brys, Hubert and Struyf (2004), a robust measure of skewness.

    It is the median over all pairs x_j ≤ m ≤ x_i, with m the sample median, of

        h(x_i, x_j) = ((x_i − m) − (m − x_j)) / (x_i − x_j) = tanh(½·log((x_i − m)/(m − x_j))),

    where pairs that both equal m count as −1, 0 and 1 in balance. By the second form it is the
    median of the differences between two sorted lists, found by bisection in O(n log n). Larger
    samples are thinned to `exact_up_to` evenly spaced order statistics; nothing is random, and the
    result changes by about 1/exact_up_to, less than its own sampling error.

    Parameters
    ----------
    x
        The sample.
    exact_up_to
        Use every value of samples up to this size.

    Examples
    --------
    >>> medcouple([1.0, 2.0, 3.0, 4.0, 5.0]).value
    0.0
    >>> round(medcouple([1.0, 2.0, 3.0, 7.0, 20.0]).value, 3)
    0.6
    """
    values = np.sort(as_sample("x", x))
    if exact_up_to < 3:
        raise MethodError(f"exact_up_to must be 3 or more. Got {exact_up_to!r} instead.")
    n = len(values)
    if n > exact_up_to:
        values = values[((np.arange(exact_up_to) + 0.5) * n / exact_up_to).astype(int)]
    z = values - median_of(values)
    ties = int(np.count_nonzero(z == 0))
    right, left = np.log(z[z > 0]), np.log(-z[z < 0][::-1])  # both ascending
    inner = len(right) * len(left)
    lowest = len(left) * ties + ties * (ties - 1) // 2  # pairs whose h is −1
    total = (len(right) + ties) * (len(left) + ties)
    negative = _differences_below(right, left, 0.0, strict=True)
    zeros = ties + _differences_below(right, left, 0.0, strict=False) - negative

    def ranked(rank: int) -> float:
        rank -= lowest
        if rank <= 0:
            return -1.0
        if rank > inner + ties:
            return 1.0
        if negative < rank <= negative + zeros:
            return 0.0
        rank -= ties if rank > negative else 0
        return math.tanh(_ranked_difference(right, left, rank) / 2)

    value = (ranked((total + 1) // 2) + ranked(total // 2 + 1)) / 2
    return Medcouple(value=value, n=n, used=len(values))


def tail_asymmetry(
    x: npt.ArrayLike, *, share: float = 0.05, level: float = 0.95, theta: float = 1.0
) -> TailAsymmetry:
    """Compare the numbers of extreme values in the right and the left tail.

    Extreme values are the `share` farthest from the median. Given their number N, the number on the
    right is Bin(N, q) for independent values, with q = ½ under symmetry; ratio = q/(1 − q), with the
    exact interval of Clopper and Pearson. An interval above 1 means that the right tail is heavier.

    Parameters
    ----------
    x
        The sample.
    share
        Share of values that count as extreme, between 0 and ½.
    level
        Level of the interval.
    theta
        The extremal index if extremes are clustered: the interval then uses θ·N instead of N.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> even = tail_asymmetry(rng.standard_t(2, 5000))
    >>> even.low < 1 < even.high
    True
    >>> tail_asymmetry(rng.pareto(1.5, 5000)).low > 10
    True
    """
    x = as_sample("x", x)
    check_level(level)
    check_theta(theta)
    if not 0 < share < 0.5:
        raise MethodError(f"share must lie between 0 and 0.5. Got {share!r}: use 0.05.")
    n = len(x)
    inner = max(int(n * share / 2), 1)
    ends = [max(inner - 1, 0), max(n - inner, 0)]
    z = x - median_of(x)
    bottom, top = (float(np.partition(z, end)[end]) for end in ends)
    far = max(n - 1 - int(n * share), 0)
    distance = float(np.partition(np.abs(z), far)[far])
    right = int(np.count_nonzero(z > distance))
    left = int(np.count_nonzero(z < -distance))
    low, high = _binomial_interval(right * theta, left * theta, level)
    return TailAsymmetry(
        ratio=_odds(right, left),
        low=_odds(low, 1 - low) if right + left else math.nan,
        high=_odds(high, 1 - high) if right + left else math.nan,
        spread=_odds(top, -bottom),
        right=right,
        left=left,
        distance=distance,
        level=level,
    )


def _odds(for_right: float, for_left: float) -> float:
    if for_left > 0:
        return for_right / for_left
    return math.inf if for_right > 0 else math.nan


def _binomial_interval(successes: float, failures: float, level: float) -> tuple[float, float]:
    """Return the Clopper–Pearson interval for a share; counts need not be whole."""
    miss, quantile = (1 - level) / 2, scipy.special.betaincinv
    low = float(quantile(successes, failures + 1, miss)) if successes > 0 else 0.0
    high = float(quantile(successes + 1, failures, 1 - miss)) if failures > 0 else 1.0
    return low, high


def _differences_below(right: FloatArray, left: FloatArray, edge: float, *, strict: bool) -> int:
    """Return the number of pairs with right_i − left_j < edge, or ≤ edge when not strict."""
    first = np.searchsorted(left, right - edge, side="right" if strict else "left")
    return len(right) * len(left) - int(first.sum())


def _ranked_difference(right: FloatArray, left: FloatArray, rank: int) -> float:
    """Return the rank-th smallest (from 1) of all right_i − left_j, both lists ascending."""
    slack = 1e-9  # right − (right − left) may differ from left by a rounding error
    low = float(right[0] - left[-1]) - slack
    high = float(right[-1] - left[0]) + slack
    below, upto = 0, len(right) * len(left)
    # bisect until the pairs between the two edges are few enough to sort
    while upto - below > 4 * (len(right) + len(left)):
        middle = (low + high) / 2
        if not low < middle < high:
            return high  # the remaining pairs are equal up to rounding
        count = _differences_below(right, left, middle, strict=False)
        if count < rank:
            low, below = middle, count
        else:
            high, upto = middle, count
    first = np.searchsorted(left, right - high, side="left")
    last = np.searchsorted(left, right - low, side="left")
    counts = last - first
    rows = np.repeat(np.arange(len(right)), counts)
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
    return float(np.sort(right[rows] - left[columns])[rank - below - 1])
