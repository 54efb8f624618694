"""`tailproof demo`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.options import SEED
from tailproof.cli.session import Session
from tailproof.report.text import count


class DemoName(StrEnum):
    """The demonstrations."""

    storm = "storm"
    insurance = "insurance"


@dataclass(frozen=True)
class DemoOptions:
    """What to show, and where the report goes."""

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
    hubs = _table(f"{_hubs(shown)}, $ a day", "stormy: error", "loses", "calm: error", "loses")
    stormy, calm = shown.over_hubs(shown.stormy), shown.over_hubs(shown.calm)
    for each in ESTIMATORS:
        hubs.add_row(each, *(f"{value:.0f}" for value in (*stormy[each], *calm[each])))
    learned = _table("learned from", "stormy 2021, in 2022", "calm 2022, in 2021")
    for each in LEARNERS:
        both = (
            np.mean([s.learned[each] for s in seasons]) for seasons in (shown.stormy, shown.calm)
        )
        learned.add_row(each, *(f"{value:.0f}" for value in both))
    for label, pick in (("dispatcher, as logged", _dispatcher), ("best candidate", _best)):
        both = (np.mean([pick(s) for s in seasons]) for seasons in (shown.stormy, shown.calm))
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


def _table(first: str, *titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="left" if title.startswith("picks") else "right")
    return table


def _hubs(shown: Any) -> str:
    return count(len(shown.stormy), "hub")


def _dispatcher(season: Any) -> float:
    return float(season.next_truth["dispatcher"])


def _best(season: Any) -> float:
    return float(max(season.next_truth.values()))
