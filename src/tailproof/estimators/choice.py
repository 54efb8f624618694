"""What an estimator chose and why, with its value and spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.task import PolicyOnLog, effective
from tailproof.errors import LevelError
from tailproof.files import plain
from tailproof.profile.observations import Observations, logged_spread
from tailproof.profile.shape import RewardShape
from tailproof.robust.gains import (
    Mover,
    PairedGain,
    UncertainValue,
    correlation_of,
    difference,
    possible_values,
)
from tailproof.robust.intervals import Bound
from tailproof.robust.spreads import AllEqual, Rare, Spread, centred, log_smoothing
from tailproof.robust.tails import check_level
from tailproof.rules import RULES


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


_PILOT = 10  # every tenth sample sets the scale of the guaranteed bound


@dataclass(frozen=True, kw_only=True)
class OneStepChoice(Scored):
    """The estimate of one-step scores, the evidence, and intervals at any level.

    `guarantee` holds the non-negative samples, (U,), for the guaranteed bound of their mean, or the
    reason why there is no such bound.
    """

    sentences: tuple[str, ...] = ()  # the choice in words
    guarantee: FloatArray | str = field(repr=False)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        return self.sentences if self.shape is None else (self.shape.sentences[0], *self.sentences)

    @property
    def asymmetry(self) -> float:
        """Skewness of the mean: 0 if its distribution is symmetric."""
        return self.spread.skewness

    @property
    def skewed(self) -> bool:
        """Whether the mean is too skewed for a normal interval."""
        return abs(self.asymmetry) > RULES.skewed_mean

    def condensed(self, like: Scored | None = None) -> Self:
        """Return a copy that takes less memory, without a guaranteed bound."""
        return replace(super().condensed(like), guarantee="it was left out of a large comparison.")

    def guaranteed_lower_bound(self, level: float = 0.9) -> Bound:
        """Return a bound that holds at any sample size and for any tail; raise if there is none.

        It is logarithmic smoothing of w·r, for non-negative rewards and known propensities. Every
        tenth unit sets the scale; the bound uses the others.
        """
        check_level(level)
        if isinstance(self.guarantee, str):
            raise LevelError(f"There is no guaranteed bound: {self.guarantee}")
        pilot = np.arange(len(self.guarantee)) % _PILOT == 0
        scale = float(self.guarantee[pilot].mean())
        return Bound(
            value=log_smoothing(self.guarantee[~pilot], miss=1 - level, scale=scale),
            level=level,
            requested=level,
            kind="logarithmic smoothing",
            note="holds at any sample size if units are independent and propensities are right",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        own = {"asymmetry": self.asymmetry, "skewed": self.skewed, "interval": self.spread.kind}
        return {**super().to_dict(), **own}


def one_step_choice(
    observations: Observations,
    returns: FloatArray,
    sample_weights: FloatArray,
    influence: FloatArray,
    spread: Spread,
    *,
    common: FloatArray | None,
    rare: bool,
    robust: float | None = None,
    cautions: tuple[str, ...] = (),
    **own: Any,
) -> OneStepChoice:
    """Return a choice, with the logged policy's value and what limits the interval.

    The arguments are the returns and weights of samples, (n,), the influence of observations,
    (U,), and the common return of each sample, (n,), if there is one. `rare` says whether the
    spread is one of rare events; `robust` is the robust mean of the returns, if there is one;
    `cautions` are further limits of the interval; `own` are the other attributes.
    """
    logged = logged_spread(observations, returns, common=common, policy_is_rare=rare)
    return OneStepChoice(
        unit=observations.name,
        units=observations.count,
        spread=spread,
        influence=influence,
        possible=possible_values(returns),
        logged_value=float(returns.mean()) if robust is None else robust,
        logged_spread=logged if robust is None else centred(logged, robust),
        logged_influence=observations.influence(returns - returns.mean()),
        limits="; ".join([*_limits(observations, spread, influence, sample_weights), *cautions]),
        **own,
    )


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


def _limits(
    observations: Observations, spread: Spread, influence: FloatArray, weights: FloatArray
) -> list[str]:
    """Return what limits the interval: rare events, one unit, the overlap, the tail or the size."""
    unit, count = observations.name, int((observations.sums(weights) > 0).sum())
    if isinstance(spread, AllEqual):
        main = (
            f"all {count:,} samples under the policy are equal, so that the log does not show by how "
            f"much another would differ: a difference of {abs(spread.centre) or 1:.4g} is assumed, and "
            f"the interval is only as right as that"
        )
    elif isinstance(spread, Rare):
        main = (
            "rare events limit it: gamma intervals of the few rewards that differ from the common "
            "one, with room for one more as large as the largest of the log"
        )
    elif count < RULES.few:
        main = f"the size limits it: the policy's actions were taken in only {count} {unit}s"
    elif (left := effective(weights)) < RULES.poor * count:
        main = (
            f"the overlap limits it: the weights leave {left:,.0f} effective of {count:,} {unit}s"
        )
    elif spread.unseen:
        main = (
            "the rewards' tail limits it: an interval for skewed means, with a point for the part of "
            "the tail that was not seen"
        )
    else:
        main = f"the size limits it: an interval for skewed means over {len(influence):,} {unit}s"
    squares = influence**2
    if squares.sum() > 0 and squares.max() > RULES.decides * squares.sum():
        alone = (
            f"one {unit} carries {squares.max() / squares.sum():.0%} of the squared scores: how often "
            f"such a {unit} comes cannot be told from this log, and the interval may be too short"
        )
        return [main, alone]
    return [main]
