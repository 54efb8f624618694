"""`tailproof reproduce`: the paper's figures and tables, rerun and judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.engines import ClusterOptions
from tailproof.cli.options import Seed
from tailproof.cli.session import Session
from tailproof.studies.paper.command import EXPERIMENTS, GROUPS
from tailproof.studies.paper.command import reproduce as run_reproduce
from tailproof.studies.paper.experiment import Reproduced

PANEL = "Reproduction"
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

    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(EXPERIMENTS)}; or {', '.join(GROUPS)} for several.",
            metavar="[NAME]...",
            autocompletion=_complete_name,
            show_default="all",
        ),
    ] = None
    replicates: Annotated[
        int | None,
        typer.Option(
            help="Repetitions of every cell; 100 where the paper has 100.",
            min=1,
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small grids, to see it run.", rich_help_panel=PANEL),
    ] = False
    jobs: Annotated[
        int, typer.Option(help="Processes; 0 for one a core.", min=0, rich_help_panel=PANEL)
    ] = 0
    out: Annotated[
        Path, typer.Option(help="Folder for results and figures.", rich_help_panel=PANEL)
    ] = Path("reproduction")
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of continuous-control data for the deep experiments.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None


@command
def reproduce(
    session: Session, engine: ClusterOptions, asked: ReproduceOptions, seed: Seed = 0
) -> None:
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
        outcomes = run_reproduce(
            asked.names or ["all"],
            replicates=asked.replicates,
            quick=asked.quick,
            jobs=asked.jobs,
            out=asked.out,
            data=asked.data,
            seed=seed,
            progress=None if session.talks else False,
            each=say,
            engine=where,
        )
    if session.json:
        session.answer({"command": "reproduce", "outcomes": outcomes})
