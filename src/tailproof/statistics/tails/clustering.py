"""The extremal index, which measures clustering of extremes, within and across episodes.

θ = 1 for independent values; 1/θ is the mean number of extremes in a cluster. If extremes cluster,
robust methods must not treat steps as independent: the hours of one storm are one outlier, not many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.validation import runs as episode_runs
from tailproof.errors import MethodError
from tailproof.statistics.tails.sample import as_sample, check_choice, check_level, median_of

Extremes = Literal["both", "right", "left"]
ClusterMethod = Literal["intervals", "runs"]
Summary = Literal["max", "sum"]

#: Fewest extremes for an estimate.
FEWEST = 20


@dataclass(frozen=True, kw_only=True)
class ExtremalIndex:
    """The extremal index θ of a sequence, with its interval; NaN when not estimable."""

    theta: float  # at most 1
    low: float
    high: float
    exceedances: int  # values beyond the threshold
    clusters: int  # number of clusters of these values
    threshold: float  # a distance from the median (`side="both"`), or a value
    method: ClusterMethod
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
    method: ClusterMethod = "intervals",
    share: float | None = None,
    run: int = 5,
    level: float = 0.95,
) -> ExtremalIndex:
    """Estimate the extremal index of a sequence, or of episodes; clusters do not cross episodes.

    "intervals" (Ferro and Segers 2003): with T_1, …, T_{N−1} the times between successive extremes,

        θ = 2·(ΣT)²/((N−1)·ΣT²)                if no T exceeds 2,
        θ = 2·(Σ(T−1))²/((N−1)·Σ(T−1)(T−2))    otherwise, at most 1,

    with the interval of the delta method. It needs the long times between clusters, which do not
    occur within short episodes. So the episodes are concatenated in an order that separates neighbours
    (with a fixed stride, nothing random).

    "runs": a cluster ends if no extreme follows within `run` steps of its episode. The next cluster
    may start that soon by chance: clusters arrive at the rate θ·p, where p is the share of extremes, so
    none arrives in m steps with probability (1 − p)^(θ·m). Hence θ solves

        θ = clusters / Σ(1 − p)^(θ·m),    m = min(run, steps that the episode still has),

    which is 1 on average for independent values. The interval is Wilson's, widened by the variance of
    the cluster sizes.

    Parameters
    ----------
    x
        The values in time order, episode after episode.
    episode
        The episode of each row; rows of an episode are contiguous. One sequence by default.
    side
        Extremes of |x − median| ("both"), of x ("right") or of −x ("left").
    method
        "intervals" or "runs".
    share
        Share of values that count as extreme; by default 1 %, or the share that gives 100 extremes, at
        most 10 %.
    run
        Number of steps without an extreme that ends a cluster ("runs").
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
    check_choice("side", side, get_args(Extremes))
    check_choice("method", method, get_args(ClusterMethod))
    check_level(level)
    n = len(x)
    if share is None:
        share = min(max(0.01, 100 / n), 0.1)
    if not 0 < share <= 0.5:
        raise MethodError(f"share must lie in (0, 0.5]. Got {share!r}: use 0.01 for 1 %.")
    if method == "runs" and not 1 <= run < 1 / share:
        raise MethodError(
            f"run must be 1 step or more and below 1/share = {1 / share:.4g}, or every run holds an "
            f"extreme by chance. Got {run!r}; take a shorter run or a smaller share."
        )
    starts = np.array([0, n])
    if episode is not None:
        starts, _ = episode_runs(np.asarray(episode), n)
    size = _distance(x, side)
    rank = n - 1 - int(n * share)
    edge = float(np.partition(size, rank)[rank])
    rows = np.flatnonzero(size > edge)
    theta, low, high, clusters, reason = math.nan, math.nan, math.nan, 0, ""
    if len(rows) < FEWEST:
        reason = (
            f"{len(rows)} values lie beyond the threshold and {FEWEST} are needed; take more "
            "data or a larger share"
        )
    elif method == "runs":
        theta, low, high, clusters = _runs(rows, starts, run=run, share=len(rows) / n, level=level)
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
        method=method,
        side=side,
        level=level,
        reason=reason,
    )


def extremal_index_across(
    x: npt.ArrayLike,
    *,
    episode: npt.ArrayLike,
    summary: Summary = "max",
    side: Extremes = "both",
    method: ClusterMethod = "intervals",
    share: float | None = None,
    run: int = 5,
    level: float = 0.95,
) -> ExtremalIndex:
    """Estimate the extremal index of the sequence of episodes: whether extreme episodes cluster.

    Each episode counts as one value, its largest ("max", of |x − median|, x or −x as `side` says)
    or its sum. θ well below 1 means that neighbouring episodes share extremes and should be in one
    group. The parameters are those of `extremal_index`.

    >>> rng = np.random.default_rng(1)
    >>> storm = np.repeat(rng.pareto(1.0, 1000), 3)  # three days each
    >>> hours = np.repeat(storm, 24) * rng.uniform(size=72_000)
    >>> day = np.repeat(np.arange(3000), 24)
    >>> extremal_index_across(hours, episode=day, summary="sum", side="right").high < 0.6
    True
    """
    x = as_sample("x", x)
    check_choice("side", side, get_args(Extremes))
    check_choice("summary", summary, get_args(Summary))
    starts, _ = episode_runs(np.asarray(episode), len(x))
    if summary == "sum":
        values = np.add.reduceat(x, starts[:-1])  # (E,)
    else:
        values = np.maximum.reduceat(_distance(x, side), starts[:-1])
        values = -values if side == "left" else values
    of = "right" if side == "both" and summary == "max" else side  # distances are positive
    index = extremal_index(values, side=of, method=method, share=share, run=run, level=level)
    return replace(index, side=side)


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


def _runs(
    rows: IntArray, starts: IntArray, *, run: int, share: float, level: float
) -> tuple[float, float, float, int]:
    end = starts[np.searchsorted(starts, rows, side="right")]
    follower = np.append(rows[1:], starts[-1] + run)
    last = (follower - rows > run) | (follower >= end)  # extreme of its cluster
    clusters, n = int(last.sum()), len(rows)
    sizes = np.diff(np.flatnonzero(last), prepend=-1)
    ratio = clusters / n
    # Var(clusters/n) from the cluster sizes, or the binomial variance if that is larger
    chance = ratio * (1 - ratio) / n
    spread = ratio**4 * float(sizes.var()) / clusters
    effective = n / max(1.0, spread / chance) if chance > 0 else float(n)
    z2 = float(scipy.special.ndtri((1 - level) / 2)) ** 2
    shrink = 1 + z2 / effective
    centre = (ratio + z2 / (2 * effective)) / shrink
    half = math.sqrt(z2 * ratio * (1 - ratio) / effective + z2**2 / (4 * effective**2)) / shrink
    ahead = np.bincount(np.minimum(run, end - 1 - rows)) / n  # shares of 0, 1, …, run steps
    theta, low, high = (
        _without_chance(value, share, ahead) for value in (ratio, centre - half, centre + half)
    )
    return theta, low, high, clusters


def _without_chance(ratio: float, share: float, ahead: FloatArray) -> float:
    """Return the smallest solution of θ = ratio / Σ_m ahead_m·(1 − share)^(θ·m), at most 1."""
    steps = np.arange(len(ahead))
    theta = ratio
    for _ in range(100):
        # increases towards the solution; run·share < 1 makes it a contraction
        theta = min(ratio / float(ahead @ (1 - share) ** (theta * steps)), 1.0)
    return theta
