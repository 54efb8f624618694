"""Rerun the paper's figures and tables, and say which of its claims hold here.

    python -m reproduction ope --jobs 2

Started again, a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reproduction.command import EXPERIMENTS, GROUPS, RESULTS, reproduce
from reproduction.experiment import Reproduced
from tailproof.errors import TailproofError


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="python -m reproduction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add(
        "names",
        nargs="*",
        default=["all"],
        metavar="NAME",
        help=f"{', '.join(EXPERIMENTS)}; or {', '.join(GROUPS)} for several",
    )
    add("--replicates", type=int, help="of every cell; 100 where the paper has 100")
    add("--quick", action="store_true", help="small grids, to see it run")
    add("--jobs", type=int, default=0, help="processes; 0 for one per core")
    add("--engine", help="ray: run on a cluster instead")
    add("--out", type=Path, default=RESULTS, help="folder for results and figures")
    add("--data", type=Path, help="folder of continuous-control data for the deep experiments")
    add("--seed", type=int, default=0, help="random seed")
    return made


def show(outcome: Reproduced) -> None:
    """Print a line for every claim."""
    for line in outcome.lines():
        print(line, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiments and return the exit code."""
    try:
        reproduce(**vars(parser().parse_args(words)), each=show)
    except TailproofError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
