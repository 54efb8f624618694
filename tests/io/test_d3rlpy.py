"""d3rlpy both ways, with stand-ins that have the attributes of its 2.8 classes."""

from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.battery.rivals import to_d3rlpy
from tailproof import Log
from tailproof.errors import LogError
from tailproof.io import from_d3rlpy, read, read_log


class ActionSpace(Enum):
    """As d3rlpy.constants.ActionSpace."""

    CONTINUOUS = 1
    DISCRETE = 2


@dataclass
class Episode:
    """As d3rlpy.dataset.Episode."""

    observations: Any
    actions: Any
    rewards: Any
    terminated: bool


def dataset(observations, actions, rewards, terminals, timeouts, action_size=1):
    """Cut arrays into episodes as d3rlpy's MDPDataset does."""
    ends = np.flatnonzero(np.asarray(terminals) + np.asarray(timeouts)) + 1
    starts = [0, *ends[:-1]]
    actions = np.asarray(actions)
    kind = ActionSpace.DISCRETE if actions.dtype.kind == "i" else ActionSpace.CONTINUOUS
    episodes = [
        Episode(
            observations[a:b],
            actions[a:b].reshape(b - a, -1),
            np.asarray(rewards)[a:b].reshape(-1, 1),
            bool(terminals[b - 1]),
        )
        for a, b in zip(starts, ends, strict=True)
    ]
    info = SimpleNamespace(action_space=kind, action_size=action_size)
    return SimpleNamespace(episodes=episodes, dataset_info=info)


@st.composite
def chained_logs(draw):
    """Logs whose next states are the next rows' states, as d3rlpy has them."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    discrete = draw(st.booleans())
    states, after = [], []
    for length in lengths:
        path = rng.normal(size=(length + 1, 2))
        states.append(path[:-1])
        after.append(path[1:])
    n = sum(lengths)
    ends = np.cumsum(lengths) - 1
    terminated = np.zeros(n, dtype=bool)
    terminated[ends] = rng.integers(0, 2, len(ends))
    return Log.from_arrays(
        np.concatenate(states),
        rng.integers(0, 3, n) if discrete else rng.normal(size=(n, 2)),
        rng.standard_t(1, n),
        np.concatenate(after),
        episode=np.repeat(np.arange(len(lengths)), lengths),
        terminated=terminated,
        action_space=4 if discrete else None,
    )


@settings(max_examples=60, deadline=None)
@given(log=chained_logs())
def test_there_and_back_gives_the_same_transitions(log):
    again = from_d3rlpy(dataset(**to_d3rlpy(log)))
    for part in ("states", "actions", "rewards", "terminated", "truncated", "starts"):
        assert (getattr(again, part) == getattr(log, part)).all()
    on = ~log.terminated
    assert (again.next_states[on] == log.next_states[on]).all()
    assert again.action_space == log.action_space


def test_a_step_cut_off_by_a_timeout_has_no_transition():
    observations = np.arange(5.0)[:, None]
    data = dataset(observations, np.zeros(5, int), np.arange(5.0), [0, 1, 0, 0, 0], [0, 0, 0, 0, 1])
    reading = read(data)
    assert reading.log.rewards.tolist() == [0, 1, 2, 3]
    assert reading.log.next_states.ravel().tolist() == [1, 1, 3, 4]
    assert "1 step at a timeout left out" in reading.describe()
    assert not reading.cautions


def test_images_and_tuples_are_flattened():
    pair = [np.zeros((2, 3, 4, 4), dtype=np.uint8), np.ones((2, 1))]
    data = SimpleNamespace(episodes=[Episode(pair, np.zeros((2, 1)), np.zeros((2, 1)), True)])
    assert read_log(data).states.shape == (2, 49)


def test_what_d3rlpy_cannot_hold_is_refused():
    log = Log.from_arrays([0.0, 1.0], [0, 0], [0.0, 0.0], [5.0, 6.0], episode=[0, 0])
    with pytest.raises(LogError, match="Row 0 of the log has another one"):
        to_d3rlpy(log)


@pytest.mark.parametrize(
    ("episodes", "text"),
    [
        ([], "The d3rlpy data set has none"),
        (
            [Episode(np.zeros((2, 1)), np.zeros((3, 1)), np.zeros(2), True)],
            "actions of episode 0 must hold 2 rows",
        ),
        (
            [Episode(np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0), True)],
            "Episode 0 has none",
        ),
        (
            [Episode(np.array(["a"]), np.zeros((1, 1)), np.zeros(1), True)],
            "observations of episode 0",
        ),
        (
            [Episode(np.zeros((1, 1)), np.array([["a"]]), np.zeros(1), True)],
            "actions of episode 0",
        ),
        ([Episode(np.array([[np.nan]]), np.zeros((1, 1)), np.zeros(1), True)], "must be finite"),
        ([Episode([], np.zeros((1, 1)), np.zeros(1), True)], "Episode 0 has none"),
        ([SimpleNamespace(observations=np.zeros((1, 1)))], "has no attribute 'actions'"),
        (
            [Episode(np.zeros((1, p)), np.zeros((1, 1)), np.zeros(1), True) for p in (1, 2)],
            "observations of all episodes must have one shape",
        ),
        (
            [Episode(np.zeros((1, 1)), np.zeros((1, 2), int), np.zeros(1), True)],
            "Discrete d3rlpy actions must be one whole number",
        ),
    ],
)
def test_what_is_wrong_with_an_episode_is_said(episodes, text):
    with pytest.raises(LogError, match=text):
        read_log(SimpleNamespace(episodes=episodes))
