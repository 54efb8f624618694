"""What an estimator chose and why, with its value and scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.task import PolicyOnLog, Task
from tailproof.errors import Caution, LevelError
from tailproof.files import plain
from tailproof.log.log import Log
from tailproof.profile.observations import Observations
from tailproof.profile.profile import LogProfile
from tailproof.profile.shape import RewardShape
from tailproof.robust.gains import PairedGain, Scored
from tailproof.robust.intervals import Bound
from tailproof.robust.pooling import PooledPath
from tailproof.robust.sensitivity import HiddenReasons
from tailproof.robust.spreads import AllEqual, Rare, Spread, log_smoothing
from tailproof.robust.tails import check_level, effective_rows
from tailproof.rules import RULES


@dataclass(frozen=True, kw_only=True)
class Choice(Scored):
    """The value that an estimator chose, that of the logged policy by the same units, and why."""

    influence: FloatArray = field(repr=False)  # (U,)
    estimator: str  # the name of the mean
    unit: str  # what one sample is: a step, an episode or a group
    units: int  # number of samples
    plain_error: float  # of the plain mean
    logged: Scored  # the logged policy
    alternatives: dict[str, float]  # values of other estimators
    on_log: PolicyOnLog | None = None  # the policy's actions in the logged states
    shape: RewardShape | None = field(default=None, repr=False)  # of the log's rewards
    weights: FloatArray | None = field(default=None, repr=False)  # (n,) of rows, in the log's order
    #: (U,) of each unit on the gain, if the point is not the mean of the scores; None if it is, and
    #: empty where it is not known.
    point_influence: FloatArray | None = field(default=None, repr=False)
    #: (n,) the unit of each row of the log; None if units are the log's groups, in their order.
    unit_of_row: IntArray | None = field(default=None, repr=False)
    #: (n,) of each row, in the log's order, if units are groups of rows with scores of their own.
    sample_influence: FloatArray | None = field(default=None, repr=False)
    pooling: PooledPath | None = field(default=None, repr=False)  # gains by pooled tails
    #: What hidden reasons for the logged actions leave of the gain, if propensities were estimated.
    hidden_reasons: HiddenReasons | None = field(default=None, repr=False)

    def __sub__(self, other: Scored) -> PairedGain:
        gain, path = super().__sub__(other), self.pooling
        if path is None or other is self.logged:
            return replace(gain, pooling=path)
        if isinstance(other, Choice) and other.pooling is not None:
            return replace(gain, pooling=path - other.pooling)
        return gain

    @property
    def logged_value(self) -> float:
        """The value of the logged policy."""
        return self.logged.value

    @property
    def gain(self) -> PairedGain:
        """The difference from the logged policy's value, on the same data."""
        return self - self.logged

    @property
    def gain_influence(self) -> FloatArray:
        """The influence of each unit on the gain, (U,) centred at 0; empty where it is not known."""
        if self.point_influence is not None:
            return self.point_influence
        logged = self.logged.influence
        return np.empty(0) if logged is None else self.influence.astype(float) - logged

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        return ()

    @property
    def evidence_bytes(self) -> int:
        """The memory that scores and weights take."""
        arrays = [self.influence, self.logged.influence, self.weights]
        if self.pooling is not None:
            arrays.append(self.pooling.influences)
        return sum(each.nbytes for each in arrays if each is not None)

    def condensed(self, like: Choice | None = None) -> Self:
        """Return a copy that takes less memory, for comparing many policies on large logs.

        Where `like` has the same influence of the logged policy, both share one array.
        """
        logged = self.logged.influence
        assert logged is not None
        shared = None if like is None else like.logged.influence
        logged = logged.astype(np.float32)
        if shared is not None and np.array_equal(logged, shared):
            logged = shared
        return replace(
            self,
            influence=self.influence.astype(np.float32),
            logged=replace(self.logged, influence=logged, occurrences=None),
            weights=None,
            occurrences=None,
            pooling=None,
            point_influence=None if self.point_influence is None else np.empty(0),
            sample_influence=None,
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "estimator": self.estimator,
            "unit": self.unit,
            "units": self.units,
            "standard_error": plain(self.standard_error),
            "plain_error": plain(self.plain_error),
            "logged_value": self.logged_value,
            "gain": self.gain.value,
            "declined": None if self.declined is None else str(self.declined),
            "limits": self.limits,
            "shape": None if self.shape is None else self.shape.to_dict(),
            "alternatives": dict(self.alternatives),
            "reasons": list(self.reasons),
        }


@runtime_checkable
class ScoreAlgorithm(Protocol):
    """A base that scores independent rows or episodes of a whole log, and chooses a mean of them."""

    def score(self, task: Task, profile: LogProfile, *, rng: np.random.Generator) -> Choice | None:
        """Return the policy's value with its scores; None if not every row has one."""


@dataclass(frozen=True, kw_only=True)
class SequentialChoice(Choice):
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
    unlike: float  # share of its visits in states unlike the logged ones, by walks through the log

    @property
    def reasons(self) -> tuple[str, ...]:
        """The choice in sentences."""
        assert self.shape is not None
        tails, sided, clustered = self.shape.sentences
        if self.skewed and not self.shape.skewed:
            seen = f"asymmetry {self.asymmetry:.0f}"
            sided = f"Weighted by the policy, what these models do not explain is skewed ({seen})."
        why = self._why_this_mean(self.shape)
        return f"Models of the value: {self.critic}.", tails, sided, clustered, why

    def _why_this_mean(self, shape: RewardShape) -> str:
        taken = f"The {self.estimator} is taken"
        if shape.sparse and self.pooling is None:
            return f"{taken}: a robust one would take the signal for outliers."
        if self.pooling is not None and np.isfinite(self.pooling.begins):
            begins = f"{abs(self.pooling.begins):,.4g}"
            return (
                f"The plain mean is taken. Rewards beyond about {begins} are taken to be equally large "
                f"under all actions, as far as the log does not show otherwise; the interval does not "
                f"assume it."
            )
        if self.skewed:
            kept = "all" if self.estimator.startswith("plain mean") else "nearly all"
            return f"{taken}, which keeps {kept} of the tail: a more robust one would be biased."
        if self.estimator != "plain mean":
            gain = self.plain_error / self.standard_error if self.standard_error > 0 else 1.0
            less = f"; for this policy, the plain mean's error would be {gain:.1f} times as large"
            return f"The {self.estimator} has the least estimated risk{less * (gain > 1.05)}."
        if shape.tails == "heavy":
            return (
                f"{taken} here: {self.units:,} {self.unit}s are too few to show that a robust "
                f"one would not be biased."
            )
        return f"{taken}: a robust one would gain nothing."

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        own = ("asymmetry", "skewed", "critic", "allowance", "disagreement", "lost", "unlike")
        return {**super().to_dict(), **{name: getattr(self, name) for name in own}}


_PILOT = 10  # every tenth sample sets the scale of the guaranteed bound


@dataclass(frozen=True, kw_only=True)
class OneStepChoice(Choice):
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

    def condensed(self, like: Choice | None = None) -> Self:
        """Return a copy that takes less memory, without a guaranteed bound."""
        left_out = "it was left out of a large comparison."
        return replace(super().condensed(like), guarantee=left_out)

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

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        own = {"asymmetry": self.asymmetry, "skewed": self.skewed, "interval": self.spread.kind}
        return {**super().to_dict(), **own}


def too_few_units(log: Log) -> Caution | None:
    """Return why a log of so few independent rows, episodes or groups gives no interval, or None."""
    if log.n_groups >= RULES.fewest:
        return None
    alone = "rows" if log.is_bandit else "episodes"
    unit = alone if log.group_ids is None else "groups"
    said = (
        f"the log has too few independent {unit}: {log.n_groups}, where {RULES.fewest} are needed"
    )
    return Caution("too_few", said)


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


def limits_of(
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
            "few events (gamma intervals for the rewards that differ from the usual one, with room "
            "for one more as large as the largest of the log)"
        )
    elif count < RULES.few:
        main = f"few data (the policy's actions were taken in only {count} {unit}s)"
    elif (left := effective_rows(weights)) < RULES.poor * count:
        main = f"little overlap (the weights leave {left:,.0f} effective of {count:,} {unit}s)"
    elif spread.unseen:
        main = "a heavy tail (widened for skew, and for the part of the tail that was not seen)"
    else:
        main = f"the number of {unit}s (an interval for skewed means over {len(influence):,})"
    squares = influence**2
    if squares.sum() > 0 and squares.max() > RULES.dominant_share * squares.sum():
        alone = (
            f"one {unit} carries {100 * squares.max() / squares.sum():.0f} % of the squared scores: "
            f"how often such a {unit} comes cannot be told from this log, and the interval may be too "
            f"short"
        )
        return [main, alone]
    return [main]
