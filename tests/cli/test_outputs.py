"""What is written, and where: no input is replaced, no secret printed, no answer lost unsaid."""

import importlib
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
from tailproof.errors import TailproofError, without_secrets
from tailproof.files import local_files, require_outputs

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
    (path / "shop.db-wal").touch()
    (path / "rule.sql").write_bytes((path / "shop.db").read_bytes())
    (path / "link.csv").symlink_to(path / "log.csv")
    (path / "hard.csv").hardlink_to(path / "log.csv")
    (path / "D4RL/pen/human-v2/data").mkdir(parents=True)
    (path / "D4RL/pen/human-v2/data/main_data.hdf5").touch()
    (path / "rule.py").write_text("def choose(states):\n    return ['a'] * len(states)\n")
    return path.resolve()


#: How an input may be named, and the file that it is in.
INPUTS = {
    "path": ("{0}/log.csv", "log.csv"),
    "link": ("{0}/link.csv", "log.csv"),
    "hard link": ("{0}/hard.csv", "log.csv"),
    "dots": ("{0}/../{1}/log.csv", "log.csv"),
    "glob": ("{0}/log.*", "log.parquet"),
    "folder": ("{0}", "log.parquet"),
    "file URI": ("file://{0}/log.parquet", "log.parquet"),
    "sqlite": ("sqlite://{0}/shop.db", "shop.db"),
    "sqlite table": ("sqlite://{0}/shop.db?table=orders", "shop.db"),
    "sqlite log": ("sqlite://{0}/shop.db?table=orders", "shop.db-wal"),
    "duckdb": ("duckdb://{0}/shop.duckdb?query=SELECT * FROM orders", "shop.duckdb"),
    "file in a query": (
        "duckdb://{0}/shop.duckdb?external=yes&query=SELECT * FROM '{0}/log.parquet'",
        "log.parquet",
    ),
    "excel": ("excel://{0}/plan.xlsx", "plan.xlsx"),
    "sheet": ("excel://{0}/plan.xlsx?sheet=Sheet", "plan.xlsx"),
    "rule": ("{0}/rule.py:choose", "rule.py"),
    "named rule": ("mine={0}/rule.py:choose", "rule.py"),
    "mixture": ("0.5*{0}/rule.py:choose + 0.5*logged", "rule.py"),
    "close mixture": ("0.5*logged+0.5*{0}/rule.py:choose", "rule.py"),
    "module": ("rule:choose", "rule.py"),
    "minari": ("D4RL/pen/human-v2", "D4RL/pen/human-v2/data/main_data.hdf5"),
}


@pytest.mark.parametrize("form", INPUTS)
def test_no_input_is_replaced_however_it_is_named(form, shop, monkeypatch):
    monkeypatch.chdir(shop)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(shop))
    given, file = INPUTS[form]
    with pytest.raises(TailproofError) as error:
        require_outputs({"report": shop / file}, [given.format(shop, shop.name)])
    assert error.value.argument == "report"
    require_outputs({"report": shop / "new.html"}, [given.format(shop, shop.name)])


@pytest.mark.parametrize(
    "asked",
    [
        "query=SELECT * FROM read_parquet($$log.parquet$$)",
        "query=SELECT * FROM read_parquet('log' || '.parquet')",
        "query=SELECT * FROM E'log\\x2eparquet'",
        "query=SELECT * FROM read_csv('~/log.csv')",
        "table=view",
    ],
)
def test_what_may_read_any_file_replaces_none(asked, shop):
    """Text does not show which files a query reads, and a view does not show it at all."""
    given = f"duckdb://{shop}/shop.duckdb?external=yes&{asked}"
    for file in ("log.parquet", "log.csv", "plan.xlsx"):
        with pytest.raises(TailproofError) as error:
            require_outputs({"out": shop / file}, [given])
        assert error.value.argument == "out"
    require_outputs({"out": shop / "new.tailproof"}, [given])


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["evaluate", "{0}/log.csv", "--policy", "always:a", "--report"], "log.csv"),
        (["evaluate", "{0}/log.csv", "--policy", "{0}/rule.py:choose", "--report"], "rule.py"),
        (["evaluate", "sqlite://{0}/shop.db", "--policy", "always:a", "--report"], "shop.db"),
        (["compare", "{0}/log.csv", "--policy", "a={0}/rule.py:choose", "--report"], "rule.py"),
        (["diagnose", "duckdb://{0}/shop.duckdb", "--report"], "shop.duckdb"),
        (["learn", "excel://{0}/plan.xlsx", "--out"], "plan.xlsx"),
        (["learn", "{0}/log.csv", "--report"], "log.csv"),
        (["learn", "sqlite://{0}/rule.sql", "--export", "sql", "--out"], "rule.tailproof"),
        (["apply", "{0}/log.csv", "{0}/log.parquet", "--out"], "log.csv"),
        (["apply", "{0}/rule.py", "file://{0}/log.parquet", "--out"], "log.parquet"),
        (["data", "make", "CartPole-v1", "--policy", "{0}/log.csv", "--out"], "log.csv"),
    ],
)
def test_no_command_replaces_what_it_reads(words, file, shop):
    before = {path: path.read_bytes() for path in shop.iterdir() if path.is_file()}
    ended = run(app, [*(word.format(shop) for word in words), str(shop / file), "--json"])
    assert ended.exit_code == 2
    assert json.loads(ended.stdout)["error"]["argument"] in ("out", "report", "export sql")
    assert {path: path.read_bytes() for path in shop.iterdir() if path.is_file()} == before


def test_code_that_a_policy_imports_is_an_input(shop, monkeypatch):
    monkeypatch.syspath_prepend(shop)
    (shop / "helper_of_a_rule.py").touch()
    importlib.import_module("helper_of_a_rule")
    with pytest.raises(TailproofError):
        require_outputs({"report": shop / "helper_of_a_rule.py"}, [])


def test_other_files_beside_an_input_are_no_inputs(shop, tmp_path):
    named = local_files(f"sqlite://{shop}/shop.db?table=orders")
    assert named == {shop / "shop.db", shop / "shop.db-wal"}
    assert local_files("always:a") == set()
    assert local_files(f"duckdb://?query=SELECT * FROM '{shop}/log.parquet'") == {
        (shop / "log.parquet").resolve()
    }
    assert {path.name for path in local_files(f"{shop}/log.*")} == {"log.csv", "log.parquet"}


@pytest.mark.parametrize(
    "text",
    [
        "s3://me:hunter2@bucket/x cannot be read.",
        "s3:/me:hunter2@bucket/x",
        "s3://:hunter2@bucket/x",
        "s3://me:a@hunter2@bucket/x",
        "SELECT * FROM 's3://me:hunter2@bucket/x'",
        "https://host/x?region=eu&sig=hunter2",
        "https://host/x?X-Amz-Signature=hunter2&x=1",
        "https://host/x#access_token=hunter2",
        "abfs://c@host/x?sas_token=hunter2",
        "postgresql://host/db?password=hunter2",
    ],
)
def test_passwords_reach_no_message(text):
    assert "hunter2" not in str(TailproofError(text))
    assert "***" in without_secrets(text)


def test_what_is_no_secret_stays():
    for text in ("a:b@c, x=1?y", "https://host:80/x?region=eu", "0.5*logged + 0.5*a.py:b"):
        assert without_secrets(text) == text


@pytest.mark.parametrize("words", [(), ("--json",), ("--debug",)])
def test_passwords_reach_no_record(words):
    ended = run(app, ["evaluate", "https://me:hunter2@host/x.csv", "--policy", "always:a", *words])
    assert ended.exit_code == 2
    assert "hunter2" not in ended.output + ended.stderr


@pytest.mark.slow
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
