"""`tailproof bench`: estimators and learners against known truths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tailproof.cli import options
from tailproof.cli.command import command
from tailproof.cli.engines import ClusterOptions
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich

option = partial(options.option, panel="Battery")


@dataclass(frozen=True)
class BatteryOptions:
    """Who takes part, and on which cells."""

    entrants: list[str] = option(
        "Who takes part besides the default entrants: file.py:function, module:function or the name "
        "of a method. Several times for several.",
        "--entrant",
        default=[],
    )
    only: bool = option("Leave the default entrants out.", "--only", default=False)
    learners: bool = option(
        "Bench learners by the regret of what they learn.", "--learners", default=False
    )
    rivals: bool = option(
        "With d3rlpy's FQE and SCOPE-RL's estimators, where they are installed.",
        "--rivals",
        default=False,
    )
    worlds: list[str] = option(
        "Only these worlds: cartpole, tabular, linear, storage.", "--world", default=[]
    )
    noises: list[str] = option(
        "Only noises whose name contains this, such as Pareto.", "--noise", default=[]
    )
    steps: list[int] = option("Log sizes; 2,000 and 10,000 by default.", default=[])
    replicates: int = option("Logs of each cell.", default=100, min=1)
    quick: bool = option("4 logs a cell, of 2,000 steps only.", "--quick", default=False)
    seed: int | None = option("Everything random starts here.")


@dataclass(frozen=True)
class RunOptions:
    """How the battery runs, and where the results go."""

    jobs: int = option("Worker processes; 0 for one a core.", default=0, min=0)
    out: Path | None = option(
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
    from tailproof.engines import Local
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
