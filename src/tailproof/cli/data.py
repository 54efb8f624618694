"""`tailproof data list`, `tailproof data make`: logs to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tailproof import noise as noises
from tailproof.cli.command import command
from tailproof.cli.options import Seed
from tailproof.cli.session import Session
from tailproof.data.log import Log
from tailproof.data.spaces import as_space
from tailproof.errors import TailproofError
from tailproof.policies.text import policy_from_text

data = typer.Typer(
    no_args_is_help=True,
    help="Make logs with a known origin: CartPole, electricity storage, any Gymnasium environment.",
)
WORLDS = {
    "cartpole": "The paper's CartPole: 100 steps an episode, rewards in [0, 1], with any noise.",
    "storage": "A battery at an ERCOT hub, 2021-22: real prices, one winter storm, groups of weeks.",
    "Hopper-v5, …": "Any Gymnasium environment, by its id, run by a policy that you give.",
}
NOISES: dict[str, Any] = {
    "student-t": noises.StudentT,
    "skewed-t": noises.SkewedT,
    "gaussian": noises.Gaussian,
    "pareto": noises.Pareto,
    "log-normal": noises.LogNormal,
    "gamma": noises.Gamma,
    "contaminated": noises.Contaminated,
    "alpha-stable": noises.AlphaStable,
}


@data.command("list")
@command
def list_worlds(session: Session) -> None:
    """List what `tailproof data make` can make.

    Example: tailproof data list
    """
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, about in WORLDS.items():
        table.add_row(name, about)
    table.add_row("", f"--noise: {', '.join(NOISES)}")
    session.answer({"command": "data list", "worlds": WORLDS, "noises": list(NOISES)}, table)


@data.command()
@command
def make(
    name: Annotated[
        str,
        typer.Argument(
            help="cartpole, storage, or a Gymnasium id such as Hopper-v5.", show_default=False
        ),
    ],
    session: Session,
    out: Annotated[
        Path | None, typer.Option(help="A .parquet or .csv file; NAME.parquet by default.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="How many (not storage: one a day).")] = 100,
    steps: Annotated[int | None, typer.Option(help="Longest episode.", show_default=False)] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Noise to add to the rewards, as student-t:1.1 or pareto:1.5.",
            metavar="NAME:NUMBER",
            show_default=False,
        ),
    ] = None,
    hub: Annotated[str, typer.Option(help="storage: the hub.")] = "HB_NORTH",
    year: Annotated[
        int | None, typer.Option(help="storage: 2021 or 2022; both if left out.")
    ] = None,
    storm: Annotated[bool, typer.Option(help="storage: keep the winter storm's days.")] = True,
    policy: Annotated[
        str | None,
        typer.Option(help="Gymnasium: who acts, as in `tailproof evaluate`.", show_default=False),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Make a log and write it to a file.

    Example: tailproof data make cartpole --noise student-t:1.1 --out log.parquet
    """
    path = out if out is not None else Path(f"{name}.parquet")
    if path.suffix not in (".parquet", ".csv"):
        raise TailproofError(f"--out must end in .parquet or .csv. Got {str(path)!r}.")
    with session.working(f"Making {name}"):
        log = _made(
            name,
            episodes=episodes,
            steps=steps,
            hub=hub,
            year=year,
            storm=storm,
            policy=policy,
            seed=seed,
        )
        if noise is not None:
            log = noises.add_noise(log, named_noise(noise), seed=seed)
        if path.suffix == ".csv":
            _write_csv(log, path)
        else:
            log.to_parquet(path)
    record = {
        "command": "data make",
        "name": name,
        "path": str(path),
        "transitions": log.n_transitions,
        "episodes": log.n_episodes,
        "seed": seed,
    }
    session.answer(record, f"{path}: {log!r}")


def named_noise(text: str) -> Any:
    """Return the noise that a command line names.

    >>> named_noise("student-t:1.1"), named_noise("gaussian")
    (StudentT(df=1.1, kappa=1.0), Gaussian(scale=1.0))
    """
    name, _, numbers = text.partition(":")
    if name not in NOISES:
        raise TailproofError(f"There is no noise {name!r}. Known are {', '.join(NOISES)}.")
    try:
        return NOISES[name](*(float(number) for number in numbers.split(",") if number))
    except TailproofError:
        raise
    except (TypeError, ValueError) as error:
        raise TailproofError(
            f"--noise takes a name and numbers, as in student-t:1.1 or pareto:1.5. Got {text!r}."
        ) from error


def _made(
    name: str,
    *,
    episodes: int,
    steps: int | None,
    hub: str,
    year: int | None,
    storm: bool,
    policy: str | None,
    seed: int,
) -> Log:
    from tailproof.worlds import CartPole, storage

    if name == "cartpole":
        return CartPole().log(episodes, steps, seed=seed)
    if name == "storage":
        return storage.log(hub, year, seed, storm=storm)
    return _environment_log(name, policy, episodes=episodes, steps=steps, seed=seed)


def _environment_log(
    name: str, policy: str | None, *, episodes: int, steps: int | None, seed: int
) -> Log:
    import gymnasium
    import numpy as np

    from tailproof.deep.tasks import make_environment
    from tailproof.worlds.rollout import rollout

    try:
        environment = make_environment(name)
    except gymnasium.error.Error as error:
        raise TailproofError(
            f"There is no world or Gymnasium environment {name!r}: {error}. `tailproof data list` "
            f"names the worlds; MuJoCo needs pip install 'tailproof[mujoco]'."
        ) from error
    if policy is None:
        raise TailproofError(f"{name} needs --policy: who is to act in it?")
    try:
        space = as_space(environment.action_space, np.empty(0))
        acting = policy_from_text(policy, space)
        return rollout(
            environment, acting, episodes=episodes, steps=steps, seed=seed, progress=False
        )
    finally:
        environment.close()


def _write_csv(log: Log, path: Path) -> None:
    from pyarrow import csv

    from tailproof.files.atomic import written_whole
    from tailproof.sources.parquet import log_table

    with written_whole(path) as unfinished:
        csv.write_csv(log_table(log), unfinished)
