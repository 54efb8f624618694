"""Show what a cap does to an insurer's estimated profit.

python -m examples.insurance
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from examples.insurance.story import CapDemonstration, demonstrate


def story_lines(shown: CapDemonstration) -> list[Table | Text | str]:
    """Return the story as a terminal shows it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("euros per policyholder", no_wrap=True)
    for title in ("first log", "interval", "mean", "holds the truth"):
        table.add_column(title, justify="right")
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
    rest = [Text(said[each]) for each in ("answer", "reason", "limits")]
    return [Text("A cap and a profit", style="bold"), Text(said["setting"]), "", table, "", *rest]


def main(words: Sequence[str] | None = None) -> int:
    """Tell the story and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.insurance", description=__doc__)
    parser.add_argument("--logs", type=int, default=20, help="portfolios to draw")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    given = parser.parse_args(words)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Portfolios of motor policies", total=given.logs)
        shown = demonstrate(logs=given.logs, seed=given.seed, advance=lambda: bar.advance(task))
    console = Console()
    for line in story_lines(shown):
        console.print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
