"""How many rows decide: bounds on resamples of the scores at hand, whatever their tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, isfinite, log

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.robust.gains import Mover
from tailproof.robust.pooling import PoolingLevels
from tailproof.robust.segments import part_mean
from tailproof.robust.spreads import standalone_interval

_DRAWS = 120  # resamples of each size
_LARGEST = 20_000  # rows of the largest resample; beyond it the curve is extended
_SLOWEST, _FASTEST = -0.5, -0.15  # limits of its slope: normal errors, and index 1.18


@dataclass(frozen=True)
class Shortfall:
    """By how much a lower bound falls short of the gain, against the number of rows.

    At each size it is the quantile `power` over resamples: a gain as large is decided that often.
    Between and beyond the sizes log(shortfall) is linear in log(rows); for errors of finite variance
    the slope is −½, for heavier tails it is flatter.
    """

    rows: tuple[int, ...]
    short: tuple[float, ...]
    level: float
    power: float

    def detectable(self, rows: float) -> float:
        """Return the gain that so many rows decide."""
        return exp(float(np.interp(log(rows), *self._line(log(rows)))))

    def needed(self, gain: float) -> float:
        """Return the rows that decide a gain of this size; infinite if it is not above 0."""
        if not gain > 0:
            return inf
        x, y = self._line(log(self.rows[-1]))
        slope = self._slope
        if log(gain) < y[-1]:
            return exp(x[-1] + (log(gain) - y[-1]) / slope)
        return exp(float(np.interp(-log(gain), -y, x)))

    @property
    def _slope(self) -> float:
        x, y = np.log(self.rows), np.log(self.short)
        return float(np.clip(np.polyfit(x, y, 1)[0], _SLOWEST, _FASTEST))

    def _line(self, until: float) -> tuple[FloatArray, FloatArray]:
        """Return log(rows) and log(shortfall), not increasing, extended to `until` on either side."""
        x, y = np.log(self.rows), np.minimum.accumulate(np.log(self.short))
        ends = min(until, x[0]) - 1.0, max(until, x[-1]) + 1.0
        left, right = (
            y[k] + self._slope * (end - x[k]) for k, end in zip((0, -1), ends, strict=True)
        )
        return np.concatenate([[ends[0]], x, [ends[1]]]), np.concatenate([[left], y, [right]])


def shortfall(
    draw: Callable[[int, np.random.Generator], tuple[float, float]],
    rows: int,
    *,
    level: float,
    power: float,
    seed: int = 0,
) -> Shortfall | None:
    """Return the shortfall of bounds at sizes up to `rows` (at most 20,000); None if one has none.

    `draw(n, rng)` returns the true gain and a lower bound of it from a resample of n rows.
    """
    largest = min(rows, _LARGEST)
    sizes = [size for size in (largest // 8, largest // 4, largest // 2, largest) if size >= 20]
    rng = np.random.default_rng([seed, rows])
    short = []
    for size in sizes:
        found = [draw(size, rng) for _ in range(_DRAWS)]
        short.append(float(np.quantile([truth - bound for truth, bound in found], power)))
    if len(sizes) < 2 or not all(isfinite(each) and each > 0 for each in short):
        return None
    return Shortfall(tuple(sizes), tuple(short), level, power)


def gain_bounds(
    first: FloatArray, second: FloatArray, *, level: float
) -> Callable[[int, np.random.Generator], tuple[float, float]]:
    """Return draws of a gain from scores of the same units, (U,) each: for `shortfall`."""
    truth = float(first.mean() - second.mean())

    def draw(size: int, rng: np.random.Generator) -> tuple[float, float]:
        units = rng.integers(len(first), size=size)
        return truth, _bound(first[units], second[units], level, paired=True)

    return draw


def arm_bounds(
    rewards: FloatArray, *, level: float, sizes_within: float | None = None
) -> Callable[[int, np.random.Generator], tuple[float, float]]:
    """Return draws of two arms without a difference, with so many rows each: for `shortfall`.

    With `sizes_within` the bounds assume that sizes of extremes differ by at most this share.
    """

    def draw(size: int, rng: np.random.Generator) -> tuple[float, float]:
        arms = rewards[rng.integers(len(rewards), size=(2, size))]
        if sizes_within is None:
            return 0.0, _bound(arms[0], arms[1], level, paired=False)
        levels = PoolingLevels.of(arms.ravel())
        first, second = (levels.weighted(2.0 * np.repeat(arm, size)) for arm in ((1, 0), (0, 1)))
        spread = (first - second).sizes_within(sizes_within)
        return 0.0, standalone_interval(spread, 1 - level, 1 - level)[0]

    return draw


def _bound(first: FloatArray, second: FloatArray, level: float, *, paired: bool) -> float:
    even, every = np.ones(len(first)), np.ones(len(first), dtype=bool)
    one, other = part_mean(first, even, every), part_mean(second, even, every)
    correlation = one.correlation(other) if paired else 0.0
    pair = Mover(one.spread, other.spread, correlation)
    return pair.centre - pair.reach(1 - level, 0)(1.0)
