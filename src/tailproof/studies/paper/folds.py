"""Figures 6 and A4: evaluation on CartPole against the number of folds K."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import EVALUATION, Estimators, budget, grid
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.evaluation import LOOKS
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Results, Row
from tailproof.studies.paper.summary import ERROR, Measure, Summary, together, verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS = Measure("seconds")
# The text names ROAM-FQE, the caption algorithm 1, which is ROAM-DM.
TIMED = {
    "roam-fqe": Look("ROAM-FQE", drawing.RED, "D"),
    "roam-dm": Look("ROAM-DM", drawing.BLUE),
}
OURS = ("roam-dm", "roam-variant", "roam-mis", "roam-fqe")
SHOWN = (*OURS, "ma-dm")


def run_tradeoff(job: Job) -> list[Row]:
    """Return errors and CPU seconds for every K on one log."""
    estimators = Estimators(job)
    rows = []
    for folds in job.settings["numbers_of_folds"]:
        for name in TIMED:
            started = time.process_time()
            row = estimators.fitted(name, folds=folds)
            rows.append({**row, "folds": folds, "seconds": time.process_time() - started})
    return rows


def run_choose_k(job: Job) -> list[Row]:
    """Return the errors of every K on one log, and of FQE."""
    estimators = Estimators(job)
    rows = [{**estimators.fitted("fqe"), "folds": 1}]
    for folds in job.settings["numbers_of_folds"]:
        split = [*estimators.split(folds), estimators.fitted("roam-fqe", folds=folds)]
        rows.extend({**row, "folds": folds} for row in split if row["method"] in SHOWN)
    return rows


def against_folds(measure: Measure, results: Results, name: str, df: float) -> list[Summary]:
    """Return a method's measure at every K."""
    numbers = results.settings["numbers_of_folds"]
    return [measure.summary(results, method=name, folds=folds, df=df) for folds in numbers]


def draw_tradeoff(results: Results) -> Figure:
    """Draw log-MSE (left) and seconds (right) against K."""
    figure, axes = drawing.new_figure(1, 2, width=8.6, height=3.4)
    numbers, cell = results.settings["numbers_of_folds"], grid(results.settings)[0]
    for axis, measure in zip(axes[0], (ERROR, SECONDS), strict=True):
        found = partial(against_folds, measure, results, df=cell["df"])
        drawing.curves(axis, numbers, TIMED, found)
        axis.set_xticks(numbers)
    axes[0, 1].set_ylabel("seconds, one thread")
    axes[0, 1].set_ylim(bottom=0)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=(
            f"accuracy, df {cell['df']:g}, κ {cell['kappa']:g}",
            "CPU time of one evaluation",
        ),
        x="number of folds K",
        y=f"log MSE, right truth {results.settings['truth']:.1f}",
    )


def draw_choose_k(results: Results) -> Figure:
    """Draw log-MSE against K, a panel for each df, FQE as a line across."""
    settings = results.settings
    dfs, numbers = settings["dfs"], settings["numbers_of_folds"]
    figure, axes = drawing.new_figure(1, len(dfs), width=9.2, height=3.5, sharey=True)
    looks = {name: LOOKS[name] for name in SHOWN}
    for axis, df in zip(axes[0], dfs, strict=True):
        plain = ERROR.summary(results, method="fqe", folds=1, df=df)
        drawing.level(axis, plain, LOOKS["fqe"], alpha=0.08)
        found = partial(against_folds, ERROR, results, df=df)
        drawing.curves(axis, numbers, looks, found, spread=0.08)
        axis.set_xticks(numbers)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=[f"df = {df:g}, κ = {settings['kappas'][0]:g}" for df in dfs],
        x="number of folds K",
        y=f"log MSE, right truth {settings['truth']:.1f}",
    )


def judge_tradeoff(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 6."""
    numbers, df = results.settings["numbers_of_folds"], results.settings["dfs"][0]
    seconds, accuracy = (
        [each.value for each in against_folds(measure, results, "roam-fqe", df)]
        for measure in (SECONDS, ERROR)
    )
    slope, start = np.polyfit(numbers, seconds, 1)
    explained = float(np.corrcoef(numbers, seconds)[0, 1] ** 2)
    growth = seconds[-1] / seconds[0]
    best = int(np.argmin(accuracy))
    rows = [{"method": "roam-fqe", "folds": folds} for folds in numbers]
    ends = sum(ERROR.wins(results, rows[best], rows[end]) for end in (0, -1))
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
            verdict_of(ends if 0 < best < len(numbers) - 1 else 0, 2),
            f"lowest log-MSE of ROAM-FQE {accuracy[best]:.2f} at K = {numbers[best]}, "
            f"{accuracy[0]:.2f} at {numbers[0]}, {accuracy[-1]:.2f} at {numbers[-1]}; beyond doubt "
            f"against {ends} of these two ends",
        ),
    ]


def judge_choose_k(results: Results) -> list[Claim]:
    """Judge the claims of appendix A4.4 about the choice of K."""
    numbers, dfs = results.settings["numbers_of_folds"], results.settings["dfs"]
    cells = [{"folds": folds, "df": df} for df in dfs for folds in numbers]

    def wins(name: str, other: str, **folds: int) -> int:
        return sum(
            ERROR.wins(results, {"method": name, **cell}, {"method": other, **cell, **folds})
            for cell in cells
        )

    beaten = {name: wins(name, "fqe", folds=1) for name in OURS}
    medians = wins("roam-dm", "ma-dm")
    best, spread = {}, []
    for name in OURS:
        for df in dfs:
            values = [each.value for each in against_folds(ERROR, results, name, df)]
            best[name, df] = numbers[int(np.argmin(values))]
            spread += [values[numbers.index(5)] - min(values)] if 5 in numbers else []
    return [
        Claim(
            "Our methods exceed FQE for every K from 3 to 10",
            together(verdict_of(count, len(cells)) for count in beaten.values()),
            ", ".join(f"{LOOKS[n].label} in {count} of {len(cells)}" for n, count in beaten.items())
            + " cells beyond doubt",
        ),
        Claim(
            "The best K varies with algorithm and df",
            "holds" if len(set(best.values())) > 1 else "does not hold",
            "; ".join(
                f"{LOOKS[name].label} " + ", ".join(f"{best[name, df]} at df {df:g}" for df in dfs)
                for name in OURS
            ),
        ),
        Claim(
            "K = 5 is a good rule of thumb",
            verdict_of(sum(each <= 1 for each in spread), len(spread)) if spread else "undecided",
            f"log-MSE at K = 5 above that at the best K by {min(spread):.2f} to {max(spread):.2f}"
            if spread
            else "5 was not tried",
        ),
        Claim(
            "The median is crucial: the mean of the folds performs poorly",
            verdict_of(medians, len(cells)),
            f"ROAM-DM better than MA-DM beyond doubt in {medians} of {len(cells)} cells",
        ),
    ]


TRADEOFF = Experiment(
    "tradeoff",
    "figure 6",
    "What do more folds cost, and what do they bring?",
    grid,
    run_tradeoff,
    draw_tradeoff,
    judge_tradeoff,
    settings={
        **EVALUATION,
        "dfs": (1.23,),
        "kappas": (1.0,),
        "numbers_of_folds": (1, 2, 3, 5, 7, 10, 13, 16),
    },
    quick={"episodes": 20, "numbers_of_folds": (1, 3, 5)},
)
CHOOSE_K = Experiment(
    "choose-k",
    "figure A4",
    "How many folds?",
    grid,
    run_choose_k,
    draw_choose_k,
    judge_choose_k,
    settings={
        **EVALUATION,
        "dfs": (1.0, 1.23, 1.52),
        "kappas": (1.0,),
        "numbers_of_folds": tuple(range(3, 11)),
    },
    quick={"dfs": (1.0,), "episodes": 20, "numbers_of_folds": (3, 5)},
)
