"""The difference and the ratio of two values from the same data, with their own intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, isfinite, nan, pi, sqrt
from typing import Any, Literal

import numpy as np
import scipy  # its parts are imported on first use
from scipy.special import ndtr, ndtri

from tailproof.arrays import FloatArray
from tailproof.errors import Caution, LevelError
from tailproof.robust.intervals import (
    Bound,
    Interval,
    fold_t_interval,
    order_statistic_interval,
    order_statistic_lower_bound,
    tail_aware_lower_bound,
)
from tailproof.robust.parts import GainParts, Occurrences, gain_parts
from tailproof.robust.pooling import PooledPath
from tailproof.robust.spreads import (
    AllEqual,
    Hall,
    Spread,
    standalone_interval,
    standalone_intervals,
)
from tailproof.robust.tails import check_level, mad

_QUANTILES = np.linspace(0, 4.5, 60)  # normal quantiles of the levels at which ends are compared
_ROUNDING = 1e-12  # of the size of two values, below which they are equal
_NOTE = "the bounds of both values, combined with the correlation of their scores"


@dataclass(frozen=True)
class Mover:
    """The difference of two numbers from their own spreads (Zou and Donner 2008, MOVER).

    With g the difference, D the distance from the first number to its lower end, U that from the second
    to its upper end, and ρ the correlation of their scores, the lower end is g − √(D² + U² − 2ρDU). A
    single interval of the paired differences would take its skew from outliers of the logged policy,
    which enter with the opposite sign. Where both numbers depend on the same few rows D and U cancel,
    more so at higher levels: an end is therefore never nearer than the normal one of the paired
    differences, nor than that of a lower level. Ends that are stretched for heavy tails by a factor s
    would not cancel: as parts of a difference they are stretched by 1 + (s − 1)·√(1 − ρ²).
    """

    ahead: Spread
    behind: Spread
    correlation: float
    kind: str = "MOVER"

    @property
    def centre(self) -> float:
        """The difference."""
        return self.ahead.centre - self.behind.centre

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return float(_combined(self.ahead.error, self.behind.error, self.correlation))

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        return self.centre - _distance(self, below, 0), self.centre + _distance(self, above, 1)

    def reach(self, miss: float, side: int) -> Callable[[float], float]:
        """Return the distance from θ₁ − r θ₂ to its lower (side 0) or upper end (1), by factor r."""
        if isinstance(self.behind, AllEqual) or not self.behind.error:
            end = standalone_interval(self.ahead, miss, miss)[side]
            known = max(end - self.ahead.centre if side else self.ahead.centre - end, 0.0)
            return lambda _: known
        quantile = max(float(ndtri(1 - miss)), 0.0)
        within = quantile <= _QUANTILES[-1]
        levels = _QUANTILES if within else np.append(_QUANTILES, quantile)
        each = _distances(self, ndtr(-levels), side)

        def distance(factor: float) -> float:
            largest = np.maximum.accumulate(each(factor))
            found = (
                scipy.interpolate.PchipInterpolator(levels, largest)(quantile)
                if within
                else largest[-1]
            )
            errors = _combined(self.ahead.error, factor * self.behind.error, self.correlation)
            return max(float(found), quantile * float(errors))

        return distance


@lru_cache(maxsize=1000)  # a verdict, its interval and its bound ask for the same ends
def _distance(pair: Mover, miss: float, side: int) -> float:
    return pair.reach(miss, side)(1.0)


@dataclass(frozen=True)
class Quotient:
    """The ratio of a number to a positive one, from their own spreads (Donner and Zou 2012, MOVER-R).

    The ratio exceeds L where the difference θ₁ − L θ₂ exceeds 0: the lower end is the L at which the
    lower end of that difference is 0, √(D₁² + L² E₂² − 2 ρ L D₁ E₂) below it, with D₁ and E₂ the
    distances from the numbers to their own ends. With normal ends this is Fieller's interval. An end
    is infinite where the second number may be 0. With the sign −1 the second number is negated first.
    A `lift` has the ends of `Mover`, so that it says the same as the difference about being above 0.
    """

    ahead: Spread
    behind: Spread
    correlation: float
    sign: int = 1
    lift: bool = False  # whether it excludes 1 where the interval of the difference excludes 0
    kind: str = "MOVER ratio"

    @property
    def centre(self) -> float:
        """The ratio."""
        return self.sign * self.ahead.centre / self.behind.centre

    @property
    def error(self) -> float:
        """Standard error of the ratio, by the delta method."""
        other = self.sign * self.centre * self.behind.error
        reach = float(_combined(self.ahead.error, other, self.correlation))
        return reach / abs(self.behind.centre)

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the interval ends with these error probabilities below and above."""
        if not self.sign * self.behind.centre > 0:
            return -inf, inf
        return self._end(-1, below), self._end(+1, above)

    def _end(self, side: int, miss: float) -> float:
        """Return the ratio R at which the lower (side −1) or upper end of θ₁ − R θ₂ is 0."""
        top, bottom = self.ahead.centre, self.sign * self.behind.centre
        pair = Mover(self.ahead, self.behind, self.correlation)
        end = int(side > 0)
        known = isinstance(self.behind, AllEqual)
        reach: Callable[[float], Any] = (
            pair.reach(miss, end) if self.lift or known else _distances(pair, np.array([miss]), end)
        )

        def beyond(ratio: float) -> float:
            return side * (top - ratio * bottom) + float(np.max(reach(self.sign * ratio)))

        start, one = self.centre, float(self.sign)
        if self.lift and side * (one - start) > 0:  # there the difference is 0
            if beyond(one) <= 0:
                return float(scipy.optimize.brentq(beyond, start, one, rtol=1e-10))
            start = one
        return _root(beyond, start, side * (self.error or abs(self.centre) or 1.0))


def _distances(pair: Mover, misses: FloatArray, side: int) -> Callable[[float], FloatArray]:
    """Return the distances at these error probabilities to an end of θ₁ − r θ₂, by r, (misses,)."""

    def away(spread: Spread) -> FloatArray:
        own = _less_stretched(spread, pair.correlation)
        ends = standalone_intervals(own, misses)
        return np.asarray(np.maximum((ends - own.centre) * (-1, 1), 0.0))

    own, other = away(pair.ahead), away(pair.behind)

    def distances(factor: float) -> FloatArray:
        # the lower end of a difference is at the upper end of what is subtracted
        behind = factor * other[:, side if factor < 0 else 1 - side]
        return np.asarray(_combined(own[:, side], behind, pair.correlation))

    return distances


def _less_stretched(spread: Spread, correlation: float) -> Spread:
    if not isinstance(spread, Hall):
        return spread
    independent = sqrt(max(1 - correlation**2, 0.0))
    low, high = (1 + (by - 1) * independent for by in spread.stretch)
    return replace(spread, stretch=(low, high))


def _combined(own: Any, other: Any, correlation: float) -> Any:
    return np.sqrt(np.maximum(own**2 + other**2 - 2 * correlation * own * other, 0.0))


def _root(beyond: Callable[[float], float], start: float, step: float) -> float:
    """Return where a function that is not negative at `start` falls to 0, or ±infinity."""
    inside = start
    for _ in range(60):
        outside = start + step
        if beyond(outside) <= 0:
            return float(scipy.optimize.brentq(beyond, inside, outside, rtol=1e-10))
        inside, step = outside, 2 * step
    return inf if step > 0 else -inf


@dataclass(frozen=True, kw_only=True)
class UncertainValue:
    """A value with an interval and a lower bound at any level, or the reason why it has none."""

    value: float
    spread: Spread | Mover | Quotient
    limits: str = ""  # what determines the width of the interval, in words
    declined: Caution | None = None  # why no interval is given
    possible: tuple[float, float] = (-inf, inf)  # smallest and largest value that is possible

    @property
    def standard_error(self) -> float:
        """Standard error of the value."""
        return self.spread.error

    def interval(self, level: float = 0.9) -> Interval:
        """Return the interval with equal error probability on both sides; it contains the value."""
        low, high = np.clip(self._ends(level, (1 - level) / 2, "interval"), *self.possible).tolist()
        kind, note = self.spread.kind, self._note("lower", "upper")
        found = Interval(low=low, high=high, level=level, requested=level, kind=kind, note=note)
        return widened_to(found, self.value)

    def interval_if_any(self, level: float = 0.9) -> Interval | None:
        """Return the interval; None if there is none at this level."""
        try:
            return self.interval(level)
        except LevelError:
            return None

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a lower bound of the true value at this confidence level, never above the estimate."""
        low, _ = self._ends(level, 1 - level, "lower bound")
        found = Bound(
            value=max(low, self.possible[0]),
            level=level,
            requested=level,
            kind=self.spread.kind,
            note=self._note("lower"),
        )
        return below(found, self.value)

    def _ends(self, level: float, miss: float, what: str) -> tuple[float, float]:
        check_level(level)
        if self.declined is not None:
            reason = f"exists for this log: {str(self.declined).rstrip('.')}"
            raise LevelError(f"No valid {100 * level:g} % {what} {reason}.")
        low, high = standalone_interval(self.spread, miss, miss)
        return float(low), float(high)

    def _note(self, *sides: str) -> str:
        """Return what limits the width, and on which of these sides a heavy tail stretches it."""
        stretch = self.spread.stretch if isinstance(self.spread, Hall) else (1.0, 1.0)
        heavy = [
            s for s, by in zip(("lower", "upper"), stretch, strict=True) if by > 1 and s in sides
        ]
        more = f"; widened for the heavy {' and '.join(heavy)} tail"
        return self.limits + more * bool(heavy)


@dataclass(frozen=True, kw_only=True)
class ValueGain:
    """The difference of one value from another."""

    value: float  # the difference of the two estimates
    reference: float  # the value that it is compared with
    declined: Caution | None = None  # why no interval is given

    @property
    def relative(self) -> float:
        """The gain over |reference|; NaN where that is 0."""
        return self.value / abs(self.reference) if self.reference else nan

    def __str__(self) -> str:
        share = f" ({100 * self.relative:+.2g} %)" if isfinite(self.relative) else ""
        try:
            found = self.interval()
        except LevelError:
            return f"{self.value:+.4g}{share}, without an interval"
        ends = f"{found.low:+.4g} to {found.high:+.4g}"
        return f"{self.value:+.4g}{share}, {100 * found.level:.4g} % interval {ends}"

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the gain."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PooledGain(UncertainValue, ValueGain):
    """A gain whose interval assumes that sizes of extremes are alike, up to ±`within`."""

    spread: Hall
    within: float


@dataclass(frozen=True, kw_only=True)
class PairedGain(UncertainValue, ValueGain):
    """A gain paired by rows or episodes, with the spread of the difference.

    The spread is that of the estimates before shrinkage towards a more stable one, and assumes nothing
    about the sizes of extremes.
    """

    spread: Mover
    limits: str = field(default=_NOTE, repr=False)
    #: How often × how large; None where no reward is common to many rows.
    parts: GainParts | None = field(default=None, repr=False)
    #: Gains by pooled tails; None where tails are not one-sided.
    pooling: PooledPath | None = field(default=None, repr=False)

    def sizes_within(self, change: float) -> PooledGain:
        """Return the gain if sizes of extremes differ by at most ±change between the policies.

        Its interval is shorter where that holds, and wrong where it does not: 0.2 says that what the
        policy brings beyond the pooling threshold is in the mean at most 20 % larger or smaller than in
        the log. There is none where tails are not pooled.
        """
        if not (isfinite(change) and change >= 0):
            raise LevelError(f"sizes_within must be a share of at least 0. Got {change!r} instead.")
        if self.pooling is None:
            raise LevelError(
                "Sizes of extremes are not pooled here: that needs rewards with one heavy tail, the "
                "method 'auto', and the logged policy or another candidate as the baseline."
            )
        return PooledGain(
            value=self.value,
            reference=self.reference,
            spread=self.pooling.sizes_within(change),
            limits=f"if sizes of extremes differ by at most {100 * change:g} % between the policies",
            declined=self.declined,
            within=change,
        )

    def relative_interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the gain over |reference|, the relative lift.

        It comes from the ratio of the two values, so it includes the error of the reference, and it
        excludes 0 if and only if `interval` does. An end is infinite where the reference may be 0.
        """
        if not self.reference:
            raise LevelError("There is no relative gain over a reference that is 0.")
        sign = 1 if self.reference > 0 else -1
        ratio = Quotient(
            self.spread.ahead, self.spread.behind, self.spread.correlation, sign, lift=True
        )
        asked = UncertainValue(
            value=self.relative + sign, spread=ratio, limits=_NOTE, declined=self.declined
        )
        found = asked.interval(level)
        return replace(found, low=found.low - sign, high=found.high - sign)


@dataclass(frozen=True, kw_only=True)
class Scored(UncertainValue):
    """A value and its scores: the influence of each independent unit on it.

    Values of the same units have differences and ratios: ``first - second``, ``first / second``.
    """

    spread: Spread  # of the value before it was shrunk towards a more stable one
    influence: FloatArray | None = field(repr=False)  # (U,) centred at 0; None for a known number
    occurrences: Occurrences | None = field(
        default=None, repr=False
    )  # of rewards that are not usual

    @classmethod
    def known(cls, value: float) -> Scored:
        """Return a number without an error."""
        return Scored(value=value, spread=Hall(value), influence=None)

    def __sub__(self, other: Scored) -> PairedGain:
        value, parts = difference(self.value, other.value), None
        if self.occurrences is not None and other.occurrences is not None:
            parts = gain_parts(self.occurrences, other.occurrences, value)
        return PairedGain(
            value=value,
            reference=other.value,
            spread=Mover(self.spread, other.spread, self.correlation(other)),
            declined=self.declined or other.declined,
            parts=parts,
        )

    def __truediv__(self, other: Scored) -> UncertainValue:
        ratio = Quotient(self.spread, other.spread, self.correlation(other))
        return UncertainValue(
            value=ratio.centre,
            spread=ratio,
            limits=_NOTE,
            declined=self.declined or other.declined,
        )

    def correlation(self, other: Scored) -> float:
        """Return the correlation of the two values; 0 if one of them is a known number."""
        first, second = self.influence, other.influence
        if first is None or second is None:
            return 0.0
        sizes = float((first**2).sum()) ** 0.5 * float((second**2).sum()) ** 0.5
        return float((first * second).sum()) / sizes if sizes > 0 else 0.0


IntervalKind = Literal["order", "t"]
FoldBoundKind = Literal["order", "t", "tail-aware"]


@dataclass(frozen=True, kw_only=True)
class FoldValues:
    """A value that combines those of K folds; `declined` is why these give no interval, or None."""

    value: float
    all_folds: FloatArray = field(repr=False)  # (K,), NaN for a fold that was left out
    declined: Caution | None = None

    def known(self, value: float) -> FoldValues:
        """Return a number without an error, the same on all of these folds."""
        return FoldValues(value=value, all_folds=np.full(len(self.all_folds), value))

    @property
    def fold_values(self) -> FloatArray:
        """The values of the folds that were not left out."""
        return self.all_folds[np.isfinite(self.all_folds)]

    @property
    def standard_error(self) -> float:
        """Standard error from the spread of the folds; NaN where they are not independent."""
        return nan if self.declined else fold_error(self.fold_values)

    def interval(self, level: float = 0.9, *, kind: IntervalKind = "order") -> Interval:
        """Return an interval of the folds, widened to contain the value."""
        values = self.independent_values(level, "interval")
        make = fold_t_interval if kind == "t" else order_statistic_interval
        return widened_to(make(values, level=level), self.value)

    def lower_bound(
        self, level: float = 0.9, *, kind: FoldBoundKind = "order", tail_index: float | None = None
    ) -> Bound:
        """Return a lower bound of the folds, never above the value."""
        values = self.independent_values(level, "lower bound")
        if kind == "tail-aware":
            found = tail_aware_lower_bound(values, level=level, tail_index=tail_index)
        elif kind == "t":
            if not 0.5 < level < 1:
                raise LevelError(
                    f"level must lie strictly between 0.5 and 1. Got {level!r} instead."
                )
            both = fold_t_interval(values, level=2 * level - 1)
            found = Bound(
                value=both.low, level=level, requested=level, kind="fold t", note=both.note
            )
        else:
            found = order_statistic_lower_bound(values, level=level)
        return below(found, self.value)

    def independent_values(self, level: float, what: str) -> FloatArray:
        """Return the values of the folds; raise if no interval of them would hold."""
        if self.declined:
            raise LevelError(f"There is no {100 * level:g} % {what}. {self.declined}")
        return self.fold_values

    def __sub__(self, other: FoldValues) -> FoldGain:
        return FoldGain(
            value=difference(self.value, other.value),
            reference=other.value,
            all_folds=self.all_folds - other.all_folds,
            declined=self.declined,
        )


@dataclass(frozen=True, kw_only=True)
class FoldGain(FoldValues, ValueGain):
    """A gain paired by folds.

    Its value is the difference of the two estimates, not the median of the folds' differences.
    """

    @property
    def won(self) -> int:
        """Number of folds in which the difference is positive."""
        return int(np.count_nonzero(self.fold_values > 0))

    def independent_values(self, level: float, what: str) -> FloatArray:  # noqa: ARG002
        """Return the differences of the folds; raise if no interval of them would hold."""
        if self.declined:
            raise LevelError(str(self.declined))
        return self.fold_values


def difference(value: float, reference: float) -> float:
    """Return value − reference; 0 if it is only a rounding error of the two.

    >>> difference(0.1 + 0.2, 0.3), difference(1.5, 1.0)
    (0.0, 0.5)
    """
    found = value - reference
    return 0.0 if abs(found) <= _ROUNDING * max(abs(value), abs(reference)) else found


def fold_error(values: FloatArray) -> float:
    """Return the standard error of the median of K folds, from their MAD; NaN for fewer than two.

    π/2 is the variance of a Gaussian sample's median over that of its mean.
    """
    return sqrt(pi / 2 / len(values)) * mad(values) if len(values) > 1 else nan


def possible_values(rewards: FloatArray) -> tuple[float, float]:
    """Return the range of values of a policy: one side of 0 if all rewards are on that side."""
    least, most = float(rewards.min()), float(rewards.max())
    return (0.0 if 0 <= least < most else -inf), (0.0 if least < most <= 0 else inf)


def widened_to(interval: Interval, value: float) -> Interval:
    """Return the interval, widened to contain the value, which may lie outside the folds' range."""
    return replace(interval, low=min(interval.low, value), high=max(interval.high, value))


def below(bound: Bound, value: float) -> Bound:
    """Return the bound, lowered to the value if it lies above."""
    return replace(bound, value=min(bound.value, value))
