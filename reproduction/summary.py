"""Statistics over replicates with their intervals, paired comparisons, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from reproduction.experiment import Cell, Claim, Results, Verdict
from tailproof.arrays import FloatArray, IntArray

RESAMPLES = 2000
#: Values below which a bootstrap would be too narrow, and means get Student's interval.
FEW = 20
#: A statistic over replicates, the last axis: (…, n) to (…).
Statistic = Callable[[FloatArray], FloatArray]
#: Whether the numbers speak for a statement (True), against it (False) or leave it open (None).
Check = bool | None


def verdict(checks: Iterable[Check]) -> Verdict:
    """Return the verdict on a claim from all comparisons that it makes: the only place with verdicts.

    It holds if every comparison speaks for it, in part if more do than chance explains, does not hold
    if not even that and more speak against it than chance explains, and is undecided otherwise.

    Examples
    --------
    >>> verdict([True, True]), verdict([True, None]), verdict([True, False])
    ('holds', 'holds in part', 'holds in part')
    >>> verdict([False, None]), verdict([None, None]), verdict([])
    ('does not hold', 'undecided', 'undecided')
    >>> verdict([True] + 9 * [None])  # one interval in forty errs on that side
    'undecided'
    """
    found = list(checks)
    least = beyond_chance(len(found))
    if found and all(found):
        return "holds"
    if found.count(True) >= least:
        return "holds in part"
    return "does not hold" if found.count(False) >= least else "undecided"


def beyond_chance(count: int) -> int:
    """Return the fewest of `count` 95 % intervals on one side that are not chance, at 5 %.

    >>> beyond_chance(1), beyond_chance(10), beyond_chance(40)
    (1, 2, 4)
    """
    return max(1, int(scipy.stats.binom.isf(0.05, count, 0.025)) + 1) if count else 1


@dataclass(frozen=True)
class Summary:
    """A number with its interval; over replicates, one of 95 %."""

    value: float
    low: float
    high: float

    def above(self, limit: float = 0.0) -> Check:
        """Return whether the number is above a limit, if the interval tells."""
        if self.low > limit:
            return True
        return False if self.high < limit else None

    def below(self, other: Summary) -> Check:
        """Return whether this is below another number of other replicates, if the intervals tell."""
        if self.high < other.low:
            return True
        return False if self.low > other.high else None

    def within(self, low: float, high: float) -> Check:
        """Return whether the number lies between two limits, if the interval tells."""
        if low <= self.low and self.high <= high:
            return True
        return False if self.high < low or self.low > high else None

    def __str__(self) -> str:
        ends = f" [{self.low:.3g}, {self.high:.3g}]" if math.isfinite(self.low) else ""
        return f"{self.value:.3g}{ends}".replace("-", "−")


@lru_cache(maxsize=16)
def _resamples(count: int) -> IntArray:
    # One table per number of replicates: all methods use the same resamples, to keep the pairs.
    return np.random.default_rng(0).integers(count, size=(RESAMPLES, count))


def mean(values: FloatArray) -> FloatArray:
    """Return the mean over replicates."""
    return np.asarray(values.mean(axis=-1))


def log_mse(errors: FloatArray) -> FloatArray:
    """Return the logarithm of the mean squared error, the paper's measure.

    Under the noises of the figures the mean square of an average does not exist: this describes the
    replicates at hand, and the next hundred may give another number.
    """
    return np.asarray(np.log(np.square(errors).mean(axis=-1)))


def median_size(errors: FloatArray) -> FloatArray:
    """Return the median absolute error, which exists under any noise."""
    return np.asarray(np.median(np.abs(errors), axis=-1))


def summarise(values: FloatArray, statistic: Statistic = mean) -> Summary:
    """Return a statistic with its 95 % percentile bootstrap interval over replicates.

    A mean of few replicates has Student's interval instead, and other statistics have none: it is
    infinite, and decides nothing.

    Examples
    --------
    >>> one = summarise(np.arange(100.0))
    >>> bool(one.low < one.value == 49.5 < one.high)
    True
    """
    values = np.asarray(values, dtype=float)
    count, value = len(values), float(statistic(values))
    if count < 2:  # one value has no error
        return Summary(value, -math.inf, math.inf)
    if statistic is mean and count < FEW:
        half = float(scipy.special.stdtrit(count - 1, 0.975) * values.std(ddof=1))
        half /= math.sqrt(count)
        return Summary(value, value - half, value + half)
    if count < FEW:
        return Summary(value, -math.inf, math.inf)
    drawn = statistic(values[_resamples(count)])
    return Summary(value, *np.quantile(drawn, [0.025, 0.975]).tolist())


def share_closer(first: FloatArray, second: FloatArray) -> Summary:
    """Return in which share of the logs the first is closer to 0, with its exact 95 % interval.

    Ties count half; the interval is Clopper and Pearson's.
    """
    one, two = np.abs(first), np.abs(second)
    count = len(one)
    wins = float((one < two).sum() + (one == two).sum() / 2)
    low = scipy.special.betaincinv(wins, count - wins + 1, 0.025) if wins > 0 else 0.0
    high = scipy.special.betaincinv(wins + 1, count - wins, 0.975) if wins < count else 1.0
    return Summary(wins / count, float(low), float(high))


@dataclass(frozen=True)
class Comparison:
    """Two methods on the logs of one cell: whether the first is better, and by what."""

    check: Check
    numbers: dict[str, float]


@dataclass(frozen=True)
class Tally:
    """Comparisons of two methods, cell by cell."""

    cells: tuple[Comparison, ...]

    @property
    def checks(self) -> list[Check]:
        """Whether the first is better, in each cell."""
        return [each.check for each in self.cells]

    def numbers(self, name: str) -> list[float]:
        """Return one number of all cells."""
        return [each.numbers[name] for each in self.cells]

    def __str__(self) -> str:
        checks = self.checks
        parts = [f"better in {checks.count(True)} of {len(checks)} cells"]
        if checks.count(False):
            parts.append(f"worse in {checks.count(False)}")
        if checks.count(None):
            parts.append(f"undecided in {checks.count(None)}")
        said = [", ".join(parts)]
        for name in self.cells[0].numbers:
            low, high = min(self.numbers(name)), max(self.numbers(name))
            said.append(f"{name} {_span(name, low, high)}")
        return "; ".join(said)


def _span(name: str, low: float, high: float) -> str:
    if name == CLOSER:
        return f"{low:.0%} to {high:.0%} of logs" if low != high else f"{low:.0%} of logs"
    if name == RATIO:
        return f"{low:.2g} to {high:.2g}-fold"
    said = f"{low:+.2f} to {high:+.2f}" if low != high else f"{low:+.2f}"
    return said.replace("-", "−")


CLOSER, RATIO = "closer in", "median error"


@dataclass(frozen=True)
class Measure:
    """A column of the results, where it should be, and how two methods are compared by it.

    Parameters
    ----------
    column
        A column of numbers, one for each replicate.
    reference
        The setting from which it is counted, such as ``"truth"``.
    errors
        Whether it is an error, which should be close to 0. Errors are compared by the share of logs in
        which one is closer, and by median absolute errors: means of squares need not exist.
    higher_is_better
        Of numbers that are no errors, which are compared by their mean difference, paired by log.
    missing
        Replaces missing values.
    """

    column: str
    reference: str | None = None
    errors: bool = False
    higher_is_better: bool = False
    missing: float = math.nan

    def values(self, results: Results, **where: Any) -> FloatArray:
        """Return the numbers of some rows, one for each replicate."""
        values = results.values(self.column, **where)
        if self.reference is not None:
            values = values - results.settings[self.reference]
            values = values if self.errors else -values  # a regret is what is lacking
        return np.where(np.isnan(values), self.missing, values)

    def summary(self, results: Results, **where: Any) -> Summary:
        """Return the median absolute error, or the mean, of some rows."""
        return summarise(self.values(results, **where), median_size if self.errors else mean)

    def paper(self, results: Results, **where: Any) -> Summary:
        """Return the logarithm of the mean squared error, which the paper shows."""
        return summarise(self.values(results, **where), log_mse)

    def compare(self, results: Results, first: Cell, second: Cell) -> Comparison:
        """Compare two groups of rows of the same logs."""
        one, two = (self.values(results, **each) for each in (first, second))
        if self.errors:
            closer = share_closer(one, two)
            ratio = float(median_size(one) / median_size(two))
            gap = float(log_mse(one) - log_mse(two))
            numbers = {CLOSER: closer.value, RATIO: ratio, "log-MSE": gap}
            return Comparison(closer.above(0.5), numbers)
        gap_of_means = summarise(one - two)
        better = gap_of_means.above(0.0)
        if not self.higher_is_better and better is not None:
            better = not better
        return Comparison(better, {"difference": gap_of_means.value})

    def tally(self, results: Results, first: str, second: str, cells: Sequence[Cell]) -> Tally:
        """Compare two methods cell by cell."""
        return Tally(
            tuple(
                self.compare(results, {"method": first, **cell}, {"method": second, **cell})
                for cell in cells
            )
        )

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
        checks = [check for each in tallies[: len(pairs)] for check in each.checks]
        return Claim(paper, verdict(checks), found.format(*tallies))


ERROR = Measure("value", "truth", errors=True)
PAPER_ERROR = Measure("value", "paper_truth", errors=True)
REGRET = Measure("value", "best_value")
#: A normalised score; a diverged policy has none, and counts as a random one, 0.
SCORE = Measure("score", higher_is_better=True, missing=0.0)
