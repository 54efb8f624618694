"""Run experiments by name, on any number of processes; stopped runs can be resumed."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from reproduction.drawing import STYLE, write_figure
from reproduction.experiment import (
    Cell,
    Experiment,
    Job,
    Reproduced,
    Results,
    Row,
    Settings,
    canonical,
)
from reproduction.journal import Journal
from tailproof.errors import TailproofError
from tailproof.files import plain, write_whole
from tailproof.parallel import Engine, Local, one_thread, running
from tailproof.report.text import versions

#: Every experiment by its name, and the module that holds it.
EXPERIMENTS = {
    "bandit": "bandit",
    "ope": "evaluation",
    "opo": "learning",
    "bootstrap": "evaluation",
    "tradeoff": "evaluation",
    "choose-k": "evaluation",
    "choose-q": "learning",
    "theory": "theory",
    "d4rl-sql": "implicit",
    "iql-table": "implicit",
    "sql-published": "implicit",
    "iql-published": "implicit",
    "sac-n": "sac_n",
    "percent-cloning": "percent_cloning",
    "advantages": "advantages",
}
#: Names for several at once.
GROUPS = {
    "all": tuple(EXPERIMENTS),
    "cartpole": ("ope", "opo", "bootstrap", "tradeoff", "choose-k", "choose-q"),
    "deep": tuple(EXPERIMENTS)[tuple(EXPERIMENTS).index("d4rl-sql") :],
}
#: Committed results: where a run goes on by default.
RESULTS = Path(__file__).parent / "results"
#: Subfolder of the output folder for unfinished work.
PROGRESS = ".progress"
#: Column of run times, which are not reproducible; it is written to a separate file.
TIMES = "seconds"
LEVELS = 50  # most values of a column that numbers the design
_DEEP_PACKAGES = ("torch", "gymnasium", "mujoco")


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    >>> experiment("ope").shows
    'figure 3a'
    """
    if name not in EXPERIMENTS:
        raise TailproofError(
            f"There is no experiment {name!r}. Known are {', '.join(EXPERIMENTS)}, and "
            f"{', '.join(GROUPS)} for several."
        )
    module = import_module(f"reproduction.{EXPERIMENTS[name]}")
    found: Experiment = getattr(module, name.replace("-", "_").upper())
    return found


def reproduce(
    names: str | Iterable[str] = "all",
    *,
    replicates: int | None = None,
    quick: bool = False,
    jobs: int = 0,
    out: str | Path = RESULTS,
    data: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = None,
    each: Callable[[Reproduced], None] = lambda _: None,
    engine: str | Engine | None = None,
    changes: Settings | None = None,
    dry_run: bool = False,
) -> list[Reproduced]:
    """Rerun figures and tables of the paper, and judge its claims.

    A stopped run resumes when it is started again with the same settings and `out`. Results depend
    on the seed and the settings, not on `jobs`.

    Parameters
    ----------
    names
        Experiments, or ``"all"``, ``"cartpole"``, ``"deep"``.
    replicates
        Replicates per cell; by default the paper's number, if feasible.
    quick
        Small grids and logs, to check that everything runs.
    jobs
        Number of processes; 0 for one per core.
    out
        Folder for results and figures.
    data
        Folder of data sets for the deep experiments. Of several experiments, those without data or
        packages are skipped with a message; for a single one this is an error.
    seed
        Root of all random numbers.
    progress
        Whether to show a bar; by default on a terminal.
    each
        Called with every outcome as it is ready.
    engine
        Where replicates run, instead of `jobs` processes: ``"ray"``, or an `Engine`.
    changes
        Settings of the deep experiments to change, such as ``{"steps": 200_000}``;
        ``{"as_published": True}`` for the paper's budget.
    dry_run
        Train a few steps of every deep experiment, and return the hours that it would take.

    Examples
    --------
    >>> import tempfile
    >>> outcome, = reproduce("bandit", quick=True, jobs=1, out=tempfile.mkdtemp())
    >>> outcome.claims  # a quick run decides nothing
    ()
    """
    asked = [names] if isinstance(names, str) else list(names)
    folder, source = Path(out), None if data is None else Path(data)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in dict.fromkeys(one for group in asked for one in GROUPS.get(group, (group,))):
        found = experiment(name)
        why = ""
        if found.deep:
            from reproduction.datasets import why_not

            why = why_not(name, source)
        if why and name in asked:
            raise TailproofError(why)
        outcome = Reproduced(found.name, found.shows, skipped=why)
        if not why and dry_run and found.deep:
            from reproduction.datasets import dry

            assert source is not None
            settings = found.settled(quick=quick, data=source, changes=changes)
            outcome = replace(outcome, skipped=dry(found, settings, source, replicates))
        elif not why:
            outcome = run(
                found,
                out=folder,
                replicates=replicates,
                quick=quick,
                jobs=jobs,
                seed=seed,
                data=source,
                progress=progress,
                engine=engine,
                changes=changes,
            )
        outcomes.append(outcome)
        each(outcome)
    return outcomes


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
    changes: Settings | None = None,
) -> Reproduced:
    """Run the missing replicates of an experiment, write results and figure, and judge the claims.

    Every finished replicate is written to ``<out>/.progress`` at once. A resumed run, or a run on
    another number of processes, gives the same results file, byte for byte. Options are those of
    `reproduce`.
    """
    started = time.perf_counter()
    count = replicates or (experiment.quick_replicates if quick else experiment.replicates)
    if count < 1:
        raise TailproofError(f"replicates must be at least 1. Got {replicates!r} instead.")
    settings = experiment.settled(quick=quick, data=data, changes=changes)
    about = _about(experiment, settings, seed)
    digest = hashlib.sha256(canonical(about).encode()).hexdigest()[:12]
    folder = out / PROGRESS / f"{experiment.name}-{digest}"
    cells = list(experiment.cells(settings))
    todo = {
        (place, replicate): Job(
            experiment.name, cell, replicate, seed, settings, data, folder / f"{place}-{replicate}"
        )
        for replicate in range(count)  # the outer loop, so that partial results have all cells
        for place, cell in enumerate(cells)
    }
    with Journal(folder.with_suffix(".jsonl"), about) as journal:
        missing = [job for job in todo.values() if job.key not in journal]
        measuring = _measured(experiment, missing, jobs, engine)
        with _bar(experiment.name, len(todo), len(todo) - len(missing), progress) as advance:
            for job, rows in zip(missing, measuring, strict=True):
                journal.append(job.key, rows)
                shutil.rmtree(job.scratch or folder, ignore_errors=True)
                advance()
        measured = {place: journal[job.key] for place, job in todo.items()}
    results = Results(experiment.name, settings, count, tidy(cells, count, measured))
    files = _write(experiment, results, about, out)
    return Reproduced(
        name=experiment.name,
        shows=experiment.shows,
        # as few logs as a quick run has decide nothing
        claims=() if quick else tuple(experiment.claims(load(experiment.name, out, times=True))),
        files=files,
        replicates=count,
        jobs_run=len(missing),
        seconds=time.perf_counter() - started,
    )


def _measured(
    experiment: Experiment, todo: list[Job], jobs: int, engine: str | Engine | None
) -> Iterator[list[Row]]:
    """Yield the rows of every job in order."""
    alone = jobs == 1 or len(todo) < 2
    local = Local(workers=jobs, kind="threads" if alone else "processes")
    with one_thread(), local if engine is None else running(engine) as where:
        yield from where.results(_run_one, todo, shared=experiment.run)


def _run_one(function: Callable[[Job], list[Row]], job: Job) -> list[Row]:
    return function(job)


def _about(experiment: Experiment, settings: Settings, seed: int) -> dict[str, Any]:
    """Return the settings that results depend on, besides cell and replicate."""
    found = versions()
    for name in _DEEP_PACKAGES if experiment.deep else ():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {"experiment": experiment.name, "settings": settings, "seed": seed, "versions": found}


def tidy(
    cells: Sequence[Cell], replicates: int, measured: Mapping[tuple[int, int], Iterable[Row]]
) -> tuple[Row, ...]:
    """Return sorted rows, with their cell and replicate as first columns."""
    return tuple(
        {**cell, "replicate": replicate, **row}
        for place, cell in enumerate(cells)
        for replicate in range(replicates)
        for row in measured[place, replicate]
    )


def load(name: str, folder: Path = RESULTS, *, times: bool = False) -> Results:
    """Return the results of an experiment that were written to a folder.

    With `times`, those of the run times file, where there is one.
    """
    import pyarrow.parquet as pq

    record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    path = folder / f"{name}.parquet"
    if times and (timed := folder / f"{name}.times.parquet").exists():
        path = timed
    rows = tuple(pq.read_table(path).to_pylist())
    return Results(name, record["settings"], record["replicates"], rows)


def _write(
    experiment: Experiment, results: Results, about: dict[str, Any], out: Path
) -> dict[str, Path]:
    from matplotlib import rc_context

    files = {kind: out / f"{experiment.name}.{kind}" for kind in ("parquet", "json", "svg", "png")}
    columns = list(dict.fromkeys(name for row in results.rows for name in row))
    _write_table(files["parquet"], [name for name in columns if name != TIMES], results.rows)
    if TIMES in columns:
        files["times"] = out / f"{experiment.name}.times.parquet"
        _write_table(files["times"], columns, results.rows)
    record = {
        **about,
        "shows": experiment.shows,
        "title": experiment.title,
        "replicates": results.replicates,
        "seeding": "SeedSequence([seed, *sha256(experiment/cell)[:16]], spawn_key=(replicate, stream))",
        "rows": len(results.rows),
    }
    text = json.dumps(plain(record), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(files["json"], text + "\n")
    with rc_context(STYLE):
        write_figure(experiment.draw(results), files["svg"], files["png"])
    return files


def _write_table(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write rows as Parquet; equal rows give equal bytes.

    Measurements have single precision; columns of few values, such as q, are levels of the design.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: pa.array([row.get(name) for row in rows]) for name in columns}
    for name, array in arrays.items():
        if pa.types.is_floating(array.type) and len(array.unique()) > LEVELS:
            arrays[name] = array.cast(pa.float32())
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays), buffer, compression="zstd")
    write_whole(path, buffer.getvalue())


@contextmanager
def _bar(name: str, total: int, done: int, shown: bool | None) -> Iterator[Callable[[], None]]:
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        "{task.description}",
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    hidden = shown is False or (shown is None and not console.is_terminal)
    with progress.Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)
