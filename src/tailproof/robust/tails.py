"""How heavy the tails of a sample are: index, moments that exist, skew, clustering, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from tailproof.arrays import FloatArray, IntArray, require_finite
from tailproof.errors import LevelError, LogError, MethodError
from tailproof.log.validation import runs as episode_runs
from tailproof.parameters import POSITIVE, OneOf, Within, require

# differences of larger values could overflow in every centred statistic
LARGEST = 1e300


def as_sample(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return values as finite doubles (n,), n ≥ 1; raise if they are invalid."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise LogError(
            f"{name} must be real numbers. Got dtype {array.dtype}; encode categories first."
        )
    if array.ndim != 1:
        raise LogError(
            f"{name} must be one sample of shape (n,). Got shape {array.shape}; pass one column."
        )
    if not len(array):
        raise LogError(f"{name} must hold at least one value. Got none; check the log's filter.")
    array = array.astype(float, copy=False)
    require_finite(name, array, LogError)
    if (largest := float(np.abs(array).max())) > LARGEST:
        raise LogError(
            f"{name} must lie within ±{LARGEST:g}. Got a value of size {largest:g}; rescale first."
        )
    return array


def check_level(level: float) -> None:
    """Raise `LevelError` unless 0 < level < 1."""
    if not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise LevelError(f"A level must lie between 0 and 1. Got {level!r}: use 0.95 for 95 %.")


def check_theta(theta: float) -> None:
    """Raise `MethodError` unless theta is an extremal index, 0 < theta ≤ 1."""
    require(Within("(0, 1]"), theta=theta)


def median_of(values: FloatArray) -> FloatArray:
    """Return the median along the last axis.

    One partition is several times faster than `numpy.median`, and sorted values need none.
    """
    middle = values.shape[-1] // 2
    parted = values if is_sorted(values) else np.partition(values, middle, axis=-1)
    upper: FloatArray = parted[..., middle]
    if values.shape[-1] % 2:
        return upper
    lower: FloatArray = parted[..., :middle].max(axis=-1)
    return (lower + upper) / 2


def is_sorted(values: FloatArray) -> bool:
    """Return whether values (n,) are sorted in ascending order."""
    return values.ndim == 1 and bool((values[1:] >= values[:-1]).all())


def unit_scale(values: FloatArray) -> FloatArray:
    """Return values divided by a power of two, all within ±1, so that no square of one overflows.

    >>> unit_scale(np.array([3.0, -1.0]))
    array([ 0.75, -0.25])
    """
    scaled: FloatArray = values * math.ldexp(1.0, -_exponent(values))
    return scaled


def deviation_of(values: FloatArray) -> float:
    """Return the standard deviation, without overflow for values as large as `LARGEST`."""
    return math.ldexp(float(unit_scale(values).std()), _exponent(values))


def _exponent(values: FloatArray) -> int:
    """Return the binary exponent of the largest magnitude, at least −1000."""
    return max(math.frexp(float(np.abs(values).max()))[1], -1000)


def hill_path(descending: FloatArray) -> FloatArray:
    """Return ξ_k = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1)) for k = 1, …, m − 1 (Hill 1975)."""
    return _log_moments(descending)[0]


def moment_path(descending: FloatArray) -> FloatArray:
    """Return ξ_k = M₁ + 1 − ½/(1 − M₁²/M₂) for k = 1, …, m − 1 (Dekkers, Einmahl, de Haan 1989).

    M_j = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1))^j. One value has no spread, so k = 1 gives NaN.
    """
    first, second = _log_moments(descending)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = 1 - first**2 / second
        path = first + 1 - 0.5 / spread
    # for equal values the spread is only rounding errors
    return np.where(spread > 1e-12, path, np.nan)


def alpha_interval(
    shape: FloatArray, k: IntArray, *, level: float, theta: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of an interval for α = 1/ξ from Hill's estimates ξ_k.

    k·ξ_k/ξ is Gamma(k, 1) for exact Pareto values, so α lies between the Gamma quantiles over k·ξ_k.
    Clustered values count as θ·k, not k.
    """
    count = k * theta
    miss = (1 - level) / 2
    low, high = (
        invert(shape) * scipy.special.gammaincinv(count, share) / count
        for share in (miss, 1 - miss)
    )
    return low, high


def invert(shape: FloatArray) -> FloatArray:
    """Return α = 1/ξ, infinite for ξ = 0."""
    with np.errstate(divide="ignore"):
        return 1 / shape


def stable_k(k: IntArray, shape: FloatArray, spread: FloatArray, *, tolerance: float = 3.0) -> int:
    """Return the largest k whose estimate agrees with those of all smaller k.

    k is accepted while |ξ_i − ξ_k| ≤ tolerance·σ_i/√i for every i ≤ k of the grid: Lepski's rule,
    as Boucheron and Thomas (2015) use it for Hill's estimator.
    """
    band = tolerance * spread / np.sqrt(k)
    ceiling = np.minimum.accumulate(shape + band)
    floor = np.maximum.accumulate(shape - band)
    broken = ~((shape <= ceiling) & (shape >= floor))  # true for NaN too
    return int(k[-1] if not broken.any() else k[max(int(np.argmax(broken)) - 1, 0)])


def geometric_grid(first: int, last: int, points: int) -> IntArray:
    """Return at most `points` whole numbers from first to last, evenly spaced in ratio."""
    return np.unique(np.geomspace(first, last, max(points, 1)).round().astype(int))


def _log_moments(descending: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return M₁ and M₂ for k = 1, …, m − 1."""
    below = np.log(descending[0]) - np.log(descending)  # (m,), ascending from 0, for accuracy
    k = np.arange(1, len(below))
    sums, squares = np.cumsum(below)[:-1] / k, np.cumsum(below**2)[:-1] / k
    last = below[1:]
    first = last - sums
    return np.maximum(first, 0), np.maximum(squares - 2 * last * sums + last**2, 0)


Side = Literal["right", "left"]

#: With fewer values, a quarter of the sample has fewer than ten extremes.
FEWEST = 40


@dataclass(frozen=True, kw_only=True)
class TailIndex:
    """The index α of one tail: P(X > x) falls like x^(−α), so moments of order p < α exist."""

    alpha: float = math.nan  # infinite for a light tail, NaN when not estimable
    low: float = math.nan
    high: float = math.nan
    k: int = 0  # number of extremes used
    threshold: float = math.nan  # sample value beyond which they lie
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
            f"(Hill, {self.k} extremes beyond {self.threshold:.4g})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TailPath:
    """The estimate of α, its interval and the threshold, for each number k of extremes."""

    k: IntArray  # (m,)
    alpha: FloatArray  # (m,)
    low: FloatArray  # (m,)
    high: FloatArray  # (m,)
    threshold: FloatArray  # (m,)
    side: Side
    level: float


@dataclass(frozen=True, eq=False)
class _Tail:
    """Distances of the extremes from the centre, largest first, and the estimates from them."""

    values: FloatArray  # (m,)
    centre: float
    side: Side

    @classmethod
    def of(cls, x: FloatArray, side: Side, centre: float | None, most: int) -> _Tail:
        """Return the part of a tail needed for k up to `most`; the default centre is the median."""
        n = len(x)
        if centre is None:
            centre = float(median_of(x))
        kept = min(n, most + 1)
        if kept > 0 and is_sorted(x):
            x = x[n - kept :] if side == "right" else x[:kept]
        beyond = x - centre if side == "right" else centre - x
        if 0 < kept < len(beyond):
            beyond = np.partition(beyond, n - kept)[n - kept :]
        ordered = np.sort(beyond)[::-1]
        return cls(ordered[ordered > 0], centre, side)

    @cached_property
    def shape(self) -> FloatArray:
        """Hill's estimates of ξ at each k from 1 up."""
        return hill_path(self.values) if len(self.values) > 1 else np.empty(0)

    def threshold(self, k: IntArray) -> FloatArray:
        """Return the sample value beyond which the extremes for k lie."""
        edge = self.values[k]
        return self.centre + edge if self.side == "right" else self.centre - edge


def tail_index(
    x: npt.ArrayLike,
    *,
    side: Side = "right",
    k: int | None = None,
    centre: float | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> TailIndex:
    """Estimate the index of one tail of a sample by Hill's estimator, with a stable k.

    The tail consists of the values beyond `centre`, so that shifting or rescaling the sample changes
    only the threshold. Without k: over k from max(10, n^⅓) to n/4, spaced by a factor 1.5, the
    largest k̂ is found whose estimate agrees with those of all smaller k (`stable_k`), and
    k = k̂/6 is used, because at k̂ the bias may be as large as the noise. The interval is the
    smallest one that contains those at k and at k/4: if the two differ, there is still bias, and it is
    wider.

    The constants were chosen on nine distributions. On eleven others (α from 1.2 to 3) with n = 500 to
    20,000, the 95 % interval covers α in 94 to 96 % of samples on average and in 85 to 91 % on the
    worst, a log-gamma. The estimate of a light tail is finite but grows with n.

    Parameters
    ----------
    x
        The sample, finite.
    side
        "right" or "left".
    k
        The number of extremes; by default chosen from the data. A given k has only its own interval.
    centre
        The origin of distances in the tail; by default the median. Use 0 for positive data that start
        there.
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
    x = _checked(x, side, level, theta)
    unknown = TailIndex(side=side, level=level)
    n = len(x)
    alone = max(10, round((n * theta) ** (1 / 3)))  # smallest number of clusters for a choice of k
    fewest = math.ceil(alone / theta) if k is None else k
    if k is None and n < FEWEST:
        reason = f"the sample has {n} values and at least {FEWEST} are needed"
        return replace(unknown, reason=reason)
    tail = _Tail.of(x, side, centre, n // 4 if k is None else k)
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
        # √k·(ξ_k − ξ) tends to N(0, ξ²)
        stable = stable_k(grid, shape[grid - 1], shape[grid - 1] / math.sqrt(theta)) // 6
        pair = np.array([max(stable, fewest), max(stable // 4, fewest)])
    at = shape[pair - 1]
    low, high = alpha_interval(at, pair, level=level, theta=theta)
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
    centre: float | None = None,
    points: int | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> TailPath:
    """Return the estimate for every k up to a quarter of the sample, in one pass.

    Parameters
    ----------
    x, side, centre, level, theta
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
    x = _checked(x, side, level, theta)
    tail = _Tail.of(x, side, centre, len(x) // 4)
    shape = tail.shape
    if not len(shape):
        raise MethodError(
            f"A path needs two values or more beyond the centre {tail.centre:g} on the {side}. Got "
            f"{len(tail.values)}; choose another centre, or ask tail_index what is missing."
        )
    k = np.arange(1, len(shape) + 1) if points is None else geometric_grid(1, len(shape), points)
    low, high = alpha_interval(shape[k - 1], k, level=level, theta=theta)
    alpha, threshold = invert(shape[k - 1]), tail.threshold(k)
    return TailPath(
        k=k,
        alpha=alpha,
        low=low,
        high=high,
        threshold=threshold,
        side=side,
        level=level,
    )


def _checked(x: npt.ArrayLike, side: Side, level: float, theta: float) -> FloatArray:
    require(OneOf(*get_args(Side)), side=side)
    check_level(level)
    check_theta(theta)
    return as_sample("x", x)


NAMES = {1.0: "mean", 2.0: "variance"}


@dataclass(frozen=True, kw_only=True)
class MomentEvidence:
    """Whether the moment of order p plausibly exists, and why."""

    exists: Literal["yes", "doubtful", "no"]
    reason: str  # the evidence in words
    p: float  # 1 for the mean, 2 for the variance
    ratio: float  # the share of the largest value in Σ|x − median|^p
    alpha: float  # the heavier tail's index and its interval; NaN when neither tail is estimable
    low: float
    high: float


def max_to_sum(x: npt.ArrayLike, p: float, *, centre: float = 0.0) -> float:
    """Return R_n(p) = max_i |x_i − c|^p / Σ_i |x_i − c|^p.

    R_n(p) → 0 as n grows exactly when the moment of order p exists (O'Brien 1980). It lies between
    1/n (all deviations equal) and 1 (only one differs from c); a sample without deviations gives 1/n.

    Parameters
    ----------
    x
        The sample.
    p
        The order of the moment, positive.
    centre
        c. 0 is the textbook definition; with the median, a large mean does not hide the tails.

    Examples
    --------
    >>> max_to_sum([1.0, -3.0, 2.0], 2)
    0.6428571428571429
    """
    require(POSITIVE, p=p)
    distance = unit_scale(np.abs(as_sample("x", x) - centre))
    powers = distance if p == 1 else distance**p
    return float(powers.max() / powers.sum()) if powers.any() else 1 / len(powers)


def moment_evidence(
    x: npt.ArrayLike,
    p: float,
    *,
    tails: tuple[TailIndex, ...] | None = None,
    level: float = 0.95,
    theta: float = 1.0,
) -> MomentEvidence:
    """Decide whether the moment of order p exists, from the tail indices and the largest value.

    The moment exists for α > p. If α = p, R_n(p)·log n tends to a distribution of Fréchet type that is
    below ⅓ with probability exp(−3) = 0.05; for α < p it tends to larger values. So, with α the smaller
    index of the two tails, [low, high] its interval and R = R_n(p) about the median:

    - "no" when high < p and R ≥ 1/(3·log n), or when (α + high)/2 < p and R ≥ 1/log n;
    - "yes" when low > p and R < 1/log n, or when α > p and R < 1/(3·log n);
    - "doubtful" otherwise; a tail of few distinct values is judged by R alone.

    Error rates on fourteen distributions that were not used to set the rule, n = 500 to 20,000. "Yes"
    to a variance that does not exist: at most 2 % of samples. "No" to one that exists: up to 20 % at n
    = 500 and 7 % from n = 2,000 on (Pareto with α = 2.2); "no" to a mean that exists: at most 2 %. Near
    the border the answer is mostly "doubtful". Distributions that only resemble a power tail are
    treated as one: the variance of a log-normal sample with σ = 2 is called doubtful or absent, and
    averages of so many values do behave as if it were.

    Parameters
    ----------
    x
        The sample.
    p
        The order, 1 for the mean, 2 for the variance.
    tails
        The indices of the two tails, if already known; Hill's by default.
    level
        Level of the default tails' intervals.
    theta
        The extremal index if extremes are clustered. The default tails then use θ·k instead of k, and
        the largest cluster, R/θ, is compared with 1/log(θ·n).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> moment_evidence(rng.standard_normal(2000), 2).exists
    'yes'
    >>> moment_evidence(rng.standard_t(1.1, 20_000), 2).exists
    'no'
    """
    x = as_sample("x", x)
    check_theta(theta)
    ratio = max_to_sum(x, p, centre=float(median_of(x)))
    if tails is None:
        left = tail_index(x, side="left", level=level, theta=theta)
        tails = left, tail_index(x, level=level, theta=theta)
    known = [tail for tail in tails if tail.estimable]
    heavier = min(known, key=lambda tail: tail.alpha, default=None)
    border = theta / math.log(max(len(x) * theta, 3))
    small, large = ratio < border / 3, ratio >= border
    exists: Literal["yes", "doubtful", "no"] = "doubtful"
    if heavier is None:
        alpha = low = high = math.nan
        exists = "yes" if small or ratio * len(x) <= 1 else "doubtful"
        why = f"neither tail is estimable ({tails[0].reason})" if tails else "no tail was given"
    else:
        alpha, low, high = heavier.alpha, heavier.low, heavier.high
        if (high < p and not small) or (alpha + high < 2 * p and large):
            exists = "no"
        elif (low > p and not large) or (alpha > p and small):
            exists = "yes"
        why = f"the {heavier.side} tail has index {alpha:.2f} [{low:.2f}, {high:.2f}]"
    against = "far less than" if small else "as much as" if large else "less than"
    reason = (
        f"{why}, where a {NAMES.get(p, f'moment of order {p:g}')} needs more than {p:g}; the "
        f"largest value carries {100 * ratio:.1f} % of the sum of |x − median|^{p:g}, {against} a "
        f"tail of index {p:g} would show"
    )
    return MomentEvidence(
        exists=exists, reason=reason, p=p, ratio=ratio, alpha=alpha, low=low, high=high
    )


#: Larger samples are thinned before their medcouple is computed.
EXACT = 2_000


@dataclass(frozen=True, kw_only=True)
class Medcouple:
    """The medcouple of n values: 0 for symmetry, towards 1 for a long right side, −1 for a left.

    `used` is the number of values used: all (`exact`), or that many evenly spaced quantiles.
    """

    value: float
    n: int
    used: int

    @property
    def exact(self) -> bool:
        """Whether every value was used."""
        return self.used == self.n


@dataclass(frozen=True, kw_only=True)
class TailAsymmetry:
    """The right tail compared with the left, each beyond the same `distance` from the median.

    `ratio` is the number of values beyond it on the `right` over that on the `left`, with its interval:
    1 for symmetric tails, infinite if the left has none, NaN if neither has. `spread` is the ratio of
    the tails' lengths: (Q(1 − share/2) − median) / (median − Q(share/2)).
    """

    ratio: float
    low: float
    high: float
    spread: float
    right: int
    left: int
    distance: float
    level: float


def medcouple(x: npt.ArrayLike, *, exact_up_to: int = EXACT) -> Medcouple:
    """Return the medcouple of Brys, Hubert and Struyf (2004), a robust measure of skewness.

    It is the median over all pairs x_j ≤ m ≤ x_i, with m the sample median, of

        h(x_i, x_j) = ((x_i − m) − (m − x_j)) / (x_i − x_j),

    where pairs that both equal m count as −1, 0 and 1 in balance. Larger samples are thinned to
    `exact_up_to` evenly spaced order statistics; nothing is random, and the result changes by about
    1/exact_up_to, less than its own sampling error.

    Parameters
    ----------
    x
        The sample.
    exact_up_to
        Use every value of samples up to this size; time and memory grow with its square.

    Examples
    --------
    >>> medcouple([1.0, 2.0, 3.0, 4.0, 5.0]).value
    0.0
    >>> round(medcouple([1.0, 2.0, 3.0, 7.0, 20.0]).value, 3)
    0.6
    """
    values = np.sort(as_sample("x", x))
    require(Within("[3, inf)", whole=True), exact_up_to=exact_up_to)
    n = len(values)
    if n > exact_up_to:
        values = values[((np.arange(exact_up_to) + 0.5) * n / exact_up_to).astype(int)]
    z = unit_scale(values - median_of(values))
    right, left = z[z >= 0][:, None], z[z <= 0]
    with np.errstate(invalid="ignore"):  # 0/0 where both equal the median
        pairs = (right + left) / (right - left)
    ties = np.arange(np.count_nonzero(z == 0))
    pairs[: len(ties), len(left) - len(ties) :] = np.sign(ties[:, None] - ties[::-1])
    return Medcouple(value=float(np.median(pairs)), n=n, used=len(values))


def tail_asymmetry(
    x: npt.ArrayLike, *, share: float = 0.05, level: float = 0.95, theta: float = 1.0
) -> TailAsymmetry:
    """Compare the numbers of extreme values in the right and the left tail.

    Extreme values are the `share` farthest from the median. Given their number N, the number on the
    right is Bin(N, q) for independent values, with q = ½ under symmetry; ratio = q/(1 − q), with the
    exact interval of Clopper and Pearson. An interval above 1 means that the right tail is heavier.

    Parameters
    ----------
    x
        The sample.
    share
        Share of values that count as extreme, between 0 and ½.
    level
        Level of the interval.
    theta
        The extremal index if extremes are clustered: the interval then uses θ·N instead of N.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> even = tail_asymmetry(rng.standard_t(2, 5000))
    >>> even.low < 1 < even.high
    True
    >>> tail_asymmetry(rng.pareto(1.5, 5000)).low > 10
    True
    """
    x = as_sample("x", x)
    check_level(level)
    check_theta(theta)
    require(Within("(0, 0.5)"), share=share)
    n = len(x)
    inner = max(int(n * share / 2), 1)
    ends = [max(inner - 1, 0), max(n - inner, 0)]
    z = x - median_of(x)
    bottom, top = (float(np.partition(z, end)[end]) for end in ends)
    far = max(n - 1 - int(n * share), 0)
    distance = float(np.partition(np.abs(z), far)[far])
    right = int(np.count_nonzero(z > distance))
    left = int(np.count_nonzero(z < -distance))
    low, high = _binomial_interval(right * theta, left * theta, level)
    return TailAsymmetry(
        ratio=_odds(right, left),
        low=_odds(low, 1 - low) if right + left else math.nan,
        high=_odds(high, 1 - high) if right + left else math.nan,
        spread=_odds(top, -bottom),
        right=right,
        left=left,
        distance=distance,
        level=level,
    )


def _odds(for_right: float, for_left: float) -> float:
    if for_left > 0:
        return for_right / for_left
    return math.inf if for_right > 0 else math.nan


def _binomial_interval(successes: float, failures: float, level: float) -> tuple[float, float]:
    """Return the Clopper–Pearson interval for a share; counts need not be whole."""
    miss, quantile = (1 - level) / 2, scipy.special.betaincinv
    low = float(quantile(successes, failures + 1, miss)) if successes > 0 else 0.0
    high = float(quantile(successes + 1, failures, 1 - miss)) if failures > 0 else 1.0
    return low, high


Extremes = Literal["both", "right", "left"]

#: Fewest extremes for an estimate.
FEWEST_CLUSTERING = 20


@dataclass(frozen=True, kw_only=True)
class ExtremalIndex:
    """The extremal index θ of a sequence, with its interval; NaN when not estimable."""

    theta: float  # at most 1
    low: float
    high: float
    exceedances: int  # values beyond the threshold
    clusters: int  # number of clusters of these values
    threshold: float  # a distance from the median (`side="both"`), or a value
    side: Extremes
    level: float
    reason: str = ""  # why there is no estimate; empty if there is one

    @property
    def estimable(self) -> bool:
        """Whether there is an estimate."""
        return not self.reason


def extremal_index(
    x: npt.ArrayLike,
    *,
    episode: npt.ArrayLike | None = None,
    side: Extremes = "both",
    share: float | None = None,
    level: float = 0.95,
) -> ExtremalIndex:
    """Estimate the extremal index of a sequence, or of episodes; clusters do not cross episodes.

    The intervals estimator of Ferro and Segers (2003): with T_1, …, T_{N−1} the times between
    successive extremes,

        θ = 2·(ΣT)²/((N−1)·ΣT²)                if no T exceeds 2,
        θ = 2·(Σ(T−1))²/((N−1)·Σ(T−1)(T−2))    otherwise, at most 1,

    with the interval of the delta method. It needs the long times between clusters, which do not
    occur within short episodes. So the episodes are concatenated in an order that separates neighbours
    (with a fixed stride, nothing random).

    Parameters
    ----------
    x
        The values in time order, episode after episode.
    episode
        The episode of each row; rows of an episode are contiguous. One sequence by default.
    side
        Extremes of |x − median| ("both"), of x ("right") or of −x ("left").
    share
        Share of values that count as extreme; by default 1 %, or the share that gives 100 extremes, at
        most 10 %.
    level
        Level of the interval.

    Examples
    --------
    >>> z = np.random.default_rng(1).standard_cauchy(20_001)
    >>> alone, pairs = extremal_index(z), extremal_index(np.maximum(z[1:], z[:-1]), side="right")
    >>> alone.high, pairs.low < 0.5 < pairs.high
    (1.0, True)
    """
    x = as_sample("x", x)
    require(OneOf(*get_args(Extremes)), side=side)
    check_level(level)
    n = len(x)
    if share is None:
        share = min(max(0.01, 100 / n), 0.1)
    require(Within("(0, 0.5]"), share=share)
    starts = np.array([0, n])
    if episode is not None:
        starts, _ = episode_runs(np.asarray(episode), n)
    size = _distance(x, side)
    rank = n - 1 - int(n * share)
    edge = float(np.partition(size, rank)[rank])
    rows = np.flatnonzero(size > edge)
    theta, low, high, clusters, reason = math.nan, math.nan, math.nan, 0, ""
    if len(rows) < FEWEST_CLUSTERING:
        reason = (
            f"{len(rows)} values lie beyond the threshold and {FEWEST_CLUSTERING} are needed; take "
            "more data or a larger share"
        )
    else:
        theta, low, high = _intervals(_parted(rows, starts), level=level)
        clusters = math.ceil(theta * len(rows))
    return ExtremalIndex(
        theta=theta,
        low=low,
        high=high,
        exceedances=len(rows),
        clusters=clusters,
        threshold=-edge if side == "left" else edge,
        side=side,
        level=level,
        reason=reason,
    )


def extremal_index_across(x: npt.ArrayLike, *, episode: npt.ArrayLike) -> ExtremalIndex:
    """Estimate the extremal index of the sequence of episodes: whether extreme episodes cluster.

    Each episode counts as one value, its largest |x − median|. θ well below 1 means that neighbouring
    episodes share extremes and should be in one group.

    >>> rng = np.random.default_rng(1)
    >>> storm = np.repeat(rng.pareto(1.0, 1000), 3)  # three days each
    >>> hours = np.repeat(storm, 24) * rng.uniform(size=72_000)
    >>> extremal_index_across(hours, episode=np.repeat(np.arange(3000), 24)).high < 0.6
    True
    """
    x = as_sample("x", x)
    starts, _ = episode_runs(np.asarray(episode), len(x))
    largest = np.maximum.reduceat(_distance(x, "both"), starts[:-1])  # (E,)
    return replace(extremal_index(largest, side="right"), side="both")


def _distance(x: FloatArray, side: Extremes) -> FloatArray:
    if side == "both":
        return np.abs(x - median_of(x))
    return x if side == "right" else -x


def _parted(rows: IntArray, starts: IntArray) -> IntArray:
    """Return the positions of the extremes after reordering episodes to separate neighbours."""
    episodes = len(starts) - 1
    stride = max(round(episodes * 0.618), 1)
    while math.gcd(stride, episodes) > 1:
        stride += 1
    order = np.arange(episodes) * stride % episodes
    lengths = np.diff(starts)[order]
    offset = np.empty(episodes, dtype=np.intp)
    offset[order] = np.cumsum(lengths) - lengths
    home = np.searchsorted(starts, rows, side="right") - 1
    return np.sort(offset[home] + rows - starts[home])


def _intervals(rows: IntArray, *, level: float) -> tuple[float, float, float]:
    times = np.diff(rows).astype(float)
    if times.max() > 2:
        first, second = times - 1, (times - 1) * (times - 2)
    else:
        first, second = times, times**2
    theta = 2 * float(first.mean()) ** 2 / float(second.mean())
    influence = 2 * first / first.mean() - second / second.mean()  # of each time, on log θ
    z = -float(scipy.special.ndtri((1 - level) / 2))
    half = z * float(influence.std()) / math.sqrt(len(times))
    low, high = theta * math.exp(-half), theta * math.exp(half)
    return min(theta, 1.0), min(low, 1.0), min(high, 1.0)


#: Fewest exceedances for an estimate of the shape.
FEWEST_WEIGHTS = 5


@dataclass(frozen=True, kw_only=True)
class ParetoShape:
    """The shape k of the generalised Pareto distribution of the largest weights.

    Moments of order below 1/k exist: k < ½ means a finite variance, k ≥ 1 no mean.
    """

    k: float  # −∞ if the largest weights are all equal, NaN if not estimable
    exceedances: int  # weights beyond the threshold
    threshold: float
    reason: str = ""  # why there is no finite shape; empty if there is one


@dataclass(frozen=True, kw_only=True)
class WeightEvidence:
    """Diagnostics of a set of importance weights.

    Ratios of probabilities have mean 1: a mean several standard errors from 1 shows a wrong ratio.
    """

    n: int
    effective: float  # the effective sample size (Σw)²/Σw²
    largest_share: float  # max|w|/Σ|w|
    mean: float
    mean_error: float  # |mean − 1|
    standard_error: float  # of the mean, from the sample
    negative_share: (
        float  # Σ|w| over the negative weights, over Σ|w|; fitted ratios may be negative
    )
    pareto: ParetoShape  # the shape of the largest |w|

    @property
    def reliable_k(self) -> float:
        """The largest reliable Pareto shape for this n, min(1 − 1/log₁₀ n, 0.7).

        This is the rule of Vehtari, Simpson, Gelman, Yao and Gabry (2024).
        """
        return min(1 - 1 / math.log10(max(self.n, 2)), 0.7)

    @property
    def reliable(self) -> bool:
        """Whether the shape of the largest weights is known and below `reliable_k`."""
        return self.pareto.k < self.reliable_k  # false for NaN


def effective_rows(weights: FloatArray) -> float:
    """Return (Σw)²/Σw² (Kish 1965), n for n equal weights, 0 if all weights are 0.

    >>> effective_rows(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    return float(weights.sum()) ** 2 / (float((weights**2).sum()) or math.inf)


def pareto_shape(values: npt.ArrayLike) -> ParetoShape:
    """Fit a generalised Pareto distribution to the largest values, as in Pareto smoothing.

    The M = min(n/5, 3√n) largest exceed the threshold u, the next largest value, by y. The estimate
    of Zhang and Stephens (2009) averages b = −k/σ over a grid of m = 30 + ⌊√M⌋ candidates
    b_j = 1/y_max + (1 − √(m/(j − ½)))/(3·y_quartile), each weighted by its profile likelihood
    exp(M·(log(−b/k(b)) − k(b) − 1)), k(b) = mean(log(1 − b·y)). Then k ← (M·k + 5)/(M + 10) shrinks
    it slightly towards ½ (Vehtari et al. 2024).

    Parameters
    ----------
    values
        Weights or any sample; its right tail is fitted.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> round(pareto_shape(rng.pareto(1 / 0.8, 100_000)).k, 1)
    0.8
    >>> pareto_shape(rng.uniform(size=10_000)).k < 0
    True
    """
    x = as_sample("values", values)
    n = len(x)
    kept = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    if n <= kept:
        reason = f"{n} values are too few"
        return ParetoShape(k=math.nan, exceedances=0, threshold=math.nan, reason=reason)
    top = np.sort(np.partition(x, n - kept - 1)[n - kept - 1 :])
    threshold = float(top[0])
    beyond = top[top > threshold] - threshold  # (M,), ascending
    k, reason = math.nan, ""
    if not len(beyond):
        k, reason = -math.inf, f"the {kept + 1} largest values are all equal"
    elif len(beyond) < FEWEST_WEIGHTS:
        reason = f"{len(beyond)} values exceed the threshold and {FEWEST_WEIGHTS} are needed"
    else:
        k = _zhang_stephens(beyond)
        k = (len(beyond) * k + 5) / (len(beyond) + 10)
    return ParetoShape(k=k, exceedances=len(beyond), threshold=threshold, reason=reason)


def weight_evidence(weights: npt.ArrayLike, *, groups: IntArray | None = None) -> WeightEvidence:
    """Summarise importance weights: effective number, largest share, mean, negatives, Pareto shape.

    Parameters
    ----------
    weights
        Ratios of probabilities or densities, not self-normalised, so that they should average 1.
    groups
        Codes of what is independent, (n,), for the standard error; by default every weight is.

    Examples
    --------
    >>> evidence = weight_evidence(np.random.default_rng(1).exponential(size=10_000))
    >>> round(evidence.effective / evidence.n, 1), evidence.reliable
    (0.5, True)
    """
    w = as_sample("weights", weights)
    if not w.any():
        raise LogError(
            f"Weights must not all be zero. Got {len(w)} zeros: the policy never does what was "
            "logged, so the log says nothing about it."
        )
    magnitude = np.abs(w)
    unit = unit_scale(magnitude)
    total = float(unit.sum())
    mean = float(w.mean())
    error = deviation_of(w) / math.sqrt(len(w))
    if groups is not None:
        error = float(np.linalg.norm(np.bincount(groups, w - mean))) / len(w)
    return WeightEvidence(
        n=len(w),
        effective=effective_rows(unit_scale(w)),
        largest_share=float(unit.max()) / total,
        mean=mean,
        mean_error=abs(mean - 1),
        standard_error=error,
        negative_share=float(unit[w < 0].sum()) / total,
        pareto=pareto_shape(magnitude),
    )


def _zhang_stephens(y: FloatArray) -> float:
    """Return the shape of exceedances y > 0, ascending."""
    M = len(y)
    y = y / y[-1]
    m = 30 + math.isqrt(M)
    quartile = max(y[int(M / 4 + 0.5) - 1], 1e-100)  # large enough that b does not overflow
    b = 1 + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)  # (m,)
    b = b[b != 0]  # 0 is the exponential distribution, and would give 0/0 below
    k = np.log1p(-b[:, None] * y).mean(axis=1)  # (m,)
    likelihood = M * (np.log(-b / k) - k - 1)
    weight = np.exp(likelihood - likelihood.max())
    return float(np.log1p(-(weight @ b / weight.sum()) * y).mean())


#: 1/Φ⁻¹(¾): scales the MAD to the standard deviation of Gaussian values.
GAUSSIAN = 1.4826022185056018


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualMonitor:
    """A summary of the residuals δ.

    `ratio` is std/mad: about 1 for Gaussian residuals, growing without bound with n for infinite
    variance, infinite if more than half of the residuals are equal, NaN if all are.
    """

    std: float
    mad: float  # the median of |δ − median|, scaled to equal the std of Gaussian values
    ratio: float
    window: int  # rows
    starts: IntArray  # (windows,) the first row of each
    scale: FloatArray  # (windows,) the MAD in each
    worst: IntArray  # (k,) the rows farthest from the median, farthest first
    worst_values: FloatArray  # (k,)

    @property
    def swing(self) -> float:
        """The largest scale of a window divided by the median scale; NaN if that is zero."""
        middle = float(median_of(self.scale))
        return float(self.scale.max()) / middle if middle > 0 else math.nan


def mad(x: npt.ArrayLike) -> float:
    """Return 1.4826 × median|x − median(x)|.

    >>> round(mad([1.0, 2.0, 3.0, 4.0, 100.0]), 4)
    1.4826
    """
    values = as_sample("x", x)
    return GAUSSIAN * float(median_of(np.abs(values - median_of(values))))


def residual_monitor(
    residuals: npt.ArrayLike, *, window: int | None = None, worst: int = 10
) -> ResidualMonitor:
    """Summarise residuals in the log's order: std/MAD, the MAD of each window, the worst rows.

    The paper proposes to monitor the temporal-difference error; a ratio far above 1, a window far
    above the others or a few extreme rows show where outliers affect the fit.

    Parameters
    ----------
    residuals
        δ, in the order of the log.
    window
        Number of rows in a window, 2 or more; by default for about 100 windows of at least 50 rows. A
        shorter last window is merged with the one before.
    worst
        Number of worst rows to return.

    Examples
    --------
    >>> delta = np.random.default_rng(1).standard_normal(1000)
    >>> delta[7] = 100.0
    >>> monitor = residual_monitor(delta, worst=1)
    >>> monitor.worst, round(monitor.ratio, 1)
    (array([7]), 3.3)
    """
    delta = as_sample("residuals", residuals)
    n = len(delta)
    window = min(max(n // 100, 50), n) if window is None else window
    if n > 1:
        require(Within("[2, inf)", whole=True), window=window)
    require(Within("[0, inf)", whole=True), worst=worst)
    window, worst = min(window, n), min(worst, n)
    distance = np.abs(delta - median_of(delta))
    farthest = np.argpartition(distance, n - worst)[n - worst :] if worst else np.empty(0, np.intp)
    farthest = farthest[np.lexsort((farthest, -distance[farthest]))]
    std, windows = deviation_of(delta), n // window
    even = delta[: (windows - 1) * window].reshape(windows - 1, window)
    centred = np.abs(even - median_of(even)[:, None])
    scale = GAUSSIAN * float(median_of(distance))
    ratio = std / scale if scale > 0 else (math.inf if std > 0 else math.nan)
    return ResidualMonitor(
        std=std,
        mad=scale,
        ratio=ratio,
        window=window,
        starts=np.arange(windows) * window,
        scale=np.append(GAUSSIAN * median_of(centred), mad(delta[(windows - 1) * window :])),
        worst=farthest,
        worst_values=delta[farthest],
    )
