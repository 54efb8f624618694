"""What `compare` returns: policies in their order, paired differences, and a gate.

Differences are paired in one of two ways: on the folds of a method that has them, or by the scores of
the rows of a method that takes the log as a whole and gives an interval.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailproof.arrays import FloatArray
from tailproof.comparison.differences import Difference, gain_over
from tailproof.evaluation.estimate import Estimate
from tailproof.files.frames import as_frame, plain
from tailproof.methods.method import Method
from tailproof.statistics.intervals import Bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What the policy that made the log is called.
LOGGED = "logged policy"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One policy of a comparison.

    Attributes
    ----------
    name, value, lower_bound
        Who, the estimate that ranks it, and its bound.
    gain
        Its difference to the baseline; the bound holds for all candidates at once.
    estimate
        With everything it rests on.
    """

    name: str
    value: float
    lower_bound: Bound
    gain: Difference
    estimate: Estimate = field(repr=False)

    @property
    def passes(self) -> bool:
        """Whether the candidate beats the baseline beyond doubt."""
        return self.gain.lower_bound.value > 0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Policies ranked by their estimates, and a gate.

    Attributes
    ----------
    candidates
        Highest estimate first.
    baseline, baseline_value, baseline_folds
        Whom to beat: its name, value and fold values, if the method has folds.
    baseline_rival
        Whom to beat as an estimate or a number; None for the logged policy.
    probability_best
        That the first is best, baseline included; see `compare`.
    level, gate_level
        Of each candidate's bound, and of each gate: the latter is higher, so that all of them hold
        at once with `level`.
    method, gamma, seed
        What to pass to `compare` to get the same numbers again.
    notes
        What to know before reading.
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
    def passes(self) -> bool:
        """Whether any candidate beats the baseline: the gate."""
        return any(each.passes for each in self.candidates)

    def __getitem__(self, name: str) -> Candidate:
        for each in self.candidates:
            if each.name == name:
                return each
        raise KeyError(f"There is no candidate {name!r}. There are {', '.join(self._names())}.")

    def difference(self, first: str, second: str | None = None) -> Difference:
        """Return how far one candidate is ahead of another, or of the baseline."""
        rival: Estimate | float | None = self.baseline_rival
        name = self.baseline
        if second is not None and second != self.baseline:
            rival, name = self[second].estimate, second
        gain = gain_over(self[first].estimate, rival)
        return Difference(first=first, second=name, gain=gain, level=self.level)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw every candidate's gain over the baseline with its lower bound; return the Axes."""
        from tailproof.plotting.results import plot_comparison  # matplotlib is for those who look

        return plot_comparison(self, ax=ax)

    def _repr_html_(self) -> str:
        from tailproof.report.notebook import comparison_html  # pages are for those who look

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "passes": self.passes,
            "best": self.best.name,
            "probability_best": plain(self.probability_best),
            "level": self.level,
            "gate_level": self.gate_level,
            "baseline": {
                "name": self.baseline,
                "value": plain(self.baseline_value),
                "fold_values": plain(self.baseline_folds),
            },
            "candidates": [
                {
                    "name": each.name,
                    "value": plain(each.value),
                    "lower_bound": plain(each.lower_bound),
                    "gain": {
                        "value": plain(each.gain.value),
                        "relative": plain(each.gain.relative),
                        "lower_bound": plain(each.gain.lower_bound),
                        "fold_values": plain(each.gain.fold_values),
                        "won": each.gain.won,
                    },
                    "passes": each.passes,
                    "fold_values": plain(each.estimate.all_folds),
                }
                for each in self.candidates
            ],
            "method": str(self.method),
            "gamma": self.gamma,
            "seed": self.seed,
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Return a row a candidate: a pandas frame, or a pyarrow table where pandas is missing."""
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
        from tailproof.report.answers import comparison_text  # the words of the command line

        return comparison_text(self)

    def _names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.candidates)
