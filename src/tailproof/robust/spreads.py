"""Spreads: a centre and interval ends at any level, in closed form.

There is one class each for skewed samples, rare events and constant samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, log, sqrt
from typing import Protocol

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.robust.tails import effective_rows, hill_path

_TAIL_WEIGHT = 0.25  # weight of the extrapolated tail point in variance and skewness
_FEW_ROWS = 300  # with fewer effective rows the residuals of all rows say how often they are large
_FEW_GROUPS = 30  # the same for groups of rows
_LIGHT = 4.0  # tails with a Hill index above this get no extrapolated point
_LEAST_INDEX = 1.15  # smaller indices are raised to this, to limit the extrapolation
_STRETCH = 0.7  # by how much an end is stretched for each unit that the index is below …
_STRETCHED_BELOW = 2.5  # … this one, …
_TELLING = 100  # … from so many rows on, and in proportion to the rows with fewer


class HasEnds(Protocol):
    """What has interval ends."""

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        ...


@dataclass(frozen=True)
class Hall:
    """Hall's transformation of the studentised mean (Hall 1992), in closed form.

    With standard error σ and skewness κ of the mean, the ends are centre − σ g⁻¹(z),
    g⁻¹(x) = 3/κ ((1 + κ (x − κ/6))^{1/3} − 1): for κ = 0 the normal interval, for skewed samples
    longer on the side of the long tail. A known number has the error 0. The ends are moved
    outwards by the `allowance`, the possible error from the choice of a critic. `stretch` multiplies
    the distances of the lower and upper end of a number that stands alone, where tails are heavy.
    """

    centre: float
    error: float = 0.0
    skewness: float = 0.0
    unseen: bool = False
    allowance: float = 0.0
    stretch: tuple[float, float] = (1.0, 1.0)

    @property
    def kind(self) -> str:
        """The name of the interval."""
        return "Hall, unseen tail" if self.unseen else "Hall"

    def ends(
        self, below: float, above: float, *, stretch: tuple[float, float] = (1.0, 1.0)
    ) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        low, high = self._inverse(ndtri([1 - below, above])).tolist()
        low, high = stretch[0] * low + self.allowance, stretch[1] * high - self.allowance
        return self.centre - low, self.centre - high

    def stretched_ends(self, misses: FloatArray) -> FloatArray:
        """Return the stretched ends with these error probabilities on both sides, (misses, 2)."""
        low = self.stretch[0] * self._inverse(ndtri(1 - misses)) + self.allowance
        high = self.stretch[1] * self._inverse(ndtri(misses)) - self.allowance
        return self.centre - np.stack([low, high], axis=1)

    def _inverse(self, x: FloatArray) -> FloatArray:
        k = self.skewness
        return self.error * (x if abs(k) < 1e-9 else 3 / k * (np.cbrt(1 + k * (x - k / 6)) - 1))


@dataclass(frozen=True)
class Events:
    """Contributions c of rare events to a mean, all of one sign: Σc, Σc², and c of one more event."""

    total: float
    squares: float
    new: float

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the gamma interval of Fay and Feuer (1997); without an event, 0 to ln(1/miss)·new."""
        y, v = self.total, self.squares
        low = 0.0 if y <= 0 else v / (2 * y) * float(chdtri(2 * y * y / v, 1 - below))
        y, v = y + self.new, v + self.new**2
        return low, 0.0 if y <= 0 else v / (2 * y) * float(chdtri(2 * y * y / v, above))


@dataclass(frozen=True)
class Rare:
    """A common reward plus rare gains and losses: two gamma intervals, combined by MOVER."""

    common: float
    gains: Events
    losses: Events
    common_error: float = 0.0
    kind: str = "gamma, rare events"

    @property
    def centre(self) -> float:
        """The number."""
        return self.common + self.gains.total - self.losses.total

    @property
    def error(self) -> float:
        """Standard error of the number; the size of one event if none was observed."""
        seen = sqrt(self.gains.squares + self.losses.squares)
        return hypot(seen or max(self.gains.new, self.losses.new), self.common_error)

    @property
    def skewness(self) -> float:
        """Skewness of the mean, as for a Poisson sum of gains and losses of equal size."""
        seen = self.gains.squares + self.losses.squares
        return (self.gains.total - self.losses.total) / sqrt(seen) if seen > 0 else 0.0

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        gain_low, gain_high = self.gains.ends(below, above)
        loss_low, loss_high = self.losses.ends(above, below)
        low, high = (self.common_error * float(ndtri(1 - miss)) for miss in (below, above))
        down = hypot(self.gains.total - gain_low, loss_high - self.losses.total, low)
        up = hypot(gain_high - self.gains.total, self.losses.total - loss_low, high)
        return self.centre - down, self.centre + up


@dataclass(frozen=True)
class AllEqual:
    """All samples are equal: a different one has a frequency of at most ln(1/miss) / n.

    Its size is assumed to be that of the samples. If they are 0 the log shows no size, and 1 is
    assumed: multiply the ends by the largest possible reward.
    """

    centre: float
    rows: int
    kind: str = "rule of three"
    skewness: float = 0.0

    @property
    def error(self) -> float:
        """The change of the mean by one different row of that size."""
        return (abs(self.centre) or 1.0) / self.rows

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        return self.centre + log(below) * self.error, self.centre - log(above) * self.error


Spread = Hall | Rare | AllEqual


def standalone_interval(spread: HasEnds, below: float, above: float) -> tuple[float, float]:
    """Return the ends of a number that is part of no difference: stretched for heavy tails."""
    if isinstance(spread, Hall):
        return spread.ends(below, above, stretch=spread.stretch)
    return spread.ends(below, above)


def standalone_intervals(spread: Spread, misses: FloatArray) -> FloatArray:
    """Return the ends of `standalone_interval` with each of these probabilities, (misses, 2)."""
    if isinstance(spread, Hall):
        return spread.stretched_ends(misses)
    return np.array([spread.ends(miss, miss) for miss in misses.tolist()])


def centred(spread: Spread, robust: float) -> Spread:
    """Return the spread around a robust mean: symmetric, and as wide as all samples make it.

    The outlier that moves the plain mean must not decide on which side the interval is longer.
    """
    if not isinstance(spread, Hall):
        return spread
    return Hall(robust, spread.error, allowance=abs(robust - spread.centre) / 2)


def hall_spread(
    centre: float,
    influence: FloatArray,
    active: BoolArray,
    *,
    pooled: tuple[FloatArray, FloatArray] | None = None,
    group: IntArray | None = None,
    look_beyond: bool = True,
) -> Hall | AllEqual:
    """Return the spread of centre + mean(influence), with a term for unseen heavy tails.

    Where Hill's index α of a tail is below 4, a point at the extrapolated quantile with half an
    expected observation beyond it, u·(k/½)^{1/α}, is added to the variance and skewness with weight ¼,
    but not to the centre. A sample that lacks its rare losses has a mean that is too high and an error
    that is too small, both at once: where the index of a tail is below 2.5, the end on its side is
    stretched by 1 + 0.7·(2.5 − α). In samples of 200 to 5,000 (Pareto 1.5 to 2.5, inverse gamma, Burr,
    log-normal σ 2; as costs and revenues), 90 % intervals hold in 90 to 97 %, without it in 82 to 95 %.

    Parameters
    ----------
    influence
        Centred at 0, one for each independent unit, (U,).
    active
        The units with a weight other than 0 under the policy, (U,).
    pooled
        Residuals of all units and their weights, (n,) each. With fewer than 300 effective rows the
        variance is at least that of weights that have nothing to do with residuals, Σw² · var(e): the
        few rows that decide hardly show how often large residuals come, the log does.
    group
        The unit of each of these residuals, (n,), if units are groups of rows. With fewer than 30
        effective groups the variance is at least what the residuals of all groups, and how alike they
        are within a group, give to such weights. Few groups of any number have Student's t.
    look_beyond
        Whether to add these tail points.
    """
    n, rows = len(influence), float(active.sum())
    telling = rows
    if pooled is not None:
        weights = pooled[1] if group is None else np.bincount(group, pooled[1], n).astype(float)
        rows = min(rows, effective_rows(weights))
        telling = rows if group is None else telling
    light = np.zeros(2), np.full(2, _LIGHT)
    points, indices = _unseen(influence, active) if look_beyond else light
    size = max(float(np.abs(influence).max(initial=0.0)), float(np.abs(points).max()))
    if size <= 1e-12 * abs(centre) or size == 0:
        return AllEqual(centre, max(int(active.sum()), 1))
    scaled, beyond = influence / size, points / size
    second, third = float((scaled**2).sum()), float((scaled**3).sum())
    if pooled is not None and rows < (_FEW_ROWS if group is None else _FEW_GROUPS):
        second = max(second, _expected_squares(pooled[0] / size, pooled[1], group))
    second = second * rows / max(rows - 1, 1) + _TAIL_WEIGHT * float((beyond**2).sum())
    third += _TAIL_WEIGHT * float((beyond**3).sum())
    error, skewness = float(size * np.sqrt(second) / n), float(third / second**1.5)
    if group is not None:
        error *= few_units(n)
    known = _STRETCH * min(1.0, telling / _TELLING)
    right, left = (1 + known * np.maximum(_STRETCHED_BELOW - indices, 0)).tolist()
    return Hall(centre, error, skewness, unseen=bool(points.any()), stretch=(left, right))


def few_units(count: int) -> float:
    """Return Student's t quantile for few units over the normal one, at the usual level."""
    return float(stdtrit(max(count - 1, 1), 0.95) / ndtri(0.95))


def _expected_squares(residuals: FloatArray, weights: FloatArray, group: IntArray | None) -> float:
    """Return the sum of squared influences of weights that have nothing to do with residuals.

    The covariance of two rows of a group is that over all such pairs, or 0 if they are less alike than
    rows of several groups. Groups of equal weights borrow nothing.
    """
    squares = float((weights**2).sum())
    if group is None:
        return squares * float(residuals.var())
    if np.ptp(weights) == 0:
        return 0.0
    sizes, sums = np.bincount(group), np.bincount(group, residuals - residuals.mean())
    n, variance = len(group), float(residuals.var())
    pairs = float((sizes.astype(float) ** 2).sum()) - n
    alike = max((float((sums**2).sum()) - n * variance) / max(pairs, 1.0), 0.0)
    together = float((np.bincount(group, weights) ** 2).sum())
    return ((variance - alike) * squares + alike * together) * (len(sizes) / n) ** 2


def _unseen(influence: FloatArray, active: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return points and indices of the tails to the right and left, (2,) each; 0 if one is light.

    k/n · (t/u)^{−α} units are expected beyond t.
    """
    points, lowest = np.zeros(2), np.full(2, _LIGHT)
    middle = float(np.median(influence[active]))
    distances = influence[active] - middle
    for side, sign in enumerate((1, -1)):
        if fit := hill_tail(sign * distances):
            index, start, k = fit
            lowest[side] = index
            points[side] = sign * max(sign * middle + start * (2 * k) ** (1 / index), 0.0)
    return points, lowest


def hill_tail(distances: FloatArray) -> tuple[float, float, int] | None:
    """Return Hill's index of the k = m^0.6 largest of m positive distances, their threshold, and k.

    None if the tail is light or too few distances are positive.
    """
    positive = distances[distances > 0]
    if len(positive) < 10:
        return None
    k = int(np.clip(len(positive) ** 0.6, 8, len(positive) - 2))
    ordered = np.sort(np.partition(positive, len(positive) - k - 1)[-k - 1 :])[::-1]
    if ordered[0] <= ordered[k]:
        return None
    index = max(1 / float(hill_path(ordered)[-1]), _LEAST_INDEX)
    return (index, float(ordered[k]), k) if index < _LIGHT else None


def log_smoothing(samples: FloatArray, *, miss: float, scale: float) -> float:
    """Return a lower bound of the mean of non-negative samples that holds in any finite sample.

    L (exp(mean ln(1 + x/L) − ln(1/miss)/n) − 1) with L = scale·√n (Sakhi et al. 2024, logarithmic
    smoothing): by Markov's inequality for Π (1 + x_i/L), for any tail, provided that `scale` does
    not depend on these samples.
    """
    n = len(samples)
    limit = scale * sqrt(n)
    if limit <= 0:
        return 0.0
    exponent = float(np.log1p(samples / limit).mean()) + log(miss) / n
    return max(limit * float(np.expm1(exponent)), 0.0)
