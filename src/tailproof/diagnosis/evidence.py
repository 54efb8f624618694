"""The evidence of a diagnosis, piece by piece, and what each piece says by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tailproof.statistics.tails import (
    ExtremalIndex,
    Medcouple,
    MomentEvidence,
    ResidualMonitor,
    TailAsymmetry,
    TailIndex,
    TailPath,
    WeightEvidence,
)

Skew = Literal["symmetric", "left", "right", "unclear"]

#: Tails count as alike while one holds less than this many times the extremes of the other.
_LEAN = 1.5
#: Extremes cluster when the interval of their extremal index ends below this.
CLUSTERED = 0.9


@dataclass(frozen=True, kw_only=True)
class TailReport:
    """How heavy both tails of one sample are, and which way it leans.

    Attributes
    ----------
    name, n
        Of what, and how many.
    left, right
        Hill's index of either tail with its interval.
    others
        The moment and Pickands estimates of both.
    left_path, right_path
        Hill's estimate against the number of extremes; None where a tail is too short.
    mean, variance
        Whether they plausibly exist.
    asymmetry, medcouple
        Tail against tail, and the skewness of the middle.
    """

    name: str
    n: int
    left: TailIndex
    right: TailIndex
    others: tuple[TailIndex, ...]
    left_path: TailPath | None
    right_path: TailPath | None
    mean: MomentEvidence
    variance: MomentEvidence
    asymmetry: TailAsymmetry
    medcouple: Medcouple

    @property
    def heavier(self) -> TailIndex | None:
        """The tail with the smaller index; None when neither is estimable."""
        known = [tail for tail in (self.left, self.right) if tail.estimable]
        return min(known, key=lambda tail: tail.alpha, default=None)

    @property
    def skew(self) -> Skew:
        """Which tail is longer: beyond doubt and by half as many extremes again, or neither.

        "symmetric" when the interval of the ratio holds 1 and stays within ⅔ and 1½; "unclear" when
        the sample is too small to tell, or leans a little beyond doubt.
        """
        tails = self.asymmetry
        if tails.low > 1 and tails.ratio >= _LEAN:
            return "right"
        if tails.high < 1 and tails.ratio <= 1 / _LEAN:
            return "left"
        return "symmetric" if 1 / _LEAN <= tails.low <= 1 <= tails.high <= _LEAN else "unclear"


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Do extremes come alone? Extremal indices: 1 for alone, ½ for pairs on average.

    Attributes
    ----------
    within
        Of the steps inside an episode.
    across
        Of neighbouring episodes, an episode counting by its largest step; in the log's order.
    groups
        Of the episodes inside a group, where the log names groups.
    """

    within: ExtremalIndex | None
    across: ExtremalIndex
    groups: ExtremalIndex | None

    @property
    def in_episodes(self) -> bool:
        """Whether extremes of an episode come together."""
        return _clustered(self.within)

    @property
    def in_groups(self) -> bool:
        """Whether extreme episodes come together, as neighbours or within groups."""
        return _clustered(self.across) or _clustered(self.groups)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How well the log covers what the policy does.

    Attributes
    ----------
    weights
        Of the density ratios ω: effective sample size, largest share, mean, Pareto shape.
    mean_known
        Whether ω averages 1 in theory: with γ < 1 and without terminal transitions, or in bandits.
        Otherwise ω was scaled to average 1.
    leverage, largest_leverage
        Mean and maximum of φᵀ(Σφφᵀ + λI)⁻¹φ at the policy's actions, in units of its mean at the
        logged ones: how far the policy acts from where the log has data. 1 is the log itself.
    smallest_eigenvalue
        Of the features' Gram matrix scaled to ones on its diagonal: near 0, some direction of the
        critic is hardly observed.
    unlogged
        The policy's share of actions that the log never took.
    """

    weights: WeightEvidence
    mean_known: bool
    leverage: float
    largest_leverage: float
    smallest_eigenvalue: float
    unlogged: float


@dataclass(frozen=True, kw_only=True)
class WorstStep:
    """A transition far from what the critic expects."""

    episode: Any
    step: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class BellmanMonitor:
    """Bellman residuals of the plain critic: their scale over time, and the worst transitions."""

    monitor: ResidualMonitor
    worst: tuple[WorstStep, ...]


@dataclass(frozen=True, kw_only=True)
class KPath:
    """The median of K folds against K: flat for symmetric tails, drifting where skew biases it.

    Attributes
    ----------
    folds, values
        K, and the median of the values of K folds, averaged over `dealings` random partitions.
    errors
        The standard error of such a median, from the MAD of its fold values; NaN for K = 1.
    """

    folds: tuple[int, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    dealings: int

    @property
    def drift(self) -> float:
        """Return how far the path moves from K = 5 (or the first above) to its end."""
        later = [value for k, value in zip(self.folds, self.values, strict=True) if k >= 5]
        return later[-1] - later[0] if len(later) > 1 else 0.0

    @property
    def drifts(self) -> bool:
        """Whether the path moves by more than two standard errors of its end."""
        return abs(self.drift) > 2 * self.errors[-1]  # NaN is no evidence


@dataclass(frozen=True, kw_only=True)
class FoldDisagreement:
    """The values of K folds, and the one that stands apart.

    Attributes
    ----------
    values, median, std, mad
        The folds' values, their median, standard deviation, and MAD scaled like one.
    farthest
        The fold farthest from the median.
    distance
        Its distance in MADs.
    episode
        The id of the episode in it that moves the whole estimate most.
    """

    values: tuple[float, ...]
    median: float
    std: float
    mad: float
    farthest: int
    distance: float
    episode: Any


def _clustered(index: ExtremalIndex | None) -> bool:
    return index is not None and index.high < CLUSTERED  # NaN is no evidence
