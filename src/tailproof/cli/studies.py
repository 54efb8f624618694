"""`tailproof demo`, `bench` and `reproduce`: worlds with known true values, and the paper."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tailproof.cli import options
from tailproof.cli.options import SEED, ClusterOptions
from tailproof.cli.session import Session, as_rich, command, plain_table
from tailproof.report.text import count
from tailproof.studies.paper.command import EXPERIMENTS, GROUPS
from tailproof.studies.paper.command import reproduce as run_reproduce
from tailproof.studies.paper.experiment import Reproduced

battery_option = partial(options.option, panel="Battery")
paper_option = partial(options.option, panel="Reproduction")
COLOURS = {
    "holds": "green",
    "holds in part": "yellow",
    "does not hold": "red",
    "undecided": "magenta",
}


class DemoName(StrEnum):
    """The demonstrations."""

    storm = "storm"
    insurance = "insurance"


@dataclass(frozen=True)
class DemoOptions:
    """The demonstration, and the file of its report."""

    story: DemoName = typer.Argument(
        DemoName.storm, help="storm (a battery and its prices) or insurance (a cap and a profit)."
    )
    hub: str = typer.Option("HB_NORTH", help="HB_HOUSTON, HB_NORTH, HB_PAN, HB_SOUTH or HB_WEST.")
    report: Path = typer.Option(
        Path("demo-report.html"), help="Where the report goes.", dir_okay=False, metavar="FILE.html"
    )
    quick: bool = typer.Option(
        False, "--quick", help="This hub only, not all five; 3 logs, not 20."
    )
    seed: int = SEED


@command
def demo(session: Session, asked: DemoOptions) -> None:
    """Show what one winter storm does to an average, or what a cap does to an insurer's profit.

    Example: tailproof demo
    """
    if asked.story is DemoName.insurance:
        _insurance(session, quick=asked.quick, seed=asked.seed)
        return
    from tailproof.studies.storm.page import story_page
    from tailproof.studies.storm.story import demonstrate
    from tailproof.worlds.prices import HUBS

    others = () if asked.quick else HUBS
    with session.working("Two years of a battery", total=3 if asked.quick else 11) as advance:
        shown = demonstrate(hub=asked.hub, others=others, seed=asked.seed, advance=advance)
        story_page(shown).write(asked.report)
    record = {"command": "demo", **shown.to_dict(), "report": str(asked.report)}
    session.answer(record, *story_lines(shown), "", f"The report is in {asked.report}.")


def _insurance(session: Session, *, quick: bool, seed: int) -> None:
    from tailproof.studies.insurance.story import demonstrate

    logs = 3 if quick else 20
    with session.working("Portfolios of motor policies", total=logs) as advance:
        shown = demonstrate(logs=logs, seed=seed, advance=advance)
    table = _table("euros per policyholder", "first log", "interval", "mean", "holds the truth")
    table.add_row("truth", f"{shown.truth:.0f}", "", "", "")
    for way, readings in shown.readings.items():
        first = readings[0]
        table.add_row(
            way,
            f"{first.value:.0f}",
            f"{first.low:.0f} to {first.high:.0f}",
            f"{shown.mean(way):.0f}",
            f"{shown.held(way)} of {shown.logs}",
        )
    said = shown.sentences()
    lines = [Text("A cap and a profit", style="bold"), Text(said["setting"]), "", table, ""]
    rest = [Text(said[each]) for each in ("answer", "reason", "limits")]
    session.answer({"command": "demo", **shown.to_dict()}, *lines, *rest)


def story_lines(shown: Any) -> list[Any]:
    """Return the story as a terminal shows it."""
    from tailproof.studies.storm.page import story_sentences
    from tailproof.studies.storm.story import ESTIMATORS, LEARNERS

    said = story_sentences(shown)
    here = shown.stormy[0]
    short = ("plain\naverage", "folds of\ndays", "folds of\nweeks", "clipped\nat 1 %", "default")
    values = _table("$ a day in 2021", "truth", *short)
    for name, truth in here.truth.items():
        found = (here.estimates[each][name] for each in ESTIMATORS)
        values.add_row(name, *(f"{value:.0f}" for value in (truth, *found)))
    values.add_row("error", "", *(f"{here.error(each):.0f}" for each in ESTIMATORS), style="bold")
    choice = _table("estimator", "picks for 2022", "worth", "loses")
    for each in ESTIMATORS:
        pick = here.pick(each)
        choice.add_row(each, pick, f"{here.next_truth[pick]:.0f}", f"{here.lost(each):.0f}")
    where = count(len(shown.stormy), "hub")
    hubs = _table(f"{where}, $ a day", "stormy: error", "loses", "calm: error", "loses")
    stormy, calm = shown.over_hubs(shown.stormy), shown.over_hubs(shown.calm)
    for each in ESTIMATORS:
        hubs.add_row(each, *(f"{value:.0f}" for value in (*stormy[each], *calm[each])))
    learned = _table("learned from", "stormy 2021, in 2022", "calm 2022, in 2021")
    means = [np.mean([*map(_worth, each)], axis=0) for each in (shown.stormy, shown.calm)]
    labels = (*LEARNERS, "dispatcher, as logged", "best candidate")
    for label, *both in zip(labels, *means, strict=True):
        learned.add_row(label, *(f"{value:.0f}" for value in both))
    parts = [
        ("A battery in Texas", [], said["setting"]),
        ("1. Diagnose the log", [], said["diagnosis"]),
        ("2. Evaluate seven schedules", [values], said["evaluation"]),
        ("3. Choose one for the next year", [choice], said["choice"]),
        ("4. Was that luck? Other hubs, and a calm year", [hubs], said["control"]),
        ("5. Learn a schedule", [learned], said["learning"]),
        ("Limits", [], said["limits"]),
    ]
    lines: list[Any] = []
    for title, tables, sentence in parts:
        lines += [Text(title, style="bold"), *tables, Text(sentence), ""]
    return lines[:-1]


def _worth(season: Any) -> list[float]:
    """Return the next year's values of the learned schedules, the dispatcher and the best candidate."""
    truth = season.next_truth
    return [*season.learned.values(), truth["dispatcher"], max(truth.values())]


def _table(first: str, *titles: str) -> Table:
    table = plain_table(first)
    table.columns[0].no_wrap = True
    for title in titles:
        table.add_column(title, justify="left" if title.startswith("picks") else "right")
    return table


@dataclass(frozen=True)
class BatteryOptions:
    """The entrants and cells of the benchmark."""

    entrants: list[str] = battery_option(
        "Who takes part besides the default entrants: file.py:function, module:function or the name "
        "of a method. Several times for several.",
        "--entrant",
        default=[],
    )
    only: bool = battery_option("Leave the default entrants out.", "--only", default=False)
    learners: bool = battery_option(
        "Bench learners by the regret of what they learn.", "--learners", default=False
    )
    rivals: bool = battery_option(
        "With d3rlpy's FQE and SCOPE-RL's estimators, where they are installed.",
        "--rivals",
        default=False,
    )
    worlds: list[str] = battery_option(
        "Only these worlds: cartpole, tabular, linear, storage.", "--world", default=[]
    )
    noises: list[str] = battery_option(
        "Only noises whose name contains this, such as Pareto.", "--noise", default=[]
    )
    steps: list[int] = battery_option("Log sizes; 2,000 and 10,000 by default.", default=[])
    replicates: int = battery_option("Logs of each cell.", default=100, min=1)
    quick: bool = battery_option("4 logs a cell, of 2,000 steps only.", "--quick", default=False)
    seed: int | None = battery_option("Everything random starts here.")


@dataclass(frozen=True)
class RunOptions:
    """How the benchmark runs, and the folder of its results."""

    jobs: int = battery_option("Worker processes; 0 for one a core.", default=0, min=0)
    out: Path | None = battery_option(
        "A folder for the page, the heat maps, the scores and a record from which a stopped run "
        "goes on.",
        panel=options.OUTPUT,
        file_okay=False,
    )


@command
def bench(
    session: Session, engine: ClusterOptions, asked: BatteryOptions, running: RunOptions
) -> None:
    """Bench estimators on heavy tails: worlds with a known truth, many noises, sizes and overlaps.

    Example: tailproof bench --quick --entrant mine.py:estimate --out bench
    """
    from tailproof.parallel import Local
    from tailproof.studies.battery.report import report
    from tailproof.studies.battery.run import run
    from tailproof.studies.battery.select import chosen_battery

    battery = chosen_battery(**vars(asked))
    out = running.out
    with (
        session.working("Running the battery", len(battery.items())) as advance,
        engine.cluster() as cluster,
        Local(workers=running.jobs, kind="processes") as processes,
    ):
        record = None if out is None else out / "record.jsonl"
        findings = run(battery, engine=cluster or processes, record=record, advance=advance)
    found = report(findings)
    if out is not None:
        for path in found.write(out):
            session.note(f"Wrote {path}.")
    session.answer(found.record, *(as_rich(each) for each in found.tables))


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in (*GROUPS, *EXPERIMENTS) if name.startswith(incomplete)]


@dataclass(frozen=True)
class ReproduceOptions:
    """The experiments to rerun, the number of replicates, and the folder of the results."""

    names: list[str] = typer.Argument(
        ["all"],
        help=f"{', '.join(EXPERIMENTS)}; or {', '.join(GROUPS)} for several.",
        metavar="[NAME]...",
        autocompletion=_complete_name,
        show_default="all",
    )
    replicates: int | None = paper_option(
        "Repetitions of every cell; 100 where the paper has 100.", min=1
    )
    quick: bool = paper_option("Small grids, to see it run.", "--quick", default=False)
    jobs: int = paper_option("Processes; 0 for one a core.", default=0, min=0)
    out: Path = paper_option("Folder for results and figures.", default=Path("reproduction"))
    data: Path | None = paper_option("Folder of continuous-control data for the deep experiments.")
    seed: int = options.SEED


@command
def reproduce(session: Session, engine: ClusterOptions, asked: ReproduceOptions) -> None:
    """Rerun the paper's figures and tables, and say which of its claims hold here.

    Started again, a run that was stopped goes on where it was.

    Example: tailproof reproduce ope --jobs 2
    """

    def say(outcome: Reproduced) -> None:
        if session.json:
            return
        for claim in outcome.claims:
            line = Text(f"{outcome.name} ({outcome.shows}) ")
            line.append(claim.verdict, style=f"bold {COLOURS[claim.verdict]}")
            line.append(f": {claim.paper} ({claim.found})")
            session.out.print(line, soft_wrap=True)
        if outcome.skipped:
            session.note(outcome.lines()[0])
        else:
            session.note(f"{outcome.name}: {outcome.files['svg']}, {outcome.seconds:.0f} s")

    with engine.cluster(aside=session.json) as where:
        progress = None if session.talks else False
        outcomes = run_reproduce(**vars(asked), progress=progress, each=say, engine=where)
    if session.json:
        session.answer({"command": "reproduce", "outcomes": outcomes})
