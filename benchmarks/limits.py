"""Time and memory that must not be passed: a large CSV, a wide comparison, and starting at all.

Every measurement is a process of its own; CPU seconds are user and system together. Exit code 1 if a
limit is passed.

    python -m benchmarks.limits            # a million rows
    python -m benchmarks.limits --quick    # a hundred thousand rows, limits to match
    python -m benchmarks.limits --memory 1 2 4 [--rows 2000000]

With `--memory`, every command runs on logs of one step and of ten, while the operating system grants it
so many gigabytes (RLIMIT_AS): it must end with an answer, or with a message and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WRITE = """
import sys
import numpy as np, pyarrow as pa
from pyarrow import csv
n, rng = int(sys.argv[2]), np.random.default_rng(0)
ids = np.array([f"u{i}" for i in range(n // 10)])[np.repeat(np.arange(n // 10), 10)]
table = {
    "episode": ids, "step": np.tile(np.arange(10), n // 10),
    "x_a": rng.standard_normal(n).round(4), "x_b": rng.standard_normal(n).round(4),
    "action": np.array(["hold", "buy"])[rng.integers(2, size=n)],
    "reward": rng.standard_t(1.5, n).round(4), "terminated": np.tile(np.arange(10) == 9, n // 10),
}
csv.write_csv(pa.table(table), sys.argv[1])
"""
COMPARE = """
import sys, warnings
import numpy as np
from tailproof import Log, compare
warnings.simplefilter("ignore")
n, rng = int(sys.argv[1]), np.random.default_rng(0)
states, actions = rng.standard_normal((n, 2)), rng.integers(2, size=n)
rewards = actions * states[:, 0] + rng.standard_t(2, n)
log = Log.from_arrays(
    states, actions, rewards, states, episode=np.arange(n), terminated=np.ones(n, bool)
)
policies = {f"p{i}": (lambda s, i=i: (s[:, 0] > (i - 50) / 50).astype(int)) for i in range(100)}
compare(log, policies)
"""
COMMAND = "from tailproof.cli import main; main()"
TABLES = """
import sys
import numpy as np, pyarrow as pa
from pyarrow import parquet
n, rng = int(sys.argv[1]), np.random.default_rng(0)
x, action = rng.standard_normal((n, 4)).round(3), rng.integers(3, size=n)
states = {f"x_{j}": x[:, j] for j in range(4)}
reward = np.where(rng.random(n) < 0.3, rng.lognormal(1 + 0.3 * action, 1.2, n), 0).round(2)
shared = states | {"action": np.array(["none", "email", "voucher"])[action], "reward": reward}
shared |= {"new": np.where(x[:, 0] < 0, "email", "voucher"), "propensity": np.full(n, 1 / 3)}
parquet.write_table(pa.table(shared), "one.parquet", row_group_size=200_000)
steps = {"episode": np.arange(n) // 10, "terminated": np.arange(n) % 10 == 9}
parquet.write_table(pa.table(shared | steps), "ten.parquet", row_group_size=200_000)
parquet.write_table(pa.table(shared).slice(0, 2000), "few.parquet")
"""
STATES = (
    "--state",
    "x_*",
    "--action",
    "action",
    "--reward",
    "reward",
    "--propensity",
    "propensity",
)
ONE = ("one.parquet", *STATES, "--episode", "-")
TEN = ("ten.parquet", *STATES, "--episode", "episode", "--gamma", "0.9")
COMMANDS = (
    ("evaluate", *ONE, "--policy", "always:email"),
    ("evaluate", *ONE, "--policy", "column:new", "--method", "snips"),
    ("evaluate", *ONE, "--policy", "always:email", "--report", "report.html"),
    ("evaluate", *TEN, "--policy", "always:email"),
    ("evaluate", *TEN, "--policy", "always:email", "--method", "roam-dm"),
    ("compare", *ONE, "--policy", "a=always:email", "--policy", "b=column:new"),
    ("compare", *TEN, "--policy", "a=always:email", "--policy", "b=uniform"),
    ("diagnose", *ONE, "--policy", "always:email"),
    ("diagnose", *TEN),
    ("plan", *ONE, "--rows", "5000"),
    ("learn", *ONE),
    ("learn", *TEN),
    ("learn", *TEN, "--method", "room-fqi"),
    ("apply", "policy.tailproof", "one.parquet", "--out", "decided.parquet"),
)


def measured(code: str, *words: object) -> tuple[float, float]:
    """Return the CPU seconds and the most gigabytes of a process."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words or code[:60]} ended with {os.waitstatus_to_exitcode(status)}.")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _UNIT / 1e9


def under(limit: float, folder: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """Return how a command ends that may take so many gigabytes, its last line, its time and peak."""
    allowed = int(limit * 2**30)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TAILPROOF_CACHE": "cache", "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed)),
    )
    assert process.stdout is not None
    said = process.stdout.read().strip().splitlines()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    answered = code in (0, 3, 4)
    ends = "an answer" if answered else "a message" if code == 2 else f"KILLED or failed ({code})"
    return {
        "command": " ".join(words),
        "limit": limit,
        "ends": ends,
        "said": "" if answered else " ".join(said[-3:]),
        "seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "gigabytes": round(usage.ru_maxrss * _UNIT / 1e9, 2),
    }


def memory(limits: list[float], rows: int) -> int:
    """Print how every command ends under each limit; return how many neither answer nor say why."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", TABLES, str(rows)], cwd=folder, check=True)
        teach = ("learn", "few.parquet", *ONE[1:], "--method", "policy-tree")
        teach += ("--out", "policy.tailproof")
        under(8, folder, teach)
        for words in COMMANDS:
            for limit in limits:
                found = under(limit, folder, words)
                failed += found["ends"] not in ("an answer", "a message")
                print(json.dumps(found), flush=True)
    return failed


_UNIT = 1 if sys.platform == "darwin" else 1024


def fastest(code: str, *words: object) -> float:
    """Return the least CPU seconds of five processes: others that share the cores only add."""
    return min(measured(code, *words)[0] for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundred thousand rows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--memory", nargs="+", type=float, help="gigabytes granted to commands")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the logs with --memory")
    chosen = parser.parse_args()
    if chosen.memory:
        return min(memory(chosen.memory, chosen.rows), 1)
    rows = 100_000 if chosen.quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        measured(WRITE, path, rows)
        words = ("evaluate", path, "--policy", "always:buy", "--gamma", 0.9)
        seconds = measured(COMMAND, *words)[0]
    found = {
        f"CPU seconds to evaluate a CSV of {rows} rows": (seconds, 15 if rows == 1_000_000 else 5),
        f"GB to compare 100 policies on {rows} episodes": (measured(COMPARE, rows)[1], 2.0),
        "CPU seconds of import tailproof": (fastest("import tailproof"), 0.5),
        "CPU seconds of tailproof --help": (fastest(COMMAND, "--help"), 0.7),
    }
    record = {
        name: {"found": round(value, 3), "limit": limit} for name, (value, limit) in found.items()
    }
    exceeded = [name for name, (value, limit) in found.items() if value > limit]
    if chosen.json:
        print(json.dumps({"limits": record, "exceeded": exceeded}, indent=1))
    else:
        for name, each in record.items():
            print(
                f"{name}: {each['found']} of {each['limit']}{' MISSED' if name in exceeded else ''}"
            )
    return 1 if exceeded else 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise SystemExit(main())
