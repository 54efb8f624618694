"""The way of the data in docs/design.md: each call enters the modules that are listed for it."""

import inspect
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tailproof as tp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tailproof"
#: Modules on a way that are entered only if asked for, or by another kind of log or policy.
SOMETIMES = {"io/mapped", "doors/segments", "doors/guardrails", "deep/critics"}


def ways():
    """Return the modules of each way, by its number."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    part = text.partition("## The way of the data")[2].partition("## Decisions")[0]
    found = re.findall(r"^(\d)\. (.*?)(?=^\d\. |\Z)", part, flags=re.MULTILINE | re.DOTALL)
    return {int(number): set(re.findall(r"`([a-z_]+/[a-z_0-9]+)`", way)) for number, way in found}


def entered(call):
    """Return the modules of the package in which a call runs a function; to import one is no call."""
    files = set()

    def see(frame, event, _):
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            files.add(frame.f_code.co_filename)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(each) for each in files)
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in paths
        if path.is_relative_to(PACKAGE)
    }


def command(*words):
    from tailproof.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tailproof", *map(str, words)])
        code = None
        try:
            main()
        except SystemExit as end:
            code = end.code
        assert code in (None, 0, 3, 4)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a one-step and a sequential log as CSV files, a table of new rows and a policy."""
    import pyarrow as pa
    from pyarrow import csv

    folder, rng = tmp_path_factory.mktemp("ways"), np.random.default_rng(0)
    names = np.array(["no", "mail"])
    age, sent = rng.integers(20, 80, 200), rng.integers(2, size=200)
    reward = sent * (age > 50) + rng.standard_t(3, 200)
    rows = {"x_age": age, "action": names[sent], "reward": reward, "propensity": np.full(200, 0.5)}
    place = np.arange(150)
    steps = {
        "episode": place // 5,
        "x_1": rng.normal(size=150),
        "action": names[rng.integers(2, size=150)],
        "reward": rng.standard_t(3, 150),
        "terminated": place % 5 == 4,
    }
    for name, table in {"rows": rows, "steps": steps, "new": {"x_age": age}}.items():
        csv.write_csv(pa.table(table), folder / f"{name}.csv")
    learned = tp.learn(folder / "rows.csv", method="policy-tree")
    learned.save(folder / "tree.tailproof")
    return folder


def neural(files):
    from tailproof.deep import Run

    run = Run(checkpoint=files / "runs", progress=False)
    settings = {"steps": 3, "policy_steps": 3, "hidden": (4,), "batch": 8, "run": run}
    row = tp.method("room-vm-iql", folds=2, **settings)
    return tp.learn(files / "steps.csv", method=row, gamma=0.9)


CALLS = {
    1: [lambda files: tp.read_log(files / "steps.csv")],
    2: [
        lambda files: tp.evaluate(files / "steps.csv", "always:mail", gamma=0.9),
        lambda files: tp.evaluate(files / "rows.csv", "always:mail"),
    ],
    3: [lambda files: tp.evaluate(files / "steps.csv", "uniform", gamma=0.9, method="roam-fqe")],
    4: [lambda files: str(tp.compare(files / "rows.csv", {"a": "always:mail", "b": "always:no"}))],
    5: [
        lambda files: tp.learn(files / "rows.csv", holdout=0.3),
        lambda files: tp.learn(files / "steps.csv", gamma=0.9),
        neural,
    ],
    6: [
        lambda files: command(
            *("diagnose", files / "steps.csv", "--policy", "always:mail", "--gamma", "0.9"),
            *("--report", files / "page.html"),
        )
    ],
    7: [
        lambda files: command(
            *("apply", files / "tree.tailproof", files / "new.csv", "--out", files / "done.csv")
        )
    ],
}


def test_there_are_seven_ways():
    assert ways().keys() == CALLS.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", CALLS)
def test_a_call_enters_the_modules_of_its_way(number, files):
    if number == 5:
        pytest.importorskip("torch")
    seen = set().union(*(entered(lambda call=call: call(files)) for call in CALLS[number]))
    assert ways()[number] - seen - SOMETIMES == set()
