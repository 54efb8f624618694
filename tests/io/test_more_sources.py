"""JSON lines, Excel, SQLite, DuckDB, queries and frames: the same table gives the same log."""

import datetime as dt
import json
import sqlite3
from contextlib import closing

import narwhals
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from tailproof import Column, evaluate, read_log
from tailproof.errors import LogError

ROWS = [
    {"shop": "north", "day": "2025-01-01", "action": "a", "reward": 1.5, "new": "b"},
    {"shop": "south", "day": "2025-01-02", "action": "b", "reward": -2.0, "new": "b"},
    {"shop": None, "day": "2025-01-03", "action": "a", "reward": 3.25, "new": "a"},
    {"shop": "north", "day": "2025-01-04", "action": "b", "reward": 0.0, "new": "a"},
]
TABLE = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def read(source):
    return read_log(source, state="shop")


def json_lines(folder):
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def excel(folder):
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(list(TABLE))
    for row in ROWS:
        book.active.append(list(row.values()))
    book.save(folder / "log.xlsx")
    return folder / "log.xlsx"


def sqlite(folder, *, tables=1):
    path = folder / "log.sqlite"
    with sqlite3.connect(path) as connection:
        for k in range(tables):
            connection.execute(f"CREATE TABLE orders{k} (shop, day, action, reward, new)")
            connection.executemany(
                f"INSERT INTO orders{k} VALUES (:shop, :day, :action, :reward, :new)", ROWS
            )
    return path


def duckdb(folder):
    import duckdb as library

    logged = pa.table(TABLE)  # noqa: F841 - DuckDB finds it by its name
    with library.connect(str(folder / "log.duckdb")) as connection:
        connection.execute("CREATE TABLE orders AS SELECT * FROM logged")
    return folder / "log.duckdb"


class Capsule:
    """A frame of a library that nobody has heard of."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(TABLE).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        json_lines,
        excel,
        sqlite,
        lambda folder: f"sqlite://{sqlite(folder, tables=2)}?table=orders1",
        lambda folder: f"sqlite://{sqlite(folder)}?query=SELECT * FROM orders0",
        lambda folder: str(duckdb(folder)),
        lambda folder: f"duckdb://{duckdb(folder)}?query=SELECT * FROM orders",
        lambda folder: Capsule(),
        lambda folder: narwhals.from_native(polars.DataFrame(TABLE)),
        lambda folder: polars.LazyFrame(TABLE),
    ],
    ids=[
        "jsonl",
        "xlsx",
        "sqlite",
        "table",
        "query",
        "duckdb",
        "duck query",
        "capsule",
        "nw",
        "polars",
    ],
)
def test_the_same_table_gives_the_same_log(make, tmp_path):
    log, known = read(make(tmp_path)), read(TABLE)
    assert log.state_names == known.state_names
    for name in ("states", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(log, name), getattr(known, name))
    assert evaluate(log, Column("new")).value == evaluate(known, Column("new")).value


def test_a_database_is_asked_which_table(tmp_path):
    path = sqlite(tmp_path, tables=2)
    with pytest.raises(
        LogError, match=r"has 2 tables: orders0, orders1. Say which, as in sqlite://"
    ):
        read(path)
    with pytest.raises(LogError, match="has no table 'order'"):
        read(f"sqlite://{path}?table=order")
    with pytest.raises(LogError, match="could not be read: no such column: nowhere"):
        read(f"sqlite://{path}?query=SELECT nowhere FROM orders0")
    with pytest.raises(LogError, match="After \\? comes table=NAME or query=SELECT"):
        read(f"sqlite://{path}?orders0")
    with pytest.raises(LogError, match=r"There is no file 'nowhere.db'"):
        read("duckdb://nowhere.db?table=x")


def test_a_query_cannot_change_the_database(tmp_path):
    path = sqlite(tmp_path)
    with pytest.raises(LogError, match="readonly"):
        read(f"sqlite://{path}?query=DROP TABLE orders0")
    assert len(read(path)) == 4


def test_dates_of_excel_are_dates(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["x_day", "action", "reward"])
    for day in (1, 2, 3):
        book.active.append([dt.datetime(2025, 1, day), day % 2, 1.0 * day])
    book.save(tmp_path / "log.xlsx")
    log = read_log(tmp_path / "log.xlsx")
    assert np.diff(log.states[:, 0]).tolist() == [1.0, 1.0]


def test_files_that_are_none_are_refused(tmp_path):
    for name, said in (("log.xlsx", "could not be read"), ("log.jsonl", "could not be read")):
        (tmp_path / name).write_bytes(b"\x01\x02 no such thing")
        with pytest.raises(LogError, match=said):
            read(tmp_path / name)


STAMPS = {
    "seconds": "2024-01-0{}T00:10:00",
    "a blank": "2024-01-0{} 00:10:00",
    "Greenwich": "2024-01-0{}T00:10:00Z",
    "milliseconds": "2024-01-0{}T00:10:00.250Z",
    "an offset": "2024-01-0{}T02:10:00+02:00",
    "days": "2024-01-0{}",
}


@pytest.mark.parametrize("form", STAMPS)
def test_times_written_as_text_are_times_in_every_source(form, tmp_path):
    stamps = [STAMPS[form].format(day) for day in (3, 1, 2, 5, 4)]
    table = pd.DataFrame(
        {
            "unit": list("aaabb"),
            "stamp": stamps,
            "x": [3.0, 1.0, 2.0, 5.0, 4.0],
            "action": ["go", "stay", "go", "go", "stay"],
            "reward": [3.0, 1.0, 2.0, 5.0, 4.0],
        }
    )
    table.to_csv(tmp_path / "log.csv", index=False)
    table.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    table.to_parquet(tmp_path / "log.parquet")
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        table.to_sql("log", connection, index=False)
        connection.commit()
    files = [tmp_path / f"log.{kind}" for kind in ("csv", "jsonl", "parquet", "db")]
    logs = [
        read_log(source, state=["x", "stamp"], episode="unit", step="stamp", terminated=True)
        for source in (table, polars.DataFrame(table), *files)
    ]
    for log in logs:
        assert log.rewards.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert log.state_names == logs[0].state_names
        np.testing.assert_allclose(log.states, logs[0].states, atol=1e-9)


def workbook(path, **sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


LOGGED = [["x", "action", "reward"], [1.0, "a", 2.0], [2.0, "b", 3.0]]


def test_a_sheet_is_named(tmp_path):
    path = tmp_path / "plan.xlsx"
    workbook(path, Info=[["readme"], ["this workbook"]], Data=LOGGED)
    with pytest.raises(
        LogError, match=r"sheet 'Info'. Other sheets are Data; name one as in"
    ) as caught:
        read_log(path)
    address = str(caught.value).partition("name one as in '")[2].partition("'")[0]
    assert read_log(address).rewards.tolist() == [2.0, 3.0]
    with pytest.raises(LogError, match=r"has no sheet 'Dat'. It has Info, Data"):
        read_log(f"excel://{path}?sheet=Dat")
    with pytest.raises(LogError, match=r"After . comes sheet=NAME"):
        read_log(f"excel://{path}?table=Data")


def test_rows_above_the_names_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workbook("ward.xlsx", Export=[["Ward 4B"], [None], *LOGGED])
    with pytest.raises(LogError, match="Row 3 looks like column names: delete the rows") as caught:
        read_log("ward.xlsx")
    line = str(caught.value).partition("convert the sheet: ")[2].removesuffix(".")
    exec(line, {"pandas": pd})
    assert read_log("log.csv").rewards.tolist() == [2.0, 3.0]


def test_a_name_that_is_missing_may_stand_further_down(tmp_path):
    workbook(tmp_path / "ward.xlsx", Export=[["Ward 4B"], [None], *LOGGED])
    with pytest.raises(
        LogError, match=r"no column 'action' for action.*Row 3 looks like column names"
    ):
        read_log(tmp_path / "ward.xlsx", action="action", reward="reward")


def test_cells_of_several_types_are_read_as_in_a_text_file(tmp_path):
    path = tmp_path / "plan.xlsx"
    rows = [[*row, "a note" if row[0] == "x" else row[0]] for row in LOGGED]
    workbook(path, Data=[*rows, ["3", "a", 4.0, "late"], [None] * 4, [None] * 4])
    log = read_log(path, state="x")
    assert log.states.ravel().tolist() == [1.0, 2.0, 3.0]
    workbook(path, Data=[*LOGGED, *[[3.0, "a", 4.0]] * 3, [3.0, "a", "n/a"]])
    with pytest.raises(
        LogError, match=r"'reward' must hold numbers. Got 'n/a' at row 5 \(1 such row"
    ):
        read_log(path)
    workbook(path, Empty=[], Data=LOGGED)
    with pytest.raises(LogError, match=r"has nothing in the sheet 'Empty'.*Other sheets are Data"):
        read_log(path)


def test_where_names_stand_is_said_of_text_files_only(tmp_path):
    table = pd.DataFrame({"this": [1], "that": [2]})
    table.to_csv(tmp_path / "log.csv", index=False)
    table.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(LogError, match="A text file needs a first line with column names"):
        read_log(tmp_path / "log.csv")
    with pytest.raises(LogError, match=r"reward='COLUMN', state='\*'\.$"):
        read_log(tmp_path / "log.parquet")
