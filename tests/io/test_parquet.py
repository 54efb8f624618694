"""Written logs: reading one gives back an equal log, and writing leaves a whole file or none."""

import dataclasses
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import Continuous, Discrete, Log
from tailproof.errors import LogError
from tailproof.files import opened_page, sealed_page
from tailproof.io import read, read_log, write_log

TIMES = int(os.environ.get("TAILPROOF_FUZZ", "1"))
MANY = settings(max_examples=40 * TIMES, deadline=None)


@st.composite
def logs(draw):
    """Any log that can be built: all kinds of ids, names, types and actions."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    E, n, p = len(lengths), sum(lengths), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    real = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    reals = rng.standard_normal((2, n, p)).astype(real)
    kind = draw(st.sampled_from(["text", "whole", "small", "decimal", "date", "flag"]))
    if kind == "text":
        ids = draw(st.lists(st.text(max_size=4), min_size=E, max_size=E, unique=True))
        ids = np.array(ids, dtype=object if any("\0" in each for each in ids) else None)
    else:
        ids = rng.permutation(9)[:E].astype(
            {"whole": "i8", "small": "u1", "decimal": "f8", "date": "M8[us]", "flag": "i2"}[kind]
        )
        if kind == "flag":
            ids = np.unique(ids % 2).astype(bool)[:E]
            lengths = lengths[: len(ids)]
            n, E = sum(lengths), len(lengths)
            reals = reals[:, :n]
    names = draw(
        st.none()
        | st.lists(
            st.text(max_size=5) | st.sampled_from(["reward", "action", "step", "next_a", "a"]),
            min_size=p,
            max_size=p,
        )
    )
    labels = draw(st.none() | st.lists(st.text(max_size=3), min_size=3, max_size=3))
    if draw(st.booleans()):
        space = Discrete(3, None if labels is None else tuple(labels))
        actions = rng.integers(0, 3, n)
    else:
        bounds = draw(st.sampled_from([(None, None), ((-np.inf, -9.0), (9.0, np.inf))]))
        space = Continuous(2, *bounds)
        actions = rng.uniform(-1, 1, (n, 2)).astype(real)
    ends = np.zeros(n, dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    return Log.from_arrays(
        reals[0],
        actions,
        rng.standard_t(1, n),
        reals[1],
        episode=np.repeat(ids, lengths),
        group=np.repeat(rng.integers(0, 2, E), lengths) if draw(st.booleans()) else None,
        terminated=ends & rng.integers(0, 2, n).astype(bool),
        propensity=rng.uniform(0.1, 1, n) if draw(st.booleans()) else None,
        action_space=space,
        state_names=names,
    )


def assert_equal(one, other):
    """Compare every field of two logs but the place where they were read."""
    for each in dataclasses.fields(Log):
        if each.name == "origin":
            continue
        left, right = getattr(one, each.name), getattr(other, each.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype or left.dtype.kind in "UO", each.name
            assert left.tolist() == right.tolist(), each.name
        else:
            assert left == right, each.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@MANY
@given(log=logs())
def test_a_written_log_reads_back_equal(folder, log):
    path = folder / "log.parquet"
    assert write_log(log, path) == path
    assert_equal(log, read_log(path))
    assert [each.name for each in folder.iterdir()] == ["log.parquet"]


def small_log(**changes):
    given = {
        "states": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "actions": [0, 1, 1],
        "rewards": [1.0, 2.0, 3.0],
        "next_states": [[9.0, 9.0], [8.0, 8.0], [7.0, 7.0]],
        "episode": ["b", "b", "a"],
        "terminated": [False, False, True],
        "action_space": Discrete(3, ("hold", "buy", "never")),
        "state_names": ["price", "stock"],
    }
    return Log.from_arrays(**(given | changes))


def test_other_programs_see_names_and_labels(tmp_path):
    table = pq.read_table(write_log(small_log(), tmp_path / "log.parquet"))
    assert table.column_names == [
        *("episode", "step", "price", "stock", "action", "reward"),
        *("next_price", "next_stock", "terminated", "truncated"),
    ]
    assert table["action"].to_pylist() == ["hold", "buy", "buy"]
    assert table["step"].to_pylist() == [0, 1, 0]


def test_another_program_may_choose_and_shuffle_rows(tmp_path):
    path = write_log(small_log(), tmp_path / "log.parquet")
    table = pq.read_table(path)
    pq.write_table(table.take([2, 1, 0]), path)
    assert read_log(path).rewards.tolist() == [3.0, 1.0, 2.0]  # by episode and step
    pq.write_table(table.filter(pc.field("episode") == "b"), path)
    log = read_log(path)
    assert log.rewards.tolist() == [1.0, 2.0]
    assert log.action_space.labels == ("hold", "buy", "never")


def test_another_program_may_add_and_rename_columns(tmp_path):
    path = write_log(small_log(), tmp_path / "log.parquet")
    table = pq.read_table(path).append_column("weekday", pa.array([0, 0, 1]))
    pq.write_table(table, path)
    reading = read(path)
    assert_equal(reading.log, small_log())
    assert reading.columns.ignored == ("weekday",)
    pq.write_table(table.drop_columns(["truncated"]), path)
    with pytest.raises(LogError, match="no column 'truncated' of type bool any more"):
        read_log(path)
    pq.write_table(table.rename_columns({"reward": "gain"}), path)
    reading = read(path, state=["price", "stock"], group="weekday", reward="gain")
    assert reading.log.group_ids.tolist() == [1, 0]
    assert reading.log.next_states.tolist() == [[7.0, 7.0], [9.0, 9.0], [8.0, 8.0]]


def test_a_damaged_file_gives_an_error_or_the_same_log(tmp_path):
    log = small_log()
    path = write_log(log, tmp_path / "log.parquet")
    whole = path.read_bytes()
    seen = {"error": 0, "equal": 0}
    for at in range(3, len(whole), max(1, 59 // TIMES)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        try:
            assert_equal(log, read_log(path))
            seen["equal"] += 1
        except LogError:
            seen["error"] += 1
    assert min(seen.values()) > 0


def resealed(text, **changes):
    return sealed_page({**opened_page(text.encode(), "It"), **changes}).decode()


def test_a_file_of_another_version_or_with_a_damaged_description_is_refused(tmp_path):
    path = write_log(small_log(), tmp_path / "log.parquet")
    table = pq.read_table(path)
    text = table.schema.metadata[b"tailproof"].decode()
    for other, said in (
        (resealed(text, version=1), "another version of tailproof"),
        (text.replace("never", "nevar"), "is damaged: .*its description"),
        ("[]", "is damaged"),
        ("?", "is damaged"),
    ):
        pq.write_table(table.replace_schema_metadata({"tailproof": other}), path)
        with pytest.raises(LogError, match=said):
            read_log(path)


def test_a_label_that_the_description_does_not_know_is_an_error(tmp_path):
    path = write_log(small_log(), tmp_path / "log.parquet")
    table = pq.read_table(path)
    strange = pa.array(["hold", "buy", "sell"]).dictionary_encode()
    pq.write_table(table.set_column(4, "action", strange), path)
    with pytest.raises(
        LogError, match=r"must hold actions of the log, hold, buy, never. Got .sell"
    ):
        read_log(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_log(small_log(), tmp_path / "log.parquet")
    before = path.read_bytes()

    def full_disk(table, where, **_):
        where.write_bytes(b"half a fi")
        raise OSError("No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full_disk)
    with pytest.raises(LogError, match=r"could not be written: No space left"):
        write_log(small_log(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_cannot_be_written_where_there_is_no_folder(tmp_path):
    with pytest.raises(LogError, match="Check that the folder exists"):
        write_log(small_log(), tmp_path / "none" / "log.parquet")
    with pytest.raises(LogError, match="could not be written"):
        write_log(small_log(), tmp_path)


def test_ids_of_odd_types_are_refused(tmp_path):
    odd = np.array([("b", 1), ("a", 2)], dtype=object)
    ids = np.empty(2, dtype=object)
    ids[:] = [tuple(each) for each in odd]
    log = dataclasses.replace(small_log(), episode_ids=ids)
    with pytest.raises(
        LogError, match=r"episode ids must be text, numbers or dates.*Got \('b', 1\)"
    ):
        write_log(log, tmp_path / "log.parquet")
