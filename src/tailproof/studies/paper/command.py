"""The front door: run experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from tailproof.engines import Engine
from tailproof.errors import TailproofError
from tailproof.studies.paper.experiment import Experiment, Outcome
from tailproof.studies.paper.runner import run

#: Every experiment by its name, and the module that holds it.
EXPERIMENTS = {
    "bandit": "bandit",
    "ope": "ope",
    "opo": "opo",
    "bootstrap": "bootstrap",
    "tradeoff": "tradeoff",
    "choose-k": "choose_k",
    "choose-q": "choose_q",
    "theory": "theory",
    "d4rl-sql": "d4rl_sql",
    "iql-table": "iql_table",
    "sac-n": "sac_n",
    "percent-cloning": "percent_cloning",
    "advantages": "advantages",
}
#: Names for several at once.
GROUPS = {
    "all": tuple(EXPERIMENTS),
    "cartpole": ("ope", "opo", "bootstrap", "tradeoff", "choose-k", "choose-q"),
    "deep": ("d4rl-sql", "iql-table", "sac-n", "percent-cloning", "advantages"),
}


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
    found: Experiment = import_module(f"tailproof.studies.paper.{EXPERIMENTS[name]}").EXPERIMENT
    return found


def reproduce(
    names: str | Iterable[str] = "all",
    *,
    replicates: int | None = None,
    quick: bool = False,
    jobs: int = 0,
    out: str | Path = "reproduction",
    data: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = None,
    each: Callable[[Outcome], None] | None = None,
    engine: str | Engine | None = None,
) -> list[Outcome]:
    """Rerun figures and tables of the paper, and judge its claims.

    A run that was stopped, by whatever, goes on where it was if it is started again with the same
    settings and the same `out`. Results depend on the seed and the settings, not on `jobs`.

    Parameters
    ----------
    names
        Experiments, or ``"all"``, ``"cartpole"``, ``"deep"``.
    replicates
        Repetitions of every cell; by default as many as the paper has, where that is feasible.
    quick
        Small grids and logs, to see that everything runs.
    jobs
        Processes; 0 for one a core.
    out
        Folder for results and figures.
    data
        Folder of data sets for the deep experiments. Among several experiments, those that lack data
        or packages are skipped, and say so; one asked for by its own name is an error.
    seed
        Root of all random numbers.
    progress
        Whether to show a bar; by default on a terminal.
    each
        Called with every outcome as it is ready.
    engine
        Where replicates run, instead of `jobs` processes: ``"ray"``, or an `Engine`.

    Examples
    --------
    >>> import tempfile
    >>> outcome, = reproduce("bandit", quick=True, jobs=1, out=tempfile.mkdtemp())
    >>> outcome.claims[0].verdict in ("holds", "holds in part", "does not hold")
    True
    """
    asked = [names] if isinstance(names, str) else list(names)
    chosen = list(
        dict.fromkeys(name for each_name in asked for name in GROUPS.get(each_name, (each_name,)))
    )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in chosen:
        found = experiment(name)
        why = _missing(found, data)
        if why and name in asked:
            raise TailproofError(why)
        outcome = (
            Outcome(name=found.name, shows=found.shows, skipped=why)
            if why
            else run(
                found,
                out=folder,
                replicates=replicates,
                quick=quick,
                jobs=jobs,
                seed=seed,
                data=None if data is None else Path(data),
                progress=progress,
                engine=engine,
            )
        )
        outcomes.append(outcome)
        if each is not None:
            each(outcome)
    return outcomes


def _missing(found: Experiment, data: str | Path | None) -> str:
    """Return what an experiment lacks to run, in words; nothing if nothing."""
    if not found.deep:
        return ""
    from tailproof.studies.paper.datasets import why_not

    return why_not(found.name, None if data is None else Path(data))
