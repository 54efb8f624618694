"""Figure A5: learning with pessimism from q = 0.1 to 0.5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailproof.ensemble.aggregate import Quantile
from tailproof.studies.paper import drawing
from tailproof.studies.paper.cartpole import grid, noisy_log
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Claim, Experiment, Job, Row
from tailproof.studies.paper.learners import LEARNING, Learners
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import Summary, mean, summarise, together, verdict_of, winner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "p-room-vm": Look("P-ROOM-VM", drawing.BLUE, "^"),
    "p-room-fqi": Look("P-ROOM-FQI", drawing.RED, "D"),
}
PLAIN = {
    "fqi": Look("FQI, ridge 20", drawing.BLACK),
    "fqi-equal": Look("FQI, ridge as a fold's", drawing.GREY),
}


def run(job: Job) -> list[Row]:
    """Return the regret of every q on one log, and of FQI."""
    learners = Learners(noisy_log(job), job)
    folds, levels = job.settings["folds"], job.settings["levels"]
    for name in PLAIN:
        learners.fit(name)
    split = learners.fit("room-vm", folds=folds)
    for q in levels:
        learners.again(f"p-room-vm/{q}", split, Quantile(q))
        learners.fit("room-fqi", as_name=f"p-room-fqi/{q}", folds=folds, aggregate=Quantile(q))
    rows = []
    for row in learners.rows():
        name, _, q = row["method"].partition("/")
        if name != "room-vm":
            rows.append({**row, "method": name, "q": float(q) if q else None})
    return rows


def draw(results: Results) -> Figure:
    """Draw regret against q, a panel for each df, FQI as lines across."""
    dfs, levels = results.settings["dfs"], results.settings["levels"]
    figure, axes = drawing.new_figure(1, len(dfs), width=8.6, height=3.5, sharey=True)
    for axis, df in zip(axes[0], dfs, strict=True):
        for name, look in PLAIN.items():
            flat = summarise(results.values("regret", method=name, df=df))
            axis.axhline(flat.value, color=look.color, linewidth=1.2, label=look.label)
            axis.axhspan(flat.low, flat.high, color=look.color, alpha=0.12, linewidth=0)
        for name, look in LOOKS.items():
            drawing.curve(axis, levels, [_summary(results, name, q, df) for q in levels], look)
        axis.set_xticks(levels)
        axis.set_ylim(bottom=0)
    kappa = results.settings["kappas"][0]
    drawing.label_axes(
        axes,
        {place: f"df = {df:g}, κ = {kappa:g}" for place, df in enumerate(dfs)},
        x="quantile q of the K critics",
        y=f"regret over 100 steps (best {results.settings['best_value']:.1f})",
    )
    drawing.legend(figure, axes[0, 0])
    drawing.caption(
        figure,
        f"CartPole, {results.settings['episodes']} episodes, K = {results.settings['folds']}, "
        f"{results.replicates} replicates, bars and bands: 95 % bootstrap intervals.",
    )
    return figure


def judge(results: Results) -> list[Claim]:
    """Judge what appendix A4.5 says about the choice of q."""
    dfs, levels = results.settings["dfs"], results.settings["levels"]
    claims = []
    for plain, words in (("fqi", ""), ("fqi-equal", ", if FQI has the ridge of a fold")):
        wins = {
            name: [_beats(results, name, q, plain, df) for df in dfs for q in levels]
            for name in LOOKS
        }
        total = len(dfs) * len(levels)
        claims.append(
            Claim(
                f"Our methods surpass FQI whatever q{words}",
                together(verdict_of(sum(each), total) for each in wins.values()),
                ", ".join(f"{LOOKS[n].label} in {sum(each)} of {total}" for n, each in wins.items())
                + " cells beyond doubt",
            )
        )
    best = {
        (name, df): min(levels, key=lambda q: _summary(results, name, q, df).value)
        for name in LOOKS
        for df in dfs
    }
    inside = [0.1 <= q <= 0.4 for q in best.values()]
    claims.append(
        Claim(
            "q in [0.1, 0.4] performs well",
            verdict_of(sum(inside), len(inside)),
            "lowest regret at "
            + ", ".join(
                f"q = {q:g} ({LOOKS[name].label}, df {df:g}: "
                f"{_summary(results, name, q, df).value:.1f}, "
                f"{_summary(results, name, levels[-1], df).value:.1f} at q = {levels[-1]:g})"
                for (name, df), q in best.items()
            ),
        )
    )
    return claims


def _summary(results: Results, name: str, q: float, df: float) -> Summary:
    return summarise(results.values("regret", method=name, q=q, df=df))


def _beats(results: Results, name: str, q: float, plain: str, df: float) -> bool:
    one = results.values("regret", method=name, q=q, df=df)
    other = results.values("regret", method=plain, df=df)
    return winner(one, other, mean)[0] == "first"


EXPERIMENT = Experiment(
    name="choose-q",
    shows="figure A5",
    title="How pessimistic?",
    settings={
        **LEARNING,
        "dfs": (1.0, 1.68),
        "kappas": (1.0,),
        "levels": (0.1, 0.2, 0.3, 0.4, 0.5),
    },
    quick={"dfs": (1.0,), "levels": (0.1, 0.5), "episodes": 40, "iterations": 30},
    cells=grid,
    run=run,
    draw=draw,
    judge=judge,
)
