"""Figure 1: a two-armed bandit with few samples of the worse arm."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reproduction import drawing
from reproduction.drawing import Look
from reproduction.experiment import (
    Cell,
    Claim,
    Experiment,
    Job,
    Results,
    Row,
    Settings,
)
from reproduction.summary import Measure, Summary, verdict
from tailproof.arrays import FloatArray
from tailproof.noise import Gaussian, Noise, StudentT
from tailproof.robust.aggregates import Quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "mean": Look("mean", drawing.BLACK, "s"),
    "mean-minus-std": Look("mean − 2 standard errors", drawing.ORANGE, "^"),
    "median-of-means": Look("median of K fold means", drawing.BLUE),
    "quantile": Look("q-quantile of K fold means", drawing.RED, "D"),
}
WRONG = Measure("wrong")
SITUATIONS = {
    "worse arm rare": "the rarely tried arm is the worse one",
    "better arm rare": "the rarely tried arm is the better one",
}


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each law of the noise, Gaussian last."""
    return [{"df": df} for df in settings["dfs"]]


def law(df: float) -> Noise:
    """Return the noise of a cell; df = 0 means Gaussian."""
    return StudentT(df=df) if df else Gaussian()


def run(job: Job) -> list[Row]:
    """Return how often each rule picks the worse arm, in a batch of bandits."""
    settings, rng = job.settings, job.rng()
    noise = law(job.cell["df"])
    often, rarely = (
        scores(noise.sample((settings["bandits"], count), rng), settings)
        for count in (settings["often"], settings["rarely"])
    )
    rows = []
    for name in LOOKS:
        for situation, ahead in (("worse arm rare", 1.0), ("better arm rare", -1.0)):
            # `ahead` of the often tried arm; the noise is the same in both situations.
            chosen_rarely = rarely[name] > often[name] + ahead * settings["gap"]
            wrong = chosen_rarely if ahead > 0 else ~chosen_rarely
            rows.append({"method": name, "situation": situation, "wrong": float(wrong.mean())})
        for arm, found in (("often", often[name]), ("rarely", rarely[name])):
            low, middle, high = np.quantile(found, [0.05, 0.5, 0.95]).tolist()
            rows.append({"method": name, "arm": arm, "q05": low, "q50": middle, "q95": high})
    return rows


def scores(rewards: FloatArray, settings: Settings) -> dict[str, FloatArray]:
    """Return each rule's estimate of an arm from rewards (B, N), (B,)."""
    count = rewards.shape[1]
    folds = np.stack(
        [part.mean(axis=1) for part in np.array_split(rewards, settings["folds"], axis=1)]
    )
    error = rewards.std(axis=1, ddof=1) / np.sqrt(count)
    return {
        "mean": rewards.mean(axis=1),
        "mean-minus-std": rewards.mean(axis=1) - 2 * error,
        "median-of-means": np.median(folds, axis=0),
        "quantile": Quantile(settings["q"])(folds),
    }


def draw(results: Results) -> Figure:
    """Draw the estimates of both arms, and how often each rule errs under each law."""
    figure, axes = drawing.new_figure(1, 3, width=11, height=3.5)
    settings = results.settings
    dfs = settings["dfs"]
    _arms(axes[0, 0], results)
    for axis, situation in zip(axes[0, 1:], SITUATIONS, strict=True):
        found = partial(errs, results, situation=situation)
        drawing.curves(axis, range(len(dfs)), LOOKS, found, spread=0.05)
        axis.set_xticks(range(len(dfs)), [f"t {df:g}" if df else "Gaussian" for df in dfs])
        axis.set_xlabel("noise")
        axis.set_ylim(bottom=0)
    axes[0, 1].set_ylabel("probability of the worse arm")
    return drawing.finish(
        figure,
        axes,
        f"Arms {settings['gap']:g} apart, tried {settings['often']} and {settings['rarely']} times; "
        f"K = {settings['folds']}, q = {settings['q']:g}; {results.replicates} × "
        f"{settings['bandits']} bandits; bars: 95 % intervals (right), 5–95 % of estimates (left).",
        titles=(axes[0, 0].get_title(), *SITUATIONS.values()),
    )


def errs(results: Results, name: str, situation: str) -> list[Summary]:
    """Return how often a rule picks the worse arm under each law."""
    dfs = results.settings["dfs"]
    return [WRONG.summary(results, method=name, situation=situation, df=df) for df in dfs]


def _arms(axis: Axes, results: Results) -> None:
    df = results.settings["dfs"][len(results.settings["dfs"]) // 2]
    offsets = {"often": results.settings["gap"], "rarely": 0.0}
    for place, (name, look) in enumerate(LOOKS.items()):
        for arm, offset in offsets.items():
            low, middle, high = (
                float(results.values(column, method=name, arm=arm, df=df).mean()) + offset
                for column in ("q05", "q50", "q95")
            )
            height = place + (0.15 if arm == "often" else -0.15)
            filled = look.color if arm == "often" else "white"
            axis.plot([low, high], [height, height], color=look.color, linewidth=1.4)
            axis.plot(middle, height, marker="o", color=look.color, markerfacecolor=filled)
    for offset in offsets.values():
        axis.axvline(offset, color=drawing.GREY, linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(LOOKS)), [name.replace("-", "\n", 1) for name in LOOKS])
    axis.set_xlabel("what the rule says of an arm")
    axis.set_title(f"● better arm, tried often   ○ worse, rarely\n{law(df)}")


def judge(results: Results) -> list[Claim]:
    """Judge the claims of section 1 about figure 1: heavy tails first, Gaussian noise last."""
    dfs = results.settings["dfs"]
    rare, better_rare = SITUATIONS
    plain, pessimist, median = (
        errs(results, name, rare) for name in ("mean", "quantile", "median-of-means")
    )
    careful, careless = (errs(results, name, better_rare) for name in ("quantile", "mean"))
    heavy, light = law(dfs[0]), law(dfs[-1])
    right = [one.below(other) for one, other in zip(pessimist, plain, strict=True)]
    either = right + [one.below(other) for one, other in zip(careful, careless, strict=True)]
    return [
        Claim(
            "Where the worse arm was tried rarely, its mean exceeds the other's with a probability "
            "that is not negligible",
            verdict([plain[-1].above(0.01)]),
            f"{plain[-1].value:.1%} under {light} noise",
        ),
        Claim(
            "Heavy tails make that more likely",
            verdict(plain[-1].below(heavier) for heavier in plain[:-1]),
            ", ".join(f"{law(df)}: {each.value:.1%}" for df, each in zip(dfs, plain, strict=True)),
        ),
        Claim(
            "A pessimistic estimate leads to the better arm",
            verdict(right),
            f"quantile of folds errs with {pessimist[0].value:.1%} against "
            f"{plain[0].value:.1%} under {heavy}, {pessimist[-1].value:.1%} against "
            f"{plain[-1].value:.1%} under {light} noise; the median of folds with "
            f"{median[0].value:.1%} and {median[-1].value:.1%}",
        ),
        Claim(
            "Beyond the paper: pessimism helps whichever arm is rare",
            verdict(either),
            f"where the better arm is the rare one, the quantile errs with {careful[0].value:.1%} "
            f"against the mean's {careless[0].value:.1%} under {heavy}, "
            f"{careful[-1].value:.1%} against {careless[-1].value:.1%} under {light} noise",
        ),
    ]


BANDIT = Experiment(
    "bandit",
    "figure 1",
    "When is the worse arm taken for the better one?",
    cells,
    run,
    draw,
    judge,
    settings={
        "dfs": (1.0, 1.2, 1.5, 2.5, 0.0),
        "gap": 0.5,
        "often": 100,
        "rarely": 10,
        "folds": 5,
        "q": 0.1,
        "bandits": 500,
    },
    quick={"dfs": (1.0, 1.5, 0.0), "bandits": 100},
)
