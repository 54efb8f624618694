"""Means and log-MSEs with 95 % intervals over replicates, and paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy

from reproduction.experiment import Cell, Claim, Results, Verdict
from tailproof.arrays import FloatArray, IntArray

RESAMPLES = 2000
#: Replicates below which a bootstrap would be too narrow, and means get Student's interval.
FEW = 20
#: A statistic over replicates, the last axis: (…, n) to (…).
Statistic = Callable[[FloatArray], FloatArray]
Winner = Literal["first", "second", "neither"]


@dataclass(frozen=True)
class Summary:
    """A number with its interval; over replicates, one of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@lru_cache(maxsize=16)
def _resamples(count: int) -> IntArray:
    # One table per number of replicates: all methods use the same resamples, to keep the pairs.
    return np.random.default_rng(0).integers(count, size=(RESAMPLES, count))


def mean(values: FloatArray) -> FloatArray:
    """Return the mean over replicates."""
    return np.asarray(values.mean(axis=-1))


def log_mse(errors: FloatArray) -> FloatArray:
    """Return the logarithm of the mean squared error, the paper's measure."""
    return np.asarray(np.log(np.square(errors).mean(axis=-1)))


def median_size(errors: FloatArray) -> FloatArray:
    """Return the median absolute error, which is robust to single replicates."""
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
    count, value = len(values), float(statistic(values))
    if statistic is mean and 1 < count < FEW:
        half = float(scipy.special.stdtrit(count - 1, 0.975) * values.std(ddof=1))
        half /= math.sqrt(count)
        return Summary(value, value - half, value + half)
    drawn = statistic(values[_resamples(count)])
    return Summary(value, *np.quantile(drawn, [0.025, 0.975]).tolist())


def winner(
    first: FloatArray, second: FloatArray, statistic: Statistic = mean
) -> tuple[Winner, float]:
    """Return which of two paired samples has a significantly smaller statistic, and the difference.

    Significant: the 95 % interval of the paired difference does not contain 0.
    """
    difference = float(statistic(first) - statistic(second))
    if len(first) < 2:  # one replicate has no error estimate
        return "neither", difference
    if statistic is mean:
        gap = summarise(first - second)
        low, high = gap.low, gap.high
    else:
        index = _resamples(len(first))
        drawn = statistic(first[index]) - statistic(second[index])
        low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    if high < 0:
        return "first", difference
    return ("second" if low > 0 else "neither"), difference


@dataclass(frozen=True)
class Tally:
    """In how many cells the first of two methods is significantly better, worse, or neither."""

    better: int
    worse: int
    open: int
    differences: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether 'the first is better' holds: everywhere, somewhere, nowhere, or undecided."""
        if self.open and not self.better and not self.worse:
            return "undecided"
        return verdict_of(self.better, len(self.differences))

    def __str__(self) -> str:
        parts = [f"better in {self.better} of {len(self.differences)} cells"]
        if self.worse:
            parts.append(f"worse in {self.worse}")
        if self.open:
            parts.append(f"undecided in {self.open}")
        low, high = min(self.differences), max(self.differences)
        return ", ".join(parts) + f"; difference {low:+.2f} to {high:+.2f}"


def verdict_of(true: int, total: int) -> Verdict:
    """Return the verdict on a claim that is true in `true` of `total` cells."""
    if true == total:
        return "holds"
    return "holds in part" if true else "does not hold"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the combined verdict on a claim of several parts.

    >>> together(["holds", "undecided"]), together(["does not hold", "undecided"])
    ('holds in part', 'does not hold')
    """
    found = set(verdicts)
    if len(found) == 1:
        return found.pop()
    return "holds in part" if found & {"holds", "holds in part"} else "does not hold"


@dataclass(frozen=True)
class Measure:
    """A column of the results, its statistic over replicates, and whether more of it is better.

    `missing` replaces missing values.
    """

    column: str
    statistic: Statistic = mean
    higher_is_better: bool = False
    missing: float = math.nan

    def values(self, results: Results, **where: Any) -> FloatArray:
        """Return the numbers of some rows, one for each replicate."""
        values = results.values(self.column, **where)
        return np.where(np.isnan(values), self.missing, values)

    def summary(self, results: Results, **where: Any) -> Summary:
        """Return the statistic of some rows."""
        return summarise(self.values(results, **where), self.statistic)

    def winner(self, results: Results, first: Cell, second: Cell) -> tuple[Winner, float]:
        """Return which of two groups of rows is significantly better, and the difference."""
        sign = -1.0 if self.higher_is_better else 1.0
        one, two = (sign * self.values(results, **each) for each in (first, second))
        who, difference = winner(one, two, self.statistic)
        return who, sign * difference

    def wins(self, results: Results, first: Cell, second: Cell) -> bool:
        """Return whether the first of two groups of rows is significantly better."""
        return self.winner(results, first, second)[0] == "first"

    def tally(self, results: Results, first: str, second: str, cells: Sequence[Cell]) -> Tally:
        """Compare two methods cell by cell."""
        found = [
            self.winner(results, {"method": first, **cell}, {"method": second, **cell})
            for cell in cells
        ]
        who = [each for each, _ in found]
        differences = tuple(difference for _, difference in found)
        return Tally(who.count("first"), who.count("second"), who.count("neither"), differences)

    def claim(
        self,
        results: Results,
        cells: Sequence[Cell],
        paper: str,
        found: str,
        *pairs: tuple[str, str],
        also: Sequence[tuple[str, str]] = (),
    ) -> Claim:
        """Judge that the first method of every pair is better than the second.

        `found` is a template for the tallies of all pairs, and of the `also` pairs, which are only
        reported.
        """
        tallies = [self.tally(results, *pair, cells) for pair in (*pairs, *also)]
        verdict = together(each.verdict for each in tallies[: len(pairs)])
        return Claim(paper, verdict, found.format(*tallies))


ERROR = Measure("error", log_mse)
REGRET = Measure("regret")
#: A normalised score; a diverged policy has none, and counts as a random one, 0.
SCORE = Measure("score", higher_is_better=True, missing=0.0)
