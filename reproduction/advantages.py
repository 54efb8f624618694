"""Beyond the paper: accuracy of advantages under noise, for SQL, IQL and their ROOM variants."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction import drawing
from reproduction.datasets import BUDGET, TINY, deep_experiment
from reproduction.drawing import Look
from reproduction.experiment import Cell, Claim, Job, Results, Row, Settings
from reproduction.implicit import LOOKS as ALL
from reproduction.implicit import base_of, label, prepared_log
from reproduction.summary import Measure, Summary, summarise, verdict
from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "clean": Look("without noise", drawing.GREEN, "o"),
    **{
        name: replace(ALL[name], label=label(name, "the base"))
        for name in ("vanilla", "ma", "room-vm", "p-room-vm", "clipped")
    },
}
#: Diverged critics have agreement 0.
AGREEMENT = Measure("agreement", higher_is_better=True, missing=0.0)
BASES = {"SQL": SQL, "IQL": IQL}


def cells(settings: Settings) -> list[Cell]:
    """Return one cell per base, data set and κ, largest κ first."""
    return [
        {"base": base, "dataset": name, "kappa": kappa}
        for kappa in sorted(settings["kappas"], reverse=True)
        for base in BASES
        for name in settings["datasets"]
    ]


def run(job: Job) -> list[Row]:
    """Return the agreement of each method's advantages with those from noise-free rewards."""
    from reproduction.deep_rows import advantage_study

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


def agreement(results: Results, name: str, **wanted: Any) -> FloatArray:
    """Return the mean agreement of each data set that has such cells, over seeds and cells, (D,)."""
    each = (
        AGREEMENT.values(results, method=name, dataset=dataset, **wanted)
        for dataset in results.settings["datasets"]
    )
    return np.array([values.mean() for values in each if len(values)])


def draw(results: Results) -> Figure:
    """Draw the mean agreement over data sets, a panel for each base."""
    figure, axes = drawing.new_figure(1, len(BASES), width=8.6, height=3.6, sharey="row")
    settings, kappas = results.settings, sorted(results.settings["kappas"])

    def found(name: str, base: str) -> list[Summary]:
        return [summarise(agreement(results, name, base=base, kappa=kappa)) for kappa in kappas]

    for axis, base in zip(axes[0], BASES, strict=True):
        drawing.curves(axis, range(len(kappas)), LOOKS, partial(found, base=base), spread=0.07)
        axis.set_xticks(range(len(kappas)), [f"{kappa:g}" for kappa in kappas])
    everywhere = len(agreement(results, "vanilla", kappa=kappas[0]))
    fewer = settings.get("fewer")
    return drawing.finish(
        figure,
        axes,
        f"Q − V against r + γV(s') − V(s) without noise. {everywhere} data sets, "
        f"seeds: {results.replicates}, {settings['steps']:,} critic steps, hidden "
        f"{'×'.join(map(str, settings['hidden']))}.\n"
        + (f"{fewer[0].upper()}{fewer[1:]}.\n" if fewer else "")
        + "Bars: 95 % intervals over data sets.",
        titles=BASES,
        x="κ",
        y="rank correlation of advantages",
    )


def judge(results: Results) -> list[Claim]:
    """Judge whether robust aggregates give more accurate advantages than their competitors."""
    return [
        _claim(results, first, second, kappa)
        for kappa in sorted(results.settings["kappas"])
        for first in ("room-vm", "p-room-vm")
        for second in ("vanilla", "ma", "clipped")
    ]


def _claim(results: Results, first: str, second: str, kappa: float) -> Claim:
    one, two = (agreement(results, name, kappa=kappa) for name in (first, second))
    gap = summarise(one - two)
    return Claim(
        f"Beyond the paper: at κ = {kappa:g} the advantages of {LOOKS[first].label} are better than "
        f"those of {LOOKS[second].label}",
        verdict([gap.above()]),
        f"rank correlations {one.mean():.2f} and {two.mean():.2f}, difference {gap} over "
        f"{len(one)} data sets",
    )


def _of_critics(settings: Settings) -> dict[str, Any]:
    return {
        name: settings[name] for name in settings if "policy" not in name and "eval" not in name
    }


ADVANTAGES = deep_experiment(
    "advantages",
    "beyond the paper",
    "What is left of the advantages under noise?",
    cells,
    run,
    draw,
    judge,
    settings={
        **_of_critics(BUDGET),
        "kappas": (0.1, 10.0, 100.0),
        "steps": 3_000,
        "alpha": 10.0,
        "beta": 3.0,
    },
    quick=_of_critics(TINY),
)
