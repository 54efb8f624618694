"""The same commands, whether the log is in memory or not."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tailproof.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})


def found(*words):
    result = run(*words, "--json")
    assert result.exit_code in (0, 3, 4), result.stderr
    return json.loads(result.stdout)


def test_evaluate(path, tmp_path):
    words = ["evaluate", path, "--policy", "uniform", "--gamma", 0.9]
    here = found(*words, "--method", "roam-dm")
    there = found(*words, "--method", "roam-dm", "--lazy", "--workers", 2)
    assert there["value"] == pytest.approx(here["value"], rel=1e-9)
    assert "mapped from files" in there["notes"][0]
    here, there = found(*words), found(*words, "--lazy")
    assert there["value"] == here["value"]
    small = found(*words, "--lazy", "--budget", 0.0004, "--report", tmp_path / "page.html")
    said = " ".join(small["warnings"])
    assert "The diagnosis looked at" in said
    assert "Auto looked at" in said
    assert "of 30 episodes" in said
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.slow
def test_compare_learn_and_diagnose(path, tmp_path):
    comparing = ["compare", path, "--policy", "one=uniform", "--gamma", 0.9]
    learning = ["learn", path, "--gamma", 0.9, "--method", "fqi", "--report"]
    diagnosing = ["diagnose", path, "--policy", "uniform", "--gamma", 0.9]
    here, there = (found(*comparing, *more) for more in ([], ["--lazy"]))
    assert there["best"] == here["best"]
    here, there = (found(*learning, tmp_path / "page.html", *more) for more in ([], ["--lazy"]))
    assert there["held_out"]["on_log"] == here["held_out"]["on_log"]
    assert there["learned"]["episodes"] == here["learned"]["episodes"]
    here, there = (found(*diagnosing, *more) for more in ([], ["--lazy"]))
    for part in ("summary", "tails", "influence"):
        assert there[part] == here[part]
    said = found(*diagnosing, "--lazy", "--budget", 0.0004, "--report", tmp_path / "p.html")
    assert "The diagnosis looked at" in said["warnings"][0]


def test_propensities_are_estimated_alike(log, tmp_path, table_of):
    table = table_of(log, episode=np.arange(1500))
    pq.write_table(table, tmp_path / "t.parquet")
    words = ["evaluate", tmp_path / "t.parquet", "--policy", "always:1", "--method", "ips"]
    here, there = (found(*words, *more) for more in ([], ["--lazy"]))
    assert there["value"] == here["value"]
    small = found(*words, "--lazy", "--budget", 0.0001)
    assert "A model of the propensities looked at" in " ".join(small["warnings"])


def test_an_end_by_the_clock_is_seen_on_disk_too(log, tmp_path, table_of):
    pq.write_table(table_of(log, terminated=log.truncated), tmp_path / "t.parquet")
    words = ["diagnose", tmp_path / "t.parquet"]
    here, there = (found(*words, *more) for more in ([], ["--lazy"]))
    assert there["warnings"] == here["warnings"]
    assert "ends for good after 50 steps" in there["warnings"][0]


def test_a_run_goes_on_from_its_checkpoint(path, tmp_path):
    words = ["evaluate", path, "--policy", "uniform", "--gamma", 0.9, "--method", "fqe"]
    words += ["--lazy", "--checkpoint", tmp_path / "progress"]
    first, second = found(*words), found(*words)
    assert first["value"] == second["value"]
    assert list((tmp_path / "progress").iterdir())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--engine", "spark"], "--engine must be local or ray. Got 'spark'"),
        (["--address", "auto"], "--address is that of a Ray cluster: say --engine ray"),
        (["--engine", "ray", "--workers", "2"], "a Ray cluster knows its cores"),
    ],
)
def test_engines_that_are_none(words, text, path):
    result = run("evaluate", path, "--policy", "uniform", "--gamma", 0.9, *words)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())
