"""Whatever the tables, their borders, folders and file systems: read as it is in memory."""

import gc
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import tailproof.io.mapped
from tailproof import Column, Split, evaluate, method
from tailproof.critics.linear import Design
from tailproof.critics.task import Task
from tailproof.errors import LogError, StorageError, TailproofWarning
from tailproof.features import default_features
from tailproof.io import open_data_set, read, read_log
from tailproof.log.budget import SampleWarning
from tailproof.log.log import Chunk

TABLES = {
    "derived next states, none terminate": {},
    "some terminate": {"terminated": lambda log: log.truncated & (log.episode_of_row % 3 > 0)},
    "all terminate": {"terminated": lambda log: log.truncated},
    "done means any end": {
        "done": lambda log: log.truncated,
        "truncated": lambda log: log.truncated & (log.episode_of_row % 2 > 0),
    },
    "groups": {"group": lambda log: np.array(["a", "b", "c"])[log.episode_of_row % 3]},
    "text actions": {"action": lambda log: np.array(["left", "right"])[log.actions]},
    "sparse actions": {"action": lambda log: 1000 * log.actions - 7},
    "true and false actions": {"action": lambda log: log.actions == 1},
    "whole decimals as actions": {"action": lambda log: log.actions.astype(float)},
    "continuous actions": {"action": lambda log: log.states[:, 0] * 2},
    "text ids": {"episode": lambda log: np.array([f"e{i}" for i in log.episode_of_row])},
    "dates as ids": {
        "episode": lambda log: np.datetime64("2020-01-01") + log.episode_of_row.astype("m8[D]")
    },
    "steps": {"step": lambda log: np.tile(np.arange(50), 30)},
    "a text state": {"x_0": lambda log: np.where(log.states[:, 0] > 0, "up", "down")},
    "small numbers": {"x_1": lambda log: log.states[:, 1].astype(np.float32)},
    "whole states": {"x_1": lambda log: np.arange(1500) % 7},
    "lists as states": {
        "x_0": lambda log: pa.FixedSizeListArray.from_arrays(log.states[:, :2].ravel(), 2)
    },
    "propensities": {"propensity": lambda log: np.where(log.states[:, 0] > 0, 1.0, 0.999)},
    "one row an episode": {"episode": lambda log: np.arange(1500)},
    "emptied episodes": {"episode": lambda log: np.minimum(np.arange(1500), 1400)},
}


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
@pytest.mark.parametrize("name", TABLES)
def test_any_table_is_read_as_it_is_in_memory(name, log, tmp_path, table_of, assert_equal):
    table = table_of(log, **{key: make(log) for key, make in TABLES[name].items()})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
    there, here = (
        read(
            tmp_path / "t.parquet",
            lazy=lazy,
            terminated=None if "terminated" in table.schema.names else False,
        )
        for lazy in (True, False)
    )
    assert_equal(there.log, here.log)
    assert np.array_equal(there.log.first_states, here.log.first_states)
    assert there.notes == here.notes
    assert there.cautions == here.cautions
    origin = there.log.table_rows, here.log.table_rows
    assert np.array_equal(origin[0].rows, origin[1].rows)
    assert np.array_equal(origin[0].next_rows, origin[1].next_rows)
    if here.log.is_discrete:  # not of steps that are left out
        counts = np.bincount(here.log.actions, minlength=here.log.n_actions)
        assert there.log.action_counts.tolist() == counts.tolist()


@pytest.mark.parametrize("kind", [str, int])
def test_an_id_as_action_is_refused_as_in_memory(kind, log, tmp_path, table_of):
    ids = [kind(i) for i in range(log.n_transitions)]
    pq.write_table(table_of(log, action=ids), tmp_path / "t.parquet", row_group_size=97)
    for lazy in (True, False):
        with pytest.raises(LogError, match="actions must repeat"):
            read(tmp_path / "t.parquet", lazy=lazy)


def test_no_episode_column_means_flags_or_single_rows(log, tmp_path, table_of, assert_equal):
    ended = table_of(log, terminated=log.truncated).drop_columns(["episode"])
    alone = table_of(log).drop_columns(["episode"])
    for table in (ended, alone):
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
        there = read(tmp_path / "t.parquet", lazy=True)
        here = read(tmp_path / "t.parquet", lazy=False)
        assert_equal(there.log, here.log)
        assert there.notes == here.notes


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    group=st.integers(1, 11),
    size=st.integers(1, 8),
    part=st.integers(1, 40),
    given_next=st.booleans(),
    flagged=st.booleans(),
)
def test_wherever_the_borders_lie(
    lengths, group, size, part, given_next, flagged, tmp_path_factory, assert_equal
):
    """Row groups, parts and pieces may cut episodes anywhere."""
    rng = np.random.default_rng(sum(lengths))
    n = sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.append(episode[1:] != episode[:-1], True)
    columns = {"x": rng.normal(size=n), "action": rng.integers(2, size=n)}
    columns |= {"reward": rng.normal(size=n), "episode": episode}
    columns["terminated"] = ends & (rng.random(n) < 0.5) & flagged
    if given_next:
        columns["next_x"] = rng.normal(size=n)
    file = tmp_path_factory.mktemp("borders") / "t.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tailproof.io.mapped, "PART", part)
        patch.setattr(tailproof.io.mapped, "PIECE", part)
        try:
            here = read(file, lazy=False).log
        except LogError:  # not a single transition is complete
            with pytest.raises(LogError, match="at least one transition"):
                read(file, lazy=True)
            return
        there = read(file, lazy=True).log
    assert_equal(there, here)
    pieces = [piece for part in there.parts for piece in there.chunks(part, size)]
    assert max(map(len, pieces)) <= size
    assert [piece.first for piece in pieces] == np.cumsum([0, *map(len, pieces)])[:-1].tolist()
    assert np.array_equal(np.concatenate([p.episode for p in pieces]), here.episode_of_row)


def test_a_folder_of_files_whose_episodes_cross_their_borders(
    log, tmp_path, cartpole, table_of, assert_equal
):
    table = table_of(log)
    for i, (first, last) in enumerate([(0, 333), (333, 340), (340, 1500)]):
        pq.write_table(table[first:last], tmp_path / f"part-{i}.parquet")
    with pytest.warns(TailproofWarning, match="30 last steps of 30 episodes left out"):
        there = read_log(tmp_path, lazy=True)
    with pytest.warns(TailproofWarning, match="30 last steps of 30 episodes left out"):
        here = read_log(tmp_path, lazy=False)
    assert_equal(there, here)
    pair = [
        evaluate(each, cartpole.target(), method="roam-dm", gamma=0.9).value
        for each in (there, here)
    ]
    assert pair[0] == pytest.approx(pair[1], rel=1e-9)


def test_folder_names_are_columns_and_uris_are_paths(log, tmp_path, table_of, assert_equal):
    table = table_of(log, terminated=log.truncated)
    half = log.starts[15]
    for name, rows in (("site=1", table[:half]), ("site=2", table[half:])):
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "log.parquet")
    for source in (tmp_path, tmp_path.as_uri()):
        lazy = read_log(source, group="site", lazy=True)
        assert lazy.group_ids.tolist() == [1] * 15 + [2] * 15
    assert_equal(
        read_log(tmp_path.as_uri(), group="site", lazy=False),
        read_log(tmp_path, group="site", lazy=False),
    )


def test_any_file_system_of_pyarrow(log, path, assert_equal):
    store = fs.SubTreeFileSystem(str(path.parent), fs.LocalFileSystem())
    data = open_data_set(path.name, store)
    assert_equal(read_log(data), log)
    assert_equal(read_log(data, lazy=False), log)


def test_large_data_are_mapped_by_themselves(path):
    assert not isinstance(read_log(path).states, np.memmap)
    assert isinstance(read_log(path, budget=10_000).states, np.memmap)
    assert not isinstance(read_log(path, budget=10_000, lazy=False).states, np.memmap)
    with pytest.raises(LogError, match=r"lazy=True needs a Parquet file.*write_log first"):
        read_log({"x": [1.0], "action": [0], "reward": [1.0]}, lazy=True)


def test_what_needs_everything_at_once_takes_a_sample_and_says_so(log, path, cartpole):
    lazy, target = read_log(path, lazy=True), cartpole.target()
    here, there = (evaluate(each, target, method="auto", gamma=0.9).value for each in (log, lazy))
    assert here == there
    boosted = method("fqe", model=Ridge())
    here, there = (evaluate(each, target, method=boosted, gamma=0.5).value for each in (log, lazy))
    assert here == pytest.approx(there)
    small = read_log(path, lazy=True, budget=400_000)
    with pytest.warns(
        SampleWarning, match=r"FQE looked at a sample of \d+ of 1,500 rows, \d+ of 30 episodes"
    ):
        evaluate(small, target, method=boosted, gamma=0.5)


def test_chunks_of_a_log_in_memory_are_views(log):
    pieces = list(log.chunks(range(1500), 400))
    assert [len(piece) for piece in pieces] == [400, 400, 400, 300]
    assert all(isinstance(piece, Chunk) and piece.states.base is not None for piece in pieces)


def test_memory_does_not_grow_with_the_log(log, tmp_path, cartpole, stored):
    """Only numbers for each episode and the piece at hand are kept."""
    lazy = read_log(stored(log, tmp_path / "t.parquet"), lazy=True)
    folds = Split(3).assign(lazy, np.random.default_rng(0))
    design = Design(Task(lazy, 0.9, cartpole.target()), default_features(lazy), folds)
    sizes = [rows.inner.shape[1] for rows in design]
    assert max(sizes) <= 700
    assert sum(sizes) == 1500


def test_a_mapped_log_is_sent_by_the_names_of_its_files(path, assert_equal):
    mapped = read_log(path, lazy=True)
    sent = pickle.dumps(mapped)
    assert len(sent) < mapped.bytes_in_memory / 10
    again = pickle.loads(sent)
    assert isinstance(again.states, np.memmap)
    assert_equal(again, mapped)


def test_parts_that_exceed_the_budget_are_mapped_and_vanish_with_their_log(path, log, assert_equal):
    mapped = read_log(path, lazy=True, budget=1000)
    chosen = np.arange(0, 30, 2)
    taken = mapped.take(chosen)
    file = Path(taken.states.filename)
    assert file.exists()
    assert_equal(taken, log.take(chosen))
    del taken
    gc.collect()
    assert not file.exists()
    assert not isinstance(read_log(path, lazy=True).take(chosen).states, np.memmap)


def test_a_log_is_converted_once_and_again_when_its_content_or_reading_changes(
    log, tmp_path, table_of, monkeypatch
):
    converted = []
    convert = tailproof.io.mapped._convert
    monkeypatch.setattr(
        tailproof.io.mapped, "_convert", lambda *given: converted.append(1) or convert(*given)
    )
    pq.write_table(table_of(log, terminated=log.truncated), tmp_path / "t.parquet")
    ask = {"lazy": True, "cache": tmp_path / "cache"}
    first, second = (read(tmp_path / "t.parquet", **ask) for _ in range(2))
    assert len(converted) == 1
    assert (first.notes, first.cautions, first.columns) == (
        second.notes,
        second.cautions,
        second.columns,
    )
    read(tmp_path / "t.parquet", categories=3, **ask)
    assert len(converted) == 2
    (entry, _) = (each for each in (tmp_path / "cache").iterdir())
    with (entry / "rewards").open("r+b") as file:  # of the same size as before
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    read(tmp_path / "t.parquet", **ask)
    read(tmp_path / "t.parquet", categories=3, **ask)
    assert len(converted) == 3  # the damaged entry was made again
    stamp = os.stat(tmp_path / "t.parquet")
    changed = table_of(log, terminated=log.truncated, reward=log.rewards + 1)
    pq.write_table(changed, tmp_path / "t.parquet")
    os.utime(tmp_path / "t.parquet", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert np.array_equal(read_log(tmp_path / "t.parquet", **ask).rewards, log.rewards + 1)
    assert not list((tmp_path / "cache").glob("unfinished-*"))


def test_a_disk_without_room_is_said_before(log, tmp_path, table_of, monkeypatch):
    pq.write_table(table_of(log, terminated=log.truncated), tmp_path / "t.parquet")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(StorageError, match="cache="):
        read_log(tmp_path / "t.parquet", lazy=True, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_costs_weights_masks_and_gaps_are_read_as_in_memory(rng, tmp_path, assert_equal):
    n = 300
    offers = rng.integers(2, size=n)
    table = pa.table(
        {
            "age": pa.array(np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))),
            "city": pa.array([["Rome", "Oslo", None][i] for i in rng.integers(3, size=n)]),
            "offer": np.array(["none", "mail"])[offers],
            "loss": rng.lognormal(size=n),
            "weight": rng.integers(1, 3, size=n),
            "available_none": np.ones(n, dtype=bool),
            "available_mail": (offers == 1) | (rng.random(n) < 0.5),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
    named = {
        "state": ["age", "city"],
        "action": "offer",
        "reward": "-loss",
        "weight": "weight",
        "available": "available_*",
        "cost": {"mail": 0.5},
    }
    there, here = (read(tmp_path / "t.parquet", lazy=lazy, **named) for lazy in (True, False))
    assert_equal(there.log, here.log)
    assert there.log.reward_name == here.log.reward_name
    assert np.array_equal(there.log.table_rows.available, here.log.table_rows.available)
    for policy in ("uniform", lambda frame: np.where(frame["city"] == "Rome", "none", "none")):
        pair = [evaluate(each.log, policy).value for each in (there, here)]
        assert pair[0] == pair[1]


def test_policies_by_column_and_by_text_answer_as_in_memory(rng, tmp_path):
    n = 400
    table = pa.table(
        {
            "age": rng.normal(size=n),
            "city": np.array(["Rome", "Oslo"])[rng.integers(2, size=n)],
            "offer": np.array(["none", "mail"])[rng.integers(2, size=n)],
            "spend": rng.lognormal(size=n),
            "propensity": np.full(n, 0.5),
            "plan": np.array(["none", "mail"])[rng.integers(2, size=n)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
    named = {"state": ["age"], "action": "offer", "reward": "spend"}
    there, here = (read_log(tmp_path / "t.parquet", lazy=lazy, **named) for lazy in (True, False))
    by_city = lambda frame: np.where(frame["city"] == "Rome", "mail", "none")  # noqa: E731
    for policy in (Column("plan"), by_city, "logged"):
        for chosen in ("auto", "snips"):
            pair = [evaluate(each, policy, method=chosen).value for each in (there, here)]
            assert pair[0] == pair[1]


def test_a_menu_is_not_told_from_the_first_rows_alone(tmp_path):
    doses = np.concatenate([np.repeat([0.5, 0.75], 100), np.arange(400) / 7])
    table = pa.table({"x": np.arange(600.0), "dose": doses, "reward": np.arange(600.0)})
    pq.write_table(table, tmp_path / "log.parquet")
    reading = read(tmp_path / "log.parquet", action="dose", state="x", lazy=True)
    assert "categorical" not in reading.describe()
