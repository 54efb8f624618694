"""Means and log-MSEs with 95 % intervals over replicates, and comparisons that respect the pairing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy

from tailproof.arrays import FloatArray, IntArray
from tailproof.studies.paper.experiment import Verdict
from tailproof.studies.paper.results import Results

RESAMPLES = 2000
#: Replicates below which a bootstrap would be too narrow, and means get Student's interval.
FEW = 20
#: Rows of numbers, one a replicate, to one number a row of resamples: (…, n) to (…).
Statistic = Callable[[FloatArray], FloatArray]
Winner = Literal["first", "second", "neither"]


@dataclass(frozen=True)
class Summary:
    """A number over replicates with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@lru_cache(maxsize=16)
def _resamples(count: int) -> IntArray:
    # One table for each number of replicates: the same resamples for every method keep the pairs.
    return np.random.default_rng(0).integers(count, size=(RESAMPLES, count))


def mean(values: FloatArray) -> FloatArray:
    """Return the mean over replicates."""
    return np.asarray(values.mean(axis=-1))


def log_mse(errors: FloatArray) -> FloatArray:
    """Return the logarithm of the mean squared error, the paper's measure."""
    return np.asarray(np.log(np.square(errors).mean(axis=-1)))


def median_size(errors: FloatArray) -> FloatArray:
    """Return the median absolute error, which no single replicate decides."""
    return np.asarray(np.median(np.abs(errors), axis=-1))


def summarise(values: FloatArray, statistic: Statistic = mean) -> Summary:
    """Return a statistic with its 95 % percentile bootstrap interval over replicates.

    A mean of few replicates has Student's interval instead. Squared errors under tails this heavy
    have no finite mean: their interval describes these replicates, and the next hundred may lie
    outside it.

    Examples
    --------
    >>> one = summarise(np.arange(100.0))
    >>> bool(one.low < one.value == 49.5 < one.high)
    True
    """
    values = np.asarray(values, dtype=float)
    low, high = _interval(values, statistic)
    return Summary(float(statistic(values)), low, high)


def _interval(values: FloatArray, statistic: Statistic) -> tuple[float, float]:
    count = len(values)
    if statistic is mean and 1 < count < FEW:
        half = float(scipy.special.stdtrit(count - 1, 0.975) * values.std(ddof=1)) / math.sqrt(
            count
        )
        return float(values.mean()) - half, float(values.mean()) + half
    drawn = statistic(values[_resamples(count)])
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return low, high


def winner(
    first: FloatArray, second: FloatArray, statistic: Statistic = mean
) -> tuple[Winner, float]:
    """Return which of two paired samples has the smaller statistic beyond doubt, and the difference.

    Beyond doubt: the 95 % interval of the difference, over the same replicates of both, does not
    contain 0.
    """
    difference = float(statistic(first) - statistic(second))
    if len(first) < 2:  # one replicate says nothing of its own error
        return "neither", difference
    if statistic is mean:
        low, high = _interval(first - second, mean)
    else:
        index = _resamples(len(first))
        drawn = statistic(first[index]) - statistic(second[index])
        low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    if high < 0:
        return "first", difference
    return ("second" if low > 0 else "neither"), difference


@dataclass(frozen=True)
class Comparison:
    """In how many cells the first method is better, worse, or neither beyond doubt."""

    better: int
    worse: int
    open: int
    differences: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether 'the first is better' holds: everywhere, somewhere, nowhere, or nobody knows."""
        if self.open and not self.better and not self.worse:
            return "undecided"
        return verdict_of(self.better, self.better + self.worse + self.open)

    def __str__(self) -> str:
        total = self.better + self.worse + self.open
        parts = [f"better in {self.better} of {total} cells"]
        if self.worse:
            parts.append(f"worse in {self.worse}")
        if self.open:
            parts.append(f"undecided in {self.open}")
        low, high = min(self.differences), max(self.differences)
        return ", ".join(parts) + f"; difference {low:+.2f} to {high:+.2f}"


def verdict_of(true: int, total: int) -> Verdict:
    """Return what to say of a claim that is true of so many cells."""
    if true == total:
        return "holds"
    return "holds in part" if true else "does not hold"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim of several parts: theirs, if they agree.

    >>> together(["holds", "undecided"]), together(["does not hold", "undecided"])
    ('holds in part', 'does not hold')
    """
    found = set(verdicts)
    if len(found) == 1:
        return found.pop()
    return "holds in part" if found & {"holds", "holds in part"} else "does not hold"


def compare(
    results: Results,
    first: str,
    second: str,
    cells: Sequence[Mapping[str, Any]],
    *,
    column: str = "error",
    statistic: Statistic = log_mse,
    higher_is_better: bool = False,
) -> Comparison:
    """Compare two methods cell by cell; by default smaller is better."""
    sign = -1.0 if higher_is_better else 1.0
    tally = {"first": 0, "second": 0, "neither": 0}
    differences = []
    for cell in cells:
        one = results.values(column, method=first, **cell)
        two = results.values(column, method=second, **cell)
        who, difference = winner(sign * one, sign * two, statistic)
        tally[who] += 1
        differences.append(sign * difference)
    return Comparison(tally["first"], tally["second"], tally["neither"], tuple(differences))
