"""Robust scalar means, for samples in which few values would dominate the plain mean."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from tailproof.arrays import FloatArray
from tailproof.errors import MethodError, PartitionError, TailproofError
from tailproof.parameters import COUNT, LEVEL, POSITIVE, Configurable, Within


def root(pull: Callable[[float, float], float], tau: float) -> float:
    """Return the root m of the decreasing Σ ψ((x_i − m)/τ), for deviations x from their median.

    ψ is constant beyond ±1, so at m = ±τ at least half of the terms have their extreme value and the
    root lies between. If the roots are an interval, the median 0 is returned.
    """
    at_median = pull(0.0, tau) if tau > 0 else 0.0
    edge = math.copysign(1.0, at_median)  # in units of τ, to avoid underflow
    if at_median == 0 or (pull(edge * tau, tau) >= 0) == (edge > 0):  # at the edge, up to rounding
        return 0.0 if at_median == 0 else edge * tau
    find = scipy.optimize.brentq  # imported lazily
    return tau * float(find(lambda t: pull(t * tau, tau), 0.0, edge, xtol=1e-15, maxiter=1000))


def proposal_two(x: FloatArray, budget: float) -> tuple[float, float]:
    """Return m, τ with Σ ψ_τ(x − m) = 0 and Σ min((x − m)², τ²) = budget·τ²: Huber's Proposal 2.

    `x` is sorted. (m, τ) minimises a jointly convex function, so there is one solution. With p samples
    clipped below, q above and k inside, these with mean c and sum of squared deviations V,

        m = c + (q − p) τ / k,    τ² = V / (budget − p − q − (q − p)² / k).

    As p + q < budget is small, all (p, q) are tried: one is consistent with the order of the samples.
    """
    n, most = len(x), math.ceil(budget) + 1  # samples that may be clipped on each side
    size = min(most, n // 2)
    low, between, high = np.split(x, [size, n - size if n > 2 * most else size])
    centre = float(between.mean()) if len(between) else float(high[0])
    inner_squares = float(((between - centre) ** 2).sum())
    low, high = low - centre, high - centre
    if n == 1:
        return centre, 0.0
    counts = np.arange(min(math.ceil(budget), n))
    below, above = (each.ravel() for each in np.meshgrid(counts, counts))
    inside = np.maximum(n - below - above, 1)
    share = budget - below - above - (above - below) ** 2 / inside
    fits = (below <= len(low)) & (above <= len(high)) & (below + above < n) & (share > 0)
    below, above = below[fits], above[fits]
    inside, share = inside[fits], share[fits]
    # from the middle outwards, so that an outlier at an end causes no loss of digits
    first, last = len(low) - below, len(high) - above
    total = _sums(low[::-1])[first] + _sums(high)[last]
    squares = inner_squares + _sums(low[::-1] ** 2)[first] + _sums(high**2)[last]
    tau = np.sqrt(np.maximum(squares - total**2 / inside, 0) / share)
    m = (total + (above - below) * tau) / inside
    order = np.concatenate([[-np.inf], low, high, [np.inf]])
    end = len(order) - 1 - above  # order[below] is clipped below, order[end] above
    gaps = [order[below] - (m - tau), (m - tau) - order[below + 1]]
    gaps += [order[end - 1] - (m + tau), (m + tau) - order[end]]
    best = int(np.argmin(np.maximum(np.max(gaps, axis=0), 0)))
    return centre + float(m[best]), float(tau[best])


def _sums(x: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(x)])


__all__ = ["AdaptiveHuber", "Catoni", "LeeValiant", "Mean", "MedianOfMeans"]
__all__ += ["PermutedMedianOfMeans", "SampleMean", "TrimmedMean", "Winsorised", "huber_path"]

Labels = ArrayLike | None
Rng = Generator | None


class Mean(Protocol):
    """A callable from samples, (n,), with optional group labels, (n,), to one number."""

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:
        """Return the mean."""


def apply_mean(
    mean: Mean | Callable[[FloatArray], float], samples: FloatArray, *, groups: Labels, rng: Rng
) -> float:
    """Return the mean of samples; it may also be a function of the samples alone.

    >>> apply_mean(np.median, np.array([1.0, 2.0, 9.0]), groups=None, rng=None)
    2.0
    """
    settings = inspect.signature(mean).parameters
    if "groups" in settings or any(each.kind is each.VAR_KEYWORD for each in settings.values()):
        return float(mean(samples, groups=groups, rng=rng))  # type: ignore[call-arg]
    return float(mean(samples))


def huber_path(samples: ArrayLike, taus: ArrayLike) -> FloatArray:
    """Return Huber means at each of `taus`, (T,): O(n log n) once, then O(log n) for each.

    That at τ is the m with Σ ψ(x_i − m) = 0, where ψ clips to [−τ, τ]: the mean for a large τ, the
    median for τ → 0. If the solutions are an interval, it is the midpoint.

    >>> huber_path([0.0, 0.0, 3.0], [0.5, 3.0]).tolist()
    [0.25, 1.0]
    """
    thresholds = np.asarray(taus, dtype=np.float64)
    if thresholds.ndim != 1 or not (thresholds > 0).all():
        raise MethodError(f"Huber thresholds tau must be positive. Got {taus!r} instead.")
    centre, x = _centred(_checked(samples))
    # S[j] − S[i] = Σ x[i:j], from the middle outwards: an outlier at an end causes no loss of digits
    half = len(x) // 2
    sums = np.concatenate([-np.cumsum(x[:half][::-1])[::-1], _sums(x[half:])])

    def pull(m: float, tau: float) -> float:
        low, high = x.searchsorted(m - tau), x.searchsorted(m + tau)
        return float((sums[high] - sums[low] - (high - low) * m) / tau + (len(x) - high - low))

    limit = x[-1] - x[0]  # a larger threshold clips nothing either
    return np.array([centre + root(pull, min(float(tau), limit)) for tau in thresholds])


class _Settings(Configurable):
    """Base of the means: what their settings must be."""

    constraints: ClassVar = {"delta": LEVEL, "fraction": Within("[0, 0.5]"), "variance": POSITIVE}
    constraints |= {"blocks": COUNT, "permutations": COUNT}

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:  # noqa: ARG002
        """Return the mean of `samples`, (n,)."""
        return self._mean(_checked(samples))

    def _mean(self, x: FloatArray) -> float:
        """Return the mean of finite samples, (n,), at least one."""
        raise NotImplementedError


@dataclass(frozen=True)
class SampleMean(_Settings):
    """The plain mean: unbiased also for skewed samples, but not robust to outliers.

    >>> SampleMean()([1.0, 2.0, 6.0])
    3.0
    """

    def _mean(self, x: FloatArray) -> float:
        return float(np.clip(x.mean(), x.min(), x.max()))  # exact for constant samples


@dataclass(frozen=True)
class MedianOfMeans(_Settings):
    """Median of block means: biased towards the centre on skewed samples, more so with many blocks.

    It is the median of all block means of `permutations` random partitions. Blocks have equally many
    groups (or samples, without groups). By default there are ⌈8 log(2/δ)⌉ blocks, but at most half the
    number of groups; δ is then not reached. Its error is sub-Gaussian at level δ if the variance is
    finite (Lugosi and Mendelson 2019, §2.1).

    >>> MedianOfMeans(blocks=5)([1.0, 2.0, 3.0, 4.0, 1000.0])
    3.0
    """

    blocks: int | None = None
    permutations: int = 1
    delta: float = 0.05

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:
        """Return the mean of `samples`, (n,), with these group labels, (n,)."""
        x = _checked(samples)
        centre = float(np.median(x))  # sums of deviations are exact for constant samples
        sums, sizes = _units(x - centre, groups)
        units, blocks = len(sums), self.blocks
        if blocks is None:
            blocks = max(1, min(math.ceil(8 * math.log(2 / self.delta)), units // 2))
        if blocks > units:
            kind = "samples" if groups is None else "groups"
            raise PartitionError(
                f"{blocks} blocks need as many {kind}. Got {units}; ask for fewer."
            )
        rng = np.random.default_rng(0) if rng is None else rng
        starts = np.arange(blocks) * units // blocks
        means = np.empty((self.permutations, blocks))
        for row in means:  # one partition at a time, for O(n) memory
            order = rng.permutation(units)
            row[:] = np.add.reduceat(sums[order], starts) / np.add.reduceat(sizes[order], starts)
        return centre + float(np.median(means))


@dataclass(frozen=True)
class PermutedMedianOfMeans(MedianOfMeans):
    """Median of the block means of many partitions: less noisy, but as biased on skewed samples."""

    permutations: int = 30


@dataclass(frozen=True)
class Catoni(_Settings):
    """Catoni's M-estimator: safe on skewed samples.

    The θ with Σ ψ(α (x_i − θ)) = 0 for Catoni's narrowest influence function: ψ is odd,
    −log(1 − u + u²/2) on [0, 1] and log 2 beyond, and α = √(2 log(2/δ) / (n v)) (Catoni 2012,
    Proposition 2.4 to leading order). Its error is sub-Gaussian at level δ if `variance` is known.
    Otherwise v = mean(min((x − m)², 1/α²)) with m the Huber mean at 1/α, solved jointly: finite for any
    tail. Then it guarantees no level, but clips fewer than 2 log(2/δ) samples, so that its bias on
    skewed samples vanishes as n grows.

    >>> round(Catoni()([1.0, 2.0, 3.0] * 5 + [1e9]), 1)
    2.1
    """

    delta: float = 0.05
    variance: float | None = None

    def _mean(self, x: FloatArray) -> float:
        centre, x = _centred(x)
        budget = 2 * math.log(2 / self.delta)
        if self.variance is None:
            # v and α as above give Σ min(α²(x − m)², 1) = budget; at most half of few samples, because
            # otherwise the scale would be that of the closest pair
            allowed = min(budget, len(x) / 2)
            width = proposal_two(x, allowed)[1] * math.sqrt(allowed / budget)  # 1/α
        else:
            width = math.sqrt(len(x) * self.variance / budget)

        def pull(theta: float, width: float) -> float:
            u = np.clip(x - theta, -width, width) / width
            return float(np.sum(np.copysign(np.log(1 - np.abs(u) + u * u / 2), u)))

        return centre + root(pull, width)


@dataclass(frozen=True)
class LeeValiant(_Settings):
    """Lee and Valiant's estimator (2022, Algorithm 1): safe on skewed samples of finite variance.

    κ + mean(d (1 − min(α d², 1))), d = x − κ, where Σ min(α d_i², 1) = log(1/δ)/3, κ the median of
    means of ⌈log(1/δ)⌉ blocks. Its sub-Gaussian error is optimal where the variance is finite. It drops
    only about log(1/δ)/3 samples, so that a large δ gives little protection against infinite variance.

    >>> LeeValiant(delta=1e-3)([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1e9])
    1.0
    """

    delta: float = 0.05

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:
        """Return the mean of `samples`, (n,), with these group labels, (n,)."""
        x = _checked(samples)
        blocks = min(math.ceil(math.log(1 / self.delta)), len(_units(x, groups)[0]))
        kappa = MedianOfMeans(blocks)(x, groups=groups, rng=rng)
        deviations = x - kappa
        squares = np.sort(deviations**2)
        budget = math.log(1 / self.delta) / 3
        clipped = np.arange(min(math.ceil(budget), len(x)))  # how many squares may exceed 1/α
        largest = len(x) - 1 - clipped
        limits = np.cumsum(squares)[largest] / (budget - clipped)  # 1/α, given how many
        feasible = np.flatnonzero(squares[largest] <= limits)
        if len(feasible) == 0 or limits[feasible[0]] == 0:  # every d ≠ 0 is clipped
            return kappa
        with np.errstate(over="ignore"):  # overflow to infinity is clipped to 1
            weights = 1 - np.minimum(deviations**2 / limits[feasible[0]], 1)
        return kappa + float(np.mean(deviations * weights))


@dataclass(frozen=True)
class TrimmedMean(_Settings):
    """Mean without the extremes: for symmetric tails; biased on skewed samples of any size.

    The ⌊fraction·n⌋ smallest and as many largest samples are left out. A fraction of 0 gives the mean,
    0.5 the median.

    >>> TrimmedMean(0.2)([1.0, 2.0, 3.0, 7.0, 1000.0])
    4.0
    """

    fraction: float
    winsorises: ClassVar[bool] = False

    def _mean(self, x: FloatArray) -> float:
        x = np.sort(x)
        # 0.29 * 100 is a little below 29 in floating point.
        cut = min(math.floor(self.fraction * len(x) + 1e-9), (len(x) - 1) // 2)
        kept = x[cut : len(x) - cut]
        return SampleMean()(np.clip(x, kept[0], kept[-1]) if self.winsorises else kept)


@dataclass(frozen=True)
class Winsorised(TrimmedMean):
    """Mean with extremes replaced by the nearest kept sample: a little less biased than trimming."""

    winsorises: ClassVar[bool] = True


@dataclass(frozen=True)
class AdaptiveHuber(_Settings):
    """Huber mean with a data-driven threshold: safe on skewed samples.

    The Huber mean m whose τ solves Σ min((x_i − m)², τ²)/τ² = log n jointly with m (Wang, Zheng, Zhou
    and Zhou 2021, "A new principle for tuning-free Huber regression"). It clips fewer than log n
    samples, so that its bias vanishes as n grows. If fewer than log n samples differ from all others,
    which are equal, it is their common value: such sparse rewards need another mean.

    >>> AdaptiveHuber()([1.0] * 50 + [1e9])
    1.0
    """

    def _mean(self, x: FloatArray) -> float:
        centre, x = _centred(x)
        return centre + proposal_two(x, math.log(len(x)))[0]


def _checked(samples: ArrayLike) -> FloatArray:
    """Return the samples as floats, (n,); raise if they are invalid."""
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0:
        raise TailproofError(f"samples must have the shape (n,) with n ≥ 1. Got {x.shape} instead.")
    bad = np.flatnonzero(~(np.abs(x) <= 1e140))  # beyond that sums of squares overflow
    if len(bad):
        raise TailproofError(
            f"samples must be finite and below 1e140. Got {x[bad[0]]} at index {bad[0]} "
            f"({len(bad)} such entries of {len(x)}); repair or drop them, or rescale them all."
        )
    return x


def _units(x: FloatArray, groups: Labels) -> tuple[FloatArray, FloatArray]:
    """Return the sum and the size of each group, (G,); without groups each sample is a group."""
    if groups is None:
        return x, np.ones(len(x))
    labels = np.asarray(groups)
    if labels.shape != x.shape:
        raise TailproofError(f"groups must label {len(x)} samples. Got shape {labels.shape}.")
    unit = np.unique(labels, return_inverse=True)[1]
    return np.bincount(unit, weights=x).astype(float), np.bincount(unit).astype(float)


def _centred(x: FloatArray) -> tuple[float, FloatArray]:
    """Return the median and the sorted deviations from it."""
    x = np.sort(x)
    centre = float(x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2
    return centre, x - centre


#: The default of most experiment platforms.
USUAL = "p99.9"
_FORM = re.compile(r"p(\d+(?:\.\d+)?)(:all)?")


@dataclass(frozen=True)
class Cap:
    """A one-sided cap at a percentile: an upper one above 50, a lower one below."""

    percentile: float  # in (0, 100), not 50
    every: bool = False  # percentile of all values, or only of non-zero ones

    @classmethod
    def named(cls, name: str) -> Cap:
        """Return the cap with a name such as "p99.9", "p0.1", or "p99.9:all" with zeros counted.

        >>> Cap.named("p99.9"), Cap.named("p1:all")
        (Cap(percentile=99.9, every=False), Cap(percentile=1.0, every=True))
        """
        match = _FORM.fullmatch(name.strip())
        if match is None or not 0 < float(match[1]) < 100 or float(match[1]) == 50:
            raise MethodError(
                f"clip must be a share of either side such as 0.01, or a percentile such as 'p99.9' "
                f"(upper cap), 'p0.1' (lower cap) or 'p99.9:all' (zeros counted). Got {name!r} instead."
            )
        return cls(float(match[1]), every=match[2] is not None)

    @property
    def upper(self) -> bool:
        """Whether large values are capped, not small ones."""
        return self.percentile > 50

    @property
    def mirrored(self) -> Cap:
        """The same cap on the other side."""
        return Cap(round(100 - self.percentile, 10), self.every)

    def capped(self, values: FloatArray) -> FloatArray:
        """Return the values clipped at the cap, (n,); zeros stay 0 unless they are counted.

        >>> Cap.named("p90").capped(np.array([0.0, 0.0, 1.0, 2.0, 3.0]))
        array([0. , 0. , 1. , 2. , 2.8])
        """
        counted = values if self.every else values[values != 0]
        if not len(counted):
            return values
        cap = float(np.percentile(counted, self.percentile))
        if not self.every:
            cap = max(cap, 0.0) if self.upper else min(cap, 0.0)
        return np.minimum(values, cap) if self.upper else np.maximum(values, cap)

    def __str__(self) -> str:
        return f"p{self.percentile:g}{':all' if self.every else ''}"
