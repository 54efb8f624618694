"""The paper's twelve D4RL tasks by name: data, environments and scores.

D4RL's files and Minari's data sets are not included: `Preset.load` reads local copies, and its error
says where to get them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.settings import Evaluation
from tailproof.errors import TailproofError, require_module
from tailproof.log.log import Log
from tailproof.worlds.environments import (
    Environment,
    StatePolicy,
    make_environment,
    normalised,
    play,
    scorer,
)

#: The environment of each domain's logs, in its original version.
ENVIRONMENTS = {
    "hopper": "Hopper-v4",
    "halfcheetah": "HalfCheetah-v4",
    "walker2d": "Walker2d-v4",
    "pendulum": "Pendulum-v1",
}

_POSITIONS = 30  # of robot and objects, in D4RL's kitchen files
_D4RL_KITCHEN = 60  # entries of their observations
_KITCHEN_INSTALL = "'mujoco<3.12' gymnasium-robotics"
_FIRST = ["microwave", "kettle", "light switch", "slide cabinet"]
_KITCHEN = {  # subtasks, and D4RL's file
    "complete": (_FIRST, "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"),
    "partial": (_FIRST, "kitchen_microwave_kettle_light_slider-v0.hdf5"),
    "mixed": (
        ["microwave", "kettle", "bottom burner", "light switch"],
        "kitchen_microwave_kettle_bottomburner_light-v0.hdf5",
    ),
}


@dataclass(frozen=True)
class Preset:
    """One task of the paper.

    Attributes
    ----------
    name
        D4RL's name, such as ``"hopper-medium-v2"``.
    environment
        The Gymnasium id of the environment for evaluation.
    d4rl
        The name of D4RL's HDF5 file.
    minari
        The id of the Minari data set, if there is one.
    domain
        The domain whose reference returns normalise the score.
    max_steps
        The time limit, which ends episodes in files without `timeouts`.
    """

    name: str
    environment: str
    d4rl: str
    minari: str | None
    domain: str
    max_steps: int = 1000

    def load(self, source: str | Path | None = None, *, max_steps: int | None = None) -> Log:
        """Read the task's data.

        Parameters
        ----------
        source
            D4RL's HDF5 file or its folder; by default the local Minari data set.
        max_steps
            The time limit of a file without `timeouts`; by default the task's.
        """
        if source is not None:
            from tailproof.io import read_d4rl

            path = Path(source)
            path = path / self.d4rl if path.is_dir() else path
            if not path.exists():
                raise TailproofError(
                    f"{self.name} needs D4RL's file {self.d4rl}. There is none at {path}; download "
                    f"it from D4RL and give its path or folder."
                )
            return read_d4rl(path, max_steps=max_steps or self.max_steps)
        if self.minari is None:
            raise TailproofError(
                f"Minari has no data set for {self.name}. Give load the path of D4RL's {self.d4rl}."
            )
        from tailproof.io.minari import read_minari

        return read_minari(self.minari)

    def make(self, like: Log | None = None) -> Environment:
        """Return the environment, of kitchen tasks with the observations of the log `like`."""
        if self.domain == "kitchen":
            return _make_kitchen(self.environment, self.name, like)
        return make_environment(self.environment)

    def evaluation(
        self,
        *,
        every: int = 5_000,
        episodes: int = 10,
        seed: int = 0,
        like: Log | None = None,
    ) -> Evaluation:
        """Return the paper's evaluation: every 5,000 steps over 10 episodes, as a score.

        `like` is the log that the policy is learned from; see `make`.
        """
        return Evaluation(
            environment=partial(self.make, like),
            score=scorer(self.domain),
            every=every,
            episodes=episodes,
            seed=seed,
        )

    def score(
        self, policy: StatePolicy, *, episodes: int = 10, seed: int = 0, like: Log | None = None
    ) -> float:
        """Return the policy's normalised score, 0 for random and 100 for an expert.

        `like` is the log that the policy was learned from; see `make`.
        """
        returns = play(partial(self.make, like), policy, episodes=episodes, seed=seed)
        return normalised(self.domain, float(returns.mean()))


def _make_kitchen(environment: str, name: str, like: Log | None) -> Environment:
    return kitchen_like(kitchen_environment(environment, name), like)


def kitchen_environment(environment: str, name: str) -> Any:
    """Return the kitchen environment of a task, whose observations are dictionaries."""
    robotics = require_module("gymnasium_robotics", _KITCHEN_INSTALL, "A kitchen task")
    import gymnasium

    gymnasium.register_envs(robotics)
    subtasks = _KITCHEN[name.split("-")[1]][0]
    try:
        # The checker would warn that the environment changes observations that it has returned.
        return gymnasium.make(environment, tasks_to_complete=subtasks, disable_env_checker=True)
    except Exception as error:
        raise TailproofError(
            f"{environment} could not be made ({type(error).__name__}: {error}). It works with mujoco "
            f"3.3 to 3.11 and fails from 3.12 on: pip install {_KITCHEN_INSTALL}."
        ) from error


def kitchen_like(made: Any, like: Log | None) -> Environment:
    """Return a kitchen environment with the observations of a log.

    The environment's are a dictionary; flattened they have 81 entries, of the mixed task 83, as in
    Minari's logs. D4RL's files have 60, see `positions`; their goal is the same in every row.
    """
    import gymnasium

    flat: Environment
    if like is None or like.states.shape[1] != _D4RL_KITCHEN:
        flat = gymnasium.wrappers.FlattenObservation(made)
        return flat
    goal = like.states[0, _POSITIONS:]
    space = gymnasium.spaces.Box(-np.inf, np.inf, (_D4RL_KITCHEN,))
    flat = gymnasium.wrappers.TransformObservation(made, partial(positions, goal=goal), space)
    return flat


def positions(observation: dict[str, FloatArray], goal: FloatArray) -> FloatArray:
    """Return a kitchen's observation as D4RL's files have it, (60,), without velocities.

    These are nine positions of the robot, 21 of the objects, and 30 of the goal.
    """
    entries = observation["observation"]  # positions, velocities: robot (9, 9), objects (21, 20)
    return np.concatenate([entries[:9], entries[18:39], goal])


_LOCOMOTION = [
    Preset(
        name=f"{domain}-{quality}-v2",
        environment=ENVIRONMENTS[domain],
        d4rl=f"{domain}_{quality.replace('-', '_')}-v2.hdf5",
        minari=None if quality == "medium-replay" else f"mujoco/{domain}/{quality}-v0",
        domain=domain,
    )
    for domain in ("hopper", "halfcheetah", "walker2d")
    for quality in ("expert", "medium", "medium-replay")
]
_KITCHENS = [
    Preset(
        name=f"kitchen-{quality}-v0",
        environment="FrankaKitchen-v1",
        d4rl=file,
        minari=f"D4RL/kitchen/{quality}-v2",
        domain="kitchen",
        max_steps=280,
    )
    for quality, (_, file) in _KITCHEN.items()
]
PRESETS: dict[str, Preset] = {each.name: each for each in (*_LOCOMOTION, *_KITCHENS)}


def preset(name: str) -> Preset:
    """Return one of the paper's twelve tasks.

    Examples
    --------
    >>> preset("hopper-medium-replay-v2").d4rl
    'hopper_medium_replay-v2.hdf5'
    >>> len(PRESETS)
    12
    """
    if name not in PRESETS:
        raise TailproofError(f"There is no preset {name!r}. Known are {', '.join(PRESETS)}.")
    return PRESETS[name]
