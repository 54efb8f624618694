"""What the default method chose, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tailproof.algorithms.gain import PairedGain
from tailproof.algorithms.levels import check_level
from tailproof.algorithms.spreads import Spread
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.intervals import Bound, Interval


class Gain(Protocol):
    """How far a policy is ahead of another, or of the logged one, on the same data."""

    @property
    def value(self) -> float:
        """The difference of the two estimates."""

    @property
    def relative(self) -> float:
        """The difference over the absolute value of the other; NaN where that is 0."""

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference."""

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a value that the difference exceeds."""


@dataclass(frozen=True)
class Allowed:
    """A spread, and what the choice of a critic may cost beside it."""

    spread: Spread
    allowance: float

    @property
    def centre(self) -> float:
        """The number."""
        return self.spread.centre

    @property
    def error(self) -> float:
        """Its standard error, the critic's choice left out."""
        return self.spread.error

    @property
    def skewness(self) -> float:
        """Of the number's law."""
        return self.spread.skewness

    @property
    def kind(self) -> str:
        """The name of the interval."""
        return self.spread.kind

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends that miss with these probabilities, moved outwards by the allowance."""
        low, high = self.spread.ends(below, above)
        return low - self.allowance, high + self.allowance


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
    spread
        The uncertainty of the value, with the allowance for the critic in it.
    plain_error
        Standard error of the plain mean.
    critic
        The critics that were averaged, in words.
    allowance, disagreement
        How far they are apart beyond chance, and in standard errors.
    lost
        Share of the policy's visits for which the log has no similar row.
    logged_value, logged_spread
        Of the policy that was logged.
    influence, logged_influence
        How much each independent group of episodes moves the two values, (U,).
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
    spread: Spread
    plain_error: float
    critic: str
    allowance: float
    disagreement: float
    lost: float
    logged_value: float
    logged_spread: Spread
    influence: FloatArray = field(repr=False)
    logged_influence: FloatArray = field(repr=False)
    declined: str | None
    alternatives: dict[str, float]

    @property
    def standard_error(self) -> float:
        """Standard error of the value."""
        return self.spread.error

    @property
    def gain(self) -> PairedGain:
        """The difference to the logged policy, on the same episodes."""
        sizes = float((self.influence**2).sum() * (self.logged_influence**2).sum())
        together = float((self.influence * self.logged_influence).sum())
        return PairedGain(
            value=self.value - self.logged_value,
            reference=self.logged_value,
            ahead=self.spread,
            behind=self.logged_spread,
            correlation=together / sizes**0.5 if sizes > 0 else 0.0,
        )

    @property
    def limits(self) -> str:
        """What limits the interval, in words."""
        words = ["from the influence of each episode (or group) on the estimate"]
        if self.allowance > self.standard_error:
            words.append("mostly an allowance for critics that disagree: the critic is the limit")
        elif self.allowance > 0.2 * self.standard_error:
            words.append("with an allowance for critics that disagree")
        if self.lost > 0.1:
            words.append(
                f"{self.lost:.0%} of what the policy would do has no similar row: overlap is the limit"
            )
        if len(self.influence) < 30:
            words.append(f"only {len(self.influence)} independent episodes or groups")
        return "; ".join(words)

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
        return f"Critic: {self.critic}.", clustered, sided, gained

    def interval(self, level: float = 0.9) -> Interval:
        """Return the ends that miss as often below as above, or say why there are none."""
        miss = (1 - check_level(level)) / 2
        self._require_interval(level)
        low, high = map(float, self.spread.ends(miss, miss))
        low, high = min(low, self.value), max(high, self.value)
        return Interval(
            low=low, high=high, level=level, requested=level, kind="auto", note=self.limits
        )

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a number that the value exceeds with about this confidence."""
        miss = 1 - check_level(level)
        self._require_interval(level)
        low = min(float(self.spread.ends(miss, miss)[0]), self.value)
        return Bound(value=low, level=level, requested=level, kind="auto", note=self.limits)

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
            "critic": self.critic,
            "allowance": self.allowance,
            "disagreement": self.disagreement,
            "lost": self.lost,
            "logged_value": self.logged_value,
            "gain": self.gain.value,
            "declined": self.declined,
            "limits": self.limits,
            "alternatives": dict(self.alternatives),
            "reasons": list(self.reasons),
        }

    def _require_interval(self, level: float) -> None:
        if self.declined is not None:
            raise LevelError(
                f"No honest {100 * level:g} % interval exists for this log: {self.declined}."
            )
