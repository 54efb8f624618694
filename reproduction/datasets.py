"""Budgets and data sets of the deep experiments."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.experiment import Cell, Experiment, Job, Settings
from reproduction.tasks import ENVIRONMENTS, PRESETS, Preset
from tailproof.deep.settings import Evaluation
from tailproof.errors import TailproofError, TailproofWarning
from tailproof.io import read, read_d4rl
from tailproof.log.log import Log
from tailproof.worlds.environments import EnvironmentSource, scorer

_DRY = 20  # steps of a dry run
NEEDED = {"torch": "deep", "mujoco": "mujoco", "imageio": "mujoco"}
FORMS = (
    "D4RL's HDF5 files under their own names (hopper_medium-v2.hdf5), Minari's folders under their "
    "own ids (mujoco/hopper/medium-v0), rollouts in D4RL's manner "
    "(hopper-medium-….npz), or logs that `tailproof data make` wrote (hopper-….parquet)"
)

_KINDS = {
    "hopper": ("expert", "medium", "medium-replay", "mixed"),
    "halfcheetah": ("expert", "medium", "medium-replay", "mixed"),
    "walker2d": ("expert", "medium", "medium-replay", "mixed"),
    "kitchen": ("complete", "partial", "mixed"),
}
#: Scaled to four hours of one core for SQL and IQL: the paper has 200,000 critic steps per fold,
#: 1,000,000 policy steps, two layers of 256, batches of 256, Adam at 3e-4, target rate 0.005, 10
#: episodes per evaluation, 5 seeds. The target rate follows the steps, so that critics converge.
BUDGET: Settings = {
    "wanted": tuple(f"{domain}-{kind}" for domain, kinds in _KINDS.items() for kind in kinds),
    "most_datasets": 15,
    "most_episodes": None,
    "kappas": (0.0, 0.1, 10.0, 100.0),  # the paper's is 100, which leaves almost no signal
    "df": 1.0,
    "folds": 5,
    "quantile": 0.0,
    "steps": 5_000,
    "policy_steps": 8_000,
    "batch": 128,
    "hidden": (64, 64),
    "policy_hidden": (128, 128),
    "learning_rate": 1e-3,
    "target_rate": "auto",
    "unit": 30.0,  # rewards are divided by this times their median size: values of order one
    "share": 0.9,  # after few steps, advantages have larger errors than after long training
    "evaluations": 1,
    "evaluation_episodes": 20,
}
#: The paper's own budget and the settings of its code, by `as_published` of the bases.
PUBLISHED: Settings = {
    "kappas": (100.0,),
    "steps": 200_000,
    "policy_steps": 1_000_000,
    "batch": 256,
    "hidden": (256, 256),
    "policy_hidden": (256, 256),
    "learning_rate": 3e-4,
    "target_rate": 0.005,
    "share": 0.0,
    "evaluations": 200,
    "evaluation_episodes": 10,
}
#: The score of a policy is the mean of this many last evaluations, as the paper's.
LAST = 10
#: Settings of a test run that is too short to learn.
TINY: Settings = {
    "most_datasets": 1,
    "most_episodes": 10,
    "kappas": (100.0,),
    "folds": 2,
    "steps": 20,
    "policy_steps": 20,
    "hidden": (8,),
    "policy_hidden": (8,),
    "evaluation_episodes": 1,
}


def why_not(name: str, data: Path | None) -> str:
    """Return why a deep experiment cannot run here; empty if it can."""
    missing = [module for module in NEEDED if find_spec(module) is None]
    if missing:
        return (
            f"{name} needs {', '.join(missing)}, which pip install 'tailproof[deep,mujoco]' brings."
        )
    if data is None:
        return f"{name} needs data; give a folder with data=: {FORMS}."
    return ""


def available(data: Path) -> dict[str, dict[str, Any]]:
    """Return the data sets of a folder, such as "hopper-medium", with file, origin and size.

    If a name has several files, D4RL's own is preferred.
    """
    if not data.is_dir():
        raise TailproofError(f"data must be a folder. There is none at {data}.")
    found: dict[str, tuple[Path, str]] = {}
    for path in sorted(data.glob("*.parquet")):
        found[path.stem.lower()] = (path, "own log")
    for path in sorted(data.glob("*.npz")):
        found["-".join(path.stem.split("-")[:2])] = (path, "rollouts of trained agents, not D4RL")
    for preset in PRESETS.values():
        if preset.minari is not None and (path := data / preset.minari).is_dir():
            found[_short(preset)] = (path, "Minari")
        if (path := data / preset.d4rl).exists():
            found[_short(preset)] = (path, "D4RL")
    return {
        name: {
            "file": path.relative_to(data).as_posix(),
            "origin": origin,
            "bytes": sum(each.stat().st_size for each in (path, *path.rglob("*"))),
        }
        for name, (path, origin) in sorted(found.items())
        if _domain(name) in (*ENVIRONMENTS, "kitchen")
    }


def find(data: Path, settings: Settings) -> Settings:
    """Return the data sets to use: the requested ones that exist, or else all that exist."""
    there = available(data)
    wanted = [name for name in settings["wanted"] if name in there] or list(there)
    if not wanted:
        raise TailproofError(f"{data} holds no data set that is known here. It may hold {FORMS}.")
    return {"datasets": {name: there[name] for name in wanted[: settings["most_datasets"]]}}


def cells(settings: Settings) -> list[Cell]:
    """Return one cell per data set and κ, the largest κ, which is the paper's, first."""
    return [
        {"dataset": name, "kappa": kappa}
        for kappa in sorted(settings["kappas"], reverse=True)
        for name in settings["datasets"]
    ]


def read_data(job: Job) -> Log:
    """Return the log of a cell, with at most `most_episodes` episodes."""
    assert job.data is not None
    known: Mapping[str, Any] = job.settings["datasets"][job.cell["dataset"]]
    path, name = job.data / known["file"], job.cell["dataset"]
    if path.suffix == ".hdf5":
        limit = job.settings.get("max_steps") or preset_of(name).max_steps
        log = read_d4rl(path, max_steps=limit)
    else:
        log = read(str(path)).log
    most = job.settings["most_episodes"]
    return log if most is None or log.n_episodes <= most else log.take(np.arange(most))


def evaluation(job: Job, log: Log, steps: int) -> Evaluation:
    """Return the evaluations along the training of a policy from a log, in normalised scores."""
    name = job.cell["dataset"]
    domain = _domain(name)
    environment: EnvironmentSource = (
        partial(preset_of(name).make, log) if domain == "kitchen" else ENVIRONMENTS[domain]
    )
    return Evaluation(
        environment=environment,
        every=max(1, steps // job.settings["evaluations"]),
        episodes=job.settings["evaluation_episodes"],
        score=scorer(domain),
    )


def origins(settings: Settings) -> str:
    """Return the sources of the data, for the caption of a figure."""
    return "; ".join(sorted({each["origin"] for each in settings["datasets"].values()}))


def preset_of(name: str) -> Preset:
    """Return the paper's task of a data set such as "kitchen-mixed"."""
    return next(each for each in PRESETS.values() if _short(each) == name)


def dry(
    experiment: Experiment, settings: Settings, data: Path, replicates: int | None = None
) -> str:
    """Train a few steps of the first cell, and return what all would take, in words.

    On a CPU its own time counts, which other programs do not lengthen.
    """
    cell, device = experiment.cells(settings)[0], settings.get("device", "cpu")
    clock = time.process_time if device == "cpu" else time.perf_counter
    budgets = [name for name in ("steps", "policy_steps") if name in settings]
    few = dict.fromkeys(budgets, _DRY) | {"evaluations": 1}

    def seconds(**more: int) -> float:
        started = clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailproofWarning)
            experiment.run(Job(experiment.name, cell, 0, 0, {**settings, **few, **more}, data))
        return clock() - started

    seconds()  # the first call also compiles and reads
    least = job = seconds()
    for name, once in few.items():
        count, more = once, 0.0
        while more < least / 2 and count < settings[name]:  # until it stands out
            count *= 4
            more = seconds(**{name: count}) - least
        job += max(more, 0.0) * (settings[name] - once) / max(count - once, 1)
    jobs = len(experiment.cells(settings)) * (replicates or experiment.replicates)
    trained = " and ".join(f"{settings[name]:,} {name.replace('_', ' ')}" for name in budgets)
    return (
        f"dry run: {jobs} trainings on {', '.join(settings['datasets'])}; {trained}, "
        f"{settings['evaluations']} evaluations; about {jobs * job / 3600:,.1f} hours on {device}, "
        f"more where episodes grow longer as policies learn"
    )


def _short(preset: Preset) -> str:
    return preset.name.rpartition("-")[0]


def _domain(name: str) -> str:
    return name.split("-")[0]


#: An experiment with the replicates and the data of the deep ones.
deep_experiment = partial(Experiment, replicates=5, quick_replicates=2, find=find)
