"""A saved policy decides for files: each row alone, in any file, in any order, in any format."""

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet
from typer.testing import CliRunner

from tailproof import Learned, learn, read_log
from tailproof.cli import app
from tailproof.errors import LogError, PolicyError, SingularWarning, TailproofError
from tailproof.export import apply as applying
from tailproof.export.apply import apply

METHODS = ("policy-tree", "policy-scores", "constant", "fqi", "bc", "limited", "readable", ".onnx")


def customers(rows, seed):
    """Return a log with a column of every kind, and gaps."""
    rng = np.random.default_rng(seed)
    offer = rng.integers(0, 2, rows)
    region = rng.choice(["north", "south", "west"], rows)
    days = rng.integers(18_000, 19_000, rows).astype("datetime64[D]")
    return pa.table(
        {
            "age": pa.array(rng.normal(40, 12, rows).round(1), mask=rng.random(rows) < 0.1),
            "region": pa.array(region, mask=rng.random(rows) < 0.1),
            "member": rng.random(rows) < 0.5,
            "since": pa.array(days.astype("datetime64[s]")),
            "orders": rng.integers(0, 9, rows),
            "action": np.where(offer == 1, "voucher", "none"),
            "reward": offer * np.where(region == "north", 3.0, -1.0) + rng.normal(size=rows),
        }
    )


LOG = read_log(customers(800, 0), state=["age", "region", "member", "since", "orders"])
NEW = customers(40, 1).drop_columns(["action", "reward"])


@pytest.fixture(scope="module", params=METHODS)
def saved(request, tmp_path_factory):
    form, folder = request.param, tmp_path_factory.mktemp("policy")
    own = form in ("limited", "readable", ".onnx")
    limits = {"at_most": {"voucher": 0.2}} if form == "limited" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingularWarning)  # one-hot columns add up to one
        method = "policy-scores" if own else form
        learned = learn(LOG, method=method, gamma=0.0, readable=form == "readable", **limits)
    learned.save(folder / "policy.tailproof")
    if form != ".onnx":
        return folder / "policy.tailproof"
    pytest.importorskip("onnxruntime")
    learned.policy.save(folder / "policy.onnx")
    return folder / "policy.onnx"


def predicted(saved, table):
    return Learned.load(saved.with_suffix(".tailproof")).predict(table)


@pytest.fixture(scope="module")
def stochastic(tmp_path_factory):
    """A policy that draws its actions."""
    from dataclasses import replace

    path = tmp_path_factory.mktemp("policy") / "drawn.tailproof"
    learned = learn(LOG, method="policy-tree", gamma=0.0)
    replace(learned, policy=learned.softmax(5.0)).save(path)
    return path


def write(table, path):
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        rows = [json.dumps(row, default=str) for row in table.to_pylist()]
        path.write_text("\n".join(rows), encoding="utf-8")
    return path


def read(path):
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return csv.read_csv(path).to_pylist()


@pytest.mark.parametrize("into", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("of", [".csv", ".parquet", ".jsonl"])
def test_every_format_decides_alike(saved, tmp_path, of, into):
    out = tmp_path / f"out{into}"
    done = apply(saved, write(NEW, tmp_path / f"new{of}"), out)
    rows = read(out)
    assert [row["action"] for row in rows] == list(predicted(saved, NEW))
    assert list(rows[0]) == [*NEW.column_names, "action", "probability", "reason"]
    assert {row["probability"] for row in rows} == {1.0}
    assert sum(done.actions.values()) == done.rows == 40


@settings(max_examples=10, deadline=None, suppress_health_check=[*HealthCheck])
@given(order=st.permutations(range(40)), size=st.integers(1, 40))
def test_a_row_has_one_decision_in_any_file(saved, tmp_path, order, size):
    known = predicted(saved, NEW)
    some = NEW.take(order[:size]).select(NEW.column_names[::-1])
    apply(saved, write(some, tmp_path / "some.csv"), tmp_path / "some_out.csv")
    assert [row["action"] for row in read(tmp_path / "some_out.csv")] == list(known[order[:size]])


@pytest.mark.parametrize("of", [".csv", ".parquet"])
def test_two_columns_of_one_name_are_refused(stochastic, tmp_path, of):
    twice = NEW.append_column("age", pa.array(np.full(40, 99.0)))
    with pytest.raises(LogError, match="several columns with the name 'age'"):
        apply(stochastic, write(twice, tmp_path / f"new{of}"), tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("of", [".csv", ".parquet", ".jsonl"])
def test_amounts_are_read_as_the_whole_column_is_written(stochastic, tmp_path, monkeypatch, of):
    """The piece that tells what commas mean may be the last."""
    monkeypatch.setattr(applying, "_PIECE", 7)
    number = [1000.0 + 7 * i for i in range(39)] + [2_000.5]
    texts = [f"{value:,.0f}" for value in number[:-1]] + ["2,000.50"]
    asked = [NEW.set_column(0, "age", pa.array(each)) for each in (number, texts)]
    for name, table in zip(("plain", "text"), asked, strict=True):
        apply(stochastic, write(table, tmp_path / f"{name}{of}"), tmp_path / f"{name}_out.jsonl")
    plain, text = (read(tmp_path / f"{name}_out.jsonl") for name in ("plain", "text"))
    assert [row["probability"] for row in text] == [row["probability"] for row in plain]
    assert [row["age"] for row in text] == texts


@pytest.mark.parametrize("last", ["1,234", "12%", "7 EUR", "0.5"])
@pytest.mark.parametrize("of", [".csv", ".jsonl"])
def test_amounts_with_several_meanings_are_refused_whole(
    stochastic, tmp_path, monkeypatch, of, last
):
    monkeypatch.setattr(applying, "_PIECE", 7)
    first = {"1,234": "5,678", "12%": "40", "7 EUR": "7 USD", "0.5": "0,5"}[last]
    table = NEW.set_column(0, "age", pa.array([first] * 39 + [last]))
    with pytest.raises(
        LogError, match="column 'age' with numbers that are written in several ways"
    ):
        apply(stochastic, write(table, tmp_path / f"new{of}"), tmp_path / "out.csv")


def test_what_is_no_number_is_refused_alone(stochastic, tmp_path):
    table = NEW.set_column(0, "age", pa.array(["1.234,5"] * 38 + ["Total", "7"]))
    done = apply(stochastic, write(table, tmp_path / "new.csv"), tmp_path / "out.csv")
    assert done.refused == {"age": 1}
    assert "Got 'Total'" in read(tmp_path / "out.csv")[38]["reason"]


def test_columns_stay_as_they_are_written(saved, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text(
        "code,age,region,member,since,orders\n007,30.50,north,true,2020-01-01,3\n"
        '"a,b",1e1,,false,2020-01-02 00:00:00,2\n'
    )
    apply(saved, new, tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1].startswith("007,30.50,north,true,2020-01-01,3,")
    assert lines[2].startswith('"a,b",1e1,,false,2020-01-02 00:00:00,2,')


def test_a_refused_row_has_a_reason_and_no_action(saved, tmp_path):
    table = pa.concat_tables([NEW.slice(0, 2), NEW.slice(2, 1)])
    odd = table.set_column(1, "region", pa.array(["north", "mars", None]))
    done = apply(saved, write(odd, tmp_path / "new.csv"), tmp_path / "out.csv")
    first, second, third = read(tmp_path / "out.csv")
    assert first["action"]
    assert not first["reason"]
    assert not second["action"]
    assert "'mars'" in second["reason"]
    assert third["action"]  # the log has gaps, too
    assert done.refused == {"region": 1}


def test_columns_that_leave_the_log_are_counted(saved, tmp_path):
    old = NEW.set_column(0, "age", pa.array([500.0] * 10 + [40.0] * 30))
    done = apply(saved, write(old, tmp_path / "new.csv"), tmp_path / "out.csv")
    assert done.outside == {"age": 0.25}
    assert done.drifted == 0.25


def test_draws_depend_on_the_seed_and_not_on_the_pieces(stochastic, tmp_path, monkeypatch):
    new = write(customers(500, 3).drop_columns(["action", "reward"]), tmp_path / "new.parquet")

    def decided(**options):
        apply(stochastic, new, tmp_path / "out.csv", **options)
        return [(row["action"], row["probability"]) for row in read(tmp_path / "out.csv")]

    whole = decided(seed=1)
    monkeypatch.setattr(applying, "_PIECE", 7)
    assert decided(seed=1) == whole
    assert decided(seed=2) != whole
    likely = decided(most_likely=True)
    assert min(chance for _, chance in likely) >= 0.5
    expected = sum(c if a == "voucher" else 1 - c for a, c in whole)
    assert abs(expected - sum(a == "voucher" for a, _ in whole)) < 5 * np.sqrt(125)


def test_a_named_row_has_one_draw_in_any_file(stochastic, tmp_path):
    named = NEW.append_column("id", pa.array([f"c{i}" for i in range(40)]))

    def decided(table, **options):
        new = write(table, tmp_path / "new.csv")
        apply(stochastic, new, tmp_path / "out.csv", by="id", **options)
        return {row["id"]: row["action"] for row in read(tmp_path / "out.csv")}

    whole = decided(named)
    assert len(set(whole.values())) == 2
    assert decided(named.take([*range(39, -1, -1)])) == whole
    alone = decided(named.slice(17, 1))
    assert alone == {"c17": whole["c17"]}
    assert decided(named, seed=1) != whole
    with pytest.raises(LogError) as error:
        apply(stochastic, write(NEW, tmp_path / "new.csv"), tmp_path / "out.csv", by="id")
    assert error.value.argument == "by"


def test_no_input_is_replaced_and_nothing_is_half_written(saved, tmp_path):
    new = write(NEW, tmp_path / "new.csv")
    before = new.read_bytes(), saved.read_bytes()
    with pytest.raises(TailproofError) as error:
        apply(saved, new, new)
    assert error.value.argument == "out"
    with pytest.raises(PolicyError):
        apply(saved, new, tmp_path / "out.xlsx")
    with pytest.raises(LogError):
        apply(saved, write(NEW.drop_columns(["age"]), tmp_path / "less.csv"), tmp_path / "out.csv")
    mars = NEW.set_column(1, "region", pa.array(["mars"] * 40))
    with pytest.raises(LogError):
        apply(saved, write(mars, tmp_path / "mars.csv"), tmp_path / "out.csv")
    taken = write(NEW.append_column("reason", pa.array(["x"] * 40)), tmp_path / "taken.csv")
    with pytest.raises(LogError) as error:
        apply(saved, taken, tmp_path / "out.csv")
    assert error.value.argument == "prefix"
    assert before == (new.read_bytes(), saved.read_bytes())
    assert not (tmp_path / "out.csv").exists()
    assert not [*tmp_path.glob(".*")]


def test_the_command(saved, tmp_path):
    new, out = write(NEW, tmp_path / "new.csv"), tmp_path / "out.csv"
    ran = CliRunner().invoke(
        app, ["apply", str(saved), str(new), "--out", str(out), "--prefix", "our_", "--json"]
    )
    found = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert found["rows"] == 40
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    own = page.partition("## apply")[2].partition("\n## ")[0]
    shared = {"schema", "command", "warnings", "versions"}
    assert {key for key in found if f"`{key}`" not in own} <= shared
    assert "our_action" in read(out)[0]
    far = write(
        NEW.set_column(0, "age", pa.array([500.0] * 10 + [40.0] * 30)), tmp_path / "far.csv"
    )
    words = ["apply", str(saved), str(far), "--out", str(out)]
    codes = [
        CliRunner().invoke(app, [*words, "--alarm", share]).exit_code for share in ("0.2", "0.3")
    ]
    assert codes == [4, 0]
    wrong = CliRunner().invoke(app, ["apply", str(saved), str(new), "--out", str(new)])
    assert wrong.exit_code == 2


@pytest.mark.slow
def test_learn_exports_the_rule_beside_the_policy(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    log, out = write(customers(600, 5), tmp_path / "log.parquet"), tmp_path / "policy.tailproof"
    command = ["learn", str(log), "--method", "policy-tree", "--state", "age,region", "-q"]
    for form in ("sql", "python"):
        ran = CliRunner().invoke(app, [*command, "--out", str(out), "--export", form])
        assert ran.exit_code == 0, ran.output
    new = write(NEW, tmp_path / "new.parquet")
    apply(out, new, tmp_path / "out.parquet")
    decided = [row["action"] for row in read(tmp_path / "out.parquet")]
    sql = out.with_suffix(".sql").read_text(encoding="utf-8")
    assert [row[0] for row in duckdb.sql(f"SELECT {sql} FROM '{new}'").fetchall()] == decided
    scope = {}
    exec(out.with_suffix(".py").read_text(encoding="utf-8"), scope)
    assert [scope["decide"](row) for row in NEW.to_pylist()] == decided
    wrong = CliRunner().invoke(app, [*command, "--export", "sql"])
    assert wrong.exit_code == 2
