"""Playing a policy in a Gymnasium environment, episodes side by side. No torch here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.settings import require_count

#: The environment that each domain's logs come from, in the version that they were made in.
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

    All episodes run side by side, so that a step calls the policy once. Episode i starts from
    seed + i: the same seed gives the same starts to every policy.

    Parameters
    ----------
    environment
        A Gymnasium id, or a callable that makes an environment.
    policy
        States (n, p) to actions (n,) or (n, q).
    limit
        Most steps of an episode, for environments that never end.

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
    """Return an environment; one made with an older version is judged in that version."""
    if callable(environment):
        return environment()
    import gymnasium

    known = gymnasium.registry.get(environment)  # not yet if its module is still to be imported
    with warnings.catch_warnings(), _mujoco_unheard(str(known and known.entry_point)):
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        return gymnasium.make(environment)


@contextmanager
def _mujoco_unheard(entry_point: str) -> Iterator[None]:
    """Keep MuJoCo from telling terminal and a MUJOCO_LOG.TXT that Gymnasium's models are old."""
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
