"""A real Ray cluster of three nodes that loses workers and a node, and the result to the last bit."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

import tailproof.log.log
from tailproof import evaluate
from tailproof.errors import EngineError, LogError
from tailproof.io import read_log, write_log
from tailproof.noise import StudentT
from tailproof.parallel import Ray

ray = pytest.importorskip("ray")
# Ray leaves its own pipes and sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    sizes = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    # A node that is gone is noticed soon, and one that is slow to answer is not taken for gone.
    checks = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
    checks |= {"health_check_initial_delay_ms": 0, "health_check_timeout_ms": 60_000}
    head = {**sizes, "include_dashboard": False, "_system_config": checks}
    found = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        found.add_node(**sizes, wait=False)
    found.wait_for_nodes()
    ray.init(found.address, log_to_driver=False, logging_level=logging.ERROR)
    yield found
    ray.shutdown()
    found.shutdown()


def test_two_workers_and_a_node_are_lost_and_no_bit_changes(
    cluster, cartpole, tmp_path, monkeypatch, wait_until
):
    monkeypatch.setattr(tailproof.log.log, "PART", 500)
    log = cartpole.log(episodes=100, steps=50, noise=StudentT(df=1.5), seed=0)
    write_log(log, tmp_path / "log.parquet")
    lazy = read_log(split_up(tmp_path / "log.parquet"), lazy=True)
    assert len(lazy.parts) == 10
    direction, folder = np.array([0.1, 0.3, 1.0, 0.3]), tmp_path
    head = cluster.head_node.node_id

    def policy(states):
        """Choose by a line; twice kill the worker it is asked on, once its node."""
        here = ray.is_initialized() and ray.get_runtime_context()
        if here and here.worker.mode == ray.WORKER_MODE:
            for name in ("worker 1", "worker 2", "node"):
                if name == "node" and here.get_node_id() == head:
                    while not (folder / name).exists():  # leave some work to the other nodes
                        time.sleep(0.05)
                try:
                    (folder / name).touch(exist_ok=False)
                except FileExistsError:
                    continue
                if name == "node":
                    os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
        return (states @ direction > 0).astype(int)

    wanted = evaluate(lazy, policy, method="roam-dm", gamma=0.95, seed=1)
    found = evaluate(lazy, policy, method="roam-dm", gamma=0.95, seed=1, engine=Ray(retries=5))
    assert found.value == wanted.value
    assert np.array_equal(found.fold_values, wanted.fold_values)
    assert {each.name for each in tmp_path.iterdir()} >= {"worker 1", "worker 2", "node"}
    # The cluster may learn of it later than we.
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)


def split_up(path):
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path), path, row_group_size=250)
    return path


POLICY = """
import os
import signal
import time
import numpy as np
from pathlib import Path

def policy(states):
    if len(states) > 100:
        died = Path(__file__).with_name("died")
        if {dies} and os.environ.get("RAY_RAYLET_PID") and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(Path(__file__).with_name("calls"), "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep({pause})
    return (states @ np.array([0.1, 0.3, 1.0, 0.3]) > 0).astype(int)
"""


#: Tests that run in the background inherit that interrupts are ignored; a person's command does not.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from tailproof.cli import main
main()
"""


def command(folder, *words, pause=0.0, dies=False):
    """Start `tailproof evaluate` on the log in a folder, as a person would."""
    (folder / "mine.py").write_text(POLICY.format(pause=pause, dies=dies))
    words = ["evaluate", "log.parquet", "--policy", "mine.py:policy", "--gamma", "0.5", *words]
    return subprocess.Popen(
        [sys.executable, "-c", START, *words, "--lazy", "--method", "roam-dm"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address},
        text=True,
    )


@pytest.fixture
def folder(cartpole, tmp_path):
    log = cartpole.log(episodes=100, steps=50, noise=StudentT(df=1.5), seed=0)
    split_up(write_log(log, tmp_path / "log.parquet"))
    return tmp_path


def test_the_command_line_finds_the_cluster(cluster, folder):
    """One of its workers dies, and what Ray says about that is not in the answer."""
    here = command(folder, "--json=full", dies=True)
    there = command(folder, "--json=full", "--engine", "ray", "--address", "auto", dies=True)
    values = []
    for run in (here, there):
        out, err = run.communicate()
        assert run.returncode in (0, 3), err  # better, or no difference shown
        values.append(json.loads(out)["fold_values"])
    assert values[0] == values[1]
    assert (folder / "died").exists()


def test_an_interrupt_ends_the_tasks_and_writes_nothing(cluster, folder, wait_until):
    words = ["--engine", "ray", "--address", "auto", "--report", "page.html"]
    run = command(folder, *words, pause=3600)
    wait_until(lambda: (folder / "calls").exists() or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    os.kill(run.pid, signal.SIGINT)
    err = run.communicate()[1]
    assert run.returncode == 130
    assert "Interrupted." in err
    written = {each.name for each in folder.iterdir()} - {"__pycache__"}  # Python's, of mine.py
    assert written == {"log.parquet", "mine.py", "calls"}
    workers = (folder / "calls").read_text().split()
    wait_until(lambda: not any(map(busy, workers)))


def busy(pid):
    """Return whether a worker is at a task of ours."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_run")
    return False


def test_errors_and_order(cluster, monkeypatch):
    engine = Ray(retries=1)
    assert engine.map(lambda shared, x: shared * x, range(7), shared=2) == list(range(0, 14, 2))

    def wrong(x):
        raise LogError(f"{x} is no log")

    with pytest.raises(LogError, match=r"^1 is no log$"):
        engine.map(wrong, [1, 2, 3])
    module = types.ModuleType("only_here")
    exec("def task(x):\n    return x", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(
        EngineError,
        match=r"could not be read by its worker: .*No module named 'only_here'\. Every node needs",
    ):
        engine.map(module.task, [1])
    with pytest.raises(EngineError, match="lost with its workers more often than it is retried"):
        engine.map(lambda x: os.kill(os.getpid(), signal.SIGKILL), [1])


def test_stopping_cancels_what_is_under_way(cluster, tmp_path, wait_until):
    engine = Ray()

    def slow(x):
        (tmp_path / f"started {x} {os.getpid()}").touch()
        time.sleep(3600.0 * bool(x))
        (tmp_path / f"ended {x}").touch()

    results = engine.results(slow, range(12))
    next(results)
    wait_until(lambda: len(list(tmp_path.glob("started*"))) >= 2)
    results.close()
    # Ray asks again after two seconds if a task was just beginning.
    wait_until(
        lambda: not any(busy(each.name.split()[2]) for each in tmp_path.glob("started [!0]*"))
    )
    assert [each.name for each in tmp_path.glob("ended*")] == ["ended 0"]
    assert len(list(tmp_path.glob("started*"))) < 5


def test_no_cluster_at_an_address_is_said(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refuse(**_):
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(EngineError, match=r"No Ray cluster answers at '10\.0\.0\.1:6379'"):
        Ray(address="10.0.0.1:6379").map(abs, [1])
