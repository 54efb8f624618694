"""Minari data sets: made here, read back, and flattened as Gymnasium flattens."""

import gymnasium as gym
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from minari.data_collector import EpisodeBuffer

from tailproof import Continuous
from tailproof.errors import LogError
from tailproof.io import read, read_log, read_minari
from tailproof.io.minari import _names, flatten

GOAL = Dict({"position": Box(-9, 9, (2,)), "goal": Discrete(3)})
SPACES = [
    Box(-1, 1, (2, 3)),
    Box(0, 255, (2,), np.uint8),
    Discrete(4, start=-1),
    MultiBinary(3),
    MultiDiscrete([2, 3]),
    GOAL,
    Tuple([Discrete(2), Dict({"b": Box(0, 1, (1,)), "a": MultiBinary(2)})]),
]


def stacked(space, values):
    """Stack values of a space the way Minari stores an episode."""
    if isinstance(space, Dict):
        return {key: stacked(part, [value[key] for value in values]) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(stacked(part, [v[i] for v in values]) for i, part in enumerate(space))
    return np.stack(values)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_flattening_is_gymnasiums(space):
    space.seed(0)
    values = [space.sample() for _ in range(5)]
    rows = flatten(space, stacked(space, values))
    assert (rows == np.stack([gym.spaces.flatten(space, value) for value in values])).all()
    names = _names(space)
    assert names is None or len(set(names)) == rows.shape[1]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes a data set of two episodes, of 3 and 2 steps."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def make(observation_space, action_space, name="toy/small-v0"):
        observation_space.seed(0)
        action_space.seed(0)
        buffers = []
        for i, steps in enumerate((3, 2)):
            seen = [observation_space.sample() for _ in range(steps + 1)]
            buffers.append(
                EpisodeBuffer(
                    id=i,
                    observations=stacked(observation_space, seen),
                    actions=stacked(action_space, [action_space.sample() for _ in range(steps)]),
                    rewards=[float(10 * i + t) for t in range(steps)],
                    terminations=[False] * (steps - 1) + [i == 0],
                    truncations=[False] * (steps - 1) + [i == 1],
                )
            )
        return minari.create_dataset_from_buffers(
            name,
            buffer=buffers,
            observation_space=observation_space,
            action_space=action_space,
            algorithm_name="none",
            author="nobody",
            author_email="nobody@example.org",
            code_permalink="https://example.org",
            description="A toy.",
        )

    return make


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_an_id_a_folder_and_a_data_set_give_one_log(make, tmp_path):
    dataset = make(Box(-1, 1, (2,), np.float64), Box(-1, 1, (1,)))
    log = read_log("toy/small-v0")
    assert log.rewards.tolist() == [0, 1, 2, 10, 11]
    assert log.terminated.tolist() == [False, False, True, False, False]
    assert log.truncated.tolist() == [False, False, False, False, True]
    assert log.action_space == Continuous(1, (-1.0,), (1.0,))
    first = dataset[0]
    assert (log.states[:3] == first.observations[:-1]).all()
    assert (log.next_states[:3] == first.observations[1:]).all()
    assert (log.actions[:3] == first.actions).all()
    for other in (tmp_path / "toy/small-v0", tmp_path / "toy/small-v0/data", dataset):
        assert (read_log(other).next_states == log.next_states).all()
        assert (read_minari(other).states == log.states).all()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_dictionaries_are_flattened_and_named(make):
    make(GOAL, Discrete(3))
    log = read_minari("toy/small-v0")
    assert log.state_names == ("goal[0]", "goal[1]", "goal[2]", "position[0]", "position[1]")
    assert (log.states[:, :3].sum(axis=1) == 1).all()
    assert log.n_actions == 3


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_discrete_actions_that_start_elsewhere_start_at_0_here(make):
    dataset = make(Box(-1, 1, (1,)), Discrete(4, start=2))
    log = read_minari(dataset)
    assert (log.actions[:3] == dataset[0].actions - 2).all()
    assert log.n_actions == 4


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_what_is_wrong_with_a_data_set_is_said(make, tmp_path):
    with pytest.raises(
        LogError, match=r"not on this machine. Download it with `minari download toy"
    ):
        read_log("toy/none-v0")
    dataset = make(Box(-1, 1, (1,)), MultiDiscrete([2, 2]))
    with pytest.raises(LogError, match="Got a MultiDiscrete space; code combinations"):
        read(dataset)
    with pytest.raises(LogError, match="Observations of a Text space"):
        flatten(Text(3), ["a", "b"])
    with pytest.raises(LogError, match="outside its discrete space of 2 values"):
        flatten(Discrete(2), np.array([0, 5]))
    with pytest.raises(LogError, match="reward names columns of a table"):
        read(dataset, reward="r")
    (tmp_path / "toy/small-v0/data/main_data.hdf5").write_bytes(b"hello")
    with pytest.raises(LogError, match=r"toy/small-v0 could not be read.*download them again"):
        read_log("toy/small-v0")
