"""The paper's continuous-control tasks by name, with the genuine data where the user has it.

No torch here. D4RL's files and Minari's data sets are not shipped: `Preset.load` reads what is on
this machine and otherwise says where it is to be had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailproof.data.log import Log
from tailproof.deep.environments import make, play
from tailproof.deep.scores import normalised, scorer
from tailproof.deep.settings import Evaluation, require_module
from tailproof.errors import TailproofError

_NAMES = {"hopper": "Hopper", "halfcheetah": "HalfCheetah", "walker2d": "Walker2d"}
_KITCHEN_INSTALL = "'mujoco<3.4' gymnasium-robotics"
_KITCHEN = {
    "complete": ["microwave", "kettle", "light switch", "slide cabinet"],
    "partial": ["microwave", "kettle", "light switch", "slide cabinet"],
    "mixed": ["microwave", "kettle", "bottom burner", "light switch"],
}
_MINARI = {"expert": "expert", "medium": "medium", "medium-replay": None}


@dataclass(frozen=True)
class Preset:
    """One task of the paper.

    Attributes
    ----------
    name
        D4RL's, such as ``"hopper-medium-v2"``.
    environment
        The Gymnasium id in which its policies are judged.
    d4rl
        The name of D4RL's HDF5 file.
    minari
        The id of the Minari data set, where Minari has one.
    domain
        Whose reference returns normalise the score.
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
            D4RL's HDF5 file or the folder it is in; by default the Minari data set on this machine.
        """
        if source is not None:
            from tailproof.sources import read_d4rl

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
        from tailproof.sources.minari import read_minari

        return read_minari(self.minari)

    def make(self) -> Any:
        """Return the environment."""
        if self.domain == "kitchen":
            return _make_kitchen(self.environment, self.name)
        return make(self.environment)

    def evaluation(self, *, every: int = 5_000, episodes: int = 10, seed: int = 0) -> Evaluation:
        """Return the paper's evaluation: every 5,000 steps over 10 episodes, as a score."""
        return Evaluation(
            environment=self.make,
            every=every,
            episodes=episodes,
            seed=seed,
            score=scorer(self.domain),
        )

    def score(self, policy: Callable[..., Any], *, episodes: int = 10, seed: int = 0) -> float:
        """Return the policy's normalised score, 0 for random and 100 for an expert."""
        returns = play(self.make, policy, episodes=episodes, seed=seed)
        return normalised(self.domain, float(returns.mean()))


def _make_kitchen(environment: str, name: str) -> Any:
    """Return the kitchen with its observation flattened, as Minari's data are read."""
    robotics = require_module("gymnasium_robotics", _KITCHEN_INSTALL, "Kitchen tasks")
    import gymnasium

    gymnasium.register_envs(robotics)
    try:
        made = gymnasium.make(environment, tasks_to_complete=_KITCHEN[name.split("-")[1]])
    except Exception as error:
        raise TailproofError(
            f"{environment} could not be made ({type(error).__name__}: {error}). It is known to work "
            f"with mujoco 3.3 and to fail with 4.0: pip install {_KITCHEN_INSTALL}."
        ) from error
    return gymnasium.wrappers.FlattenObservation(made)


def _presets() -> dict[str, Preset]:
    found = []
    for domain, title in _NAMES.items():
        for quality, minari in _MINARI.items():
            found.append(
                Preset(
                    name=f"{domain}-{quality}-v2",
                    environment=f"{title}-v4",
                    d4rl=f"{domain}_{quality.replace('-', '_')}-v2.hdf5",
                    minari=None if minari is None else f"mujoco/{domain}/{minari}-v0",
                    domain=domain,
                )
            )
    for quality, file in (
        ("complete", "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"),
        ("partial", "kitchen_microwave_kettle_light_slider-v0.hdf5"),
        ("mixed", "kitchen_microwave_kettle_bottomburner_light-v0.hdf5"),
    ):
        found.append(
            Preset(
                name=f"kitchen-{quality}-v0",
                environment="FrankaKitchen-v1",
                d4rl=file,
                minari=f"D4RL/kitchen/{quality}-v2",
                domain="kitchen",
            )
        )
    return {preset.name: preset for preset in found}


PRESETS: dict[str, Preset] = _presets()


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
