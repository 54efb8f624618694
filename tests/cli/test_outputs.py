"""What is written, and where: no input is replaced, no secret printed, no answer lost unsaid."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tailproof.cli import app
from tailproof.cli.case import local_files
from tailproof.errors import TailproofError, without_secrets

run = CliRunner().invoke


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The same 200 rows as SQLite, DuckDB, Excel, CSV and Parquet, and a rule."""
    import duckdb
    from openpyxl import Workbook

    path = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(5)
    rows = [(float(x), "ab"[int(x > 0)], float(r)) for x, r in rng.normal(size=(200, 2))]
    names = ("x", "action", "reward")
    with sqlite3.connect(path / "shop.db") as base:
        base.execute("CREATE TABLE orders (x REAL, action TEXT, reward REAL)")
        base.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    base.close()
    frame = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(frame, path / "log.parquet")
    with duckdb.connect(str(path / "shop.duckdb")) as base:
        base.register("frame", frame)
        base.execute("CREATE TABLE orders AS SELECT * FROM frame")
    book = Workbook()
    for row in (names, *rows):
        book.active.append(row)
    book.save(path / "plan.xlsx")
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (path / "log.csv").write_text("\n".join(lines) + "\n")
    (path / "rule.py").write_text("def choose(states):\n    return ['a'] * len(states)\n")
    return path


SOURCES = {
    "csv": ("{0}/log.csv", "log.csv"),
    "parquet": ("{0}/log.parquet", "log.parquet"),
    "sqlite": ("sqlite://{0}/shop.db", "shop.db"),
    "sqlite table": ("sqlite://{0}/shop.db?table=orders", "shop.db"),
    "duckdb": ("duckdb://{0}/shop.duckdb?query=SELECT * FROM orders", "shop.duckdb"),
    "excel": ("excel://{0}/plan.xlsx", "plan.xlsx"),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    "words", [("evaluate", "--policy", "always:a", "--report"), ("learn", "--out")]
)
def test_no_input_is_replaced_however_it_is_named(kind, words, shop):
    source, name = SOURCES[kind]
    before = (shop / name).read_bytes()
    command, *rest = words
    ended = run(app, [command, source.format(shop), *rest, str(shop / name)])
    assert ended.exit_code == 2
    assert "would be replaced" in " ".join(ended.output.split())
    assert (shop / name).read_bytes() == before


def test_a_file_that_a_policy_is_read_from_is_an_input(shop):
    rule = shop / "rule.py"
    before = rule.read_bytes()
    words = ["evaluate", str(shop / "log.csv"), "--policy", f"{rule}:choose"]
    assert run(app, [*words, "--report", str(rule)]).exit_code == 2
    assert rule.read_bytes() == before


def test_other_files_beside_an_input_are_no_inputs(shop, tmp_path):
    named = local_files(f"sqlite://{shop}/shop.db?table=orders")
    assert named == {(shop / "shop.db").resolve()}
    assert local_files("always:a") == set()
    assert local_files(f"duckdb://?query=SELECT * FROM '{shop}/log.parquet'") == {
        (shop / "log.parquet").resolve()
    }
    assert {path.name for path in local_files(f"{shop}/log.*")} == {"log.csv", "log.parquet"}


def test_passwords_reach_no_message_and_no_record(shop):
    assert "hunter2" not in str(TailproofError("s3://me:hunter2@bucket/x cannot be read."))
    assert without_secrets("a:b@c, x=1?y") == "a:b@c, x=1?y"
    for words in (("--json",), ()):
        ended = run(
            app, ["evaluate", "s3://me:hunter2@bucket/x.parquet", "--policy", "always:a", *words]
        )
        assert ended.exit_code == 2
        assert "hunter2" not in ended.output


@pytest.mark.parametrize("words", [["methods"], ["--help"], ["methods", "--json"]])
def test_a_full_output_is_an_error_in_one_line(words):
    with open("/dev/full", "w") as full:
        code = "from tailproof.cli import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "standard output" in ended.stderr


def test_an_id_as_action_is_refused_by_every_door(shop, tmp_path):
    rows = "".join(f"{i % 7},id{i},{i % 5}\n" for i in range(200))
    (tmp_path / "ids.csv").write_text("x,action,reward\n" + rows)
    log = str(tmp_path / "ids.csv")
    for words in (
        ["evaluate", log, "--policy", "always:id3"],
        ["compare", log, "--policy", "always:id3"],
        ["diagnose", log],
        ["learn", log],
    ):
        ended = run(app, [*words, "--json"])
        assert ended.exit_code == 2
        assert json.loads(ended.stdout)["error"]["argument"] == "action"
