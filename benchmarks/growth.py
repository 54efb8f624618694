"""How time and memory grow with a log: rows, columns, actions, policies, folds, episode length.

    python -m benchmarks.growth [--quick] [--only rows ...] [--json]

Each point is a process of its own on one thread. Seconds are CPU time of the call, memory is the peak
of the process. The exponent is the slope of log(seconds) over log(size) between the last two points: 1
is linear. A point that ends with an error shows its message; `--limit` sets the memory that the
operating system grants a process (RLIMIT_AS): the end is then a message, never a killed machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from time import process_time
from typing import Any

ROWS, LENGTH = 10_000, 20


def one_step_log(rows: int = ROWS, columns: int = 5) -> Any:
    """Return a one-step log of three actions with skewed rewards."""
    import numpy as np

    from tailproof import Log

    rng = np.random.default_rng(rows + columns)
    x, action = rng.normal(size=(rows, columns)), rng.integers(3, size=rows)
    buys = rng.random(rows) < 0.3 + 0.1 * action
    spend = buys * rng.lognormal(1 + 0.3 * action * (x[:, 0] < 0), 1.2, rows)
    ended, shares = np.ones(rows, dtype=bool), np.full(rows, 1 / 3)
    return Log.from_arrays(
        x, action, spend, x, episode=np.arange(rows), terminated=ended, propensity=shares
    )


def steps_log(rows: int = ROWS, *, columns: int = 6, actions: int = 2, length: int = LENGTH) -> Any:
    """Return a log of several steps with heavy-tailed rewards."""
    import numpy as np

    from tailproof import Log

    rng, episodes = np.random.default_rng(rows + columns), rows // length
    x = np.empty((episodes, length + 1, columns))
    x[:, 0] = rng.normal(size=(episodes, columns))
    taken = rng.integers(actions, size=(episodes, length))
    for step in range(length):
        x[:, step + 1] = 0.8 * x[:, step] + 0.4 * rng.normal(size=(episodes, columns))
        x[:, step + 1, 0] += 0.3 * (2 * (taken[:, step] % 2) - 1)
    rewards = x[:, :-1, 0] * (2 * (taken % 2) - 1) + rng.standard_t(2.5, taken.shape)
    return Log.from_arrays(
        x[:, :-1].reshape(-1, columns),
        taken.ravel(),
        rewards.ravel(),
        x[:, 1:].reshape(-1, columns),
        episode=np.repeat(np.arange(episodes), length),
        terminated=np.tile(np.arange(length) == length - 1, episodes),
        propensity=np.full(episodes * length, 1 / actions),
    )


class Rule:
    """A stochastic policy over three actions; each threshold makes another one."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def probabilities(self, states: Any) -> Any:
        """Return π(a | s), (n, 3)."""
        import numpy as np

        return np.where(states[:, :1] < self.threshold, [[0.1, 0.1, 0.8]], [[0.2, 0.6, 0.2]])


def _right(states: Any) -> Any:
    return (states[:, 0] > 0).astype(int)


def _evaluate(logged: Any, size: int, **settings: Any) -> None:  # noqa: ARG001
    import tailproof as tp

    policy = _right if logged.n_transitions > logged.n_episodes else Rule(0.0)
    tp.evaluate(logged, policy, gamma=0.9, **settings)


def _folds(logged: Any, size: int) -> None:
    import tailproof as tp

    tp.evaluate(logged, _right, gamma=0.9, method=tp.method("roam-fqe", folds=size))


def _compare(logged: Any, size: int) -> None:
    import tailproof as tp

    tp.compare(logged, {f"rule {i}": Rule(2 * i / size - 1) for i in range(size)})


def _learn(logged: Any, size: int) -> None:  # noqa: ARG001
    import tailproof as tp

    tp.learn(logged, gamma=0.9 if logged.n_transitions > logged.n_episodes else None)


@dataclass(frozen=True)
class Axis:
    """What grows, what is done with it, and the sizes."""

    log: Callable[[int], Any]
    call: Callable[[Any, int], None]
    sizes: tuple[int, ...]


AXES = {
    "rows, one-step": Axis(one_step_log, _evaluate, (10_000, 100_000, 1_000_000)),
    "rows, sequential": Axis(steps_log, _evaluate, (10_000, 30_000, 100_000)),
    "rows, learn one-step": Axis(one_step_log, _learn, (3_000, 10_000, 100_000)),
    "rows, learn sequential": Axis(steps_log, _learn, (3_000, 10_000, 100_000)),
    "columns, one-step": Axis(partial(one_step_log, ROWS), _evaluate, (10, 50, 200)),
    "columns, sequential": Axis(lambda n: steps_log(columns=n), _evaluate, (10, 50, 200)),
    "actions, sequential": Axis(lambda n: steps_log(actions=n), _evaluate, (10, 100, 300, 1_000)),
    "policies, one-step": Axis(lambda _: one_step_log(), _compare, (3, 10, 50)),
    "folds, roam-fqe": Axis(lambda _: steps_log(), _folds, (5, 10, 11, 30)),
    "steps of an episode": Axis(lambda n: steps_log(length=n), _evaluate, (5, 20, 100)),
}


def run_point(name: str, size: int, limit: float) -> None:
    """Measure one point in this process, and print its CPU seconds and memory as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (int(limit * 2**30),) * 2)
    warnings.simplefilter("ignore")
    axis = AXES[name]
    (_compare if axis.call is _compare else _evaluate)(one_step_log(200), 1)  # imports
    given = axis.log(size)
    began = process_time()
    axis.call(given, size)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"size": size, "seconds": process_time() - began, "memory": used}))


def measure(name: str, size: int, limit: float) -> dict[str, Any]:
    """Run one point in a process of its own; return its numbers, or why it failed."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, str(Path(__file__).resolve()), "--limit", str(limit)]
    done = subprocess.run(
        [*command, "--point", name, str(size)],
        env={**os.environ, **single},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"size": size, "failed": said[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exponent(points: list[dict[str, Any]]) -> float:
    """Return the slope of log(seconds) over log(size) between the last two points."""
    known = [each for each in points if "seconds" in each]
    if len(known) < 2:
        return float("nan")
    first, last = known[-2:]
    return log(last["seconds"] / first["seconds"]) / log(last["size"] / first["size"])


def main() -> int:
    """Measure every axis, and print a table or JSON."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="without the largest size")
    options.add_argument("--only", nargs="+", default=[], help="parts of the axes' names")
    options.add_argument("--limit", type=float, default=8.0, help="GB that a process may take")
    options.add_argument("--json", action="store_true", help="print JSON to standard output")
    options.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.point is not None:
        run_point(given.point[0], int(given.point[1]), given.limit)
        return 0
    found = {}
    for name, axis in AXES.items():
        if given.only and not any(part in name for part in given.only):
            continue
        sizes = axis.sizes[:-1] if given.quick else axis.sizes
        found[name] = [measure(name, size, given.limit) for size in sizes]
        if not given.json:
            cells = [
                f"{each['size']:,}: {each['failed']}"
                if "failed" in each
                else f"{each['size']:,}: {each['seconds']:.2f} s, {each['memory']:.0f} MB"
                for each in found[name]
            ]
            print(
                f"{name:24} {' | '.join(cells)} | exponent {exponent(found[name]):.2f}", flush=True
            )
    if given.json:
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
