"""How far an estimate is ahead of the logged policy, from the values of both on the same folds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from tailproof.algorithms.default.gain import relative_gain
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.statistics.intervals import (
    Bound,
    Interval,
    order_statistic_interval,
    order_statistic_lower_bound,
)
from tailproof.statistics.tails import mad


@dataclass(frozen=True, kw_only=True)
class FoldGain:
    """The difference of two estimates, paired by folds.

    Attributes
    ----------
    value
        The difference of the two estimates, not the median of the folds' differences.
    reference
        What it is compared with.
    fold_values
        The differences on folds where both are finite, (K,).
    declined
        Why no interval is given, or None.
    """

    value: float
    reference: float
    fold_values: FloatArray = field(repr=False)
    declined: str | None = None

    @property
    def relative(self) -> float:
        """The gain over |reference|; NaN where that is 0."""
        return relative_gain(self.value, self.reference)

    @property
    def standard_error(self) -> float:
        """Standard error of the difference; NaN where there are no independent folds."""
        return math.nan if self.declined else fold_error(self.fold_values)

    @property
    def won(self) -> int:
        """In how many folds the first is ahead."""
        return int(np.count_nonzero(self.fold_values > 0))

    def interval(self, level: float = 0.9) -> Interval:
        """Return an interval from order statistics of the folds' differences; it holds the value."""
        self._require()
        return holding(order_statistic_interval(self.fold_values, level=level), self.value)

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a bound from order statistics of the folds' differences, never above the value."""
        self._require()
        return below(order_statistic_lower_bound(self.fold_values, level=level), self.value)

    def _require(self) -> None:
        if self.declined is not None:
            raise LevelError(self.declined)


def fold_error(values: FloatArray) -> float:
    """Return the standard error of the median of K folds, from their MAD; NaN for fewer than two.

    π/2 is the variance of a Gaussian sample's median over that of its mean.
    """
    if len(values) < 2:
        return math.nan
    return math.sqrt(math.pi / 2 / len(values)) * mad(values)


def holding(interval: Interval, value: float) -> Interval:
    """Return the interval, widened to hold the value: members combined elsewhere may lie outside."""
    return replace(interval, low=min(interval.low, value), high=max(interval.high, value))


def below(bound: Bound, value: float) -> Bound:
    """Return the bound, lowered to the value if it lies above."""
    return replace(bound, value=min(bound.value, value))
