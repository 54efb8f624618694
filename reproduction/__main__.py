"""Rerun the paper's figures and tables, and say which of its claims hold here.

    python -m reproduction ope --jobs 2

Started again, a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
        help=f"{', '.join(EXPERIMENTS)}; or {', '.join(GROUPS)} for several; page writes the docs",
    )
    add("--replicates", type=int, help="of every cell; 100 where the paper has 100")
    add("--quick", action="store_true", help="small grids, to see it run")
    add("--jobs", type=int, default=0, help="processes; 0 for one per core")
    add("--engine", help="ray: run on a cluster instead")
    add("--out", type=Path, default=RESULTS, help="folder for results and figures")
    add("--data", type=Path, help="folder of continuous-control data for the deep experiments")
    add("--seed", type=int, default=0, help="random seed")
    deep = made.add_argument_group("deep experiments")
    add = deep.add_argument
    add("--as-published", action="store_true", help="the paper's settings and budget")
    add("--dry-run", action="store_true", help="train a few steps and print the hours of all")
    add("--steps", type=int, help="gradient steps of the critics")
    add("--policy-steps", type=int, help="gradient steps of the policies")
    add("--width", type=int, help="units of every hidden layer")
    add("--evaluations", type=int, help="evaluations along the way; 2 or more draw curves")
    add("--device", help="cpu, cuda, cuda:1, …")
    add("--max-steps", type=int, help="the time limit of files without timeouts")
    return made


def changes_of(given: dict[str, Any]) -> dict[str, Any]:
    """Take the options that change settings out of all options, and return those that were given."""
    names = ("as_published", "steps", "policy_steps", "evaluations", "device", "max_steps")
    changes = {name: value for name in names if (value := given.pop(name))}
    if width := given.pop("width"):
        changes |= {"hidden": (width, width), "policy_hidden": (width, width)}
    return changes


def show(outcome: Reproduced) -> None:
    """Print a line for every claim."""
    for line in outcome.lines():
        print(line, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiments and return the exit code."""
    given = vars(parser().parse_args(words))
    changes = changes_of(given)
    try:
        if given["names"] == ["page"]:
            from reproduction.page import write_page

            print(write_page(given["out"]))
        else:
            reproduce(**given, changes=changes, each=show)
    except TailproofError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
