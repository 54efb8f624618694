"""Intervals and bounds of a spread, at a level that is checked, or the reason why there are none."""

from __future__ import annotations

from tailproof.algorithms.default.spreads import Spread
from tailproof.errors import LevelError
from tailproof.statistics.intervals import Bound, Interval


def check_level(level: float) -> float:
    """Return a level strictly between 0 and 1."""
    if not 0 < level < 1:  # NaN fails too
        raise LevelError(f"level must lie strictly between 0 and 1. Got {level!r} instead.")
    return level


def interval_of(
    spread: Spread, value: float, level: float, *, declined: str | None, note: str
) -> Interval:
    """Return the ends that miss as often below as above; the value is always inside."""
    miss = (1 - check_level(level)) / 2
    require_offered(declined, level, "interval")
    low, high = map(float, spread.ends(miss, miss))
    return Interval(
        low=min(low, value),
        high=max(high, value),
        level=level,
        requested=level,
        kind=spread.kind,
        note=note,
    )


def bound_of(
    spread: Spread, value: float, level: float, *, declined: str | None, note: str
) -> Bound:
    """Return a number that is exceeded with about this confidence, never above the value."""
    miss = 1 - check_level(level)
    require_offered(declined, level, "lower bound")
    low = min(float(spread.ends(miss, miss)[0]), value)
    return Bound(value=low, level=level, requested=level, kind=spread.kind, note=note)


def require_offered(declined: str | None, level: float, what: str) -> None:
    """Raise the reason why no interval or bound of the level that was asked for is given."""
    if declined is not None:
        raise LevelError(f"No honest {100 * level:g} % {what} exists for this log: {declined}.")
