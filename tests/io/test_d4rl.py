"""HDF5 files: D4RL against a plain loop, dumps of d3rlpy, and what is wrong with other files."""

import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import LogError
from tailproof.io import read, read_d4rl, read_log

MANY = settings(max_examples=60 * int(os.environ.get("TAILPROOF_FUZZ", "1")), deadline=None)


def arrays(n=7, seed=0, p=2):
    """Return what a D4RL file holds: an episode that terminates, one cut off, one that just stops."""
    rng = np.random.default_rng(seed)
    flags = np.zeros((2, n), dtype=bool)
    flags[0, n // 3], flags[1, 2 * n // 3] = True, True
    return {
        "observations": rng.normal(size=(n, p)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "rewards": rng.standard_t(2, n).astype(np.float32),
        "terminals": flags[0],
        "timeouts": flags[1],
    }


def write(path, contents):
    """Write arrays, and mappings as groups."""
    with h5py.File(path, "w") as file:
        for name, values in contents.items():
            if isinstance(values, dict):
                for key, inner in values.items():
                    file[f"{name}/{key}"] = inner
            else:
                file[name] = values
    return path


@MANY
@given(
    ends=st.lists(st.sampled_from(["", "terminal", "timeout", "both"]), min_size=2, max_size=12),
    with_next=st.booleans(),
)
def test_flags_and_next_states_are_those_of_a_plain_loop(ends, with_next):
    n = len(ends)
    data = arrays(n)
    data["terminals"] = np.array([end in ("terminal", "both") for end in ends])
    data["timeouts"] = np.array([end in ("timeout", "both") for end in ends])
    if with_next:
        data["next_observations"] = data["observations"] + 1
    expected = []
    for i in range(n):
        last = i == n - 1 or ends[i] != ""
        if with_next:
            expected.append((i, data["next_observations"][i]))
        elif data["terminals"][i]:
            expected.append((i, None))
        elif not last:
            expected.append((i, data["observations"][i + 1]))
    if not expected:  # every row a timeout, and nobody saw what followed
        with pytest.raises(LogError, match="at least one transition"):
            read_d4rl(data)
        return
    log = read_d4rl(data)
    rows = [i for i, _ in expected]
    assert (log.states == data["observations"][rows]).all()
    assert (log.rewards == data["rewards"][rows]).all()
    for j, (_, after) in enumerate(expected):
        if after is not None:
            assert (log.next_states[j] == after).all()
            assert log.terminated[j] == data["terminals"][rows[j]]
        else:
            assert log.terminated[j]


def test_a_file_reads_as_its_arrays_do(tmp_path):
    data = arrays()
    reading = read(write(tmp_path / "hopper.hdf5", data))
    log = reading.log
    assert (log.states == read_d4rl(data).states).all()
    assert log.lengths.tolist() == [3, 1, 1]
    assert log.terminated.tolist() == [False, False, True, False, False]
    assert log.states.dtype == np.float32
    assert "2 steps at a timeout left out" in reading.describe()


def test_final_observations_keep_the_step_at_a_timeout(tmp_path):
    data = arrays()
    data["timeouts"][-1] = True
    data["final_observations"] = np.array([[7.0, 7.0], [8.0, 8.0], [9.0, 9.0]])
    for log in (read_d4rl(data), read_log(write(tmp_path / "hopper.hdf5", data))):
        assert log.n_transitions == 7
        assert log.next_states[[4, 6]].tolist() == [[8.0, 8.0], [9.0, 9.0]]


def test_the_first_version_needs_the_time_limit(tmp_path):
    data = arrays(9)
    del data["timeouts"]
    path = write(tmp_path / "log.h5", data)
    with pytest.raises(LogError, match=r"neither timeouts nor next_observations.*Pass max_steps"):
        read_log(path)
    log = read_log(path, max_steps=2)  # rows 0 1 | 2 3 | 4 5 | 6 7 | 8 with a terminal at row 3
    assert (log.states == data["observations"][[0, 2, 3, 4, 6]]).all()
    assert log.terminated.tolist() == [False, False, True, False, False]
    assert read_log(path, max_steps=9).lengths.tolist() == [4, 4]
    with pytest.raises(LogError, match="max_steps must be a whole number of at least 1"):
        read_log(path, max_steps=0)


def test_next_observations_tell_where_an_episode_was_cut():
    data = arrays(6)
    del data["timeouts"]
    data["terminals"][:] = False
    after = np.roll(data["observations"], -1, axis=0)
    after[3] = 99.0
    log = read_d4rl(data | {"next_observations": after})
    assert log.lengths.tolist() == [4, 2]
    assert log.n_transitions == 6
    assert not log.terminated.any()


def test_discrete_actions_columns_of_one_and_dictionaries(tmp_path):
    data = arrays()
    parts = {"b": data["observations"][:, 1:], "a": data["observations"][:, :1]}
    contents = data | {
        "observations": parts,
        "actions": np.arange(7) % 3,
        "rewards": data["rewards"][:, None],
        "terminals": data["terminals"][:, None].astype(float),
    }
    log = read_log(write(tmp_path / "log.hdf5", contents))
    assert (log.states == read_d4rl(data).states).all()  # entries in the order of their names
    assert log.n_actions == 3


def test_the_first_file_format_of_d3rlpy(tmp_path):
    data = arrays()
    data["episode_terminals"] = data.pop("timeouts") | data["terminals"]
    log = read_log(write(tmp_path / "log.h5", data))
    assert (log.states == read_d4rl(arrays()).states).all()


def test_a_dump_of_d3rlpy(tmp_path):
    rng = np.random.default_rng(0)
    contents = {"columns": ["observations", "actions", "rewards", "terminated"], "num_episodes": 2}
    for i, stops in enumerate((True, False)):
        contents[f"observations_{i}_0"] = rng.normal(size=(4, 2))
        contents[f"observations_{i}_1"] = rng.normal(size=(4, 1))
        contents[f"actions_{i}"] = np.full((4, 1), i)
        contents[f"rewards_{i}"] = rng.normal(size=(4, 1))
        contents[f"terminated_{i}"] = stops
    log = read_log(write(tmp_path / "dump.h5", contents | {"version": "2.1"}))
    assert log.lengths.tolist() == [4, 3]
    assert log.states.shape == (7, 3)
    assert (log.states[:4, 2:] == contents["observations_0_1"]).all()
    assert log.actions.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert log.terminated.tolist() == [False] * 3 + [True] + [False] * 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rewards": np.zeros(6)}, r"rewards must hold 7 rows.*Got dtype float64, shape \(6,\)"),
        ({"rewards": np.full(7, np.nan)}, "rewards must be finite. Got nan at row 0"),
        ({"observations": np.full((7, 2), np.inf)}, "observations must be finite"),
        ({"observations": np.array(3.0)}, "observations must hold a row of numbers"),
        ({"observations": np.array([b"a"] * 7)}, "observations must hold a row of numbers"),
        ({"observations": np.zeros((0, 2))}, "actions must hold 0 rows"),
        ({"actions": np.zeros((3, 2))}, "actions must hold 7 rows of numbers"),
        ({"terminals": np.full(7, 2)}, "terminals must hold 0 and 1 only"),
        (
            {"next_observations": np.zeros((7, 3))},
            "next_observations must hold 7 rows of 2 numbers",
        ),
        ({"next_observations": np.full((7, 2), np.nan)}, "next_observations must be finite"),
    ],
)
def test_what_is_wrong_with_an_array_is_said(tmp_path, changes, text):
    with pytest.raises(LogError, match=text):
        read_log(write(tmp_path / "log.hdf5", arrays() | changes))
    with pytest.raises(LogError, match=text):
        read_d4rl(arrays() | changes)


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    path = tmp_path / "log.hdf5"
    path.write_bytes(b"hello")
    with pytest.raises(LogError, match=r"could not be read.*damaged or not HDF5"):
        read_log(path)
    write(path, {"observations": np.zeros(3), "steps": np.zeros(3)})
    with pytest.raises(LogError, match=r"There is no actions; got observations, steps"):
        read_log(path)
    write(path, {"episode_0/rewards": np.zeros(3)})
    with pytest.raises(LogError, match="Pass the Minari folder instead"):
        read_log(path)
    with pytest.raises(LogError, match="There is no actions; got observations"):
        read_d4rl({name: values for name, values in arrays().items() if name != "actions"})
    with pytest.raises(LogError, match="state names columns of a table"):
        read_log(path, state="x_*")
    with pytest.raises(LogError, match="max_steps is for D4RL files"):
        read_log({"x": [0.0], "a": [0], "r": [0.0]}, max_steps=3)


def test_a_shape_that_no_file_could_hold_is_refused(tmp_path):
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        for name, values in arrays().items():
            if name != "observations":
                file[name] = values
        file.create_dataset("observations", (10**9, 10**3), "f4", chunks=(1000, 10))
    with pytest.raises(LogError, match="the most for its size"):
        read_log(path)


def test_timeouts_on_every_row_are_no_terminations():
    data = arrays(6)
    data["terminals"], data["timeouts"] = np.zeros(6), np.ones(6)
    with pytest.raises(LogError, match="at least one transition"):
        read_d4rl(data)
    log = read_d4rl({**data, "next_observations": data["observations"]})
    assert log.n_episodes == 6
    assert not log.terminated.any()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"terminals": np.array([0, 0, 2, 0, 0, 0, 0])}, "terminals must hold 0 and 1 only"),
        ({"timeouts": np.array([0, 0, -1, 0, 0, 0, 0])}, "timeouts must hold 0 and 1 only"),
        ({"rewards": np.ma.array(np.ones(7), mask=[1] * 7)}, "rewards has 7 masked entries"),
        ({"observations": np.ma.array(np.ones((7, 2)), mask=True)}, "observations has 14 masked"),
        ({"actions": np.ma.array(np.ones((7, 2)), mask=True)}, "actions has 14 masked"),
        ({"rewards": np.array(["2021"] * 7, dtype="M8[Y]")}, "rewards must hold 7 rows"),
        ({"observations": np.array(["2021"] * 7, dtype="M8[Y]")}, "observations must hold a row"),
        ({"rewards": np.array([np.datetime64("NaT")] * 7)}, "rewards must hold 7 rows"),
    ],
)
def test_what_is_no_number_or_missing_is_never_swallowed(changes, text):
    with pytest.raises(LogError, match=text):
        read_d4rl({**arrays(), **changes})
