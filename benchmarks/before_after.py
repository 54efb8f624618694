"""Is it slower or larger than before? CPU seconds and memory of two source trees, in turns.

    python -m benchmarks.before_after --before OLD/src --after src [--quick] [--only PATTERN ...]
    python -m benchmarks.before_after --before OLD/src --record benchmarks/results/speed.jsonl
    python -m benchmarks.before_after --table            # the recorded tasks, as docs/scale.md has them

Every task runs in a process of its own with one thread, once for each tree and repetition, so
that both trees meet the same load. Seconds are CPU time, the least of all repetitions:
of the whole process (with start-up and reading), and of the call alone, after a small call has
imported what it needs. Memory is the peak. With `--record`, a task that the file holds is not run
again, and `--table` writes the file's tasks into docs/scale.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import RLIMIT_AS, RUSAGE_CHILDREN, RUSAGE_SELF, getrusage, setrlimit
from typing import Any

ROWS, MANY = 10_000, 1_000_000
RESULTS = Path(__file__).parent / "results" / "speed.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- tasks before and after -->", "<!-- end of tasks -->"
MEMORY = 8 * 2**30  # bytes that the operating system grants a task
UNASKED = "not asked"
READING = {"state": ["age", "days", "x_0", "x_1"], "action": "offer", "reward": "spend"}
KNOWN = {**READING, "propensity": "propensity", "episode": False}
UNKNOWN = {**READING, "propensity": False, "episode": False}


def make_logs(*, quick: bool) -> None:
    """Write the logs of the tasks to the current folder."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv, parquet

    def rows(n: int) -> pa.Table:
        rng = np.random.default_rng(n)
        x, age = rng.normal(size=(n, 2)), rng.normal(45, 12, n).round(1)
        days, action = rng.exponential(30, n).round(2), rng.integers(3, size=n)
        buys = rng.random(n) < 0.3 + 0.1 * action
        spend = buys * rng.lognormal(1 + 0.3 * action * (age < 40), 1.2, n)
        columns = {"age": age, "days": days, "x_0": x[:, 0], "x_1": x[:, 1], "spend": spend}
        labels = np.array(["none", "email", "voucher"])[action]
        return pa.table({**columns, "offer": labels, "propensity": np.full(n, 1 / 3)})

    small = rows(ROWS)
    parquet.write_table(small, "rows.parquet")
    csv.write_csv(small, "rows.csv")
    if not quick:
        large = rows(MANY)
        parquet.write_table(large, "many.parquet")
        csv.write_csv(large, "many.csv")
    rng, length = np.random.default_rng(1), 20
    x = np.empty((ROWS // length, length + 1, 6))
    x[:, 0] = rng.normal(size=(len(x), 6))
    actions = rng.integers(2, size=(len(x), length))
    for step in range(length):
        x[:, step + 1] = 0.8 * x[:, step] + 0.4 * rng.normal(size=(len(x), 6))
        x[:, step + 1, 0] += 0.3 * (2 * actions[:, step] - 1)
    rewards = x[:, :-1, 0] * (2 * actions - 1) + rng.standard_t(2.5, actions.shape)
    columns = {"episode": np.repeat(np.arange(len(x)), length), "action": actions.ravel()}
    columns |= {"reward": rewards.ravel(), "propensity": np.full(ROWS, 0.5)}
    columns |= {f"x_{j}": x[:, :-1, j].ravel() for j in range(6)}
    columns |= {f"next_x_{j}": x[:, 1:, j].ravel() for j in range(6)}
    columns["terminated"] = np.tile(np.arange(length) == length - 1, len(x))
    parquet.write_table(pa.table(columns), "steps.parquet")


def _read(name: str, **reading: Any) -> Any:
    import tailproof as tp

    return tp.read_log(name, **reading)


def _steps() -> Any:
    return _read("steps.parquet", state="x_*", next_state="next_x_*", episode="episode")


def _rows(*, many: bool = False, known: bool = True) -> Any:
    name = "many.parquet" if many else "rows.parquet"
    return _read(name, **(KNOWN if known else UNKNOWN))


def _steps_of(rows: int = ROWS, **sizes: int) -> Any:
    from growth import steps_log  # beside this file

    return steps_log(rows, **sizes)


def _rows_of(rows: int = ROWS, columns: int = 5) -> Any:
    from growth import one_step_log

    return one_step_log(rows, columns)


def _right(states: Any) -> Any:
    return (states[:, 0] > 0).astype(int)


class _Rule:
    """A stochastic policy; each threshold makes another one."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def probabilities(self, states: Any) -> Any:
        """Return π(a | s), (n, 3)."""
        import numpy as np

        young = states[:, :1] < self.threshold
        return np.where(young, [[0.1, 0.1, 0.8]], [[0.2, 0.6, 0.2]])


def _evaluate_steps(log: Any) -> None:
    import tailproof as tp

    tp.evaluate(log, _right, gamma=0.9).to_dict()


def _evaluate_rows(log: Any) -> None:
    import tailproof as tp

    tp.evaluate(log, _Rule(40)).to_dict()


def _compare(count: int, log: Any) -> None:
    import tailproof as tp

    tp.compare(log, {f"rule {i}": _Rule(30 + 30 * i / count) for i in range(count)}).to_dict()


def _learn(gamma: float | None, log: Any) -> None:
    import tailproof as tp

    tp.learn(log, gamma=gamma)


def _diagnose(policy: Any, gamma: float | None, log: Any) -> None:
    import tailproof as tp

    tp.diagnose(log, policy, gamma=gamma)


def _networks(log: Any) -> None:
    import tailproof as tp

    tp.learn(log, method=tp.method("room-vm-iql", steps=300, policy_steps=300), gamma=0.9)


def _command(*words: str) -> None:
    from tailproof.cli import main

    sys.argv = ["tailproof", *words]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            main()
        except SystemExit as end:
            if end.code not in (None, 0):
                raise RuntimeError(f"tailproof {' '.join(words)} ended with {end.code}") from end
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


def _evaluated(file: str, *words: str) -> None:
    columns = ("--state", "age,days,x_0,x_1", "--action", "offer", "--reward", "spend")
    asked = ("--policy", "always:voucher", "--episode", "-", "--propensity", "propensity")
    _command("evaluate", file, *columns, *asked, *words)


def _report(file: str) -> None:
    _evaluated(file, "--report", "report.html")


@dataclass(frozen=True)
class Task:
    """What to measure: a log to make, which is not timed by itself, and the call."""

    name: str
    call: Callable[..., Any]
    log: Callable[[], Any] | None = None
    many: bool = False  # whether it needs the million rows
    target: float | None = None  # the ratio of the call's seconds that is asked for
    begins: bool = False  # whether imports are part of what is measured
    compared: bool = True  # whether the tree before is measured too


#: The cheapest task, also run first, untimed: it compiles the modules of a tree.
WARM_UP = Task("help of the command", partial(_command, "--help"), target=0.7, begins=True)
TASKS = (
    Task("evaluate, sequential, 10⁴ x 6", _evaluate_steps, _steps),
    Task("evaluate, one-step, 10⁴", _evaluate_rows, _rows),
    Task("evaluate, one-step, 10⁶", _evaluate_rows, partial(_rows, many=True), many=True),
    *(
        Task(f"compare {count}, one-step, 10⁴{said}", partial(_compare, count), log, target=target)
        for count, target in ((3, None), (10, 0.21), (50, 0.11))
        for said, log in (("", _rows), (", no propensities", partial(_rows, known=False)))
    ),
    *(
        Task(f"learn, {kind}, {said}", partial(_learn, gamma), log, target=target)
        for kind, gamma, said, log, target in (
            ("one-step", None, "10⁴", _rows, 0.49),
            ("one-step", None, "10⁵", partial(_rows_of, 10 * ROWS), 0.23),
            ("one-step", None, "200 columns", partial(_rows_of, ROWS, 200), 0.24),
            ("sequential", 0.9, "10⁴", _steps, 0.62),
            ("sequential", 0.9, "10⁵", partial(_steps_of, 10 * ROWS), 0.33),
        )
    ),
    *(
        Task(
            f"evaluate, sequential, {said}",
            _evaluate_steps,
            partial(_steps_of, **sizes),
            compared=said == "300 actions",  # the others took all memory
        )
        for said, sizes in (
            ("200 columns", {"columns": 200}),
            ("300 actions", {"actions": 300}),
            ("1,000 actions", {"actions": 1_000}),
        )
    ),
    Task(
        "compare 100, one-step, 10⁶",
        partial(_compare, 100),
        partial(_rows, many=True),
        many=True,
        compared=False,
    ),
    Task("diagnose, one-step, 10⁴", partial(_diagnose, _Rule(40), None), _rows),
    Task("diagnose, sequential, 10⁴", partial(_diagnose, _right, 0.9), _steps),
    Task("command, evaluate, 10⁴", partial(_evaluated, "rows.parquet"), target=0.6, begins=True),
    Task("report, one-step, 10⁴", partial(_report, "rows.parquet"), begins=True),
    Task("report, one-step, 10⁶", partial(_report, "many.parquet"), many=True),
    Task("read CSV, 10⁴", partial(_read, "rows.csv", **KNOWN)),
    Task("read CSV, 10⁶", partial(_read, "many.csv", **KNOWN), many=True),
    Task("read Parquet, 10⁶", partial(_read, "many.parquet", **KNOWN), many=True),
    WARM_UP,
    Task("IQL, K = 5, 300 steps", _networks, _steps),
)


def run_task(name: str) -> None:
    """Run one task in this process, and print the CPU seconds of its call."""
    import warnings

    warnings.simplefilter("ignore")
    setrlimit(RLIMIT_AS, (MEMORY, MEMORY))
    task = next(each for each in TASKS if each.name == name)
    given = () if task.log is None else (task.log(),)
    if given and not task.begins:
        _evaluate_rows(_rows_of(200))  # imports
    began = _cpu(RUSAGE_SELF) + _cpu(RUSAGE_CHILDREN)
    task.call(*given)
    print(json.dumps(_cpu(RUSAGE_SELF) + _cpu(RUSAGE_CHILDREN) - began))


def _cpu(who: int) -> float:
    used = getrusage(who)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Used:
    """What a process used: CPU seconds in all and of the call, and the peak of its memory in MB."""

    seconds: float
    call: float
    memory: float

    def least(self, other: Used) -> Used:
        """Return the smaller of each."""
        return Used(*map(min, zip(vars(self).values(), vars(other).values(), strict=True)))


def measure(task: Task, source: Path) -> Used | str:
    """Run a task with a source tree in a process of its own; return its last line if it fails."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **single, "PYTHONPATH": str(source)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # only the first process compiles
    command = [sys.executable, str(Path(__file__).resolve()), "--task", task.name]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, complaints = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if process.returncode:
        return (complaints.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return Used(used.ru_utime + used.ru_stime, json.loads(out), used.ru_maxrss / 1024)


def recorded(path: Path) -> dict[str, list[Used | str]]:
    """Return what tasks used before and after, or how they failed, as kept in a file."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {
        name: [each if isinstance(each, str) else Used(**each) for each in both]
        for name, both in lines
    }


def table(found: dict[str, list[Used | str]]) -> str:
    """Return the tasks in Markdown: seconds of the call before and after, their ratio, memory."""
    lines = [
        "| task | CPU seconds before | now | ratio | asked | GB at the peak |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for task in TASKS:
        if len(both := found.get(task.name, [])) != 2:
            continue
        before, after = both
        seconds = ["–" if isinstance(each, str) else f"{each.call:.1f}" for each in both]
        ratio = asked = "–"
        if not isinstance(before, str) and not isinstance(after, str):
            ratio = f"{after.call / before.call:.2f}"
        if task.target is not None:
            asked = f"{task.target:.2f}"
        peak = after if isinstance(after, str) else f"{after.memory / 1024:.2f}"
        lines.append(f"| {task.name} | {seconds[0]} | {seconds[1]} | {ratio} | {asked} | {peak} |")
    return "\n".join(lines)


def write_table(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def row(name: str, both: list[Used | str]) -> str:
    """Return the measured numbers of a task, before and after, with their ratios."""
    cells = []
    both = [each for each in both if each != UNASKED]
    for each in both:
        if isinstance(each, str):
            return f"{name:40} {each}"
    for of, digits in (("seconds", 2), ("call", 2), ("memory", 0)):
        first, *others = (getattr(each, of) for each in both if not isinstance(each, str))
        cell = f"{first:.{digits}f}"
        if others:
            ratio = others[0] / first if first else float("nan")
            cell += f" → {others[0]:.{digits}f} ({ratio:.2f})"
        cells.append(cell)
    return f"{name:40} {cells[0]:>22} {cells[1]:>22} {cells[2]:>20}"


def main() -> int:
    """Measure both trees in turns, and print a table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = Path(__file__).resolve().parents[1] / "src"
    options.add_argument(
        "--before", type=Path, help="a source tree (the folder that has tailproof)"
    )
    options.add_argument("--after", type=Path, default=own, help="another; that of this file")
    options.add_argument("--quick", action="store_true", help="without the million rows, once")
    options.add_argument("--repeat", type=int, default=2, help="times that each task runs")
    options.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help="parts of names")
    options.add_argument("--json", action="store_true", help="print JSON to standard output")
    options.add_argument("--record", type=Path, help="a file from which a stopped run goes on")
    options.add_argument("--table", action="store_true", help="write what is recorded to the docs")
    options.add_argument("--task", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.task is not None:
        run_task(given.task)
        return 0
    if given.table:
        write_table(PAGE, table(recorded(given.record or RESULTS)))
        return 0
    trees = [each.resolve() for each in (given.before, given.after) if each is not None]
    record = None if given.record is None else given.record.resolve()
    known = {} if record is None else recorded(record)
    tasks = [
        task
        for task in TASKS
        if task.name not in known
        and not (given.quick and task.many)
        and (not given.only or any(fnmatch.fnmatch(task.name, f"*{each}*") for each in given.only))
    ]
    found: dict[str, list[Used | str]] = {}
    if not given.json:
        print(f"{'task':40} {'CPU seconds':>22} {'of the call':>22} {'peak MB':>20}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_logs(quick=not any(task.many for task in tasks))
        for tree in trees:
            measure(WARM_UP, tree)
        for task in tasks:
            best = [
                measure(task, tree) if task.compared or tree == trees[-1] else UNASKED
                for tree in trees
            ]
            for _ in range(given.repeat - 1 if task.compared and not given.quick else 0):
                best = [
                    now
                    if isinstance(least, str) or isinstance(now := measure(task, tree), str)
                    else now.least(least)
                    for tree, least in zip(trees, best, strict=True)
                ]
            found[task.name] = best
            if record is not None:
                plain_row = [each if isinstance(each, str) else vars(each) for each in best]
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([task.name, plain_row], ensure_ascii=False) + "\n")
            if not given.json:
                print(row(task.name, best), flush=True)
        os.chdir("/")
    if given.json:
        plain = {
            name: [each if isinstance(each, str) else vars(each) for each in both]
            for name, both in found.items()
        }
        print(json.dumps(plain, indent=1, ensure_ascii=False))
    failed = (isinstance(both[-1], str) for both in found.values())
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
