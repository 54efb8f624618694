"""Figure 3a: off-policy evaluation on CartPole, log-MSE against the degrees of freedom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import (
    EVALUATION,
    EVALUATION_DFS,
    Estimators,
    grid,
    noisy_log,
)
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import (
    Summary,
    compare,
    log_mse,
    median_size,
    summarise,
    together,
    verdict_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "fqe": Look("FQE", drawing.BLACK, "s"),
    "ma-dm": Look("MA-DM", drawing.GREY, "v", ":"),
    "roam-dm": Look("ROAM-DM", drawing.BLUE),
    "roam-variant": Look("ROAM-Variant", drawing.SKY, "^"),
    "roam-fqe": Look("ROAM-FQE", drawing.RED, "D"),
    "mis": Look("MIS", drawing.BLACK, "x", "--"),
    "ma-mis": Look("MA-MIS", drawing.GREY, "x", "--"),
    "tm-mis": Look("TM-MIS", drawing.ORANGE, "P"),
    "roam-mis": Look("ROAM-MIS", drawing.GREEN, "x", "--"),
    "auto": Look("tailproof's default\n(not in the paper)", drawing.PINK, "*", "-."),
}
OURS = ("roam-dm", "roam-variant", "roam-mis", "roam-fqe")


def run(job: Job) -> list[Row]:
    """Return the error of every estimator on one log."""
    estimators = Estimators(noisy_log(job), job)
    folds = job.settings["folds"]
    inside = estimators.fit("roam-fqe", folds=folds)
    chosen = estimators.fit("auto")
    return [
        *estimators.whole(),
        *estimators.split(folds),
        estimators.row("roam-fqe", inside.value, inside),
        *estimators.constant_ratio(folds),
        estimators.row("auto", chosen.value, chosen),
    ]


def curves(results: Results, column: str, name: str, **where: Any) -> list[Summary]:
    """Return the log-MSE of a method at every df."""
    return [
        summarise(results.values(column, method=name, df=df, **where), log_mse)
        for df in results.settings["dfs"]
    ]


def draw(results: Results) -> Figure:
    """Draw log-MSE against df: κ across, the right truth above and the paper's below."""
    kappas = results.settings["kappas"]
    figure, axes = drawing.new_figure(
        2, len(kappas), width=8.6, height=6.4, sharex=True, sharey="row"
    )
    dfs = results.settings["dfs"]
    for row, column in zip(axes, ("error", "paper_error"), strict=True):
        for axis, kappa in zip(row, kappas, strict=True):
            for place, (name, look) in enumerate(LOOKS.items()):
                shift = 0.0035 * (place - len(LOOKS) / 2)
                drawing.curve(
                    axis, dfs, curves(results, column, name, kappa=kappa), look, shift=shift
                )
    settings = results.settings
    axes[0, 0].set_ylabel(f"log MSE, right truth {settings['truth']:.1f}")
    axes[1, 0].set_ylabel(f"log MSE, the paper's truth {settings['paper_truth']:.1f}")
    for axis, kappa in zip(axes[0], kappas, strict=True):
        axis.set_title(f"κ = {kappa:g}")
    for axis in axes[1]:
        axis.set_xlabel("degrees of freedom of the noise")
    drawing.legend(figure, axes[0, 0])
    drawing.caption(figure, budget(results))
    return figure


def budget(results: Results) -> str:
    """Return what was run, for the foot of a figure."""
    settings = results.settings
    return (
        f"CartPole, {settings['episodes']} episodes × {settings['steps']} steps, "
        f"{results.replicates} replicates, bars: 95 % bootstrap intervals. "
        f"At df = 1 the noise has no mean: its centre is estimated."
    )


def judge(results: Results) -> list[Claim]:
    """Judge what section 5 says about figure 3a."""
    cells = grid(results.settings)
    return [
        _falls(results),
        _robust(results, cells),
        _gap(results),
        _times(results, cells),
        _trimmed(results, cells),
        _alike(results, cells),
        _inside(results, cells),
        _averaged(results, cells),
        _ratio(results, cells),
    ]


def _falls(results: Results) -> Claim:
    first, last = results.settings["dfs"][0], results.settings["dfs"][-1]
    falls = []
    for name in LOOKS:
        for kappa in results.settings["kappas"]:
            ends = [
                summarise(results.values("error", method=name, df=df, kappa=kappa), log_mse)
                for df in (first, last)
            ]
            falls.append(ends[1].high < ends[0].low)
    return Claim(
        "All methods' MSEs fall as df grows",
        verdict_of(sum(falls), len(falls)),
        f"clearly lower at df {last:g} than at {first:g} in {sum(falls)} of {len(falls)} curves",
    )


def _robust(results: Results, cells: Sequence[Cell]) -> Claim:
    found = {name: compare(results, name, "fqe", cells) for name in OURS}
    return Claim(
        "FQE is outperformed by ROAM-DM, ROAM-Variant, ROAM-MIS and ROAM-FQE",
        together(each.verdict for each in found.values()),
        "log-MSE against FQE: " + "; ".join(f"{LOOKS[n].label} {c}" for n, c in found.items()),
    )


def _gap(results: Results) -> Claim:
    shrinks, said = [], []
    for kappa in results.settings["kappas"]:
        gaps = [
            fqe.value - roam.value
            for fqe, roam in zip(
                curves(results, "error", "fqe", kappa=kappa),
                curves(results, "error", "roam-dm", kappa=kappa),
                strict=True,
            )
        ]
        shrinks.append(gaps[-1] < gaps[0])
        said.append(f"{gaps[0]:.1f} to {gaps[-1]:.1f} at κ {kappa:g}")
    return Claim(
        "The difference to FQE diminishes as df grows",
        verdict_of(sum(shrinks), len(shrinks)),
        "FQE minus ROAM-DM in log-MSE: " + ", ".join(said),
    )


def _times(results: Results, cells: Sequence[Cell]) -> Claim:
    ratios = [
        float(np.sqrt(np.mean(fqe**2) / np.mean(results.values("error", method=name, **cell) ** 2)))
        for cell in cells
        if (fqe := results.values("error", method="fqe", **cell)) is not None
        for name in OURS
    ]
    typical = [
        float(
            median_size(results.values("error", method="fqe", **cell))
            / median_size(results.values("error", method=name, **cell))
        )
        for cell in cells
        for name in OURS
    ]
    inside = sum(ratio >= 1.5 for ratio in ratios)
    return Claim(
        "ROAM is 1.5 to 30 times as accurate as the non-robust method in root MSE",
        verdict_of(inside, len(ratios)),
        f"{min(ratios):.1f} to {max(ratios):.0f} times, at least 1.5 in {inside} of {len(ratios)}; "
        f"by the median error {min(typical):.1f} to {max(typical):.1f} times",
    )


def _trimmed(results: Results, cells: Sequence[Cell]) -> Claim:
    plain = compare(results, "tm-mis", "mis", cells)
    roam = compare(results, "roam-mis", "tm-mis", cells)
    released = compare(results, "roam-mis", "tm-mis-released", cells)
    return Claim(
        "TM-MIS beats MIS but is generally surpassed by ROAM-MIS",
        together((plain.verdict, roam.verdict)),
        f"TM-MIS against MIS: {plain}; ROAM-MIS against TM-MIS: {roam}; against the released code's "
        f"TM-MIS, which trims the K fold values: {released}",
    )


def _alike(results: Results, cells: Sequence[Cell]) -> Claim:
    pairs = (("roam-mis", "roam-dm"), ("roam-variant", "roam-dm"))
    gaps = [abs(d) for a, b in pairs for d in compare(results, a, b, cells).differences]
    near = sum(gap <= 0.5 for gap in gaps)
    return Claim(
        "ROAM-MIS, ROAM-DM and ROAM-Variant differ very little",
        verdict_of(near, len(gaps)),
        f"log-MSEs differ by at most {max(gaps):.2f}, by 0.5 or less in {near} of {len(gaps)} pairs",
    )


def _inside(results: Results, cells: Sequence[Cell]) -> Claim:
    found = {name: compare(results, "roam-fqe", name, cells) for name in OURS[:3]}
    default = compare(results, "auto", "roam-fqe", cells)
    return Claim(
        "ROAM-FQE surpasses all other ROAM methods",
        together(each.verdict for each in found.values()),
        "; ".join(f"against {LOOKS[name].label} {each}" for name, each in found.items())
        + f"; tailproof's default against ROAM-FQE {default}",
    )


def _averaged(results: Results, cells: Sequence[Cell]) -> Claim:
    found = [compare(results, f"roam-{kind}", f"ma-{kind}", cells) for kind in ("dm", "mis")]
    return Claim(
        "Averaging the K members (MA) cannot handle heavy tails",
        together(each.verdict for each in found),
        f"ROAM-DM against MA-DM {found[0]}; ROAM-MIS against MA-MIS {found[1]}",
    )


def _ratio(results: Results, cells: Sequence[Cell]) -> Claim:
    found = compare(results, "roam-mis", "roam-mis-constant", cells)
    return Claim(
        "Beyond the paper: the figure shows what an estimated density ratio does",
        found.verdict,
        f"against a ratio of one everywhere, which the released code has, ROAM-MIS is {found}",
    )


EXPERIMENT = Experiment(
    name="ope",
    shows="figure 3a",
    title="Which estimators survive heavy-tailed rewards?",
    settings={**EVALUATION, "dfs": EVALUATION_DFS, "kappas": (1.0, 2.0)},
    quick={"dfs": (1.0, 1.52), "kappas": (1.0,), "episodes": 20},
    cells=grid,
    run=run,
    draw=draw,
    judge=judge,
)
