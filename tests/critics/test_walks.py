"""Where a policy leads: out of the log or not, known from how the world drifts."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from tailproof import Log, compare, evaluate
from tailproof.critics.task import Target, Task
from tailproof.critics.walks import Neighbours, visits
from tailproof.errors import CoverageWarning, LevelError
from tailproof.policies.binding import for_log

GAMMA = 0.95


def drifting(*, episodes=60, steps=40, seed=0, continuous=False):
    """Draw a level that rises by 0.3 a step unless it is pushed back, which the log does above 1."""
    rng = np.random.default_rng(seed)
    level, rows = rng.normal(0, 0.5, episodes), []
    for _ in range(steps):
        push = rng.random(episodes) < np.where(level > 1, 0.95, 0.3)
        after = np.where(push, level - 0.9, level + 0.3) + 0.1 * rng.standard_normal(episodes)
        rows.append((level, push, -(level**2) + rng.standard_normal(episodes), after))
        level = after
    states, push, rewards, after = (np.stack(each, 1).ravel() for each in zip(*rows, strict=True))
    actions = push.astype(float)[:, None] if continuous else push.astype(int)
    episode = np.repeat(np.arange(episodes), steps)
    space = None if continuous else 2
    return Log.from_arrays(states, actions, rewards, after, episode=episode, action_space=space)


def never(states):
    """Never push."""
    return np.zeros(len(states), dtype=int)


def above_one(states):
    """Push above 1."""
    return (states[:, 0] > 1).astype(int)


def led(log, policy):
    return visits(Target.of(Task(log, GAMMA, for_log(policy, log), log.first_states)))


def test_a_policy_that_never_returns_leaves_the_log_and_others_do_not():
    log = drifting()
    assert led(log, never).unlike > 0.3
    assert led(log, above_one).unlike < 0.02
    steps = led(log, above_one).steps  # nothing ends, and 5 % of the future are left out
    assert steps == pytest.approx(0.95 / (1 - GAMMA), rel=0.02)


def test_continuous_actions_lead_to_the_same_places():
    log = drifting(continuous=True)
    assert led(log, lambda s: np.zeros((len(s), 1))).unlike > 0.3
    assert led(log, lambda s: (s[:, :1] > 1).astype(float)).unlike < 0.02


def test_units_order_of_episodes_and_labels_do_not_matter():
    log = drifting(episodes=30)
    found = led(log, never)
    order = np.random.default_rng(3).permutation(log.n_episodes)
    changed = Log.from_arrays(
        100 * log.states,
        1 - log.actions,
        log.rewards,
        100 * log.next_states,
        episode=order[log.episode_of_row],
        action_space=2,
    )
    assert led(changed, lambda s: 1 - never(s)) == pytest.approx(found, abs=1e-9)


def test_an_answer_about_a_policy_that_leaves_the_log_is_void():
    log = drifting()
    with pytest.warns(CoverageWarning):
        estimate = evaluate(log, never, gamma=GAMMA)
    assert estimate.verdict.reasons == ("leaves_log",)
    with pytest.raises(LevelError):
        estimate.lower_bound(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        found = compare(log, {"never": never, "above one": above_one}, gamma=GAMMA)
    words = {each.name: str(each.verdict) for each in found.candidates}
    assert words["never"] == "cannot tell"


def test_neighbours_in_many_columns_are_those_of_a_tree():
    rng = np.random.default_rng(0)
    rows, points = rng.normal(size=(300, 40)), rng.normal(size=(20, 40))
    points[:3] = rows[:3]
    distance, near = Neighbours.of(rows)._replace(tree=None).nearest(points, 5)
    expected, known = cKDTree(rows).query(points, k=range(1, 6))
    assert_allclose(distance, expected, atol=1e-12)
    assert near.tolist() == known.tolist()
    assert Neighbours.of(rows[:3])._replace(tree=None).nearest(points, 3)[1].shape == (20, 3)


def test_values_that_an_action_sets_are_not_added_to(rng):
    """Days since a purchase are 0 after one, wherever the walk comes from."""
    steps, rows = np.arange(3_000), []
    x, days = rng.normal(size=(3_000, 2)), 0.0
    for step in steps:
        buys = int(rng.random() < 0.05)
        after = 0.0 if buys else days + 1
        rows.append((x[step, 0], days, buys, x[step, 1], after))
        days = rng.integers(0, 60) if step % 20 == 19 else after
    table = np.array(rows)
    log = Log.from_arrays(
        table[:, :2], table[:, 2].astype(int), np.zeros(3_000), table[:, 3:], episode=steps // 20
    )
    assert led(log, lambda states: np.ones(len(states), dtype=int)).unlike < 0.01
