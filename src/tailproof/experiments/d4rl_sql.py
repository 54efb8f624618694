"""Figures 5, A1 and A2: SQL and its ROOM rows on continuous control, scores and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailproof.deep.bases import SQL
from tailproof.experiments import drawing
from tailproof.experiments.datasets import find
from tailproof.experiments.experiment import Claim, Experiment, Job, Row
from tailproof.experiments.implicit import (
    BUDGET,
    LOOKS,
    TINY,
    budget,
    cells,
    final,
    final_scores,
    label,
    run_implicit,
    versus,
)
from tailproof.experiments.results import Results
from tailproof.experiments.summary import summarise, together

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
    """Judge what section 5 says about figure 5."""
    places, scores = cells(results.settings), final(results)
    base = {name: versus(scores, name, "vanilla", places) for name in ("room-vm", "p-room-vm")}
    averaged = {name: versus(scores, name, "ma", places) for name in ("room-vm", "p-room-vm")}
    careful = versus(scores, "p-room-vm", "room-vm", places)
    blind = {other: versus(scores, "room-vm", other, places) for other in ("bc", "zero-reward")}
    paper = [cell for cell in places if cell["kappa"] == 100.0]
    spread = [
        float(
            np.mean(
                final_scores(results, "vanilla", cell) - final_scores(results, "zero-reward", cell)
            )
        )
        for cell in paper
    ]
    claims = [
        Claim(
            "ROOM-VM and P-ROOM-VM are superior to SQL in all cases",
            together(each.verdict for each in base.values()),
            "; ".join(f"{label(name, BASE)} {each}" for name, each in base.items()),
        ),
        Claim(
            "They are superior to MA: the mean ensemble cannot handle heavy tails",
            together(each.verdict for each in averaged.values()),
            "; ".join(f"{label(name, BASE)} {each}" for name, each in averaged.items()),
        ),
        Claim(
            "P-ROOM-VM surpasses ROOM-VM in almost all cases",
            careful.verdict,
            f"P-ROOM-VM against ROOM-VM {careful}",
        ),
        Claim(
            "Beyond the paper: the scores show what is learned from the rewards",
            together(each.verdict for each in blind.values()),
            "; ".join(
                f"ROOM-VM against {label(other, BASE)} {each}" for other, each in blind.items()
            ),
        ),
    ]
    if paper:
        claims.append(
            Claim(
                "Beyond the paper: at κ = 100 the rewards still teach SQL something",
                versus(scores, "vanilla", "zero-reward", paper).verdict,
                "SQL's score minus that of SQL on rewards of zero, by data set: "
                + ", ".join(f"{each:+.1f}" for each in spread),
            )
        )
    return claims


EXPERIMENT = Experiment(
    name="d4rl-sql",
    shows="figures 5, A1 and A2",
    title="Does ROOM help SQL on continuous control?",
    # The paper's κ leaves almost no signal in the rewards; at 0.1 they still teach.
    settings={**BUDGET, "kappas": (100.0, 0.1), "alpha": 0.3},
    quick=TINY,
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=3,
    quick_replicates=2,
    find=find,
)
