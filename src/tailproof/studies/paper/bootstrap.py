"""Figure 4: bootstrapped episodes in place of disjoint folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import (
    EVALUATION,
    EVALUATION_DFS,
    Estimators,
    grid,
    noisy_log,
)
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Row, Verdict
from tailproof.studies.paper.ope import budget, curves
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import Comparison, compare, verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the released code calls a bootstrap: members fitted on disjoint folds once more.
RELEASED = "-released"
PANELS = {
    "dm": {
        "fqe": Look("FQE or MIS, whole log", drawing.BLACK, "s"),
        "ma-dm": Look("MA, mean of folds", drawing.GREY, "v", ":"),
        "roam-dm": Look("ROAM, median of folds", drawing.BLUE),
        "b-roam-dm": Look("B-ROAM, median of\nbootstrapped members", drawing.RED, "D"),
        "b-roam-dm-released": Look("B-ROAM as released:\nfolds again", drawing.SKY, "^", "--"),
    }
}
PANELS["mis"] = {
    name.replace("fqe", "mis").replace("-dm", "-mis"): look for name, look in PANELS["dm"].items()
}
TITLES = {"dm": "DM (FQE)", "mis": "MIS"}


def run(job: Job) -> list[Row]:
    """Return the errors of folds, real bootstraps and the released code's bootstraps on one log."""
    estimators = Estimators(noisy_log(job), job)
    folds = job.settings["folds"]
    rows = [*estimators.whole(), *estimators.split(folds)]
    for kind in PANELS:
        real = estimators.fit(f"b-roam-{kind}", folds=folds)
        again = estimators.fit(f"roam-{kind}", folds=folds, stream=3)
        rows.append(estimators.row(f"b-roam-{kind}", real.value, real))
        rows.append(estimators.row(f"b-roam-{kind}{RELEASED}", again.value, again))
    return rows


def draw(results: Results) -> Figure:
    """Draw log-MSE against df, DM on the left and MIS on the right."""
    figure, axes = drawing.new_figure(1, 2, width=8.6, height=3.6, sharey=True)
    kappa = results.settings["kappas"][0]
    for axis, looks in zip(axes[0], PANELS.values(), strict=True):
        for place, (name, look) in enumerate(looks.items()):
            found = curves(results, "error", name, kappa=kappa)
            drawing.curve(axis, results.settings["dfs"], found, look, shift=0.006 * (place - 2))
    drawing.label_axes(
        axes,
        {place: f"{TITLES[kind]}, κ = {kappa:g}" for place, kind in enumerate(PANELS)},
        x="degrees of freedom of the noise",
        y=f"log MSE, right truth {results.settings['truth']:.1f}",
    )
    drawing.legend(figure, axes[0, 0])
    drawing.caption(figure, budget(results))
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what section 5 says about figure 4."""
    cells = grid(results.settings)
    claims = []
    for kind in PANELS:
        real = compare(results, f"roam-{kind}", f"b-roam-{kind}", cells)
        released = compare(results, f"roam-{kind}", f"b-roam-{kind}{RELEASED}", cells)
        claims.append(
            Claim(
                f"The gap between ROAM-{kind.upper()} and B-ROAM-{kind.upper()} is negligible",
                _negligible(real),
                f"ROAM against a bootstrap of whole episodes: {real}; against the released code's "
                f"members, which are folds: {released}",
            )
        )
        mean = compare(results, f"b-roam-{kind}", f"ma-{kind}", cells)
        claims.append(
            Claim(
                f"B-ROAM-{kind.upper()} is significantly better than MA-{kind.upper()}",
                verdict_of(mean.better, len(cells)),
                f"B-ROAM against MA: {mean}",
            )
        )
    return claims


def _negligible(found: Comparison) -> Verdict:
    near = sum(abs(difference) <= 0.5 for difference in found.differences)
    return verdict_of(near, len(found.differences))


EXPERIMENT = Experiment(
    name="bootstrap",
    shows="figure 4",
    title="Can bootstrapped episodes replace disjoint folds?",
    settings={**EVALUATION, "dfs": EVALUATION_DFS, "kappas": (1.0,)},
    quick={"dfs": (1.0, 1.52), "episodes": 20},
    cells=grid,
    run=run,
    draw=draw,
    judge=judge,
)
