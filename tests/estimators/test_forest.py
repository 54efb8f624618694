import numpy as np
import pytest

from tailproof import Log
from tailproof.critics.forest import cross_fit_forests
from tailproof.critics.task import Target, Task
from tailproof.worlds import TabularMDP


@pytest.fixture(scope="module")
def task():
    world = TabularMDP.random(states=6, actions=2, seed=3)
    log = world.log(60, 40, seed=1)
    policy = world.optimal(gamma=0.9)
    return world, Task(log, 0.9, policy)


def test_occupancy_is_never_negative_and_has_the_mass_of_the_horizon(task):
    _, asked = task
    found = cross_fit_forests(Target.of(asked), asked.log.rewards)
    assert (found.occupancy >= 0).all()
    assert found.occupancy.mean() == pytest.approx(10.0, rel=0.02)
    assert found.lost < 0.05


def test_values_stay_within_the_range_of_the_rewards(task):
    _, asked = task
    rewards = asked.log.rewards
    found = cross_fit_forests(Target.of(asked), rewards)
    for values in (found.values, found.next_values, found.first_values):
        assert values.min() >= rewards.min() / 0.1 - 1e-4
        assert values.max() <= rewards.max() / 0.1 + 1e-4


def test_constant_rewards_have_constant_values(task):
    _, asked = task
    found = cross_fit_forests(Target.of(asked), np.ones(asked.log.n_transitions))
    np.testing.assert_allclose(found.values, 10.0, rtol=1e-5)


def test_the_value_of_a_table_is_found(task):
    world, asked = task
    found = cross_fit_forests(Target.of(asked), asked.log.rewards)
    truth = world.value(asked.policy, gamma=0.9)
    assert found.first_values.mean() == pytest.approx(truth, abs=0.15 * abs(truth) + 0.3)


def test_a_part_in_which_every_episode_ends_at_once_has_values_too(rng):
    n = 90
    log = Log.from_arrays(
        rng.normal(size=(n, 2)), rng.integers(2, size=n), rng.normal(size=n),
        rng.normal(size=(n, 2)), episode=np.arange(n), terminated=np.ones(n, dtype=bool),
    )  # fmt: skip
    found = cross_fit_forests(
        Target.of(Task(log, 0.9, lambda s: (s[:, 0] > 0).astype(int))), log.rewards
    )
    assert (found.next_values == 0).all()
    assert np.isfinite(found.values).all()
