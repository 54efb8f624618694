"""Estimates with their evidence, so that other levels and aggregates need no second fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.base import Numbers
from tailproof.critics.ensembles import Critics
from tailproof.critics.task import PolicyOnLog, Task, asked_on_log
from tailproof.doors.verdict import Answered, GainVerdict, verdict_on
from tailproof.errors import LevelError, MethodError
from tailproof.estimators.choice import OneStepChoice, Scored
from tailproof.files import as_frame, plain
from tailproof.log.folds import Split, Whole
from tailproof.log.stored import AnyLog
from tailproof.methods.method import Method
from tailproof.robust.aggregates import Aggregate
from tailproof.robust.gains import (
    FoldGain,
    PairedGain,
    below,
    difference,
    fold_error,
    holding,
)
from tailproof.robust.intervals import (
    Bound,
    Interval,
    fold_t_interval,
    order_statistic_interval,
    order_statistic_lower_bound,
    quantile_bound,
    tail_aware_lower_bound,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.report.blocks import Answer

_LOST = "needs the log, which a stored estimate no longer has: ask before it is stored or sent."
_INSTEAD = "Use method('roam-dm', folds=6), or 'auto'."
IntervalKind = Literal["order", "t"]
BoundKind = Literal["order", "t", "tail-aware", "guaranteed"]


@dataclass(frozen=True, kw_only=True)
class LoggedValue:
    """The value of the logged policy."""

    value: float
    fold_values: FloatArray  # (K,), NaN for a fold that diverged
    how: str  # "returns" or "continued", see `tailproof.doors.evaluate`


@dataclass(frozen=True, kw_only=True)
class ValueUnit:
    """The estimated quantity: its reward, its discount, and per row or per episode."""

    reward: str  # the name of its column
    gamma: float
    per: str  # "row" in one-step logs, otherwise "episode"
    endless: bool  # whether no logged episode terminates, so that the horizon is infinite

    @classmethod
    def of(cls, log: AnyLog, gamma: float) -> ValueUnit:
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


@dataclass(frozen=True)
class Estimate(Answered):
    """The value of a policy by one method, with the K fold values that it combines.

    Attributes
    ----------
    value
        The estimate of J(π).
    fold_values
        Ĵ_k of the healthy members, (K,).
    bad_folds
        Members that diverged or were not finite, and were left out.
    method, gamma, seed
        What to pass to `evaluate` to get the same numbers again.
    critics
        The members' critics, if the base fits any.
    numbers
        The samples and weights behind the fold values, if the base gives any.
    cautions
        Sentences about states and actions of the policy that the log does not cover.
    """

    value: float
    fold_values: FloatArray
    bad_folds: tuple[int, ...]
    method: Method
    gamma: float
    seed: int
    n_transitions: int
    n_episodes: int
    unit: ValueUnit
    critics: Critics | None = field(default=None, repr=False)
    numbers: Numbers | None = field(default=None, repr=False)
    point_values: FloatArray | None = field(default=None, repr=False)  # (K, P) Q_k at starts
    point_weights: FloatArray | None = field(default=None, repr=False)  # (P,)
    condensed: bool = field(default=False, repr=False)
    cautions: tuple[str, ...] = field(default=(), repr=False)
    task: Task | None = field(default=None, repr=False, compare=False)
    logged: Callable[..., LoggedValue] | None = field(default=None, repr=False, compare=False)

    @property
    def standard_error(self) -> float:
        """Standard error of the value; NaN where the method gives none (see `interval`)."""
        if self.choice is not None:
            return self.choice.standard_error
        return float("nan") if self.why_no_folds else fold_error(self.fold_values)

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
        if self.choice is not None and kind is None:
            return self.choice.interval(level)
        values = self._independent_values(level, "interval")
        make = fold_t_interval if kind == "t" else order_statistic_interval
        return holding(make(values, level=level), self.value)

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
            if isinstance(self.choice, OneStepChoice):
                return self.choice.guaranteed_lower_bound(level)
            raise LevelError(
                f"There is no guaranteed bound: it is for weighted rewards, such as those of 'auto' on "
                f"one-step logs, 'ips' and 'tis'. Got {self.method}."
            )
        if self.choice is not None and kind is None:
            return self.choice.lower_bound(level)
        values = self._independent_values(level, "lower bound")
        if kind == "tail-aware":
            found = tail_aware_lower_bound(values, level=level, tail_index=tail_index)
        elif kind == "t":
            if not 0.5 < level < 1:
                raise LevelError(
                    f"level must lie strictly between 0.5 and 1. Got {level!r} instead."
                )
            both = fold_t_interval(values, level=2 * level - 1)
            found = Bound(
                value=both.low, level=level, requested=level, kind="fold t", note=both.note
            )
        else:
            found = order_statistic_lower_bound(values, level=level)
        return below(found, self.value)

    @property
    def logged_value(self) -> float:
        """The value of the logged policy, on the same scale and from the same rows."""
        return self.logged_folds.value if self.choice is None else self.choice.logged_value

    @property
    def gain(self) -> PairedGain | FoldGain:
        """The gain over the logged policy, value − logged_value, with its own interval.

        It is paired by rows or episodes for methods that score them, otherwise by folds.
        """
        if self.choice is not None:
            return replace(self.choice.gain, declined=self.choice.declined)
        paired = self.all_folds - self.logged_folds.fold_values
        return FoldGain(
            value=difference(self.value, self.logged_value),
            reference=self.logged_value,
            fold_values=paired[np.isfinite(paired)],
            declined=self.why_no_folds,
        )

    @cached_property
    def logged_folds(self) -> LoggedValue:
        """The logged policy's value on the folds of the method."""
        if self.logged is None:
            raise MethodError(f"The logged policy's value {_LOST}")
        return self.logged(method=replace(self.method, clip=0.0))  # the log is clipped already

    @cached_property
    def on_log(self) -> PolicyOnLog:
        """The policy's actions in the states of the log, and its agreement with the logged ones."""
        if self.choice is not None and self.choice.on_log is not None:
            return self.choice.on_log
        if self.task is None:
            raise MethodError(f"What the policy does on the log {_LOST}")
        weights = () if self.numbers is None else self.numbers.weights
        return asked_on_log(self.task, weights[0] if len(weights) == 1 else None)

    @property
    def all_folds(self) -> FloatArray:
        """The values of all K folds, NaN for those that were left out, (K,)."""
        values = np.full(len(self.fold_values) + len(self.bad_folds), np.nan)
        values[np.setdiff1d(np.arange(len(values)), self.bad_folds)] = self.fold_values
        return values

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None, "logged": None}  # both hold the log

    def quantile_bound(self, q: float = 0.1, **options: Any) -> Bound:
        """Return the paper's lower bound Q_q({Ĵ_k}) with its true level; see `quantile_bound`."""
        return quantile_bound(self._independent_values(1 - q, "quantile bound"), q=q, **options)

    @property
    def choice(self) -> Scored | None:
        """What the default method chose and why; None for methods without a choice."""
        return None if self.numbers is None else self.numbers.choice

    def with_aggregate(self, aggregate: Aggregate) -> Estimate:
        """Return the estimate with another aggregate, without fitting again."""
        if self.method.at == "backup":
            raise MethodError(
                "The aggregate stands inside every backup of this method, so another one needs "
                "another fit: call evaluate with Method(..., aggregate=...) instead."
            )
        if self.condensed and self.method.at == "pointwise":
            raise MethodError(
                "This estimate is one of many and was kept without its values at every start, which "
                "another aggregate at 'pointwise' needs: call evaluate for this policy."
            )
        method = replace(self.method, aggregate=aggregate)
        value = combine(method, self.fold_values, self.point_values, self.point_weights)
        return replace(self, method=method, value=value)

    def within(self, size: int, *, like: Estimate | None = None) -> Estimate:
        """Return the estimate without its evidence, if that takes more than `size` bytes.

        The evidence of many estimates on a large log would fill the memory. Values, folds and critics
        stay; another aggregate then needs another fit. Arrays of the logged policy are shared with
        `like`.
        """
        arrays = [self.point_values, self.point_weights]
        if self.numbers is not None:
            arrays += [*(self.numbers.samples or ()), *(self.numbers.weights or ())]
        if self.choice is not None:
            arrays += [self.choice.influence, self.choice.logged_influence]
        if sum(each.nbytes for each in arrays if each is not None) <= size:
            return self
        kept = None
        if self.choice is not None:
            other = None if like is None else like.choice
            kept = Numbers(self.fold_values, choice=self.choice.condensed(other))
        return replace(self, numbers=kept, point_values=None, point_weights=None, condensed=True)

    def to_dict(self, *, level: float = 0.9) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON; intervals have this level."""
        return {
            **verdict_on(self.gain, level=level).to_dict(),
            "value": self.value,
            "unit": {**plain(self.unit), "text": str(self.unit)},
            **_uncertainty(self, level),
            "logged_value": plain(self.logged_value),
            "gain": {
                "value": plain(self.gain.value),
                "relative": plain(self.gain.relative),
                **_uncertainty(self.gain, level),
            },
            "on_log": {**plain(self.on_log), "text": str(self.on_log)},
            "cautions": list(self.cautions),
            "fold_values": self.fold_values.tolist(),
            "bad_folds": list(self.bad_folds),
            "method": str(self.method),
            "gamma": self.gamma,
            "seed": self.seed,
            "transitions": self.n_transitions,
            "episodes": self.n_episodes,
            "choice": None if self.choice is None else self.choice.to_dict(),
        }

    def to_frame(self) -> Any:
        """Return one row per fold: a pandas frame, or a pyarrow table where pandas is missing."""
        values = enumerate(self.fold_values)
        return as_frame([{"fold": k, "value": float(value)} for k, value in values])

    def plot(self, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
        """Draw the value with its interval, beside the logged policy or the folds; return the Axes."""
        from tailproof.report.plots import plot_estimate  # matplotlib is slow to import

        return plot_estimate(self, level=level, ax=ax)

    def blocks(self, *, name: str = "The policy", level: float = 0.9) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.answers import estimate_answer

        return estimate_answer(self, name=name, level=level)

    @property
    def verdict(self) -> GainVerdict:
        """Whether the policy is better than the logged one, with 90 % confidence."""
        return verdict_on(self.gain, level=0.9)

    @property
    def why_no_folds(self) -> str | None:
        """Why the members' values give no interval: they are dependent, or only one; or None."""
        if self.method.at == "backup":
            return (
                f"The members of {self.method} are combined in every backup, so that their values "
                f"depend on each other and no interval of them would hold. {_INSTEAD}"
            )
        if not isinstance(self.method.partition, Split | Whole):
            return (
                f"The members of {self.method} share data ({self.method.partition}), so that no "
                f"interval of their values would hold. {_INSTEAD}"
            )
        if len(self.fold_values) > 1:
            return None
        return (
            f"An interval needs the values of several folds. {self.method} has one; use for "
            f"instance method('roam-dm', folds=6), or Method(..., partition=Split(6))."
        )

    def _independent_values(self, level: float, what: str) -> FloatArray:
        if why := self.why_no_folds:
            raise LevelError(f"There is no {100 * level:g} % {what}. {why}")
        return self.fold_values

    def __repr__(self) -> str:
        return f"<Estimate {self.value:.4g} {self.unit}; {self.method}>"


def _uncertainty(of: Estimate | PairedGain | FoldGain, level: float) -> dict[str, Any]:
    """Return the standard error, and intervals and bounds or why there are none."""
    found = {"standard_error": plain(of.standard_error)}
    for name, ask in (("interval", of.interval), ("lower_bound", of.lower_bound)):
        try:
            found[name] = plain(ask(level))
        except LevelError as error:
            found[name] = {"why_not": str(error)}
    return found


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
