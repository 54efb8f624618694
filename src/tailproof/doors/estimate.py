"""Estimates with their evidence, so that other levels and aggregates need no second fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray
from tailproof.critics.ensembles import Critics
from tailproof.critics.task import PolicyOnLog, Task
from tailproof.doors.verdict import Answered, GainVerdict, upper_bound, verdict_on
from tailproof.errors import Caution, LevelError, MethodError, void
from tailproof.estimators.choice import Choice, OneStepChoice
from tailproof.files import as_frame, plain
from tailproof.log.folds import Split, Whole
from tailproof.log.log import Log
from tailproof.methods.method import Method
from tailproof.robust.aggregates import Aggregate
from tailproof.robust.gains import (
    FoldGain,
    FoldValues,
    IntervalKind,
    PairedGain,
    PooledGain,
    Scored,
)
from tailproof.robust.intervals import Bound, Interval, quantile_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.segments import Segments
    from tailproof.files import Frame
    from tailproof.report.blocks import Answer

_INSTEAD = "Use 'roam-dm' with 6 folds, or the default method."
BoundKind = Literal["order", "t", "tail-aware", "guaranteed"]


@dataclass(frozen=True, kw_only=True)
class LoggedValue(FoldValues):
    """The value of the logged policy on the folds of a method."""

    how: str  # "returns" or "continued", see `tailproof.doors.evaluate`


@dataclass(frozen=True, kw_only=True)
class ValueUnit:
    """The estimated quantity: its reward, its discount, and per row or per episode."""

    reward: str  # the name of its column
    gamma: float
    per: str  # "row" in one-step logs, otherwise "episode"
    endless: bool  # whether no logged episode terminates, so that the horizon is infinite

    @classmethod
    def of(cls, log: Log, gamma: float) -> ValueUnit:
        """Return the unit of values of a log."""
        per = "row" if log.is_bandit and (gamma == 0 or bool(np.all(log.ends))) else "episode"
        endless = gamma > 0 and not bool(np.any(log.ends))
        return cls(reward=log.reward_name, gamma=gamma, per=per, endless=endless)

    def __str__(self) -> str:
        """Return the unit in words.

        >>> print(ValueUnit(reward="revenue", gamma=0.9, per="episode", endless=True))
        discounted revenue per episode (γ 0.9, endless)
        >>> print(ValueUnit(reward="spend", gamma=0.0, per="row", endless=False))
        spend per row
        """
        if self.per == "row":
            return f"{self.reward} per row"
        kind = "total" if self.gamma == 1 else "discounted"
        end = ", endless" if self.endless else ""
        return f"{kind} {self.reward} per {self.per} (γ {self.gamma:g}{end})"


@dataclass(frozen=True, kw_only=True)
class MemberValues(FoldValues):
    """A value that combines those of K members, with their critics if the base fits any."""

    logged: LoggedValue | None = None
    critics: Critics | None = field(default=None, repr=False)
    #: Q_k at starts, (K, P), of methods that are combined there.
    point_values: FloatArray | None = field(default=None, repr=False)
    point_weights: FloatArray | None = field(default=None, repr=False)  # (P,)

    @property
    def evidence_bytes(self) -> int:
        """The memory that its values at starts take."""
        arrays = (self.point_values, self.point_weights)
        return sum(each.nbytes for each in arrays if each is not None)

    def condensed(self, like: object = None) -> MemberValues:  # noqa: ARG002 nothing is shared
        """Return a copy without the values at starts."""
        return replace(self, point_values=None, point_weights=None)


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Answered):
    """The value of a policy by one method.

    Attributes
    ----------
    answer
        The value with the scores of independent rows, episodes or groups (a `Choice`), or with those of
        the method's folds.
    method, gamma, seed
        What to pass to `evaluate` to get the same numbers again.
    n_transitions, n_episodes
        Size of the log.
    unit
        What is estimated: its reward, its discount, and per row or per episode.
    on_log
        The policy's actions in the states of the log, and its agreement with the logged ones.
    cautions
        Why the answer may not hold: states and actions of the policy that the log does not cover.
    task
        What was evaluated, for `write_report`; None in a result that was stored or sent.
    """

    answer: Choice | MemberValues
    method: Method
    gamma: float
    seed: int
    n_transitions: int
    n_episodes: int
    unit: ValueUnit
    on_log: PolicyOnLog
    cautions: tuple[Caution, ...] = field(default=(), repr=False)
    task: Task | None = field(default=None, repr=False, compare=False)

    @property
    def choice(self) -> Choice | None:
        """The value with its scores, what the method chose and why; None for methods without scores."""
        return self.answer if isinstance(self.answer, Choice) else None

    @property
    def folds(self) -> FoldValues:
        """The values of the method's folds; one fold, without an interval, if it uses the whole log."""
        if isinstance(self.answer, FoldValues):
            return self.answer
        declined = why_no_interval(self.method, 1)
        return FoldValues(value=self.value, all_folds=np.array([self.value]), declined=declined)

    @property
    def logged(self) -> Scored | LoggedValue:
        """The value of the logged policy, on the same scale and from the same rows."""
        if self.answer.logged is None:
            raise MethodError(
                "The logged policy's value was not estimated: call evaluate without logged=False."
            )
        return self.answer.logged

    def interval(self, level: float = 0.9, *, kind: IntervalKind | None = None) -> Interval:
        """Return a two-sided interval, which always contains the value.

        By default it is the method's own: the default method and those that score every row have one,
        others use order statistics of their folds. ``"order"`` (order statistics) covers the median
        of the folds' distribution exactly, and J if folds are equally often too high and too low;
        ``"t"`` is mean ± t·s/√K, conservative for symmetric heavy tails. Neither has its nominal level
        for strongly skewed rewards. Raises a `LevelError` if there is no interval: too few folds for
        the level, or dependent members.
        """
        _check_kind(kind, IntervalKind)
        return (
            self.answer.interval(level) if kind is None else self.folds.interval(level, kind=kind)
        )

    def lower_bound(
        self, level: float = 0.9, *, kind: BoundKind | None = None, tail_index: float | None = None
    ) -> Bound:
        """Return a lower bound of J at this confidence level; never above the estimate.

        ``"order"`` and ``"t"`` hold if folds are equally often too high and too low; ``"tail-aware"``
        also for left-skewed tails of index `tail_index` in (1, 2). ``"guaranteed"`` is for one-step
        logs with known propensities and non-negative rewards: it holds at any sample size and for any
        tail, and is lower.
        """
        _check_kind(kind, BoundKind)
        if kind == "guaranteed":
            if isinstance(self.answer, OneStepChoice):
                return self.answer.guaranteed_lower_bound(level)
            raise LevelError(
                f"There is no guaranteed bound: it is for weighted rewards, such as those of 'auto' on "
                f"one-step logs, 'ips' and 'tis'. Got {self.method}."
            )
        if kind is None:
            return self.answer.lower_bound(level)
        return self.folds.lower_bound(level, kind=kind, tail_index=tail_index)

    def gain_over(self, rival: Estimate | float | None) -> PairedGain | FoldGain:
        """Return the gain over another estimate, a number, or the logged policy (None)."""
        if isinstance(rival, Estimate):
            if self.choice is not None and rival.choice is not None:
                return self.choice - rival.choice
            return self.folds - rival.folds
        if isinstance(self.answer, Choice):
            known = None if rival is None else Scored.known(float(rival))
            return self.answer - (known or self.answer.logged)
        if rival is None:
            assert isinstance(self.logged, LoggedValue)
            return self.answer - self.logged
        return self.answer - self.answer.known(float(rival))

    def within(self, size: int, *, like: Estimate | None = None) -> Estimate:
        """Return the estimate without its evidence, if that takes more than `size` bytes.

        The evidence of many estimates on a large log would fill the memory. Values, folds and critics
        stay. Arrays of the logged policy are shared with `like`.
        """
        if self.answer.evidence_bytes <= size:
            return self
        shared = None if like is None else like.choice
        return replace(self, answer=self.answer.condensed(shared))

    @property
    def value(self) -> float:
        """The estimate of J(π)."""
        return self.answer.value

    @property
    def standard_error(self) -> float:
        """Standard error of the value; NaN where the method gives none (see `interval`)."""
        return self.answer.standard_error

    @property
    def logged_value(self) -> float:
        """The value of the logged policy, on the same scale and from the same rows."""
        return self.logged.value

    @cached_property
    def gain(self) -> PairedGain | FoldGain:
        """The gain over the logged policy, value − logged_value, with its own interval.

        It is paired by rows or episodes for methods that score them, otherwise by folds.
        """
        return self.gain_over(None)

    @property
    def critics(self) -> Critics | None:
        """The members' critics, if the method has members and its base fits critics."""
        return self.answer.critics if isinstance(self.answer, MemberValues) else None

    @property
    def fold_values(self) -> FloatArray:
        """Ĵ_k of the healthy members, (K,)."""
        return self.folds.fold_values

    @property
    def bad_folds(self) -> tuple[int, ...]:
        """Members that diverged or were not finite, and were left out."""
        return tuple(np.flatnonzero(~np.isfinite(self.folds.all_folds)).tolist())

    def quantile_bound(self, q: float = 0.1, **options: Any) -> Bound:
        """Return the paper's lower bound Q_q({Ĵ_k}) with its true level; see `quantile_bound`."""
        values = self.folds.independent_values(1 - q, "quantile bound")
        return quantile_bound(values, q=q, **options)

    def with_aggregate(self, aggregate: Aggregate) -> Estimate:
        """Return the estimate with another aggregate of the folds, without fitting again."""
        if not isinstance(self.answer, MemberValues):
            raise MethodError(
                f"{self.method} gives one value of the whole log, and nothing to combine. Use a method "
                f"with folds, such as 'roam-dm'."
            )
        if self.method.at == "backup":
            raise MethodError(
                "This method aggregates inside every backup, so another one needs "
                "another fit: call evaluate with Method(..., aggregate=...) instead."
            )
        points, weights = self.answer.point_values, self.answer.point_weights
        if self.method.at == "pointwise" and points is None:
            raise MethodError(
                "This estimate is one of many and was kept without its values at every start, which "
                "another aggregate at 'pointwise' needs: call evaluate for this policy."
            )
        method = replace(self.method, aggregate=aggregate)
        value = combine(method, self.fold_values, points, weights)
        return replace(self, method=method, answer=replace(self.answer, value=value))

    def to_dict(
        self, *, level: float = 0.9, sizes_within: float | None = None
    ) -> dict[str, object]:
        """Return plain numbers, lists and strings, ready for JSON; intervals have this level.

        `sizes_within` adds the gain if sizes of extremes differ by at most that share.
        """
        gain, known = self.gain, void(self.cautions) is None
        return {
            **self.verdict_at(level).to_dict(),
            "value": self.value if known else None,
            "unit": {**plain(self.unit), "text": str(self.unit)},
            **_uncertainty(self, level),
            "logged_value": plain(self.logged_value),
            "gain": {
                "value": plain(gain.value) if known else None,
                "relative": plain(gain.relative) if known else None,
                **_uncertainty(gain, level),
                "parts": _parts(gain, level) if known else None,
                **(
                    {}
                    if sizes_within is None
                    else {"sizes_within": _sized(gain, sizes_within, level)}
                ),
            },
            "tipping_gamma": plain(self.tipping_gamma(level)),
            "on_log": {**plain(self.on_log), "text": str(self.on_log)},
            "cautions": [str(each) for each in self.cautions],
            "fold_values": self.fold_values.tolist(),
            "bad_folds": list(self.bad_folds),
            "method": str(self.method),
            "gamma": self.gamma,
            "seed": self.seed,
            "transitions": self.n_transitions,
            "episodes": self.n_episodes,
            "choice": None if self.choice is None else self.choice.to_dict(),
        }

    def to_frame(self) -> Frame:
        """Return one row per fold: a pandas frame, or a pyarrow table where pandas is missing."""
        values = enumerate(self.fold_values)
        return as_frame([{"fold": k, "value": float(value)} for k, value in values])

    def plot(self, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
        """Draw the value with its interval, beside the logged policy or the folds; return the Axes."""
        from tailproof.report.plots import plot_estimate  # matplotlib is slow to import

        return plot_estimate(self, level=level, ax=ax)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}  # it holds the log

    def blocks(self, *, name: str = "The policy", level: float = 0.9) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import estimate_answer

        return estimate_answer(self, name=name, level=level)

    @property
    def verdict(self) -> GainVerdict:
        """Whether the policy is better than the logged one, with 90 % confidence."""
        return self.verdict_at(0.9)

    def verdict_at(self, level: float) -> GainVerdict:
        """Return whether the policy is better than the logged one, at a confidence level."""
        return verdict_on(self.gain, level=level, cautions=self.cautions)

    def tipping_gamma(self, level: float = 0.9) -> float | None:
        """Return how strong hidden reasons for the logged actions would have to be to overturn this.

        If propensities were estimated, reasons that no state shows may have decided who got what. Γ is
        the factor by which they change the odds of an action, either way, among rows that look alike
        (the marginal sensitivity model): the smallest one at which the bound of the gain reaches 0.
        Infinite if it is above 10; None where the verdict is neither better nor worse, and for logged
        propensities and several steps.
        """
        choice, verdict = self.choice, self.verdict_at(level).word
        found = choice.hidden_reasons if isinstance(choice, OneStepChoice) else None
        if found is None or verdict not in ("better", "worse"):
            return None
        gain = self.gain
        low, high = gain.lower_bound(level).value, upper_bound(gain, level)
        if (found.against > 0) != (verdict == "better"):
            return 1.0  # the mean of the scores is on the other side of 0
        return found.tipping_gamma(low if verdict == "better" else -high, level)

    def by(self, column: str | npt.ArrayLike, *, level: float = 0.9) -> Segments:
        """Return the gain over the logged policy in each segment of the log: for whom is it better?

        It comes from the scores of this estimate; nothing is fitted again. The intervals of all
        segments hold together with this confidence (Bonferroni).

        Parameters
        ----------
        column
            A column of the table that the log was read from, or one value for each of its rows. A
            numeric one with more than 12 values is cut into quarters.
        level
            Confidence that all intervals hold.
        """
        from tailproof.doors.segments import gain_by_segment

        return gain_by_segment(self, column, level=level)

    def __repr__(self) -> str:
        return f"<Estimate {self.value:.4g} {self.unit}; {self.method}>"


def why_no_interval(method: Method, folds: int) -> Caution | None:
    """Return why the members' values give no interval: they are dependent, or only one; or None."""
    if method.at == "backup":
        return Caution(
            "no_interval",
            f"The members of {method} are combined in every backup, so that their values "
            f"depend on each other and no interval of them would hold. {_INSTEAD}",
        )
    if not isinstance(method.partition, Split | Whole):
        return Caution(
            "no_interval",
            f"The members of {method} share data ({method.partition}), so that no "
            f"interval of their values would hold. {_INSTEAD}",
        )
    if folds > 1:
        return None
    return Caution(
        "no_interval",
        f"An interval needs the values of several folds, and {method} has one. {_INSTEAD}",
    )


def _parts(gain: PairedGain | FoldGain, level: float) -> object:
    """Return how often × how large for JSON; None where the gain is not split."""
    parts = gain.parts if isinstance(gain, PairedGain) else None
    return None if parts is None else plain(parts.to_dict(level))


def _sized(gain: PairedGain | FoldGain, change: float, level: float) -> dict[str, Any]:
    """Return the bounds of a gain if sizes differ by at most a share, or why there are none."""
    if not isinstance(gain, PairedGain) or gain.pooling is None:
        return {"within": change, "why_not": "Sizes of extremes are not pooled for this gain."}
    found = gain.sizes_within(change)
    return {
        "within": change,
        **_uncertainty(found, level),
        **verdict_on(found, level=level).to_dict(),
    }


def _uncertainty(of: Estimate | PairedGain | PooledGain | FoldGain, level: float) -> dict[str, Any]:
    """Return the standard error, and intervals and bounds or why there are none."""
    found = {"standard_error": plain(of.standard_error)}
    for name, ask in (("interval", of.interval), ("lower_bound", of.lower_bound)):
        found[name] = or_reason(ask, level)
    return found


def or_reason(ask: Callable[[float], Interval | Bound], level: float) -> Any:
    """Return an interval or a bound, or the reason why there is none, for JSON."""
    try:
        return plain(ask(level))
    except LevelError as error:
        return {"why_not": str(error)}


def _check_kind(kind: str | None, kinds: Any) -> None:
    if kind is not None and kind not in get_args(kinds):
        named = ", ".join(map(repr, get_args(kinds)))
        raise LevelError(f"kind must be one of {named}, or None. Got {kind!r} instead.")


def combine(
    method: Method,
    fold_values: FloatArray,
    point_values: FloatArray | None,
    point_weights: FloatArray | None,
) -> float:
    """Return the aggregate of the members' values, or of their Q at every starting point."""
    if method.at == "value" or point_values is None or point_weights is None:
        return float(method.aggregate(fold_values))
    return float(np.dot(method.aggregate(point_values), point_weights))
