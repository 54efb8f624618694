"""Environments, D4RL's normalised scores (Fu et al., 2020), and the paper's tasks by name.

No torch here. D4RL's files and Minari's data sets are not included: `Preset.load` reads local copies,
and its error says where to get them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.settings import Evaluation, require_count, require_module
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.log.spaces import ActionSpace, Discrete

#: The environment of each domain's logs, in its original version.
ENVIRONMENTS = {
    "hopper": "Hopper-v4",
    "halfcheetah": "HalfCheetah-v4",
    "walker2d": "Walker2d-v4",
    "pendulum": "Pendulum-v1",
}


def play(
    environment: str | Callable[[], Any],
    policy: Callable[[FloatArray], Any],
    *,
    episodes: int = 10,
    seed: int = 0,
    limit: int = 100_000,
) -> FloatArray:
    """Return the undiscounted return of each episode, (episodes,).

    All episodes run in parallel, with one policy call per step. Episode i starts from seed + i, so
    that all policies have the same initial states.

    Parameters
    ----------
    environment
        A Gymnasium id, or a callable that makes an environment.
    policy
        States (n, p) to actions (n,) or (n, q).
    limit
        Largest number of steps per episode, for environments that never end.

    Examples
    --------
    >>> import numpy as np
    >>> left_and_right = lambda states: (states[:, 2] > 0).astype(int)
    >>> play("CartPole-v1", left_and_right, episodes=3).shape
    (3,)
    """
    require_count("episodes", episodes)
    made = [make_environment(environment) for _ in range(episodes)]
    try:
        first = [env.reset(seed=seed + i)[0] for i, env in enumerate(made)]
        states = np.stack([np.asarray(each, dtype=float).ravel() for each in first])
        returns = np.zeros(episodes)
        active = np.arange(episodes)
        for _ in range(limit):
            actions = np.asarray(policy(states[active]))
            over = np.zeros(len(active), dtype=bool)
            for place, (episode, action) in enumerate(zip(active, actions, strict=True)):
                state, reward, terminated, truncated, _ = made[episode].step(action)
                states[episode] = state
                returns[episode] += float(reward)
                over[place] = terminated or truncated
            active = active[~over]
            if len(active) == 0:
                break
    finally:
        for env in made:
            env.close()
    return returns


def make_environment(environment: str | Callable[[], Any]) -> Any:
    """Return an environment, without warnings that its version is out of date."""
    if callable(environment):
        return environment()
    import gymnasium

    known = gymnasium.registry.get(environment)  # None before its module is imported
    with warnings.catch_warnings(), _mujoco_unheard(str(known and known.entry_point)):
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        try:
            return gymnasium.make(environment)
        except (gymnasium.error.Error, ImportError) as error:
            said = (
                f"There is no world or Gymnasium environment {environment!r}: {error} `tailproof data "
                f"list` names the worlds; MuJoCo needs pip install 'tailproof[mujoco]'."
            )
            raise TailproofError(said) from error


def require_alike(environment: str | Callable[[], Any], states: int, actions: ActionSpace) -> None:
    """Raise unless an environment has observations and actions like those of a log.

    Parameters
    ----------
    states
        Number of state variables.
    actions
        The log's action space.
    """
    made = make_environment(environment)
    seen, taken = (getattr(made, f"{each}_space", None) for each in ("observation", "action"))
    made.close()
    if seen is None or taken is None:  # a callable's environment need not tell
        return
    if isinstance(actions, Discrete):
        fits = getattr(taken, "n", 0) >= actions.n
    else:
        fits = not hasattr(taken, "n") and prod(taken.shape or ()) == actions.dimension
    if not fits or seen.shape is None or prod(seen.shape) != states:
        raise TailproofError(
            f"The policy maps {states} state variables to {actions}. The environment has observations "
            f"{seen} and actions {taken}; name the one that the log comes from."
        )


@contextmanager
def _mujoco_unheard(entry_point: str) -> Iterator[None]:
    """Suppress MuJoCo's warnings, on the terminal and in MUJOCO_LOG.TXT, about old models."""
    if ".mujoco" not in entry_point or find_spec("mujoco") is None:
        yield
        return
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(
        lambda text: None if "deprecated" in text else warnings.warn(text, stacklevel=2)
    )
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


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

    def make(self) -> Any:
        """Return the environment."""
        if self.domain == "kitchen":
            return _make_kitchen(self.environment, self.name)
        return make_environment(self.environment)

    def evaluation(self, *, every: int = 5_000, episodes: int = 10, seed: int = 0) -> Evaluation:
        """Return the paper's evaluation: every 5,000 steps over 10 episodes, as a score."""
        given = {"every": every, "episodes": episodes, "seed": seed}
        return Evaluation(environment=self.make, score=scorer(self.domain), **given)

    def score(self, policy: Callable[..., Any], *, episodes: int = 10, seed: int = 0) -> float:
        """Return the policy's normalised score, 0 for random and 100 for an expert."""
        returns = play(self.make, policy, episodes=episodes, seed=seed)
        return normalised(self.domain, float(returns.mean()))


def _make_kitchen(environment: str, name: str) -> Any:
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
    return gymnasium.wrappers.FlattenObservation(made)


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


#: Returns of a random policy and of an expert; for locomotion and kitchen those published by D4RL, for
#: the pendulum our own: uniformly random torques, and our best policy.
REFERENCE: dict[str, tuple[float, float]] = {
    "hopper": (-20.272305, 3234.3),
    "halfcheetah": (-280.178953, 12135.0),
    "walker2d": (1.629008, 4592.3),
    "kitchen": (0.0, 4.0),
    "pendulum": (-1200.0, -130.0),
}


def normalised(domain: str, mean_return: float) -> float:
    """Return 100·(J − random) / (expert − random).

    Examples
    --------
    >>> round(normalised("hopper", 3234.3), 1), round(normalised("halfcheetah", -280.178953), 1)
    (100.0, 0.0)
    """
    if domain not in REFERENCE:
        raise TailproofError(
            f"domain must be one of {', '.join(REFERENCE)}. Got {domain!r} instead."
        )
    random, expert = REFERENCE[domain]
    return 100 * (mean_return - random) / (expert - random)


def scorer(domain: str) -> Callable[[float], float]:
    """Return the function from mean return to normalised score in this domain, for `Evaluation`."""
    normalised(domain, 0.0)
    return partial(normalised, domain)


@dataclass(frozen=True)
class Score:
    """The returns of a policy in an environment.

    Attributes
    ----------
    returns
        The undiscounted return of each episode, (episodes,).
    domain
        The domain of the reference returns for `normalised`; None if there are none.
    """

    returns: FloatArray
    domain: str | None = None

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over these episodes; it excludes variation of training seeds."""
        count = len(self.returns)
        return float(self.returns.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")

    @property
    def normalised(self) -> float:
        """D4RL's score, 0 for random and 100 for an expert; NaN without reference returns."""
        return float("nan") if self.domain is None else normalised(self.domain, self.mean)

    @property
    def normalised_error(self) -> float:
        """The standard error of `normalised`."""
        if self.domain is None:
            return float("nan")
        random, expert = REFERENCE[self.domain]
        return 100 * self.standard_error / (expert - random)

    def __str__(self) -> str:
        if len(self.returns) == 1:
            return f"{self.mean:.4g} in one episode"
        text = f"{self.mean:.4g} ± {self.standard_error:.2g} over {len(self.returns)} episodes"
        if self.domain is not None:
            text += f" (normalised {self.normalised:.1f} ± {self.normalised_error:.1f})"
        return text


def score_of(
    environment: str | Callable[[], Any],
    policy: Callable[[FloatArray], Any],
    *,
    episodes: int = 20,
    seed: int = 0,
) -> Score:
    """Run a policy in an environment and return its score with standard error.

    Examples
    --------
    >>> print(score_of("CartPole-v1", lambda states: (states[:, 2] > 0).astype(int), episodes=5))
    37.6 ± 4.2 over 5 episodes
    """
    domain = None
    if isinstance(environment, str):
        name = environment.rpartition(":")[2].rpartition("-v")[0].lower()
        domain = name if name in REFERENCE else None
    return Score(play(environment, policy, episodes=episodes, seed=seed), domain)
