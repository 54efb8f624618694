"""Folders of Parquet files: all columns of all files, or an error that names the file."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailproof import evaluate
from tailproof.errors import LogError
from tailproof.io import read, read_log


def columns(first, count, *, seed):
    """Return episodes of three steps."""
    rng = np.random.default_rng(seed)
    step = np.tile(np.arange(3), count)
    return {
        "episode": np.repeat(np.arange(first, first + count), 3),
        "step": step,
        "x_a": rng.standard_normal(3 * count),
        "x_b": rng.standard_normal(3 * count),
        "action": rng.integers(2, size=3 * count),
        "reward": rng.standard_normal(3 * count),
        "terminated": step == 2,
        "truncated": np.zeros(3 * count, dtype=bool),
        "propensity": np.full(3 * count, 0.5),
    }


def folder(path, *files):
    path.mkdir(exist_ok=True)
    for i, content in enumerate(files):
        pq.write_table(pa.table(content), path / f"{i}.parquet")
    return path


def without(table, *names):
    return {name: values for name, values in table.items() if name not in names}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("missing", ["truncated", "terminated", "propensity", "x_b", "step"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_column_that_one_file_lacks_is_refused_by_its_name(tmp_path, missing, which, lazy):
    files = [columns(0, 4, seed=0), columns(4, 4, seed=1)]
    files[which] = without(files[which], missing)
    path = folder(tmp_path / "log", *files)
    with pytest.raises(LogError, match=rf"{which}\.parquet has no column '{missing}'"):
        read_log(path, lazy=lazy)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_column_that_plays_no_part_may_be_missing_or_differ(tmp_path, lazy):
    note = {"note": ["a"] * 12, "mark": [1] * 12}
    files = [{**columns(0, 4, seed=0), **note}, {**columns(4, 4, seed=1), "mark": ["x"] * 12}]
    reading = read(folder(tmp_path / "log", *files), lazy=lazy)
    assert set(reading.columns.ignored) == {"note", "mark"}
    assert reading.log.n_episodes == 8


@pytest.mark.parametrize("lazy", [False, True])
def test_types_that_differ_are_refused_by_file(tmp_path, lazy):
    files = [columns(0, 4, seed=0), columns(4, 4, seed=1)]
    files[1]["reward"] = [str(each) for each in files[1]["reward"]]
    with pytest.raises(LogError, match=r"Column 'reward' is string in .*1\.parquet"):
        read_log(folder(tmp_path / "log", *files), lazy=lazy)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kinds", [("f4", "f8"), ("f8", "f4")])
def test_the_wider_type_counts_whichever_file_comes_first(tmp_path, kinds, lazy):
    files = [columns(0, 4, seed=0), columns(4, 4, seed=1)]
    for table, kind in zip(files, kinds, strict=True):
        table["reward"] = table["reward"].astype(kind)
        table["action"] = table["action"].astype("i1" if kind == "f4" else "i8")
    log = read_log(folder(tmp_path / "log", *files), lazy=lazy)
    wide = files[kinds.index("f8")]["reward"]
    assert np.isin(log.rewards, np.concatenate([wide, files[kinds.index("f4")]["reward"]])).all()
    assert np.isin(log.rewards, wide).sum() > 8


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", "i1", "i8", "f8"])
def test_steps_are_sorted_whatever_their_type(tmp_path, kind):
    table = columns(0, 40, seed=0)
    table["step"] = table["step"].astype(kind)
    pq.write_table(pa.table(table), tmp_path / "good.parquet")
    lazy, memory = (read_log(tmp_path / "good.parquet", lazy=each) for each in (True, False))
    policy = lambda states: np.zeros(len(states), dtype=int)  # noqa: E731
    values = [evaluate(log, policy, method="lstd", gamma=0.0).value for log in (lazy, memory)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    order = np.lexsort((-table["step"].astype(float), table["episode"]))
    pq.write_table(pa.table(table).take(pa.array(order)), tmp_path / "turned.parquet")
    turned = read_log(tmp_path / "turned.parquet", lazy=True)
    assert np.array_equal(turned.states, lazy.states)
    assert np.array_equal(turned.next_states, lazy.next_states)


@pytest.mark.parametrize("odd", [np.inf, -np.inf])
@pytest.mark.parametrize("at", [2, 3])  # where an episode ends for good, and where it goes on
def test_infinite_next_states_are_refused_in_memory_and_on_disk(tmp_path, odd, at):
    table = columns(0, 4, seed=0)
    table |= {f"next_x_{name}": table[f"x_{name}"] + 1 for name in "ab"}
    table["next_x_a"][at] = odd
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    with pytest.raises(LogError, match="must hold finite numbers"):
        read_log(tmp_path / "log.parquet", lazy=False)
    with pytest.raises(
        LogError, match=r"next_x_a' must hold finite numbers\. Got '?-?inf'? at row \d \(1 such"
    ):
        read_log(tmp_path / "log.parquet", lazy=True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_match_a_pattern_are_one_log(kind, tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "action": ["a", "b", "a"], "reward": [1, 2, 3.5]})
    for part, rows in {"1": frame[:2], "2": frame[2:]}.items():
        path = tmp_path / f"week-{part}.{kind}"
        rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
    log = read_log(str(tmp_path / f"week-*.{kind}"))
    assert log.rewards.tolist() == [1.0, 2.0, 3.5]
    frame.rename(columns={"x": "y"}).to_csv(tmp_path / "week-3.csv")
    with pytest.raises(LogError):
        read_log(str(tmp_path / "week-*.*"))


def test_a_pattern_that_matches_no_file_is_refused(tmp_path):
    with pytest.raises(LogError, match=r"No file matches .*july\*\.csv"):
        read_log(tmp_path / "july*.csv")
