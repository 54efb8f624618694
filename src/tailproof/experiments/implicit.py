"""What the SQL and IQL experiments share: five policies from one stack of critics, and baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import Run
from tailproof.experiments import drawing
from tailproof.experiments.datasets import evaluation, read
from tailproof.experiments.drawing import Look
from tailproof.experiments.experiment import Cell, Job, Row, Settings
from tailproof.experiments.results import Results
from tailproof.experiments.summary import Comparison, compare, mean

#: Scaled to two cores: the paper has 200,000 critic steps a fold, 1,000,000 policy steps, two layers
#: of 256, Adam at 3e-4, target rate 0.005, SQL's α = 10, 10 episodes an evaluation and 5 seeds.
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
    "df": 1.0,
    "folds": 5,
    "quantile": 0.0,
    "steps": 6_000,
    "policy_steps": 8_000,
    "hidden": (64, 64),
    "learning_rate": 1e-3,
    "target_rate": 0.02,
    "share": 0.9,  # of so few steps' advantages, more is error than in longer training
    "evaluations": 5,
    "evaluation_episodes": 3,
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
    "evaluations": 2,
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
    from tailproof.deep.study import implicit_study, prepared

    settings = job.settings
    log = prepared(read(job), kappa=job.cell["kappa"], df=settings["df"], seed=job.integer(0))
    steps = settings["policy_steps"]
    base = kind(
        steps=settings["steps"],
        policy_steps=steps,
        hidden=tuple(settings["hidden"]),
        policy_hidden=tuple(settings["hidden"]),
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
    )["evaluations"]
    every = steps // settings["evaluations"]
    return [
        {"method": name, "step": every * (place + 1), "score": float(score)}
        for name, scores in found.items()
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


def budget(results: Results, base: str) -> str:
    """Return what was run and what the paper ran, for the foot of a figure."""
    settings = results.settings
    origins = sorted({each["origin"] for each in settings["datasets"].values()})
    return (
        f"Data: {'; '.join(origins)}. Reduced budget: {base}, {settings['steps']:,} critic and "
        f"{settings['policy_steps']:,} policy steps (paper: 200,000 and 1,000,000),\n"
        f"hidden {'×'.join(map(str, settings['hidden']))} (256×256), {results.replicates} seeds (5), "
        f"policy weights worth at least {settings['share']:g} of the log (no such bound).\n"
        f"Noise t, df 1, times κ on rewards scaled to a return range of 1000 (the paper's κ: 100).\n"
        f"Bars: 95 % intervals over seeds. Scores: mean of the last half of "
        f"{settings['evaluations']} evaluations of {settings['evaluation_episodes']} episodes."
    )
