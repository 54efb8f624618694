"""The answer of an evaluation: one number, how far to trust it, and every interval on offer."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.report.text import count, method_text, number, percent
from tailproof.statistics.intervals import Bound, Interval


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One interval or lower bound, or the reason why there is none.

    Attributes
    ----------
    name
        What a table calls it.
    low, high
        Its ends; NaN where there is none, an infinite `high` for a lower bound.
    level, requested
        The level it has and the one that was asked for.
    note
        What it assumes, or why there is none.
    """

    name: str
    low: float
    high: float
    level: float
    requested: float
    note: str

    @property
    def exists(self) -> bool:
        """Whether there is such an interval."""
        return not math.isnan(self.low)

    @property
    def is_bound(self) -> bool:
        """Whether only the lower end is claimed."""
        return self.high == math.inf


@dataclass(frozen=True)
class Answer:
    """An estimate with the interval and the bound to quote, and the alternatives.

    `folds` is the estimate whose fold values the intervals come from: the same one, or another
    where the best point estimate fits the log as a whole. `covers` is what levels taken from folds are
    for: the value itself, or only the median of the folds' law.
    """

    estimate: Estimate
    folds: Estimate
    interval: Offer | None
    bound: Offer | None
    offers: tuple[Offer, ...]
    covers: str = "value"

    def sentence(self) -> str:
        """Return the answer in words."""
        said = f"The policy is worth about {number(self.estimate.value)}"
        if self.interval is not None:
            ends = f"{number(self.interval.low)} to {number(self.interval.high)}"
            said += (
                f"; the {percent(self.interval.level)} interval{self._of(self.interval)} is {ends}"
            )
        if self.bound is not None:
            held = self._of(self.bound).replace(" of", "", 1)
            above = f"{held} exceeds" if held else " it is worth more than"
            sure = percent(self.bound.level)
            said += f";{above} {number(self.bound.low)} with {sure} confidence"
        if self.interval is None and self.bound is None:
            said += ", without an interval"
        return said + "."

    def _of(self, offer: Offer) -> str:
        from_folds = self.covers != "value" and not offer.name.startswith("chosen mean")
        return f" of the {self.covers}" if from_folds else ""

    def how(self) -> str:
        """Return how the estimate was made, in a few words."""
        chosen = self.estimate.choice
        if chosen is None:
            return method_text(self.estimate.method)
        said = f"{chosen.estimator} over {count(chosen.units, chosen.unit)}"
        return f"{said}, chosen by the log" if chosen.alternatives else said

    def why_no_interval(self) -> str:
        """Return what stands in the way of an interval; empty where there is one."""
        missing = [offer.note for offer in self.offers if not offer.exists]
        return missing[0] if self.interval is None and missing else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        return {
            **self.estimate.to_dict(),
            "folds": self.folds.to_dict() if self.folds is not self.estimate else None,
            "interval": None if self.interval is None else asdict(self.interval),
            "lower_bound": None if self.bound is None else asdict(self.bound),
            "covers": self.covers,
            "offers": [asdict(offer) for offer in self.offers],
        }


def answer(
    estimate: Estimate,
    *,
    folds: Estimate | None = None,
    level: float = 0.9,
) -> Answer:
    """Return the estimate with every interval and lower bound on offer.

    Quoted are those of the default method where it gives any. Otherwise the order statistics of the
    folds, as far as the verdict on the log allows: no two-sided interval where folds are not shown to
    be as often too high as too low, no bound where none can be promised, and the bound that allows
    for a heavy left tail where there is one. None at ``at="backup"``, whose members depend on each
    other.

    Parameters
    ----------
    estimate
        From `evaluate`.
    folds
        Another estimate to take the fold values from.
    level
        To ask for.

    Examples
    --------
    >>> from tailproof import evaluate
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=20, seed=1)
    >>> found = answer(evaluate(log, world.target(), method="roam-variant", gamma=0.9))
    >>> [offer.name for offer in found.offers if offer.exists]
    ['order statistics', 'fold t', 'fold t, lower', 'order statistics, lower']
    """
    source = estimate if folds is None else folds
    offers: list[Offer] = []
    intervals: list[Offer] = []
    bounds: list[Offer] = []
    if estimate.choice is not None:
        intervals = [_offer("chosen mean", level, lambda: estimate.interval(level))]
        bounds = [_offer("chosen mean, lower", level, lambda: estimate.lower_bound(level))]
        offers = [*intervals, *bounds]
    if source.choice is None:
        of_folds = _fold_offers(source, level, None)
        offers += of_folds
        if source.method.at != "backup":
            intervals.append(of_folds[0])
            bounds.append(of_folds[-1])
    interval = next((offer for offer in intervals if offer.exists), None)
    bound = next((offer for offer in bounds if offer.exists), None)
    return Answer(estimate, source, interval, bound, tuple(offers))


def _fold_offers(source: Estimate, level: float, left_tail: float | None) -> list[Offer]:
    """Return what folds give; the lower bound to quote last."""
    ordered = _offer("order statistics, lower", level, lambda: source.lower_bound(level))
    student = _offer("fold t, lower", level, lambda: source.lower_bound(level, kind="t"))
    offers = [
        _offer("order statistics", level, lambda: source.interval(level)),
        _offer("fold t", level, lambda: source.interval(level, kind="t")),
    ]
    if left_tail is None or not 1 < left_tail < 2:
        return [*offers, student, ordered]
    aware = _offer(
        "tail-aware, lower",
        level,
        lambda: source.lower_bound(level, kind="tail-aware", tail_index=left_tail),
    )
    return [*offers, student, ordered, aware]


def _offer(name: str, level: float, ask: Any) -> Offer:
    try:
        found: Interval | Bound = ask()
    except LevelError as error:
        nothing = math.nan
        return Offer(
            name=name, low=nothing, high=nothing, level=nothing, requested=level, note=str(error)
        )
    low, high = (found.low, found.high) if isinstance(found, Interval) else (found.value, math.inf)
    return Offer(name=name, low=low, high=high, level=found.level, requested=level, note=found.note)
