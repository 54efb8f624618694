"""Tables from strangers: names that occur twice, files that claim too much, patterns that explode."""

import json
import sqlite3
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from tailproof.errors import LogError
from tailproof.io import read_log
from tailproof.io.columns import _families, _matching
from tailproof.io.tables import open_table

ROWS = [(k % 2, float(k), 3.0) for k in range(40)]


def table_of(source):
    opened = open_table(source)
    return opened.read(opened.names, {})


def test_columns_of_one_name_in_a_join_are_refused(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE a (id, action, reward)")
        connection.execute("CREATE TABLE b (id, reward)")
        connection.executemany("INSERT INTO a VALUES (?, ?, 3.0)", [(k, k % 2) for k in range(9)])
        connection.executemany("INSERT INTO b VALUES (?, -100.0)", [(k,) for k in range(9)])
    with pytest.raises(LogError, match="'id'"):
        read_log(f"sqlite://{path}?query=SELECT * FROM a JOIN b ON a.id = b.id")
    log = read_log(
        f"sqlite://{path}?query=SELECT action, a.reward AS reward FROM a JOIN b ON a.id = b.id"
    )
    assert log.rewards.mean() == 3


class TestDuckDB:
    @pytest.fixture
    def stranger(self, tmp_path):
        library = pytest.importorskip("duckdb")
        secret = tmp_path / "secret.txt"
        secret.write_text("password")
        path = tmp_path / "log.duckdb"
        with library.connect(str(path)) as connection:
            connection.execute(
                f"CREATE VIEW orders AS SELECT content AS state, 1 AS action, 2.0 AS reward "
                f"FROM read_text('{secret}')"
            )
        return path

    def test_a_view_reads_no_other_file(self, stranger):
        with pytest.raises(LogError, match="another file") as error:
            read_log(str(stranger))
        assert "password" not in str(error.value)

    def test_unless_it_is_asked_for(self, stranger):
        table = table_of(f"duckdb://{stranger}?external=yes&table=orders")
        assert table["state"].to_pylist() == ["password"]


class TestExcel:
    @pytest.fixture
    def openpyxl(self):
        return pytest.importorskip("openpyxl")

    def book(self, openpyxl, rows, path):
        workbook = openpyxl.Workbook()
        for row in [("action", "x", "reward"), *rows]:
            workbook.active.append(row)
        workbook.save(path)
        return path

    def test_a_stale_dimension_cuts_nothing(self, openpyxl, tmp_path):
        path = self.book(openpyxl, ROWS, tmp_path / "log.xlsx")
        stale = tmp_path / "stale.xlsx"
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(stale, "w") as target:
            for part in source.infolist():
                content = source.read(part)
                if part.filename.endswith("sheet1.xml"):
                    assert b'ref="A1:C41"' in content
                    content = content.replace(b'ref="A1:C41"', b'ref="A1:C5"')
                target.writestr(part, content)
        assert table_of(stale).num_rows == 40

    def test_a_hidden_first_sheet_is_not_read_unless_it_is_named(self, openpyxl, tmp_path):
        workbook = openpyxl.Workbook()
        hidden, shown = workbook.active, workbook.create_sheet("log")
        hidden.title, hidden.sheet_state = "old", "hidden"
        for sheet, reward in ((hidden, -100.0), (shown, 3.0)):
            sheet.append(("action", "reward"))
            for k in range(5):
                sheet.append((k % 2, reward))
        workbook.active = 1
        workbook.save(tmp_path / "book.xlsx")
        assert set(table_of(tmp_path / "book.xlsx")["reward"].to_pylist()) == {3.0}
        named = table_of(f"excel://{tmp_path / 'book.xlsx'}?sheet=old")
        assert set(named["reward"].to_pylist()) == {-100.0}

    def test_a_row_of_totals_is_no_decision(self, openpyxl, tmp_path):
        totals = ("Total", None, sum(row[2] for row in ROWS))
        with pytest.raises(LogError, match="'reward'"):
            table_of(self.book(openpyxl, [*ROWS, totals], tmp_path / "log.xlsx"))

    def test_a_workbook_that_unpacks_to_too_much(self, openpyxl, tmp_path):
        path = self.book(openpyxl, ROWS, tmp_path / "log.xlsx")
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as target:
            target.writestr("xl/padding.xml", bytes(40 << 20))
        with pytest.raises(LogError, match="unpacks to"):
            table_of(path)


class TestJson:
    def test_deep_values_end_in_an_error_not_in_a_crash(self, tmp_path):
        path = tmp_path / "deep.jsonl"
        path.write_text('{"action": 1, "reward": ' + "[" * 10_000 + "]" * 10_000 + "}\n")
        with pytest.raises(LogError, match="nested"):
            table_of(path)

    def test_brackets_in_text_are_text(self, tmp_path):
        path = tmp_path / "log.jsonl"
        rows = [{"action": k % 2, "reward": 1.0, "note": ":[ \\" + "[" * 300} for k in range(200)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert table_of(path).num_rows == 200

    def test_open_brackets_of_many_lines_do_not_add_up(self, tmp_path):
        path = tmp_path / "log.jsonl"
        path.write_text('{"action": 1, "reward": 1.0, "note": ":["}\n' * 60_000)
        assert table_of(path).num_rows == 60_000


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("x_*", ["x_1", "x_a_2"]),
            ("*_*_*", ["x_a_2"]),
            ("*", ["x_1", "x_a_2", "y"]),
            ("x*1", ["x_1"]),
            ("x_1*1", []),
        ],
    )
    def test_stars(self, pattern, expected):
        assert _matching(pattern, ["x_1", "x_a_2", "y"]) == expected

    def test_many_stars_in_long_names(self):
        name = "a" * 5_000
        assert _matching("*a" * 40 + "*b", [name]) == []
        assert _matching("*a" * 40 + "*", [name]) == [name]

    def test_labels_in_a_very_long_name(self):
        name = "p_" * 4_000 + "mail"
        (family,) = _families([name, name[:-4] + "none"], {"mail", "none"})
        assert set(family) == {"mail", "none"}


def test_a_long_column_name_is_read(tmp_path):
    table = pa.table(
        {
            "_".join(["x"] * 4_000): np.linspace(0, 1, 30),
            "action": np.arange(30) % 2,
            "reward": np.ones(30),
        }
    )
    assert read_log(table, state="x*").n_transitions == 30
