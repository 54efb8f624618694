"""Results: frozen, with the evidence they rest on, so that they can be asked again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.default.choice import Scored
from tailproof.algorithms.one_step.choice import OneStepChoice
from tailproof.arrays import FloatArray
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import Critics
from tailproof.errors import LevelError, MethodError
from tailproof.files.frames import as_frame
from tailproof.methods.method import Method
from tailproof.statistics.intervals import (
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

IntervalKind = Literal["order", "t"]
BoundKind = Literal["order", "t", "tail-aware", "guaranteed"]


@dataclass(frozen=True)
class Estimate:
    """How good a policy is, by one method, with the K values it was combined from.

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
    """

    value: float
    fold_values: FloatArray
    bad_folds: tuple[int, ...]
    method: Method
    gamma: float
    seed: int
    n_transitions: int
    n_episodes: int
    critics: Critics | None = field(default=None, repr=False)
    numbers: Numbers | None = field(default=None, repr=False)
    point_values: FloatArray | None = field(default=None, repr=False)  # (K, P) Q_k at starts
    point_weights: FloatArray | None = field(default=None, repr=False)  # (P,)
    condensed: bool = field(default=False, repr=False)

    def interval(self, level: float = 0.9, *, kind: IntervalKind = "order") -> Interval:
        """Return a two-sided interval from the fold values.

        ``"order"`` (order statistics) covers the median of the fold law exactly, and J where folds
        are as often too high as too low; ``"t"`` is mean ± t·s/√K, conservative for symmetric heavy
        tails. Neither claims its level for strongly skewed rewards, nor at ``at="backup"``, where the
        members are not independent. A level that K folds cannot reach is a `LevelError`.
        """
        if self.choice is not None:
            return self.choice.interval(level)
        values = self._independent_values()
        if kind == "order":
            return order_statistic_interval(values, level=level)
        if kind == "t":
            return fold_t_interval(values, level=level)
        raise LevelError(f"kind must be 'order' or 't'. Got {kind!r} instead.")

    def lower_bound(
        self, level: float = 0.9, *, kind: BoundKind = "order", tail_index: float | None = None
    ) -> Bound:
        """Return a value that J exceeds with at least this confidence.

        ``"tail-aware"`` holds for left-skewed tails of index `tail_index` in (1, 2) too; the others
        for folds that are as often too high as too low. ``"guaranteed"`` is for one-step logs whose
        propensities are known and whose rewards are never negative: it holds at any sample size,
        whatever the tail, and is lower.
        """
        if kind == "guaranteed":
            return self._guaranteed(level)
        if self.choice is not None:
            return self.choice.lower_bound(level)
        values = self._independent_values()
        if kind == "order":
            return order_statistic_lower_bound(values, level=level)
        if kind == "tail-aware":
            return tail_aware_lower_bound(values, level=level, tail_index=tail_index)
        if kind == "t":
            if not 0.5 < level < 1:
                raise LevelError(
                    f"level must lie strictly between 0.5 and 1. Got {level!r} instead."
                )
            both = fold_t_interval(values, level=2 * level - 1)
            return Bound(
                value=both.low, level=level, requested=level, kind="fold t", note=both.note
            )
        raise LevelError(
            f"kind must be 'order', 't', 'tail-aware' or 'guaranteed'. Got {kind!r} instead."
        )

    def _guaranteed(self, level: float) -> Bound:
        if isinstance(self.choice, OneStepChoice):
            return self.choice.guaranteed_lower_bound(level)
        raise LevelError(
            f"There is no guaranteed bound: it is for weighted rewards, such as those of 'auto' on "
            f"one-step logs, 'ips' and 'tis'. Got {self.method}."
        )

    def quantile_bound(self, q: float = 0.1, **options: Any) -> Bound:
        """Return the paper's lower bound Q_q({Ĵ_k}) with its true level; see `quantile_bound`."""
        return quantile_bound(self._independent_values(), q=q, **options)

    @property
    def choice(self) -> Scored | None:
        """What the default method chose and why; None for methods that leave no choice."""
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

    def within(self, size: int) -> Estimate:
        """Return the estimate without its evidence, if that takes more than `size` bytes.

        Of many estimates on a large log the evidence would fill the memory. Values, folds and critics
        stay; another aggregate then needs another fit.
        """
        arrays = [self.point_values, self.point_weights]
        if self.numbers is not None:
            arrays += [*(self.numbers.samples or ()), *(self.numbers.weights or ())]
        if sum(each.nbytes for each in arrays if each is not None) <= size:
            return self
        kept = None
        if self.choice is not None:
            kept = Numbers(self.fold_values, choice=self.choice.condensed())
        return replace(self, numbers=kept, point_values=None, point_weights=None, condensed=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "value": self.value,
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
        """Return a row a fold: a pandas frame, or a pyarrow table where pandas is missing."""
        return as_frame(
            [{"fold": k, "value": float(value)} for k, value in enumerate(self.fold_values)]
        )

    def plot(self, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
        """Draw the value with its interval, beside the logged policy or the folds; return the Axes."""
        from tailproof.plotting.results import plot_estimate  # matplotlib is for those who look

        return plot_estimate(self, level=level, ax=ax)

    def _repr_html_(self) -> str:
        from tailproof.report.notebook import estimate_html  # pages are for those who look

        return estimate_html(self)

    def _independent_values(self) -> FloatArray:
        if len(self.fold_values) < 2:
            raise LevelError(
                f"An interval needs the values of several folds. {self.method} has one; use for "
                f"instance method('roam-dm', folds=6), or Method(..., partition=Split(6))."
            )
        return self.fold_values

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.method}; {self.n_episodes} episodes, γ = {self.gamma:g})"


def combine(
    method: Method,
    fold_values: FloatArray,
    point_values: FloatArray | None,
    point_weights: FloatArray | None,
) -> float:
    """Return the aggregate of the members, at the value or at every starting point."""
    if method.at == "value" or point_values is None or point_weights is None:
        return float(method.aggregate(fold_values))
    return float(np.dot(method.aggregate(point_values), point_weights))
