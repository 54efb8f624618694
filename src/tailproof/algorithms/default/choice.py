"""What the default method chose, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailproof.algorithms.default.gain import Mover, PairedGain, UncertainValue, correlation_of
from tailproof.algorithms.default.spreads import Spread
from tailproof.algorithms.on_log import PolicyOnLog
from tailproof.arrays import FloatArray
from tailproof.files.frames import plain
from tailproof.judgement.shape import RewardShape


@dataclass(frozen=True, kw_only=True)
class Scored(UncertainValue):
    """A value from independent observations, with its own spread and that of the logged policy.

    `measured` is what the log's rewards look like, or a function that measures it on demand.
    """

    estimator: str  # the mean that was taken
    unit: str  # over what
    units: int  # and how many of them there are
    spread: Spread  # of the value before it was moved towards a steadier one
    plain_error: float  # of the plain mean
    logged_value: float  # of the policy that was logged
    logged_spread: Spread
    influence: FloatArray = field(repr=False)  # (U,) how much each observation moves the value
    logged_influence: FloatArray = field(repr=False)  # (U,) the same of the logged value
    alternatives: dict[str, float]  # what other estimators say
    on_log: PolicyOnLog | None = None  # what the policy does in the states of the log
    measured: RewardShape | Callable[[], RewardShape] | None = field(default=None, repr=False)
    weights: FloatArray | None = field(default=None, repr=False)  # (n,) of rows, in the log's order

    @cached_property
    def shape(self) -> RewardShape | None:
        """What the log's rewards look like."""
        return self.measured() if callable(self.measured) else self.measured

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        return ()

    def condensed(self, like: Scored | None = None) -> Self:
        """Return the same with less evidence, for comparisons of many policies on large logs.

        The logged policy's influence is that of `like`, where it is the same: it is stored once.
        """
        logged: FloatArray = self.logged_influence.astype(np.float32)
        if like is not None and np.array_equal(logged, like.logged_influence):
            logged = like.logged_influence
        shape = self.measured if isinstance(self.measured, RewardShape) else None
        if shape is not None:  # the unit of each row served to choose the mean
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
        """The difference to the logged policy, on the same data."""
        return self.ahead_of(self.logged_value, self.logged_spread, self.logged_influence)

    def ahead_of(
        self, reference: float, spread: Spread, influence: FloatArray | None
    ) -> PairedGain:
        """Return the difference to a value from the same units, or to a number that has none."""
        return PairedGain(
            value=self.value - reference,
            reference=reference,
            spread=Mover(self.spread, spread, correlation_of(self.influence, influence)),
        )


@dataclass(frozen=True, kw_only=True)
class Choice(Scored):
    """The estimator that the log called for, the evidence, and what the others would have said.

    The asymmetry is the largest squared difference between more and less robust means, in units of its
    variance: about 3 when residuals are symmetric.
    """

    asymmetry: float
    skewed: bool  # whether that is too much for chance
    critic: str  # the critics that were averaged, in words
    allowance: float  # how far they are apart beyond chance
    disagreement: float  # the same in standard errors
    lost: float  # share of the policy's visits for which the log has no similar row

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        assert self.shape is not None
        tails, sided, clustered = self.shape.sentences
        if self.skewed and not self.shape.skewed:
            seen = f"asymmetry {self.asymmetry:.0f}"
            sided = f"Weighted for the policy, residuals are skewed ({seen})."
        why = self._why_this_mean(self.shape)
        return f"Critic: {self.critic}.", tails, sided, clustered, why

    def _why_this_mean(self, shape: RewardShape) -> str:
        taken = f"The {self.estimator} is taken"
        if shape.sparse:
            return f"{taken}: a robust one would take the signal for outliers."
        if self.skewed:
            kept = "all" if self.estimator == "plain mean" else "nearly all"
            return f"{taken}, which keeps {kept} of the tail: a more robust one would be biased."
        if self.estimator != "plain mean":
            gain = self.plain_error / self.standard_error if self.standard_error > 0 else 1.0
            less = f"; the plain mean's standard error is {gain:.1f} times as large"
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
