"""The table of appendix A4.2: scores of ROOM-VM and P-ROOM-VM as multiples of IQL's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL
from tailproof.experiments import drawing
from tailproof.experiments.datasets import find
from tailproof.experiments.experiment import Cell, Claim, Experiment, Job, Row
from tailproof.experiments.implicit import (
    BUDGET,
    LOOKS,
    TINY,
    budget,
    cells,
    final,
    final_scores,
    run_implicit,
    versus,
)
from tailproof.experiments.results import Results
from tailproof.experiments.summary import Summary, summarise, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The paper's table, ROOM-VM and P-ROOM-VM.
PAPER = {
    "halfcheetah-expert": (1.04, 1.03),
    "walker2d-expert": (1.02, 1.02),
    "hopper-expert": (1.89, 2.14),
    "halfcheetah-medium": (0.99, 0.98),
    "walker2d-medium": (1.31, 1.40),
    "hopper-medium": (1.32, 1.28),
    "halfcheetah-medium-replay": (1.04, 1.02),
    "walker2d-medium-replay": (1.56, 0.95),
    "hopper-medium-replay": (1.15, 1.20),
}
COMPARED = ("room-vm", "p-room-vm")


def run(job: Job) -> list[Row]:
    """Return the scores of IQL, MA, ROOM-VM, P-ROOM-VM and the baselines while they train."""
    return run_implicit(job, IQL, beta=job.settings["beta"])


def ratios(results: Results, name: str, cell: Cell) -> FloatArray:
    """Return score / IQL's score, one a seed, (R,)."""
    return np.asarray(final_scores(results, name, cell) / final_scores(results, "vanilla", cell))


def draw(results: Results) -> Figure:
    """Draw the ratios beside the paper's."""
    places = cells(results.settings)
    figure, axes = drawing.new_figure(width=8.6, height=1.6 + 0.55 * len(places))
    axis = axes[0, 0]
    for row, cell in enumerate(places):
        for name, offset in zip(COMPARED, (0.12, -0.12), strict=True):
            look, found = LOOKS[name], summarise(ratios(results, name, cell))
            axis.plot([found.low, found.high], [row + offset] * 2, color=look.color, linewidth=1.2)
            axis.plot(
                found.value,
                row + offset,
                marker=look.marker,
                color=look.color,
                linestyle="",
                label=f"{look.label}, here" if row == 0 else None,
            )
            if cell["dataset"] in PAPER:
                axis.plot(
                    PAPER[cell["dataset"]][COMPARED.index(name)],
                    row + offset,
                    marker=look.marker,
                    markerfacecolor="none",
                    color=look.color,
                    linestyle="",
                    label=f"{look.label}, the paper" if row == 0 else None,
                )
    axis.axvline(1, color=drawing.GREY, linewidth=0.9)
    axis.set_yticks(
        range(len(places)), [f"{cell['dataset']}, κ {cell['kappa']:g}" for cell in places]
    )
    axis.set_xlabel("score as a multiple of IQL's")
    drawing.legend(figure, axis)
    drawing.caption(figure, budget(results, "IQL"))
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what appendix A4.2 says."""
    places, scores = cells(results.settings), final(results)
    found = {name: versus(scores, name, "vanilla", places) for name in COMPARED}
    blind = versus(scores, "vanilla", "zero-reward", places)
    table = "; ".join(
        f"{cell['dataset']} κ {cell['kappa']:g} "
        + " / ".join(_pm(summarise(ratios(results, name, cell))) for name in COMPARED)
        for cell in places
    )
    return [
        Claim(
            "In almost all cases ROOM-VM and P-ROOM-VM are significantly superior to IQL",
            together(each.verdict for each in found.values()),
            f"ratios to IQL: {table}. "
            + "; ".join(f"{LOOKS[name].label} {each}" for name, each in found.items()),
        ),
        Claim(
            "Beyond the paper: IQL's scores rest on the rewards",
            blind.verdict,
            f"IQL against IQL on rewards of zero {blind}",
        ),
    ]


def _pm(found: Summary) -> str:
    return f"{found.value:.2f} ± {found.high - found.value:.2f}"


EXPERIMENT = Experiment(
    name="iql-table",
    shows="table A3",
    title="Does ROOM help IQL on continuous control?",
    settings={**BUDGET, "kappas": (100.0,), "beta": 1.0},
    quick=TINY,
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=3,
    quick_replicates=2,
    find=find,
)
