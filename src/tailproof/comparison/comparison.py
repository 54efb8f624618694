"""The result of `compare`: ranked policies, paired differences, and a gate.

Differences are paired by the folds of the method, or by the scores of the rows if the method uses the
whole log and gives an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.algorithms.default.gain import FoldGain, PairedGain, difference
from tailproof.algorithms.default.spreads import Hall
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.files.frames import as_frame, plain
from tailproof.methods.method import Method
from tailproof.statistics.intervals import Bound, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Name of the policy that made the log.
LOGGED = "logged policy"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One policy against another, on the same folds or the same rows."""

    first: str
    second: str
    gain: PairedGain | FoldGain = field(repr=False)  # with its own interval at any level
    level: float  # of the lower bound

    @property
    def value(self) -> float:
        """The difference of the two estimates."""
        return self.gain.value

    @property
    def relative(self) -> float:
        """The difference divided by the second's |value|; NaN if that is 0."""
        return self.gain.relative

    @property
    def lower_bound(self) -> Bound:
        """A lower bound of the difference; −∞, with the reason, if there is none."""
        return bound_or_reason(self.gain.lower_bound, self.level)

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference."""
        return self.gain.interval(level)

    @property
    def fold_values(self) -> FloatArray:
        """The differences on the folds, (K,), if differences are paired by folds."""
        return self.gain.fold_values if isinstance(self.gain, FoldGain) else np.empty(0)

    @property
    def won(self) -> int:
        """Number of folds in which the first is ahead."""
        return int(np.count_nonzero(self.fold_values > 0))

    def __str__(self) -> str:
        return f"{self.first} over {self.second}: {self.gain}"


def gain_over(estimate: Estimate, rival: Estimate | float | None) -> PairedGain | FoldGain:
    """Return the gain of an estimate over another, a number, or the logged policy (None)."""
    if rival is None:
        return estimate.gain
    value = rival if isinstance(rival, float) else rival.value
    own, other = estimate.choice, None if isinstance(rival, float) else rival.choice
    if own is not None and other is not None:
        gain = own.ahead_of(value, other.spread, other.influence)
        return replace(gain, declined=own.declined or other.declined)
    if own is not None and isinstance(rival, float):
        return replace(own.ahead_of(value, Hall(value), None), declined=own.declined)
    paired = estimate.all_folds - (value if isinstance(rival, float) else rival.all_folds)
    return FoldGain(
        value=difference(estimate.value, value),
        reference=value,
        fold_values=paired[np.isfinite(paired)],
        declined=estimate.why_no_folds,
    )


def bound_or_reason(ask: Callable[[float], Bound], level: float) -> Bound:
    """Return a lower bound; −∞, with the reason, if there is none."""
    try:
        return ask(level)
    except LevelError as error:
        return Bound(value=-np.inf, level=level, requested=level, kind="none", note=str(error))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One policy of a comparison."""

    name: str
    value: float  # the estimate that ranks it
    lower_bound: Bound
    gain: Difference  # over the baseline; the bounds of all candidates hold jointly
    estimate: Estimate = field(repr=False)

    @property
    def passes(self) -> bool:
        """Whether the lower bound of the gain over the baseline is above 0."""
        return self.gain.lower_bound.value > 0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Policies ranked by their estimates, and a gate.

    Attributes
    ----------
    candidates
        Highest estimate first.
    baseline, baseline_value, baseline_folds
        The baseline's name, value and, if the method has folds, fold values.
    baseline_rival
        The baseline as an estimate or a number; None for the logged policy.
    probability_best
        Probability that the first is best, also against the baseline; see `compare`.
    level, gate_level
        Level of each candidate's bound, and of each gain's bound: the latter is higher, so that all of
        them hold jointly with `level`.
    method, gamma, seed
        What to pass to `compare` to get the same numbers again.
    notes
        Cautions and remarks on the result.
    """

    candidates: tuple[Candidate, ...]
    baseline: str
    baseline_value: float
    baseline_folds: FloatArray = field(repr=False)
    probability_best: float
    level: float
    gate_level: float
    method: Method
    gamma: float
    seed: int
    notes: tuple[str, ...]
    baseline_rival: Estimate | float | None = field(default=None, repr=False)

    @property
    def has_folds(self) -> bool:
        """Whether differences are paired by folds."""
        return len(self.baseline_folds) > 1

    @property
    def best(self) -> Candidate:
        """The candidate with the highest estimate."""
        return self.candidates[0]

    @property
    def proposed(self) -> Candidate:
        """The candidate with the highest estimate of those that pass the gate; `best` if none does."""
        return next((each for each in self.candidates if each.passes), self.best)

    @property
    def passes(self) -> bool:
        """Whether any candidate beats the baseline: the gate."""
        return any(each.passes for each in self.candidates)

    def __getitem__(self, name: str) -> Candidate:
        for each in self.candidates:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.candidates)
        raise KeyError(f"There is no candidate {name!r}. There are {names}.")

    def difference(self, first: str, second: str | None = None) -> Difference:
        """Return the difference of one candidate from another, or from the baseline."""
        rival, second = self.baseline_rival, second or self.baseline
        if second != self.baseline:
            rival = self[second].estimate
        gain = gain_over(self[first].estimate, rival)
        return Difference(first=first, second=second, gain=gain, level=self.level)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw every candidate's gain over the baseline with its lower bound; return the Axes."""
        from tailproof.plotting.results import plot_comparison  # matplotlib is slow to import

        return plot_comparison(self, ax=ax)

    def _repr_html_(self) -> str:
        from tailproof.report.notebook import comparison_html  # imported only when needed

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        of_gain = ("value", "relative", "lower_bound", "fold_values", "won")
        candidates = [
            {
                "name": each.name,
                "value": each.value,
                "lower_bound": each.lower_bound,
                "gain": {name: getattr(each.gain, name) for name in of_gain},
                "passes": each.passes,
                "cautions": each.estimate.cautions,
                "fold_values": each.estimate.all_folds,
            }
            for each in self.candidates
        ]
        baseline = {"name": self.baseline, "value": self.baseline_value}
        converted: dict[str, Any] = plain(
            {
                "passes": self.passes,
                "best": self.best.name,
                "probability_best": self.probability_best,
                "level": self.level,
                "gate_level": self.gate_level,
                "baseline": {**baseline, "fold_values": self.baseline_folds},
                "candidates": candidates,
                "method": str(self.method),
                "gamma": self.gamma,
                "seed": self.seed,
                "notes": self.notes,
            }
        )
        return converted

    def to_frame(self) -> Any:
        """Return one row per candidate: a pandas frame, or a pyarrow table where pandas is missing."""
        return as_frame(
            [
                {
                    "policy": each.name,
                    "value": each.value,
                    "lower_bound": each.lower_bound.value,
                    "gain": each.gain.value,
                    "relative_gain": each.gain.relative,
                    "gain_lower_bound": each.gain.lower_bound.value,
                    **({"folds_won": each.gain.won} if self.has_folds else {}),
                    "passes": each.passes,
                }
                for each in self.candidates
            ]
        )

    def __repr__(self) -> str:
        gate = "passed" if self.passes else "closed"
        return (
            f"<Comparison of {len(self.candidates)}: {self.best.name} first, {self.best.value:.4g}; "
            f"{self.baseline} {self.baseline_value:.4g}; gate {gate}>"
        )

    def __str__(self) -> str:
        from tailproof.report.answers import comparison_text  # the text of the command line

        return comparison_text(self)
