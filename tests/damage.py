"""Files of every format that is read back, damaged, and what reading one of them ends in.

`benchmarks/faults.py` runs this in a process of its own: FORMAT FIRST COUNT FOLDER. It prints a JSON
line for each file.
"""

from __future__ import annotations

import json
import operator
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tailproof import Log, PerAction, Polynomial, evaluate, learn, load_policy, method
from tailproof.errors import TailproofError
from tailproof.io import read_log

sys.path.append(str(Path(__file__).parents[1]))  # for the battery, when run as a script
MEMORY = 6 << 30  # bytes of address space: more is a bomb that went off
SECONDS = 60


def rows() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = 60
    return {
        "episode": [f"e{i // 4}" for i in range(n)],
        "step": np.arange(n) % 4,
        "x_1": rng.normal(size=n).round(3),
        "x_2": ["u", "v"] * (n // 2),
        "action": np.array(["buy", "hold"])[rng.integers(2, size=n)],
        "reward": rng.standard_t(2, n).round(3),
        "terminated": np.arange(n) % 4 == 3,
        "propensity": np.full(n, 0.5),
    }


def small_log() -> Log:
    rng = np.random.default_rng(1)
    states = rng.normal(size=(40, 2))
    return Log.from_arrays(
        states,
        rng.integers(2, size=40),
        rng.normal(size=40),
        states + 0.1,
        episode=np.repeat(np.arange(10), 4),
        state_names=["a", "b"],
    )


def write_csv(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    csv.write_csv(pa.table(rows()), path)


def write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(rows()), path, row_group_size=20)


def write_feather(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import feather

    feather.write_feather(pa.table(rows()), str(path))


def write_hdf5(path: Path) -> None:
    import h5py

    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["observations"] = rng.normal(size=(40, 2))
        file["actions"] = rng.integers(2, size=40)
        file["rewards"] = rng.normal(size=40)
        file["terminals"] = np.arange(40) % 4 == 3
        file["timeouts"] = np.zeros(40, dtype=bool)


def write_json(path: Path) -> None:
    import pyarrow as pa

    lines = (json.dumps(row) for row in pa.table(rows()).to_pylist())
    path.write_text("".join(f"{line}\n" for line in lines))


def write_excel(path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    table = rows()
    for row in (tuple(table), *zip(*table.values(), strict=True)):
        book.active.append([each.item() if isinstance(each, np.generic) else each for each in row])
    book.save(path)


def write_sqlite(path: Path) -> None:
    import sqlite3
    from contextlib import closing

    table = rows()
    plain = [np.asarray(values).tolist() for values in table.values()]
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(f"CREATE TABLE log ({', '.join(table)})")
        marks = ", ".join("?" * len(table))
        base.executemany(f"INSERT INTO log VALUES ({marks})", list(zip(*plain, strict=True)))


def write_duckdb(path: Path) -> None:
    import duckdb
    import pyarrow as pa

    with duckdb.connect(str(path)) as base:
        base.register("given", pa.table(rows()))
        base.execute("CREATE TABLE log AS SELECT * FROM given")


def write_mapped(path: Path) -> None:
    """Write the rewards of a log in the cache of converted logs."""
    source = path.with_suffix(".parquet")
    write_parquet(source)
    read_log(source, lazy=True, cache=path.with_suffix(".cache"))
    path.write_bytes(_mapped_rewards(path).read_bytes())


def _mapped_rewards(path: Path) -> Path:
    (file,) = path.with_suffix(".cache").glob("*/rewards")
    return file


def read_mapped(path: Path) -> bytes:
    _mapped_rewards(path).write_bytes(path.read_bytes())
    cache = path.with_suffix(".cache")
    return total(read_log(path.with_suffix(".parquet"), lazy=True, cache=cache))


def first_action(states: Any) -> Any:
    return np.zeros(len(states), dtype=int)


def total(log: Any) -> bytes:
    """Return a number that depends on every part of a log."""
    if log.n_actions * len(log.state_names) > 300:  # another log, and a slow one
        return b"wide"
    plain = PerAction(Polynomial(degree=1), len(log.state_names), log.n_actions)
    found = evaluate(log, first_action, method=method("lstd", features=plain), gamma=0.0)
    if not np.isfinite(found.value):
        raise AssertionError("the value is not finite")
    return np.float64(found.value).tobytes()


def read_in_memory(path: Path) -> bytes:
    return total(read_log(path))


def read_lazily(path: Path) -> bytes:
    with TemporaryDirectory() as cache:
        return total(read_log(path, lazy=True, cache=cache))


def learned_policy() -> Any:
    return learn(small_log(), method="room-vm", gamma=0.5)


STATES = np.random.default_rng(2).normal(size=(50, 2))


def read_policy(path: Path) -> bytes:
    policy = load_policy(path)
    names = [*getattr(policy, "state_names", ()), *(getattr(policy, "action_labels", ()) or ())]
    return np.asarray(policy(STATES)).astype(np.int64).tobytes() + " ".join(names).encode()


def write_progress(path: Path) -> None:
    folder = path.with_suffix(".folder")
    summed(folder)
    (made,) = folder.iterdir()
    path.write_bytes(made.read_bytes())


def summed(folder: Path) -> bytes:
    from tailproof.parallel import Local

    engine = Local(checkpoint=folder)
    found: Any = engine.map_reduce(squares, [1, 2, 3], operator.add)
    return np.asarray(found).tobytes()


def squares(item: int) -> Any:
    return np.arange(30.0) ** item


def read_progress(path: Path) -> bytes:
    folder = path.with_suffix(".folder")
    (made,) = folder.iterdir()
    made.write_bytes(path.read_bytes())
    return summed(folder)


def read_journal(path: Path) -> bytes:
    from reproduction.journal import Journal

    with Journal(path, {"name": "x"}) as journal:
        for key in ("a", "b", "c"):
            if key not in journal:
                journal.append(key, [{"value": ord(key) / 7}])
        return json.dumps({key: journal[key] for key in ("a", "b", "c")}).encode()


def read_record(path: Path) -> bytes:
    from benchmarks.battery.cells import Setting
    from benchmarks.battery.run import Battery, run

    battery = Battery(
        entrants={"mean": mean_reward},
        settings=(Setting("linear", "fair", 500),),
        noises=("Gaussian",),
        stories=(),
        replicates=3,
    )
    cells = run(battery, record=path).cells()
    return b"".join(each.values.tobytes() for each in cells.values())


def mean_reward(problem: Any, *, seed: int) -> float:
    return float(problem.log.rewards.mean())


Format = tuple[str, Callable[[Path], Any], Callable[[Path], bytes]]
FORMATS: dict[str, Format] = {
    "csv": ("log.csv", write_csv, read_in_memory),
    "parquet": ("log.parquet", write_parquet, read_in_memory),
    "parquet left on disk": ("lazy.parquet", write_parquet, read_lazily),
    "feather": ("log.feather", write_feather, read_in_memory),
    "json lines": ("log.jsonl", write_json, read_in_memory),
    "excel": ("log.xlsx", write_excel, read_in_memory),
    "sqlite": ("log.sqlite", write_sqlite, read_in_memory),
    "duckdb": ("log.duckdb", write_duckdb, read_in_memory),
    "mapped columns": ("mapped.npy", write_mapped, read_mapped),
    "hdf5": ("log.hdf5", write_hdf5, read_in_memory),
    "log of ours": ("own.parquet", lambda path: small_log().to_parquet(path), read_in_memory),
    "policy": ("policy.tp", lambda path: learned_policy().save(path), read_policy),
    "onnx": ("policy.onnx", lambda path: learned_policy().policy.save(path), read_policy),
    "progress": ("pass.progress", write_progress, read_progress),
    "journal": ("journal.jsonl", read_journal, read_journal),
    "bench record": ("record.jsonl", read_record, read_record),
}
#: Formats with checksums over all that they say: a damaged file never gives another answer.
SEALED = {"policy", "onnx", "progress", "journal", "bench record", "mapped columns"}


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return the bytes of a file after one to four accidents."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        size = len(changed)
        at = draw.randrange(size) if size else 0
        kind = draw.choice(["flip", "flip", "byte", "cut", "insert", "delete", "zero", "repeat"])
        if kind == "flip" and size:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == "byte" and size:
            changed[at] = draw.randrange(256)
        elif kind == "cut" and draw.random() < 0.3:
            del changed[at:]
        elif kind == "insert":
            changed[at:at] = draw.randbytes(draw.randint(1, 8))
        elif kind == "delete":
            del changed[at : at + draw.randint(1, 8)]
        elif kind == "zero":
            changed[at : at + 8] = bytes(len(changed[at : at + 8]))
        else:
            changed[at:at] = changed[at : at + draw.randint(1, 64)]
    return bytes(changed)


def outcome(read: Callable[[Path], bytes], path: Path, whole: bytes, *, sealed: bool) -> Any:
    """Return what reading a file ends in, and what was said."""
    try:
        found = read(path)
    except TailproofError as error:
        return "refused", str(error)[:200]
    except Exception:
        return "traceback", traceback.format_exc()[-400:]
    if found == whole:
        return "same", ""
    return ("made up" if sealed else "another log"), ""


def main() -> None:
    name, first, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    file, write, read = FORMATS[name]
    path = folder / file
    for old in folder.glob(f"{path.stem}*"):
        if old.is_file():
            old.unlink()
    write(path)
    whole = path.read_bytes()
    answer = read(path)
    for number in range(first, first + count):
        path.write_bytes(damaged(whole, random.Random(f"{name} {number}")))
        signal.alarm(SECONDS)
        what, said = outcome(read, path, answer, sealed=name in SEALED)
        signal.alarm(0)
        print(json.dumps({"number": number, "outcome": what, "said": said}), flush=True)


if __name__ == "__main__":
    main()
