"""Order statistics and robust means of samples that are never in memory all at once.

Each is written as a conversation: it asks for a *reduction*, a function of an array whose results add
up over arrays, is handed the sum over all samples, and may ask again. Whoever holds the samples makes
one pass for each question, and several conversations may share a pass. All answers are those of the
same mean in memory, to rounding; memory does not grow with the number of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.statistics.means import (
    AdaptiveHuber,
    Catoni,
    Mean,
    SampleMean,
    TrimmedMean,
    Winsorised,
)

T = TypeVar("T")
Reduction = Callable[[FloatArray], Any]
Conversation = Generator[Reduction, Any, T]
_DIGIT = 16  # bits that one pass finds out about an order statistic
_MOST_STEPS = 200
_BLOCK = 32  # samples whose smallest and largest stand for them
_LONG = 4_096  # samples that are worth it


def converse(
    conversations: Sequence[Conversation[T]],
    ask: Callable[[list[Reduction | None]], Sequence[Any]],
) -> list[T]:
    """Return what each conversation ends with; `ask` answers one question of each in one pass.

    Examples
    --------
    >>> samples = np.array([3.0, 1.0, 2.0, 100.0])
    >>> ask = lambda questions: [question(samples) for question in questions]
    >>> converse([order_statistics([0, 2])], ask)
    [array([1., 3.])]
    """
    results: dict[int, T] = {}
    questions: list[Reduction | None] = [None] * len(conversations)
    answers: Sequence[Any] = [None] * len(conversations)
    while len(results) < len(conversations):
        for place, conversation in enumerate(conversations):
            if place in results:
                continue
            try:
                questions[place] = conversation.send(answers[place])
            except StopIteration as end:
                results[place], questions[place] = end.value, None
        if len(results) < len(conversations):
            answers = ask(questions)
    return [results[place] for place in range(len(conversations))]


def streamed(mean: Mean, count: int) -> Conversation[float] | None:
    """Return the conversation that finds a mean of `count` samples; None for means without one."""
    if isinstance(mean, SampleMean):
        return _plain_mean(count)
    if isinstance(mean, AdaptiveHuber):
        return _adaptive_huber(count)
    if isinstance(mean, Catoni):
        return _catoni(mean, count)
    if isinstance(mean, TrimmedMean | Winsorised):
        return _trimmed(mean.fraction, isinstance(mean, Winsorised), count)
    return None


def order_statistics(ranks: Sequence[int]) -> Conversation[FloatArray]:
    """Find the samples of these ranks, counted from 0 for the smallest: in four passes, exactly.

    Floating-point numbers compare as their bits do, but for signs. A pass counts the next sixteen
    bits of the samples that agree with all bits found so far.
    """
    left = np.array(ranks, dtype=np.int64)
    found = np.zeros(len(left), dtype=np.uint64)
    for level in range(64 // _DIGIT):
        prefixes, own = np.unique(found, return_inverse=True)
        counts = yield CountDigits(prefixes, level)  # (prefixes, 2^16)
        below = np.cumsum(counts, axis=1)
        digit = np.array(
            [np.searchsorted(below[j], rank, "right") for j, rank in zip(own, left, strict=True)]
        )
        left = left - np.where(digit > 0, below[own, np.maximum(digit, 1) - 1], 0)
        found = (found << np.uint64(_DIGIT)) | digit.astype(np.uint64)
    return _real(found)


def quantiles(levels: Sequence[float], count: int) -> Conversation[FloatArray]:
    """Find quantiles of `count` samples, interpolated as `numpy.quantile` does."""
    places = np.array(levels) * (count - 1)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, count - 1)
    values = yield from order_statistics([*low, *high])
    below, above = values[: len(low)], values[len(low) :]
    return np.asarray(below + (above - below) * (places - low))


@dataclass(frozen=True)
class CountDigits:
    """How often each sixteen bits follow each prefix in the ordered bits of the samples."""

    prefixes: IntArray  # (P,)
    level: int  # digits in a prefix

    def __call__(self, samples: FloatArray) -> IntArray:
        """Return the counts, (P, 2^16)."""
        bits = _ordered_bits(samples)
        shift = np.uint64(64 - _DIGIT * (self.level + 1))
        digits = (bits >> shift) & np.uint64((1 << _DIGIT) - 1)
        counts = np.zeros((len(self.prefixes), 1 << _DIGIT), dtype=np.int64)
        for row, prefix in zip(counts, self.prefixes, strict=True):
            chosen = digits
            if self.level:
                chosen = digits[bits >> (shift + np.uint64(_DIGIT)) == prefix]
            row += np.bincount(chosen.astype(np.intp), minlength=len(row))
        return counts


def _ordered_bits(samples: FloatArray) -> IntArray:
    """Return integers that compare as the numbers do."""
    bits = (np.ascontiguousarray(samples, dtype=np.float64) + 0.0).view(np.uint64)  # no −0
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)


def _real(bits: IntArray) -> FloatArray:
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, bits ^ sign, ~bits).astype(np.uint64).view(np.float64)


@dataclass(frozen=True)
class Extremes:
    """The smallest and largest samples one by one, and mean and spread of those between."""

    low: FloatArray  # at most `size` each, in order
    high: FloatArray
    count: float  # how many lie between
    mean: float  # of these
    squares: float  # Σ(x − mean)² over them
    size: int

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.low) + len(self.high) + int(self.count)

    def __add__(self, other: Extremes) -> Extremes:
        known = np.sort(np.concatenate([self.low, other.low, self.high, other.high]))
        size = min(self.size, len(known) // 2)
        between = known[size : len(known) - size] if len(known) > 2 * self.size else known[:0]
        high = known[size:] if len(known) <= 2 * self.size else known[len(known) - size :]
        rest = (self.count, self.mean, self.squares)
        rest = _pooled(*rest, other.count, other.mean, other.squares)
        return Extremes(known[:size], high, *_pooled(*rest, *_moments(between)), self.size)


@dataclass(frozen=True)
class FindExtremes:
    """The `size` smallest and largest samples, and mean and spread of the others."""

    size: int

    def __call__(self, samples: FloatArray) -> Extremes:
        """Return them for some samples."""
        n, size = len(samples), min(self.size, len(samples) // 2)
        if n <= 2 * self.size:
            known = np.sort(samples)
            return Extremes(known[:size], known[size:], 0.0, 0.0, 0.0, self.size)
        low, high, between = _parted(samples, size)
        return Extremes(np.sort(low), np.sort(high), *_moments(between), self.size)


def _parted(samples: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the `size` smallest samples, the `size` largest, and the others.

    The smallest of each of many blocks show how small a sample must be to count: few are, and only
    these are sorted out.
    """
    n = len(samples)
    if n < _LONG or size > n // (4 * _BLOCK):
        parted = np.partition(samples, (size, n - size - 1))
        return parted[:size], parted[n - size :], parted[size : n - size]
    blocks = samples[: n - n % _BLOCK].reshape(_BLOCK, -1)  # its columns: faster than rows
    small = np.partition(blocks.min(axis=0), size - 1)[size - 1]  # at least `size` are no larger
    large = np.partition(blocks.max(axis=0), -size)[-size]
    inside = (samples > small) & (samples < large)
    beyond = np.flatnonzero(~inside)
    if len(beyond) > n // 8:  # too many alike
        parted = np.partition(samples, (size, n - size - 1))
        return parted[:size], parted[n - size :], parted[size : n - size]
    extreme = np.partition(samples[beyond], (size - 1, len(beyond) - size))
    between = np.concatenate([samples[inside], extreme[size : len(extreme) - size]])
    return extreme[:size], extreme[len(extreme) - size :], between


def _moments(x: FloatArray) -> tuple[float, float, float]:
    if len(x) == 0:
        return 0.0, 0.0, 0.0
    mean = float(x.mean())
    return float(len(x)), mean, float(((x - mean) ** 2).sum())


def _pooled(
    count: Any, mean: Any, squares: Any, other: Any, other_mean: Any, other_squares: Any
) -> tuple[Any, Any, Any]:
    """Return count, mean and sum of squares about it of two samples together."""
    total = count + other
    share = other / np.maximum(total, 1)
    gap = other_mean - mean
    return total, mean + gap * share, squares + other_squares + gap**2 * count * share


def proposal_two(extremes: Extremes, budget: float) -> tuple[float, float]:
    """Return m, τ with Σ ψ_τ(x − m) = 0 and Σ min((x − m)², τ²) = budget·τ²: Huber's Proposal 2.

    With p samples clipped below, q above and k inside, of mean c and sum of squares V about it,

        m = c + (q − p) τ / k,    τ² = V / (budget − p − q − (q − p)² / k).

    As p + q < budget is small, all (p, q) are tried: one agrees with the order of the samples.
    """
    low, high, n = extremes.low, extremes.high, extremes.samples
    if n == 1:
        return float(high[0]), 0.0
    counts = np.arange(min(math.ceil(budget), n))
    below, above = (each.ravel() for each in np.meshgrid(counts, counts))
    fits = (below <= len(low)) & (above <= len(high)) & (below + above < n)
    below, above = below[fits], above[fits]
    tails = [
        _pooled(*_moments(low[p:]), *_moments(high[: len(high) - q]))
        for p, q in zip(below, above, strict=True)
    ]
    rest = (extremes.count, extremes.mean, extremes.squares)
    inside, mean, spread = _pooled(*rest, *np.array(tails).T)
    share = budget - below - above - (above - below) ** 2 / inside
    fits = share > 0
    below, above, inside, mean, spread, share = (
        each[fits] for each in (below, above, inside, mean, spread, share)
    )
    tau = np.sqrt(spread / share)
    m = mean + (above - below) * tau / inside
    order = np.concatenate([[-np.inf], low, high, [np.inf]])
    last = len(order) - 1 - above  # order[below] is clipped below, order[last] above
    gaps = [order[below] - (m - tau), (m - tau) - order[below + 1]]
    gaps += [order[last - 1] - (m + tau), (m + tau) - order[last]]
    best = int(np.argmin(np.maximum(np.max(gaps, axis=0), 0)))
    return float(m[best]), float(tau[best])


def _plain_mean(count: int) -> Conversation[float]:
    total = yield np.sum
    return float(total / count)


def _adaptive_huber(count: int) -> Conversation[float]:
    budget = math.log(count)
    extremes = yield FindExtremes(math.ceil(budget) + 1)
    return proposal_two(extremes, budget)[0]


def _catoni(mean: Catoni, count: int) -> Conversation[float]:
    budget = 2 * math.log(2 / mean.delta)
    allowed = min(budget, count / 2)
    extremes = yield FindExtremes(math.ceil(budget) + 1)
    theta, tau = proposal_two(extremes, allowed)
    if mean.variance is None:
        width = tau * math.sqrt(allowed / budget)
    else:
        width = math.sqrt(count * mean.variance / budget)
    if width == 0:
        return theta
    tolerance = 1e-14 * (abs(theta) + math.sqrt(extremes.squares / max(extremes.count, 1)))
    low, high = float(extremes.low[0]), float(extremes.high[-1])
    for _ in range(_MOST_STEPS):  # Newton's, or halves where these leave what is known of the root
        pull, slope = yield CatoniPull(theta, width)
        if slope == 0 and abs(pull) < 0.5:  # every number between two samples is a root
            middle = yield from order_statistics([(count - 1) // 2, count // 2])
            return float(middle.mean())
        step = width * pull / slope if slope > 0 else math.inf
        if abs(step) <= tolerance:
            break
        low, high = (theta, high) if pull > 0 else (low, theta)
        theta = theta + step if low < theta + step < high else (low + high) / 2
    return theta


@dataclass(frozen=True)
class CatoniPull:
    """Σψ((x − θ)/width) and Σψ' there, for Catoni's narrowest influence function."""

    theta: float
    width: float

    def __call__(self, samples: FloatArray) -> FloatArray:
        """Return both, (2,)."""
        u = np.clip((samples - self.theta) / self.width, -1, 1)
        inside = 1 - np.abs(u) + u * u / 2
        slope = np.where(np.abs(u) < 1, (1 - np.abs(u)) / inside, 0.0)
        return np.array([np.copysign(np.log(inside), u).sum(), slope.sum()])


def _trimmed(fraction: float, winsorise: bool, count: int) -> Conversation[float]:
    # 0.29 * 100 is a little below 29 in floating point
    cut = min(math.floor(fraction * count + 1e-9), (count - 1) // 2)
    low, high = yield from order_statistics([cut, count - 1 - cut])
    if low == high:
        return float(low)
    total, at_most, at_least = yield Inside(float(low), float(high))
    if winsorise:
        return float(total + at_most * low + at_least * high) / count
    return float(total + (at_most - cut) * low + (at_least - cut) * high) / (count - 2 * cut)


@dataclass(frozen=True)
class Inside:
    """Σx of the samples strictly between two, and how many lie at or beyond either."""

    low: float
    high: float

    def __call__(self, samples: FloatArray) -> FloatArray:
        """Return the three numbers, (3,)."""
        below, above = samples <= self.low, samples >= self.high
        return np.array([samples[~(below | above)].sum(), below.sum(), above.sum()])
