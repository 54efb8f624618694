"""Importance weights of the first steps as a witness of the critics."""

from types import SimpleNamespace

import numpy as np
import pytest

from tailproof import Log
from tailproof.critics.task import Target, Task
from tailproof.estimators.sequential import _weighed

EPISODES, STEPS = 40, 3


class Half:
    """Takes either of two actions with probability one half."""

    def probabilities(self, states):
        return np.full((len(states), 2), 0.5)


@pytest.fixture
def log(rng) -> Log:
    n = EPISODES * STEPS
    states = rng.normal(size=(n, 1))
    return Log.from_arrays(
        states, rng.integers(2, size=n), rng.normal(size=n), states,
        episode=np.repeat(range(EPISODES), STEPS), propensity=np.full(n, 0.5),
    )  # fmt: skip


def weighed(log: Log, residuals) -> tuple[float, float]:
    target = Target.of(Task(log, 0.9, Half(), log.first_states))
    blend = SimpleNamespace(residuals=lambda rewards: residuals)
    return _weighed(target, blend, log.rewards)


def test_critics_without_residuals_are_not_corrected(log):
    assert weighed(log, np.zeros(log.n_transitions)) == (0.0, 0.0)


def test_without_propensities_there_is_no_witness(log, rng):
    bare = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states, episode=log.episode_of_row
    )
    assert weighed(bare, rng.normal(size=log.n_transitions)) == (0.0, 0.0)


def test_for_the_logged_behaviour_it_is_the_mean_discounted_sum_of_residuals(log, rng):
    residuals = rng.normal(size=log.n_transitions)
    sums = residuals.reshape(EPISODES, STEPS) @ 0.9 ** np.arange(STEPS)
    mean, error = weighed(log, residuals)
    assert mean == pytest.approx(sums.mean())
    assert error == pytest.approx(sums.std() / np.sqrt(EPISODES))
