"""A run that was stopped goes on where it was, and its progress on disk is whole or not there."""

import errno
import operator
import os
from pathlib import Path

import numpy as np
import pytest

import tailproof.checkpoint
import tailproof.io.mapped
from tailproof.checkpoint import CheckpointWarning
from tailproof.critics.linear import Statistics
from tailproof.errors import StorageError
from tailproof.files import read_file, write_file
from tailproof.io.steps import Tally
from tailproof.parallel import Local


class Count:
    """A task that notes its calls and may fail."""

    def __init__(self, notes, fails_at=None):
        self.notes, self.fails_at = Path(notes), fails_at

    def __getstate__(self):
        return {"notes": self.notes, "fails_at": None}  # the same task, whether it fails or not

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __call__(self, item):
        if item == self.fails_at:
            raise StorageError("the disk is gone")
        with self.notes.open("a") as file:
            file.write(f"{item} ")
        return np.full(2, float(item))

    @property
    def calls(self):
        return self.notes.read_text().split() if self.notes.exists() else []


def test_a_run_goes_on_where_it_was(tmp_path):
    engine = Local(checkpoint=tmp_path / "progress", retries=0)
    with pytest.raises(StorageError):
        engine.map_reduce(Count(tmp_path / "notes", fails_at=6), range(10), operator.add)
    task = Count(tmp_path / "notes")
    assert task.calls == [str(item) for item in range(6)]
    assert engine.map_reduce(task, range(10), operator.add).tolist() == [45.0, 45.0]
    assert task.calls == [str(item) for item in range(10)]
    assert engine.map_reduce(task, range(10), operator.add).tolist() == [45.0, 45.0]
    assert len(task.calls) == 10  # a pass that was finished is not done again
    assert [each.suffix for each in (tmp_path / "progress").iterdir()] == [".progress"]


def test_items_that_changed_are_done_again(tmp_path):
    engine, task = Local(checkpoint=tmp_path / "progress"), Count(tmp_path / "notes")
    engine.map_reduce(task, [1, 2, 3], operator.add)
    assert engine.map_reduce(task, [1, 2, 5], operator.add).tolist() == [8.0, 8.0]
    assert task.calls == ["1", "2", "3", "1", "2", "5"]
    assert engine.map_reduce(task, [1, 2, 5, 6], operator.add).tolist() == [14.0, 14.0]
    assert task.calls[6:] == ["6"]  # more of the same log: what is there counts


def test_another_function_or_log_is_another_pass(tmp_path):
    engine = Local(checkpoint=tmp_path)
    one = engine.map_reduce(lambda x: np.array([x]), [1, 2], operator.add)
    two = engine.map_reduce(lambda x: np.array([x * 2]), [1, 2], operator.add)
    three = engine.map_reduce(lambda s, x: np.array([x * s]), [1, 2], operator.add, shared=5)
    four = engine.map_reduce(lambda s, x: np.array([x * s]), [1, 2], operator.add, shared=6)
    assert [int(each[0]) for each in (one, two, three, four)] == [3, 6, 15, 18]


def test_totals_come_back_as_they_were(tmp_path):
    totals = [
        Statistics.zeros(2, 3),
        Tally(rows=3, gaps=2),
        np.arange(6).reshape(2, 3),
    ]
    engine = Local(checkpoint=tmp_path)
    for total in totals:
        engine.map_reduce(lambda _, total=total: total, [0], operator.add)
        again = engine.map_reduce(lambda _, total=total: total, [0], operator.add)
        assert type(again) is type(total)
    assert isinstance(again, np.ndarray)
    assert engine.map_reduce(lambda _: totals[1], [0], operator.add) == totals[1]


def test_damaged_progress_is_not_used(tmp_path):
    engine, task = Local(checkpoint=tmp_path / "progress"), Count(tmp_path / "notes")
    engine.map_reduce(task, [1, 2], operator.add)
    (file,) = (tmp_path / "progress").iterdir()
    whole = file.read_bytes()
    for content in (b"", whole[:-30], b"PK" + whole[2:60]):
        file.write_bytes(content)
        with pytest.warns(CheckpointWarning, match="is damaged and was not used"):
            assert engine.map_reduce(task, [1, 2], operator.add).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "named", ["system", "os:system", "LogError", "Log", "tailproof.log.log:Log"]
)
def test_progress_makes_nothing_but_dataclasses_of_ours(named, tmp_path):
    engine = Local(checkpoint=tmp_path)

    def task(_):
        return Statistics.zeros(1, 1)

    engine.map_reduce(task, [0], operator.add)
    (file,) = tmp_path.iterdir()
    page, arrays = read_file(file, "progress", 3)
    total = page["value"][1]
    assert total["class"] == "Statistics"
    total["class"] = named
    write_file(file, "progress", 3, page, arrays)
    with pytest.warns(CheckpointWarning, match="is damaged and was not used"):
        engine.map_reduce(task, [0], operator.add)


def test_a_full_disk_is_a_warning_and_the_progress_before_stays(tmp_path, monkeypatch):
    engine = Local(checkpoint=tmp_path / "progress")
    monkeypatch.setattr(tailproof.checkpoint, "_SAVE_EVERY", 0.0)
    task = Count(tmp_path / "notes")
    engine.map_reduce(task, [1, 2, 3], operator.add)
    (file,) = (tmp_path / "progress").iterdir()
    before = file.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CheckpointWarning, match=r"No space left on device.*The run goes on"):
        total = engine.map_reduce(task, [1, 2, 3, 4], operator.add)
    assert total.tolist() == [10.0, 10.0]
    assert [each.read_bytes() for each in (tmp_path / "progress").iterdir()] == [before]


def test_a_flipped_bit_in_progress_is_noticed_wherever_it_is(tmp_path, rng):
    engine, task = Local(checkpoint=tmp_path / "progress"), Count(tmp_path / "notes")
    engine.map_reduce(task, [1, 2], operator.add)
    (file,) = (tmp_path / "progress").iterdir()
    whole = file.read_bytes()
    for place in rng.integers(len(whole), size=60):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(flipped)
        with pytest.warns(CheckpointWarning, match="is damaged and was not used"):
            assert engine.map_reduce(task, [1, 2], operator.add).tolist() == [3.0, 3.0]
