"""Figure A3: SAC-N against SAC-N (STD), without and with heavy-tailed noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reproduction import drawing
from reproduction.datasets import deep_experiment, evaluation, origins, read_data
from reproduction.drawing import Look
from reproduction.experiment import Cell, Claim, Job, Results, Row, Settings
from reproduction.implicit import LEARNED
from reproduction.summary import SCORE, Check, summarise, verdict
from tailproof.arrays import FloatArray
from tailproof.critics.task import Task
from tailproof.deep.bases import SAC
from tailproof.deep.settings import TIME_CONSTANTS, Run
from tailproof.errors import FoldError
from tailproof.log.folds import Replicate
from tailproof.noise import StudentT, add_noise
from tailproof.robust.aggregates import Aggregate, MeanMinusStd, Quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "sac-n": Look("SAC-N (minimum)", drawing.BLUE, "o"),
    "sac-n-std": Look("SAC-N (STD), mean − 2 std", drawing.RED, "D", "--"),
}
AGGREGATES: dict[str, Aggregate] = {"sac-n": Quantile(0.0), "sac-n-std": MeanMinusStd(2.0, ddof=1)}


def cells(settings: Settings) -> list[Cell]:
    """Return one cell per data set and κ; both methods use the same log."""
    return [
        {"dataset": name, "kappa": kappa}
        for name in settings["datasets"]
        for kappa in settings["kappas"]
    ]


def run(job: Job) -> list[Row]:
    """Return the scores of both during training; a diverged one has 0, a random policy's score."""
    settings, steps = job.settings, job.settings["steps"]
    log, kappa = read_data(job), job.cell["kappa"]
    if kappa:
        log = add_noise(log, StudentT(df=settings["df"], kappa=kappa), seed=job.integer(0))
    every = max(1, steps // settings["evaluations"])
    rows: list[Row] = []
    for name, aggregate in AGGREGATES.items():
        made = SAC.as_published if settings.get("as_published") else SAC
        base = made(
            **{name: settings[name] for name in ("batch", "learning_rate", "target_rate")},
            steps=steps,
            hidden=tuple(settings["hidden"]),
            run=Run(
                threads=1,
                log_every=every,
                checkpoint=job.scratch and job.scratch / name,
                progress=False,
                device=settings.get("device", "cpu"),
                evaluation=evaluation(job, log, steps),
            ),
        )
        rng = np.random.default_rng(job.integer(1))
        folds = Replicate(settings["critics"]).assign(log, rng)
        task = Task(log, 0.99, None, log.first_states)
        try:
            training = base.fit(task, folds, backup=aggregate, rng=rng).training
            scores, scales = training["score"].values[:, 0], training["q scale"].values.mean(axis=1)
            clock = training.convergence.time_constants
        except FoldError:
            scores = scales = np.zeros(settings["evaluations"])
            clock = None
        rows += [
            {
                "method": name,
                "step": every * (place + 1),
                "score": float(score),
                "q_scale": float(scale),
                "diverged": clock is None,
                "time_constants": clock,
            }
            for place, (score, scale) in enumerate(zip(scores, scales, strict=True))
        ]
    return rows


def draw(results: Results) -> Figure:
    """Draw scores over training, one row for each data set, with more noise to the right."""
    settings, places = results.settings, cells(results.settings)
    across = len(settings["kappas"])
    figure, axes = drawing.new_figure(
        len(places) // across,
        across,
        width=3.6 * across + 1,
        height=1.0 + 2.7 * len(places) / across,
    )
    titles = []
    for axis, cell in zip(axes.flat, places, strict=True):
        for name, look in LOOKS.items():
            steps = results.distinct("step", method=name, **cell)
            found = [SCORE.summary(results, method=name, step=step, **cell) for step in steps]
            drawing.curve(axis, steps, found, look)
        noise = f"κ = {cell['kappa']:g}, df = 1" if cell["kappa"] else "no noise"
        titles.append(f"{cell['dataset']}, {noise}")
        axis.set(xlabel="training steps", ylabel="normalised score")
    return drawing.finish(
        figure,
        axes,
        f"Data: {origins(settings)}. {settings['steps']:,} steps (released program: 3,000,000), "
        f"hidden {'×'.join(map(str, settings['hidden']))} (256×256×256),\nN = {settings['critics']}, "
        f"{results.replicates} seeds (5). Bars: 95 % intervals over seeds.",
        titles=titles,
        legend={"loc": "outside upper center", "ncols": 2},
    )


def late(results: Results, name: str, cell: Cell) -> FloatArray:
    """Return the mean score over the second half of the evaluations, one for each seed, (R,)."""
    steps = results.distinct("step", method=name, **cell)
    second_half = steps[len(steps) // 2 :]
    scores = [results.values("score", method=name, step=step, **cell) for step in second_half]
    return np.asarray(np.mean(scores, axis=0))


def judge(results: Results) -> list[Claim]:
    """Judge the claims of appendix A4.3, data set by data set."""
    claims = []
    for cell in cells(results.settings):
        minimum, std = (late(results, name, cell) for name in LOOKS)
        words = ", ".join(
            f"{look.label} {summarise(each)}{_diverged(results, name, cell)}"
            for (name, look), each in zip(LOOKS.items(), (minimum, std), strict=True)
        )
        clock = results.values("time_constants", **cell)  # NaN of those that diverged
        brief = bool((clock < TIME_CONSTANTS * (1 - 1e-9)).any())
        silent = max(minimum.mean(), std.mean()) < LEARNED
        if brief:
            words += f": not trained long enough to judge ({np.nanmin(clock):.2g} time constants)"
        elif silent:
            words += ": neither learns anything"
        noise = f", κ {cell['kappa']:g}" if cell["kappa"] else ""
        checks: list[Check] = [None] if brief or silent else _checks(minimum, std, bool(noise))
        claims.append(
            Claim(
                "With heavy-tailed noise SAC-N is robust and SAC-N (STD) fails completely"
                if noise
                else "Without noise SAC-N and SAC-N (STD) learn alike",
                verdict(checks),
                f"{cell['dataset']}{noise}: late scores {words}; difference "
                f"{summarise(minimum - std)}",
            )
        )
    return claims


def _checks(minimum: FloatArray, std: FloatArray, noisy: bool) -> list[Check]:
    """Return whether the minimum is ahead and mean − 2 std learns nothing; or both are alike."""
    gap = summarise(minimum - std)
    if not noisy:
        return [gap.within(-LEARNED, LEARNED)]
    learns = summarise(std).above(LEARNED)
    return [gap.above(), None if learns is None else not learns]


def _diverged(results: Results, name: str, cell: Cell) -> str:
    seeds = results.distinct("replicate", method=name, diverged=True, **cell)
    return f" ({len(seeds)} of {results.replicates} diverged and count as 0)" if seeds else ""


SAC_N = deep_experiment(
    "sac-n",
    "figure A3",
    "Is the minimum of N critics robust, and mean − 2 std not?",
    cells,
    run,
    draw,
    judge,
    settings={
        "wanted": (
            "halfcheetah-medium",  # the paper's
            "pendulum-random",
            "pendulum-mixed",
            "hopper-medium-replay",
            "hopper-mixed",
        ),
        "most_datasets": 5,
        "most_episodes": None,
        "kappas": (0.0, 1.0, 2.0),
        "df": 1.0,
        "critics": 10,
        "steps": 6_000,
        "batch": 128,
        "hidden": (64, 64),
        "learning_rate": 1e-3,
        "target_rate": "auto",
        "evaluations": 4,
        "evaluation_episodes": 20,
    },
    published={
        "wanted": ("halfcheetah-medium",),
        "kappas": (0.0, 2.0),
        "steps": 3_000_000,
        "batch": 256,
        "hidden": (256, 256, 256),
        "learning_rate": 3e-4,
        "target_rate": 0.005,
        "evaluations": 600,
        "evaluation_episodes": 10,
    },
    quick={
        "most_datasets": 1,
        "most_episodes": 10,
        "critics": 3,
        "steps": 20,
        "hidden": (8,),
        "evaluations": 2,
        "evaluation_episodes": 1,
    },
)
