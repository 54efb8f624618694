"""Figures 3b and A5: learning on CartPole, regret against the noise and against pessimism."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction import drawing
from reproduction.cartpole import (
    CLEAN,
    LEARNING,
    SHORT,
    STOPPING,
    Learners,
    grid,
    with_clean,
)
from reproduction.drawing import Look
from reproduction.experiment import Cell, Claim, Experiment, Job, Results, Row, Settings
from reproduction.summary import REGRET, Check, Summary, Tally, summarise, verdict
from tailproof.robust.aggregates import Mean, Quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "fqi": Look("FQI, ridge 20", drawing.BLACK, "s"),
    "fqi-equal": Look("FQI, ridge as a fold's", drawing.BLACK, "s", ":"),
    "ma": Look("MA", drawing.GREY, "v"),
    "room-vm": Look("ROOM-VM", drawing.SKY, "^"),
    "p-room-vm": Look("P-ROOM-VM, q = 0.1", drawing.BLUE, "^", "--"),
    "room-fqi": Look("ROOM-FQI", drawing.ORANGE, "D"),
    "p-room-fqi": Look("P-ROOM-FQI, q = 0.1", drawing.RED, "D", "--"),
}
THOROUGH = {
    "pb": Look("PB as in the text", drawing.PINK, "P"),
    "pb-equal": Look("PB, ridge as a fold's", drawing.PINK, "P", ":"),
    "pb-released": Look("PB as released", drawing.PINK, "X", "--"),
    "huber-reward-equal": Look(
        "FQI on Huber-regressed\nrewards (not in the paper)", drawing.GREEN, "*"
    ),
    "constant-reward-equal": Look(
        "FQI on rewards of one\n(not in the paper)", drawing.YELLOW, ".", "-."
    ),
}
PESSIMISTS = {
    "p-room-vm": Look("P-ROOM-VM", drawing.BLUE, "^"),
    "p-room-fqi": Look("P-ROOM-FQI", drawing.RED, "D"),
}
PLAIN = {
    "fqi": Look("FQI, ridge 20", drawing.BLACK),
    "fqi-equal": Look("FQI, ridge as a fold's", drawing.GREY),
}
#: Methods with an aggregate in every target.
BACKED_UP = ("ma-fqi", "room-fqi", "p-room-fqi")
#: Methods with the features of the paper's text, which are slow and diverge.
WITH_TEXT_FEATURES = ("fqi-text", "room-fqi-text")
CLEAN_PLACE = 2.25  # position of the noise-free cell on the axis of degrees of freedom


def is_thorough(cell: Cell, settings: Settings) -> bool:
    """Return whether a cell also runs the expensive methods."""
    return cell["kappa"] == settings["kappas"][0] and cell["df"] in settings["thorough_dfs"]


def thorough(settings: Settings) -> list[Cell]:
    """Return the cells that run all methods."""
    return [cell for cell in grid(settings) if is_thorough(cell, settings)]


def run_opo(job: Job) -> list[Row]:
    """Return the value of what every learner learns from one log."""
    learners, folds = Learners(job), {"folds": job.settings["folds"]}
    for stopping in STOPPING:
        learners.fit("fqi", stopping)
        learners.fit("fqi-equal", stopping)
        split = learners.fit("room-vm", stopping, **folds)
        learners.again("ma", stopping, split, Mean())
        learners.again("p-room-vm", stopping, split, Quantile(0.1))
        learners.again("p-room-vm-released", stopping, split, Quantile(0.4))
        for name in BACKED_UP:
            learners.fit(name, stopping, **folds)
        if is_thorough(job.cell, job.settings) and job.replicate < job.settings["thorough"]:
            for name in THOROUGH:
                learners.fit(name, stopping, **(folds if name.startswith("pb") else {}))
            if job.replicate < job.settings["with_text_features"]:
                for name in WITH_TEXT_FEATURES:
                    learners.fit(name, stopping, **(folds if "room" in name else {}))
    learners.fit("room-fqi-at-once", "rule", **folds)
    return learners.rows()


def run_choose_q(job: Job) -> list[Row]:
    """Return the value of what every q learns from one log, and of what FQI learns."""
    learners, folds = Learners(job), job.settings["folds"]
    for stopping in STOPPING:
        for name in PLAIN:
            learners.fit(name, stopping)
        split = learners.fit("room-vm", stopping, folds=folds)
        for q in job.settings["levels"]:
            learners.again(f"p-room-vm/{q}", stopping, split, Quantile(q))
            learners.fit(
                "room-fqi",
                stopping,
                as_name=f"p-room-fqi/{q}",
                folds=folds,
                aggregate=Quantile(q),
            )
    rows = []
    for row in learners.rows():
        name, _, q = row["method"].partition("/")
        if name != "room-vm":
            rows.append({**row, "method": name, "q": float(q) if q else None})
    return rows


def regrets(results: Results, name: str, places: Sequence[Cell]) -> list[Summary]:
    """Return a method's mean regret in some cells."""
    return [REGRET.summary(results, method=name, **cell) for cell in places]


def draw_opo(results: Results) -> Figure:
    """Draw regret against df and without noise; a row for each way to end the iterations."""
    settings = results.settings
    kappas, dfs, some = settings["kappas"], settings["dfs"], thorough(settings)
    figure, axes = drawing.new_figure(
        len(STOPPING), len(kappas) + 1, width=11.6, height=7.4, sharey=True
    )
    looks = {**THOROUGH, "fqi": LOOKS["fqi"], "room-fqi": LOOKS["room-fqi"]}
    titles = []
    for row, stopping in zip(axes, STOPPING, strict=True):
        under = results.under(stopping)
        for axis, kappa in zip(row, kappas, strict=False):
            places = [*({"kappa": kappa, "df": df} for df in dfs), CLEAN]
            found = partial(regrets, under, places=places)
            drawing.curves(axis, [*dfs, CLEAN_PLACE], LOOKS, found, spread=0.008)
            axis.set_xticks([*dfs, CLEAN_PLACE], [*(f"{df:g}" for df in dfs), "no\nnoise"])
            titles.append(f"{SHORT[stopping]}, κ = {kappa:g}")
        ticks = [cell["df"] for cell in some]
        drawing.curves(row[-1], ticks, looks, partial(regrets, under, places=some))
        row[-1].set_xticks(ticks, [f"{df:g}" for df in ticks])
        titles.append(f"{SHORT[stopping]}, others, κ = {kappas[0]:g}")
    return drawing.finish(
        figure,
        axes,
        f"CartPole, {settings['episodes']} episodes × {settings['steps']} steps, K = "
        f"{settings['folds']}, {results.replicates} replicates, bars: 95 % bootstrap intervals. A "
        f"ridge of 20 is 1/400 an observation in a fold and 1/2000 in the whole log.",
        titles=titles,
        x="degrees of freedom of the noise",
        y=f"regret over 100 steps (best {settings['best_value']:.1f})",
    )


def draw_choose_q(results: Results) -> Figure:
    """Draw regret against q, a panel for each df, FQI as lines across."""
    settings = results.settings
    dfs, levels = settings["dfs"], settings["levels"]
    places = [(stopping, df) for stopping in STOPPING for df in dfs]
    figure, axes = drawing.new_figure(
        len(STOPPING), len(dfs), width=8.6, height=6.0, sharey=True, sharex=True
    )
    for axis, (stopping, df) in zip(axes.flat, places, strict=True):
        under = results.under(stopping)
        for name, look in PLAIN.items():
            plain = REGRET.summary(under, method=name, df=df)
            drawing.level(axis, plain, look, alpha=0.12)
        drawing.curves(axis, levels, PESSIMISTS, partial(at_q, under, df=df))
        axis.set_xticks(levels)
        axis.set_ylim(bottom=0)
    return drawing.finish(
        figure,
        axes,
        f"CartPole, {settings['episodes']} episodes, K = {settings['folds']}, "
        f"{results.replicates} replicates, bars and bands: 95 % bootstrap intervals.",
        titles=[f"{SHORT[stopping]}, df = {df:g}" for stopping, df in places],
        x=f"quantile q of the K critics, κ = {settings['kappas'][0]:g}",
        y=f"regret over 100 steps (best {settings['best_value']:.1f})",
    )


def at_q(results: Results, name: str, df: float) -> list[Summary]:
    """Return a method's regret at every q."""
    levels = results.settings["levels"]
    return [REGRET.summary(results, method=name, q=q, df=df) for q in levels]


def judge_opo(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 3b."""
    everywhere = partial(REGRET.claim, results, grid(results.settings))
    some = thorough(results.settings)
    return [
        _falls(results),
        _falls_more_slowly(results),
        _some(
            results,
            some,
            "PB improves over FQI",
            "regret of the text's PB (bootstrap, 2 std) against FQI: {}; of the released code's "
            "(out-of-bag, 1 std): {}; of the text's at an equal ridge: {}",
            ("pb", "fqi"),
            also=[("pb-released", "fqi"), ("pb-equal", "fqi-equal")],
        ),
        _some(
            results,
            some,
            "ROOM-VM and ROOM-FQI outperform PB",
            "ROOM-VM {0}, at an equal ridge {2}; ROOM-FQI {1}, at an equal ridge {3}",
            ("room-vm", "pb"),
            ("room-fqi", "pb"),
            also=[("room-vm", "pb-equal"), ("room-fqi", "pb-equal")],
        ),
        everywhere(
            "ROOM-FQI performs better than ROOM-VM",
            "ROOM-FQI against ROOM-VM {}",
            ("room-fqi", "room-vm"),
        ),
        everywhere(
            "The pessimistic variants perform better than ROOM-VM and ROOM-FQI",
            "P-ROOM-VM, q = 0.1 against ROOM-VM {}; P-ROOM-FQI, q = 0.1 against ROOM-FQI {}",
            ("p-room-vm", "room-vm"),
            ("p-room-fqi", "room-fqi"),
        ),
        everywhere(
            "ROOM-VM and ROOM-FQI outperform FQI",
            "ROOM-VM {0}; ROOM-FQI {1}; ROOM-FQI against FQI with the ridge of a fold {2}",
            ("room-vm", "fqi"),
            ("room-fqi", "fqi"),
            also=[("room-fqi", "fqi-equal")],
        ),
        everywhere(
            "Beyond the paper: at the ridge of a fold, the median in the backup is better than a mean",
            "ROOM-FQI against a mean in every target {}; against FQI {}",
            ("room-fqi", "ma-fqi"),
            ("room-fqi", "fqi-equal"),
        ),
        _some(
            results,
            some,
            "Beyond the paper: the regret measures what was learned from the rewards",
            "ROOM-FQI against FQI on rewards that are all one: {}; FQI on Huber-regressed rewards "
            "against ROOM-FQI: {}",
            ("room-fqi", "constant-reward-equal"),
            also=[("huber-reward-equal", "room-fqi")],
        ),
    ]


def _some(results: Results, cells: Sequence[Cell], *words: Any, **more: Any) -> Claim:
    """Judge by the replicates that also ran the slower methods."""
    return REGRET.claim(results.first(results.settings["thorough"]), cells, *words, **more)


def _falls(results: Results) -> Claim:
    dfs, checks, said = results.settings["dfs"], [], []
    for kappa in results.settings["kappas"]:
        first, last = regrets(
            results, "fqi", [{"kappa": kappa, "df": df} for df in (dfs[0], dfs[-1])]
        )
        checks.append(last.below(first))
        said.append(
            f"κ {kappa:g}: {first.value:.1f} at df {dfs[0]:g}, {last.value:.1f} at {dfs[-1]:g}"
        )
    clean = REGRET.summary(results, method="fqi", **CLEAN)
    return Claim(
        "FQI's regret falls as df grows",
        verdict(checks),
        "; ".join(said) + f"; {clean.value:.1f} without any noise",
    )


def _falls_more_slowly(results: Results) -> Claim:
    dfs, falls = results.settings["dfs"], []
    for kappa in results.settings["kappas"]:
        ends = [
            REGRET.values(results, method="fqi", kappa=kappa, df=df) for df in (dfs[0], dfs[-1])
        ]
        variance = sum(each.var(ddof=1) / len(each) for each in ends)
        falls.append((float(ends[0].mean() - ends[1].mean()), variance))
    (first, one), (last, two) = falls[0], falls[-1]
    half = 1.96 * float(np.sqrt(one + two))
    gap = Summary(first - last, first - last - half, first - last + half)
    return Claim(
        "FQI's regret falls more slowly where κ is larger",
        verdict([gap.above()] if len(falls) > 1 else []),
        f"from df {dfs[0]:g} to {dfs[-1]:g} it falls by {gap} more at the smaller κ",
    )


def judge_stopping(results: Results) -> list[Claim]:
    """Judge what the stopping rule and the order of the folds do."""
    settings = results.settings
    dfs, cells = settings["dfs"], grid(settings)
    checks: list[Check] = []
    said = []
    for name in ("fqi", "fqi-equal", "room-vm", "room-fqi"):
        for kappa in settings["kappas"]:
            places = [{"kappa": kappa, "df": df} for df in (dfs[0], dfs[-1])]
            counts = [iterations(results, name, cell) for cell in places]
            checks.append(counts[0].below(counts[1]))
            clean = iterations(results, name, CLEAN).value
            shown = ", ".join(f"{value:.0f}" for value in (*(c.value for c in counts), clean))
            said.append(f"{LOOKS[name].label}, κ {kappa:g}: {shown}")
    moved = {
        name: Tally(
            tuple(
                REGRET.compare(
                    results,
                    {"method": name, "stopping": "all", **cell},
                    {"method": name, "stopping": "rule", **cell},
                )
                for cell in (*cells, CLEAN)
            )
        )
        for name in ("fqi", "fqi-equal", "room-vm", "room-fqi", "p-room-fqi")
    }
    order = REGRET.tally(results.under("rule"), "room-fqi", "room-fqi-at-once", cells)
    return [
        Claim(
            "Beyond the paper: the heavier the noise, the earlier the rule stops",
            verdict(checks),
            f"iterations at df {dfs[0]:g}, {dfs[-1]:g} and without noise: {'; '.join(said)}",
        ),
        Claim(
            "Beyond the paper: 100 iterations learn better policies than the rule",
            verdict(check for each in moved.values() for check in each.checks),
            "; ".join(f"{LOOKS[name].label} {each}" for name, each in moved.items()),
        ),
        Claim(
            "Beyond the paper: refitting the folds in turn, as printed, is better than all at once",
            verdict(order.checks),
            f"ROOM-FQI in turn against at once, with the rule: {order}; "
            + ", ".join(
                f"{iterations(results, name, cells[0]).value:.0f}"
                for name in ("room-fqi", "room-fqi-at-once")
            )
            + f" iterations at df {dfs[0]:g}",
        ),
    ]


def iterations(results: Results, name: str, cell: Cell) -> Summary:
    """Return after how many iterations the rule stops a method, on average."""
    return summarise(results.values("iterations", method=name, stopping="rule", **cell))


def judge_choose_q(results: Results) -> list[Claim]:
    """Judge the claims of appendix A4.5 about the choice of q."""
    dfs, levels = results.settings["dfs"], results.settings["levels"]
    claims = []
    for plain, words in (("fqi", ""), ("fqi-equal", ", if FQI has the ridge of a fold")):
        found = {
            name: Tally(
                tuple(
                    REGRET.compare(
                        results, {"method": name, "q": q, "df": df}, {"method": plain, "df": df}
                    )
                    for df in dfs
                    for q in levels
                )
            )
            for name in PESSIMISTS
        }
        claims.append(
            Claim(
                f"Our methods surpass FQI whatever q{words}",
                verdict(check for each in found.values() for check in each.checks),
                "; ".join(f"{PESSIMISTS[name].label} {each}" for name, each in found.items()),
            )
        )
    checks: list[Check] = []
    said = []
    chosen_on, judged_on = results.halves()
    for name, look in PESSIMISTS.items():
        for df in dfs:
            seen = [each.value for each in at_q(chosen_on, name, df)]
            best = min(range(len(levels) - 1), key=seen.__getitem__)
            values = [each.value for each in at_q(judged_on, name, df)]
            one, two = ({"method": name, "q": q, "df": df} for q in (levels[best], levels[-1]))
            checks.append(REGRET.compare(judged_on, one, two).check)
            said.append(
                f"{look.label}, df {df:g}: {values[best]:.1f} at q = {levels[best]:g}, "
                f"{values[-1]:.1f} at {levels[-1]:g}"
            )
    return [
        *claims,
        Claim(
            "Some q in [0.1, 0.4] is better than the median",
            verdict(checks),
            "the q that is best on half of the logs, on the others: " + "; ".join(said),
        ),
    ]


OPO = Experiment(
    "opo",
    "figure 3b",
    "Which learners survive heavy-tailed rewards?",
    with_clean,
    run_opo,
    draw_opo,
    judge_opo,
    beside=judge_stopping,
    settings={
        **LEARNING,
        "dfs": (1.0, 1.19, 1.41, 1.68, 2.0),  # 2^0 to 2^1
        "kappas": (1.0, 2.0),
        "thorough_dfs": (1.0, 1.41, 2.0),
        "thorough": 10,  # replicates with the slower methods
        "with_text_features": 1,
    },
    quick={
        "dfs": (1.0, 2.0),
        "kappas": (1.0,),
        "thorough_dfs": (1.0, 2.0),
        "with_text_features": 1,
        "episodes": 40,
        "iterations": 30,
    },
)
CHOOSE_Q = Experiment(
    "choose-q",
    "figure A5",
    "How pessimistic?",
    grid,
    run_choose_q,
    draw_choose_q,
    judge_choose_q,
    settings={
        **LEARNING,
        "dfs": (1.0, 1.68),
        "kappas": (1.0,),
        "levels": (0.1, 0.2, 0.3, 0.4, 0.5),
    },
    quick={"dfs": (1.0,), "levels": (0.1, 0.5), "episodes": 40, "iterations": 30},
)
