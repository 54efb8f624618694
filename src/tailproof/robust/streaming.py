"""Order statistics and robust means of samples that do not fit in memory.

Each is a generator, called a conversation: it yields a *reduction*, a function of an array whose
results add up over arrays, receives the sum over all samples, and may yield again. The caller makes one
pass over the samples for each reduction, and several conversations can share a pass. Results equal
those of the same mean in memory, up to rounding; memory does not grow with the number of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.robust.means import (
    AdaptiveHuber,
    Catoni,
    FindExtremes,
    Mean,
    SampleMean,
    TrimmedMean,
    Winsorised,
    proposal_two,
)

T = TypeVar("T")
Reduction = Callable[[FloatArray], Any]
Conversation = Generator[Reduction, Any, T]
_DIGIT = 16  # bits of an order statistic that one pass determines
_MOST_STEPS = 200


def converse(
    conversations: Sequence[Conversation[T]],
    ask: Callable[[list[Reduction | None]], Sequence[Any]],
) -> list[T]:
    """Return the result of each conversation; `ask` computes one reduction of each in one pass.

    Examples
    --------
    >>> samples = np.array([3.0, 1.0, 2.0, 100.0])
    >>> ask = lambda questions: [question(samples) for question in questions]
    >>> converse([ranked_samples([0, 2])], ask)
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
    """Return the conversation that computes a mean of `count` samples; None if there is none."""
    if isinstance(mean, SampleMean):
        return _plain_mean(count)
    if isinstance(mean, AdaptiveHuber):
        return _adaptive_huber(count)
    if isinstance(mean, Catoni):
        return _catoni(mean, count)
    if isinstance(mean, TrimmedMean | Winsorised):
        return _trimmed(mean.fraction, isinstance(mean, Winsorised), count)
    return None


def ranked_samples(ranks: Sequence[int]) -> Conversation[FloatArray]:
    """Find the samples of these ranks, from 0 for the smallest, exactly and in four passes.

    Floating-point numbers have the order of their bits, except for signs. Each pass counts the next
    sixteen bits of the samples that agree with all bits found so far.
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
    values = yield from ranked_samples([*low, *high])
    below, above = values[: len(low)], values[len(low) :]
    return np.asarray(below + (above - below) * (places - low))


@dataclass(frozen=True)
class CountDigits:
    """Counts the next sixteen bits after each prefix, in the ordered bits of the samples."""

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
    """Return integers with the same order as the samples."""
    bits = (np.ascontiguousarray(samples, dtype=np.float64) + 0.0).view(np.uint64)  # no −0
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)


def _real(bits: IntArray) -> FloatArray:
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, bits ^ sign, ~bits).astype(np.uint64).view(np.float64)


def _plain_mean(count: int) -> Conversation[float]:
    total = yield np.sum
    return float(total / count)


def _adaptive_huber(count: int) -> Conversation[float]:
    extremes = yield FindExtremes.within(math.log(count))
    return proposal_two(extremes, math.log(count))[0]


def _catoni(mean: Catoni, count: int) -> Conversation[float]:
    budget = 2 * math.log(2 / mean.delta)
    allowed = min(budget, count / 2)
    extremes = yield FindExtremes.within(budget)
    theta, tau = proposal_two(extremes, allowed)
    if mean.variance is None:
        width = tau * math.sqrt(allowed / budget)
    else:
        width = math.sqrt(count * mean.variance / budget)
    if width == 0:
        return theta
    tolerance = 1e-14 * (abs(theta) + math.sqrt(extremes.squares / max(extremes.count, 1)))
    low, high = float(extremes.low[0]), float(extremes.high[-1])
    for _ in range(_MOST_STEPS):  # Newton steps, or bisection if they leave the bracket
        pull, slope = yield CatoniPull(theta, width)
        if slope == 0 and abs(pull) < 0.5:  # every number between two samples is a root
            middle = yield from ranked_samples([(count - 1) // 2, count // 2])
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
        """Return both sums, (2,)."""
        u = np.clip((samples - self.theta) / self.width, -1, 1)
        inside = 1 - np.abs(u) + u * u / 2
        slope = np.where(np.abs(u) < 1, (1 - np.abs(u)) / inside, 0.0)
        return np.array([np.copysign(np.log(inside), u).sum(), slope.sum()])


def _trimmed(fraction: float, winsorise: bool, count: int) -> Conversation[float]:
    # 0.29 * 100 is a little below 29 in floating point
    cut = min(math.floor(fraction * count + 1e-9), (count - 1) // 2)
    low, high = yield from ranked_samples([cut, count - 1 - cut])
    if low == high:
        return float(low)
    total, at_most, at_least = yield Inside(float(low), float(high))
    if winsorise:
        return float(total + at_most * low + at_least * high) / count
    return float(total + (at_most - cut) * low + (at_least - cut) * high) / (count - 2 * cut)


@dataclass(frozen=True)
class Inside:
    """Σx of the samples strictly between two limits, and the numbers at or beyond each."""

    low: float
    high: float

    def __call__(self, samples: FloatArray) -> FloatArray:
        """Return the three numbers, (3,)."""
        below, above = samples <= self.low, samples >= self.high
        return np.array([samples[~(below | above)].sum(), below.sum(), above.sum()])
