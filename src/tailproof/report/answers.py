"""An estimate in words and numbers: the same in the terminal, the report, the notebook and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.report.text import count, method_text, number, percent, signed
from tailproof.statistics.intervals import Bound, Interval

if TYPE_CHECKING:
    from tailproof.learning.constants import ConstantAction
    from tailproof.learning.learned import Learned


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One interval or lower bound, or the reason why there is none.

    Attributes
    ----------
    name
        What a table calls it.
    low, high
        Its ends; NaN where there is none, an infinite `high` for a lower bound.
    level
        The level that it has.
    note
        What it assumes, or why there is none.
    """

    name: str
    low: float
    high: float
    level: float
    note: str

    @property
    def exists(self) -> bool:
        """Whether there is such an interval."""
        return not math.isnan(self.low)

    @property
    def is_bound(self) -> bool:
        """Whether only the lower end is claimed."""
        return self.high == math.inf

    def __str__(self) -> str:
        """Return the ends with their level."""
        if not self.exists:
            return "no interval"
        if self.is_bound:
            return f"above {number(self.low)} ({percent(self.level)} lower bound)"
        return f"{number(self.low)} to {number(self.high)} ({percent(self.level)} interval)"


@dataclass(frozen=True)
class Answer:
    """An estimate, asked at one level for the intervals and bounds that Python gives.

    Attributes
    ----------
    interval, bound
        Of the value; None where there is no honest one.
    gain_interval, gain_bound
        Of the gain over the logged policy.
    offers
        Every interval and bound, those that do not exist included.
    """

    estimate: Estimate
    level: float
    interval: Offer | None
    bound: Offer | None
    gain_interval: Offer | None
    gain_bound: Offer | None
    offers: tuple[Offer, ...]

    def first_line(self) -> str:
        """Return the value with its unit, what was logged, and the gain with its interval."""
        estimate = self.estimate
        return (
            f"{number(estimate.value)} {estimate.unit}; logged {number(estimate.logged_value)}; "
            f"gain {self.gain()}, {self.gain_ends()}"
        )

    def gain(self) -> str:
        """Return the gain with its share of what was logged."""
        return with_share(self.estimate.gain.value, self.estimate.gain.relative)

    def gain_ends(self) -> str:
        """Return the interval of the gain, in words."""
        found = self.gain_interval
        if found is None:
            return "without an interval"
        return f"{percent(found.level)} interval {signed(found.low)} to {signed(found.high)}"

    def value_ends(self) -> str:
        """Return the interval and the lower bound of the value, in words."""
        ends = [str(each) for each in (self.interval, self.bound) if each is not None]
        return f"value {', '.join(ends)}" if ends else ""

    def caveats(self) -> tuple[str, ...]:
        """Return why there is no interval, or what intervals and bounds rest on."""
        value, bound, *_ = self.offers
        if not value.exists:
            return (value.note,)
        rests = [f"Interval of the value: {value.note}"]
        if bound.note != value.note:
            rests.append(f"Its lower bound: {bound.note}")
        if self.gain_interval is not None and self.gain_interval.note != value.note:
            rests.append(f"Interval of the gain: {self.gain_interval.note}")
        return tuple(rests)

    def how(self) -> str:
        """Return how the estimate was made, in a few words."""
        chosen = self.estimate.choice
        if chosen is None:
            return method_text(self.estimate.method)
        said = f"{chosen.estimator} over {count(chosen.units, chosen.unit)}"
        return f"{said}, chosen by the log" if chosen.alternatives else said


def learned_line(
    learned: Learned, found: Answer | None, constant: ConstantAction | None = None
) -> str:
    """Return whether a learned policy is better than what was logged, and the numbers behind that.

    Parameters
    ----------
    learned, found
        The policy, and the answer of the episodes that it was not learned from, if there are any.
    constant
        From `best_constant`.
    """
    if found is None:
        return "Not judged: no episodes were held out from learning."
    held_out = count(found.estimate.n_episodes, "held-out episode")
    best = f"; best constant {constant.action} {number(constant.value)}" if constant else ""
    return f"{learned_verdict(learned, found)} By {held_out}: {found.first_line()}{best}."


def learned_verdict(learned: Learned, found: Answer) -> str:
    """Return whether a learned policy is better than what was logged."""
    if learned.improves is not None:
        return learned.advice()
    if found.gain_bound is not None and found.gain_bound.low > 0:
        return f"Yes, better than what was logged with {percent(found.level)} confidence."
    return "No, not shown to be better than what was logged."


def with_share(value: float, relative: float) -> str:
    """Return a gain with its share of what it is compared with.

    >>> with_share(6.27, 0.102), with_share(0.5, math.nan)
    ('+6.27 (+10 %)', '+0.500')
    """
    share = f" ({signed(100 * relative, 2)} %)" if math.isfinite(relative) else ""
    return f"{signed(value)}{share}"


def answer(estimate: Estimate, *, level: float = 0.9) -> Answer:
    """Return the estimate with its intervals and bounds at a level."""
    gain = estimate.gain
    interval = _offer("interval", level, estimate.interval)
    bound = _offer("lower bound", level, estimate.lower_bound)
    of_gain = _offer("interval", level, gain.interval)
    above = _offer("lower bound", level, gain.lower_bound)
    offers = [interval, bound]
    if estimate.choice is None:
        offers += [
            _offer("fold t", level, lambda level: estimate.interval(level, kind="t")),
            _offer("fold t, lower", level, lambda level: estimate.lower_bound(level, kind="t")),
        ]
    return Answer(
        estimate=estimate,
        level=level,
        interval=interval if interval.exists else None,
        bound=bound if bound.exists else None,
        gain_interval=of_gain if of_gain.exists else None,
        gain_bound=above if above.exists else None,
        offers=tuple(offers),
    )


def _offer(name: str, level: float, ask: Callable[[float], Interval | Bound]) -> Offer:
    try:
        found = ask(level)
    except LevelError as error:
        no = math.nan
        return Offer(name=name, low=no, high=no, level=no, note=str(error))
    low, high = (found.low, found.high) if isinstance(found, Interval) else (found.value, math.inf)
    return Offer(name=name, low=low, high=high, level=found.level, note=found.note)
