"""Figure 1: a two-armed bandit whose worse arm was tried too rarely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.ensemble.aggregate import Quantile
from tailproof.noise import Gaussian, Noise, StudentT
from tailproof.studies.paper import drawing
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row, Settings
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import Summary, summarise, verdict_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "mean": Look("mean", drawing.BLACK, "s"),
    "mean-minus-std": Look("mean − 2 standard errors", drawing.ORANGE, "^"),
    "median-of-means": Look("median of K fold means", drawing.BLUE),
    "quantile": Look("q-quantile of K fold means", drawing.RED, "D"),
}
SITUATIONS = {
    "worse arm rare": "the rarely tried arm is the worse one",
    "better arm rare": "the rarely tried arm is the better one",
}


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each law of the noise, Gaussian last."""
    return [{"df": df} for df in settings["dfs"]]


def law(df: float) -> Noise:
    """Return the noise of a cell; df = 0 stands for Gaussian."""
    return StudentT(df=df) if df else Gaussian()


def run(job: Job) -> list[Row]:
    """Return how often each rule picks the worse arm, in a batch of bandits."""
    settings, rng = job.settings, job.rng()
    noise = law(job.cell["df"])
    arms = [
        scores(noise.sample((settings["bandits"], count), rng), settings)
        for count in (settings["often"], settings["rarely"])
    ]
    often, rarely = arms
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
    """Return what each rule says of an arm, from rewards (B, N), as arrays (B,)."""
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
    _arms(axes[0, 0], results)
    dfs = results.settings["dfs"]
    places = list(range(len(dfs)))
    for axis, (situation, title) in zip(axes[0, 1:], SITUATIONS.items(), strict=True):
        for shift, (name, look) in enumerate(LOOKS.items()):
            found = [_wrong(results, name, situation, df) for df in dfs]
            drawing.curve(axis, places, found, look, shift=0.05 * (shift - 1.5))
        axis.set_title(title)
        axis.set_xticks(places, [f"t {df:g}" if df else "Gaussian" for df in dfs])
        axis.set_xlabel("noise")
        axis.set_ylim(bottom=0)
    axes[0, 1].set_ylabel("probability of the worse arm")
    drawing.legend(figure, axes[0, 1])
    settings = results.settings
    drawing.caption(
        figure,
        f"Arms {settings['gap']:g} apart, tried {settings['often']} and {settings['rarely']} times; "
        f"K = {settings['folds']}, q = {settings['q']:g}; {results.replicates} × "
        f"{settings['bandits']} bandits; bars: 95 % intervals (right), 5–95 % of estimates (left).",
    )
    return figure


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
    """Judge what section 1 says about figure 1."""
    settings = results.settings
    light, heavy = settings["dfs"][-1], settings["dfs"][0]
    rare, better_rare = SITUATIONS
    plain = {df: _wrong(results, "mean", rare, df) for df in settings["dfs"]}
    pessimist = {df: _wrong(results, "quantile", rare, df) for df in settings["dfs"]}
    median = {df: _wrong(results, "median-of-means", rare, df) for df in settings["dfs"]}
    careful = {df: _wrong(results, "quantile", better_rare, df) for df in settings["dfs"]}
    careless = {df: _wrong(results, "mean", better_rare, df) for df in settings["dfs"]}
    right = [pessimist[df].high < plain[df].low for df in settings["dfs"]]
    wrong = [careful[df].low > careless[df].high for df in settings["dfs"]]
    return [
        Claim(
            "Where the worse arm was tried rarely, its mean exceeds the other's with a probability "
            "that is not negligible",
            "holds" if plain[light].low > 0.01 else "does not hold",
            f"{plain[light].value:.1%} under {law(light)} noise",
        ),
        Claim(
            "Heavy tails make that more likely",
            verdict_of(
                sum(plain[df].low > plain[light].high for df in settings["dfs"][:-1]),
                len(plain) - 1,
            ),
            ", ".join(f"{law(df)}: {each.value:.1%}" for df, each in plain.items()),
        ),
        Claim(
            "A pessimistic estimate leads to the better arm",
            verdict_of(sum(right), len(right)),
            f"quantile of folds errs with {pessimist[heavy].value:.1%} against "
            f"{plain[heavy].value:.1%} under {law(heavy)}, {pessimist[light].value:.1%} against "
            f"{plain[light].value:.1%} under {law(light)} noise; the median of folds with "
            f"{median[heavy].value:.1%} and {median[light].value:.1%}",
        ),
        Claim(
            "Beyond the paper: pessimism helps whichever arm is rare",
            "does not hold" if all(wrong) else verdict_of(len(wrong) - sum(wrong), len(wrong)),
            f"where the better arm is the rare one, the quantile errs with {careful[heavy].value:.1%} "
            f"against the mean's {careless[heavy].value:.1%} under {law(heavy)}, "
            f"{careful[light].value:.1%} against {careless[light].value:.1%} under {law(light)} noise",
        ),
    ]


def _wrong(results: Results, name: str, situation: str, df: float) -> Summary:
    return summarise(results.values("wrong", method=name, situation=situation, df=df))


EXPERIMENT = Experiment(
    name="bandit",
    shows="figure 1",
    title="When is the worse arm taken for the better one?",
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
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
)
