"""Aggregates: combine the values of K members, (K, …), into one, (…)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, sqrt
from typing import ClassVar, Literal, Protocol

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.errors import QuantileWarning
from tailproof.parameters import SHARE, Configurable, OneOf, Within

_LARGEST_NETWORK = 16  # for larger K, numpy's partition is as fast


class Aggregate(Protocol):
    """Combines K values into one, entry by entry along the first axis."""

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the aggregate of values (K, …), of shape (…)."""


@lru_cache(maxsize=256)
def selection_network(
    count: int, wanted: tuple[int, ...]
) -> tuple[tuple[int, int, bool, bool], ...]:
    """Return the comparators that put the `wanted` order statistics of `count` values in place.

    Batcher's odd–even merge sort, without the halves of comparators that no wanted output needs.
    Each entry (i, j, low, high) says to write the smaller value to i (if `low`) and the larger to j
    (if `high`).

    Examples
    --------
    >>> selection_network(3, (0,))  # the smallest of three
    ((0, 1, True, False), (0, 2, True, False))
    """
    pairs = []
    width = 1
    while width < count:
        gap = width
        while gap >= 1:
            for start in range(gap % width, count - gap, 2 * gap):
                for i in range(start, min(start + gap, count - gap)):
                    if i // (2 * width) == (i + gap) // (2 * width):
                        pairs.append((i, i + gap))
            gap //= 2
        width *= 2
    needed = set(wanted)
    network = []
    for i, j in reversed(pairs):
        if i in needed or j in needed:
            network.append((i, j, i in needed, j in needed))
            needed |= {i, j}
    return tuple(reversed(network))


def order_statistics(values: FloatArray, indices: Sequence[int]) -> list[FloatArray]:
    """Return the order statistics with these indices (0 is the smallest) along the first axis.

    Few values are sorted by a network of element-wise minima and maxima, which is many times faster
    than a general sort along a short axis.
    """
    count = len(values)
    if count > _LARGEST_NETWORK:
        placed = np.partition(values, sorted(set(indices)), axis=0)
        return [placed[i] for i in indices]
    rows = list(np.array(values, dtype=float).reshape(count, -1))  # a copy: rows are overwritten
    spare = np.empty_like(rows[0])
    for i, j, low, high in selection_network(count, tuple(sorted(set(indices)))):
        if low and high:
            np.minimum(rows[i], rows[j], out=spare)
            np.maximum(rows[i], rows[j], out=rows[j])
            rows[i], spare = spare, rows[i]
        elif low:
            np.minimum(rows[i], rows[j], out=rows[i])
        else:
            np.maximum(rows[i], rows[j], out=rows[j])
    return [rows[i].reshape(values.shape[1:]) for i in indices]


def median(values: FloatArray) -> FloatArray:
    """Return the median along the first axis; the mean of the middle two for even K."""
    return _interpolated(values, (len(values) - 1) / 2)


def _interpolated(values: FloatArray, position: float) -> FloatArray:
    """Return the linear interpolation of order statistics at a position, along the first axis."""
    low = int(position)
    if position == low:
        return order_statistics(values, (low,))[0]
    first, second = order_statistics(values, (low, low + 1))
    return first + (position - low) * (second - first)


@dataclass(frozen=True)
class Mean(Configurable):
    """The mean of the members: no protection against heavy tails."""

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the mean along the first axis."""
        return np.asarray(np.mean(values, axis=0))

    def __str__(self) -> str:
        return "mean"


@dataclass(frozen=True)
class Median(Configurable):
    """The median of the members: robust to fewer than K/2 arbitrary values."""

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the median along the first axis."""
        return median(np.asarray(values))

    def __str__(self) -> str:
        return "median"


@dataclass(frozen=True)
class Quantile(Configurable):
    """The q-quantile of the members: pessimism by order statistics (section 4.2).

    Parameters
    ----------
    q
        Between 0 (the minimum) and 1.
    rule
        ``"linear"`` interpolates between the order statistics around position q·(K − 1), so that
        q = ½ is the median. ``"lower"`` is the order statistic of index max(1, ⌈qK⌉), the
        quantile of the paper's bound; if qK < 1 that is the minimum, with a `QuantileWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> five = np.array([5.0, 1.0, 2.0, 4.0, 3.0])
    >>> float(Quantile(0.1)(five)), float(Quantile(0.5)(five)), float(Quantile(0.0)(five))
    (1.4, 3.0, 1.0)
    """

    constraints: ClassVar = {"q": SHARE, "rule": OneOf("linear", "lower")}

    q: float
    rule: Literal["linear", "lower"] = "linear"

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the quantile along the first axis."""
        values = np.asarray(values)
        count = len(values)
        if self.rule == "lower":
            if 0 < self.q * count < 1:
                warnings.warn(
                    f"The {self.q:g}-quantile of {count} members by the rule 'lower' is their "
                    f"minimum, because q·K = {self.q * count:g} < 1. Use at least "
                    f"{1 / self.q:.0f} folds, or rule='linear'.",
                    QuantileWarning,
                    stacklevel=2,
                )
            index = max(1, ceil(self.q * count - 1e-9)) - 1
            return order_statistics(values, (index,))[0]
        return _interpolated(values, self.q * (count - 1))

    def __str__(self) -> str:
        return f"quantile {self.q:g}" + (" (lower)" if self.rule == "lower" else "")


@dataclass(frozen=True)
class TrimmedMean(Configurable):
    """The mean of the members without the lowest and highest ⌊fraction·K⌋."""

    constraints: ClassVar = {"fraction": Within("[0, 0.5)")}

    fraction: float = 0.2

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the trimmed mean along the first axis."""
        count = len(values)
        cut = int(self.fraction * count + 1e-9)
        return np.asarray(np.mean(np.sort(values, axis=0)[cut : count - cut], axis=0))

    def __str__(self) -> str:
        return f"trimmed mean {self.fraction:g}"


@dataclass(frozen=True)
class MeanMinusStd(Configurable):
    """Mean − factor · standard deviation of the members: the usual pessimistic estimate, not robust.

    Parameters
    ----------
    factor
        Number of standard deviations.
    ddof
        The variance is the sum of squares divided by K − ddof. The paper's released code divides by
        K − 1 in SAC-N (STD) (`torch.std`) and by K in PB on CartPole (`numpy.std`).

    Examples
    --------
    >>> float(MeanMinusStd(2.0)(np.array([1.0, 3.0]))), float(MeanMinusStd(2.0)(np.array([5.0])))
    (0.0, 5.0)
    """

    constraints: ClassVar = {"ddof": OneOf(0, 1)}

    factor: float = 2.0
    ddof: int = 0

    def factor_for(self, count: int) -> float:
        """Return the factor for the standard deviation with divisor K, of K = `count` members."""
        return self.factor * sqrt(count / max(1, count - self.ddof))

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return mean − factor·std along the first axis."""
        factor = self.factor_for(len(values))
        return np.asarray(np.mean(values, axis=0) - factor * np.std(values, axis=0))

    def __str__(self) -> str:
        return f"mean - {self.factor:g} std" + (" (K - 1)" if self.ddof else "")


def order_weights(aggregate: Aggregate, count: int) -> tuple[float, ...] | None:
    """Return the weight of each order statistic if the aggregate is linear in them, else None.

    Torch and ONNX compute such aggregates from these weights, so that each is defined only once.

    >>> order_weights(Median(), 4)
    (0.0, 0.5, 0.5, 0.0)
    """
    if isinstance(aggregate, Median | Quantile | TrimmedMean):
        return _order_weights(aggregate, count)
    return None


@lru_cache(maxsize=256)
def _order_weights(aggregate: Median | Quantile | TrimmedMean, count: int) -> tuple[float, ...]:
    # Σ w_j x_(j) equals Σ_{j ≥ i} w_j on a step function from 0 to 1 at index i
    ladders = (np.arange(count) >= np.arange(count + 1)[:, None]).astype(float)
    tails = [float(aggregate(ladder)) for ladder in ladders]
    return tuple(here - after for here, after in pairwise(tails))
