"""The index α of one tail, with an interval, for a chosen or for every number of extremes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.statistics.tails.estimators import (
    Estimator,
    alpha_interval,
    deviation,
    geometric_grid,
    hill_path,
    invert,
    moment_path,
    pickands_path,
    stable_k,
)
from tailproof.statistics.tails.sample import (
    as_sample,
    check_choice,
    check_level,
    check_theta,
    is_sorted,
    median_of,
)

Side = Literal["right", "left"]

#: With fewer values, a quarter of the sample has fewer than ten extremes.
FEWEST = 40
_PATHS = {"hill": hill_path, "moment": moment_path, "pickands": pickands_path}


@dataclass(frozen=True, kw_only=True)
class TailIndex:
    """The index α of one tail: P(X > x) falls like x^(−α), so moments of order p < α exist."""

    alpha: float = math.nan  # infinite for a light tail, NaN when not estimable
    low: float = math.nan
    high: float = math.nan
    k: int = 0  # number of extremes used
    threshold: float = math.nan  # sample value beyond which they lie
    method: Estimator
    side: Side
    level: float
    reason: str = ""  # why there is no estimate; empty if there is one

    @property
    def estimable(self) -> bool:
        """Whether there is an estimate."""
        return not self.reason

    def __str__(self) -> str:
        """Return the estimate, its interval and its evidence in a few words."""
        if self.reason:
            return f"{self.side} tail: not estimable, {self.reason}"
        return (
            f"{self.side} tail: α = {self.alpha:.2f} [{self.low:.2f}, {self.high:.2f}] "
            f"({self.method}, {self.k} extremes beyond {self.threshold:.4g})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TailPath:
    """The estimate of α, its interval and the threshold, for each number k of extremes."""

    k: IntArray  # (m,)
    alpha: FloatArray  # (m,)
    low: FloatArray  # (m,)
    high: FloatArray  # (m,)
    threshold: FloatArray  # (m,)
    method: Estimator
    side: Side
    level: float


@dataclass(frozen=True, eq=False)
class _Tail:
    """Distances of the extremes from the centre, largest first, and the estimates from them."""

    values: FloatArray  # (m,)
    centre: float
    side: Side
    method: Estimator

    @classmethod
    def of(
        cls, x: FloatArray, side: Side, method: Estimator, centre: float | None, most: int
    ) -> _Tail:
        """Return the part of a tail needed for k up to `most`; the default centre is the median."""
        n = len(x)
        if centre is None:
            centre = float(median_of(x))
        kept = min(n, 4 * most if method == "pickands" else most + 1)
        if kept > 0 and is_sorted(x):
            x = x[n - kept :] if side == "right" else x[:kept]
        beyond = x - centre if side == "right" else centre - x
        if 0 < kept < len(beyond):
            beyond = np.partition(beyond, n - kept)[n - kept :]
        ordered = np.sort(beyond)[::-1]
        if method != "pickands":  # the others take logarithms
            ordered = ordered[ordered > 0]
        return cls(ordered, centre, side, method)

    @cached_property
    def shape(self) -> FloatArray:
        """The estimates of ξ at each k from 1 up."""
        return _PATHS[self.method](self.values) if len(self.values) > 1 else np.empty(0)

    def threshold(self, k: IntArray) -> FloatArray:
        """Return the sample value beyond which the extremes for k lie."""
        edge = self.values[4 * k - 1 if self.method == "pickands" else k]
        return self.centre + edge if self.side == "right" else self.centre - edge


def hill(x: npt.ArrayLike, k: int, *, level: float = 0.95, theta: float = 1.0) -> TailIndex:
    """Estimate the right tail's index from the k largest values, without centring.

    1/α = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1)) (Hill 1975), with the Gamma interval that is exact for
    Pareto values. `tail_index` centres the sample and chooses k.

    Parameters
    ----------
    x
        The sample; its k + 1 largest values must be positive.
    k
        The number of extremes.
    level
        Level of the interval.
    theta
        The extremal index if extremes are clustered: the interval then uses θ·k instead of k.

    Examples
    --------
    >>> x = np.random.default_rng(1).pareto(2.0, 10_000) + 1
    >>> estimate = hill(x, 1000)
    >>> round(estimate.alpha, 2), estimate.low < 2 < estimate.high
    (1.99, True)
    """
    return tail_index(x, method="hill", k=k, centre=0.0, level=level, theta=theta)


def moment(x: npt.ArrayLike, k: int, *, level: float = 0.95, theta: float = 1.0) -> TailIndex:
    """Estimate the right tail's index by log-moments, which also recognise light tails.

    ξ = M₁ + 1 − ½/(1 − M₁²/M₂) (Dekkers, Einmahl and de Haan 1989); α = 1/ξ, infinite for ξ ≤ 0.
    The parameters are those of `hill`.

    >>> x = np.random.default_rng(1).uniform(size=10_000)
    >>> moment(x, 500).low
    inf
    """
    return tail_index(x, method="moment", k=k, centre=0.0, level=level, theta=theta)


def pickands(x: npt.ArrayLike, k: int, *, level: float = 0.95, theta: float = 1.0) -> TailIndex:
    """Estimate the right tail's index from spacings, independent of the sample's location.

    ξ = log₂((X_(k) − X_(2k))/(X_(2k) − X_(4k))) (Pickands 1975), so 4k ≤ n; noisy. The parameters
    are those of `hill`.

    >>> x = np.random.default_rng(1).pareto(1.0, 100_000)
    >>> estimate = pickands(x - 50, 2000)
    >>> estimate.low < 1 < estimate.high
    True
    """
    return tail_index(x, method="pickands", k=k, centre=0.0, level=level, theta=theta)


def tail_index(
    x: npt.ArrayLike,
    *,
    side: Side = "right",
    method: Estimator = "hill",
    k: int | None = None,
    centre: float | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> TailIndex:
    """Estimate the index of one tail of a sample, with a stable k chosen from the data.

    The tail consists of the values beyond `centre`, so that shifting or rescaling the sample changes
    only the threshold. Without k: over k from max(10, n^⅓) to n/4, spaced by a factor 1.5, the
    largest k̂ is found whose estimate agrees with those of all smaller k (`stable_k`), and
    k = k̂/6 is used, because at k̂ the bias may be as large as the noise. The interval is the
    smallest one that contains those at k and at k/4: if the two differ, there is still bias, and it is
    wider.

    The constants were chosen on nine distributions. On eleven others (α from 1.2 to 3) with n = 500 to
    20,000, Hill's 95 % interval covers α in 94 to 96 % of samples on average and in 85 to 91 % on the
    worst, a log-gamma; the moment estimator's in 91 to 93 % (worst 86 %), Pickands' in 96 to 97 %
    (worst 92 %) and twice as wide. Hill's estimate of a light tail is finite but grows with n; the
    moment estimator's is infinite.

    Parameters
    ----------
    x
        The sample, finite.
    side
        "right" or "left".
    method
        "hill" (sharpest for power tails), "moment" (also for light tails) or "pickands".
    k
        The number of extremes; by default chosen from the data. A given k has only its own interval.
    centre
        The origin of distances in the tail; by default the median. Use 0 for positive data that start
        there. Pickands' estimator needs none.
    level
        Level of the interval.
    theta
        The extremal index if extremes are clustered: the choice of k and the interval then use θ·k. A
        storm of a hundred hours is one extreme, not a hundred.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_t(1.5, 20_000)
    >>> right, left = tail_index(x), tail_index(x, side="left")
    >>> right.low < 1.5 < right.high, left.low < 1.5 < left.high
    (True, True)
    >>> print(tail_index(np.repeat([0.0, 1.0], 500)))
    right tail: not estimable, its 11 largest values take 1 distinct value(s) and 4 are needed
    """
    x = _checked(x, side, method, level, theta)
    unknown = TailIndex(method=method, side=side, level=level)
    n = len(x)
    alone = max(10, round((n * theta) ** (1 / 3)))  # smallest number of clusters for a choice of k
    fewest = math.ceil(alone / theta) if k is None else k
    if k is None and n < FEWEST:
        reason = f"the sample has {n} values and at least {FEWEST} are needed"
        return replace(unknown, reason=reason)
    tail = _Tail.of(x, side, method, centre, n // 4 if k is None else k)
    shape, beyond = tail.shape, len(tail.values)
    if k is not None and not 2 <= k <= len(shape):
        raise MethodError(
            f"k must lie between 2 and the number of usable extremes. Got k = {k!r} and "
            f"{beyond} values beyond the centre {tail.centre:g}; take a smaller k or "
            "another centre."
        )
    if len(shape) < fewest:
        reason = f"{beyond} values lie beyond the centre and {fewest + 1} are needed"
        return replace(unknown, reason=reason)
    distinct = 1 + int(np.count_nonzero(np.diff(tail.values[: fewest + 1])))
    needed = 3 if k is not None else max(4, math.ceil(alone / 4))
    if distinct < needed:
        reason = f"its {fewest + 1} largest values take {distinct} distinct value(s) and {needed} "
        return replace(unknown, reason=f"{reason}are needed")
    pair = np.array([k])
    if k is None:  # the k to report, and a smaller one to show its bias
        points = 1 + math.ceil(math.log(len(shape) / fewest, 1.5))
        grid = geometric_grid(fewest, len(shape), points)
        spread = deviation(method, shape[grid - 1]) / math.sqrt(theta)
        stable = stable_k(grid, shape[grid - 1], spread) // 6
        pair = np.array([max(stable, fewest), max(stable // 4, fewest)])
    at = shape[pair - 1]
    if not np.isfinite(at).all():
        reason = f"ties among its {pair[0] + 1} largest values leave no spacing"
        return replace(unknown, reason=reason)
    low, high = alpha_interval(method, at, pair, level=level, theta=theta)
    return replace(
        unknown,
        alpha=float(invert(at)[0]),
        low=float(low.min()),
        high=float(high.max()),
        k=int(pair[0]),
        threshold=float(tail.threshold(pair)[0]),
    )


def tail_path(
    x: npt.ArrayLike,
    *,
    side: Side = "right",
    method: Estimator = "hill",
    centre: float | None = None,
    points: int | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> TailPath:
    """Return the estimate for every k up to a quarter of the sample, in one pass.

    Parameters
    ----------
    x, side, method, centre, level, theta
        As in `tail_index`.
    points
        Keep at most this many k, spaced geometrically, as a plot needs; all by default.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_t(2, 4000)
    >>> path = tail_path(x)
    >>> len(path.k), bool(path.low[199] < 2 < path.high[199])
    (1000, True)
    """
    x = _checked(x, side, method, level, theta)
    tail = _Tail.of(x, side, method, centre, len(x) // 4)
    shape = tail.shape
    if not len(shape):
        raise MethodError(
            f"A path needs two values or more beyond the centre {tail.centre:g} on the {side}. Got "
            f"{len(tail.values)}; choose another centre, or ask tail_index what is missing."
        )
    k = np.arange(1, len(shape) + 1) if points is None else geometric_grid(1, len(shape), points)
    low, high = alpha_interval(method, shape[k - 1], k, level=level, theta=theta)
    alpha, threshold = invert(shape[k - 1]), tail.threshold(k)
    return TailPath(
        k=k,
        alpha=alpha,
        low=low,
        high=high,
        threshold=threshold,
        method=method,
        side=side,
        level=level,
    )


def _checked(
    x: npt.ArrayLike, side: Side, method: Estimator, level: float, theta: float
) -> FloatArray:
    check_choice("side", side, get_args(Side))
    check_choice("method", method, get_args(Estimator))
    check_level(level)
    check_theta(theta)
    return as_sample("x", x)
