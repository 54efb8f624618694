"""A gain split into how often something happens and how large it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.robust.intervals import Interval
from tailproof.robust.spreads import Hall, hall_spread, standalone_interval

_ROUNDING = 1e-9  # of the largest influence, below which a unit has none
_NOTE = "by the influence of each observation on the logarithm of the ratio"


@dataclass(frozen=True, kw_only=True)
class Occurrences:
    """How often a policy's reward differs from the usual one, and by how much in the mean.

    The value is usual + rate × size, with size = excess / rate.
    """

    usual: float  # the value if nothing ever happened
    rate: float  # events per row
    excess: float  # the mean of r − usual
    rate_influence: FloatArray = field(repr=False)  # (U,) of independent units
    excess_influence: FloatArray = field(repr=False)  # (U,)
    #: Events per row by which the gain is split, if that is not `rate`: shrunk as the value is.
    rate_point: float | None = None

    @property
    def size(self) -> float:
        """The mean size of an event."""
        return self.excess / self.rate

    @property
    def size_influence(self) -> FloatArray:
        """The influence of each unit on the mean size, (U,)."""
        return (self.excess_influence - self.size * self.rate_influence) / self.rate


@dataclass(frozen=True, kw_only=True)
class Part:
    """Events per row, or size per event: under a policy and in the log, and what its change brings."""

    name: str  # "how often" or "how large"
    policy: float
    logged: float
    gain: float  # the part of the gain, in units of the reward
    #: Of that part, or what a relative change of 1 would bring: the interval is then the relative one.
    spread: Hall | float = field(repr=False)
    log_ratio: Hall = field(repr=False)  # of log(policy / logged)

    @property
    def relative(self) -> float:
        """The change relative to the log, policy / logged − 1."""
        return self.policy / self.logged - 1

    def relative_interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of policy / logged − 1, which contains the estimate."""
        with np.errstate(over="ignore"):
            low, high = np.expm1(
                standalone_interval(self.log_ratio, *[(1 - level) / 2] * 2)
            ).tolist()
        return _interval(low, high, level, self.relative)

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of this part of the gain, which contains the estimate."""
        if isinstance(self.spread, Hall):
            ends = standalone_interval(self.spread, *[(1 - level) / 2] * 2)
        else:
            ratio = self.relative_interval(level)
            ends = self.spread * ratio.low, self.spread * ratio.high
        return _interval(min(ends), max(ends), level, self.gain)

    def to_dict(self, level: float = 0.9) -> dict[str, object]:
        """Return plain numbers for JSON."""
        found, ratio = self.interval(level), self.relative_interval(level)
        return {
            "policy": self.policy,
            "logged": self.logged,
            "relative": self.relative,
            "relative_interval": [ratio.low, ratio.high],
            "gain": self.gain,
            "interval": [found.low, found.high],
        }


def _interval(low: float, high: float, level: float, value: float) -> Interval:
    return Interval(
        low=min(low, value),
        high=max(high, value),
        level=level,
        requested=level,
        kind="Hall",
        note=_NOTE,
    )


@dataclass(frozen=True, kw_only=True)
class GainParts:
    """gain = usual + often + size: more events at the logged size, and larger events.

    `usual` is the change of the value of rows in which nothing happens, such as the cost of an offer;
    0 where all actions have the same.
    """

    usual: float
    often: Part
    size: Part

    @property
    def tipping_point(self) -> float:
        """The relative change of sizes at which the sign of the gain would change.

        −0.31: nothing is gained if events under the policy are 31 % smaller than those of the log.
        """
        return self._tipping(self.often.relative)

    def tipping_interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the tipping point, from that of how often."""
        found = self.often.relative_interval(level)
        low, high = self._tipping(found.high), self._tipping(found.low)
        return replace(found, low=min(low, high), high=max(low, high))

    def _tipping(self, often: float) -> float:
        reach = self.often.logged * self.size.logged
        return (1 - self.usual / reach) / (1 + often) - 1

    def to_dict(self, level: float = 0.9) -> dict[str, object]:
        """Return plain numbers for JSON."""
        tipping = self.tipping_interval(level)
        return {
            "usual": self.usual,
            "often": self.often.to_dict(level),
            "size": self.size.to_dict(level),
            "tipping_point": self.tipping_point,
            "tipping_interval": [tipping.low, tipping.high],
        }


def gain_parts(first: Occurrences, second: Occurrences, gain: float) -> GainParts | None:
    """Return the parts of a gain of one policy over another; None if one has no events.

    With P events of mean size S, P₁S₁ − P₂S₂ = (P₁ − P₂)·S₂ + P₁·(S₁ − S₂). The first part is what
    more events of the second's size would bring; the second is the rest of `gain`, so that the parts
    add up to the estimate, pooled tails included. Intervals are those without pooling.
    """
    if not (first.rate > 0 and second.rate > 0 and first.size * second.size > 0):
        return None
    usual = first.usual - second.usual
    rate = first.rate if first.rate_point is None else first.rate_point
    other = second.rate if second.rate_point is None else second.rate_point
    often = (rate - other) * second.size
    size = second.size * other / rate + (gain - usual) / rate
    if not (rate > 0 and other > 0 and size / second.size > 0):
        return None
    change = (first.rate - second.rate) * second.size_influence
    more = second.size * (first.rate_influence - second.rate_influence) + change
    return GainParts(
        usual=usual,
        often=Part(
            name="how often",
            policy=rate,
            logged=other,
            gain=often,
            spread=_spread((first.rate - second.rate) * second.size, more),
            log_ratio=_spread(
                log(first.rate / second.rate),
                first.rate_influence / first.rate - second.rate_influence / second.rate,
            ),
        ),
        size=Part(
            name="how large",
            policy=size,
            logged=second.size,
            gain=gain - usual - often,
            spread=first.rate * second.size,
            log_ratio=_spread(
                log(first.size / second.size),
                first.size_influence / first.size - second.size_influence / second.size,
            ),
        ),
    )


def _spread(centre: float, influence: FloatArray) -> Hall:
    """Return the spread of a number; that of a known one where no unit changes it.

    Sizes are changed by events alone: what rounding leaves of the other rows is no change.
    """
    changes = np.abs(influence) > _ROUNDING * np.abs(influence).max(initial=0.0)
    found = hall_spread(centre, influence, changes) if changes.any() else None
    return found if isinstance(found, Hall) else Hall(centre)
