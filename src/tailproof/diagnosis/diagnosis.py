"""The result of `diagnose`: the evidence about a log, and the verdict that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailproof.arrays import FloatArray
from tailproof.diagnosis.evidence import (
    BellmanMonitor,
    Clustering,
    FoldDisagreement,
    KPath,
    Overlap,
    TailReport,
)
from tailproof.diagnosis.influence import Influence
from tailproof.diagnosis.verdict import Verdict
from tailproof.files.frames import as_frame, plain
from tailproof.statistics.tails import ExtremalIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The evidence that `diagnose` collects, and its `Verdict`.

    Attributes
    ----------
    transitions, episodes, groups
        The size of the log; `groups` is None if it has none.
    gamma, with_policy
        The discount, and whether a policy was given.
    tails
        By name: "rewards"; with a policy "weighted rewards", their "weighted sums" over the unit
        and "Bellman residuals"; without one "returns".
    clustering, overlap, residuals, k_path, folds, influence
        The evidence; `overlap` and `residuals` only with a policy.
    verdict
        Which method is safe for this log, and why.
    notes
        Warnings and assumptions.
    weights
        The row weights of `evaluate`, (n,); None without a policy.
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
    weights: FloatArray | None = field(default=None, repr=False)

    @property
    def noun(self) -> str:
        """What an episode is called: a "row" of a one-step log, counted from 0."""
        return "row" if self.transitions == self.episodes else "episode"

    def plot(self, *, of: str = "rewards", ax: Axes | None = None) -> Axes:
        """Draw the index of both tails against the number of extremes used, and return the Axes.

        `of` is a name in `tails`.
        """
        from tailproof.plotting.results import plot_diagnosis  # matplotlib is slow to import

        return plot_diagnosis(self, of=of, ax=ax)

    def _repr_html_(self) -> str:
        from tailproof.report.notebook import diagnosis_html  # imported only when needed

        return diagnosis_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        kept = {name: value for name, value in vars(self).items() if name != "weights"}
        converted: dict[str, Any] = plain({**kept, "verdict": self.verdict.to_dict()})
        for name, report in self.tails.items():
            converted["tails"][name]["skew"] = report.skew
        converted["k_path"] |= {"drift": plain(self.k_path.drift), "drifts": self.k_path.drifts}
        return converted

    def to_frame(self) -> Any:
        """Return one row per measured quantity: a pandas frame, or a pyarrow table without pandas.

        Columns: the subject, the quantity, its value and its interval if there is one.
        """
        columns = ("about", "quantity", "value", "low", "high")
        return as_frame([dict(zip(columns, row, strict=True)) for row in self._rows()])

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.transitions:,} rows: {self.verdict.summary}>"

    def __str__(self) -> str:
        groups = "" if self.groups is None else f" in {self.groups:,} groups"
        lines = [
            self.verdict.summary,
            "",
            f"{self.transitions:,} transitions, {self.episodes:,} episodes{groups}, "
            f"γ = {self.gamma:g}",
            f"plain estimate by {self.influence.estimator}: {self.influence.value:.4g}",
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
            found = {"std / MAD": monitor.ratio, "swing": monitor.swing}
            rows += [("Bellman residuals", name, value, nan, nan) for name, value in found.items()]
        path = self.k_path
        for folds, value, error in zip(path.folds, path.values, path.errors, strict=True):
            low, high = value - 2 * error, value + 2 * error
            rows.append(("K-path", f"K = {folds}", value, low, high))
        if self.folds is not None:
            rows += [
                ("folds", f"fold {k}", value, nan, nan) for k, value in enumerate(self.folds.values)
            ]
        return rows
