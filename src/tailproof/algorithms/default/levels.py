"""The level of an interval, checked."""

from __future__ import annotations

from tailproof.errors import LevelError


def check_level(level: float) -> float:
    """Return a level strictly between 0 and 1."""
    if not 0 < level < 1:  # NaN fails too
        raise LevelError(f"level must lie strictly between 0 and 1. Got {level!r} instead.")
    return level


def no_honest(level: float, what: str, why: str) -> str:
    """Return the sentence that declines an interval or a bound of the level that was asked for."""
    return f"No honest {100 * level:g} % {what} exists for this log: {why}."
