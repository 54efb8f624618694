"""What `diagnose` returns: the evidence about a log, and the verdict that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tailproof.algorithms.bandit import IPS
from tailproof.algorithms.mis import MIS, Unit
from tailproof.errors import LevelError
from tailproof.files.frames import as_frame, plain
from tailproof.judgement.evidence import (
    BellmanMonitor,
    Clustering,
    FoldDisagreement,
    KPath,
    Overlap,
    TailReport,
)
from tailproof.judgement.influence import Influence
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.statistics.means import Mean
from tailproof.statistics.tails import ExtremalIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Covers = Literal["mean", "median of folds"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Which method is safe for a log, how many folds, what they can promise, and why.

    Attributes
    ----------
    method, mean, unit
        A name of the catalogue, the robust mean that it takes (None for the plain average) and what
        a sample is: `call` puts them together, `point()` makes the `Method`.
    folds
        Number of folds K for bounds; 1 when the log is too small for any.
    level
        Of the lower bound that K folds can promise; None when none can.
    interval_level
        Of the two-sided interval, which needs folds as often too high as too low; None otherwise.
    covers
        What these levels are for: the mean, or only the median of the folds' law where the log does
        not show that the two agree.
    tail_index
        Of a left tail so heavy that a lower bound must know it; None when it need not.
    fold_mean
        The mean inside a fold for bounds: a robust one only where tails are symmetric, because on a
        left tail it would be too high as a rule and the bound would not hold.
    settings
        Features and ridge, where these were given.
    reasons, improvements
        Sentences: why, and what would make the answer better.
    summary
        All of it in one sentence.
    """

    method: str
    mean: Mean | None
    unit: Unit
    folds: int
    level: float | None
    interval_level: float | None
    covers: Covers
    tail_index: float | None
    fold_mean: Mean
    settings: dict[str, Any]
    reasons: tuple[str, ...]
    improvements: tuple[str, ...]
    summary: str

    @property
    def call(self) -> str:
        """The recommended method as Python."""
        arguments = [f"{name}={value!r}" for name, value in self._arguments().items()]
        return f"method({', '.join([repr(self.method), *arguments])})"

    def point(self) -> Method:
        """Return the method for the estimate itself."""
        return named_method(self.method, **self._arguments())

    def bounds(self) -> Method:
        """Return the method whose K fold values give intervals and lower bounds."""
        if self.folds < 2:
            raise LevelError(
                "Bounds need two folds or more, and the log is too small to be split. Evaluate "
                "verdict.point(), and read its value without a bound."
            )
        settings: dict[str, Any] = {"mean": self.fold_mean, "unit": self.unit}
        bandit = self.method in ("ips", "snips")
        base = IPS(**settings) if bandit else MIS(**settings, **self.settings)
        return named_method("roam-mis", base=base, folds=self.folds)

    @property
    def bound_kind(self) -> Literal["order", "tail-aware"]:
        """What to ask `Estimate.lower_bound` for, with `tail_index` in the second case."""
        return "order" if self.tail_index is None else "tail-aware"

    def _arguments(self) -> dict[str, Any]:
        return ({} if self.mean is None else {"mean": self.mean, "unit": self.unit}) | self.settings


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything `diagnose` found, ending in a `Verdict`.

    Attributes
    ----------
    transitions, episodes, groups
        The size of the log; `groups` is None where it names none.
    gamma, with_policy
        What was asked.
    tails
        By name: "rewards"; with a policy "weighted rewards", their "weighted sums" over the unit
        and "Bellman residuals"; without one "returns".
    clustering, overlap, residuals, k_path, folds, influence
        The evidence; `overlap` and `residuals` only with a policy.
    verdict
        Which method is safe for this log, and why.
    notes
        What went wrong or was assumed on the way.
    """

    transitions: int
    episodes: int
    groups: int | None
    gamma: float
    with_policy: bool
    tails: dict[str, TailReport]
    clustering: Clustering
    overlap: Overlap | None
    residuals: BellmanMonitor | None
    k_path: KPath
    folds: FoldDisagreement | None
    influence: Influence
    verdict: Verdict
    notes: tuple[str, ...]

    def plot(self, *, of: str = "rewards", ax: Axes | None = None) -> Axes:
        """Draw the index of both tails against the number of extremes used, and return the Axes.

        `of` is a name in `tails`.
        """
        from tailproof.plotting.results import plot_diagnosis  # matplotlib is for those who look

        return plot_diagnosis(self, of=of, ax=ax)

    def _repr_html_(self) -> str:
        from tailproof.report.notebook import diagnosis_html  # pages are for those who look

        return diagnosis_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        converted: dict[str, Any] = plain(self)
        for name, report in self.tails.items():
            converted["tails"][name]["skew"] = report.skew
        converted["k_path"] |= {"drift": plain(self.k_path.drift), "drifts": self.k_path.drifts}
        converted["verdict"]["call"] = self.verdict.call
        return converted

    def to_frame(self) -> Any:
        """Return the evidence, a row each: a pandas frame, or a pyarrow table without pandas.

        Columns: what it is about, the quantity, its value and its interval where it has one.
        """
        return as_frame([dict(zip(_COLUMNS, row, strict=True)) for row in self._rows()])

    def __str__(self) -> str:
        groups = "" if self.groups is None else f" in {self.groups:,} groups"
        lines = [
            self.verdict.summary,
            "",
            f"{self.transitions:,} transitions, {self.episodes:,} episodes{groups}, "
            f"γ = {self.gamma:g}",
            f"{self.influence.estimator}: {self.influence.value:.4g}",
            "",
            "Why",
            *(f"  - {reason}" for reason in self.verdict.reasons),
        ]
        if self.verdict.improvements:
            lines += ["What would help", *(f"  - {each}" for each in self.verdict.improvements)]
        lines.append("Tails")
        for report in self.tails.values():
            lines.append(
                f"  {report.name}: mean {report.mean.exists}, variance {report.variance.exists}, "
                f"{report.skew}"
            )
            lines += [f"    {report.left}", f"    {report.right}"]
        lines += ["Episodes that move the estimate most", *str(self.influence).splitlines()[1:]]
        if self.notes:
            lines += ["Notes", *(f"  - {note}" for note in self.notes)]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, float, float, float]]:
        nan = math.nan
        rows: list[tuple[str, str, float, float, float]] = []
        for name, report in self.tails.items():
            rows += [
                (name, f"{tail.side} tail index ({tail.method})", tail.alpha, tail.low, tail.high)
                for tail in (report.left, report.right, *report.others)
            ]
            lean = report.asymmetry
            rows += [
                (name, "largest share of Σ|x|", report.mean.ratio, nan, nan),
                (name, "largest share of Σx²", report.variance.ratio, nan, nan),
                (name, "right to left extremes", lean.ratio, lean.low, lean.high),
                (name, "medcouple", report.medcouple.value, nan, nan),
            ]
        for where in ("within", "across", "groups"):
            index: ExtremalIndex | None = getattr(self.clustering, where)
            if index is not None:
                rows.append(("clustering", where, index.theta, index.low, index.high))
        if self.overlap is not None:
            weights = self.overlap.weights
            found = {
                "effective sample size": weights.effective,
                "largest share": weights.largest_share,
                "|mean − 1|": weights.mean_error if self.overlap.mean_known else nan,
                "Pareto k": weights.pareto.k,
                "leverage": self.overlap.leverage,
                "largest leverage": self.overlap.largest_leverage,
                "smallest eigenvalue": self.overlap.smallest_eigenvalue,
                "unlogged actions": self.overlap.unlogged,
            }
            rows += [("overlap", name, value, nan, nan) for name, value in found.items()]
        if self.residuals is not None:
            monitor = self.residuals.monitor
            rows.append(("Bellman residuals", "std / MAD", monitor.ratio, nan, nan))
            rows.append(("Bellman residuals", "swing", monitor.swing, nan, nan))
        path = self.k_path
        for folds, value, error in zip(path.folds, path.values, path.errors, strict=True):
            low, high = value - 2 * error, value + 2 * error
            rows.append(("K-path", f"K = {folds}", value, low, high))
        if self.folds is not None:
            rows += [
                ("folds", f"fold {k}", value, nan, nan) for k, value in enumerate(self.folds.values)
            ]
        return rows


_COLUMNS = ("about", "quantity", "value", "low", "high")
