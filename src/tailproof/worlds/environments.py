"""Gymnasium environments: run a policy in one, and score its returns as D4RL does (Fu et al., 2020)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Protocol, SupportsFloat, runtime_checkable

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import TailproofError
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.parameters import COUNT, OneOf, require

if TYPE_CHECKING:
    import gymnasium


Step = tuple[AnyArray, SupportsFloat, bool, bool, Mapping[str, object]]


class Environment(Protocol):
    """What an environment must provide to run a policy in it; a `gymnasium.Env` does."""

    def reset(self, *, seed: int) -> tuple[AnyArray, Mapping[str, object]]:
        """Start an episode; return the first state and information."""

    def step(self, action: AnyArray) -> Step:
        """Return state, reward, whether the episode terminated or was truncated, and information."""

    def close(self) -> None:
        """End the environment."""


@runtime_checkable
class HasSpaces(Protocol):
    """An environment that tells its spaces."""

    observation_space: gymnasium.Space[AnyArray]
    action_space: gymnasium.Space[AnyArray]


#: A Gymnasium id such as ``"Hopper-v5"``, or a callable that makes an environment.
EnvironmentSource = str | Callable[[], Environment]
#: States (n, p) to actions (n,) or (n, q).
StatePolicy = Callable[[FloatArray], AnyArray]


def play(
    environment: EnvironmentSource,
    policy: StatePolicy,
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
    require(COUNT, TailproofError, episodes=episodes)
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


def make_environment(environment: EnvironmentSource) -> Environment:
    """Return an environment by name or from its callable."""
    return gymnasium_environment(environment) if isinstance(environment, str) else environment()


def gymnasium_environment(name: str) -> gymnasium.Env[AnyArray, AnyArray]:
    """Return a Gymnasium environment, without warnings that its version is out of date."""
    import gymnasium

    known = gymnasium.registry.get(name)  # None before its module is imported
    with warnings.catch_warnings(), _quiet_mujoco(str(known and known.entry_point)):
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        try:
            return gymnasium.make(name)
        except (gymnasium.error.Error, ImportError) as error:
            raise TailproofError(
                f"There is no world or Gymnasium environment {name!r}: {error} `tailproof data "
                f"list` names the worlds; MuJoCo needs pip install 'tailproof[mujoco]'."
            ) from error


def require_matching(environment: EnvironmentSource, states: int, actions: ActionSpace) -> None:
    """Raise unless an environment has observations and actions like those of a log.

    Parameters
    ----------
    states
        Number of state variables.
    actions
        The log's action space.
    """
    import gymnasium

    made = make_environment(environment)
    made.close()
    if not isinstance(made, HasSpaces):  # a callable's environment need not tell
        return
    observations, taken = made.observation_space, made.action_space
    if isinstance(actions, Discrete):
        fits = isinstance(taken, gymnasium.spaces.Discrete) and int(taken.n) >= actions.n
    else:
        discrete = isinstance(taken, gymnasium.spaces.Discrete)
        fits = not discrete and prod(taken.shape or ()) == actions.dimension
    if not fits or observations.shape is None or prod(observations.shape) != states:
        raise TailproofError(
            f"The policy maps {states} state variables to {actions}. The environment has observations "
            f"{observations} and actions {taken}; name the one that the log comes from."
        )


@contextmanager
def _quiet_mujoco(entry_point: str) -> Iterator[None]:
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
    require(OneOf(*REFERENCE), TailproofError, domain=domain)
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
    environment: EnvironmentSource,
    policy: StatePolicy,
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
