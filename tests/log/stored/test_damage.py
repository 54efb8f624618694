"""What is wrong is named, with file and row group, and never becomes a number."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailproof import evaluate
from tailproof.errors import LogError, StorageError
from tailproof.io import read_log


def run(lazy, cartpole):
    return evaluate(lazy, cartpole.target(), method="fqe", gamma=0.9).value


def test_a_corrupt_row_group(path, tmp_path):
    file = Path(shutil.copy(path, tmp_path / "log.parquet"))
    column = pq.ParquetFile(file).metadata.row_group(5).column(2)
    damaged = bytearray(file.read_bytes())
    damaged[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    file.write_bytes(damaged)
    with pytest.raises(StorageError, match=r"log\.parquet, row group 5, could not be read"):
        read_log(file, lazy=True)


def test_what_happens_to_the_file_later_does_not_matter(path, tmp_path, cartpole):
    file = shutil.copy(path, tmp_path / "log.parquet")
    lazy = read_log(file, lazy=True)
    wanted = run(lazy, cartpole)
    os.unlink(file)
    assert run(lazy, cartpole) == wanted


@pytest.mark.slow
def test_a_disk_that_is_full(path, tmp_path):
    """A process that may write no more than 100 bytes to a file: as on a full disk."""
    script = f"""
import resource, signal, sys, warnings
from tailproof import evaluate
from tailproof.parallel import Local
from tailproof.io import read_log
lazy = read_log({str(path)!r}, lazy=True)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
warnings.simplefilter("always")
engine = Local(checkpoint={str(tmp_path / "progress")!r})
print(evaluate(lazy, lambda s: 1 * (s[:, 2] > 0), method="lstd", gamma=0.5, engine=engine).value)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    wanted = evaluate(
        read_log(path, lazy=True), lambda s: 1 * (s[:, 2] > 0), method="lstd", gamma=0.5
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(wanted.value, rel=1e-12), done.stderr
    assert "Progress could not be written to" in done.stderr
    assert "File too large" in done.stderr
    assert list((tmp_path / "progress").iterdir()) == []


def test_a_type_that_changes_between_files(log, tmp_path, table_of):
    table = table_of(log)
    pq.write_table(table[:700], tmp_path / "a.parquet")
    texts = pa.array([str(each) for each in log.rewards[700:]])
    changed = table[700:].set_column(table.column_names.index("reward"), "reward", texts)
    pq.write_table(changed, tmp_path / "b.parquet")
    with pytest.raises(
        LogError,
        match=r"Column 'reward' is string in .*b\.parquet, but double",
    ):
        read_log(tmp_path, lazy=True)
    pq.write_table(table[700:].drop_columns(["x_2"]), tmp_path / "b.parquet")
    with pytest.raises(LogError, match=r"b\.parquet has no column 'x_2'"):
        read_log(tmp_path, lazy=True)


def test_a_damaged_footer(log, tmp_path, table_of):
    pq.write_table(table_of(log), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no more of it")
    with pytest.raises(LogError, match=r"b\.parquet could not be read"):
        read_log(tmp_path, lazy=True)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"reward": lambda r: np.where(np.arange(1500) == 800, np.nan, r)}, "'reward' "),
        (
            {"x_1": lambda x: np.where(np.arange(1500) == 800, np.inf, x)},
            "'x_1' must hold finite",
        ),
    ],
)
def test_numbers_that_are_none(change, text, log, tmp_path, cartpole, table_of):
    table = table_of(log, terminated=log.truncated)
    for name, make in change.items():
        values = pa.array(make(table[name].to_numpy()))
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
    with pytest.raises(LogError, match=rf"In .*t\.parquet, row group \d+, .*{text}"):
        run(read_log(tmp_path / "t.parquet", lazy=True), cartpole)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {"episode": lambda log: np.arange(1500) % 2},
            "rows of an episode must stand together",
        ),
        ({"step": lambda log: np.arange(1500) // 2}, "steps of an episode must differ"),
        (
            {"terminated": lambda log: np.arange(1500) == 112},
            "terminated may be true only at the last row of an episode",
        ),
        (
            {"group": lambda log: np.arange(1500) // 130},
            "A group holds whole episodes.*Episode 2",
        ),
        ({"action": lambda log: pa.array([None, *log.actions[1:]])}, "missing value"),
        (
            {"x_0": lambda log: [f"{i}" for i in range(1500)]},
            "an identifier rather than a category",
        ),
    ],
)
def test_rows_that_make_no_log(columns, text, log, tmp_path, table_of):
    table = table_of(log, **{key: make(log) for key, make in columns.items()})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=113)
    with pytest.raises(LogError, match=text):
        read_log(tmp_path / "t.parquet", lazy=True, missing="error")


def test_next_states_that_are_missing(log, tmp_path, cartpole, table_of):
    after = {f"next_x_{j}": log.next_states[:, j].copy() for j in range(4)}
    after["next_x_0"][49] = np.nan
    table = table_of(log, **after, terminated=np.arange(1500) == 49)
    pq.write_table(table, tmp_path / "t.parquet")
    assert np.isfinite(run(read_log(tmp_path / "t.parquet", lazy=True, missing="error"), cartpole))
    after["next_x_0"][60] = np.nan
    pq.write_table(table_of(log, **after), tmp_path / "t.parquet")
    with pytest.raises(
        LogError, match=r"next state may be missing only at the last row.*2 such rows"
    ):
        read_log(tmp_path / "t.parquet", lazy=True, missing="error")
