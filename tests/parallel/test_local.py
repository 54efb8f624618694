"""One machine: the same result however many workers, and nobody is left behind."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
import types
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tailproof import evaluate, learn, method
from tailproof.errors import EngineError, EngineWarning, LogError, StorageError
from tailproof.noise import StudentT
from tailproof.parallel import Local, Ray, as_engine, on_threads, running
from tailproof.progress import staged
from tailproof.robust.means import AdaptiveHuber
from tailproof.worlds import CartPole


@pytest.fixture(scope="module")
def processes():
    with Local(workers=2, kind="processes") as engine:
        yield engine


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.integers(1, 4))
def test_results_are_combined_from_first_to_last(numbers, workers):
    total = numbers[0]
    for each in numbers[1:]:
        total = total + each
    engine = Local(workers=workers)
    assert engine.map_reduce(float, numbers, operator.add) == total
    assert engine.map(str, numbers) == list(map(str, numbers))


@pytest.mark.parametrize("shared", ["x", "y"])
def test_processes_combine_in_the_same_order(processes, tmp_path, shared):
    def task(shared, item):
        while item == 0 and not (tmp_path / "3").exists():  # the first to begin ends last
            time.sleep(0.01)
        (tmp_path / f"{item}").touch()
        return f"{shared}{item}"

    wanted = "".join(f"{shared}{item}" for item in range(6))
    assert processes.map_reduce(task, range(6), operator.add, shared=shared) == wanted


METHODS = [
    "roam-dm",
    "roam-dr",
    method("roam-fqe", iterations=4),
    method("mis", mean=AdaptiveHuber(), unit="episode"),
]


@pytest.mark.parametrize("chosen", METHODS, ids=str)
def test_every_engine_gives_the_same_bits(chosen, cartpole, processes, monkeypatch):
    monkeypatch.setattr("tailproof.log.log.PART", 600)
    log = cartpole.log(episodes=40, steps=60, noise=StudentT(df=1.5), seed=2)
    target = cartpole.target()
    runs = [
        evaluate(log, target, method=chosen, gamma=0.9, engine=engine)
        for engine in (None, "local", Local(workers=3), processes)
    ]
    for run in runs[1:]:
        assert run.value == runs[0].value
        assert np.array_equal(run.fold_values, runs[0].fold_values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_errors_of_tasks_come_through(kind, processes):
    engine = processes if kind == "processes" else Local(workers=2)
    with pytest.raises(ZeroDivisionError):
        engine.map(lambda x: 1 / x, [1, 2, 0, 3])
    with pytest.raises(LogError, match="no good"):
        engine.map(lambda x: (_ for _ in ()).throw(LogError("no good")), [1, 2])
    assert engine.map(lambda x: x + 1, [1, 2]) == [2, 3]


@pytest.mark.parametrize("error", [StorageError, OSError, ConnectionError])
def test_failures_of_storage_are_tried_again(error, tmp_path):
    def flaky(x):
        marker = tmp_path / f"{x}"
        if not marker.exists():
            marker.touch()
            raise error("a bad moment")
        return x

    assert Local().map(flaky, [1, 2]) == [1, 2]
    with pytest.raises(error, match="a bad moment"):
        Local(retries=0).map(flaky, [3])


def test_what_is_wrong_with_the_data_is_not_tried_again(tmp_path):
    calls = []

    def wrong(x):
        calls.append(x)
        raise LogError("not a log")

    with pytest.raises(LogError):
        Local(retries=5).map(wrong, [1])
    assert calls == [1]


def test_a_task_whose_worker_is_killed_is_done_again(tmp_path, processes):
    marker = tmp_path / "died"

    def dies_once(x):
        if x == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.float64(x) / 7

    items = list(range(8))
    wanted = Local().map_reduce(lambda x: np.float64(x) / 7, items, operator.add)
    assert processes.map_reduce(dies_once, items, operator.add) == wanted
    assert marker.exists()


@pytest.mark.slow
def test_a_task_that_always_kills_its_worker_is_given_up(processes):
    with pytest.raises(
        EngineError, match=r"died 3 times at task \d of 2 or one soon after .*SIGKILL\(-9\)"
    ):
        processes.map(lambda x: x and os.kill(os.getpid(), signal.SIGKILL), [0, 1])
    assert processes.map(abs, [-1]) == [1]


def test_closing_or_abandoning_ends_the_workers(tmp_path, wait_until):
    engine = Local(workers=2, kind="processes")

    def task(x):
        (tmp_path / f"{os.getpid()} {x}").touch()
        time.sleep(x)
        return os.getpid()

    def busy():
        return [int(each.name.split()[0]) for each in tmp_path.glob("* 3600")]

    results = engine.results(task, [0, 3600, 3600, 3600])
    first = next(results)
    assert alive(first)
    wait_until(lambda: len(busy()) == 2)
    results.close()  # two tasks of an hour are under way
    wait_until(lambda: not any(map(alive, busy())))
    engine.close()
    assert not alive(first)
    assert len(busy()) == 2
    assert engine.map(abs, [-2]) == [2]
    engine.close()


SCRIPT = """
import os, signal, sys, time
from tailproof.parallel import Local

def task(x):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(3600)

signal.signal(signal.SIGINT, signal.default_int_handler)
Local(workers=2, kind=sys.argv[2]).map(task, range(4))
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_after_an_interrupt_or_a_kill(end, tmp_path, wait_until):
    """A script without a main guard, ended from outside in the middle of its tasks."""
    script, notes = tmp_path / "script.py", tmp_path / "pids"
    script.write_text(SCRIPT.replace("sys.argv[1]", repr(str(notes))))
    run = subprocess.Popen(
        [sys.executable, script, "-", "processes"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: notes.exists() and len(notes.read_text().split()) == 2)
    pids = [int(pid) for pid in notes.read_text().split()]
    assert all(map(alive, pids))
    assert run.pid not in pids
    os.kill(run.pid, end)
    run.wait()
    wait_until(lambda: not any(map(alive, pids)))


def test_engines_by_name():
    assert as_engine(None).workers == 1
    assert as_engine("local").workers == os.cpu_count()
    given = Local(workers=3)
    assert as_engine(given) is given
    with running(given) as engine:
        assert engine is given
    with pytest.raises(EngineError, match=r"engine must be 'local', 'ray', or an engine"):
        as_engine("spark")
    with pytest.raises(EngineError, match="kind must be 'threads' or 'processes'"):
        Local(kind="fibres")
    with pytest.raises(EngineError, match="workers must be a whole number of at least 0"):
        Local(workers=-1)


@pytest.mark.slow
def test_a_backend_of_joblib_serves_whoever_has_set_it(cartpole):
    log, target = cartpole.log(episodes=10, steps=20, seed=0), cartpole.target()
    wanted = evaluate(log, target, method="roam-dm", gamma=0.9)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert os.getpid() not in Local().map(lambda _: os.getpid(), range(4))
        assert evaluate(log, target, method="roam-dm", gamma=0.9).value == wanted.value
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):  # cannot stream results
        assert Local().map(abs, [-1, -2, -3]) == [1, 2, 3]
    assert Local().map(lambda _: os.getpid(), range(2)) == [os.getpid()] * 2
    Local(kind="processes").close()


def test_a_worker_keeps_what_it_cached_in_the_shared_value(processes):
    class Cache:
        calls = 0

    def count(shared, _):
        shared.calls += 1
        return os.getpid(), shared.calls

    cache = Cache()
    found = [each for _ in range(2) for each in processes.map(count, range(4), shared=cache)]
    for worker in {pid for pid, _ in found}:  # whichever worker a task comes to
        calls = sorted(each for pid, each in found if pid == worker)
        assert calls == list(range(1, len(calls) + 1))
    assert len(found) == 8
    assert cache.calls == 0


@pytest.mark.parametrize("address", [None, "host:6379"])
def test_a_cluster_on_this_machine_alone_says_what_its_start_took(monkeypatch, address):
    started = []
    fake = types.SimpleNamespace(
        is_initialized=lambda: False, init=lambda **given: started.append(given["address"])
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        Ray(address=address)._connect()
    assert started == [address]
    assert [each.category for each in heard] == ([EngineWarning] if address is None else [])


def test_compiled_functions_run_on_the_threads_of_the_engine_in_use():
    def named(item):
        return item, threading.current_thread()

    assert on_threads(named, [1, 2]) == [(1, threading.main_thread()), (2, threading.main_thread())]
    with running(2) as engine:
        found = on_threads(named, range(5))
        assert [item for item, _ in found] == [*range(5)]
        assert threading.main_thread() not in {thread for _, thread in found}
        for items in engine.map(
            lambda _: on_threads(named, [1, 2]), [0, 1]
        ):  # none of a thread's own
            assert len({thread for _, thread in items}) == 1


def test_matrix_products_of_a_door_use_one_thread():
    @staged("Looking")
    def door():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        assert set(door()) == {1}


@pytest.mark.slow
def test_trees_are_the_same_on_any_number_of_threads():
    log = CartPole().log(episodes=30, noise=StudentT(df=2), seed=0)
    first, second = (
        learn(log, method="forest-fqi", gamma=0.9, n_jobs=jobs).policy(log.states)
        for jobs in (1, 2)
    )
    assert (first == second).all()
