"""The difference between two values from the same rows: bounds combined with their correlation."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from tailproof.algorithms.default.levels import bound_of, check_level, interval_of, require_offered
from tailproof.algorithms.default.ratio import Quotient
from tailproof.algorithms.default.spreads import Spread
from tailproof.errors import LevelError
from tailproof.statistics.intervals import Bound, Interval

_NOTE = "both values' own bounds, combined with the correlation of their scores"


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
    """How far one value is ahead of another.

    Attributes
    ----------
    value
        The difference of the two estimates.
    reference
        What it is compared with.
    spread
        Of the difference before either estimate was moved towards a steadier one.
    declined
        Why no interval is given, or None.
    """

    value: float
    reference: float
    spread: Spread
    declined: str | None = None

    @property
    def relative(self) -> float:
        """The gain over |reference|; NaN where that is 0."""
        return relative_gain(self.value, self.reference)

    @property
    def standard_error(self) -> float:
        """Standard error of the difference."""
        return self.spread.error

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference, which always holds it."""
        return interval_of(self.spread, self.value, level, declined=self.declined, note=_NOTE)

    def relative_interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the gain over |reference|, the relative lift.

        From the ratio of the two values, each with its own spread and with the correlation of their
        scores, so that the error of the reference counts too. An end is infinite where the reference
        may be 0.
        """
        miss = (1 - check_level(level)) / 2
        require_offered(self.declined, level, "interval")
        if not isinstance(self.spread, Mover) or not self.reference:
            raise LevelError("There is no relative gain over a reference that is 0 or unknown.")
        paired = self.spread
        sign = 1 if self.reference > 0 else -1
        ratio = Quotient.of(paired.ahead, paired.behind, paired.correlation, sign=sign)
        low, high = (end - sign for end in ratio.ends(miss, miss))
        return Interval(
            low=min(low, self.relative),
            high=max(high, self.relative),
            level=level,
            requested=level,
            kind=ratio.kind,
            note=_NOTE,
        )

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a value that the difference exceeds."""
        return bound_of(self.spread, self.value, level, declined=self.declined, note=_NOTE)


def relative_gain(value: float, reference: float) -> float:
    """Return a gain over |reference|; NaN where that is 0."""
    return value / abs(reference) if reference else float("nan")


@dataclass(frozen=True)
class Mover:
    """The difference of two numbers from their own spreads (Zou and Donner 2008, MOVER).

    With g the difference, D how far the first one's lower end lies below it, U how far the second's
    upper end lies above it, and ρ the correlation of their scores, the lower end is
    g − √(D² + U² − 2ρDU). A single interval of the paired differences would take its skew from the
    logged outliers, which point the wrong way.
    """

    ahead: Spread
    behind: Spread
    correlation: float
    kind: str = "MOVER"
    skewness: float = 0.0

    @property
    def centre(self) -> float:
        """The difference."""
        return self.ahead.centre - self.behind.centre

    @property
    def error(self) -> float:
        """Its standard error."""
        return self._reach(self.ahead.error, self.behind.error)

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends that miss with these probabilities."""
        first, second = self.ahead.ends(below, above), self.behind.ends(above, below)
        down = self._reach(self.ahead.centre - first[0], second[1] - self.behind.centre)
        up = self._reach(first[1] - self.ahead.centre, self.behind.centre - second[0])
        return self.centre - down, self.centre + up

    def _reach(self, own: float, other: float) -> float:
        own, other = max(own, 0.0), max(other, 0.0)
        return sqrt(max(own**2 + other**2 - 2 * self.correlation * own * other, 0.0))
