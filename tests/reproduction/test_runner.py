import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from reproduction.command import experiment, run, tidy
from reproduction.drawing import new_figure
from reproduction.experiment import Claim, Experiment, Job, Results
from tailproof.errors import TailproofError


def measure(job):
    rng = job.rng()
    product = rng.normal(size=(40, 40)) @ rng.normal(size=(40, 40))
    return [
        {"method": name, "value": float(product.sum()) * factor, "seconds": time.perf_counter()}
        for name, factor in (("a", 1.0), ("b", job.settings["factor"]))
    ]


def draw(results):
    figure, axes = new_figure()
    axes[0, 0].plot(results.values("value", method="a"))
    return figure


def judge(results):
    total = results.values("value", method="b").sum()
    return [
        Claim("b is positive", "holds" if total > 0 else "does not hold", f"{total:.3f}"),
        Claim("it is fast", "holds", f"{results.values('seconds').mean()}", timed=True),
    ]


TOY = Experiment(
    name="toy",
    shows="figure 0",
    title="?",
    settings={"factor": 2.0, "levels": (1.0, 2.0, 3.0)},
    quick={"levels": (1.0,)},
    cells=lambda settings: [{"level": level} for level in settings["levels"]],
    run=measure,
    draw=draw,
    judge=judge,
    replicates=5,
    quick_replicates=2,
)


def results_of(folder, name="toy"):
    return {kind: (folder / f"{name}.{kind}").read_bytes() for kind in ("parquet", "json")}


def test_results_are_the_same_whatever_the_number_of_processes(tmp_path):
    for jobs in (1, 2, 3):
        run(TOY, out=tmp_path / str(jobs), jobs=jobs)
    assert results_of(tmp_path / "1") == results_of(tmp_path / "2") == results_of(tmp_path / "3")


def test_results_depend_on_the_seed(tmp_path):
    for seed in (0, 1):
        run(TOY, out=tmp_path / str(seed), seed=seed)
    assert results_of(tmp_path / "0")["parquet"] != results_of(tmp_path / "1")["parquet"]


def test_a_finished_run_runs_nothing_again(tmp_path):
    assert run(TOY, out=tmp_path).jobs_run == 15
    before = results_of(tmp_path)
    assert run(TOY, out=tmp_path).jobs_run == 0
    assert results_of(tmp_path) == before


def test_more_replicates_run_only_what_is_missing_and_keep_the_first(tmp_path):
    run(TOY, out=tmp_path, replicates=2)
    few = pq.read_table(tmp_path / "toy.parquet").to_pylist()
    assert run(TOY, out=tmp_path, replicates=4).jobs_run == 6
    many = pq.read_table(tmp_path / "toy.parquet").to_pylist()
    assert [row for row in many if row["replicate"] < 2] == few


def test_other_settings_do_not_mix_with_what_is_there(tmp_path):
    run(TOY, out=tmp_path)
    other = replace(TOY, settings={**TOY.settings, "factor": -1.0})
    assert run(other, out=tmp_path).jobs_run == 15


def test_an_error_in_a_replicate_keeps_the_finished_ones(tmp_path):
    def fails(job):
        if job.replicate == 3:
            raise TailproofError("three is too many")
        return measure(job)

    with pytest.raises(TailproofError, match="three is too many"):
        run(replace(TOY, run=fails), out=tmp_path)
    assert run(TOY, out=tmp_path).jobs_run == 15 - 9


def test_files_say_what_was_run_and_hold_no_times(tmp_path):
    outcome = run(TOY, out=tmp_path, quick=True)
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["settings"] == {"factor": 2.0, "levels": [1.0]}
    assert (record["seed"], record["replicates"], record["rows"]) == (0, 2, 4)
    assert {"numpy", "python", "tailproof"} <= set(record["versions"])
    table = pq.read_table(tmp_path / "toy.parquet")
    assert table.column_names == ["level", "replicate", "method", "value"]
    assert "seconds" in pq.read_table(outcome.files["times"]).column_names
    assert (tmp_path / "toy.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
    (line,) = outcome.lines()
    assert line.startswith("toy (figure 0) ran 2 jobs")
    assert len(run(TOY, out=tmp_path).lines()) == 2


def test_replicates_must_be_positive(tmp_path):
    with pytest.raises(TailproofError, match=r"replicates must be at least 1. Got -1"):
        run(TOY, out=tmp_path, replicates=-1)


def test_jobs_of_different_cells_replicates_and_streams_do_not_share_numbers():
    jobs = [
        Job("ope", {"df": df}, replicate, seed, {})
        for df in (1.0, 2.0)
        for replicate in (0, 1)
        for seed in (0, 1)
    ]
    drawn = {job.integer(stream) for job in jobs for stream in (0, 1)}
    assert len(drawn) == 16


def test_rows_are_ordered_by_cell_and_replicate_whatever_order_they_came_in():
    cells = [{"df": 2.0}, {"df": 1.0}]
    measured = {(c, r): [{"method": "m", "value": 10 * c + r}] for r in (1, 0) for c in (1, 0)}
    rows = tidy(cells, 2, measured)
    assert [row["value"] for row in rows] == [0, 1, 10, 11]
    assert list(rows[0]) == ["df", "replicate", "method", "value"]


def test_columns_that_only_some_rows_have():
    results = Results("x", {}, 1, ({"part": "a", "x": 1}, {"part": "b", "y": 2.0, "name": "n"}))
    assert np.isnan(results.columns["x"][1])
    assert results.values("y", part="b") == [2.0]
    assert results.distinct("part") == ["a", "b"]
    assert results.where(name="n").tolist() == [False, True]


ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal, sys
from reproduction.__main__ import main
from reproduction.journal import Journal

left = int(sys.argv.pop(1))
append = Journal.append


def dying(journal, key, record):
    global left
    append(journal, key, record)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


Journal.append = dying
main()
"""


def test_a_run_killed_three_times_ends_as_one_never_killed(tmp_path):
    """The command itself, killed with SIGKILL, on another number of processes."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(experiment("bandit"), out=whole, quick=True, replicates=10)
    command = ["bandit", "--quick", "--replicates", "10", "--jobs", "2"]

    def start(lives):
        words = [sys.executable, "-c", KILLED, str(lives), *command, "--out", str(killed)]
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT)

    lengths = [1]  # the first line says whose file it is
    for finished in (1, 7, 12):
        done = start(finished)
        assert done.returncode == -signal.SIGKILL, done.stderr
        (journal,) = (killed / ".progress").glob("bandit-*.jsonl")
        lengths.append(journal.read_bytes().count(b"\n"))
        assert lengths[-1] == lengths[-2] + finished  # it went on, and did not start over
        assert not (killed / "bandit.json").exists()
    assert start(0).returncode == 0
    assert results_of(killed, "bandit") == results_of(whole, "bandit")
