"""Kills at random moments and damaged files: nothing is lost, made up, or a traceback.

Runs of deep learning, of an experiment, of the battery and over a mapped log are killed (SIGKILL) at
random moments, several times in a row, and started again: the result must be that of a run nobody
disturbed, to the last bit. Files of every format are damaged (bits, bytes, cuts, insertions): reading
one must end in an error of ours, or in an answer; for formats with checksums, in the same answer.

    python -m benchmarks.faults                    # 100 kills, 10,000 damaged files of each format
    python -m benchmarks.faults --quick            # 4 kills, 60 files of each
    python -m benchmarks.faults --out folder       # goes on where it was stopped

Exit code 1 if anything was lost, made up, or ended in a traceback or a crash.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DAMAGE = Path(__file__).resolve().parents[1] / "tests" / "damage.py"
sys.path.insert(0, str(DAMAGE.parent))

from damage import FORMATS, SEALED  # noqa: E402

IN_A_ROW = 3  # kills before a run may end
BATCH = 500  # damaged files that one process reads
WORKLOADS = {
    "deep": """
from tailproof import Mean, Method, Split, learn
from tailproof.deep import IQL, Run
from tailproof.worlds import CartPole
run = Run(threads=1, checkpoint=folder / "deep", checkpoint_every=50, log_every=500, progress=False)
base = IQL(steps=1200, policy_steps=600, hidden=(16, 16), batch=64, run=run)
log = CartPole().log(episodes=20, steps=30, seed=0)
row = Method(base=base, partition=Split(2), aggregate=Mean(), at="pointwise")
learned = learn(log, method=row, gamma=0.9)
answer = learned.policy.stack.flat.numpy().tobytes() + learned.members.q.flat.numpy().tobytes()
""",
    "mapped": """
import tailproof.checkpoint, tailproof.io.mapped, tailproof.log.log
from tailproof import evaluate, method
from tailproof.parallel import Local
from tailproof.io import read_log
from tailproof.worlds import CartPole
tailproof.checkpoint._SAVE_EVERY = 0.0
tailproof.io.mapped.PART = tailproof.log.log.PART = 500
world = CartPole()
if not (folder / "log.parquet").exists():
    world.log(episodes=120, steps=40, seed=0).to_parquet(folder / "log.parquet")
chosen = method("roam-fqe", iterations=40)
engine = Local(checkpoint=folder / "progress")
log = read_log(folder / "log.parquet", lazy=True, cache=folder / "cache")
found = evaluate(log, world.target(), method=chosen, gamma=0.9, engine=engine)
answer = found.fold_values.tobytes()
""",
    "bench": """
from benchmarks.battery.cells import Setting
from benchmarks.battery.entrants import Named
from benchmarks.battery.run import Battery, run
from tailproof.methods.catalogue import method
entrants = {name: Named(method(name)) for name in ("lstd", "roam-variant")}
settings = (Setting("linear", "fair", 500), Setting("tabular", "good", 500))
battery = Battery(entrants=entrants, settings=settings, noises=("Gaussian", "Pareto 1.5"),
                  stories=(), replicates=12)
found = run(battery, record=folder / "record.jsonl")
answer = b"".join(each.values.tobytes() for each in found.cells().values())
""",
    "reproduce": """
from reproduction.command import reproduce
out = folder / "out"
reproduce(["bandit"], quick=True, replicates=3, jobs=1, out=out, progress=False)
answer = (out / "bandit.parquet").read_bytes() + (out / "bandit.json").read_bytes()
""",
}
FRAME = """
import hashlib, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
{work}
(folder / "answer").write_text(hashlib.sha256(answer).hexdigest())
"""


def started(name: str, folder: Path) -> subprocess.Popen[bytes]:
    code = FRAME.format(work=WORKLOADS[name])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finished(name: str, folder: Path) -> tuple[str, str]:
    """Run a workload to its end; return its answer, and what it complained of."""
    _, said = started(name, folder).communicate()
    answer = folder / "answer"
    return (answer.read_text() if answer.exists() else "none"), said.decode()[-300:]


def kill_runs(kills: int, state: dict[str, Any], save: Any) -> list[str]:
    """Kill runs until so many kills are done; return what was lost."""
    wanted: dict[str, str] = {}
    lasts: dict[str, float] = {}
    names = list(WORKLOADS)
    while state["kills"] < kills:
        trial = state["trials"]
        name = names[trial % len(names)]
        if name not in wanted:
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                wanted[name], said = finished(name, Path(folder))
                lasts[name] = time.monotonic() - began
                if wanted[name] == "none":
                    return [f"{name} does not run: {said}"]
        draw = random.Random(f"kill {trial}")
        with tempfile.TemporaryDirectory() as folder:
            done = 0
            for _ in range(min(IN_A_ROW, kills - state["kills"])):
                process = started(name, Path(folder))
                try:
                    process.wait(draw.uniform(0.2, 1.0) * lasts[name])
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    done += 1
                process.communicate()
                if (Path(folder) / "answer").exists():
                    break
            found, said = finished(name, Path(folder))
        state["kills"] += done
        state["trials"] += 1
        state["by_workload"][name] = state["by_workload"].get(name, 0) + done
        if found != wanted[name]:
            state["misses"].append(
                f"{name}, trial {trial}: another answer after {done} kills. {said}"
            )
        save()
    return list(state["misses"])


def probe(name: str, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Damage and read so many files of a format in a process of its own; a crash is a finding."""
    outcomes: dict[str, int] = {}
    misses: list[str] = []
    place = first
    while place < first + count:
        command = [sys.executable, str(DAMAGE), name]
        command += [str(place), str(first + count - place), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            outcomes[line["outcome"]] = outcomes.get(line["outcome"], 0) + 1
            if line["outcome"] in ("traceback", "made up"):
                misses.append(f"{name}, file {line['number']}: {line['outcome']}: {line['said']}")
        place += len(lines)
        if place < first + count:  # the process ended before it had read them all
            misses.append(f"{name}, file {place}: the process ended, {done.stderr[-200:]}")
            outcomes["crash"] = outcomes.get("crash", 0) + 1
            place += 1
    return {"outcomes": outcomes, "misses": misses}


def damage(files: int, state: dict[str, Any], save: Any) -> list[str]:
    """Damage files of every format until so many are done; return what was wrong."""
    for first in range(0, files, BATCH):
        for name in FORMATS:
            known = state.setdefault(name, {"done": 0, "outcomes": {}, "misses": []})
            if known["done"] > first:
                continue
            count = min(BATCH, files - first)
            with tempfile.TemporaryDirectory() as folder:
                found = probe(name, first, count, Path(folder))
            known["done"] += count
            known["misses"] += found["misses"]
            for outcome, number in found["outcomes"].items():
                known["outcomes"][outcome] = known["outcomes"].get(outcome, 0) + number
            save()
    return [each for known in state.values() for each in known["misses"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 kills, 60 files of each format")
    parser.add_argument("--kills", type=int, help="how many kills in all")
    parser.add_argument("--files", type=int, help="how many damaged files of each format")
    parser.add_argument("--out", type=Path, help="a folder for progress: a stopped run goes on")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    kills = chosen.kills if chosen.kills is not None else (4 if chosen.quick else 100)
    files = chosen.files if chosen.files is not None else (60 if chosen.quick else 10_000)
    state: dict[str, Any] = {
        "killed": {"kills": 0, "trials": 0, "by_workload": {}, "misses": []},
        "damaged": {},
    }
    progress = None if chosen.out is None else chosen.out / "faults.json"
    if progress is not None and progress.exists():
        state = json.loads(progress.read_text())

    def save() -> None:
        if progress is not None:
            progress.parent.mkdir(parents=True, exist_ok=True)
            part = progress.with_suffix(".part")
            part.write_text(json.dumps(state, indent=1))
            part.replace(progress)

    misses = kill_runs(kills, state["killed"], save) + damage(files, state["damaged"], save)
    record = {**state, "sealed_formats": sorted(SEALED), "misses": misses}
    if chosen.json:
        print(json.dumps(record, indent=1))
    else:
        killed = state["killed"]
        print(f"{killed['kills']} kills in {killed['trials']} runs, {killed['by_workload']}")
        for name, known in state["damaged"].items():
            print(f"{name}: {known['done']} damaged files, {known['outcomes']}")
        print(f"{len(misses)} misses")
        for each in misses[:50]:
            print(f"  {each}")
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
