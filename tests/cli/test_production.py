"""From a log to production: learn, read the rule, apply it to a new file, serve it without us."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof.cli import app
from tests.cli.test_retailer import STATE, orders

pytestmark = pytest.mark.slow

SERVE = """
import csv, json, sys
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
with open(sys.argv[2], newline="") as file:
    rows = list(csv.DictReader(file))

def column(given):
    texts = [row[given.name] for row in rows]
    if given.type == "tensor(string)":
        return np.array(texts, dtype=object)
    if given.type == "tensor(int64)":
        return np.array([text or "NaT" for text in texts], dtype="datetime64[us]").astype(np.int64)
    known = {"": np.nan, "True": 1.0, "False": 0.0}
    return np.array([known[text] if text in known else float(text) for text in texts])

asked = {each.name: column(each) for each in session.get_inputs()}
labels = session.run(["labels"], asked)[0].tolist()
json.dump([labels, "tailproof" in sys.modules], sys.stdout)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of 8,000 rows, and 300 new customers with gaps, unseen categories and odd values."""
    path = tmp_path_factory.mktemp("production")
    orders(8_000, seed=3).to_csv(path / "orders.csv", index=False)
    new = orders(300, seed=4).drop(columns=["offer", "spend", "converted", "new_offer"])
    new["days_since_order"] = new["days_since_order"].astype(object)
    new.loc[0, "region"] = "the moon"  # refused: every category was known
    new.loc[1, "store"] = "s9999"  # one of the others
    new.loc[2, "days_since_order"] = None  # refused: it was never missing
    new.loc[3, "days_since_order"] = 4_000  # beyond the log
    new.loc[4, "site"] = 99  # refused
    new.loc[5:9, "age"] = np.nan
    new[new.columns[::-1]].to_csv(path / "new.csv", index=False)
    return path


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code in (0, 3, 4), result.stderr
    return json.loads(result.stdout), result.exit_code


def test_from_a_log_to_production(folder):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("onnxruntime")
    policy, new, out = folder / "policy.tailproof", folder / "new.csv", folder / "out.csv"
    columns = ["--state", STATE, "--categorical", "site"]
    words = ["--method", "policy-tree", "--out", policy, "--export", "sql,onnx"]
    found, _ = run("learn", folder / "orders.csv", *columns, *words)

    # the rule can be read: a voucher for those whose last order is at least a month ago
    leaves = found["rule"]["leaves"]
    assert sum(each["rows"] for each in leaves) == 2_400
    shown = {each["action"]: " ".join(each["conditions"]) for each in leaves}
    assert "days_since_order >" in shown["voucher"]

    # it decides for the new file, or says why not
    done, code = run("apply", policy, new, "--out", out)
    assert code == 0
    assert done["rows"] == 300
    assert done["refused"] == {"region": 1, "days_since_order": 1, "site": 1}
    assert 0 < done["outside"]["days_since_order"] < 0.02
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    decided = [row["action"] for row in rows]
    assert [bool(row["reason"]) for row in rows] == [not action for action in decided]
    assert run("apply", policy, new, "--out", out, "--alarm", 0.001)[1] == 4

    # a database and a bare process decide alike
    sql = policy.with_suffix(".sql").read_text(encoding="utf-8")
    said = duckdb.sql(f"SELECT {sql} FROM read_csv('{new}')").fetchall()
    assert [action or "" for (action,) in said] == decided
    graph = [sys.executable, "-I", "-c", SERVE, policy.with_suffix(".onnx"), new]
    bare = subprocess.run([*map(str, graph)], capture_output=True, text=True, check=True)
    assert json.loads(bare.stdout) == [decided, False]

    # the file of last week still decides as it did
    again = Path(folder / "again.csv")
    run("apply", policy, new, "--out", again)
    assert again.read_bytes() == out.read_bytes()
