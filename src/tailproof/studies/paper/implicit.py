"""What the SQL and IQL experiments share: policies from one stack of critics, and baselines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import TIME_CONSTANTS, Run
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import evaluation, read
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Job, Row, Settings
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import (
    Comparison,
    compare,
    mean,
    together,
    verdict_of,
    winner,
)

#: Scaled to three hours of two cores for SQL and IQL: the paper has 200,000 critic steps a fold,
#: 1,000,000 policy steps, two layers of 256, Adam at 3e-4, target rate 0.005, SQL's α = 10, 10 episodes
#: an evaluation and 5 seeds. The target rate follows the steps, so that critics converge all the same.
BUDGET: Settings = {
    "wanted": (
        "hopper-expert",
        "hopper-medium",
        "hopper-medium-replay",
        "hopper-mixed",
        "halfcheetah-expert",
        "halfcheetah-medium",
        "halfcheetah-medium-replay",
        "halfcheetah-mixed",
        "walker2d-expert",
        "walker2d-medium",
        "walker2d-medium-replay",
        "kitchen-complete",
        "kitchen-partial",
        "kitchen-mixed",
    ),
    "most_datasets": 14,
    "most_episodes": None,
    "kappas": (0.0, 0.1, 10.0, 100.0),  # the paper's is 100, which leaves almost no signal
    "df": 1.0,
    "folds": 5,
    "quantile": 0.0,
    "steps": 6_000,
    "policy_steps": 10_000,
    "hidden": (64, 64),
    "policy_hidden": (128, 128),
    "learning_rate": 1e-3,
    "target_rate": "auto",
    "share": 0.9,  # of so few steps' advantages, more is error than in longer training
    "evaluations": 2,
    "evaluation_episodes": 20,
}
#: A look at the machinery, which learns nothing.
TINY: Settings = {
    "most_datasets": 1,
    "most_episodes": 10,
    "kappas": (100.0,),
    "folds": 2,
    "steps": 20,
    "policy_steps": 20,
    "hidden": (8,),
    "policy_hidden": (8,),
    "evaluation_episodes": 1,
}
LEARNED = 10.0  # a normalised score that tells a policy from a random one
LOOKS = {
    "vanilla": Look("{base}", drawing.BLACK, "s"),
    "ma": Look("MA", drawing.GREY, "v"),
    "room-vm": Look("ROOM-VM", drawing.BLUE, "^"),
    "p-room-vm": Look("P-ROOM-VM, q = 0", drawing.RED, "D"),
    "zero-reward": Look("{base} on rewards of zero", drawing.YELLOW, "P"),
    "clipped": Look("{base}, 1 % clipped", drawing.ORANGE, "*"),
    "bc": Look("behaviour cloning", drawing.GREEN, "x"),
    "percent-sum": Look("cloning of the best 30 % by sum", drawing.PINK, "<"),
    "percent-median": Look("cloning of the best 30 % by median", drawing.SKY, ">"),
}


def label(name: str, base: str) -> str:
    """Return what a method is called where `base` is the algorithm."""
    return LOOKS[name].label.format(base=base)


def cells(settings: Settings) -> list[Cell]:
    """Return a cell for each data set and κ."""
    return [
        {"dataset": name, "kappa": kappa}
        for kappa in settings["kappas"]
        for name in settings["datasets"]
    ]


def run_implicit(job: Job, kind: type[IQL] | type[SQL], **weighing: Any) -> list[Row]:
    """Return a row for each policy and moment of its training."""
    from tailproof.studies.paper.deep_rows import implicit_study, prepared

    settings = job.settings
    log = prepared(read(job), kappa=job.cell["kappa"], df=settings["df"], seed=job.integer(0))
    steps = settings["policy_steps"]
    base = kind(
        steps=settings["steps"],
        policy_steps=steps,
        hidden=tuple(settings["hidden"]),
        policy_hidden=tuple(settings["policy_hidden"]),
        learning_rate=settings["learning_rate"],
        target_rate=settings["target_rate"],
        share=settings["share"],
        reward_scale=1.0,
        run=Run(
            threads=1,
            log_every=max(1, steps // settings["evaluations"]),
            checkpoint=job.scratch,
            progress=False,
            evaluation=evaluation(job, steps),
        ),
        **weighing,
    )
    found = implicit_study(
        log, base, seed=job.integer(1), folds=settings["folds"], quantile=settings["quantile"]
    )
    every = steps // settings["evaluations"]
    return [
        {
            "method": name,
            "step": every * (place + 1),
            "score": float(score),
            "time_constants": found["time constants"],
            "value": found["value"],
            "logged_return": found["logged return"],
        }
        for name, scores in found["evaluations"].items()
        for place, score in enumerate(scores)
    ]


def final_scores(results: Results, name: str, cell: Cell) -> FloatArray:
    """Return the mean score over the second half of the evaluations, one a seed, (R,)."""
    settings = results.settings
    every = settings["policy_steps"] // settings["evaluations"]
    late = [every * (i + 1) for i in range(settings["evaluations"] // 2, settings["evaluations"])]
    scores = [results.values("score", method=name, step=step, **cell) for step in late]
    return np.asarray(np.mean(scores, axis=0))


def final(results: Results) -> Results:
    """Return results with one row a method, cell and seed."""
    rows = [
        {**cell, "replicate": i, "method": name, "final": float(score)}
        for cell in cells(results.settings)
        for name in LOOKS
        for i, score in enumerate(final_scores(results, name, cell))
    ]
    return replace(results, rows=tuple(rows))


def versus(results: Results, first: str, second: str, places: list[Cell]) -> Comparison:
    """Compare final scores."""
    return compare(
        results, first, second, places, column="final", statistic=mean, higher_is_better=True
    )


def claim(
    results: Results, paper: str, pairs: dict[str, tuple[str, str]], places: list[Cell]
) -> Claim:
    """Judge that the first of each pair is better, with the seeds that would decide where none is."""
    found = {label: versus(results, *pair, places) for label, pair in pairs.items()}
    words = [
        f"{label}: {each}{seeds_to_decide(results, *pairs[label], places)}"
        for label, each in found.items()
    ]
    return Claim(paper, together(each.verdict for each in found.values()), "; ".join(words))


def seeds_to_decide(results: Results, first: str, second: str, places: list[Cell]) -> str:
    """Return how many seeds would tell the observed differences from zero, in words; else nothing.

    As many as bring two standard errors of the paired difference below its size, in the median of the
    cells in which these seeds do not.
    """
    needed = []
    for cell in places:
        one, two = (results.values("final", method=name, **cell) for name in (first, second))
        if winner(-one, -two, mean)[0] == "neither" and len(one) > 1:
            gap = one - two
            size = abs(float(gap.mean()))
            needed.append(math.inf if size == 0 else (2 * float(gap.std(ddof=1)) / size) ** 2)
    if not needed:
        return ""
    middle = float(np.median(needed))
    return f"; about {max(2, math.ceil(middle)):,} seeds would decide" if middle < 1e6 else ""


def converged(results: Results, base: str) -> Claim:
    """Judge whether the critics had the time that their values need."""
    clock = results.columns["time_constants"]
    clean = results.where(kappa=0.0) if 0.0 in results.settings["kappas"] else clock > 0
    ratio = results.columns["value"][clean] / results.columns["logged_return"][clean]
    low, high = np.nanmin(ratio), np.nanmax(ratio)
    return Claim(
        f"Beyond the paper: {base}'s critics are converged",
        verdict_of(int((clock >= TIME_CONSTANTS * (1 - 1e-9)).sum()), len(clock)),
        f"{clock.min():.2g} time constants or more; mean V is {low:.2f} to {high:.2f} of the logged "
        f"returns where there is no noise",
    )


def budget(results: Results, base: str) -> str:
    """Return what was run and what the paper ran, for the foot of a figure."""
    settings = results.settings
    origins = sorted({each["origin"] for each in settings["datasets"].values()})
    return (
        f"Data: {'; '.join(origins)}. Reduced budget: {base}, {settings['steps']:,} critic and "
        f"{settings['policy_steps']:,} policy steps (paper: 200,000 and 1,000,000),\n"
        f"critics {'×'.join(map(str, settings['hidden']))} and policies "
        f"{'×'.join(map(str, settings['policy_hidden']))} (256×256), {results.replicates} seeds (5), "
        f"policy weights worth at least {settings['share']:g} of the log (no such bound).\n"
        f"Noise t, df 1, times κ on rewards scaled to a return range of 1000 (the paper's κ: 100).\n"
        f"Bars: 95 % intervals over seeds. Scores: the last half of "
        f"{settings['evaluations']} evaluations of {settings['evaluation_episodes']} episodes."
    )
