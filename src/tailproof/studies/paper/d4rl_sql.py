"""Figures 5, A1 and A2: SQL and its ROOM rows on continuous control, scores at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailproof.deep.bases import SQL
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import find
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Row
from tailproof.studies.paper.implicit import (
    BUDGET,
    LOOKS,
    TINY,
    budget,
    cells,
    claim,
    converged,
    diverged,
    final,
    final_scores,
    label,
    run_implicit,
)
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = "SQL"


def run(job: Job) -> list[Row]:
    """Return the scores of SQL, MA, ROOM-VM, P-ROOM-VM and the baselines."""
    return run_implicit(job, SQL)


def draw(results: Results) -> Figure:
    """Draw the scores as bars, a row of panels for each κ."""
    settings = results.settings
    kappas, names = settings["kappas"], list(settings["datasets"])
    figure, axes = drawing.new_figure(
        len(kappas),
        len(names),
        width=max(9.0, 2.2 * len(names)),
        height=1.4 + 2.0 * len(kappas),
        sharey="row",
    )
    for row, kappa in zip(axes, kappas, strict=True):
        for axis, name in zip(row, names, strict=True):
            cell = {"dataset": name, "kappa": kappa}
            for x, (method, look) in enumerate(LOOKS.items()):
                score = summarise(final_scores(results, method, cell))
                error = [[score.value - score.low], [score.high - score.value]]
                axis.bar(
                    x,
                    score.value,
                    color=look.color,
                    width=0.8,
                    yerr=error,
                    capsize=2,
                    ecolor="#444444",
                    label=label(method, BASE),
                )
            axis.set_title(f"{name}\nκ = {kappa:g}")
            axis.set_xticks([])
        row[0].set_ylabel("normalised score")
    drawing.legend(figure, axes[0, 0], columns=len(LOOKS) // 2 + 1, where="outside upper center")
    drawing.caption(figure, budget(results, BASE))
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what section 5 says about figure 5, and how the baselines fare."""
    places, scores = cells(results.settings), final(results)
    paper = [cell for cell in places if cell["kappa"] == 100.0]
    rooms = {"ROOM-VM": "room-vm", "P-ROOM-VM": "p-room-vm"}
    claims = [
        claim(
            scores,
            "ROOM-VM and P-ROOM-VM are superior to SQL in all cases",
            {name: (row, "vanilla") for name, row in rooms.items()},
            places,
        ),
        claim(
            scores,
            "They are superior to MA: the mean ensemble cannot handle heavy tails",
            {name: (row, "ma") for name, row in rooms.items()},
            places,
        ),
        claim(
            scores,
            "P-ROOM-VM surpasses ROOM-VM in almost all cases",
            {"P-ROOM-VM against ROOM-VM": ("p-room-vm", "room-vm")},
            places,
        ),
        claim(
            scores,
            "Beyond the paper: the scores show what is learned from the rewards",
            {
                f"ROOM-VM against {label(other, BASE)}": ("room-vm", other)
                for other in ("bc", "zero-reward")
            },
            places,
        ),
        claim(
            scores,
            "Beyond the paper: ROOM-VM beats cloning of the best episodes, ranked by medians",
            {"ROOM-VM": ("room-vm", "percent-median")},
            places,
        ),
        converged(results, BASE),
        diverged(results, BASE),
    ]
    if paper:
        claims.append(
            claim(
                scores,
                "Beyond the paper: at κ = 100 the rewards still teach SQL something",
                {"SQL against SQL on rewards of zero": ("vanilla", "zero-reward")},
                paper,
            )
        )
    return claims


EXPERIMENT = Experiment(
    name="d4rl-sql",
    shows="figures 5, A1 and A2",
    title="Does ROOM help SQL on continuous control?",
    settings={**BUDGET, "alpha": 10.0},
    quick=TINY,
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
    find=find,
)
