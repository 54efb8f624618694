"""Interval ends: from the values of K folds, and of weighted quantiles and tail means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import betainc

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.errors import FoldError, LevelError, MethodError
from tailproof.parameters import LEVEL, OneOf, require
from tailproof.robust.aggregates import Quantile
from tailproof.robust.tails import check_level

Skew = Literal["symmetric", "left", "right"]
Rule = Literal["lower", "linear"]
Kind = Literal[
    "order-statistic-interval", "fold-t-interval", "order-statistic-bound", "tail-aware-bound"
]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Two ends, the `level` at which they hold, the `requested` level, and a note on its validity."""

    low: float
    high: float
    level: float
    requested: float
    kind: str
    note: str

    def __str__(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g} ({100 * self.level:.4g} %)"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A lower bound, the `level` at which it holds, the `requested` one, and a note on its validity."""

    value: float
    level: float
    requested: float
    kind: str
    note: str

    def __str__(self) -> str:
        return f"above {self.value:.4g} ({100 * self.level:.4g} %)"


def share_below_mean(*, skew: Skew = "symmetric", tail_index: float | None = None) -> float:
    """Return p₀ = P(Z ≤ μ), the probability that a large fold's value is at or below the mean.

    If the tail of index α in (1, 2) is all on one side, fold means tend to a totally skewed stable law
    with p₀ = 1 − 1/α (left tail) or 1/α (right tail). Symmetric tails and α ≥ 2 give ½. The left value,
    the smallest of all stable laws of index α, grows with α: a low guess of α is safe. A right tail of
    unknown index gives ½, which is conservative. Left limits are approached from below, right ones from
    above: with 20, 200, 2,000 draws per fold −Pareto(1.5) has p₀ = 0.27, 0.30, 0.32 (limit 0.33),
    −Pareto(1.8) 0.33, 0.38, 0.40 (limit 0.44), −Pareto(2.5) 0.40, 0.44, 0.47 (limit 0.5). Middle levels
    are affected most: with 8,000 draws per fold of −Pareto(1.5) and K = 12, the reported 94.6 % covered
    94.5 %, but 60.7 % covered 58.1 %.

    >>> round(share_below_mean(skew="left", tail_index=1.5), 4)
    0.3333
    """
    require(OneOf(*get_args(Skew)), skew=skew)
    if skew == "symmetric" or (skew == "right" and tail_index is None):
        return 0.5
    if tail_index is None or math.isnan(tail_index):
        raise MethodError(f"A {skew} tail needs a tail_index above 1. Got {tail_index} instead.")
    if tail_index <= 1:
        raise LevelError(f"A tail of index {tail_index:.4g} has no mean to bound: bound a median.")
    return max(0.5, 1 / tail_index) if skew == "right" else min(0.5, 1 - 1 / tail_index)


def order_statistic_interval(values: npt.ArrayLike, *, level: float) -> Interval:
    """Return the narrowest [Z_(j), Z_(K+1−j)] whose exact level 1 − 2·P(Bin(K, ½) < j) suffices.

    That level is exact for the *median* of any continuous distribution of folds, for the mean only if
    the two agree, as under symmetric tails. Otherwise the mean is covered with P(j ≤ Bin(K, p₀) ≤ K −
    j): 82 % instead of 96 % at K = 12, p₀ = 1/3. Raises a `LevelError` if K is too small: 5 folds reach
    93.75 %, 6 reach 96.875 %.

    >>> interval = order_statistic_interval([3.0, 1.0, 2.0, 5.0, 4.0, 9.0], level=0.95)
    >>> interval.low, interval.high, interval.level
    (1.0, 9.0, 0.96875)
    """
    ordered = _sorted_folds(values)  # (K,)
    j, reached = _order_index(len(ordered), level=level, share=0.5, sides=2)
    low, high, kind = float(ordered[j - 1]), float(ordered[-j]), "order-statistic-interval"
    note = (
        "exact for the median of the folds' distribution, for the mean only under symmetric tails"
    )
    return Interval(low=low, high=high, level=reached, requested=level, kind=kind, note=note)


def fold_t_interval(values: npt.ArrayLike, *, level: float) -> Interval:
    """Return mean ± t_{K−1}·s/√K of K ≥ 2 fold values.

    The level is nominal: exact for Gaussian folds and, at 95 % and above, conservative for scale
    mixtures of Gaussians such as Student t and symmetric stable laws (Bakirov and Székely 2005).
    At much lower levels it undercovers: 50 % covered 44 % for t of df 1.5, K = 8. It is not valid under
    skew: 95 % covered 84 % (K = 5) and 81 % (K = 12) for folds of 1,000 centred Pareto(1.5).

    >>> interval = fold_t_interval([1.0, 2.0, 3.0], level=0.95)
    >>> round(interval.low, 3), round(interval.high, 3)
    (-0.484, 4.484)
    """
    ordered = _sorted_folds(values)  # (K,)
    _allowed_miss(level)
    if (K := len(ordered)) < 2:
        raise LevelError("A fold t-interval needs the spread of 2 folds or more. Got 1 fold.")
    mean = float(ordered.mean())
    half = float(scipy.special.stdtrit(K - 1, (1 + level) / 2) * ordered.std(ddof=1)) / math.sqrt(K)
    low, high, kind = mean - half, mean + half, "fold-t-interval"
    note = "nominal: conservative from 95 % under symmetric heavy tails, no claim under skew"
    return Interval(low=low, high=high, level=level, requested=level, kind=kind, note=note)


def quantile_bound(
    values: npt.ArrayLike,
    *,
    q: float,
    rule: Rule = "lower",
    tail_index: float | None = None,
    skew: Skew = "symmetric",
) -> Bound:
    """Return the paper's lower bound Q_q(Z_1, …, Z_K) with its true level P(Bin(K, p₀) ≥ j).

    The paper (section 4.1) calls it a 1 − q bound: that is `requested`. Its level is that of the
    order statistic that q selects by the `rule` of `aggregate.Quantile`: j = max(1, ⌈qK⌉) for
    "lower", with a warning if qK < 1 makes it the minimum. "linear" lies between two order statistics;
    the level of the upper one, which it cannot exceed, is reported. p₀ is `share_below_mean` of
    `skew` and `tail_index`: a right tail of unknown index gets the symmetric level, which is safe.

    >>> quantile_bound([1.0, 2.0, 3.0, 4.0, 5.0], q=0.25).level
    0.8125
    """
    ordered = _sorted_folds(values)  # (K,)
    share, K = share_below_mean(skew=skew, tail_index=tail_index), len(ordered)
    # apply the rule to the ranks too, so that j is the rank that q selects
    both = np.column_stack([ordered, np.arange(1.0, K + 1)])  # (K, 2)
    value, rank = Quantile(q, rule)(both).tolist()
    level = 1 - float(scipy.special.bdtr(math.ceil(rank - 1e-9) - 1, K, share))
    note = f"the paper calls it a {_percent(1 - q)} bound; this level is for {skew} tails"
    return Bound(value=value, level=level, requested=1 - q, kind="quantile-bound", note=note)


def order_statistic_lower_bound(values: npt.ArrayLike, *, level: float) -> Bound:
    """Return Z_(j) of the largest j with P(Bin(K, ½) < j) ≤ 1 − level.

    Its level is exact for the median of the folds' distribution, hence for the mean under symmetric
    tails, and conservative for the mean under a right tail (p₀ > ½). Under a left tail it is not valid.

    >>> order_statistic_lower_bound([3.0, 1.0, 2.0, 5.0, 4.0], level=0.95).level
    0.96875
    """
    note = "for the median of the folds' distribution; for the mean unless the left tail is the heavier"
    bound = tail_aware_lower_bound(values, level=level)  # p₀ = ½ without an index
    return replace(bound, kind="order-statistic-bound", note=note)


def tail_aware_lower_bound(
    values: npt.ArrayLike, *, level: float, tail_index: float | None = None
) -> Bound:
    """Return Z_(j) of the largest j with P(Bin(K, p₀) < j) ≤ δ = 1 − level, p₀ = 1 − 1/α.

    The minimum misses with (1 − p₀)^K = α^−K, so K ≥ log(1/δ)/log α folds are needed. The level holds
    for large folds of any skew with index α (`tail_index`), a left tail being the worst case; with a
    left tail, small folds undercover (`share_below_mean`). Without an index p₀ = ½, as for α ≥ 2.

    >>> bound = tail_aware_lower_bound([4.0, 8, 6, 2, 7, 3, 5, 9], level=0.95, tail_index=1.5)
    >>> bound.value, round(bound.level, 3)
    (2.0, 0.961)
    """
    ordered = _sorted_folds(values)  # (K,)
    share, note = 0.5, "no tail index given: symmetric tails assumed"
    if tail_index is not None:
        share = share_below_mean(skew="left", tail_index=tail_index)
        note = f"for large folds whose left tail has an index of {tail_index:.4g} or more"
    j, reached = _order_index(len(ordered), level=level, share=share, sides=1)
    value, kind = float(ordered[j - 1]), "tail-aware-bound"
    return Bound(value=value, level=reached, requested=level, kind=kind, note=note)


def folds_for(
    level: float, kind: Kind = "order-statistic-interval", *, tail_index: float | None = None
) -> int:
    """Return the smallest K that reaches `level`: s·(1 − p₀)^K ≤ 1 − level, with s sides.

    >>> folds_for(0.95), folds_for(0.95, "tail-aware-bound", tail_index=1.2)
    (6, 17)
    """
    require(OneOf(*get_args(Kind)), kind=kind)
    _allowed_miss(level)
    if kind == "fold-t-interval":
        return 2
    aware = kind == "tail-aware-bound" and tail_index is not None
    share = share_below_mean(skew="left" if aware else "symmetric", tail_index=tail_index)
    return _fewest_folds(level, share=share, sides=2 if kind == "order-statistic-interval" else 1)


def theory_folds(delta: float) -> int:
    """Return K = ⌈8·log(2/δ)⌉, the number of folds in the paper's theory: 30 at δ = 0.05."""
    require(LEVEL, LevelError, delta=delta)
    return math.ceil(8 * math.log(2 / delta))


def _order_index(K: int, *, level: float, share: float, sides: int) -> tuple[int, float]:
    """Return the largest j with sides·P(Bin(K, share) < j) ≤ 1 − level, and the level it has."""
    misses = sides * scipy.special.bdtr(np.arange(K), K, share)  # (K,), of j = 1..K
    j = int(np.count_nonzero(misses <= _allowed_miss(level)))
    if j:
        return j, 1 - float(misses[j - 1])
    best, needed = _percent(1 - misses[0]), _fewest_folds(level, share=share, sides=sides)
    raise LevelError(
        f"{K} folds reach at most {best} {'two' if sides == 2 else 'one'}-sided, if a fold is "
        f"below the mean with probability {share:.3g}. Asked for {_percent(level)}: use {needed} "
        f"folds or more ({_percent(1 - sides * (1 - share) ** needed)}), or ask for {best} or less."
    )


def _fewest_folds(level: float, *, share: float, sides: int) -> int:
    K = max(1, math.floor(math.log((1 - level) / sides) / math.log(1 - share)))
    return K if sides * (1 - share) ** K <= _allowed_miss(level) else K + 1


def _allowed_miss(level: float) -> float:
    check_level(level)
    # rounding must not reject a level that is met exactly, such as 0.9375 with 5 folds
    return (1 - level) * (1 + 1e-9)


def _sorted_folds(values: npt.ArrayLike) -> FloatArray:
    folds = np.asarray(values, dtype=float)
    if folds.ndim != 1 or not len(folds):
        raise FoldError(f"Fold values must have the shape (K,), K ≥ 1. Got {folds.shape} instead.")
    if bad := np.count_nonzero(~np.isfinite(folds)):
        raise FoldError(f"Fold values must be finite. Got {bad} of {len(folds)} not: drop them.")
    return np.sort(folds)


def _percent(level: float) -> str:
    return f"{math.floor(1e6 * level + 1e-6) / 1e4:.6g} %"  # rounded down, to be reachable


_ADDED = 5  # pseudo-samples of typical weight on each side of a quantile, to stabilise its weights


def weighted_quantile(values: FloatArray, weights: FloatArray, q: float) -> float:
    """Return the smallest value v with F̂(v) ≥ q, where F̂(v) = Σ w 1(x ≤ v) / Σ w.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), 0.5)
    1.0
    """
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    place = int(np.searchsorted(share, q * share[-1] * (1 - 1e-12)))
    return float(values[order[min(place, len(order) - 1)]])


def quantile_ends(
    values: FloatArray,
    weights: FloatArray,
    q: float,
    *,
    below: float,
    above: float,
    unit: IntArray | None = None,
) -> tuple[float, float]:
    """Return interval ends of the q-quantile, with error probabilities `below` and `above`.

    The quantile is at most v if F(v) ≥ q. For each v this is tested by the exact binomial test (Clopper
    and Pearson 1934) of m F̂(v) successes in m trials, where m is the number of equally weighted
    independent samples for which F̂(v) would have the same variance if F(v) were q. With w of mean 1
    and w̄₋, w̄₊ the weighted means of the weights up to v and beyond it, m = n / ((1 − q) w̄₋ + q w̄₊),
    divided by the design effect of units. The upper end is infinite if too few samples lie beyond the
    quantile to bound it.

    Parameters
    ----------
    unit
        The index of the independent unit of each sample, (n,); by default each is its own.

    Examples
    --------
    >>> x = np.arange(1.0, 101.0)
    >>> quantile_ends(x, np.ones(100), 0.5, below=0.05, above=0.05)
    (42.0, 59.0)
    >>> quantile_ends(x, np.ones(100), 0.999, below=0.05, above=0.05)
    (99.0, inf)
    """
    order = np.argsort(values, kind="stable")
    x, w = values[order], weights[order] / weights.mean()
    total, squares = np.cumsum(w), np.cumsum(w**2)
    typical = squares[-1] / total[-1]
    added = _ADDED * typical
    last = np.flatnonzero(np.append(x[1:] > x[:-1], True))  # last index of each distinct value
    effect = 1.0
    if unit is not None:
        at = weighted_quantile(x, w, q)
        effect = design_effect(w, x <= at, unit[order])

    def test(place: int) -> tuple[float, float]:
        """Return the p-values of F̂ at this distinct value, upper and lower, if F were q."""
        i = int(last[place])
        share = min(total[i] / total[-1], 1.0)
        # few samples on one side may lack heavy weights: add some of typical weight
        within = (squares[i] + added * typical) / (total[i] + added)
        beyond = (squares[-1] - squares[i] + added * typical) / (total[-1] - total[i] + added)
        m = len(x) / ((1 - q) * within + q * beyond) / effect
        k, rest = m * share, m * (1 - share)
        as_high = betainc(k, rest + 1, q) if k > 0 else 1.0
        as_low = betainc(rest, k + 1, 1 - q) if rest > 0 else 1.0
        return float(as_high), float(as_low)

    low = _first(lambda place: test(place)[1] > below, len(last))
    high = _first(lambda place: test(place)[0] <= above, len(last))
    return (
        float(x[last[min(low, len(last) - 1)]]),
        float(x[last[high]]) if high < len(last) else float("inf"),
    )


def design_effect(weights: FloatArray, inside: BoolArray, unit: IntArray) -> float:
    """Return the variance of a weighted share over that of independent samples, ≥ 1."""
    parts: FloatArray = weights * (inside - np.average(inside, weights=weights))
    if not parts.any():
        parts = weights
    sums = np.bincount(unit, weights=parts)
    count = int((np.bincount(unit) > 0).sum())
    return max(float((sums**2).sum() / (parts**2).sum()) * count / max(count - 1, 1), 1.0)


def tail_mean(values: FloatArray, weights: FloatArray, q: float) -> tuple[float, FloatArray]:
    """Return the mean of the lowest share q (CVaR, expected shortfall) and its influence, (n,).

    With ξ the q-quantile and w of mean 1, c = ξ − mean(w (ξ − x)₊) / q (Rockafellar and Uryasev 2000);
    an error in ξ has only a second-order effect, so that the influence of a sample is
    w (ξ − (ξ − x)₊ / q − c).

    >>> tail_mean(np.arange(1.0, 101.0), np.ones(100), 0.05)[0]
    3.0
    """
    w = weights / weights.mean()
    quantile = weighted_quantile(values, weights, q)
    parts = quantile - np.maximum(quantile - values, 0) / q
    value = float((w * parts).mean())
    return value, w * (parts - value)


def _first(holds: Callable[[int], bool], count: int) -> int:
    """Return the first index below `count` from which a monotone condition holds, or `count`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
