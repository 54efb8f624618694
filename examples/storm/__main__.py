"""Show what one winter storm does to an average.

python -m examples.storm
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from examples.storm.prices import HUBS
from examples.storm.story import (
    ESTIMATORS,
    HUB,
    LEARNERS,
    Demonstration,
    Season,
    demonstrate,
    story_sentences,
)
from tailproof import write_report
from tailproof.errors import TailproofError
from tailproof.report.text import count

SHORT = ("plain\naverage", "folds of\ndays", "folds of\nweeks", "clipped\nat 1 %", "default")


def story_lines(shown: Demonstration) -> list[Any]:
    """Return the story as a terminal shows it."""
    said = story_sentences(shown)
    here = shown.stormy[0]
    values = _table("$ a day in 2021", "truth", *SHORT)
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


def _worth(season: Season) -> list[float]:
    """Return the next year's values of the learned schedules, the dispatcher and the best candidate."""
    truth = season.next_truth
    return [*season.learned.values(), truth["dispatcher"], max(truth.values())]


def _table(first: str, *titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="left" if title.startswith("picks") else "right")
    return table


def main(words: Sequence[str] | None = None) -> int:
    """Tell the story and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.storm", description=__doc__)
    parser.add_argument("--hub", default=HUB, help=", ".join(HUBS))
    parser.add_argument("--quick", action="store_true", help="this hub only, not all five")
    parser.add_argument("--report", type=Path, help="write a report on the stormy log, FILE.html")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    given = parser.parse_args(words)
    others = () if given.quick else HUBS
    try:
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("Two years of a battery", total=3 if given.quick else 11)
            shown = demonstrate(
                hub=given.hub, others=others, seed=given.seed, advance=lambda: bar.advance(task)
            )
        console = Console()
        for line in story_lines(shown):
            console.print(line)
        if given.report is not None:
            write_report(shown.diagnosis, given.report, log=shown.log)
            console.print(f"\nThe report on the log is in {given.report}.")
    except TailproofError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
