"""Bench estimators on heavy tails: worlds with a known truth, many noises, sizes and overlaps.

python -m benchmarks.battery --quick --entrant mine.py:estimate --out bench
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.battery.report import report
from benchmarks.battery.run import run
from benchmarks.battery.select import WORLDS, chosen_battery
from tailproof.errors import TailproofError
from tailproof.parallel import Local, running


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.battery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add(
        "--entrant",
        dest="entrants",
        action="append",
        default=[],
        help="besides the default entrants: file.py:function, module:function or the name of a "
        "method; several times for several",
    )
    add("--only", action="store_true", help="leave the default entrants out")
    add("--learners", action="store_true", help="bench learners by the regret of what they learn")
    add("--rivals", action="store_true", help="with d3rlpy's FQE and SCOPE-RL, where installed")
    add("--world", dest="worlds", action="append", default=[], help=f"of {', '.join(WORLDS)}")
    add("--noise", dest="noises", action="append", default=[], help="noises with this in the name")
    add("--steps", type=int, action="append", default=[], help="log sizes; 2,000 and 10,000")
    add("--replicates", type=int, default=100, help="logs of each cell")
    add("--quick", action="store_true", help="4 logs a cell, of 2,000 steps only")
    add("--seed", type=int, help="random seed")
    add("--jobs", type=int, default=0, help="worker processes; 0 for one per core")
    add("--engine", help="ray: run on a cluster instead")
    add("--out", type=Path, help="folder for scores, heat maps, and a record to resume from")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark, print its tables, and return the exit code."""
    given = vars(parser().parse_args(words))
    jobs, engine, out = given.pop("jobs"), given.pop("engine"), given.pop("out")
    console = Console()
    try:
        battery = chosen_battery(**given)
        where = running(engine) if engine else Local(workers=jobs, kind="processes")
        record = None if out is None else out / "record.jsonl"
        with where as chosen, Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("battery", total=len(battery.items()))
            findings = run(battery, engine=chosen, record=record, advance=lambda: bar.advance(task))
        found = report(findings)
        for each in (*found.tables, *found.failures):
            console.print(each)
        for path in found.write(out) if out else ():
            print(f"Wrote {path}.", file=sys.stderr)
    except TailproofError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
