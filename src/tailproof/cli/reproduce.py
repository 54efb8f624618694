"""`tailproof reproduce`: the paper's figures and tables, rerun and judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer
from rich.text import Text

from tailproof.cli import options
from tailproof.cli.command import command
from tailproof.cli.engines import ClusterOptions
from tailproof.cli.session import Session
from tailproof.studies.paper.command import EXPERIMENTS, GROUPS
from tailproof.studies.paper.command import reproduce as run_reproduce
from tailproof.studies.paper.experiment import Reproduced

option = partial(options.option, panel="Reproduction")
COLOURS = {
    "holds": "green",
    "holds in part": "yellow",
    "does not hold": "red",
    "undecided": "magenta",
}


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in (*GROUPS, *EXPERIMENTS) if name.startswith(incomplete)]


@dataclass(frozen=True)
class ReproduceOptions:
    """What to run again, how often, and where the results go."""

    names: list[str] = typer.Argument(
        ["all"],
        help=f"{', '.join(EXPERIMENTS)}; or {', '.join(GROUPS)} for several.",
        metavar="[NAME]...",
        autocompletion=_complete_name,
        show_default="all",
    )
    replicates: int | None = option(
        "Repetitions of every cell; 100 where the paper has 100.", min=1
    )
    quick: bool = option("Small grids, to see it run.", "--quick", default=False)
    jobs: int = option("Processes; 0 for one a core.", default=0, min=0)
    out: Path = option("Folder for results and figures.", default=Path("reproduction"))
    data: Path | None = option("Folder of continuous-control data for the deep experiments.")
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
