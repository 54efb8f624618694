"""The ratio of two values from the same rows: bounds combined with their correlation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

from scipy.optimize import brentq

from tailproof.algorithms.default.spreads import Spread


@dataclass(frozen=True)
class Negated:
    """A number with its sign changed."""

    spread: Spread

    @property
    def centre(self) -> float:
        """The number."""
        return -self.spread.centre

    @property
    def error(self) -> float:
        """Its standard error."""
        return self.spread.error

    @property
    def skewness(self) -> float:
        """Of the number's law."""
        return -self.spread.skewness

    @property
    def kind(self) -> str:
        """The name of the interval."""
        return self.spread.kind

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends that miss with these probabilities."""
        low, high = self.spread.ends(above, below)
        return -high, -low


@dataclass(frozen=True)
class Quotient:
    """The ratio of a number to a positive one, from their own spreads (Donner and Zou 2012, MOVER-R).

    The ratio exceeds L where the difference θ₁ − L θ₂ exceeds 0: the lower end is the L at which the
    lower end of that difference is 0, √(D₁² + L² E₂² − 2 ρ L D₁ E₂) below it, with D₁ and E₂ the
    distances from the numbers to their own ends. With normal ends this is Fieller's interval. An end
    is infinite where the second number may be 0.
    """

    above: Spread
    below: Spread
    correlation: float
    kind: str = "MOVER ratio"
    skewness: float = 0.0

    @classmethod
    def of(cls, above: Spread, below: Spread, correlation: float, *, sign: int) -> Quotient:
        """Return the ratio to the second number, or with the sign −1 to its negative."""
        if sign < 0:
            return cls(above, Negated(below), -correlation)
        return cls(above, below, correlation)

    @property
    def centre(self) -> float:
        """The ratio."""
        return self.above.centre / self.below.centre

    @property
    def error(self) -> float:
        """Its standard error, by the delta method."""
        own, other = self.above.error, self.centre * self.below.error
        squares = own**2 + other**2 - 2 * self.correlation * own * other
        return sqrt(max(squares, 0.0)) / abs(self.below.centre)

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends that miss with these probabilities."""
        if not self.below.centre > 0:
            return -inf, inf
        return self._end(-1, below), self._end(+1, above)

    def _end(self, side: int, miss: float) -> float:
        """Return the ratio R at which the end of θ₁ − R θ₂ on the other side is 0."""
        top, bottom = self.above.centre, self.below.centre
        own = max(side * (self.above.ends(miss, miss)[side > 0] - top), 0.0)
        least, largest = self.below.ends(miss, miss)

        def beyond(ratio: float) -> float:
            # a larger second number makes a positive ratio smaller
            away = largest - bottom if side * ratio < 0 else bottom - least
            other = ratio * max(away, 0.0)
            squares = own**2 + other**2 - 2 * self.correlation * own * other
            return side * (top - ratio * bottom) + sqrt(max(squares, 0.0))

        return _root(beyond, self.centre, side * (self.error or abs(self.centre) or 1.0))


def _root(beyond: Callable[[float], float], start: float, step: float) -> float:
    """Return where a function that is not negative at the start becomes so, or infinity."""
    inside = start
    for _ in range(60):
        outside = start + step
        if beyond(outside) <= 0:
            return float(brentq(beyond, inside, outside, rtol=1e-10))
        inside, step = outside, 2 * step
    return inf if step > 0 else -inf
