"""How heavy one tail is: its index α, with an interval and a reason when there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.statistics.tails.estimators import (
    Estimator,
    alpha_interval,
    deviation,
    geometric_grid,
    invert,
    stable_k,
)
from tailproof.statistics.tails.ordered import Side, check_settings, ordered_tail
from tailproof.statistics.tails.sample import as_sample

#: Below this many values a quarter of the sample holds fewer than ten extremes.
FEWEST = 40


@dataclass(frozen=True, kw_only=True)
class TailIndex:
    """The index α of one tail: P(X > x) falls like x^(−α), so moments of order p < α exist.

    Attributes
    ----------
    alpha, low, high
        The estimate and its interval; infinite for a light tail, NaN when not estimable.
    k
        How many extremes it rests on.
    threshold
        They lie beyond this value of the sample.
    method, side, level
        As asked for.
    reason
        Why there is no estimate; empty when there is one.
    """

    alpha: float
    low: float
    high: float
    k: int
    threshold: float
    method: Estimator
    side: Side
    level: float
    reason: str = ""

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


def hill(x: npt.ArrayLike, k: int, *, level: float = 0.95, theta: float = 1.0) -> TailIndex:
    """Estimate the right tail's index from the k largest values as they are, uncentred.

    1/α = (1/k) Σ_{i≤k} log(X_(i)/X_(k+1)) (Hill 1975), with the Gamma interval that is exact for
    Pareto values. `tail_index` centres the sample and chooses k.

    Parameters
    ----------
    x
        The sample; its k + 1 largest values must be positive.
    k
        The number of extremes.
    level
        Of the interval.
    theta
        The extremal index, when extremes come in clusters: the interval then counts θ·k of them.

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
    """Estimate the right tail's index from three spacings, whatever the sample's location.

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

    The tail is what lies beyond `centre`, so that shifting or rescaling the sample changes nothing
    but the threshold. Without k: over k from max(10, n^⅓) to n/4, spaced by a factor 1.5, the
    largest k̂ is found whose estimate agrees with those of all smaller k (`stable_k`), and
    k = k̂/6 is used, because up to k̂ the bias is only as small as the noise. The interval is the
    hull of the intervals at k and at k/4: where the two part, bias is still at work, and the
    interval says so.

    The constants were chosen on nine laws (Student t, Pareto, Fréchet, Burr, stable), where some
    sixty combinations were compared. On eleven other laws (t, Pareto, inverse gamma, log-gamma,
    Burr, Fréchet, a skewed t, a mixture; α from 1.2 to 3) with n = 500, 2,000 and 20,000, Hill's
    95 % interval covers α in 95, 96 and 94 % of samples on average and in 88, 91 and 85 % on the
    worst law, a log-gamma; the moment estimator's in 91 to 93 % (worst 86 %), Pickands' in 96 to
    97 % (worst 92 %) and twice as wide. A Pareto tail with α = 3, one of the nine, is covered in
    83 to 89 %: its centre lies far from where the power law starts.
    Hill's estimate of a light tail is finite but grows with n; the moment estimator's is infinite.

    Parameters
    ----------
    x
        The sample, finite.
    side
        "right" or "left".
    method
        "hill" (sharpest for power tails), "moment" (also for light tails) or "pickands".
    k
        The number of extremes, if not chosen from the data; the interval is then the plain one.
    centre
        Where the tail starts from; the median by default, 0 for positive data known to start there.
        Pickands' estimator needs none.
    level
        Of the interval.
    theta
        The extremal index, when extremes come in clusters: θ·k of them count, in the choice of k
        and in the interval. A storm of a hundred hours is one extreme, not a hundred.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_t(1.5, 20_000)
    >>> right, left = tail_index(x), tail_index(x, side="left")
    >>> right.low < 1.5 < right.high, left.low < 1.5 < left.high
    (True, True)
    >>> print(tail_index(np.repeat([0.0, 1.0], 500)))
    right tail: not estimable, its 11 largest values take 1 distinct value(s) and 4 are needed
    """
    x = as_sample("x", x)
    check_settings(side=side, method=method, level=level, theta=theta)
    n = len(x)
    alone = max(10, round((n * theta) ** (1 / 3)))  # clusters, the least that a choice rests on
    fewest = math.ceil(alone / theta) if k is None else k
    unknown = partial(_unknown, method=method, side=side, level=level)
    if k is None and n < FEWEST:
        return unknown(reason=f"the sample has {n} values and at least {FEWEST} are needed")
    most = n // 4 if k is None else k
    tail = ordered_tail(x, side=side, method=method, centre=centre, most=most)
    shape = tail.shape
    if k is not None and not 2 <= k <= len(shape):
        raise MethodError(
            f"k must lie between 2 and the number of usable extremes. Got k = {k!r} and "
            f"{len(tail.values)} values beyond the centre {tail.centre:g}; take a smaller k or "
            "another centre."
        )
    if len(shape) < fewest:
        beyond = len(tail.values)
        return unknown(reason=f"{beyond} values lie beyond the centre and {fewest + 1} are needed")
    distinct = 1 + int(np.count_nonzero(np.diff(tail.values[: fewest + 1])))
    needed = 3 if k is not None else max(4, math.ceil(alone / 4))
    if distinct < needed:
        return unknown(
            reason=f"its {fewest + 1} largest values take {distinct} distinct value(s) and "
            f"{needed} are needed"
        )
    pair = _chosen(shape, method=method, fewest=fewest, theta=theta) if k is None else np.array([k])
    at = shape[pair - 1]
    if not np.isfinite(at).all():
        return unknown(reason=f"ties among its {pair[0] + 1} largest values leave no spacing")
    low, high = alpha_interval(method, at, pair, level=level, theta=theta)
    return TailIndex(
        alpha=float(invert(at)[0]),
        low=float(low.min()),
        high=float(high.max()),
        k=int(pair[0]),
        threshold=float(tail.threshold(pair)[0]),
        method=method,
        side=side,
        level=level,
    )


def _chosen(shape: FloatArray, *, method: Estimator, fewest: int, theta: float) -> IntArray:
    """Return the k to report and the smaller one that shows how far its bias may reach."""
    grid = geometric_grid(fewest, len(shape), 1 + math.ceil(math.log(len(shape) / fewest, 1.5)))
    spread = deviation(method, shape[grid - 1]) / math.sqrt(theta)
    k = stable_k(grid, shape[grid - 1], spread) // 6
    return np.array([max(k, fewest), max(k // 4, fewest)])


def _unknown(*, reason: str, method: Estimator, side: Side, level: float) -> TailIndex:
    nan = math.nan
    values = {"alpha": nan, "low": nan, "high": nan, "threshold": nan}
    return TailIndex(**values, k=0, method=method, side=side, level=level, reason=reason)
