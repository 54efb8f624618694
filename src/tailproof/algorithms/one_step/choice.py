"""Results of estimators for one-step logs or weighted episodes: a value and its spread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tailproof.algorithms.default.choice import Scored
from tailproof.algorithms.default.gain import possible_values
from tailproof.algorithms.default.spreads import (
    AllEqual,
    Rare,
    Spread,
    centred,
    log_smoothing,
)
from tailproof.algorithms.on_log import effective
from tailproof.algorithms.one_step.observations import Observations, logged_spread
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.judgement.rules import RULES
from tailproof.statistics.intervals import Bound
from tailproof.statistics.tails.sample import check_level

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
