"""What the SQL and IQL experiments share: policies from one stack of critics, and baselines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import TIME_CONSTANTS, Run
from tailproof.studies.paper import drawing
from tailproof.studies.paper.datasets import evaluation, read
from tailproof.studies.paper.drawing import Look
from tailproof.studies.paper.experiment import Cell, Claim, Job, Row, Settings
from tailproof.studies.paper.results import Results
from tailproof.studies.paper.summary import (
    Comparison,
    Summary,
    compare,
    mean,
    summarise,
    together,
    verdict_of,
    winner,
)

#: Scaled to four hours of one core for SQL and IQL: the paper has 200,000 critic steps a fold,
#: 1,000,000 policy steps, two layers of 256, batches of 256, Adam at 3e-4, target rate 0.005, 10
#: episodes an evaluation, 5 seeds. The target rate follows the steps, so that critics converge.
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
    "steps": 5_000,
    "policy_steps": 8_000,
    "batch": 128,
    "hidden": (64, 64),
    "policy_hidden": (128, 128),
    "learning_rate": 1e-3,
    "target_rate": "auto",
    "unit": 30.0,  # rewards are divided by so many of the log's median size: values of order one
    "share": 0.9,  # of so few steps' advantages, more is error than in longer training
    "evaluations": 1,
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
    """Return a cell for each data set and κ, most noise first: it is the paper's."""
    return [
        {"dataset": name, "kappa": kappa}
        for kappa in sorted(settings["kappas"], reverse=True)
        for name in settings["datasets"]
    ]


def prepared_log(job: Job) -> tuple[Log, Log]:
    """Return the log of a cell without noise and with it."""
    from tailproof.studies.paper.deep_rows import prepared, to_return_range

    clean = to_return_range(read(job))
    kappa, df = job.cell["kappa"], job.settings["df"]
    return clean, prepared(clean, kappa=kappa, df=df, seed=job.integer(0))


def base_of(job: Job, kind: type[IQL] | type[SQL], clean: Log, **more: Any) -> IQL | SQL:
    """Return the base with a job's settings.

    SQL's α and IQL's β are the published ones in units of the median size of the rewards without
    noise, whatever the range of returns: where all episodes are alike, as an expert's, that range makes
    rewards so large that α falls below the errors of Q, and V runs away (`docs/deep.md`).
    """
    settings = job.settings
    unit = settings["unit"]
    weighing = (
        {"alpha": settings["alpha"] / unit} if kind is SQL else {"beta": settings["beta"] * unit}
    )
    same = ("steps", "batch", "learning_rate", "target_rate")
    return kind(
        **{name: settings[name] for name in same},
        hidden=tuple(settings["hidden"]),
        reward_scale=1 / (unit * float(np.median(np.abs(clean.rewards)))),
        **weighing,
        **more,
    )


def run_implicit(job: Job, kind: type[IQL] | type[SQL]) -> list[Row]:
    """Return a row for each policy: its score, or that its critics diverged."""
    from tailproof.studies.paper.deep_rows import implicit_study

    settings, (clean, log) = job.settings, prepared_log(job)
    played = evaluation(job, settings["policy_steps"])
    base = base_of(
        job,
        kind,
        clean,
        policy_steps=settings["policy_steps"],
        policy_hidden=tuple(settings["policy_hidden"]),
        share=settings["share"],
        run=Run(threads=1, checkpoint=job.scratch, progress=False, evaluation=played),
    )
    found = implicit_study(
        log, base, seed=job.integer(1), folds=settings["folds"], quantile=settings["quantile"]
    )
    return [
        {
            "method": name,
            "score": found["scores"].get(name),
            "diverged": name not in found["scores"],
            "worth": found["worth"].get(name),
            **{key.replace(" ", "_"): value for key, value in found["critics"].items()},
        }
        for name in LOOKS
    ]


def final_scores(results: Results, name: str, cell: Cell) -> FloatArray:
    """Return the score of each seed, (R,); what diverged has no policy and counts as 0."""
    return np.nan_to_num(results.values("score", method=name, **cell), nan=0.0)


def final(results: Results) -> Results:
    """Return results in which what diverged has a score too, as `final`."""
    rows = [{**row, "final": row["score"] or 0.0} for row in results.rows]
    return replace(results, rows=tuple(rows))


def diverged(results: Results, base: str) -> Claim:
    """Count the trainings that diverged."""
    counts = {
        label(name, base): int(results.values("diverged", method=name).sum()) for name in LOOKS
    }
    total = len(results.rows) // len(LOOKS)
    some = [f"{name} {count}" for name, count in counts.items() if count]
    return Claim(
        "Beyond the paper: no training diverges",
        verdict_of(sum(count == 0 for count in counts.values()), len(counts)),
        f"of {total} trainings a row, diverged and counted as a score of 0: "
        + (", ".join(some) if some else "none"),
    )


def versus(results: Results, first: str, second: str, places: list[Cell]) -> Comparison:
    """Compare final scores."""
    return compare(
        results, first, second, places, column="final", statistic=mean, higher_is_better=True
    )


def claim(
    results: Results, paper: str, pairs: dict[str, tuple[str, str]], places: list[Cell]
) -> Claim:
    """Judge that the first of each pair is better, with the seeds that would decide where none is.

    Where no cell decides, all of them together may, for or against.
    """
    verdicts, words = [], []
    for name, (first, second) in pairs.items():
        found = versus(results, first, second, places)
        pooled = over_cells(results, first, second, places)
        verdict = found.verdict
        if verdict == "undecided" and len(places) > 1 and not pooled.low <= 0 <= pooled.high:
            verdict = "holds in part" if pooled.low > 0 else "does not hold"
        verdicts.append(verdict)
        words.append(
            f"{name}: {found}, {pooled} over cells{seeds_to_decide(results, first, second, places)}"
        )
    return Claim(paper, together(verdicts), "; ".join(words))


def over_cells(results: Results, first: str, second: str, places: list[Cell]) -> Summary:
    """Return the mean difference of two rows over cells; the mean of a cell is one observation."""
    gaps = [
        results.values("final", method=first, **cell).mean()
        - results.values("final", method=second, **cell).mean()
        for cell in places
    ]
    return summarise(np.array(gaps))


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
    names = ("time_constants", "mean_value", "pessimism", "logged_return")
    clock, value, taken, logged = (
        results.columns.get(name, np.full(len(results.rows), np.nan)) for name in names
    )
    trained = np.isfinite(clock)
    clean = trained & results.where(kappa=min(results.settings["kappas"]))
    if not clean.any():
        return Claim(
            f"Beyond the paper: {base}'s critics are converged", "does not hold", "diverged"
        )
    plain, given_back = value[clean] / logged[clean], (value + taken)[clean] / logged[clean]
    return Claim(
        f"Beyond the paper: {base}'s critics are converged",
        verdict_of(int((clock[trained] >= TIME_CONSTANTS * (1 - 1e-9)).sum()), int(trained.sum())),
        f"{clock[trained].min():.2g} time constants or more; at the least noise mean V is "
        f"{plain.min():.2f} to {plain.max():.2f} of the logged returns, and {given_back.min():.2f} to "
        f"{given_back.max():.2f} with what the smaller of two Q takes",
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
        f"α and β are the published ones, in median sizes of a clean reward.\n"
        f"Noise t, df 1, times κ on rewards scaled to a return range of 1000 (the paper's κ: 100).\n"
        f"Bars: 95 % intervals over seeds. Scores: {settings['evaluation_episodes']} episodes each."
    )
