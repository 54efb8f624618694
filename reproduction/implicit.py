"""Figures 5, A1 and A2 and table A3: SQL, IQL and their ROOM rows on continuous control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction import drawing
from reproduction.datasets import (
    BUDGET,
    LAST,
    PUBLISHED,
    TINY,
    cells,
    deep_experiment,
    evaluation,
    origins,
    read_data,
)
from reproduction.drawing import Look
from reproduction.experiment import Cell, Claim, Job, Results, Row, canonical
from reproduction.summary import SCORE, Summary, summarise, verdict
from tailproof.arrays import FloatArray
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.settings import TIME_CONSTANTS, Run
from tailproof.log.log import Log
from tailproof.noise import StudentT, add_noise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The paper's table of IQL, ROOM-VM and P-ROOM-VM.
PAPER = {
    "halfcheetah-expert": (1.04, 1.03),
    "walker2d-expert": (1.02, 1.02),
    "hopper-expert": (1.89, 2.14),
    "halfcheetah-medium": (0.99, 0.98),
    "walker2d-medium": (1.31, 1.40),
    "hopper-medium": (1.32, 1.28),
    "halfcheetah-medium-replay": (1.04, 1.02),
    "walker2d-medium-replay": (1.56, 0.95),
    "hopper-medium-replay": (1.15, 1.20),
}
ROOMS = ("room-vm", "p-room-vm")
HEAVY = 10.0  # κ from which noise hides most of the rewards
LEARNED = 10.0  # normalised score above which a policy is better than random
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
    "published": Look("{plain} as published", drawing.BLACK, "o"),
    "ma-published": Look("MA as published", drawing.GREY, "o"),
    "room-vm-published": Look("ROOM-VM as published", drawing.BLUE, "o"),
    "p-room-vm-published": Look("P-ROOM-VM as published", drawing.RED, "o"),
}
#: Rows of the published base at the budget of the others, by the rows that they correspond to.
AS_PUBLISHED = {
    "vanilla": "published",
    **{name: f"{name}-published" for name in ("ma", "room-vm", "p-room-vm")},
}


def label(name: str, base: str) -> str:
    """Return the name of a method with this `base`."""
    return LOOKS[name].label.format(base=base, plain=base.partition(",")[0])


def present(results: Results, **cell: Any) -> dict[str, Look]:
    """Return the methods that ran, or that ran in a cell."""
    return {name: look for name, look in LOOKS.items() if results.where(method=name, **cell).any()}


def prepared_log(job: Job) -> tuple[Log, Log]:
    """Return the log of a cell without and with noise."""
    from reproduction.deep_rows import to_return_range

    clean = read_data(job)
    if not job.cell["dataset"].startswith("kitchen"):  # rewards of 0 and 1, which the paper leaves
        clean = to_return_range(clean)
    kappa, df = job.cell["kappa"], job.settings["df"]
    if not kappa:
        return clean, clean
    return clean, add_noise(clean, StudentT(df=df, kappa=kappa), seed=job.integer(0))


def base_of(job: Job, kind: type[IQL] | type[SQL], clean: Log, **more: Any) -> IQL | SQL:
    """Return the base with a job's settings.

    SQL's α and IQL's β are the published ones, in units of the median absolute noise-free reward, not
    of the range of returns: if all episodes have similar returns, as an expert's, scaling by that range
    makes rewards so large that α is below the errors of Q, and V diverges (`docs/deep.md`).
    """
    settings = job.settings
    same = ("steps", "batch", "learning_rate", "target_rate")
    known = {**{name: settings[name] for name in same}, "hidden": tuple(settings["hidden"]), **more}
    if settings.get("as_published"):
        own = {
            each: settings[each] for each in ("alpha", "beta", "cosine_over") if each in settings
        }
        return kind.as_published(**{**known, **own})
    unit = settings["unit"]
    weighing = (
        {"alpha": settings["alpha"] / unit} if kind is SQL else {"beta": settings["beta"] * unit}
    )
    typical = float(np.median(np.abs(clean.rewards))) or 1.0  # most of the kitchen's are 0
    return kind(**known, reward_scale=1 / (unit * typical), **weighing)


def run(job: Job, kind: type[IQL] | type[SQL]) -> list[Row]:
    """Return a row for each policy: its score, or that its critics diverged."""
    from reproduction.deep_rows import implicit_study

    settings, baselines = job.settings, job.settings.get("baselines", True)
    if not baselines:  # the noise and the seeds of the study whose rows these stand beside
        job = replace(job, experiment="d4rl-sql" if kind is SQL else "iql-table")
    clean, log = prepared_log(job)
    played = evaluation(job, log, settings["policy_steps"])
    base = base_of(
        job,
        kind,
        clean,
        policy_steps=settings["policy_steps"],
        policy_hidden=tuple(settings["policy_hidden"]),
        share=settings["share"],
        run=Run(
            threads=1,
            device=settings.get("device", "cpu"),
            checkpoint=job.scratch,
            progress=False,
            evaluation=played,
        ),
    )
    found = implicit_study(
        log,
        base,
        seed=job.integer(1),
        folds=settings["folds"],
        quantile=settings["quantile"],
        baselines=baselines,
    )
    names = {name: name for name in LOOKS if name not in AS_PUBLISHED.values()}
    names, curves = names if baselines else AS_PUBLISHED, found["scores"]
    rows: list[Row] = [
        {
            "method": shown,
            "score": float(np.mean(curves[name][-LAST:])) if name in curves else None,
            "diverged": name not in curves,
            "worth": found["worth"].get(name),
            **{key.replace(" ", "_"): value for key, value in found["critics"].items()},
        }
        for name, shown in names.items()
    ]
    if settings["evaluations"] > 1:
        rows += [
            {"method": names[name], "step": played.every * (place + 1), "score": score}
            for name, curve in curves.items()
            for place, score in enumerate(curve)
        ]
    return rows


def at_end(results: Results) -> Results:
    """Return the rows of the final scores: those that are no evaluation along the way."""
    rows = tuple(row for row in results.rows if row.get("step") is None)
    return replace(results, rows=rows)


def base_name(results: Results) -> str:
    """Return the base, and by which bound of `share` it departs from the published one."""
    share = results.settings["share"]
    base = "SQL" if "alpha" in results.settings else "IQL"
    return f"{base}, share {share:g}" if share else base


def draw_sql(results: Results) -> Figure:
    """Draw one panel for each data set and κ: scores along the training, or bars of the last ones."""
    kappas, names = results.settings["kappas"], list(results.settings["datasets"])
    places = [{"dataset": name, "kappa": kappa} for kappa in kappas for name in names]
    figure, axes = drawing.new_figure(
        len(kappas),
        len(names),
        width=max(9.0, 2.4 * len(names)),
        height=1.4 + 2.1 * len(kappas),
        sharey="row",
    )
    base, along = base_name(results), results.settings["evaluations"] > 1
    for axis, cell in zip(axes.flat, places, strict=True):
        methods = present(results, **cell)
        looks = [replace(look, label=label(name, base)) for name, look in methods.items()]
        for x, (method, look) in enumerate(zip(methods, looks, strict=True)):
            chosen = {"method": method, **cell}
            if along:
                steps = [step for step in results.distinct("step", **chosen) if step == step]
                found = [SCORE.summary(results, step=step, **chosen) for step in steps]
                drawing.curve(axis, steps, found, look)
                continue
            score = SCORE.summary(results, **chosen)
            shown = {"color": look.color, "width": 0.8, "label": look.label}
            shown |= {"alpha": 0.5} if method in AS_PUBLISHED.values() else {}
            axis.bar(
                x, score.value, **shown, yerr=drawing.bars([score]), capsize=2, ecolor="#444444"
            )
        if not along:
            axis.set_xticks([])
    seeds = results.settings.get("seeds")
    paler = "" if seeds is None else f"\nPaler: as published, with seeds: {seeds}."
    return drawing.finish(
        figure,
        axes,
        budget(results, base) + paler,
        titles=[f"{cell['dataset']}\nκ = {cell['kappa']:g}" for cell in places],
        x="steps of the policy" if along else "",
        y="normalised score",
        legend={"loc": "outside upper center", "ncols": len(present(results)) // 2 + 1},
    )


def ratios(results: Results, name: str, cell: Cell) -> Summary | None:
    """Return the mean of 1 + (score − IQL's score of the same seed) / IQL's mean score.

    It is the ratio of mean scores, which is robust to single seeds in which IQL scores about zero. None
    if IQL's mean is no better than a random policy's.
    """
    score, base = (SCORE.values(results, method=each, **cell) for each in (name, "vanilla"))
    return summarise(1 + (score - base) / base.mean()) if base.mean() >= LEARNED else None


def draw_iql(results: Results) -> Figure:
    """Draw scores as multiples of IQL's, beside the paper's."""
    results = at_end(results)
    places = [cell for cell in cells(results.settings) if "vanilla" in present(results, **cell)]
    figure, axes = drawing.new_figure(width=8.6, height=1.6 + 0.55 * len(places))
    axis, shown = axes[0, 0], [1.0]
    for column, (name, offset) in enumerate(zip(ROOMS, (0.12, -0.12), strict=True)):
        look = LOOKS[name]
        mark = {"marker": look.marker, "color": look.color, "linestyle": ""}
        for row, cell in enumerate(places):
            found = ratios(results, name, cell)
            if found is None:
                axis.text(1.05, row + offset, "IQL scores about nothing", va="center", fontsize=7)
            else:
                axis.hlines(row + offset, found.low, found.high, color=look.color, linewidth=1.2)
                shown.append(found.value)
                axis.plot(found.value, row + offset, **mark)
            if cell["dataset"] in PAPER:
                shown.append(PAPER[cell["dataset"]][column])
                axis.plot(shown[-1], row + offset, markerfacecolor="none", **mark)
        axis.plot([], [], label=f"{look.label}, here", **mark)
        axis.plot([], [], label=f"{look.label}, the paper", markerfacecolor="none", **mark)
    axis.axvline(1, color=drawing.GREY, linewidth=0.9)
    # The points set the axis limits, because intervals of three seeds may be very wide.
    axis.set_xlim(min(shown) - 0.5, max(shown) + 0.5)
    names = [f"{cell['dataset']}, κ {cell['kappa']:g}" for cell in places]
    axis.set_yticks(range(len(places)), names)
    foot = f"{budget(results, base_name(results))} Intervals may go on beyond the picture's edge."
    return drawing.finish(figure, axes, foot, x="score as a multiple of IQL's")


def judge_sql(results: Results) -> list[Claim]:
    """Judge the claims of section 5 about figure 5, and compare the baselines."""
    results = at_end(results)
    judged = partial(claim, results)
    return [
        judged(
            "ROOM-VM and P-ROOM-VM are superior to SQL in all cases",
            {"ROOM-VM": ("room-vm", "vanilla"), "P-ROOM-VM": ("p-room-vm", "vanilla")},
        ),
        judged(
            "They are superior to MA: the mean ensemble cannot handle heavy tails",
            {"ROOM-VM": ("room-vm", "ma"), "P-ROOM-VM": ("p-room-vm", "ma")},
        ),
        judged(
            "P-ROOM-VM surpasses ROOM-VM in almost all cases",
            {"P-ROOM-VM against ROOM-VM": ("p-room-vm", "room-vm")},
        ),
        judged(
            "Beyond the paper: the scores show what is learned from the rewards",
            {
                "SQL against SQL on rewards of zero": ("vanilla", "zero-reward"),
                "ROOM-VM against SQL on rewards of zero": ("room-vm", "zero-reward"),
                "ROOM-VM against behaviour cloning": ("room-vm", "bc"),
            },
        ),
        judged(
            "Beyond the paper: ROOM-VM beats cloning of the best episodes, ranked by medians",
            {
                "ROOM-VM": ("room-vm", "percent-median"),
                "SQL": ("vanilla", "percent-median"),
            },
        ),
        *share_claim(results, "SQL"),
        converged(results, "SQL"),
        diverged(results, "SQL"),
    ]


def judge_iql(results: Results) -> list[Claim]:
    """Judge the claims of appendix A4.2."""
    results = at_end(results)
    judged = partial(claim, results)
    return [
        judged(
            "In almost all cases ROOM-VM and P-ROOM-VM are significantly superior to IQL",
            {LOOKS[name].label: (name, "vanilla") for name in ROOMS},
        ),
        judged(
            "Beyond the paper: IQL's scores rest on the rewards",
            {"IQL against IQL on rewards of zero": ("vanilla", "zero-reward")},
        ),
        judged(
            "Beyond the paper: IQL and ROOM-VM beat cloning of the best episodes, ranked by medians",
            {"IQL": ("vanilla", "percent-median"), "ROOM-VM": ("room-vm", "percent-median")},
        ),
        *share_claim(results, "IQL"),
        converged(results, "IQL"),
        diverged(results, "IQL"),
    ]


def share_claim(results: Results, base: str) -> list[Claim]:
    """Judge what the share does, where the base ran as published too."""
    if "published" not in present(results):
        return []
    paper = f"Beyond the paper: at this budget {base} as in this study is better than as published"
    return [claim(results, paper, {base: ("vanilla", "published")})]


def judge_published(results: Results, base: str) -> list[Claim]:
    """Judge the paper's comparisons among the rows as published."""
    results = at_end(results)
    rooms = {name: f"{name}-published" for name in ROOMS}
    pairs = {
        f"As published, ROOM-VM and P-ROOM-VM are superior to {base}": "published",
        "As published, they are superior to MA: the mean ensemble cannot handle heavy tails": (
            "ma-published"
        ),
    }
    return [
        *(
            claim(results, paper, {LOOKS[name].label: (row, other) for name, row in rooms.items()})
            for paper, other in pairs.items()
        ),
        converged(results, base, "published"),
        diverged(results, base),
    ]


def diverged(results: Results, base: str) -> Claim:
    """Count the trainings that diverged."""
    flags = {name: results.values("diverged", method=name) for name in present(results)}
    some = [f"{label(name, base)} {int(each.sum())}" for name, each in flags.items() if each.sum()]
    totals = sorted({len(each) for each in flags.values()})
    return Claim(
        "Beyond the paper: no training diverges",
        verdict(not each.sum() for each in flags.values()),
        f"of {' to '.join(map(str, totals[:: max(1, len(totals) - 1)]))} trainings a row, diverged and "
        f"counted as a score of 0: " + (", ".join(some) if some else "none"),
    )


def by_dataset(
    results: Results,
    first: str,
    second: str,
    kappas: Sequence[float],
    without: Sequence[str] = (),
) -> FloatArray:
    """Return the difference in score on each data set, over these κ and all common seeds, (D,).

    Data sets and κ on which one of the two did not run do not count, nor the data sets `without`.
    """
    found = []
    for name in results.settings["datasets"]:
        if name in without:
            continue
        gaps = []
        for kappa in kappas:
            cell = {"dataset": name, "kappa": kappa}
            one, two = (SCORE.values(results, method=each, **cell) for each in (first, second))
            common = min(len(one), len(two))
            if common:
                gaps.append((one[:common] - two[:common]).mean())
        if gaps:
            found.append(np.mean(gaps))
    return np.array(found)


def claim(results: Results, paper: str, pairs: dict[str, tuple[str, str]]) -> Claim:
    """Judge that the first of each pair is better under heavy noise, with data sets as the unit.

    Cells of one data set share its rows and its environment: they are not independent. One number
    and one interval for each pair, over data sets, at κ of at least `HEAVY`, or all if there is none.
    """
    names = {name for pair in pairs.values() for name in pair}
    every = [
        kappa
        for kappa in results.settings["kappas"]
        if all(results.where(method=name, kappa=kappa).any() for name in names)
    ]
    heavy = [kappa for kappa in every if kappa >= HEAVY] or list(every)
    checks, words = [], []
    for name, (first, second) in pairs.items():
        gaps = by_dataset(results, first, second, heavy)
        found, whole = summarise(gaps), summarise(by_dataset(results, first, second, every))
        checks.append(found.above())
        words.append(f"{name}: {found}{datasets_to_decide(gaps)}; {whole} at all κ")
        few = results.settings.get("few", ())
        kept = by_dataset(results, first, second, heavy, without=few)
        if len(kept) < len(gaps):
            words[-1] += f"; {summarise(kept)} without those of fewer seeds"
    return Claim(
        paper, verdict(checks), f"at κ ≥ {heavy[0]:g}, over data sets: " + "; ".join(words)
    )


def datasets_to_decide(gaps: FloatArray) -> str:
    """Return, where the sign is open, how many data sets of this kind would decide it, as text."""
    seen = summarise(gaps)
    if len(gaps) < 2 or seen.above() is not None or seen.value == 0:
        return ""
    needed = math.ceil((2 * float(gaps.std(ddof=1)) / abs(seen.value)) ** 2)
    return f" (about {max(needed, len(gaps) + 1):,} data sets would decide)"


def converged(results: Results, base: str, method: str = "vanilla") -> Claim:
    """Judge whether the critics of a method were trained long enough."""
    how = ", as published," if method == "published" else ""
    paper = f"Beyond the paper: {base}'s critics{how} are converged"
    names = ("time_constants", "mean_value", "pessimism", "logged_return")
    clock, value, taken, logged = (
        results.columns.get(name, np.full(len(results.rows), np.nan)) for name in names
    )
    trained = np.isfinite(clock) & results.where(method=method)
    clean = trained & results.where(kappa=min(results.settings["kappas"]))
    if not clean.any():
        return Claim(paper, verdict([False]), "diverged")
    plain, given_back = value[clean] / logged[clean], (value + taken)[clean] / logged[clean]
    return Claim(
        paper,
        verdict((clock[trained] >= TIME_CONSTANTS * (1 - 1e-9)).tolist()),
        f"{clock[trained].min():.2g} time constants or more; at the least noise mean V is "
        f"{plain.min():.2f} to {plain.max():.2f} of the logged returns, and {given_back.min():.2f} to "
        f"{given_back.max():.2f} with what the smaller of two Q takes",
    )


def _units(results: Results) -> str:
    share = results.settings["share"]
    bound = f"Policy weights worth at least {share:g} of the log (the paper: no such bound)"
    units = "α and β are the published ones, in median sizes of a clean reward"
    if results.settings.get("as_published"):
        units = "states, rewards, α and β as they are in the published code"
    return f"{bound if share else 'No bound on policy weights'}; {units}."


def budget(results: Results, base: str) -> str:
    """Return the settings of this run and of the paper, for the caption of a figure."""
    settings = results.settings
    own = ("steps", "policy_steps", "hidden", "policy_hidden")
    reduced = any(canonical(settings[each]) != canonical(PUBLISHED[each]) for each in own)
    return (
        f"Data: {origins(settings)}. {'Reduced' if reduced else 'Published'} budget: {base}, "
        f"{settings['steps']:,} critic and "
        f"{settings['policy_steps']:,} policy steps (paper: 200,000 and 1,000,000),\n"
        f"critics {'×'.join(map(str, settings['hidden']))} and policies "
        f"{'×'.join(map(str, settings['policy_hidden']))} (256×256), {results.replicates} seeds (5).\n"
        f"{_units(results)}\n"
        f"Noise t, df 1, times κ on rewards scaled to a return range of 1000 (the paper's κ: 100).\n"
        f"Bars: 95 % intervals over seeds. Scores: {settings['evaluation_episodes']} episodes each."
        + (
            f"\n{settings['fewer'][0].upper()}{settings['fewer'][1:]}."
            if "fewer" in settings
            else ""
        )
    )


D4RL_SQL = deep_experiment(
    "d4rl-sql",
    "figures 5, A1 and A2",
    "Does ROOM help SQL on continuous control?",
    cells,
    partial(run, kind=SQL),
    draw_sql,
    judge_sql,
    settings={**BUDGET, "alpha": 10.0},
    quick=TINY,
    published=PUBLISHED,
)
IQL_TABLE = deep_experiment(
    "iql-table",
    "table A3",
    "Does ROOM help IQL on continuous control?",
    cells,
    partial(run, kind=IQL),
    draw_iql,
    judge_iql,
    settings={**BUDGET, "beta": 3.0},
    quick=TINY,
    published=PUBLISHED,
)

#: The published base at the budget of the other rows: of that, the target rate follows the steps, as
#: there, and the policy's cosine ends at zero, as with the published steps.
_AS_PUBLISHED = {
    **BUDGET,
    "kappas": (0.0, 100.0),
    "as_published": True,
    "share": 0.0,
    "cosine_over": "policy_steps",
    "baselines": False,
}
SQL_PUBLISHED = deep_experiment(
    "sql-published",
    "figure 5, as published, at the budget of d4rl-sql",
    "SQL and its ROOM rows with the published settings",
    cells,
    partial(run, kind=SQL),
    draw_sql,
    partial(judge_published, base="SQL"),
    settings={**_AS_PUBLISHED, "alpha": 10.0},
    quick=TINY,
)
IQL_PUBLISHED = deep_experiment(
    "iql-published",
    "table A3, as published, at the budget of iql-table",
    "IQL and its ROOM rows with the published settings",
    cells,
    partial(run, kind=IQL),
    draw_sql,
    partial(judge_published, base="IQL"),
    settings={**_AS_PUBLISHED, "beta": 3.0},
    quick=TINY,
)
