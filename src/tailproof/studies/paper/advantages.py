"""Beyond the paper: what is left of the advantages under noise, in SQL, IQL and their ROOM rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import Run
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import find
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row, Settings, Verdict
from tailproof.studies.paper.implicit import BUDGET, TINY, base_of, prepared_log
from tailproof.studies.paper.implicit import LOOKS as ALL
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "clean": Look("without noise", drawing.GREEN, "o"),
    **{name: ALL[name] for name in ("vanilla", "ma", "room-vm", "p-room-vm", "clipped")},
}
BASES = {"SQL": SQL, "IQL": IQL}


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each base, data set and κ, most noise first."""
    return [
        {"base": base, "dataset": name, "kappa": kappa}
        for kappa in sorted(settings["kappas"], reverse=True)
        for base in BASES
        for name in settings["datasets"]
    ]


def run(job: Job) -> list[Row]:
    """Return how well each row's advantages agree with those of the rewards without noise."""
    from tailproof.studies.paper.deep_rows import advantage_study

    settings, (clean, log) = job.settings, prepared_log(job)
    quiet = Run(threads=1, progress=False)
    found = advantage_study(
        log,
        clean,
        base_of(job, BASES[job.cell["base"]], clean, run=quiet),
        seed=job.integer(1),
        folds=settings["folds"],
        quantile=settings["quantile"],
    )
    return [{"method": name, "agreement": found.get(name)} for name in LOOKS]


def agreement(results: Results, name: str, **wanted: object) -> list[float]:
    """Return the mean agreement over seeds, one a cell; 0 where critics diverged."""
    places = [
        cell
        for cell in cells(results.settings)
        if all(cell[key] == value for key, value in wanted.items())
    ]
    return [
        float(np.nan_to_num(results.values("agreement", method=name, **cell)).mean())
        for cell in places
    ]


def draw(results: Results) -> Figure:
    """Draw the mean agreement over data sets, a panel for each base."""
    figure, axes = drawing.new_figure(1, len(BASES), width=8.6, height=3.6, sharey="row")
    kappas = sorted(results.settings["kappas"])
    for axis, base in zip(axes[0], BASES, strict=True):
        for place, (name, look) in enumerate(LOOKS.items()):
            found = [
                summarise(np.array(agreement(results, name, base=base, kappa=k))) for k in kappas
            ]
            named = replace(look, label=look.label.format(base="the base"))
            drawing.curve(axis, range(len(kappas)), found, named, shift=0.07 * (place - 2.5))
        axis.set_xticks(range(len(kappas)), [f"{kappa:g}" for kappa in kappas])
        axis.set_xlabel("κ")
        axis.set_title(base)
    axes[0, 0].set_ylabel("rank correlation of advantages")
    drawing.legend(figure, axes[0, 0])
    settings = results.settings
    drawing.caption(
        figure,
        f"Q − V against r + γV(s') − V(s) without noise. {len(settings['datasets'])} data sets, "
        f"seeds: {results.replicates}, {settings['steps']:,} critic steps, hidden "
        f"{'×'.join(map(str, settings['hidden']))}.\nBars: 95 % intervals over data sets.",
    )
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge whether robust aggregates save more of the advantages than what they are compared with."""
    return [
        _claim(results, first, second, kappa)
        for kappa in sorted(results.settings["kappas"])
        for first in ("room-vm", "p-room-vm")
        for second in ("vanilla", "ma", "clipped")
    ]


def _claim(results: Results, first: str, second: str, kappa: float) -> Claim:
    one, two = (np.array(agreement(results, name, kappa=kappa)) for name in (first, second))
    gap = summarise(one - two)
    verdict: Verdict = "undecided"
    if gap.low > 0 or gap.high < 0:
        verdict = "holds" if gap.low > 0 else "does not hold"
    label = LOOKS[second].label.format(base="the base")
    return Claim(
        f"Beyond the paper: at κ = {kappa:g} the advantages of {LOOKS[first].label} are better than "
        f"those of {label}",
        verdict,
        f"rank correlations {one.mean():.2f} and {two.mean():.2f}, difference {gap}, {len(one)} cells",
    )


EXPERIMENT = Experiment(
    name="advantages",
    shows="beyond the paper",
    title="What is left of the advantages under noise?",
    settings={
        **{name: BUDGET[name] for name in BUDGET if "policy" not in name and "eval" not in name},
        "kappas": (0.1, 10.0, 100.0),
        "steps": 3_000,
        "alpha": 10.0,
        "beta": 3.0,
    },
    quick={name: TINY[name] for name in TINY if "policy" not in name and "eval" not in name},
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
    find=find,
)
