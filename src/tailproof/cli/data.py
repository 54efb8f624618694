"""`tailproof data list`, `tailproof data make`: example logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from tailproof import noise as noises
from tailproof.cli.options import SEED
from tailproof.cli.session import Session, command
from tailproof.errors import TailproofError
from tailproof.files import require_outputs
from tailproof.log.log import Log
from tailproof.log.spaces import as_space
from tailproof.noise import Noise
from tailproof.policies.text import policy_from_text
from tailproof.report.blocks import Headline, table

data = typer.Typer(
    no_args_is_help=True,
    help="Make logs with a known origin: CartPole, any Gymnasium environment.",
)
WORLDS = {
    "cartpole": "The paper's CartPole: 100 steps an episode, rewards in [0, 1], with any noise.",
    "Hopper-v5, …": "Any Gymnasium environment, by its id, run by a policy that you give.",
}
NOISES: dict[str, Callable[..., Noise]] = {
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
    listed = {**WORLDS, "": f"--noise: {', '.join(NOISES)}"}
    record: dict[str, object] = {"command": "data list", "worlds": WORLDS, "noises": list(NOISES)}
    session.answer(record, (table(("", ""), listed.items()),))


@dataclass(frozen=True)
class MakeOptions:
    """The world, the size of the log, and the output file."""

    name: str = typer.Argument(help="cartpole, or a Gymnasium id such as Hopper-v5.")
    out: Path | None = typer.Option(None, help="A .parquet or .csv file; NAME.parquet by default.")
    episodes: int = typer.Option(100, help="How many.")
    steps: int | None = typer.Option(None, help="Longest episode.")
    noise: str | None = typer.Option(
        None,
        help="Noise to add to the rewards, as student-t:1.1 or pareto:1.5.",
        metavar="NAME:NUMBER",
    )
    policy: str | None = typer.Option(None, help="Gymnasium: who acts, as in `tailproof evaluate`.")
    seed: int = SEED


@data.command()
@command
def make(session: Session, asked: MakeOptions) -> None:
    """Make a log and write it to a file.

    Example: tailproof data make cartpole --noise student-t:1.1 --out log.parquet
    """
    path = asked.out if asked.out is not None else Path(f"{asked.name}.parquet")
    if path.suffix not in (".parquet", ".csv"):
        raise TailproofError(f"--out must end in .parquet or .csv. Got {str(path)!r}.")
    require_outputs({"out": path}, [] if asked.policy is None else [asked.policy])
    with session.working(f"Making {asked.name}"):
        log = _made(asked)
        if asked.noise is not None:
            log = noises.add_noise(log, named_noise(asked.noise), seed=asked.seed)
        if path.suffix == ".csv":
            _write_csv(log, path)
        else:
            log.to_parquet(path)
    record = {
        "command": "data make",
        "name": asked.name,
        "path": str(path),
        "transitions": log.n_transitions,
        "episodes": log.n_episodes,
        "seed": asked.seed,
    }
    session.answer(record, (Headline(f"{path}: {log!r}"),))


def named_noise(text: str) -> Noise:
    """Return the noise for a command-line text.

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


def _made(asked: MakeOptions) -> Log:
    from tailproof.worlds import CartPole

    if asked.name == "cartpole":
        return CartPole().log(asked.episodes, asked.steps, seed=asked.seed)
    return _played(asked)


def _played(asked: MakeOptions) -> Log:
    import numpy as np

    from tailproof.worlds.environments import gymnasium_environment
    from tailproof.worlds.rollout import rollout

    environment = gymnasium_environment(asked.name)
    if asked.policy is None:
        raise TailproofError(f"{asked.name} needs --policy: which policy acts in it?")
    try:
        acting = policy_from_text(asked.policy, as_space(environment.action_space, np.empty(0)))
        return rollout(
            environment,
            acting,
            episodes=asked.episodes,
            steps=asked.steps,
            seed=asked.seed,
            progress=False,
        )
    finally:
        environment.close()


def _write_csv(log: Log, path: Path) -> None:
    from pyarrow import csv

    from tailproof.files import written_whole
    from tailproof.io.parquet import log_table

    with written_whole(path) as unfinished:
        csv.write_csv(log_table(log), unfinished)
