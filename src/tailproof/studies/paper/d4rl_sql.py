"""Figures 5, A1 and A2: SQL and its ROOM rows on continuous control, scores and learning curves."""

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
    """Return the scores of SQL, MA, ROOM-VM, P-ROOM-VM and the baselines while they train."""
    return run_implicit(job, SQL, alpha=job.settings["alpha"])


def draw(results: Results) -> Figure:
    """Draw final scores as bars and, below, the learning curves."""
    settings = results.settings
    kappas, names = settings["kappas"], list(settings["datasets"])
    figure, axes = drawing.new_figure(
        2 * len(kappas),
        len(names),
        width=max(9.0, 2.2 * len(names)),
        height=4.6 * len(kappas),
        sharey="row",
    )
    for place, kappa in enumerate(kappas):
        for column, name in enumerate(names):
            cell = {"dataset": name, "kappa": kappa}
            top, bottom = axes[2 * place, column], axes[2 * place + 1, column]
            for x, (method, look) in enumerate(LOOKS.items()):
                score = summarise(final_scores(results, method, cell))
                error = [[score.value - score.low], [score.high - score.value]]
                top.bar(
                    x,
                    score.value,
                    color=look.color,
                    width=0.8,
                    yerr=error,
                    capsize=2,
                    ecolor="#444444",
                )
                steps = results.distinct("step", method=method, **cell)
                curve = [
                    results.values("score", method=method, step=step, **cell).mean()
                    for step in steps
                ]
                bottom.plot(
                    steps, curve, color=look.color, label=label(method, BASE), linestyle=look.dashes
                )
            top.set_title(f"{name}\nκ = {kappa:g}")
            top.set_xticks([])
            bottom.set_xlabel("policy steps")
        axes[2 * place, 0].set_ylabel("normalised score")
        axes[2 * place + 1, 0].set_ylabel("score in training")
    drawing.legend(figure, axes[1, 0], columns=len(LOOKS), where="outside upper center")
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
    settings={**BUDGET, "alpha": 0.3},
    quick=TINY,
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
    find=find,
)
