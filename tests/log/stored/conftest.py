"""One log in memory and on disk, and what writes and compares logs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailproof.io.mapped
import tailproof.log.log
from tailproof import Log
from tailproof.io import write_log
from tailproof.noise import StudentT

ARRAYS = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "starts")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Several parts and passes in logs of a thousand rows."""
    monkeypatch.setattr(tailproof.log.log, "PART", 700)
    monkeypatch.setattr(tailproof.io.mapped, "PART", 700)
    monkeypatch.setattr(tailproof.io.mapped, "PIECE", 200)


@pytest.fixture(scope="session")
def log(cartpole):
    return cartpole.log(episodes=30, steps=50, noise=StudentT(df=1.5), seed=1)


@pytest.fixture(scope="session")
def path(log, stored, tmp_path_factory):
    return stored(log, tmp_path_factory.mktemp("stored") / "log.parquet")


@pytest.fixture(scope="session")
def stored():
    """A function that writes a log in small row groups."""

    def write(log, path):
        table = pq.read_table(write_log(log, path))
        pq.write_table(table, path, row_group_size=113, write_page_checksum=True)
        return path

    return write


@pytest.fixture(scope="session")
def table_of():
    """A function that gives a log as a table, with other columns in the place of some or besides."""

    def table(log, **changes):
        columns = {f"x_{j}": log.states[:, j] for j in range(log.states.shape[1])}
        columns |= {"action": log.actions, "reward": log.rewards, "episode": log.episode_of_row}
        return pa.table(columns | changes)

    return table


@pytest.fixture(scope="session")
def assert_equal():
    """A function that compares two logs in all they hold."""

    def compare(one: Log, other: Log):
        for name in ARRAYS:
            left, right = getattr(one, name), getattr(other, name)
            assert left.dtype.kind == right.dtype.kind, name
            assert np.array_equal(left, right), name
        assert one.episode_ids.tolist() == other.episode_ids.tolist()
        assert one.action_space == other.action_space
        assert one.state_names == other.state_names
        assert (one.group_ids is None) == (other.group_ids is None)
        if one.group_ids is not None:
            assert one.group_ids.tolist() == other.group_ids.tolist()
        assert (one.propensity is None) == (other.propensity is None)
        if one.propensity is not None:
            assert np.array_equal(one.propensity, other.propensity)

    return compare
