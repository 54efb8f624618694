"""What the default method chose, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailproof.algorithms.default.gain import (
    Mover,
    PairedGain,
    UncertainValue,
    correlation_of,
    difference,
)
from tailproof.algorithms.default.spreads import Spread
from tailproof.algorithms.on_log import PolicyOnLog
from tailproof.arrays import FloatArray
from tailproof.files.frames import plain
from tailproof.judgement.shape import RewardShape


@dataclass(frozen=True, kw_only=True)
class Scored(UncertainValue):
    """A value from independent observations, with its own spread and that of the logged policy.

    `measured` is the shape of the log's rewards, or a function that measures it on demand.
    """

    estimator: str  # the name of the mean
    unit: str  # what one sample is: a step, an episode or a group
    units: int  # number of samples
    spread: Spread  # of the value before it was shrunk towards a more stable one
    plain_error: float  # of the plain mean
    logged_value: float  # of the logged policy
    logged_spread: Spread
    influence: FloatArray = field(repr=False)  # (U,) of each observation on the value
    logged_influence: FloatArray = field(repr=False)  # (U,) the same for the logged value
    alternatives: dict[str, float]  # values of other estimators
    on_log: PolicyOnLog | None = None  # the policy's actions in the logged states
    measured: RewardShape | Callable[[], RewardShape] | None = field(default=None, repr=False)
    weights: FloatArray | None = field(default=None, repr=False)  # (n,) of rows, in the log's order

    @cached_property
    def shape(self) -> RewardShape | None:
        """Tails, skew and clustering of the log's rewards."""
        return self.measured() if callable(self.measured) else self.measured

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        return ()

    def condensed(self, like: Scored | None = None) -> Self:
        """Return a copy that takes less memory, for comparing many policies on large logs.

        Where `like` has the same influence of the logged policy, both share one array.
        """
        logged: FloatArray = self.logged_influence.astype(np.float32)
        if like is not None and np.array_equal(logged, like.logged_influence):
            logged = like.logged_influence
        shape = self.measured if isinstance(self.measured, RewardShape) else None
        if shape is not None:  # the unit of each row is no longer needed once the mean is chosen
            shape = replace(shape, unit_of_row=np.empty(0, dtype=np.intp))
        return replace(
            self,
            influence=self.influence.astype(np.float32),
            logged_influence=logged,
            weights=None,
            measured=shape,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "estimator": self.estimator,
            "unit": self.unit,
            "units": self.units,
            "standard_error": plain(self.standard_error),
            "plain_error": plain(self.plain_error),
            "logged_value": self.logged_value,
            "gain": self.gain.value,
            "declined": self.declined,
            "limits": self.limits,
            "shape": None if self.shape is None else self.shape.to_dict(),
            "alternatives": dict(self.alternatives),
            "reasons": list(self.reasons),
        }

    @property
    def gain(self) -> PairedGain:
        """The difference from the logged policy's value, on the same data."""
        return self.ahead_of(self.logged_value, self.logged_spread, self.logged_influence)

    def ahead_of(
        self, reference: float, spread: Spread, influence: FloatArray | None
    ) -> PairedGain:
        """Return the difference from a value of the same units, or from a number without influence."""
        return PairedGain(
            value=difference(self.value, reference),
            reference=reference,
            spread=Mover(self.spread, spread, correlation_of(self.influence, influence)),
        )


@dataclass(frozen=True, kw_only=True)
class Choice(Scored):
    """The estimator chosen for the log, the evidence for it, and the values of the alternatives.

    The asymmetry is the largest squared difference between more and less robust means, in units of its
    variance: about 3 when residuals are symmetric.
    """

    asymmetry: float
    skewed: bool  # whether the asymmetry is significant
    critic: str  # the averaged critics and their shares, in words
    allowance: float  # how far the critics disagree beyond their standard error
    disagreement: float  # the largest disagreement in standard errors
    lost: float  # share of the policy's visits for which the log has no similar row

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        assert self.shape is not None
        tails, sided, clustered = self.shape.sentences
        if self.skewed and not self.shape.skewed:
            seen = f"asymmetry {self.asymmetry:.0f}"
            sided = f"Weighted for the policy, what they do not explain is skewed ({seen})."
        why = self._why_this_mean(self.shape)
        return f"Models of the value: {self.critic}.", tails, sided, clustered, why

    def _why_this_mean(self, shape: RewardShape) -> str:
        taken = f"The {self.estimator} is taken"
        if shape.sparse:
            return f"{taken}: a robust one would take the signal for outliers."
        if self.skewed:
            kept = "all" if self.estimator == "plain mean" else "nearly all"
            return f"{taken}, which keeps {kept} of the tail: a more robust one would be biased."
        if self.estimator != "plain mean":
            gain = self.plain_error / self.standard_error if self.standard_error > 0 else 1.0
            less = f"; for this policy, the plain mean's error would be {gain:.1f} times as large"
            return f"The {self.estimator} has the least estimated risk{less * (gain > 1.05)}."
        if shape.tails == "heavy":
            return (
                f"{taken} all the same: {self.units:,} {self.unit}s are too few to show that a robust "
                f"one would not be biased."
            )
        return f"{taken}: a robust one would gain nothing."

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        own = ("asymmetry", "skewed", "critic", "allowance", "disagreement", "lost")
        return {**super().to_dict(), **{name: getattr(self, name) for name in own}}
