"""Logs larger than memory, and more workers than one: speed against its own floor, memory, bits.

The floor is what no implementation can avoid: reading the columns from Parquet (with the checksums of
its pages verified, each column as often as the method needs it) plus the matrix products alone, on
numbers that are already there: no features, no folds, no policy. Times are those of opening the log
and evaluating it together, on one thread. Targets:

- 50 million CartPole transitions by FQE, ROAM-DM and pooled weights with an adaptive Huber mean: at
  least half as fast as the floor, below 1.5 GB, and time linear in n from 1 to 50 million;
- the same at 10 million transitions of 17 state variables, d = 308 features and K = 30 folds;
- a Ray cluster of three nodes whose workers are killed twice in the middle: the same bits;
- two workers of a core each at least 1.6 times as fast as one, on Ray and as local processes.

It also measures what a million rows cost against features and folds, for the guide.

    python -m benchmarks.scale [--quick] [--json] [--data FOLDER] [--only cartpole ...]

`--data` keeps the generated Parquet files (4 GB; 0.3 GB with `--quick`) for the next run.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.parts.options import parser as options_parser
from benchmarks.parts.options import print_json
from tailproof import Method, evaluate, method
from tailproof.io import read_log
from tailproof.noise import StudentT
from tailproof.parallel import Engine, Local
from tailproof.robust.means import AdaptiveHuber
from tailproof.worlds import CartPole

GAMMA, MILLION, STEPS = 0.99, 1_000_000, 100
WIDE = 17  # state variables: 1 + 17 + 136 features for each of two actions
PIECE = 32_768  # rows that are read at a time
METHODS: dict[str, Callable[[], Method]] = {
    "fqe": lambda: method("fqe"),
    "roam-dm": lambda: method("roam-dm"),
    "pooled weights": lambda: method("mis", mean=AdaptiveHuber()),
    **{
        f"roam-dm, K = {folds}": lambda folds=folds: method("roam-dm", folds=folds)
        for folds in (1, 5, 30)
    },
}
TARGETS: dict[str, tuple[float, str]] = {
    "of the floor's speed": (0.5, "at least"),
    "GB at the peak": (1.5, "at most"),
    "times as long a row": (1.25, "at most"),
    "times as fast as one": (1.6, "at least"),
    "same bits": (1, "at least"),
}
#: What the CartPole target does, to a good approximation and at next to no cost.
DIRECTION = np.array([0.9, 2.4, 23.0, 5.8])


def policy(states: np.ndarray) -> np.ndarray:
    return (states[:, :4] @ DIRECTION > 0).astype(int)


def generated(folder: Path, variables: int, millions: int) -> Path:
    """Return a folder with so many files of a million rows; those that are there are kept."""
    every = folder / f"of {variables}"
    some = folder / f"{millions} of {variables}"
    every.mkdir(parents=True, exist_ok=True)
    some.mkdir(exist_ok=True)
    for number in range(millions):
        file = every / f"{number:03}.parquet"
        if not file.exists():
            unfinished = file.with_suffix(".tmp")
            pq.write_table(_million(number, variables), unfinished, write_page_checksum=True)
            unfinished.rename(file)
        if not (some / file.name).exists():
            os.link(file, some / file.name)
    return some


def _million(number: int, variables: int) -> pa.Table:
    episodes = MILLION // STEPS
    log = CartPole().log(episodes=episodes, steps=STEPS, noise=StudentT(df=1.5), seed=number)
    rng = np.random.default_rng(number)
    columns = {"episode": log.episode_of_row + number * episodes}
    columns |= {f"x_{j}": log.states[:, j] for j in range(4)}
    columns |= {f"x_{j}": rng.normal(size=MILLION) for j in range(4, variables)}
    return pa.table(columns | {"action": log.actions.astype(np.int8), "reward": log.rewards})


def opened(folder: Path, engine: Engine | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last step of an episode has no next state
        return read_log(folder, lazy=True, engine=engine)


def measure(folder: Path, name: str) -> dict[str, float]:
    """Return how long opening and evaluating took, the peak of memory, and the value."""
    chosen = METHODS[name]()
    evaluate(opened(folder.parent / "warm"), policy, method=chosen, gamma=GAMMA, logged=False)
    began = time.perf_counter()
    log = opened(folder)
    was_open = time.perf_counter()
    value = evaluate(log, policy, method=chosen, gamma=GAMMA, logged=False).value
    return {
        "seconds": time.perf_counter() - began,
        "opening": was_open - began,
        "bytes": peak_memory(),
        "value": value,
    }


def peak_memory() -> int:
    """Return the most bytes that this process had in memory: its own, not those of its parent."""
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def floor(folder: Path, name: str) -> dict[str, float]:
    """Return how long reading and the products take by themselves."""
    files = sorted(folder.glob("*.parquet"))
    variables = len(pq.read_schema(files[0]).names) - 3
    states = [f"x_{j}" for j in range(variables)]
    passes = [["episode", *states, "action", "reward"]]
    if name == "pooled weights":
        passes.append([*states, "action", "reward"])
    width = 1 + variables + variables * (variables - 1) // 2
    rng = np.random.default_rng(0)
    psi, after = rng.normal(size=(2, width, PIECE))
    gram, cross = np.zeros((2, width, width))
    moment, values = np.zeros(width), 0.0
    began = time.perf_counter()
    for number, columns in enumerate(passes):
        for file in files:
            stream = pq.ParquetFile(file, page_checksum_verification=True)
            batches = stream.iter_batches(batch_size=PIECE, columns=columns, use_threads=False)
            for batch in batches:
                rewards = [column.to_numpy() for column in batch.columns][-1]
                inner, following = psi[:, : len(rewards)], after[:, : len(rewards)]
                if number == 0:
                    gram += inner @ inner.T
                    cross += inner @ following.T
                    moment += inner @ rewards
                else:
                    values += (moment @ inner) @ rewards
    return {"seconds": time.perf_counter() - began}


def elsewhere(what: str, folder: Path, name: str) -> dict[str, float]:
    """Measure in a process of its own, so that its peak of memory is that of the run alone."""
    command = [sys.executable, __file__, "--measure", what, str(folder), name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def against_the_floor(folder: Path, sizes: list[int], variables: int, names: list[str]) -> Results:
    """Measure each method at each size, and the floor at the largest."""
    results: Results = {}
    warm(folder, variables)
    for name in names:
        nanoseconds = {}
        for millions in sizes:
            data = generated(folder, variables, millions)
            repeats = 3 if millions < 10 else 2
            runs = [elsewhere("run", data, name) for _ in range(repeats)]
            best = min(runs, key=lambda run: run["seconds"])
            nanoseconds[millions] = 1e3 * best["seconds"] / millions
            label = f"{name}, {millions} million rows"
            results[f"{label}: ns a row"] = nanoseconds[millions]
            results[f"{label}: of which opening"] = 1e3 * best["opening"] / millions
            results[f"{label}: GB at the peak"] = max(run["bytes"] for run in runs) / 1e9
            if millions == sizes[-1]:
                lowest = min(elsewhere("floor", data, name)["seconds"] for _ in range(2))
                results[f"{label}: ns a row of the floor"] = 1e3 * lowest / millions
                results[f"{label}: of the floor's speed"] = lowest / best["seconds"]
            if millions > sizes[0]:
                results[f"{label}: times as long a row as {sizes[0]} million"] = (
                    nanoseconds[millions] / nanoseconds[sizes[0]]
                )
    return results


def cost(folder: Path, sizes: list[int], most: int) -> Results:
    """Measure what a million rows more cost against features and folds: no targets."""
    results: Results = {}
    for variables in sizes:
        warm(folder, variables)
        data = [generated(folder, variables, millions) for millions in (1, most)]
        features = 2 * (1 + variables + variables * (variables - 1) // 2)
        for folds in (1, 5, 30):
            name = f"roam-dm, K = {folds}"
            one, many = ([elsewhere("run", each, name) for _ in range(2)] for each in data)
            times = [min(run["seconds"] for run in runs) for runs in (one, many)]
            label = f"d = {features}, K = {folds}, {variables} state variables"
            slope = (times[1] - times[0]) / (most - 1)
            results[f"{label}: seconds a million"] = slope
            results[f"{label}: seconds besides"] = times[0] - slope
            results[f"{label}: GB of memory"] = max(run["bytes"] for run in many) / 1e9
        size = sum(file.stat().st_size for file in data[0].iterdir())
        results[f"{variables} state variables: bytes a row on disk"] = size / MILLION
    return results


def warm(folder: Path, variables: int) -> None:
    """Write a small log that imports and caches are warmed up with."""
    target = folder / "warm"
    target.mkdir(exist_ok=True)
    first = generated(folder, variables, 1) / "000.parquet"
    table = next(pq.ParquetFile(first).iter_batches(batch_size=20_000))
    pq.write_table(pa.Table.from_batches([table]), target / "warm.parquet")


Results = dict[str, float]


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """Start Ray with nodes of one core each on this machine; the driver's has none."""
    import ray
    from ray.cluster_utils import Cluster

    sizes = {"object_store_memory": 200 * 2**20}
    found = Cluster(initialize_head=True, head_node_args={**sizes, "num_cpus": 0})
    for _ in range(nodes):
        found.add_node(**sizes, num_cpus=1)
    ray.init(found.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def killed_workers(folder: Path, millions: int) -> Results:
    """Kill two of three workers when each has begun its second part, and compare the bits."""
    from tailproof.parallel import Ray

    data = generated(folder, 4, millions)
    log, chosen = opened(data), METHODS["roam-dm"]()
    wanted = evaluate(log, policy, method=chosen, gamma=GAMMA, logged=False)
    with tempfile.TemporaryDirectory() as notes, cluster(3):
        driver, killed = os.getpid(), []

        def noted(states: np.ndarray) -> np.ndarray:
            if os.getpid() != driver:
                with open(f"{notes}/{os.getpid()}", "a") as file:
                    file.write(".")
            return policy(states)

        def kill() -> None:
            while len(killed) < 2:
                for file in Path(notes).iterdir():
                    if len(killed) < 2 and file.stat().st_size > 40:  # more pieces than a part has
                        os.kill(int(file.name), signal.SIGKILL)
                        file.unlink()
                        killed.append(file.name)
                time.sleep(0.05)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        found = evaluate(
            log, noted, method=chosen, gamma=GAMMA, logged=False, engine=Ray(retries=5)
        )
        assert len(killed) == 2, "The run was over before its workers were killed."
    same = found.value == wanted.value and np.array_equal(found.fold_values, wanted.fold_values)
    return {f"Ray, {millions} million rows, two workers of three killed: same bits": float(same)}


def two_workers(folder: Path, variables: int, millions: int, repeats: int) -> Results:
    """Compare two workers with one, opening and evaluating: the best of some runs of each."""
    from tailproof.parallel import Ray

    data, small = generated(folder, variables, millions), folder / "warm"
    warm(folder, variables)

    def seconds(engine: Engine) -> float:
        best = np.inf
        for where in (small, *[data] * repeats):
            began = time.perf_counter()
            log = opened(where, engine)
            evaluate(
                log, policy, method=METHODS["roam-dm"](), gamma=GAMMA, logged=False, engine=engine
            )
            if where is data:
                best = min(best, time.perf_counter() - began)
        return best

    results: Results = {}
    for label, make in (("local processes", _processes), ("Ray workers", cluster)):
        times = []
        for workers in (1, 2):
            with make(workers) as engine:
                times.append(seconds(engine if isinstance(engine, Engine) else Ray()))
        what = f"two {label}, {millions} million rows of {variables} variables"
        results[f"{what}: times as fast as one"] = times[0] / times[1]
    return results


def _processes(workers: int) -> Local:
    return Local(workers=workers, kind="processes")


def missed_targets(results: Results) -> dict[str, str]:
    """Return the results that have a target and miss it, with the target."""
    missed = {}
    for name, value in results.items():
        for words, (bound, side) in TARGETS.items():
            if words in name and (value < bound if side == "at least" else value > bound):
                missed[name] = f"{side} {bound:g}"
    return missed


def main() -> int:
    if sys.argv[1:2] == ["--measure"]:
        what, folder, name = sys.argv[2:]
        run = {"run": measure, "floor": floor}[what]
        print(json.dumps(run(Path(folder), name)))
        return 0
    parser = options_parser(__doc__, quick="up to 5 million rows")
    parser.add_argument("--data", type=Path, help="a folder for the data, kept for the next run")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("cartpole", "wide", "killed", "workers", "cost"),
        help="some parts",
    )
    options = parser.parse_args()
    quick = options.quick
    three = ["fqe", "roam-dm", "pooled weights"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        parts: dict[str, Callable[[], Results]] = {
            "cartpole": lambda: against_the_floor(
                folder, [1, 5] if quick else [1, 10, 50], 4, three
            ),
            "wide": lambda: against_the_floor(
                folder, [1] if quick else [1, 10], WIDE, ["roam-dm, K = 30"]
            ),
            "killed": lambda: killed_workers(folder, 5 if quick else 50),
            "cost": lambda: cost(folder, [4] if quick else [4, 10, 17], 5),
            "workers": lambda: (
                two_workers(folder, WIDE, 2, 2)
                if quick
                else two_workers(folder, 4, 20, 6) | two_workers(folder, WIDE, 10, 2)
            ),
        }
        results: Results = {}
        with redirect_stdout(sys.stderr):  # where Ray tells of workers that died
            for name in options.only or parts:
                results |= parts[name]()
    missed = missed_targets(results)
    if options.json:
        print_json({"results": results, "missed": missed})
    else:
        for name, value in results.items():
            print(f"{name:70} {value:9.3f}  {'MISSED: ' + missed[name] if name in missed else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
