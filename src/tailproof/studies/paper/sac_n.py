"""Figure A3: SAC-N against SAC-N (STD), without and with heavy-tailed noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.bases import SAC
from tailproof.deep.settings import TIME_CONSTANTS, Run
from tailproof.noise import StudentT, add_noise
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import evaluation, find, read
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Experiment, Job, Row, Settings, Verdict
from tailproof.studies.paper.implicit import LEARNED
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import mean, summarise, winner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "sac-n": Look("SAC-N (minimum)", drawing.BLUE, "o"),
    "sac-n-std": Look("SAC-N (STD), mean − 2 std", drawing.RED, "D", "--"),
}


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each data set and κ; both methods see the same log."""
    return [
        {"dataset": name, "kappa": kappa}
        for name in settings["datasets"]
        for kappa in settings["kappas"]
    ]


def run(job: Job) -> list[Row]:
    """Return the scores of both while they train; one that diverges has 0, a random policy's."""
    from tailproof.studies.paper.deep_rows import sac_study

    settings, steps = job.settings, job.settings["steps"]
    clean = read(job)
    kappa = job.cell["kappa"]
    noise = StudentT(df=settings["df"], kappa=kappa) if kappa else None
    log = clean if noise is None else add_noise(clean, noise, seed=job.integer(0))
    every = max(1, steps // settings["evaluations"])
    base = SAC(
        steps=steps,
        batch=settings["batch"],
        hidden=tuple(settings["hidden"]),
        learning_rate=settings["learning_rate"],
        target_rate=settings["target_rate"],
        run=Run(
            threads=1,
            log_every=every,
            checkpoint=job.scratch,
            progress=False,
            evaluation=evaluation(job, steps),
        ),
    )
    found = sac_study(log, base, seed=job.integer(1), critics=settings["critics"])
    nothing = [0.0] * settings["evaluations"]
    return [
        {
            "method": name,
            "step": every * (place + 1),
            "score": float(score),
            "q_scale": float(scale),
            "diverged": name in found["diverged"],
            "time_constants": found["time constants"].get(name),
        }
        for name in LOOKS
        for place, (score, scale) in enumerate(
            zip(
                found["evaluations"].get(name, nothing),
                found["q scale"].get(name, nothing),
                strict=True,
            )
        )
    ]


def draw(results: Results) -> Figure:
    """Draw scores over training, a row a data set, from no noise on the left to most on the right."""
    places = cells(results.settings)
    across = len(results.settings["kappas"])
    figure, axes = drawing.new_figure(
        len(places) // across,
        across,
        width=3.6 * across + 1,
        height=1.0 + 2.7 * len(places) / across,
    )
    for axis, cell in zip(axes.flat, places, strict=True):
        for name, look in LOOKS.items():
            steps = results.distinct("step", method=name, **cell)
            found = [
                summarise(results.values("score", method=name, step=step, **cell)) for step in steps
            ]
            drawing.curve(axis, steps, found, look)
        noise = f"κ = {cell['kappa']:g}, df = 1" if cell["kappa"] else "no noise"
        axis.set_title(f"{cell['dataset']}, {noise}")
        axis.set_xlabel("training steps")
        axis.set_ylabel("normalised score")
    drawing.legend(figure, axes[0, 0], where="outside upper center", columns=2)
    settings = results.settings
    origins = sorted({each["origin"] for each in settings["datasets"].values()})
    drawing.caption(
        figure,
        f"Data: {'; '.join(origins)}. Reduced budget: {settings['steps']:,} steps (paper: 1,000,000), "
        f"hidden {'×'.join(map(str, settings['hidden']))} (256×256×256),\nN = {settings['critics']}, "
        f"{results.replicates} seeds (5). Bars: 95 % intervals over seeds.",
    )
    return figure


def late(results: Results, name: str, cell: Cell) -> FloatArray:
    """Return the mean score over the second half of the evaluations, one a seed, (R,)."""
    steps = results.distinct("step", method=name, **cell)
    scores = [
        results.values("score", method=name, step=step, **cell) for step in steps[len(steps) // 2 :]
    ]
    return np.asarray(np.mean(scores, axis=0))


def judge(results: Results) -> list[Claim]:
    """Judge what appendix A4.3 says."""
    claims = []
    for cell in cells(results.settings):
        minimum, std = (late(results, name, cell) for name in LOOKS)
        words = ", ".join(
            f"{look.label} {summarise(each)}{_diverged(results, name, cell)}"
            for (name, look), each in zip(LOOKS.items(), (minimum, std), strict=True)
        )
        clock = results.values("time_constants", **cell)  # NaN of those that diverged
        brief = bool((clock < TIME_CONSTANTS * (1 - 1e-9)).any())
        if brief:
            words = (
                f"{words}: not trained long enough to judge ({np.nanmin(clock):.2g} time constants)"
            )
        elif neither_learns(minimum, std):
            words = f"{words}: neither learns anything"
        noise = f", κ {cell['kappa']:g}" if cell["kappa"] else ""
        claims.append(
            Claim(
                "With heavy-tailed noise SAC-N is robust and SAC-N (STD) fails completely"
                if cell["kappa"]
                else "Without noise SAC-N and SAC-N (STD) learn alike",
                "undecided" if brief else (robust if cell["kappa"] else alike)(minimum, std),
                f"{cell['dataset']}{noise}: late scores {words}",
            )
        )
    return claims


def neither_learns(minimum: FloatArray, std: FloatArray) -> bool:
    """Return whether both are no better than a random policy, so that nothing can be said of them."""
    return bool(max(minimum.mean(), std.mean()) < LEARNED)


def alike(minimum: FloatArray, std: FloatArray) -> Verdict:
    """Return whether two rules learn, and the same."""
    if len(minimum) < 2 or neither_learns(minimum, std):
        return "undecided"
    if abs(minimum.mean() - std.mean()) < LEARNED:
        return "holds"
    return "undecided" if winner(minimum, std, mean)[0] == "neither" else "does not hold"


def robust(minimum: FloatArray, std: FloatArray) -> Verdict:
    """Return whether the minimum learns where mean − 2 std does not."""
    if len(minimum) < 2 or neither_learns(minimum, std):
        return "undecided"
    ahead = winner(-minimum, -std, mean)[0] == "first"
    if std.mean() >= LEARNED:
        return "holds in part" if ahead else "does not hold"
    return "holds" if ahead else "undecided"


def _diverged(results: Results, name: str, cell: Cell) -> str:
    seeds = results.distinct("replicate", method=name, diverged=True, **cell)
    return f" ({len(seeds)} of {results.replicates} diverged and count as 0)" if seeds else ""


EXPERIMENT = Experiment(
    name="sac-n",
    shows="figure A3",
    title="Is the minimum of N critics robust, and mean − 2 std not?",
    settings={
        "wanted": ("pendulum-random", "pendulum-mixed", "hopper-medium-replay", "hopper-mixed"),
        "most_datasets": 4,
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
    quick={
        "most_datasets": 1,
        "most_episodes": 10,
        "critics": 3,
        "steps": 20,
        "hidden": (8,),
        "evaluations": 2,
        "evaluation_episodes": 1,
    },
    cells=cells,
    run=run,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
    find=find,
)
