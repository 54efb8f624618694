"""The table of appendix A4.2: scores of ROOM-VM and P-ROOM-VM as multiples of IQL's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import find
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row
from tailproof.studies.paper.implicit import (
    BUDGET,
    LEARNED,
    LOOKS,
    TINY,
    budget,
    cells,
    claim,
    converged,
    diverged,
    final,
    final_scores,
    run_implicit,
)
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import summarise

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
    """Return the scores of IQL, MA, ROOM-VM, P-ROOM-VM and the baselines."""
    return run_implicit(job, IQL)


def ratios(results: Results, name: str, cell: Cell) -> FloatArray | None:
    """Return 1 + (score − IQL's score of the same seed) / IQL's mean score, (R,).

    Its mean is the ratio of mean scores; a single seed in which IQL scores about zero does not decide
    it. Where IQL's mean is no better than a random policy's, a multiple of it says nothing: none.
    """
    score, base = final_scores(results, name, cell), final_scores(results, "vanilla", cell)
    return 1 + (score - base) / base.mean() if base.mean() >= LEARNED else None


def draw(results: Results) -> Figure:
    """Draw the ratios beside the paper's."""
    places = cells(results.settings)
    figure, axes = drawing.new_figure(width=8.6, height=1.6 + 0.55 * len(places))
    axis, shown = axes[0, 0], [1.0]
    marks = {
        name: {"marker": LOOKS[name].marker, "color": LOOKS[name].color, "linestyle": ""}
        for name in COMPARED
    }
    for row, cell in enumerate(places):
        for name, offset in zip(COMPARED, (0.12, -0.12), strict=True):
            look, mark, found = LOOKS[name], marks[name], ratios(results, name, cell)
            if found is None:
                axis.text(1.05, row + offset, "IQL scores about nothing", va="center", fontsize=7)
            else:
                seen = summarise(found)
                axis.hlines(row + offset, seen.low, seen.high, color=look.color, linewidth=1.2)
                shown.append(seen.value)
                axis.plot(seen.value, row + offset, **mark)
            if cell["dataset"] in PAPER:
                shown.append(PAPER[cell["dataset"]][COMPARED.index(name)])
                axis.plot(shown[-1], row + offset, markerfacecolor="none", **mark)
    for name, mark in marks.items():
        axis.plot([], [], label=f"{LOOKS[name].label}, here", **mark)
        axis.plot([], [], label=f"{LOOKS[name].label}, the paper", markerfacecolor="none", **mark)
    axis.axvline(1, color=drawing.GREY, linewidth=0.9)
    # The points decide the axis: intervals of three seeds may be wider than anything worth seeing.
    axis.set_xlim(min(shown) - 0.5, max(shown) + 0.5)
    axis.set_yticks(
        range(len(places)), [f"{cell['dataset']}, κ {cell['kappa']:g}" for cell in places]
    )
    axis.set_xlabel("score as a multiple of IQL's")
    drawing.legend(figure, axis)
    drawing.caption(
        figure, f"{budget(results, 'IQL')} Intervals may go on beyond the picture's edge."
    )
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what appendix A4.2 says."""
    places, scores = cells(results.settings), final(results)
    rows = {LOOKS[name].label: (name, "vanilla") for name in COMPARED}
    superior = claim(
        scores,
        "In almost all cases ROOM-VM and P-ROOM-VM are significantly superior to IQL",
        rows,
        places,
    )
    table = "; ".join(
        f"{cell['dataset']} κ {cell['kappa']:g} "
        + " / ".join(_pm(ratios(results, name, cell)) for name in COMPARED)
        for cell in places
    )
    return [
        replace(superior, found=f"ratios to IQL: {table}. {superior.found}"),
        claim(
            scores,
            "Beyond the paper: IQL's scores rest on the rewards",
            {"IQL against IQL on rewards of zero": ("vanilla", "zero-reward")},
            places,
        ),
        claim(
            scores,
            "Beyond the paper: IQL and ROOM-VM beat cloning of the best episodes, ranked by medians",
            {
                name: (row, "percent-median")
                for name, row in (("IQL", "vanilla"), ("ROOM-VM", "room-vm"))
            },
            places,
        ),
        converged(results, "IQL"),
        diverged(results, "IQL"),
    ]


def _pm(found: FloatArray | None) -> str:
    if found is None:
        return "none, IQL scores about nothing"
    seen = summarise(found)
    return f"{seen.value:.2f} ± {seen.high - seen.value:.2f}"


EXPERIMENT = Experiment(
    name="iql-table",
    shows="table A3",
    title="Does ROOM help IQL on continuous control?",
    settings={**BUDGET, "beta": 3.0},
    quick=TINY,
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
    find=find,
)
