"""The paper's twelve D4RL tasks by name: data, environments and scores.

D4RL's files and Minari's data sets are not included: `Preset.load` reads local copies, and its error
says where to get them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tailproof.deep.settings import Evaluation, require_module
from tailproof.errors import TailproofError
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

_KITCHEN_INSTALL = "'mujoco<3.4' gymnasium-robotics"
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
    """

    name: str
    environment: str
    d4rl: str
    minari: str | None
    domain: str

    def load(self, source: str | Path | None = None) -> Log:
        """Read the task's data.

        Parameters
        ----------
        source
            D4RL's HDF5 file or its folder; by default the local Minari data set.
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
            return read_d4rl(path)
        if self.minari is None:
            raise TailproofError(
                f"Minari has no data set for {self.name}. Give load the path of D4RL's {self.d4rl}."
            )
        from tailproof.io.minari import read_minari

        return read_minari(self.minari)

    def make(self) -> Environment:
        """Return the environment."""
        if self.domain == "kitchen":
            return _make_kitchen(self.environment, self.name)
        return make_environment(self.environment)

    def evaluation(self, *, every: int = 5_000, episodes: int = 10, seed: int = 0) -> Evaluation:
        """Return the paper's evaluation: every 5,000 steps over 10 episodes, as a score."""
        return Evaluation(
            environment=self.make,
            score=scorer(self.domain),
            every=every,
            episodes=episodes,
            seed=seed,
        )

    def score(self, policy: StatePolicy, *, episodes: int = 10, seed: int = 0) -> float:
        """Return the policy's normalised score, 0 for random and 100 for an expert."""
        returns = play(self.make, policy, episodes=episodes, seed=seed)
        return normalised(self.domain, float(returns.mean()))


def _make_kitchen(environment: str, name: str) -> Environment:
    """Return the kitchen environment with flattened observations, as in the Minari logs."""
    robotics = require_module("gymnasium_robotics", _KITCHEN_INSTALL, "Kitchen tasks")
    import gymnasium

    gymnasium.register_envs(robotics)
    try:
        made = gymnasium.make(environment, tasks_to_complete=_KITCHEN[name.split("-")[1]][0])
    except Exception as error:
        raise TailproofError(
            f"{environment} could not be made ({type(error).__name__}: {error}). It is known to work "
            f"with mujoco 3.3 and to fail with 4.0: pip install {_KITCHEN_INSTALL}."
        ) from error
    flat: Environment = gymnasium.wrappers.FlattenObservation(made)
    return flat


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
