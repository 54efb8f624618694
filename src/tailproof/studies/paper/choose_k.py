"""Figure A4: evaluation with K from 3 to 10 folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import EVALUATION, Estimators, grid, noisy_log
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Row
from tailproof.studies.paper.ope import LOOKS, budget
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import (
    Summary,
    log_mse,
    summarise,
    together,
    verdict_of,
    winner,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("roam-dm", "roam-variant", "roam-mis", "roam-fqe", "ma-dm")
OURS = SHOWN[:4]


def run(job: Job) -> list[Row]:
    """Return the errors of every K on one log, and of FQE."""
    estimators = Estimators(noisy_log(job), job)
    whole = estimators.fit("fqe")
    rows = [{**estimators.row("fqe", whole.value, whole), "folds": 1}]
    for folds in job.settings["numbers_of_folds"]:
        inside = estimators.fit("roam-fqe", folds=folds)
        split = [*estimators.split(folds), estimators.row("roam-fqe", inside.value, inside)]
        rows.extend({**row, "folds": folds} for row in split if row["method"] in SHOWN)
    return rows


def draw(results: Results) -> Figure:
    """Draw log-MSE against K, a panel for each df, FQE as a line across."""
    dfs = results.settings["dfs"]
    figure, axes = drawing.new_figure(1, len(dfs), width=9.2, height=3.5, sharey=True)
    numbers = results.settings["numbers_of_folds"]
    for axis, df in zip(axes[0], dfs, strict=True):
        plain = _summary(results, "fqe", 1, df)
        axis.axhline(plain.value, color=drawing.BLACK, linewidth=1.2, label="FQE")
        axis.axhspan(plain.low, plain.high, color=drawing.BLACK, alpha=0.08, linewidth=0)
        for place, name in enumerate(SHOWN):
            found = [_summary(results, name, folds, df) for folds in numbers]
            drawing.curve(axis, numbers, found, LOOKS[name], shift=0.08 * (place - 2))
        axis.set_xticks(numbers)
    drawing.label_axes(
        axes,
        {
            place: f"df = {df:g}, κ = {results.settings['kappas'][0]:g}"
            for place, df in enumerate(dfs)
        },
        x="number of folds K",
        y=f"log MSE, right truth {results.settings['truth']:.1f}",
    )
    drawing.legend(figure, axes[0, 0])
    drawing.caption(figure, budget(results))
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what appendix A4.4 says about the choice of K."""
    numbers, dfs = results.settings["numbers_of_folds"], results.settings["dfs"]
    beaten = {
        name: [_wins(results, (name, folds), ("fqe", 1), df) for df in dfs for folds in numbers]
        for name in OURS
    }
    medians = [
        _wins(results, ("roam-dm", folds), ("ma-dm", folds), df) for df in dfs for folds in numbers
    ]
    best = {
        name: {df: min(numbers, key=lambda k: _summary(results, name, k, df).value) for df in dfs}
        for name in OURS
    }
    spread = [
        _summary(results, name, 5, df).value
        - min(_summary(results, name, folds, df).value for folds in numbers)
        for name in OURS
        for df in dfs
        if 5 in numbers
    ]
    cells = len(dfs) * len(numbers)
    return [
        Claim(
            "Our methods exceed FQE for every K from 3 to 10",
            together(verdict_of(sum(each), cells) for each in beaten.values()),
            ", ".join(f"{LOOKS[n].label} in {sum(each)} of {cells}" for n, each in beaten.items())
            + " cells beyond doubt",
        ),
        Claim(
            "The best K varies with algorithm and df",
            "holds"
            if len({k for each in best.values() for k in each.values()}) > 1
            else "does not hold",
            "; ".join(
                f"{LOOKS[name].label} " + ", ".join(f"{k} at df {df:g}" for df, k in each.items())
                for name, each in best.items()
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
            verdict_of(sum(medians), cells),
            f"ROAM-DM better than MA-DM beyond doubt in {sum(medians)} of {cells} cells",
        ),
    ]


def _summary(results: Results, name: str, folds: int, df: float) -> Summary:
    return summarise(results.values("error", method=name, folds=folds, df=df), log_mse)


def _wins(results: Results, one: tuple[str, int], other: tuple[str, int], df: float) -> bool:
    first, second = (
        results.values("error", method=name, folds=folds, df=df) for name, folds in (one, other)
    )
    return winner(first, second, log_mse)[0] == "first"


EXPERIMENT = Experiment(
    name="choose-k",
    shows="figure A4",
    title="How many folds?",
    settings={
        **EVALUATION,
        "dfs": (1.0, 1.23, 1.52),
        "kappas": (1.0,),
        "numbers_of_folds": tuple(range(3, 11)),
    },
    quick={"dfs": (1.0,), "episodes": 20, "numbers_of_folds": (3, 5)},
    cells=grid,
    run=run,
    draw=draw,
    judge=judge,
)
