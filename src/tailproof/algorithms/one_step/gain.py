"""The difference between two values from the same rows: bounds combined with their correlation."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt

from tailproof.algorithms.one_step.levels import check_level
from tailproof.algorithms.one_step.spreads import Spread
from tailproof.intervals import Bound, Interval

_NOTE = "both values' own bounds, combined with the correlation of their scores (MOVER)"


@dataclass(frozen=True)
class Exactly:
    """A number that is known, such as a target to beat."""

    centre: float
    error: float = 0.0
    skewness: float = 0.0
    kind: str = "known"

    def ends(self, below: float, above: float) -> tuple[float, float]:  # noqa: ARG002
        """Return the number twice."""
        return self.centre, self.centre


@dataclass(frozen=True, kw_only=True)
class PairedGain:
    """How far one value is ahead of another (Zou and Donner 2008, MOVER).

    With g the difference, D how far the first value's lower bound lies below it, U how far the
    second's upper bound lies above it, and ρ the correlation of their scores, the lower bound is
    g − √(D² + U² − 2ρDU). A single interval of the paired differences would take its skew from the
    logged outliers, which point the wrong way.

    Attributes
    ----------
    value
        The difference of the two estimates.
    reference
        What it is compared with.
    ahead, behind
        The spreads of the two values.
    correlation
        ρ of their scores.
    """

    value: float
    reference: float
    ahead: Spread
    behind: Spread
    correlation: float

    @property
    def relative(self) -> float:
        """The gain over |reference|; NaN where that is 0."""
        return self.value / abs(self.reference) if self.reference else float("nan")

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference."""
        miss = (1 - check_level(level)) / 2
        return Interval(
            low=self._end(miss, lower=True),
            high=self._end(miss, lower=False),
            level=level,
            requested=level,
            kind="MOVER",
            note=_NOTE,
        )

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a value that the difference exceeds."""
        low = self._end(1 - check_level(level), lower=True)
        return Bound(value=low, level=level, requested=level, kind="MOVER", note=_NOTE)

    def _end(self, miss: float, *, lower: bool) -> float:
        first, second = self.ahead.ends(miss, miss), self.behind.ends(miss, miss)
        own = max(abs(first[0 if lower else 1] - self.ahead.centre), 0.0)
        other = max(abs(second[1 if lower else 0] - self.behind.centre), 0.0)
        if not (isfinite(own) and isfinite(other)):
            return -float("inf") if lower else float("inf")
        square = own**2 + other**2 - 2 * self.correlation * own * other
        centre = self.ahead.centre - self.behind.centre
        reach = sqrt(max(square, 0.0))
        return min(centre - reach, self.value) if lower else max(centre + reach, self.value)
