"""Uncertainty of an estimate from the values Z_1, …, Z_K of its K folds.

Write Z_(1) ≤ … ≤ Z_(K) for the sorted values, μ for the mean that every fold estimates, and
p₀ = P(Z ≤ μ). For independent folds with one distribution, the number at or below μ is Bin(K, p₀),
so that P(Z_(j) ≤ μ) = P(Bin(K, p₀) ≥ j). This corrects Theorem 3 of the paper, whose printed inequality
has the wrong direction (constant rewards are a counterexample). Everything below except the t-interval
uses this equation. It does not hold for folds that share data (a bootstrap) or for dependent episodes;
ties only raise the levels.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from tailproof.arrays import FloatArray
from tailproof.ensemble.aggregate import Quantile
from tailproof.errors import FoldError, LevelError, MethodError

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
    if skew not in get_args(Skew):
        raise MethodError(f"skew must be one of {get_args(Skew)}. Got {skew!r} instead.")
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
    note = "exact for the median of the fold law, for the mean only under symmetric tails"
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
    note = "for the median of the fold law; for the mean unless the left tail is the heavier"
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
    if kind not in get_args(Kind):
        raise MethodError(f"kind must be one of {get_args(Kind)}. Got {kind!r} instead.")
    _allowed_miss(level)
    if kind == "fold-t-interval":
        return 2
    aware = kind == "tail-aware-bound" and tail_index is not None
    share = share_below_mean(skew="left" if aware else "symmetric", tail_index=tail_index)
    return _fewest_folds(level, share=share, sides=2 if kind == "order-statistic-interval" else 1)


def theory_folds(delta: float) -> int:
    """Return K = ⌈8·log(2/δ)⌉, the number of folds in the paper's theory: 30 at δ = 0.05."""
    if not 0 < delta < 1:
        raise LevelError(f"delta must lie between 0 and 1. Got {delta!r}: use 0.05 for 95 %.")
    return math.ceil(8 * math.log(2 / delta))


def _order_index(K: int, *, level: float, share: float, sides: int) -> tuple[int, float]:
    """Return the largest j with sides·P(Bin(K, share) < j) ≤ 1 − level, and the level it has."""
    misses = sides * scipy.special.bdtr(np.arange(K), K, share)  # (K,), of j = 1..K
    j = int(np.count_nonzero(misses <= _allowed_miss(level)))
    if j:
        return j, 1 - float(misses[j - 1])
    best, needed = _percent(1 - misses[0]), _fewest_folds(level, share=share, sides=sides)
    raise LevelError(
        f"{K} folds reach at most {best} {'two' if sides == 2 else 'one'}-sided, where a fold is "
        f"below the mean with probability {share:.3g}. Asked for {_percent(level)}: use {needed} "
        f"folds or more ({_percent(1 - sides * (1 - share) ** needed)}), or ask for {best} or less."
    )


def _fewest_folds(level: float, *, share: float, sides: int) -> int:
    K = max(1, math.floor(math.log((1 - level) / sides) / math.log(1 - share)))
    return K if sides * (1 - share) ** K <= _allowed_miss(level) else K + 1


def _allowed_miss(level: float) -> float:
    if not 0 < level < 1:
        raise LevelError(f"A level must lie between 0 and 1. Got {level!r}: use 0.95 for 95 %.")
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
