"""Beyond the paper: cloning the best episodes, against cloning all and against ranking by sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reproduction import drawing
from reproduction.datasets import cells, deep_experiment, evaluation
from reproduction.drawing import Look
from reproduction.experiment import Claim, Job, Results, Row
from reproduction.implicit import prepared_log
from reproduction.summary import SCORE, verdict
from tailproof.critics.task import Task
from tailproof.deep.bases import BehaviourCloning
from tailproof.deep.settings import Run
from tailproof.learners.cloning import best_episodes
from tailproof.log.folds import Whole
from tailproof.worlds.environments import play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "bc": Look("cloning of all episodes", drawing.GREEN, "x"),
    "percent-sum": Look("best 30 % by sum", drawing.ORANGE, "s"),
    "percent-auto": Look("best 30 %, score chosen from the tails", drawing.RED, "D"),
}
#: Normalised scores that cloning the best 30 % should reach, by data set and κ.
ASKED = {
    ("hopper-mixed", 0.0): 100.0,
    ("halfcheetah-mixed", 0.0): 50.0,
    ("hopper-mixed", 10.0): 95.0,
}


def run(job: Job) -> list[Row]:
    """Return the score of each policy at the end of its training."""
    settings, (_, log) = job.settings, prepared_log(job)
    chosen = best_episodes(log, top=settings["top"], rank="auto").rank
    rows: list[Row] = []
    for name in ("percent-sum" if job.cell["kappa"] else "bc", "percent-auto"):
        rank = name.partition("-")[2] or "sum"
        base = BehaviourCloning(
            steps=settings["steps"],
            hidden=tuple(settings["hidden"]),
            top=1.0 if name == "bc" else settings["top"],
            rank=rank,  # type: ignore[arg-type]
            run=Run(threads=1, log_every=settings["steps"], progress=False),
        )
        task = Task(log, 0.99, None, log.first_states)
        rng = np.random.default_rng(job.integer(1))
        policy = base.fit(task, Whole().assign(log, rng), backup=None, rng=rng).policy
        assert policy is not None
        played = evaluation(job, log, settings["steps"])
        returns = play(
            played.environment, policy, episodes=played.episodes, seed=job.integer(2) % 2**31
        )
        assert played.score is not None
        scores = np.array([played.score(float(each)) for each in returns])
        error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
        rows.append(
            {
                "method": name,
                "rank": chosen if rank == "auto" else rank,
                "score": float(scores.mean()),
                "standard_error": float(error),
            }
        )
    return rows


def draw(results: Results) -> Figure:
    """Draw the scores of all seeds, a panel for each data set and κ."""
    settings, places = results.settings, cells(results.settings)
    figure, axes = drawing.new_figure(1, len(places), width=2.4 * len(places), sharey="row")
    for axis, cell in zip(axes[0], places, strict=True):
        for x, (name, look) in enumerate(LOOKS.items()):
            scores = results.values("score", method=name, **cell)
            height = scores.mean() if len(scores) else 0.0
            axis.bar(x, height, color=look.color, width=0.8, alpha=0.5, label=look.label)
            axis.plot([x] * len(scores), scores, ".", color="#444444", markersize=3)
        axis.set_xticks([])
    return drawing.finish(
        figure,
        axes,
        f"Rollouts of trained agents, not D4RL. {settings['steps']:,} steps, hidden "
        f"{'×'.join(map(str, settings['hidden']))}, {results.replicates} seeds (points), "
        f"{settings['evaluation_episodes']} episodes each.\nNoise t, df {settings['df']:g}, times κ on "
        f"rewards scaled to a return range of 1000.",
        titles=[f"{cell['dataset']}\nκ = {cell['kappa']:g}" for cell in places],
        y="normalised score",
        legend={"loc": "outside upper center", "ncols": 2},
    )


def judge(results: Results) -> list[Claim]:
    """Judge whether percent cloning reaches its targets, and compare the two rankings."""
    places = cells(results.settings)
    reached, said = [], []
    for cell in places:
        score = SCORE.summary(results, method="percent-auto", **cell)
        asked = ASKED.get((cell["dataset"], cell["kappa"]))
        against = "" if asked is None else f" (asked: {asked:g})"
        said.append(f"{cell['dataset']}, κ = {cell['kappa']:g}: {score}{against}")
        reached += [] if asked is None else [score.above(asked)]
    paper = (
        "Beyond the paper: cloning the best 30 %, ranked by what the tails call for, reaches the "
        "scores asked of it"
    )
    claims = [Claim(paper, verdict(reached), "; ".join(said))] if reached else []
    for noisy, text, other in (
        (False, "it is better than cloning all episodes", "bc"),
        (True, "under noise, its ranking is better than that by sums", "percent-sum"),
    ):
        some = [cell for cell in places if bool(cell["kappa"]) == noisy]
        few = results.settings.get("few", ())  # of one seed: shown, but they cannot decide
        found = "{}"
        for cell in (each for each in some if each["dataset"] in few):
            one, two = (
                SCORE.summary(results, method=each, **cell) for each in ("percent-auto", other)
            )
            found += f"; {cell['dataset']}, one seed: {one} and {two}"
        if some:
            paper, pair = f"Beyond the paper: {text}", ("percent-auto", other)
            judged = [cell for cell in some if cell["dataset"] not in few]
            claims.append(SCORE.claim(results, judged, paper, found, pair))
    return claims


PERCENT_CLONING = deep_experiment(
    "percent-cloning",
    "beyond the paper",
    "How good is cloning the best episodes?",
    cells,
    run,
    draw,
    judge,
    settings={
        "wanted": ("hopper-mixed", "halfcheetah-mixed"),
        "most_datasets": 2,
        "most_episodes": None,
        "kappas": (0.0, 10.0),
        "df": 1.0,
        "top": 0.3,
        "steps": 15_000,
        "hidden": (256, 256),
        "evaluations": 1,
        "evaluation_episodes": 20,
    },
    quick={
        "most_datasets": 1,
        "most_episodes": 10,
        "kappas": (10.0,),
        "steps": 20,
        "hidden": (8,),
        "evaluation_episodes": 2,
    },
)
