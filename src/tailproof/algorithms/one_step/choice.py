"""What an estimator of one-step logs, or of weighted episodes, found: a value and its spread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tailproof.algorithms.default.choice import Scored
from tailproof.algorithms.default.levels import check_level
from tailproof.algorithms.default.spreads import log_smoothing
from tailproof.algorithms.one_step.observations import Observations
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.judgement.rules import RULES
from tailproof.statistics.intervals import Bound

_PILOT = 10  # every tenth sample sets the scale of the guaranteed bound


@dataclass(frozen=True, kw_only=True)
class OneStepChoice(Scored):
    """The estimate of one-step scores, the evidence, and intervals at any level.

    Attributes
    ----------
    sentences
        The choice in words.
    caveats
        What limits the interval, in words.
    guarantee
        Non-negative samples whose mean the guaranteed bound is of, (U,), or why there is none.
    """

    sentences: tuple[str, ...]
    caveats: str
    guarantee: FloatArray | str = field(repr=False)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        return self.sentences if self.shape is None else (self.shape.sentences[0], *self.sentences)

    @property
    def limits(self) -> str:
        """What limits the interval, in words."""
        return self.caveats

    @property
    def asymmetry(self) -> float:
        """Skewness of the mean: 0 where its law is symmetric."""
        return self.spread.skewness

    @property
    def skewed(self) -> bool:
        """Whether a normal interval would be wrong for it."""
        return abs(self.asymmetry) > RULES.skewed_mean

    def condensed(self, like: Scored | None = None) -> Self:
        """Return the same with less evidence, and without a guaranteed bound."""
        return replace(super().condensed(like), guarantee="it was left out of a large comparison.")

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
            **super().to_dict(),
            "asymmetry": self.asymmetry,
            "skewed": self.skewed,
            "interval": self.spread.kind,
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
