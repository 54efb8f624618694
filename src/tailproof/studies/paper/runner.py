"""Run an experiment: every replicate once, on any number of processes, through crashes."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tailproof.engines import Engine, Local, running
from tailproof.engines.threads import one_thread
from tailproof.errors import TailproofError
from tailproof.report.versions import versions
from tailproof.studies.journal import Journal
from tailproof.studies.paper.drawing import style, write_figure
from tailproof.studies.paper.experiment import Experiment, Job, Outcome, Row, Settings, canonical
from tailproof.studies.paper.results import (
    TIMES,
    Results,
    tidy,
    without_times,
    write_record,
    write_table,
)

#: Where unfinished work is kept, inside the output folder.
PROGRESS = ".progress"
_DEEP_PACKAGES = ("torch", "gymnasium", "mujoco")


def run(
    experiment: Experiment,
    *,
    out: Path,
    replicates: int | None = None,
    quick: bool = False,
    jobs: int = 1,
    seed: int = 0,
    data: Path | None = None,
    progress: bool | None = None,
    engine: str | Engine | None = None,
) -> Outcome:
    """Run what is missing of an experiment, write its results and figure, and judge the claims.

    Every finished replicate is on the disk before the next one is asked for, in
    ``<out>/.progress``. A run that was killed goes on there and ends with the same results file,
    byte for byte; so does a run on another number of processes.

    Parameters
    ----------
    out
        Folder for ``<name>.parquet``, ``.json``, ``.svg`` and ``.png``, and ``<name>.times.parquet``
        where run times are measured: these alone differ between runs.
    replicates
        How many of every cell; by default as many as the paper has.
    quick
        A small version of the grid, in a minute.
    jobs
        Processes; 0 for one a core.
    seed
        Root of all random numbers.
    data
        Folder of data sets, for the deep experiments.
    progress
        Whether to show a bar; by default on a terminal.
    engine
        Where replicates run, instead of `jobs` processes.
    """
    started = time.perf_counter()
    count = replicates or (experiment.quick_replicates if quick else experiment.replicates)
    if count < 1:
        raise TailproofError(f"replicates must be at least 1. Got {replicates!r} instead.")
    settings = experiment.settled(quick=quick, data=data)
    about = _about(experiment, settings, seed)
    folder = out / PROGRESS / f"{experiment.name}-{_digest(about)}"
    cells = list(experiment.cells(settings))
    todo = {
        (place, replicate): Job(
            experiment.name, cell, replicate, seed, settings, data, folder / f"{place}-{replicate}"
        )
        for replicate in range(count)  # replicates outside: an early look has all cells
        for place, cell in enumerate(cells)
    }
    with Journal(folder.with_suffix(".jsonl"), about) as journal:
        missing = [job for job in todo.values() if job.key not in journal]
        with _bar(experiment.name, len(todo), len(todo) - len(missing), progress) as advance:
            for job, rows in zip(
                missing, _measured(experiment, missing, jobs, engine), strict=True
            ):
                journal.append(job.key, rows)
                shutil.rmtree(job.scratch or folder, ignore_errors=True)
                advance()
        measured = {place: journal[job.key] for place, job in todo.items()}
    results = Results(experiment.name, settings, count, tidy(cells, count, measured), seed)
    claims = tuple(experiment.judge(results))
    files = _write(experiment, results, claims, about, out)
    return Outcome(
        name=experiment.name,
        shows=experiment.shows,
        claims=claims,
        files=files,
        replicates=count,
        jobs_run=len(missing),
        seconds=time.perf_counter() - started,
    )


def _measured(
    experiment: Experiment, todo: list[Job], jobs: int, engine: str | Engine | None
) -> Iterator[list[Row]]:
    """Yield the rows of every job in order."""
    if engine is not None:
        with running(engine) as where:
            yield from where.results(_run_one, todo, shared=experiment.run)
        return
    if jobs == 1 or len(todo) < 2:
        with one_thread():
            for job in todo:
                yield experiment.run(job)
        return
    with Local(workers=jobs, kind="processes") as processes:
        yield from processes.results(_run_one, todo, shared=experiment.run)


def _run_one(function: Callable[[Job], list[Row]], job: Job) -> list[Row]:
    return function(job)


def _about(experiment: Experiment, settings: Settings, seed: int) -> dict[str, Any]:
    """Return what the numbers depend on beside cell and replicate."""
    found = versions()
    for name in _DEEP_PACKAGES if experiment.deep else ():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {"experiment": experiment.name, "settings": settings, "seed": seed, "versions": found}


def _digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(about).encode()).hexdigest()[:12]


def _write(
    experiment: Experiment,
    results: Results,
    claims: tuple[Any, ...],
    about: dict[str, Any],
    out: Path,
) -> dict[str, Path]:
    files = {kind: out / f"{experiment.name}.{kind}" for kind in ("parquet", "json", "svg", "png")}
    write_table(files["parquet"], [without_times(row) for row in results.rows])
    if any(name in row for row in results.rows for name in TIMES):
        files["times"] = out / f"{experiment.name}.times.parquet"
        write_table(files["times"], results.rows)
    record = {
        **about,
        "shows": experiment.shows,
        "title": experiment.title,
        "replicates": results.replicates,
        "seeding": "SeedSequence([seed, *sha256(experiment/cell)[:16]], spawn_key=(replicate, stream))",
        "claims": [
            {"paper": claim.paper, "verdict": claim.verdict, "found": claim.found}
            for claim in claims
            if not claim.timed
        ],
        "rows": len(results.rows),
    }
    write_record(files["json"], record)
    with style():
        write_figure(experiment.draw(results), files["svg"], files["png"])
    return files


@contextmanager
def _bar(name: str, total: int, done: int, shown: bool | None) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = shown is False or (shown is None and not console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)
