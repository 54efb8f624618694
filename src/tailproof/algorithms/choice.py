"""What the default method chose, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy

from tailproof.errors import LevelError
from tailproof.intervals import Bound, Interval


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The estimator that the log called for, the evidence, and what the others would have said.

    Attributes
    ----------
    value
        The estimate.
    estimator, unit
        The mean that was taken, and over what: steps, episodes, groups.
    units
        How many of them there are.
    asymmetry
        Largest squared difference between more and less robust means, in units of its variance: about
        3 when residuals are symmetric.
    skewed
        Whether that is too much for chance.
    standard_error, plain_error
        Of the estimate, and of the plain mean.
    widening
        Factor on the interval's width for the skew that is left.
    declined
        Why no interval is given, or None.
    alternatives
        The other estimators' values.
    """

    value: float
    estimator: str
    unit: str
    units: int
    asymmetry: float
    skewed: bool
    standard_error: float
    plain_error: float
    widening: float
    declined: str | None
    alternatives: dict[str, float]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        clustered = (
            "Extreme residuals come alone, so steps count singly."
            if self.unit == "step"
            else f"Extreme residuals come in clusters, so the mean is over sums of each {self.unit}."
        )
        sided = (
            f"Residuals are skewed (asymmetry {self.asymmetry:.0f}): a sturdier mean would be biased."
            if self.skewed
            else f"Residuals look symmetric (asymmetry {self.asymmetry:.1f}, about 3 by chance)."
        )
        gain = self.plain_error / self.standard_error if self.standard_error > 0 else 1.0
        gained = (
            f"The {self.estimator} has the least estimated risk; the plain mean's standard error is "
            f"{gain:.1f} times as large."
            if gain > 1.05
            else f"The {self.estimator} it is: robustness would gain nothing."
        )
        return clustered, sided, gained

    def interval(self, level: float) -> Interval:
        """Return estimate ± t·standard error, or say why there is none."""
        if not 0 < level < 1:
            raise LevelError(f"level must lie strictly between 0 and 1. Got {level!r} instead.")
        self._require_interval(level)
        quantile = float(scipy.special.stdtrit(self.units - 1, (1 + level) / 2))
        half = quantile * self.widening * self.standard_error
        return Interval(
            low=self.value - half,
            high=self.value + half,
            level=level,
            requested=level,
            kind="auto",
            note="from the influence of each unit on the chosen mean",
        )

    def lower_bound(self, level: float) -> Bound:
        """Return the lower end of the two-sided interval that leaves 1 − level below it."""
        if not 0.5 < level < 1:
            raise LevelError(f"level must lie strictly between 0.5 and 1. Got {level!r} instead.")
        interval = self.interval(2 * level - 1)
        return Bound(
            value=interval.low, level=level, requested=level, kind="auto", note=interval.note
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "estimator": self.estimator,
            "unit": self.unit,
            "units": self.units,
            "asymmetry": self.asymmetry,
            "skewed": self.skewed,
            "standard_error": self.standard_error,
            "plain_error": self.plain_error,
            "widening": self.widening,
            "declined": self.declined,
            "alternatives": dict(self.alternatives),
            "reasons": list(self.reasons),
        }

    def _require_interval(self, level: float) -> None:
        if self.declined is not None:
            raise LevelError(
                f"No honest {100 * level:g} % interval exists for this log: {self.declined}. Log more "
                f"episodes, or ask the folds: method('roam-variant', folds=6) covers a median."
            )
