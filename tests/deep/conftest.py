"""Small logs whose good actions are known."""

import numpy as np
import pytest

from tailproof import Continuous, Log
from tailproof.critics.task import Task


def make_log(n=600, episodes=12, discrete=False, seed=0):
    """One-step rewards for matching the sign of the state, in a drifting random world."""
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((n, 3))
    following = 0.5 * states + 0.1 * rng.standard_normal((n, 3))
    lengths = n // episodes - episodes // 2 + np.arange(episodes)  # no two end at the same step
    lengths[-1] += n - lengths.sum()
    episode = np.repeat(np.arange(episodes), lengths)
    ends = np.append(episode[1:] != episode[:-1], True)
    if discrete:
        actions = rng.integers(3, size=n)
        rewards = np.where(actions == np.digitize(states[:, 0], [-0.5, 0.5]), 1.0, -1.0)
        return Log.from_arrays(
            states,
            actions,
            rewards,
            following,
            episode=episode,
            terminated=ends & (episode % 2 == 0),
        )
    actions = rng.uniform(-1, 1, (n, 2))
    rewards = -((actions[:, 0] - np.tanh(states[:, 0])) ** 2)
    return Log.from_arrays(
        states,
        actions,
        rewards,
        following,
        episode=episode,
        terminated=ends & (episode % 2 == 0),
        action_space=Continuous(2, (-1.0, -1.0), (1.0, 1.0)),
    )


@pytest.fixture(scope="session")
def log():
    return make_log()


@pytest.fixture(scope="session")
def discrete_log():
    return make_log(discrete=True)


@pytest.fixture(scope="session")
def task(log):
    return Task(log, 0.9, None, log.first_states)


@pytest.fixture(scope="session")
def discrete_task(discrete_log):
    return Task(discrete_log, 0.9, None, discrete_log.first_states)
