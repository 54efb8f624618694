"""What an estimator of one-step logs, or of weighted episodes, found: a value and its spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailproof.algorithms.gain import Mover, PairedGain
from tailproof.algorithms.levels import check_level
from tailproof.algorithms.one_step.observations import Observations
from tailproof.algorithms.spreads import Spread, log_smoothing
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.intervals import Bound, Interval

_SKEWED = 0.1  # skewness of the mean beyond which the normal law is far away
_PILOT = 10  # every tenth sample sets the scale of the guaranteed bound


@dataclass(frozen=True, kw_only=True)
class OneStepChoice:
    """The estimate of one-step scores, the evidence, and intervals at any level.

    Attributes
    ----------
    value
        The estimate.
    estimator, unit, units
        The mean that was taken, over what, and how many of them there are.
    spread
        Of the value before it was moved towards a steadier one.
    plain_error
        Standard error of plain self-normalised importance sampling.
    logged_value, logged_spread
        Of the policy that was logged.
    influence
        How much each independent unit moves the value, centred at 0, (U,).
    logged_influence
        The same for the logged policy, (U,).
    alternatives
        What other estimators say.
    reasons
        The choice in sentences.
    limits
        What limits the interval, in words.
    guarantee
        Non-negative samples whose mean the guaranteed bound is of, (U,), or why there is none.
    """

    value: float
    estimator: str
    unit: str
    units: int
    spread: Spread
    plain_error: float
    logged_value: float
    logged_spread: Spread
    influence: FloatArray = field(repr=False)
    logged_influence: FloatArray = field(repr=False)
    alternatives: dict[str, float]
    reasons: tuple[str, ...]
    limits: str
    guarantee: FloatArray | str = field(repr=False)

    @property
    def standard_error(self) -> float:
        """Standard error of the value before it was moved."""
        return self.spread.error

    @property
    def asymmetry(self) -> float:
        """Skewness of the mean: 0 where its law is symmetric."""
        return self.spread.skewness

    @property
    def skewed(self) -> bool:
        """Whether a normal interval would be wrong for it."""
        return abs(self.asymmetry) > _SKEWED

    @property
    def declined(self) -> None:
        """Why no interval is given: there always is one."""
        return

    @property
    def gain(self) -> PairedGain:
        """The difference to the logged policy, on the same rows."""
        return self.ahead_of(self.logged_value, self.logged_spread, self.logged_influence)

    def ahead_of(
        self, reference: float, spread: Spread, influence: FloatArray | None
    ) -> PairedGain:
        """Return the difference to a value from the same units, or to a number that has none."""
        correlation = 0.0
        if influence is not None:
            sizes = float((self.influence**2).sum() * (influence**2).sum())
            if sizes > 0:
                correlation = float((self.influence * influence).sum()) / sizes**0.5
        return PairedGain(
            value=self.value - reference,
            reference=reference,
            spread=Mover(self.spread, spread, correlation),
        )

    def interval(self, level: float = 0.9) -> Interval:
        """Return the ends that miss as often below as above; the estimate is always inside."""
        miss = (1 - check_level(level)) / 2
        low, high = self.spread.ends(miss, miss)
        return Interval(
            low=min(low, self.value),
            high=max(high, self.value),
            level=level,
            requested=level,
            kind=self.spread.kind,
            note=self.limits,
        )

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a number that the value exceeds with about this confidence."""
        miss = 1 - check_level(level)
        low = min(self.spread.ends(miss, miss)[0], self.value)
        return Bound(
            value=low, level=level, requested=level, kind=self.spread.kind, note=self.limits
        )

    def guaranteed_lower_bound(self, level: float = 0.9) -> Bound:
        """Return a bound that holds at any sample size, whatever the tail, where there is one.

        Logarithmic smoothing of w·r, for rewards that are never negative and propensities that are
        known. Its scale comes from every tenth unit, the bound from the others.
        """
        miss = 1 - check_level(level)
        if isinstance(self.guarantee, str):
            raise LevelError(f"There is no guaranteed bound: {self.guarantee}")
        pilot = np.arange(len(self.guarantee)) % _PILOT == 0
        scale = float(self.guarantee[pilot].mean())
        value = log_smoothing(self.guarantee[~pilot], miss=miss, scale=scale)
        return Bound(
            value=value,
            level=level,
            requested=level,
            kind="logarithmic smoothing",
            note="holds at any sample size if units are independent and propensities are right",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "estimator": self.estimator,
            "unit": self.unit,
            "units": self.units,
            "asymmetry": self.asymmetry,
            "skewed": self.skewed,
            "standard_error": self.standard_error if np.isfinite(self.standard_error) else None,
            "plain_error": self.plain_error if np.isfinite(self.plain_error) else None,
            "declined": self.declined,
            "alternatives": self.alternatives,
            "logged_value": self.logged_value,
            "gain": self.gain.value,
            "interval": self.spread.kind,
            "limits": self.limits,
            "reasons": list(self.reasons),
        }


def standard_error(influence: FloatArray) -> float:
    """Return the standard error of a value from the influence of its observations, (U,)."""
    return float(np.sqrt((influence**2).sum())) / len(influence)


def guarantee(
    observations: Observations, weights: FloatArray, rewards: FloatArray, *, known: bool
) -> FloatArray | str:
    """Return w·r of each observation for the guaranteed bound, (U,), or why there is none."""
    if not known:
        return "it needs the propensities of the logging policy, and these are estimated."
    if (rewards < 0).any():
        return "it needs rewards that are never negative, and some of these are."
    return observations.influence(weights * rewards)
