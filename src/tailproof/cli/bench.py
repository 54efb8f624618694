"""`tailproof bench`: estimators and learners against known truths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tailproof.cli.command import command
from tailproof.cli.engines import ClusterOptions
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich

PANEL = "Battery"


@dataclass(frozen=True)
class BenchOptions:
    """Who takes part, on which cells, and where the results go."""

    entrant: Annotated[
        list[str] | None,
        typer.Option(
            help="Who takes part besides the default entrants: file.py:function, module:function or "
            "the name of a method. Several times for several.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    only: Annotated[
        bool, typer.Option("--only", help="Leave the default entrants out.", rich_help_panel=PANEL)
    ] = False
    learners: Annotated[
        bool,
        typer.Option(
            "--learners",
            help="Bench learners by the regret of what they learn.",
            rich_help_panel=PANEL,
        ),
    ] = False
    rivals: Annotated[
        bool,
        typer.Option(
            "--rivals",
            help="With d3rlpy's FQE and SCOPE-RL's estimators, where they are installed.",
            rich_help_panel=PANEL,
        ),
    ] = False
    world: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these worlds: cartpole, tabular, linear, storage.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    noise: Annotated[
        list[str] | None,
        typer.Option(
            help="Only noises whose name contains this, such as Pareto.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    steps: Annotated[
        list[int] | None,
        typer.Option(
            help="Log sizes; 2,000 and 10,000 by default.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    replicates: Annotated[
        int, typer.Option(help="Logs of each cell.", min=1, rich_help_panel=PANEL)
    ] = 100
    quick: Annotated[
        bool,
        typer.Option("--quick", help="4 logs a cell, of 2,000 steps only.", rich_help_panel=PANEL),
    ] = False
    jobs: Annotated[
        int, typer.Option(help="Worker processes; 0 for one a core.", min=0, rich_help_panel=PANEL)
    ] = 0
    seed: Annotated[
        int | None, typer.Option(help="Everything random starts here.", rich_help_panel=PANEL)
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the page, the heat maps, the scores and a record from which a stopped "
            "run goes on.",
            file_okay=False,
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None


@command
def bench(session: Session, engine: ClusterOptions, asked: BenchOptions) -> None:
    """Bench estimators on heavy tails: worlds with a known truth, many noises, sizes and overlaps.

    Example: tailproof bench --quick --entrant mine.py:estimate --out bench
    """
    from tailproof.engines import Local
    from tailproof.studies.battery.report import report
    from tailproof.studies.battery.run import run
    from tailproof.studies.battery.select import chosen_battery

    battery = chosen_battery(
        entrants=tuple(asked.entrant or ()),
        only=asked.only,
        learners=asked.learners,
        rivals=asked.rivals,
        worlds=tuple(asked.world or ()),
        noises=tuple(asked.noise or ()),
        steps=tuple(asked.steps or ()),
        replicates=asked.replicates,
        quick=asked.quick,
        seed=asked.seed,
    )
    out = asked.out
    with (
        session.working("Running the battery", len(battery.items())) as advance,
        engine.cluster() as cluster,
        Local(workers=asked.jobs, kind="processes") as processes,
    ):
        record = None if out is None else out / "record.jsonl"
        findings = run(battery, engine=cluster or processes, record=record, advance=advance)
    found = report(findings)
    if out is not None:
        for path in found.write(out):
            session.note(f"Wrote {path}.")
    session.answer(found.record, *(as_rich(each) for each in found.tables))
