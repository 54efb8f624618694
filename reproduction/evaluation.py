"""Figures 3a, 4, 6 and A4: evaluation on CartPole, bootstrap against folds, and the number of folds."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reproduction import drawing
from reproduction.cartpole import EVALUATION, STOPPING, Estimators, budget, grid
from reproduction.drawing import Look
from reproduction.experiment import Claim, Experiment, Job, Results, Row
from reproduction.summary import (
    ERROR,
    Measure,
    Summary,
    log_mse,
    median_size,
    together,
    verdict_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DFS = (1.0, 1.11, 1.23, 1.37, 1.52)  # 2^0 to 2^0.6
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
#: The released code's bootstrap: its members are fitted on disjoint folds again.
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


def run_ope(job: Job) -> list[Row]:
    """Return the estimate of every method on one log."""
    estimators, folds = Estimators(job), job.settings["folds"]
    for name in ("mis", "tm-mis", "auto"):
        estimators.add(name)
    estimators.add_weighted(folds)
    estimators.add_constant_ratio(folds)
    for stopping in STOPPING:
        estimators.add("fqe", stopping)
        estimators.add("fqe-text", stopping)
        estimators.add_direct(folds, stopping)
        estimators.add("roam-fqe", stopping, folds=folds)
        estimators.add("roam-fqe-at-once", stopping, folds=folds)
        estimators.add("roam-fqe-text", stopping, folds=folds)
    estimators.add_iterations("fqe")
    for name in ("roam-dm", "roam-fqe", "roam-fqe-at-once"):
        estimators.add_iterations(name, folds=folds)
    return estimators.rows


def run_bootstrap(job: Job) -> list[Row]:
    """Return the estimates by folds and by a bootstrap of whole episodes, on one log."""
    estimators, folds = Estimators(job), job.settings["folds"]
    estimators.add("mis")
    estimators.add_weighted(folds)
    estimators.add("b-roam-mis", folds=folds)
    for stopping in STOPPING:
        estimators.add("fqe", stopping)
        estimators.add_direct(folds, stopping)
        estimators.add("b-roam-dm", stopping, folds=folds)
    return [row for row in estimators.rows if row["method"] != "tm-mis-released"]


def errors_at(results: Results, name: str, kappa: float, measure: Measure = ERROR) -> list[Summary]:
    """Return the log-MSE of a method at every df."""
    dfs = results.settings["dfs"]
    return [measure.summary(results, method=name, df=df, kappa=kappa) for df in dfs]


def draw_ope(results: Results) -> Figure:
    """Draw log-MSE against df: one column per κ; true value above, the paper's reference below."""
    settings = results.settings
    kappas = settings["kappas"]
    figure, axes = drawing.new_figure(
        2, len(kappas), width=8.6, height=6.4, sharex=True, sharey="row"
    )
    for row, measure in zip(axes, (ERROR, Measure("paper_error", log_mse)), strict=True):
        for axis, kappa in zip(row, kappas, strict=True):
            found = partial(errors_at, results, kappa=kappa, measure=measure)
            drawing.curves(axis, settings["dfs"], LOOKS, found, spread=0.0035, middle=5)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=[f"κ = {kappa:g}" for kappa in kappas],
        x="degrees of freedom of the noise",
        y=(
            f"log MSE, right truth {settings['truth']:.1f}",
            f"log MSE, the paper's truth {settings['paper_truth']:.1f}",
        ),
    )


def draw_bootstrap(results: Results) -> Figure:
    """Draw log-MSE against df, DM on the left and MIS on the right."""
    figure, axes = drawing.new_figure(1, 2, width=8.6, height=3.6, sharey=True)
    dfs, kappa = results.settings["dfs"], results.settings["kappas"][0]
    for axis, looks in zip(axes[0], PANELS.values(), strict=True):
        found = partial(errors_at, results, kappa=kappa)
        drawing.curves(axis, dfs, looks, found, spread=0.006)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=[f"{kind}, κ = {kappa:g}" for kind in ("DM (FQE)", "MIS")],
        x="degrees of freedom of the noise",
        y=f"log MSE, right truth {results.settings['truth']:.1f}",
    )


def judge_ope(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 3a."""
    claim = partial(ERROR.claim, results, grid(results.settings))
    labels = [LOOKS[name].label for name in OURS]
    return [
        _falls(results),
        claim(
            "FQE is outperformed by ROAM-DM, ROAM-Variant, ROAM-MIS and ROAM-FQE",
            "log-MSE against FQE: " + "; ".join(f"{label} {{}}" for label in labels),
            *((name, "fqe") for name in OURS),
        ),
        _gap(results),
        _times(results),
        claim(
            "TM-MIS beats MIS but is generally surpassed by ROAM-MIS",
            "TM-MIS against MIS: {}; ROAM-MIS against TM-MIS: {}; against the released code's "
            "TM-MIS, which trims the K fold values: {}",
            ("tm-mis", "mis"),
            ("roam-mis", "tm-mis"),
            also=[("roam-mis", "tm-mis-released")],
        ),
        _alike(results),
        claim(
            "ROAM-FQE surpasses all other ROAM methods",
            "; ".join(f"against {label} {{}}" for label in labels[:3])
            + "; tailproof's default against ROAM-FQE {}",
            *(("roam-fqe", name) for name in OURS[:3]),
            also=[("auto", "roam-fqe")],
        ),
        claim(
            "Averaging the K members (MA) cannot handle heavy tails",
            "ROAM-DM against MA-DM {}; ROAM-MIS against MA-MIS {}",
            ("roam-dm", "ma-dm"),
            ("roam-mis", "ma-mis"),
        ),
        claim(
            "Beyond the paper: the figure shows what an estimated density ratio does",
            "against a ratio of one everywhere, which the released code has, ROAM-MIS is {}",
            ("roam-mis", "roam-mis-constant"),
        ),
    ]


def _falls(results: Results) -> Claim:
    dfs = results.settings["dfs"]
    curves = [
        errors_at(results, name, kappa) for name in LOOKS for kappa in results.settings["kappas"]
    ]
    falls = sum(curve[-1].high < curve[0].low for curve in curves)
    return Claim(
        "All methods' MSEs fall as df grows",
        verdict_of(falls, len(curves)),
        f"clearly lower at df {dfs[-1]:g} than at {dfs[0]:g} in {falls} of {len(curves)} curves",
    )


def _gap(results: Results) -> Claim:
    shrinks, said = [], []
    for kappa in results.settings["kappas"]:
        fqe, roam = (errors_at(results, name, kappa) for name in ("fqe", "roam-dm"))
        first, last = (fqe[end].value - roam[end].value for end in (0, -1))
        shrinks.append(last < first)
        said.append(f"{first:.1f} to {last:.1f} at κ {kappa:g}")
    return Claim(
        "The difference to FQE diminishes as df grows",
        verdict_of(sum(shrinks), len(shrinks)),
        "FQE minus ROAM-DM in log-MSE: " + ", ".join(said),
    )


def _times(results: Results) -> Claim:
    ratios, typical = [], []
    for cell in grid(results.settings):
        fqe = results.values("error", method="fqe", **cell)
        for name in OURS:
            ours = results.values("error", method=name, **cell)
            ratios.append(float(np.sqrt(np.mean(fqe**2) / np.mean(ours**2))))
            typical.append(float(median_size(fqe) / median_size(ours)))
    inside = sum(ratio >= 1.5 for ratio in ratios)
    return Claim(
        "ROAM is 1.5 to 30 times as accurate as the non-robust method in root MSE",
        verdict_of(inside, len(ratios)),
        f"{min(ratios):.1f} to {max(ratios):.0f} times, at least 1.5 in {inside} of {len(ratios)}; "
        f"by the median error {min(typical):.1f} to {max(typical):.1f} times",
    )


def _alike(results: Results) -> Claim:
    cells = grid(results.settings)
    gaps = [
        abs(difference)
        for name in ("roam-mis", "roam-variant")
        for difference in ERROR.tally(results, name, "roam-dm", cells).differences
    ]
    near = sum(gap <= 0.5 for gap in gaps)
    return Claim(
        "ROAM-MIS, ROAM-DM and ROAM-Variant differ very little",
        verdict_of(near, len(gaps)),
        f"log-MSEs differ by at most {max(gaps):.2f}, by 0.5 or less in {near} of {len(gaps)} pairs",
    )


def judge_bootstrap(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 4."""
    tally = partial(ERROR.tally, results, cells=grid(results.settings))
    claims = []
    for kind in PANELS:
        real = tally(f"roam-{kind}", f"b-roam-{kind}")
        released = tally(f"roam-{kind}", f"b-roam-{kind}{RELEASED}")
        mean = tally(f"b-roam-{kind}", f"ma-{kind}")
        near = sum(abs(difference) <= 0.5 for difference in real.differences)
        claims += [
            Claim(
                f"The gap between ROAM-{kind.upper()} and B-ROAM-{kind.upper()} is negligible",
                verdict_of(near, len(real.differences)),
                f"ROAM against a bootstrap of whole episodes: {real}; against the released code's "
                f"members, which are folds: {released}",
            ),
            Claim(
                f"B-ROAM-{kind.upper()} is significantly better than MA-{kind.upper()}",
                verdict_of(mean.better, len(mean.differences)),
                f"B-ROAM against MA: {mean}",
            ),
        ]
    return claims


OPE = Experiment(
    "ope",
    "figure 3a",
    "Which estimators survive heavy-tailed rewards?",
    grid,
    run_ope,
    draw_ope,
    judge_ope,
    settings={**EVALUATION, "dfs": DFS, "kappas": (1.0, 2.0)},
    quick={"dfs": (1.0, 1.52), "kappas": (1.0,), "episodes": 20},
)
BOOTSTRAP = Experiment(
    "bootstrap",
    "figure 4",
    "Can bootstrapped episodes replace disjoint folds?",
    grid,
    run_bootstrap,
    draw_bootstrap,
    judge_bootstrap,
    settings={**EVALUATION, "dfs": DFS, "kappas": (1.0,)},
    quick={"dfs": (1.0, 1.52), "episodes": 20},
)


SECONDS = Measure("seconds")
# The text names ROAM-FQE, the caption algorithm 1, which is ROAM-DM.
TIMED = {
    "roam-fqe": Look("ROAM-FQE", drawing.RED, "D"),
    "roam-dm": Look("ROAM-DM", drawing.BLUE),
}
SHOWN = (*OURS, "ma-dm")


def run_tradeoff(job: Job) -> list[Row]:
    """Return estimates and CPU seconds for every K on one log."""
    estimators = Estimators(job)
    for folds in job.settings["numbers_of_folds"]:
        for stopping in STOPPING:
            for name in TIMED:
                started = time.process_time()
                estimators.add(name, stopping, folds=folds)
                seconds = time.process_time() - started
                estimators.rows[-1] |= {"folds": folds, "seconds": seconds}
    return estimators.rows


def run_choose_k(job: Job) -> list[Row]:
    """Return the estimates of every K on one log, and of FQE."""
    estimators = Estimators(job)
    for stopping in STOPPING:
        estimators.add("fqe", stopping)
        estimators.rows[-1]["folds"] = 1
    for folds in job.settings["numbers_of_folds"]:
        before = len(estimators.rows)
        estimators.add_weighted(folds)
        for stopping in STOPPING:
            estimators.add_direct(folds, stopping)
            estimators.add("roam-fqe", stopping, folds=folds)
        for row in estimators.rows[before:]:
            row["folds"] = folds
    return [row for row in estimators.rows if row["method"] in (*SHOWN, "fqe")]


def against_folds(measure: Measure, results: Results, name: str, df: float) -> list[Summary]:
    """Return a method's measure at every K."""
    numbers = results.settings["numbers_of_folds"]
    return [measure.summary(results, method=name, folds=folds, df=df) for folds in numbers]


def draw_tradeoff(results: Results) -> Figure:
    """Draw log-MSE (left) and seconds (right) against K."""
    figure, axes = drawing.new_figure(1, 2, width=8.6, height=3.4)
    numbers, cell = results.settings["numbers_of_folds"], grid(results.settings)[0]
    for axis, measure in zip(axes[0], (ERROR, SECONDS), strict=True):
        found = partial(against_folds, measure, results, df=cell["df"])
        drawing.curves(axis, numbers, TIMED, found)
        axis.set_xticks(numbers)
    axes[0, 1].set_ylabel("seconds, one thread")
    axes[0, 1].set_ylim(bottom=0)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=(
            f"accuracy, df {cell['df']:g}, κ {cell['kappa']:g}",
            "CPU time of one evaluation",
        ),
        x="number of folds K",
        y=f"log MSE, right truth {results.settings['truth']:.1f}",
    )


def draw_choose_k(results: Results) -> Figure:
    """Draw log-MSE against K, a panel for each df, FQE as a line across."""
    settings = results.settings
    dfs, numbers = settings["dfs"], settings["numbers_of_folds"]
    figure, axes = drawing.new_figure(1, len(dfs), width=9.2, height=3.5, sharey=True)
    looks = {name: LOOKS[name] for name in SHOWN}
    for axis, df in zip(axes[0], dfs, strict=True):
        plain = ERROR.summary(results, method="fqe", folds=1, df=df)
        drawing.level(axis, plain, LOOKS["fqe"], alpha=0.08)
        found = partial(against_folds, ERROR, results, df=df)
        drawing.curves(axis, numbers, looks, found, spread=0.08)
        axis.set_xticks(numbers)
    return drawing.finish(
        figure,
        axes,
        budget(results),
        titles=[f"df = {df:g}, κ = {settings['kappas'][0]:g}" for df in dfs],
        x="number of folds K",
        y=f"log MSE, right truth {settings['truth']:.1f}",
    )


def judge_tradeoff(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 6."""
    numbers, df = results.settings["numbers_of_folds"], results.settings["dfs"][0]
    seconds, accuracy = (
        [each.value for each in against_folds(measure, results, "roam-fqe", df)]
        for measure in (SECONDS, ERROR)
    )
    slope, start = np.polyfit(numbers, seconds, 1)
    explained = float(np.corrcoef(numbers, seconds)[0, 1] ** 2)
    growth = seconds[-1] / seconds[0]
    best = int(np.argmin(accuracy))
    rows = [{"method": "roam-fqe", "folds": folds} for folds in numbers]
    ends = sum(ERROR.wins(results, rows[best], rows[end]) for end in (0, -1))
    return [
        Claim(
            "Run time grows linearly with K",
            # Twenty times the folds at less than thrice the time is growth, but not in proportion.
            "holds"
            if explained > 0.9 and growth > 0.5 * numbers[-1] / numbers[0]
            else ("holds in part" if explained > 0.9 else "does not hold"),
            f"ROAM-FQE: {start:.3f} s + {slope:.4f} s a fold, R² {explained:.2f}; K = {numbers[-1]} "
            f"takes {growth:.1f} times as long as K = {numbers[0]}",
            timed=True,
        ),
        Claim(
            "It ends within a second, at the best K within half a second",
            verdict_of((max(seconds) < 1) + (seconds[best] < 0.5), 2),
            f"at most {max(seconds):.2f} s; {seconds[best]:.2f} s at K = {numbers[best]}",
            timed=True,
        ),
        Claim(
            "A moderate K is the most accurate",
            verdict_of(ends if 0 < best < len(numbers) - 1 else 0, 2),
            f"lowest log-MSE of ROAM-FQE {accuracy[best]:.2f} at K = {numbers[best]}, "
            f"{accuracy[0]:.2f} at {numbers[0]}, {accuracy[-1]:.2f} at {numbers[-1]}; beyond doubt "
            f"against {ends} of these two ends",
        ),
    ]


def judge_choose_k(results: Results) -> list[Claim]:
    """Judge the claims of appendix A4.4 about the choice of K."""
    numbers, dfs = results.settings["numbers_of_folds"], results.settings["dfs"]
    cells = [{"folds": folds, "df": df} for df in dfs for folds in numbers]

    def wins(name: str, other: str, **folds: int) -> int:
        return sum(
            ERROR.wins(results, {"method": name, **cell}, {"method": other, **cell, **folds})
            for cell in cells
        )

    beaten = {name: wins(name, "fqe", folds=1) for name in OURS}
    medians = wins("roam-dm", "ma-dm")
    best, spread = {}, []
    for name in OURS:
        for df in dfs:
            values = [each.value for each in against_folds(ERROR, results, name, df)]
            best[name, df] = numbers[int(np.argmin(values))]
            spread += [values[numbers.index(5)] - min(values)] if 5 in numbers else []
    return [
        Claim(
            "Our methods exceed FQE for every K from 3 to 10",
            together(verdict_of(count, len(cells)) for count in beaten.values()),
            ", ".join(f"{LOOKS[n].label} in {count} of {len(cells)}" for n, count in beaten.items())
            + " cells beyond doubt",
        ),
        Claim(
            "The best K varies with algorithm and df",
            "holds" if len(set(best.values())) > 1 else "does not hold",
            "; ".join(
                f"{LOOKS[name].label} " + ", ".join(f"{best[name, df]} at df {df:g}" for df in dfs)
                for name in OURS
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
            verdict_of(medians, len(cells)),
            f"ROAM-DM better than MA-DM beyond doubt in {medians} of {len(cells)} cells",
        ),
    ]


TRADEOFF = Experiment(
    "tradeoff",
    "figure 6",
    "What do more folds cost, and what do they bring?",
    grid,
    run_tradeoff,
    draw_tradeoff,
    judge_tradeoff,
    settings={
        **EVALUATION,
        "dfs": (1.5,),
        "kappas": (1.0,),
        "numbers_of_folds": (1, 3, 5, 7, 9, 11, 16),  # the released code has 3 to 11
    },
    quick={"episodes": 20, "numbers_of_folds": (1, 3, 5)},
)
CHOOSE_K = Experiment(
    "choose-k",
    "figure A4",
    "How many folds?",
    grid,
    run_choose_k,
    draw_choose_k,
    judge_choose_k,
    settings={
        **EVALUATION,
        "dfs": (1.0, 1.23, 1.52),
        "kappas": (1.0,),
        "numbers_of_folds": tuple(range(3, 11)),
    },
    quick={"dfs": (1.0,), "episodes": 20, "numbers_of_folds": (3, 5)},
)
