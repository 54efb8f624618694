"""One policy against another: the gain, its bound, and why there is none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tailproof.algorithms.default.gain import FoldGain, PairedGain
from tailproof.algorithms.default.spreads import Hall
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.statistics.intervals import Bound, Interval


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One policy against another, on the same folds or the same rows.

    Attributes
    ----------
    first, second
        Who is compared.
    gain
        The difference of the two estimates, with its own interval at any level.
    level
        Of the lower bound.
    """

    first: str
    second: str
    gain: PairedGain | FoldGain = field(repr=False)
    level: float

    @property
    def value(self) -> float:
        """The difference of the two estimates."""
        return self.gain.value

    @property
    def relative(self) -> float:
        """The difference over the second's |value|; NaN where that is 0."""
        return self.gain.relative

    @property
    def lower_bound(self) -> Bound:
        """A value that the difference exceeds; −∞, with the reason, where there is none."""
        return bound_or_reason(self.gain.lower_bound, self.level)

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference."""
        return self.gain.interval(level)

    @property
    def fold_values(self) -> FloatArray:
        """The differences on folds, (K,), if pairs are folds."""
        return self.gain.fold_values if isinstance(self.gain, FoldGain) else np.empty(0)

    @property
    def won(self) -> int:
        """In how many folds the first is ahead."""
        return int(np.count_nonzero(self.fold_values > 0))


def gain_over(estimate: Estimate, rival: Estimate | float | None) -> PairedGain | FoldGain:
    """Return how far an estimate is ahead of another, of a number, or (None) of the logged policy."""
    if rival is None:
        return estimate.gain
    value = rival if isinstance(rival, float) else rival.value
    if estimate.choice is not None:
        if isinstance(rival, float):
            return replace(
                estimate.choice.ahead_of(value, Hall(value), None),
                declined=estimate.choice.declined,
            )
        if rival.choice is not None:
            other = rival.choice
            return replace(
                estimate.choice.ahead_of(value, other.spread, other.influence),
                declined=estimate.choice.declined or other.declined,
            )
    behind = value if isinstance(rival, float) else rival.all_folds
    paired = estimate.all_folds - behind
    return FoldGain(
        value=estimate.value - value,
        reference=value,
        fold_values=paired[np.isfinite(paired)],
        declined=estimate.why_no_folds,
    )


def bound_or_reason(ask: Callable[[float], Bound], level: float) -> Bound:
    """Return a lower bound; −∞, with the reason, where there is none."""
    try:
        return ask(level)
    except LevelError as error:
        return Bound(value=-np.inf, level=level, requested=level, kind="none", note=str(error))
