"""Figure 6: accuracy and run time against the number of folds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import EVALUATION, Estimators, grid, noisy_log
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Row
from tailproof.studies.paper.ope import budget
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import Summary, log_mse, mean, summarise, verdict_of, winner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The text speaks of ROAM-FQE, the caption of algorithm 1, which is ROAM-DM.
LOOKS = {
    "roam-fqe": Look("ROAM-FQE", drawing.RED, "D"),
    "roam-dm": Look("ROAM-DM", drawing.BLUE),
}


def run(job: Job) -> list[Row]:
    """Return errors and CPU seconds for every K on one log."""
    estimators = Estimators(noisy_log(job), job)
    rows = []
    for folds in job.settings["numbers_of_folds"]:
        for name in LOOKS:
            started = time.process_time()
            found = estimators.fit(name, folds=folds)
            seconds = time.process_time() - started
            rows.append(
                {**estimators.row(name, found.value, found), "folds": folds, "seconds": seconds}
            )
    return rows


def draw(results: Results) -> Figure:
    """Draw log-MSE (left) and seconds (right) against K."""
    figure, axes = drawing.new_figure(1, 2, width=8.6, height=3.4)
    numbers = results.settings["numbers_of_folds"]
    for name, look in LOOKS.items():
        drawing.curve(axes[0, 0], numbers, _against_folds(results, "error", name), look)
        drawing.curve(axes[0, 1], numbers, _against_folds(results, "seconds", name), look)
    cell = grid(results.settings)[0]
    axes[0, 0].set_title(f"accuracy, df {cell['df']:g}, κ {cell['kappa']:g}")
    axes[0, 0].set_ylabel(f"log MSE, right truth {results.settings['truth']:.1f}")
    axes[0, 1].set_title("CPU time of one evaluation")
    axes[0, 1].set_ylabel("seconds, one thread")
    axes[0, 1].set_ylim(bottom=0)
    for axis in axes[0]:
        axis.set_xlabel("number of folds K")
        axis.set_xticks(numbers)
    drawing.legend(figure, axes[0, 0])
    drawing.caption(figure, budget(results))
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what section 5 says about figure 6."""
    numbers = results.settings["numbers_of_folds"]
    seconds = [each.value for each in _against_folds(results, "seconds", "roam-fqe")]
    slope, start = np.polyfit(numbers, seconds, 1)
    explained = float(np.corrcoef(numbers, seconds)[0, 1] ** 2)
    growth = seconds[-1] / seconds[0]
    accuracy = [each.value for each in _against_folds(results, "error", "roam-fqe")]
    best = int(np.argmin(accuracy))
    ends = [_beaten(results, numbers[best], end) for end in (numbers[0], numbers[-1])]
    return [
        Claim(
            "Run time grows linearly with K",
            # Twenty times the folds at less than thrice the time is growth, but not in proportion.
            "holds"
            if explained > 0.9 and growth > 0.5 * numbers[-1] / numbers[0]
            else ("holds in part" if explained > 0.9 else "does not hold"),
            f"ROAM-FQE: {start:.3f} s + {slope:.4f} s a fold, R² {explained:.2f}; K = {numbers[-1]} "
            f"takes {growth:.1f} times as long as K = {numbers[0]}",
            timed=True,
        ),
        Claim(
            "It ends within a second, at the best K within half a second",
            verdict_of((max(seconds) < 1) + (seconds[best] < 0.5), 2),
            f"at most {max(seconds):.2f} s; {seconds[best]:.2f} s at K = {numbers[best]}",
            timed=True,
        ),
        Claim(
            "A moderate K is the most accurate",
            verdict_of(sum(ends) if 0 < best < len(numbers) - 1 else 0, 2),
            f"lowest log-MSE of ROAM-FQE {accuracy[best]:.2f} at K = {numbers[best]}, "
            f"{accuracy[0]:.2f} at {numbers[0]}, {accuracy[-1]:.2f} at {numbers[-1]}; beyond doubt "
            f"against {sum(ends)} of these two ends",
        ),
    ]


def _against_folds(results: Results, column: str, name: str) -> list[Summary]:
    statistic = log_mse if column == "error" else mean
    return [
        summarise(results.values(column, method=name, folds=folds), statistic)
        for folds in results.settings["numbers_of_folds"]
    ]


def _beaten(results: Results, best: int, other: int) -> bool:
    errors = [results.values("error", method="roam-fqe", folds=folds) for folds in (best, other)]
    return winner(errors[0], errors[1], log_mse)[0] == "first"


EXPERIMENT = Experiment(
    name="tradeoff",
    shows="figure 6",
    title="What do more folds cost, and what do they bring?",
    settings={
        **EVALUATION,
        "dfs": (1.23,),
        "kappas": (1.0,),
        "numbers_of_folds": (1, 2, 3, 5, 7, 10, 13, 16),
    },
    quick={"episodes": 20, "numbers_of_folds": (1, 3, 5)},
    cells=grid,
    run=run,
    draw=draw,
    judge=judge,
)
