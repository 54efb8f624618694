"""Figure 3b: learning on CartPole, regret against the degrees of freedom, and what the ridge does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailproof.ensemble.aggregate import Mean, Quantile
from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import LEARNING_DFS, grid, noisy_log
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row, Settings
from tailproof.studies.paper.learners import LEARNING, Learners
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import (
    Comparison,
    Summary,
    compare,
    mean,
    summarise,
    together,
    verdict_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
CLEAN: Cell = {"kappa": 0.0, "df": 0.0}
ROOM = ("room-vm", "room-fqi")


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each κ and df, and one without noise."""
    return [*grid(settings), CLEAN]


def run(job: Job) -> list[Row]:
    """Return the regret of every learner on one log."""
    learners = Learners(noisy_log(job), job)
    learners.fit("fqi")
    learners.fit("fqi-equal")
    split = learners.fit("room-vm", folds=job.settings["folds"])
    learners.again("ma", split, Mean())
    learners.again("p-room-vm", split, Quantile(0.1))
    learners.again("p-room-vm-released", split, Quantile(0.4))
    learners.fit("room-fqi", folds=job.settings["folds"])
    learners.fit("p-room-fqi", folds=job.settings["folds"])
    if is_thorough(job.cell, job.settings):
        for name in THOROUGH:
            changes = {"folds": job.settings["folds"]} if name.startswith("pb") else {}
            learners.fit(name, **changes)
    return learners.rows()


def is_thorough(cell: Cell, settings: Settings) -> bool:
    """Return whether a cell has the costly methods too."""
    return cell["kappa"] == settings["kappas"][0] and cell["df"] in settings["thorough_dfs"]


def thorough(settings: Settings) -> list[Cell]:
    """Return the cells that have all methods."""
    return [cell for cell in grid(settings) if is_thorough(cell, settings)]


def draw(results: Results) -> Figure:
    """Draw regret against df, and without noise at the right end; PB in a panel of its own."""
    kappas = results.settings["kappas"]
    figure, axes = drawing.new_figure(1, len(kappas) + 1, width=11.6, height=4.0, sharey=True)
    for axis, kappa in zip(axes[0], kappas, strict=False):
        for place, name in enumerate(LOOKS):
            places = [{"kappa": kappa, "df": df} for df in results.settings["dfs"]]
            _curve(axis, results, name, [*places, CLEAN], LOOKS[name], 0.008 * (place - 3))
        axis.set_title(f"κ = {kappa:g}")
    last = axes[0, -1]
    for name, look in {**THOROUGH, "fqi": LOOKS["fqi"], "room-fqi": LOOKS["room-fqi"]}.items():
        _curve(last, results, name, thorough(results.settings), look, 0.0)
    last.set_title(f"PB and others, κ = {kappas[0]:g}")
    for axis in axes[0, :-1]:
        ticks = results.settings["dfs"]
        axis.set_xticks([*ticks, _place(CLEAN)], [*(f"{df:g}" for df in ticks), "no\nnoise"])
    ticks = results.settings["thorough_dfs"]
    last.set_xticks(ticks, [f"{df:g}" for df in ticks])
    for axis in axes[0]:
        axis.set_xlabel("degrees of freedom of the noise")
    axes[0, 0].set_ylabel(f"regret over 100 steps (best {results.settings['best_value']:.1f})")
    handles = {}
    for axis in axes[0]:
        handles.update(dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True)))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    settings = results.settings
    drawing.caption(
        figure,
        f"CartPole, {settings['episodes']} episodes × {settings['steps']} steps, K = "
        f"{settings['folds']}, {results.replicates} replicates, bars: 95 % bootstrap intervals. A "
        f"ridge of 20 is 1/400 an observation in a fold and 1/2000 in the whole log.",
    )
    return figure


def _place(cell: Cell) -> float:
    return float(cell["df"]) or 2.25


def _curve(
    axis: Axes, results: Results, name: str, places: Sequence[Cell], look: Look, shift: float
) -> None:
    found = [regret(results, name, cell) for cell in places]
    drawing.curve(axis, [_place(cell) for cell in places], found, look, shift=shift)


def regret(results: Results, name: str, cell: Cell) -> Summary:
    """Return the mean regret of a method in a cell."""
    return summarise(results.values("regret", method=name, **cell))


def versus(results: Results, first: str, second: str, cells_: Sequence[Cell]) -> Comparison:
    """Compare mean regrets."""
    return compare(results, first, second, cells_, column="regret", statistic=mean)


def judge(results: Results) -> list[Claim]:
    """Judge what section 5 says about figure 3b."""
    everywhere, some = grid(results.settings), thorough(results.settings)
    return [
        _falls(results),
        _pb(results, some),
        _better_than_pb(results, some),
        _pair(
            results, "ROOM-FQI performs better than ROOM-VM", (("room-fqi", "room-vm"),), everywhere
        ),
        _pair(
            results,
            "The pessimistic variants perform better than ROOM-VM and ROOM-FQI",
            (("p-room-vm", "room-vm"), ("p-room-fqi", "room-fqi")),
            everywhere,
        ),
        _ridge(results, everywhere),
        _rewards(results, some),
    ]


def _falls(results: Results) -> Claim:
    dfs, falls, said = results.settings["dfs"], [], []
    for kappa in results.settings["kappas"]:
        first, last = (
            regret(results, "fqi", {"kappa": kappa, "df": df}) for df in (dfs[0], dfs[-1])
        )
        falls.append(last.high < first.low)
        said.append(
            f"κ {kappa:g}: {first.value:.1f} at df {dfs[0]:g}, {last.value:.1f} at {dfs[-1]:g}"
        )
    return Claim(
        "FQI's regret falls as df grows, more slowly for a larger κ",
        verdict_of(sum(falls), len(falls)),
        "; ".join(said) + f"; {regret(results, 'fqi', CLEAN).value:.1f} without any noise",
    )


def _pb(results: Results, some: Sequence[Cell]) -> Claim:
    text, released = versus(results, "pb", "fqi", some), versus(results, "pb-released", "fqi", some)
    equal = versus(results, "pb-equal", "fqi-equal", some)
    return Claim(
        "PB improves over FQI",
        text.verdict,
        f"regret of the text's PB (bootstrap, 2 std) against FQI: {text}; of the released code's "
        f"(out-of-bag, 1 std): {released}; of the text's at an equal ridge: {equal}",
    )


def _better_than_pb(results: Results, some: Sequence[Cell]) -> Claim:
    found = {name: versus(results, name, "pb", some) for name in ROOM}
    equal = {name: versus(results, name, "pb-equal", some) for name in ROOM}
    return Claim(
        "ROOM-VM and ROOM-FQI outperform PB",
        together(each.verdict for each in found.values()),
        "; ".join(
            f"{LOOKS[name].label} {found[name]}, at an equal ridge {equal[name]}" for name in ROOM
        ),
    )


def _pair(
    results: Results, paper: str, pairs: Sequence[tuple[str, str]], everywhere: Sequence[Cell]
) -> Claim:
    found = [versus(results, first, second, everywhere) for first, second in pairs]
    return Claim(
        paper,
        together(each.verdict for each in found),
        "; ".join(
            f"{LOOKS[first].label} against {LOOKS[second].label} {each}"
            for (first, second), each in zip(pairs, found, strict=True)
        ),
    )


def _ridge(results: Results, everywhere: Sequence[Cell]) -> Claim:
    found = [versus(results, "room-fqi", name, everywhere) for name in ("fqi", "fqi-equal")]
    clean = {name: regret(results, name, CLEAN).value for name in ("fqi", "fqi-equal", "room-fqi")}
    # Heavy tails explain the gain only if it is there at an equal ridge and not without noise.
    explained = (
        found[1].verdict
        if clean["fqi"] < clean["room-fqi"] + 1
        else together([found[1].verdict, "does not hold"])
    )
    return Claim(
        "ROOM outperforms FQI because rewards are heavy-tailed",
        explained,
        f"without any noise FQI's regret is {clean['fqi']:.1f} and ROOM-FQI's {clean['room-fqi']:.1f}: "
        f"the ridge of 20 does it, FQI with a fold's ridge has {clean['fqi-equal']:.1f}. ROOM-FQI "
        f"against FQI {found[0]}; against FQI with an equal ridge {found[1]}",
    )


def _rewards(results: Results, some: Sequence[Cell]) -> Claim:
    found = versus(results, "room-fqi", "constant-reward-equal", some)
    huber = versus(results, "huber-reward-equal", "room-fqi", some)
    return Claim(
        "Beyond the paper: the regret measures what was learned from the rewards",
        found.verdict,
        f"ROOM-FQI against FQI on rewards that are all one: {found}; FQI on Huber-regressed rewards "
        f"against ROOM-FQI: {huber}",
    )


EXPERIMENT = Experiment(
    name="opo",
    shows="figure 3b",
    title="Which learners survive heavy-tailed rewards?",
    settings={
        **LEARNING,
        "dfs": LEARNING_DFS,
        "kappas": (1.0, 2.0),
        "thorough_dfs": (1.0, 1.41, 2.0),
    },
    quick={
        "dfs": (1.0, 2.0),
        "kappas": (1.0,),
        "thorough_dfs": (1.0, 2.0),
        "episodes": 40,
        "iterations": 30,
    },
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
)
